"""The table of results for the terminal: a row for each different layer, the totals, and what is verified."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from fractions import Fraction
from typing import Any

from attrs import evolve, frozen
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from cpsat_pim.base.dims import Tensor
from cpsat_pim.evaluate.performance import Performance
from cpsat_pim.mapper.result import NetworkLayer, SharedChoice, SolvedLayer, SolvedNetwork, Status
from cpsat_pim.mapping import Mapping
from cpsat_pim.mapping.constraints import FREE
from cpsat_pim.mapping.dataflow import classify_dataflow
from cpsat_pim.mapping.loop_nest import format_padding
from cpsat_pim.report.format import (
    EMPTY,
    format_choice,
    format_edp,
    format_energy,
    format_gap,
    format_layouts,
    format_machine,
    format_performance,
    format_si,
    format_tops,
    visible,
)
from cpsat_pim.report.text import print_fitted, print_plain

#: Longer names are shortened in the middle on a terminal.
_NAME_WIDTH = 32
#: Smaller deviations would be shown as 0.
_LEAST_SHOWN = Fraction(5, 100_000)


@frozen
class _Column:
    """A column of the results: heading, cell of a layer, cell of the totals. On a terminal, columns that are
    `secondary` come last.
    """

    heading: str
    cell: Callable[[NetworkLayer], str]
    total: Callable[[SolvedNetwork], str] = lambda network: ""
    secondary: bool = False
    justify: Any = "right"


def print_results(console: Console, network: SolvedNetwork, every_layer: bool = False) -> None:
    """Print a row per different layer, or per layer, and the totals; in several tables if the terminal is narrow."""
    layers = network.layers if every_layer else group_equal(network.layers)
    print_fitted(console, _table(network, layers, _columns(network, console)))
    for line in _footnotes(network, layers):
        print_plain(console, line)


def group_equal(layers: Sequence[NetworkLayer]) -> tuple[NetworkLayer, ...]:
    """Return one layer for all that are equal in shape and result, with the sum of their counts.

    It is named after the first and says how many others there are: `conv1 +2`.
    """
    groups: dict[Any, list[NetworkLayer]] = {}
    for layer in layers:
        solved = layer.solved
        groups.setdefault((solved.workload.shape_key, solved.mapping, solved.status), []).append(layer)
    return tuple(map(_as_one, groups.values()))


def _as_one(equal: Sequence[NetworkLayer]) -> NetworkLayer:
    first, others = equal[0], len(equal) - 1
    name = f"{first.name} +{others}" if others else first.name
    return evolve(first, name=name, count=sum(layer.count for layer in equal))


def _columns(network: SolvedNetwork, console: Console) -> list[_Column]:
    """Return the columns; the product of latency and energy only if it is the objective, times only with a clock. On a
    terminal the secondary ones come last, as the table may have to be divided.
    """
    hidden = () if network.objective.is_product else (_PRODUCT,)
    hidden = hidden if network.arch.clock else (*hidden, *_TIMED)
    shown = [column for column in _COLUMNS if column not in hidden]
    return sorted(shown, key=lambda column: column.secondary) if console.is_terminal else shown


def _table(network: SolvedNetwork, layers: Sequence[NetworkLayer], columns: Iterable[_Column]) -> Table:
    columns = list(columns)
    table = Table(box=box.SIMPLE_HEAD, show_footer=True, pad_edge=False)
    for column in columns:
        table.add_column(column.heading, Text(column.total(network)), justify=column.justify, no_wrap=True)
    for node in layers:
        table.add_row(*(Text(column.cell(node)) for column in columns), style=_style(node.solved))
    return table


def _shortened(name: str) -> str:
    """Return a name that fits its column: its beginning and its end."""
    name, half = visible(name), _NAME_WIDTH // 2
    return name if len(name) <= _NAME_WIDTH else f"{name[: half - 1]}..{name[1 - half :]}"


def _style(solved: SolvedLayer) -> str:
    return "" if solved.status is Status.OPTIMAL else "yellow" if solved.mapping else "red"


def _of_answer(cell: Callable[[SolvedLayer], str]) -> Callable[[NetworkLayer], str]:
    """Return a cell that is empty for a layer without a mapping."""
    return lambda node: cell(node.solved) if node.solved.mapping else EMPTY


def _of_mapping(cell: Callable[[Mapping], str]) -> Callable[[NetworkLayer], str]:
    """Return a cell that depends only on the mapping, and is empty without one."""
    return lambda node: cell(node.solved.mapping) if node.solved.mapping else EMPTY


def _triple(values: Iterable[int]) -> str:
    return " / ".join(f"{value:,}" for value in values)


def _deviation(solved: SolvedLayer) -> Fraction | None:
    """Return the simulated latency's deviation from the predicted one, as a fraction of the predicted one."""
    if solved.simulated is None:
        return None
    predicted = solved.predicted.latency_cycles
    return Fraction(solved.simulated.latency_cycles - predicted, max(predicted, 1))


