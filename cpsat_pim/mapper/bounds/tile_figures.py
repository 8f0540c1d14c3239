"""The figures of a layer on a machine as records and arrays, as the kernels of `tables.bounds` take them."""

import itertools
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property

import numpy as np

from cpsat_pim.base.dims import BUFFERS, ON_CHIP, Dim, Level, Tensor
from cpsat_pim.base.rows import distinct_rows
from cpsat_pim.evaluate.cost import access_energies_fj, rate, tile_width
from cpsat_pim.mapper.bounds.spatial_bounds import SpatialBounds
from cpsat_pim.mapper.bounds.stream_bounds import has_known_boxes, min_columns, min_rows, returned_rows, spilled_outputs
from cpsat_pim.mapper.space.candidates import LANES, PES
from tables.bounds.layer import BOX_COLUMNS, INFINITE_COST, LAYER, QUANTITIES, TileCosts
from tables.bounds.shapes import ShapeTable
from tables.bounds.spatial import (
    Energies,
    Sharing,
    Stored,
    Terms,
    access_terms,
    array_tiles_span,
    crossing_terms,
    energy_terms,
    needed_elements,
    step_points,
)
from tables.dram import last_run, last_run_excess
from tables.factors import divisors
from tables.nest import FILTER_OF, Ints, P, Q

#: Those of `BOX_COLUMNS` that are of boxes, not of scans.
_OF_BOXES = ("box_activations", "swept_repeat_activations")


