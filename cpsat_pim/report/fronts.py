"""Pareto fronts in latency, energy and optionally row activations: a table and a JSON document (docs/json.md)."""

from collections.abc import Iterator
from typing import Any

from attrs import evolve
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from cpsat_pim.mapper.network.front_points import Front, Point
from cpsat_pim.mapper.network.fronts import LayerFront, NetworkFronts
from cpsat_pim.mapper.result import NetworkLayer, Objective, Status
from cpsat_pim.mapper.result.document import build_document
from cpsat_pim.mapping import Mapping
from cpsat_pim.mapping.dataflow import classify_dataflow
from cpsat_pim.report.format import (
    EMPTY,
    format_edp,
    format_energy,
    format_gap,
    format_layouts,
    format_machine,
    format_si,
    visible,
)
from cpsat_pim.report.text import print_fitted, print_plain
from cpsat_pim.workload import ConvWorkload

_TO_THE_LEFT = ("point", "bound by", "flow", "layout I W O", "status")
_FIGURES = ("cycles", "time", "simulated", "energy", "power", "EDP", "activations")
#: Columns that need a clock.
_TIMED = ("time", "power")
_HEADINGS = ("point", *_FIGURES, "bound by", "util. steps", "util. latency", "flow", "layout I W O", "status", "gap")
#: Axis in the document, unit, and attribute of a point.
_AXES = (("x", "latency_cycles", "cycles"), ("y", "energy_fj", "fj"), ("z", "row_activations", "activations"))


def print_fronts(console: Console, fronts: NetworkFronts) -> None:
    """Print a row per point, then what is proven about each front."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    headings = _headings(fronts)
    for heading in headings:
        table.add_column(heading, justify="left" if heading in _TO_THE_LEFT else "right", no_wrap=True)
    for layer in fronts.layers:
        for name, point in layer.points:
            cells = dict(zip(_HEADINGS, _cells(name, point), strict=True))
            table.add_row(*(Text(cells[heading]) for heading in headings))
        table.add_section()
    print_fitted(console, table)
    for line in _footnotes(fronts):
        print_plain(console, line)


def _headings(fronts: NetworkFronts) -> list[str]:
    """Return the columns: activations only if they are an axis, times only with a clock."""
    hidden = () if fronts.with_activations else ("activations",)
    hidden = hidden if fronts.arch.clock else (*hidden, *_TIMED)
    return [heading for heading in _HEADINGS if heading not in hidden]


def _cells(name: str, point: Point) -> Iterator[str]:
    """Yield the cells of a point in the order of `_HEADINGS`."""
    solved, performance = point.solved, point.solved.performance
    yield visible(name)
    yield f"{point.cycles:,}"
    yield format_si(performance.seconds, "s") if performance else EMPTY
    yield f"{solved.simulated.latency_cycles:,}" if solved.simulated else EMPTY
    yield format_energy(point.fj)
    yield format_si(performance.power_w, "W") if performance else EMPTY
    yield format_edp(point.edp)
    yield f"{point.activations:,}"
    yield solved.limited_by
    yield f"{solved.pe_utilization:.1%}"
    yield f"{solved.latency_utilization:.1%}"
    yield from _mapping_cells(solved.mapping)
    yield point.status.value
    yield format_gap(point.gap)


def _mapping_cells(mapping: Mapping | None) -> tuple[str, str]:
    return (EMPTY, EMPTY) if mapping is None else (classify_dataflow(mapping), " ".join(format_layouts(mapping)))


def _footnotes(fronts: NetworkFronts) -> Iterator[str]:
    """Yield the lines below the table: units, and what is proven about each layer."""
    yield f"{fronts.network} on {format_machine(fronts.arch)}. Cycles as predicted; EDP in cycles x nJ."
    for layer in fronts.layers:
        yield f"{layer.node.name}: {_front_text(layer.front)} ({layer.front.solves} solves)"
    if any(point.gap == 0 and not point.has_fewest for layer in fronts.layers for _, point in layer.points):
        yield "FEASIBLE with gap 0: fewer activations at this latency and energy were not ruled out."
    if fronts.interrupted:
        yield "Interrupted: these are the points found so far."


def _front_text(front: Front) -> str:
    count = len(front.points)
    if front.least_energy.status is Status.INFEASIBLE:
        return "proven infeasible"
    return f"{count} point{'s' * (count != 1)}, {'the front is complete' if front.is_complete else 'not complete'}"


# --- Files -----------------------------------------------------------------------------------------------------------


def fronts_document(fronts: NetworkFronts) -> dict[str, Any]:
    """Build the JSON document (schema 1): each layer's mapping of least energy, and the points under `pareto`."""
    document = build_document(
        network=fronts.network,
        arch=fronts.arch.to_dict(),
        objective=Objective.named("energy").to_dict(),
        layers=[_least_energy(layer).to_dict() for layer in fronts.layers],
        seconds=fronts.seconds,
        interrupted=fronts.interrupted,
    )
    document["pareto"] = [_front_entry(layer, fronts.with_activations) for layer in fronts.layers if layer.points]
    return document


def points_document(fronts: NetworkFronts) -> dict[str, Any]:
    """Build the document in which every point is a layer of its own, named after the point."""
    named = [(layer.node, name, point) for layer in fronts.layers for name, point in layer.points]
    layers = [NetworkLayer(name=name, count=node.count, after=(), solved=point.solved) for node, name, point in named]
    return fronts_document(fronts) | {"layers": [layer.to_dict() for layer in layers]}


def _least_energy(layer: LayerFront) -> NetworkLayer:
    node = layer.node
    solved = evolve(layer.front.least_energy, workload=node.workload)
    return NetworkLayer(name=node.name, count=node.count, after=node.after, solved=solved)


def _front_entry(layer: LayerFront, with_activations: bool) -> dict[str, Any]:
    """Build the entry of a front. Its name says if points may be missing."""
    axes = _AXES[: 3 if with_activations else 2]
    points = [
        {axis: getattr(point, field) for axis, _, field in axes} | {"label": label, "status": point.status.value}
        for label, point in layer.points
    ]
    name = layer.node.name + ("" if layer.front.is_complete else ", not complete")
    return {"name": name, **{axis: figure for axis, figure, _ in axes}, "points": points}


def mapped_points(fronts: NetworkFronts) -> list[tuple[ConvWorkload, Mapping]]:
    """Return the layer and mapping of every point; the layer is named after the point."""
    named = [(evolve(layer.node.workload, name=name), p) for layer in fronts.layers for name, p in layer.points]
    return [(layer, point.solved.mapping) for layer, point in named if point.solved.mapping]