def _deviation_text(solved: SolvedLayer) -> str:
    deviation = _deviation(solved)
    if deviation is None or deviation == 0:
        return EMPTY if deviation is None else "0"
    return f"{float(deviation):+.2%}" if abs(deviation) >= _LEAST_SHOWN else "<0.01%"


def _total_activations(network: SolvedNetwork) -> str:
    mapped = [n for n in network.layers if n.solved.mapping]
    return _triple(sum(n.count * n.solved.predicted.row_activations[t] for n in mapped) for t in Tensor)


def _total_status(network: SolvedNetwork) -> str:
    proven = sum(n.solved.status is Status.OPTIMAL for n in network.layers)
    return f"{proven}/{len(network.layers)}"


def _total_seconds(network: SolvedNetwork) -> str:
    return f"{network.seconds:.1f}"


def _of_performance(cell: Callable[[Performance], str]) -> Callable[[NetworkLayer], str]:
    """Return a cell that depends on the machine's clock."""
    return _of_answer(lambda solved: cell(solved.performance) if solved.performance else EMPTY)


def _of_totals(cell: Callable[[Performance], str]) -> Callable[[SolvedNetwork], str]:
    """Return the cell of the totals that depends on the machine's clock."""
    return lambda network: cell(network.performance) if network.performance else ""


def _seconds(performance: Performance) -> str:
    return format_si(performance.seconds, "s")


def _power(performance: Performance) -> str:
    return format_si(performance.power_w, "W")


def _throughput(performance: Performance) -> str:
    return format_tops(performance.tops)


_NAME = _Column("layer", lambda n: _shortened(n.name), lambda network: "total", justify="left")
_PRODUCT = _Column(
    "EDP",
    _of_answer(lambda s: format_edp(s.predicted.latency_cycles * s.predicted.energy_fj)),
    lambda network: format_edp(int(network.objective_value)),
)
_TIME = _Column("time", _of_performance(_seconds), _of_totals(_seconds))
_POWER = _Column("power", _of_performance(_power), _of_totals(_power), secondary=True)
_THROUGHPUT = _Column("throughput", _of_performance(_throughput), _of_totals(_throughput), secondary=True)
#: Columns that need a clock.
_TIMED = (_TIME, _POWER, _THROUGHPUT)
_COLUMNS = (
    _NAME,
    _Column("x", lambda n: str(n.count), lambda network: str(sum(n.count for n in network.layers))),
    _Column(
        "cycles",
        _of_answer(lambda s: f"{s.predicted.latency_cycles:,}"),
        lambda network: f"{network.latency_cycles:,}",
    ),
    _TIME,
    _Column("sim.", _of_answer(_deviation_text)),
    _Column(
        "energy",
        _of_answer(lambda s: format_energy(s.predicted.energy_fj)),
        lambda network: format_energy(network.energy_fj),
    ),
    _PRODUCT,
    _POWER,
    _THROUGHPUT,
    _Column("bound by", _of_answer(lambda s: s.limited_by), justify="left"),
    _Column(
        "activations I / W / O",
        _of_answer(lambda s: _triple(s.predicted.row_activations)),
        _total_activations,
        secondary=True,
    ),
    _Column("util. steps", _of_answer(lambda s: f"{s.pe_utilization:.1%}"), secondary=True),
    _Column("util. latency", _of_answer(lambda s: f"{s.latency_utilization:.1%}"), secondary=True),
    _Column("flow", _of_mapping(classify_dataflow), secondary=True, justify="left"),
    _Column(
        "layout I W O", _of_mapping(lambda mapping: " ".join(format_layouts(mapping))), secondary=True, justify="left"
    ),
    _Column("status", lambda n: n.solved.status.value, _total_status, justify="left"),
    _Column("gap", lambda n: format_gap(n.solved.gap), lambda network: format_gap(network.gap)),
    _Column("s", lambda n: f"{n.solved.solve_seconds:.1f}", _total_seconds),
)