class TileFigures:
    """What bounds of tiles depend on: energies, port rates, capacities, and what boxes of each tensor are in DRAM."""

    def __init__(self, spatial_bounds: SpatialBounds, tables: list[ShapeTable]) -> None:
        self.spatial_bounds, self.tables = spatial_bounds, tables

    def with_vectors(self, vectors: Ints) -> tuple[TileCosts, Ints]:
        """Return the figures with the positions of I that some vectors int[n, 19] use, and each vector's kinds of them:
        int[n, 4].
        """
        points, kinds = self._positions(vectors)
        return self.fixed._replace(points=points[0], arrays=points[1]), kinds

    @cached_property
    def fixed(self) -> TileCosts:
        """All figures that do not depend on the vectors."""
        spatial_bounds, layer, arch = self.spatial_bounds, self.spatial_bounds.layer, self.spatial_bounds.arch
        bounds, nothing = np.array(layer.bounds), np.zeros((2, 0, 0, 0), np.int64)
        choices = [divisors(n) for n in layer.bounds]
        counts = np.array([len(found) for found in choices])
        table, places = np.ones((8, counts.max()), np.int64), np.zeros((8, bounds.max() + 1), np.int64)
        for d, found in enumerate(choices):
            table[d, : len(found)], places[d, found] = found, range(len(found))
        coefficients, is_offered, paces = self._figures()
        boxes, strides = self._boxes(counts)
        open_boxes, open_level = _open_boxes(boxes, strides, choices)
        dram, restriction = spatial_bounds.machine.dram, spatial_bounds.restriction
        most = restriction.most_fetched
        timings = (dram.tCCD, arch.dram_activation_latency, last_run_excess(dram), int(last_run(1, dram)))
        figures = {
            "bounds": bounds,
            "stride": layer.stride,
            "dilation": layer.dilation,
            "counts": counts,
            "resources": len(paces),
            "is_offered": is_offered,
            "strides": strides,
            "open_level": open_level,
            "sum_rates": [[*map(rate, self._limits(m))] for m in (Level.GLOBAL_BUFFER, Level.ROW_BUFFER)],
            "dram": [*timings, spatial_bounds.machine.pipeline_latency, dram.column_bytes],
            "row_bytes": dram.row_bytes,
            "is_linked": [arch.shared_data_bus or restriction.is_shared(t) for t in Tensor],
            "banks": [restriction.dram(t).banks for t in Tensor],
            "most_fetched": -1 if most is None else most,
            "is_beside": [most is not None and t is not most and t in restriction.part(most) for t in Tensor],
            "min_rows": [min_rows(layer, arch, t) for t in Tensor],
            "min_columns": [min_columns(layer, arch, t) for t in Tensor],
            "activation_fj": spatial_bounds.machine.activation_fj,
            "capacity": [[*(arch.usable_bytes_of(m, t) for t in Tensor), arch.usable_bytes(m)] for m in BUFFERS],
            "widths": [[*(tile_width(layer, m, t) for m in BUFFERS), self._least_width(t)] for t in Tensor],
            "needed": [needed_elements(spatial_bounds.shape, t) for t in Tensor],
            "depth": bounds[[Dim.C, Dim.N, Dim.G]].prod(),
            "is_double": [arch.hierarchy[m].double_buffered for m in ON_CHIP],
            "adds_up": arch.spatial_reduction,
        }
        record = np.zeros(1, LAYER)
        for name, value in figures.items():
            record[name] = value
        record["coefficients"][0, : len(paces)], record["rates"][0, : len(paces)] = coefficients, paces
        return TileCosts(record, table, places, nothing, nothing, boxes, open_boxes)

    def _figures(self) -> tuple[Ints, np.ndarray, Ints]:
        """Return coefficients of energy and of each port's bytes, which stored sets are offered, and the ports' rates.

        Coefficients are per quantity, tensor and stored set (`tables.bounds.layer.LAYER`).
        """
        layer, arch, restriction = self.spatial_bounds.layer, self.spatial_bounds.arch, self.spatial_bounds.restriction
        sharing = Sharing(arch.multicast, arch.spatial_reduction)
        energies = Energies(access_energies_fj(arch), sharing)
        ports = list(self._ports()) if self.spatial_bounds.objective.weights[0] else []
        coefficients = np.zeros((1 + len(ports), 3, 2, 4, len(QUANTITIES)), np.int64)
        is_offered = np.zeros((3, 2, 4), np.bool_)
        for t in Tensor:
            for stored in itertools.product(*(restriction.storing_choices(m, t) for m in BUFFERS)):
                if stored[Level.ROW_BUFFER] and not restriction.subspace.is_aligned:
                    continue
                kept, at = (stored[0], stored[1], stored[2]), (int(t), int(stored[0]), 2 * stored[1] + stored[2])
                is_offered[at] = True
                figures = [(1, energy_terms(t, kept, energies))]
                figures += [(tile_width(layer, level, t), terms(t, kept, sharing)) for level, terms, _ in ports]
                for f, (scale, found) in enumerate(figures):
                    for name, count in found.items():
                        coefficients[(f, *at)][QUANTITIES.index(name)] = scale * count
        return coefficients, is_offered, np.array([(1, 1, 1, 0), *(pace for *_, pace in ports)])

    def _ports(self) -> Iterator[tuple[Level, Callable[[int, Stored, Sharing], Terms], tuple[int, int, int, int]]]:
        """What bytes pass on the chip: the level whose widths they have, their quantities, and `rates` of
        `tables.bounds.layer.LAYER`.
        """
        arch = self.spatial_bounds.arch
        for level in ON_CHIP:
            for way, limit in enumerate(self._limits(level)):
                pace = rate(limit)
                if pace[0]:

                    def accesses(t: int, kept: Stored, sharing: Sharing, at: tuple[int, int] = (level, way)) -> Terms:
                        return access_terms(t, kept, sharing).get(at, {})

                    yield level, accesses, (*pace, arch.hierarchy[level].ports, int(level is Level.PE))
        pace = rate(arch.pe_array.interconnect_bandwidth)
        if pace[0]:
            yield Level.PE, crossing_terms, (*pace, 1, 0)

    def _limits(self, level: Level) -> tuple[float | None, float | None]:
        """Return the bytes per cycle that a level gives and takes; None without a limit."""
        memory = self.spatial_bounds.arch.hierarchy[level]
        return memory.read_bandwidth_limit, memory.write_bandwidth_limit

    def _least_width(self, t: Tensor) -> int:
        """Return the bytes per element in DRAM; of outputs the smaller of their width and that of partial sums."""
        layer = self.spatial_bounds.layer
        return min(layer.output_bytes, layer.psum_bytes) if t is Tensor.O else layer.width_bytes[t]

    def _boxes(self, counts: Ints) -> tuple[Ints, Ints]:
        """Return the columns of the shape tables per tensor, layout and box, and the strides of boxes along each dim.

        They stay 0 for outputs whose width in DRAM changes when partial sums are spilled. A layout that constraints
        rule out has the columns of the other one.
        """
        layer = self.spatial_bounds.layer
        found = np.zeros((3, max(len(table.extents) for table in self.tables), 2, len(BOX_COLUMNS)), np.int64)
        strides = np.zeros((3, 8), np.int64)
        interrupted = [t for t in Tensor if self.spatial_bounds.restriction.is_interrupted(t)]
        for t, table in zip(Tensor, self.tables, strict=True):
            is_known = t is not Tensor.O or layer.psum_bytes == layer.output_bytes
            if not is_known and t not in interrupted:
                continue
            sizes = [int(counts[d]) for d in table.dims]
            boxes = int(np.prod(sizes, dtype=np.int64))
            strides[t, list(table.dims)] = [int(np.prod(sizes[i + 1 :], dtype=np.int64)) for i in range(len(sizes))]
            columns = {name: getattr(table, name) for name in BOX_COLUMNS} if is_known else {}
            if columns and t is Tensor.O:  # its last tile may have been read back
                columns["end_cycles"] = np.minimum(table.end_cycles, table.rewrite_cycles)
            if not has_known_boxes(layer, t):
                columns = {n: x for n, x in columns.items() if n not in _OF_BOXES}
            if t in interrupted:
                columns |= self._interrupted_rows(t)
            for name, column in columns.items():
                of = column[table.is_of_boxes] if name in _OF_BOXES else column  # the least of strided scans, too
                found[t, :boxes, :, BOX_COLUMNS.index(name)] = of.reshape(-1, 2, boxes).min(axis=0).T
            found[t] = found[t][:, np.resize(self.spatial_bounds.restriction.layouts(t), 2)]  # one stands for both
        return found.reshape(3, -1, 2 * len(BOX_COLUMNS)), strides

    def _interrupted_rows(self, t: Tensor) -> dict[str, Ints]:
        """Return the columns of the rows of a tensor that others of its bank interrupt: as with closed pages (B15).

        Outputs have the width of partial sums if they come back, else their own.
        """
        layer, table = self.spatial_bounds.layer, self.tables[t]
        closed = more = table.closed_activations
        if t is Tensor.O:
            spilled = spilled_outputs(layer, self.spatial_bounds.arch)
            closed, more = np.minimum(closed, spilled.closed_activations), returned_rows(spilled, layer.bounds)
        return {"first_activations": closed - 1, "repeat_activations": more, "rescan_activations": closed}

    def _positions(self, vectors: Ints) -> tuple[Ints, Ints]:
        """Return the positions of I along both axes that steps use and array tiles cover: int[2, 2, kinds, n + 1, n +
        1] (the last entries are the least of all), and for each vector its kinds along both axes: int[n, 4].
        """
        lanes, pes = vectors[:, LANES], vectors[:, PES]
        found, kinds = [], []
        for axis in (P, Q):
            columns = [x[:, d] for d in (axis, FILTER_OF[axis]) for x in (lanes, pes)]
            unique, kind = distinct_rows(np.column_stack(columns))
            found.append([self._positions_of(axis, *row) for row in unique.tolist()])
            kinds += [kind] * 2
        most = max(map(len, found))
        n = self.fixed.divisors.shape[1]
        points = np.zeros((2, 2, most, n + 1, n + 1), np.int64)
        for side, of in enumerate(found):
            points[:, side, : len(of), :n, :n] = np.array(of).transpose(1, 0, 2, 3)
        some = np.where(points > 0, points, INFINITE_COST)
        points[..., n, :], points[..., n] = some.min(axis=-2), some.min(axis=-1)
        points[..., n, n] = some.min(axis=(-2, -1))
        return points, np.column_stack(kinds)

    def _positions_of(self, axis: int, lanes_p: int, pes_p: int, lanes_r: int, pes_r: int) -> Ints:
        """Return the same along one axis for one kind of vector: int[2, n, n]."""
        shape, n = self.spatial_bounds.shape, self.fixed.divisors.shape[1]
        filters = FILTER_OF[axis]
        found = np.zeros((2, n, n), np.int64)
        for i, p in enumerate(divisors(shape.bounds[axis])):
            for j, r in enumerate(divisors(shape.bounds[filters])):
                e_p, e_r = p * lanes_p, r * lanes_r
                if shape.bounds[axis] % (e_p * pes_p) or shape.bounds[filters] % (e_r * pes_r):
                    continue
                found[0, i, j] = step_points(shape, axis, lanes_p, e_p, pes_p, lanes_r, e_r, pes_r)
                found[1, i, j] = array_tiles_span(shape, axis, e_p, e_p, pes_p, e_r, e_r, pes_r)
        return found


