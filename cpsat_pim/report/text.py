"""Tables for the terminal: results, networks, machines, and simulated beside predicted figures."""

from collections.abc import Callable, Iterable, Iterator
from fractions import Fraction
from typing import Any, TextIO

from attrs import frozen
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from cpsat_pim.arch import MemoryLevel, PIMArchitecture
from cpsat_pim.base.dims import LAYOUT_ORDERS, Level, Tensor
from cpsat_pim.base.units import FJ_PER_NJ
from cpsat_pim.evaluate.cost import Figures
from cpsat_pim.mapper.result import NetworkLayer, SharedChoice, SolvedLayer, SolvedNetwork, Status
from cpsat_pim.mapping import Mapping
from cpsat_pim.mapping.constraints import FREE
from cpsat_pim.mapping.dataflow import classify_dataflow
from cpsat_pim.mapping.loop_nest import format_padding
from cpsat_pim.workload.network import Network

#: Width for output that is not a terminal: enough for every table.
PIPE_WIDTH = 220
_EMPTY = "-"


class _Console(Console):
    """A console that raises `BrokenPipeError` when its stream is closed."""

    def on_broken_pipe(self) -> None:
        """Raise the error; the base class would end the program."""
        raise BrokenPipeError


def open_console(stream: TextIO) -> Console:
    """Open a console for a stream: plain and wide if the stream is not a terminal."""
    if stream.isatty():
        return _Console(file=stream, highlight=False)
    return _Console(file=stream, width=PIPE_WIDTH, color_system=None, force_terminal=False, highlight=False)


def print_plain(console: Console, text: str) -> None:
    """Print a line verbatim, without markup or wrapping."""
    console.print(Text(text), soft_wrap=True)


def format_energy(energy_fj: int) -> str:
    """Format an energy with four digits in nJ, uJ or mJ."""
    for unit, size in (("mJ", FJ_PER_NJ * 10**6), ("uJ", FJ_PER_NJ * 10**3), ("nJ", FJ_PER_NJ)):
        if energy_fj >= size or unit == "nJ":
            break
    value = energy_fj / size
    digits = max(0, 3 - len(str(int(value))) + 1)
    return f"{value:.{digits}f} {unit}"


def format_edp(product: int) -> str:
    """Format latency x energy with four digits, in cycles x nJ."""
    return f"{product / FJ_PER_NJ:.4g}"


def format_objective(kind: str, value: int | float) -> str:
    """Format an objective's value in a readable unit."""
    if kind == "energy":
        return format_energy(int(value))
    return format_edp(int(value)) if kind == "edp" else f"{value:,.0f}"


def format_gap(gap: float | None) -> str:
    """Format a gap in percent; a proven optimum is "0"."""
    if gap is None:
        return _EMPTY
    return "0" if gap == 0 else f"{gap:.3%}" if gap >= 0.00001 else "<0.001%"


def format_layouts(mapping: Mapping) -> list[str]:
    """Return the DRAM axis orders of I, W and O; brackets mark row-aligned layouts."""
    orders = [LAYOUT_ORDERS[t][mapping.layout[t]] for t in Tensor]
    aligned = mapping.stored[Level.ROW_BUFFER]
    return [f"[{order}]" if aligned[t] else order for t, order in zip(Tensor, orders, strict=True)]


# --- Results ---------------------------------------------------------------------------------------------------------


@frozen
class _Column:
    """A column of the results: heading, cell of a layer, cell of the totals. `group` is its table when one table is too
    wide.
    """

    heading: str
    cell: Callable[[NetworkLayer], str]
    total: Callable[[SolvedNetwork], str] = lambda network: ""
    group: int = 0
    justify: Any = "right"


def print_results(console: Console, network: SolvedNetwork) -> None:
    """Print a row per layer and the totals, in two tables if the terminal is too narrow for one."""
    columns = _columns(network)
    whole = _result_table(network, columns)
    if _natural_width(whole) <= console.width:
        console.print(whole)
    else:
        for group in (0, 1):
            console.print(_result_table(network, [_NAME, *(c for c in columns if c is not _NAME and c.group == group)]))
    for line in _footnotes(network):
        print_plain(console, line)


def tabulate(network: SolvedNetwork) -> list[list[str]]:
    """Return the same table as text: headings, a row per layer, the totals."""
    columns = _columns(network)
    rows = [[column.cell(node) for column in columns] for node in network.layers]
    return [[column.heading for column in columns], *rows, [column.total(network) for column in columns]]


def _columns(network: SolvedNetwork) -> list[_Column]:
    """Return the columns; the product of latency and energy only if it is the objective."""
    return [column for column in _COLUMNS if column is not _PRODUCT or network.objective.is_product]


def _natural_width(table: Table) -> int:
    """Return the width at which no cell wraps."""
    return Console(width=10_000).measure(table).maximum


