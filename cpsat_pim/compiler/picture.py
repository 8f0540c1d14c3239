"""A compiled kernel as a page: the slots of a channel over time, dimension sets, and what lies where in a bank."""

from collections.abc import Iterator
from html import escape
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cpsat_pim.compiler.language import Kernel, dimension_sets
from cpsat_pim.compiler.plan import Plan, format_plan
from cpsat_pim.device import Device
from cpsat_pim.device.distances import least_ticks
from cpsat_pim.device.rules import rules_of
from tracesim.commands import Function, Stream, simulate
from tracesim.commands.records import FUNCTION

Ints = NDArray[np.int64]

#: Ticks of the chart of slots, and rows of the picture of a bank: the first ones, said on the page.
CHART_TICKS, BANK_ROWS = 600, 24
#: Pixels of a tick, of a lane of the chart, of a bank column.
TICK_PX, LANE_PX, COLUMN_PX = 3, 26, 14
COLOURS = ("#4e79a7", "#f28e2b", "#59a14f", "#e15759", "#76b7b2", "#edc948", "#b07aa1", "#9c755f")
LANES = ("compute", "load", "drain", "other", "row")
OTHER, ROW = 3, 4
_LANES = {
    **dict.fromkeys((Function.MAC_TREE, Function.MAC_LANES, Function.ADD, Function.MUL), 0),
    **dict.fromkeys((Function.FILL, Function.FILL_RELU), 0),
    **dict.fromkeys((Function.LOAD, Function.LOAD_SCALARS, Function.WRITE, Function.WRITE_EACH), 1),
    **dict.fromkeys((Function.DRAIN, Function.DRAIN_CLEAR, Function.DRAIN_SCALARS, Function.STORE, Function.READ), 2),
    Function.READ_EACH: 2,
}
#: Functions that multiply with inputs in registers: where they are, a fill is the load of inputs from a bank.
_PRODUCTS = (Function.MAC_TREE, Function.MAC_LANES)

STYLE = (
    "body{font:14px sans-serif;margin:24px;color:#222}pre{background:#f6f6f6;padding:12px;overflow:auto}"
    "svg{display:block;max-width:100%}table{border-collapse:collapse}td,th{border:1px solid #ccc;padding:4px 8px}"
    ".scroll{overflow-x:auto}text{font:11px sans-serif}"
)


class Bar(NamedTuple):
    """Commands of one kind in one lane of the chart, from a tick to another."""

    lane: int
    first: int
    last: int
    title: str
    colour: str


def plan_page(plan: Plan, kernel: Kernel, stream: Stream, device: Device) -> str:
    """The page, complete in itself."""
    bars = list(slot_bars(stream, device))
    sections = [
        f"<h1>{escape(plan.kernel)} on {escape(plan.device)}</h1><pre>{escape(format_plan(plan))}</pre>",
        f"<h2>Slots of a channel, tick 1 to {min(CHART_TICKS, plan.simulated)} of {plan.simulated}</h2>",
        "<p>As simulated, without refresh. Row: ACT, PRE and mode changes that the controller inserts.</p>",
        f"<div class=scroll>{_chart(bars)}</div>",
        "<h2>Dimension sets</h2>" + _sets(kernel),
        f"<h2>A bank: the first {BANK_ROWS} rows, coloured by barrier group</h2>",
        "<p>Columns lie in the order in which the cores meet them; all cores of a channel alike.</p>",
        f"<div class=scroll>{_bank(stream, device)}</div>",
    ]
    head = f"<!doctype html><meta charset=utf-8><title>{escape(plan.kernel)}</title><style>{STYLE}</style>"
    return head + "\n".join(sections)


def lanes_of(stream: Stream, device: Device) -> Ints:
    """The lane of every command, an index into `LANES`: by what it does, or in a stream that states no functions (an
    attention) by what it could do."""
    functions = stream.work[:, FUNCTION]
    if (functions != Function.NOTHING).any():
        lanes = np.array([_lane(Function(function).name) for function in functions.tolist()], np.int64)
        lanes[(functions == Function.FILL) & np.isin(functions, _PRODUCTS).any()] = LANES.index("load")
        return lanes
    could = [min((_lane(name) for name in command.does), default=OTHER) for command in device.commands]
    return np.array(could, np.int64)[stream.kind]


def _lane(function: str) -> int:
    return _LANES.get(Function[function.upper()], OTHER)


