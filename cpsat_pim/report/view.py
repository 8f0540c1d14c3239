"""The data that the HTML page shows: plain data, all computed here, so that the page only draws.

A result's layers refer to `details` by number; layers of equal shape and mapping share one entry.
"""

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from attrs import evolve, frozen

from cpsat_pim.arch import PIMArchitecture
from cpsat_pim.base.dims import Dim, Direction, Level, Tensor
from cpsat_pim.evaluate.cost import Prediction, energy_parts_fj, predict
from cpsat_pim.evaluate.verify import record
from cpsat_pim.mapper.explain.bounds import find_bounds
from cpsat_pim.mapping import Mapping
from cpsat_pim.mapping.check import box_elems, check_mapping
from cpsat_pim.mapping.dataflow import classify_dataflow
from cpsat_pim.mapping.loop_nest import format_bound
from cpsat_pim.report.format import format_choice, format_layouts, format_machine
from cpsat_pim.report.jsonfile import build_result
from cpsat_pim.workload import ConvWorkload
from tracesim.timeline import Timeline

#: The dims along the two sides of a tensor's picture: across, down.
_SIDES = {
    Tensor.I: ((Dim.P, Dim.Q, Dim.R, Dim.S), (Dim.N, Dim.G, Dim.C)),
    Tensor.W: ((Dim.C, Dim.R, Dim.S), (Dim.G, Dim.K)),
    Tensor.O: ((Dim.P, Dim.Q), (Dim.N, Dim.G, Dim.K)),
}
Loop = tuple[str, int, str]


def build_view(document: dict[str, Any], source: str, has_maps: bool = True) -> dict[str, Any]:
    """Convert a document of schema 1 to the page's data; `source` is the file's name. `has_maps`: with the activations
    of DRAM rows, for which simulated layers are simulated again.

    Raises:
        ValueError: something in it is missing, malformed or illegal; lines `<source>: ...`.
    """
    result = build_result(source, document)
    details = _Details(source, result["arch"], has_maps)
    return {
        "network": result["network"],
        "arch": format_machine(result["arch"]),
        "clock": result["arch"].clock,
        "static_power": result["arch"].static_power or 0,
        "objective": result["objective"].to_dict(),
        "source": Path(source).name,
        "totals": result["totals"],
        "layers": [_layer_view(entry, details) for entry in result["layers"]],
        "details": details.views,
        "pareto": [_front_view(front) for front in result.get("pareto", ())],
        "shared": format_choice(result["shared"]) if "shared" in result else None,
    }


def _layer_view(entry: dict[str, Any], details: "_Details") -> dict[str, Any]:
    """Build a row of the table."""
    layer = evolve(entry["shape"], name=entry["name"])
    return {
        "name": layer.name,
        **{key: entry[key] for key in ("count", "status", "gap", "solve_seconds")},
        "shape": _shape_text(layer),
        "bytes": [*layer.width_bytes, layer.psum_bytes],
        "macs": layer.useful_macs,
        "progress": entry.get("progress", ()),
        "detail": None if entry["mapping"] is None else details.number(layer, entry),
    }


def _front_view(front: dict[str, Any]) -> dict[str, Any]:
    """Build the view of a Pareto front: its axes and its points."""
    return front | {"points": [{"label": None, "status": None} | point for point in front["points"]]}


def _shape_text(layer: ConvWorkload) -> str:
    """Bounds above 1, with their padding, and stride and dilation where there are any."""
    bounds = " ".join(f"{d.name}{format_bound(layer, d)}" for d in Dim if layer.bounds[d] > 1)
    pairs = (("stride", layer.stride), ("dilation", layer.dilation))
    return bounds + "".join(f" {word} {w}x{h}" for word, (w, h) in pairs if (w, h) != (1, 1))


class _Details:
    """Holds the views of mapped layers; each is built once."""

    def __init__(self, source: str, arch: PIMArchitecture, has_maps: bool) -> None:
        self.views: list[dict[str, Any]] = []
        self._source, self._arch, self._has_maps = source, arch, has_maps
        self._numbers: dict[tuple[ConvWorkload, Mapping], int] = {}

    def number(self, layer: ConvWorkload, entry: dict[str, Any]) -> int:
        """Return the number of a layer's view, building it if it is new."""
        key = (entry["shape"], entry["mapping"])
        if key not in self._numbers:
            self._numbers[key] = len(self.views)
            mapped = _mapped(self._source, layer, self._arch, entry)
            maps = [*mapped.maps()] if self._has_maps and mapped.simulated_cycles is not None else None
            self.views.append(mapped.view() | {"maps": maps})
        return self._numbers[key]