def _result_table(network: SolvedNetwork, columns: Iterable[_Column]) -> Table:
    columns = list(columns)
    table = Table(box=box.SIMPLE_HEAD, show_footer=True, pad_edge=False)
    for column in columns:
        table.add_column(
            column.heading, Text(column.total(network)), justify=column.justify, no_wrap=column is not _NAME
        )
    for node in network.layers:
        table.add_row(*(Text(column.cell(node)) for column in columns), style=_style(node.solved))
    return table


def _style(solved: SolvedLayer) -> str:
    return "" if solved.status is Status.OPTIMAL else "yellow" if solved.mapping else "red"


def _of_answer(cell: Callable[[SolvedLayer], str]) -> Callable[[NetworkLayer], str]:
    """Return a cell that is empty for a layer without a mapping."""
    return lambda node: cell(node.solved) if node.solved.mapping else _EMPTY


def _of_mapping(cell: Callable[[Mapping], str]) -> Callable[[NetworkLayer], str]:
    """Return a cell that depends only on the mapping, and is empty without one."""
    return lambda node: cell(node.solved.mapping) if node.solved.mapping else _EMPTY


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
    return _EMPTY if deviation is None else "0" if deviation == 0 else f"{float(deviation):+.2%}"


def _total_activations(network: SolvedNetwork) -> str:
    mapped = [n for n in network.layers if n.solved.mapping]
    return _triple(sum(n.count * n.solved.predicted.row_activations[t] for n in mapped) for t in Tensor)


def _total_status(network: SolvedNetwork) -> str:
    proven = sum(n.solved.status is Status.OPTIMAL for n in network.layers)
    return f"{proven}/{len(network.layers)}"


def _total_seconds(network: SolvedNetwork) -> str:
    return f"{network.seconds:.1f}"


_NAME = _Column("layer", lambda n: n.name, lambda network: "total", justify="left")
_PRODUCT = _Column(
    "EDP",
    _of_answer(lambda s: format_edp(s.predicted.latency_cycles * s.predicted.energy_fj)),
    lambda network: format_edp(int(network.objective_value)),
)
_COLUMNS = (
    _NAME,
    _Column("x", lambda n: str(n.count), lambda network: str(sum(n.count for n in network.layers))),
    _Column(
        "cycles",
        _of_answer(lambda s: f"{s.predicted.latency_cycles:,}"),
        lambda network: f"{network.latency_cycles:,}",
    ),
    _Column("sim.", _of_answer(_deviation_text)),
    _Column(
        "energy",
        _of_answer(lambda s: format_energy(s.predicted.energy_fj)),
        lambda network: format_energy(network.energy_fj),
    ),
    _PRODUCT,
    _Column("bound by", _of_answer(lambda s: s.limited_by), justify="left"),
    _Column(
        "activations I / W / O",
        _of_answer(lambda s: _triple(s.predicted.row_activations)),
        _total_activations,
        group=1,
    ),
    _Column("PE util.", _of_answer(lambda s: f"{s.pe_utilization:.1%}"), group=1),
    _Column("flow", _of_mapping(classify_dataflow), group=1, justify="left"),
    _Column("layout I W O", _of_mapping(lambda mapping: " ".join(format_layouts(mapping))), group=1, justify="left"),
    _Column("status", lambda n: n.solved.status.value, _total_status, justify="left"),
    _Column("gap", lambda n: format_gap(n.solved.gap), lambda network: format_gap(network.gap)),
    _Column("s", lambda n: f"{n.solved.solve_seconds:.1f}", _total_seconds),
)


def _footnotes(network: SolvedNetwork) -> Iterator[str]:
    """Yield the lines below the table: what the columns mean, and what was verified."""
    yield (
        f"{network.network} on {format_machine(network.arch)}, objective {_objective_text(network)}. "
        "Layouts in brackets are row-aligned, the others sequential."
    )
    deviations = [abs(d) for d in (_deviation(n.solved) for n in network.layers) if d is not None]
    if deviations:
        yield (
            "Simulated: all counts, energy, compute and DRAM cycles equal; latency within "
            f"{float(max(deviations)):.2%} ('sim.': simulated against predicted)."
        )
    if any(node.solved.constraints != FREE for node in network.layers) and not network.shared:
        yield "Bounds and proofs hold for the mappings that satisfy the constraints."
    padding = max((node.solved.padding for node in network.layers), default=0)
    if padding:
        yield f"Bounds and proofs hold for each layer and its paddings with at most {100 * padding:g} % more MACs."
    for node in network.layers:
        if any(node.solved.workload.zeros):
            yield f"{node.name} is padded: {format_padding(node.solved.workload)}."
    if network.shared:
        yield f"{format_choice(network.shared.to_dict())} {_price(network.shared)}"
    if network.interrupted:
        yield "Interrupted: these are the best mappings found so far."