def _open_boxes(boxes: Ints, strides: Ints, choices: Sequence[Sequence[int]]) -> tuple[Ints, Ints]:
    """Return the minima of boxes over the multiples of their extents along the first dims, and for 0 to 8 such dims
    which entry has them (`TileCosts.open_boxes`, `LAYER`). `choices`: the divisors of each bound.
    """
    levels, level = [boxes], [0]
    for d, extents in enumerate(choices):
        if len(extents) > 1:
            least = levels[-1].copy()
            for t in Tensor:
                if strides[t, d]:
                    _minimize_over_multiples(least[t], int(strides[t, d]), extents)
            levels.append(least)
        level.append(len(levels) - 1)
    return np.array(levels), np.array(level)


def _minimize_over_multiples(boxes: Ints, stride: int, extents: Sequence[int]) -> None:
    """Set boxes of one tensor, int[n, 14], to their minima over the multiples of their extents along one dim. `stride`:
    rows from one divisor of its bound to the next. Modifies boxes.
    """
    whole = len(boxes) // (stride * len(extents)) * stride * len(extents)  # behind these the tensor has no boxes
    along = boxes[:whole].reshape(-1, len(extents), stride, boxes.shape[1])
    for i, extent in enumerate(extents):  # larger ones are changed later
        multiples = [j for j, other in enumerate(extents) if other % extent == 0]
        along[:, i] = along[:, multiples].min(axis=1)