def slot_bars(stream: Stream, device: Device) -> Iterator[Bar]:
    """The bars of the chart: computing commands of one barrier group that follow each other are one bar."""
    trace, lanes = simulate(rules_of(device), stream), lanes_of(stream, device)
    run: list[int] = []
    order = np.argsort(trace.issue, kind="stable")
    for at in order[trace.issue[order] <= CHART_TICKS].tolist():
        lane, tick = int(lanes[at]), int(trace.issue[at])
        apart = _apart(device, int(stream.kind[at]))
        if lane == 0 and (not run or _follows(stream, trace.issue, run[-1], at, apart)):
            run.append(at)
            continue
        yield from _mac_bar(stream, trace.issue, run, device)
        run = [at] if lane == 0 else []
        if not run:
            name = device.commands[stream.kind[at]].name
            yield Bar(lane, tick, tick + 1, f"{name} at {tick}, group {stream.group[at]}", COLOURS[lane])
    yield from _mac_bar(stream, trace.issue, run, device)
    for tick, command, _ in trace.inserted.tolist():
        if tick <= CHART_TICKS:
            yield Bar(ROW, tick, tick + 2, f"{device.commands[command].name} at {tick}", COLOURS[ROW])


def _apart(device: Device, kind: int) -> int:
    """Ticks from a command to the next one of its kind."""
    return max(1, least_ticks(device, kind, kind))


def _follows(stream: Stream, issue: Ints, before: int, after: int, apart: int) -> bool:
    return bool(issue[after] - issue[before] == apart and stream.group[after] == stream.group[before])


def _mac_bar(stream: Stream, issue: Ints, run: list[int], device: Device) -> Iterator[Bar]:
    if run:
        last = int(issue[run[-1]]) + _apart(device, int(stream.kind[run[-1]]))
        first, group = int(issue[run[0]]), int(stream.group[run[0]])
        title = f"{len(run)} {device.commands[stream.kind[run[0]]].name} from tick {first}, group {group}, row "
        yield Bar(0, first, last, f"{title}{stream.row[run[0]]}", COLOURS[group % len(COLOURS)])


def _chart(bars: list[Bar]) -> str:
    width = 70 + TICK_PX * (max((bar.last for bar in bars), default=1) + 1)
    parts = [f"<svg width={width} height={LANE_PX * len(LANES) + 20} role=img>"]
    parts += [f"<text x=4 y={LANE_PX * lane + 17}>{name}</text>" for lane, name in enumerate(LANES)]
    for bar in bars:
        x, size = 70 + TICK_PX * bar.first, max(1, TICK_PX * (bar.last - bar.first) - 1)
        parts.append(
            f"<rect x={x} y={LANE_PX * bar.lane + 4} width={size} height={LANE_PX - 8} fill='{bar.colour}'>"
            f"<title>{escape(bar.title)}</title></rect>"
        )
    ticks = range(0, CHART_TICKS + 1, 50)
    base = LANE_PX * len(LANES) + 14
    parts += [f"<text x={70 + TICK_PX * tick} y={base}>{tick}</text>" for tick in ticks if 70 + TICK_PX * tick < width]
    return "".join(parts) + "</svg>"


def _sets(kernel: Kernel) -> str:
    rows = "".join(
        f"<tr><td>{escape(found.name)}</td><td>"
        + escape(", ".join(f"{tensor}[{index}]" for tensor, index in sorted(found.dimensions)))
        + "</td></tr>"
        for found in dimension_sets(kernel)
    )
    return f"<table><tr><th>loop variables</th><th>tensor dimensions</th></tr>{rows}</table>"


def _bank(stream: Stream, device: Device) -> str:
    macs = np.flatnonzero(lanes_of(stream, device) == 0)
    columns, seen, parts = device.core.columns, set[tuple[int, int]](), []
    for at in macs.tolist():
        row, column = int(stream.row[at]), int(stream.column[at])
        if row >= BANK_ROWS or (row, column) in seen:
            continue
        seen.add((row, column))
        colour = COLOURS[int(stream.group[at]) % len(COLOURS)]
        parts.append(
            f"<rect x={40 + COLUMN_PX * column} y={COLUMN_PX * row} width={COLUMN_PX - 1} height={COLUMN_PX - 1} "
            f"fill='{colour}'><title>row {row}, column {column}, group {stream.group[at]}</title></rect>"
        )
    rows = 1 + max((row for row, _ in seen), default=0)
    names = "".join(f"<text x=4 y={COLUMN_PX * row + 11}>{row}</text>" for row in range(rows))
    size = f"width={40 + COLUMN_PX * columns} height={COLUMN_PX * rows}"
    return f"<svg {size} role=img>{names}{''.join(parts)}</svg>"