def format_machine(arch: PIMArchitecture) -> str:
    """Name a machine, and say of one with several nodes that a mapping uses one of them."""
    return arch.name if arch.nodes == 1 else f"one of {arch.nodes:,} nodes of {arch.name}"


def format_choice(shared: dict[str, Any]) -> str:
    """Describe a shared choice, given as plain data, and how far its optimality is proven."""
    choice = shared["choice"]
    if choice is None:
        return (
            "Infeasible: no shared choice has a mapping of every layer."
            if shared["status"] == Status.INFEASIBLE
            else "No shared choice was found."
        )
    stored = [f"{level} {_names(row)}" for level, row in choice.get("stored", {}).items()]
    orders = [f"{tensor} {order}" for tensor, order in choice.get("layout", {}).items()]
    proof = "proven" if shared["gap"] == 0 else f"gap {format_gap(shared['gap'])}"
    return f"Shared by all layers: {', '.join([*stored, *orders])}; minimum over all choices: {proof}."


def _names(row: dict[str, bool]) -> str:
    """Name the tensors that a level stores."""
    return f"stores {' '.join(t for t in row if row[t]) or 'nothing'}"


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


# --- Simulated beside predicted --------------------------------------------------------------------------------------


def print_comparison(console: Console, name: str, predicted: Figures, simulated: Figures) -> None:
    """Print every figure as predicted and as simulated, and whether the two are equal."""
    table = Table(box=box.SIMPLE_HEAD, title=Text(name), title_justify="left", pad_edge=False)
    for heading in ("figure", "simulated", "predicted", ""):
        table.add_column(heading, justify="left" if heading in ("figure", "") else "right", no_wrap=True)
    ours, theirs = dict(_flat(predicted.to_dict())), dict(_flat(simulated.to_dict()))
    for key, value in theirs.items():
        if value or ours[key]:
            table.add_row(key, f"{value:,}", f"{ours[key]:,}", _verdict(key, ours[key], value))
    console.print(table)


def _verdict(key: str, predicted: int, simulated: int) -> str:
    """Compare a figure. The predicted latency is an estimate and may deviate."""
    if predicted == simulated:
        return "equal"
    if key == "latency_cycles":
        return f"{(simulated - predicted) / max(predicted, 1):+.2%} (an estimate)"
    return "DIFFERENT"


def _flat(data: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, int]]:
    """Flatten nested dicts: `{"accesses": {"PE": {"I": {"read": 3}}}}` yields `accesses.PE.I.read`, 3."""
    for key, value in data.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{key}.")
        else:
            yield prefix + key, value


# --- What there is ---------------------------------------------------------------------------------------------------


def print_networks(console: Console, networks: Iterable[Network]) -> None:
    """Print the number of layers, distinct shapes, MACs and weights of each network."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("network", no_wrap=True)
    for heading in ("layers", "unique shapes", "MACs", "weights"):
        table.add_column(heading, justify="right", no_wrap=True)
    for network in networks:
        shapes = {node.workload.shape_key for node in network.layers}
        runs = sum(node.count for node in network.layers)
        table.add_row(
            Text(network.name), str(runs), str(len(shapes)), f"{network.total_macs:,}", f"{network.total_weights:,}"
        )
    console.print(table)


def print_archs(console: Console, archs: Iterable[tuple[str, PIMArchitecture]]) -> None:
    """Print the key figures of each machine: the array and the memories of one node, which is what a mapping uses."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for heading in ("arch", "nodes", "PEs x lanes", "PE", "global", "row", "row size", "DRAM", "banks", "page", "act."):
        table.add_column(heading, justify="left" if heading in ("arch", "page") else "right", no_wrap=True)
    buffers = (Level.PE, Level.GLOBAL_BUFFER, Level.ROW_BUFFER)
    for name, arch in archs:
        shape, unit = arch.pe_array.array_shape, arch.pe_array.compute_unit
        table.add_row(
            Text(name),
            str(arch.nodes),
            f"{shape.h}x{shape.w} x {unit.num_macs}",
            *(_format_capacity(arch.hierarchy[m]) for m in buffers),
            format_bytes(arch.row_bytes),
            format_bytes(arch.hierarchy[Level.DRAM].capacity_bytes),
            str(arch.banks),
            arch.page_policy,
            f"{arch.activation_energy:g} nJ",
        )
    console.print(table)


def _format_capacity(memory: MemoryLevel) -> str:
    """Format the size of a level: of its one buffer, or of those for I, W and O."""
    if memory.is_shared:
        return format_bytes(memory.capacity_bytes)
    return " + ".join(format_bytes(memory.entries_of(t) * memory.word_bytes) for t in Tensor)


def format_bytes(size: int) -> str:
    """Format a size in B, KiB, MiB or GiB, with one decimal if it is not whole."""
    for unit, scale in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if size >= scale:
            return f"{size // scale} {unit}" if size % scale == 0 else f"{size / scale:.1f} {unit}"
    return f"{size} B"