def _mapped(source: str, layer: ConvWorkload, arch: PIMArchitecture, entry: dict[str, Any]) -> "_Mapped":
    """Read a layer with its mapping, and check that the mapping is legal."""
    mapping, simulated = entry["mapping"], entry["simulated"]
    for problem in check_mapping(layer, arch, mapping):
        raise ValueError(f"{source}: {layer.name}: {problem}")
    prediction = predict(layer, arch, mapping)
    figures = prediction.figures.to_dict()
    return _Mapped(
        layer=layer,
        arch=arch,
        mapping=mapping,
        prediction=prediction,
        simulated_cycles=simulated["latency_cycles"] if simulated else None,
        is_stale=figures != entry["predicted"],
    )


@frozen(kw_only=True)
class _Mapped:
    """A mapped layer and everything that is drawn of it. `simulated_cycles`: None if its simulation had no time to
    end. `is_stale`: the file records other predictions than this version makes.
    """

    layer: ConvWorkload
    arch: PIMArchitecture
    mapping: Mapping
    prediction: Prediction
    simulated_cycles: int | None
    is_stale: bool

    def view(self) -> dict[str, Any]:
        figures = self.prediction.figures
        return {
            "latency": figures.latency_cycles,
            "simulated": self.simulated_cycles,
            "energy": figures.energy_fj,
            "activations": list(figures.row_activations),
            "columns": list(figures.column_accesses),
            "stale": self.is_stale,
            "utilisation": self._full_cycles / figures.compute_cycles,
            "latency_utilisation": self._full_cycles / figures.latency_cycles,
            "flow": classify_dataflow(self.mapping).value,
            "layout": format_layouts(self.mapping),
            "bound": self._bound,
            "terms": self.prediction.bounds,
            "busy": self._busy(),
            "cycles": self._cycles(),
            "energies": self._energies(),
            "places": [*self._places()],
            "dims": self._dims(),
            "array": self._array(),
        }

    # What it costs

    @property
    def _bound(self) -> str:
        """The resource that ends last."""
        return max(self.prediction.bounds, key=lambda name: self.prediction.bounds[name])

    def _busy(self) -> dict[str, int]:
        """Return the cycles for which each resource works."""
        bounds = find_bounds(self.layer, self.arch, self.mapping)
        return {resource.name: resource.busy_cycles for resource in bounds.resources}

    def _cycles(self) -> dict[str, float]:
        """Split the latency: MACs on a full array, PEs that idle or work on padding, and waiting for the resource that
        ends last.

        If compute ends last, the rest is the fill and drain of the pipeline, and operands that arrive too slowly.
        """
        figures, full = self.prediction.figures, self._full_cycles
        waiting = figures.latency_cycles - figures.compute_cycles
        return {"macs": full, "idle": figures.compute_cycles - full, self._bound: waiting}

    @property
    def _full_cycles(self) -> float:
        """Cycles of the useful MACs on a fully used array."""
        return self.layer.useful_macs / self.arch.pe_array.macs_per_cycle

    def _energies(self) -> dict[str, int]:
        """Split the energy, fJ: MACs, accesses by level, row activations (Eq. 41-43)."""
        return energy_parts_fj(self.layer, self.arch, self.prediction.figures)

    # The nest

    def _places(self) -> Iterator[dict[str, Any]]:
        """Yield the levels, outermost first, with the array and its lanes between them: loops, cuts, stored tiles."""
        yield self._level(Level.DRAM)
        yield self._level(Level.ROW_BUFFER)
        yield self._level(Level.GLOBAL_BUFFER)
        yield self._parallel("PE array", (Direction.H, Direction.W))
        yield self._level(Level.PE)
        yield self._parallel("MAC lanes", (Direction.INTERNAL,))

    def _level(self, level: Level) -> dict[str, Any]:
        """Build the view of a memory: its loops enumerate the tiles of the next level."""
        factors = self.mapping.temporal[level]
        loops = [(d.name, factors[d], "") for d in self.mapping.order[level]]
        held, memory = self._held(level), self.arch.hierarchy[level]
        separate = {} if memory.is_shared else {t.name: self.arch.usable_bytes_of(level, t) for t in Tensor}
        figures = {
            "held": held,
            "bypass": [t.name for t in Tensor if t.name not in held],
            "usable": self.arch.usable_bytes(level),
            "capacity": memory.capacity_bytes,
        }
        return self._place(level.name, memory.name, loops) | figures | ({"separate": separate} if separate else {})

    def _parallel(self, title: str, directions: tuple[Direction, ...]) -> dict[str, Any]:
        """Build the view of PEs or lanes, whose iterations run in parallel."""
        loops = [(d.name, self.mapping.spatial[s][d], s.name) for s in directions for d in Dim]
        return self._place("", title, [loop for loop in loops if loop[1] > 1])

    def _place(self, level: str, title: str, loops: list[Loop]) -> dict[str, Any]:
        return {"level": level, "title": title, "loops": loops, "cuts": {t.name: _cuts(t, loops) for t in Tensor}}

    def _held(self, level: Level) -> dict[str, dict[str, Any]]:
        """Return the tiles that a level stores (DRAM: the whole tensors) in elements and bytes (Eq. 22)."""
        stored = [t for t in Tensor if level is Level.DRAM or self.mapping.stored[level][t]]
        elems = {t: box_elems(self.layer, self.mapping.tile(level, t), t) for t in stored}
        return {t.name: {"elems": elems[t], "bytes": math.ceil(elems[t] * self._width_bytes(level, t))} for t in stored}

    def _width_bytes(self, level: Level, tensor: Tensor) -> int:
        """Return the bytes of an element. O has partial sums on chip, and in DRAM if any are spilled (model, section
        1).
        """
        spills = self.prediction.figures.accesses[Level.DRAM][Tensor.O][0] > 0
        if tensor is Tensor.O and (level < Level.ROW_BUFFER or spills):
            return self.layer.psum_bytes
        return self.layer.width_bytes[tensor]

    def _dims(self) -> dict[str, list[int]]:
        """Return each dim's factors by place, outer to inner, for dims above 1."""
        places = [[factor for _, factor, _ in self._loops_of(d)] for d in Dim]
        return {d.name: factors for d, factors in zip(Dim, places, strict=True) if math.prod(factors) > 1}

    def _loops_of(self, dim: Dim) -> list[Loop]:
        """Return the loops of a dim: T3, T2, T1, array, T0, lanes."""
        t0, t1, t2, t3 = (self.mapping.temporal[m][dim] for m in Level)
        lanes = self.mapping.spatial[Direction.INTERNAL][dim]
        return [(dim.name, n, "") for n in (t3, t2, t1, self.mapping.array_factor(dim), t0, lanes)]

    def _array(self) -> dict[str, int]:
        """Return the rows and columns of the array and the lanes of a PE, as present and as used."""
        shape, unit = self.arch.pe_array.array_shape, self.arch.pe_array.compute_unit
        used = {s.name: math.prod(self.mapping.spatial[s]) for s in Direction}
        return {"rows": shape.h, "columns": shape.w, "lanes": unit.num_macs, **used}

    # DRAM rows

    def maps(self) -> Iterator[dict[str, Any]]:
        """Yield per part, the tensors that share a bank, its row activations by order and row. This simulates the
        layer.
        """
        timeline = record(self.layer, self.arch, self.mapping, limit=0)
        for part in sorted(set(self.mapping.banks)):
            yield {
                "order_width": int(timeline.order_width[part]),
                "row_width": int(timeline.row_width[part]),
                "tensors": [_map_view(timeline, t) for t in Tensor if self.mapping.banks[t] == part],
            }


def _cuts(tensor: Tensor, loops: list[Loop]) -> list[int]:
    """Return the number of parts into which loops cut a tensor's box, across and down."""
    return [math.prod(n for name, n, _ in loops if Dim[name] in side) for side in _SIDES[tensor]]


def _map_view(timeline: Timeline, tensor: Tensor) -> dict[str, Any]:
    """Return a tensor's part of its bank's map, with the non-empty cells flattened: order, row, count, order, ...

    `first_row` and `end_row`: between them, as the bank numbers rows, lie the rows that were opened.
    """
    cells = timeline.maps[tensor]
    return {
        "tensor": tensor.name,
        "activations": int(timeline.activations[tensor]),
        "first_row": int(timeline.first_row[tensor]),
        "end_row": int(timeline.rows[tensor]),
        "cells": [int(n) for order, row in zip(*cells.nonzero(), strict=True) for n in (order, row, cells[order, row])],
    }