def _footnotes(network: SolvedNetwork, layers: Sequence[NetworkLayer]) -> Iterator[str]:
    """Yield the lines below the table: what the columns mean, and what was verified."""
    yield (
        f"{network.network} on {format_machine(network.arch)}, objective {_objective_text(network)}. "
        "Layouts in brackets are row-aligned, the others sequential."
    )
    if len(layers) < len(network.layers):
        yield "A row is for all layers of equal shape and result: 'conv1 +2' stands for conv1 and 2 others."
    unmapped = [n.name for n in layers if not n.solved.mapping]
    if unmapped and network.mapped:
        yield f"The totals leave out what has no mapping: {', '.join(unmapped)}."
    if network.performance:
        yield _performance_text(network, network.performance)
    deviations = [abs(d) for d in (_deviation(n.solved) for n in network.layers) if d is not None]
    if deviations:
        yield (
            "Simulated: all counts, energy, compute and DRAM cycles equal; latency within "
            f"{float(max(deviations)):.2%} ('sim.': simulated against predicted)."
        )
    if text := _second_text(layers):
        yield text
    unsimulated = [n.name for n in layers if n.solved.mapping and n.solved.simulated is None]
    if unsimulated:
        yield f"Not simulated to the end within the time limit: {', '.join(unsimulated)}."
    if any(node.solved.constraints != FREE for node in network.layers) and not network.shared:
        yield "Bounds and proofs hold for the mappings that satisfy the constraints."
    padding = max((node.solved.padding for node in network.layers), default=0)
    if padding:
        yield f"Bounds and proofs hold for each layer and its paddings with at most {100 * padding:g} % more MACs."
    for node in layers:
        if any(node.solved.workload.zeros):
            yield f"{node.name} is padded: {format_padding(node.solved.workload)}."
    if network.shared:
        yield f"{format_choice(network.shared.to_dict())} {_price(network.shared)}"
    if network.interrupted:
        yield "Interrupted: these are the best mappings found so far."


def _second_text(layers: Sequence[NetworkLayer]) -> str:
    """State what was minimized next, and for which layers that is not proven."""
    seconds = {node.name: node.solved.second for node in layers if node.solved.second}
    if not seconds:
        return ""
    one = next(iter(seconds.values()))
    reach = f"at most {100 * one.within:g} % above the optimum" if one.within else "at the optimum"
    unproven = [f"{name} ({format_gap(two.gap)})" for name, two in seconds.items() if two.status is Status.FEASIBLE]
    rest = f"; not proven, and its gap: {', '.join(unproven)}" if unproven else ", proven for all layers"
    return f"Least {one.kind} of all mappings {reach}{rest}."


def _performance_text(network: SolvedNetwork, performance: Performance) -> str:
    """State the performance of all layers with a mapping, one after the other on one node."""
    clock, nodes = format_si(network.arch.clock or 0, "Hz"), network.arch.nodes
    where = f"one of {nodes:,} nodes" if nodes > 1 else "the machine"
    runs = performance.runs_per_second if network.mapped == network.layers else None
    return f"At {clock} on {where}: {format_performance(performance, runs)}."


def _price(shared: SharedChoice) -> str:
    """State the cost of sharing, relative to separate choices, and the number of solves."""
    solves = f"({shared.solves} solves)"
    if not shared.free or shared.objective_value is None:
        return solves
    more = shared.objective_value / shared.free - 1
    return f"The sum is {more:.2%} above the best known sum without sharing {solves}."


def _objective_text(network: SolvedNetwork) -> str:
    objective = network.objective
    if objective.kind != "blended":
        return "edp (cycles x nJ)" if objective.is_product else objective.kind
    return f"{float(objective.alpha):g} x cycles + {float(objective.beta):g} x nJ"
