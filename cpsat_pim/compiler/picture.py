"""A compiled kernel as a page: the slots of a channel over time, dimension sets, and what lies where in a bank."""

from collections.abc import Iterator
from html import escape
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cpsat_pim.compiler.language import Kernel, dimension_sets
from cpsat_pim.compiler.mapping import Mapping, contraction_of
from cpsat_pim.compiler.mapping.broadcast import BroadcastMapping
from cpsat_pim.compiler.plan import Plan, format_plan
from cpsat_pim.device import Device
from cpsat_pim.device.distances import least_ticks
from cpsat_pim.device.rules import rules_of
from tracesim.commands import Function, Stream, simulate
from tracesim.commands.records import FUNCTION

Ints = NDArray[np.int64]

#: Ticks of the chart of slots, and rows of the picture of a bank: the first ones, said on the page.
CHART_TICKS, BANK_ROWS = 600, 24
#: Pixels of a tick, at least and at most, and of a chart between these; of a lane of the chart, of a bank column.
TICK_PX, CHART_PX, LANE_PX, COLUMN_PX = (3, 16), 900, 26, 14
#: Ticks between two numbers of the axis, and the pixels that a number needs.
AXIS_STEPS, NUMBER_PX = (5, 10, 20, 50, 100), 40
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
    ":root{color-scheme:light dark}body{font:14px sans-serif;margin:24px;color:#222;background:#fff}"
    "pre{background:#f6f6f6;padding:12px;overflow:auto}.scroll{overflow-x:auto}svg{display:block}"
    "table{border-collapse:collapse}td,th{border:1px solid #ccc;padding:4px 8px;text-align:left}"
    "text{font:11px sans-serif;fill:currentColor}@media(prefers-color-scheme:dark){body{color:#ddd;background:#181818}"
    "pre{background:#262626}td,th{border-color:#555}}"
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
    bars, rows = list(slot_bars(stream, device)), _rows(stream, device)
    sections = [
        f"<h1>{escape(plan.kernel)} on {escape(plan.device)}</h1><pre>{escape(format_plan(plan))}</pre>",
        f"<h2>Slots of a channel, tick 1 to {min(CHART_TICKS, plan.simulated)} of {plan.simulated}</h2>",
        "<p>As simulated, without refresh. Row: ACT, PRE and mode changes that the controller inserts.</p>",
        f"<div class=scroll>{_chart(bars)}</div>",
        f"<h2>Dimension sets</h2><div class=scroll>{_sets(kernel, plan, device)}</div>",
        f"<h2>A bank: the first {min(BANK_ROWS, rows)} of {rows} rows, coloured by barrier group</h2>",
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
    ticks = max((bar.last for bar in bars), default=1) + 1
    px = min(TICK_PX[1], max(TICK_PX[0], CHART_PX // ticks))
    width = 70 + px * ticks + NUMBER_PX  # a number at the last tick is not cut
    parts = [f"<svg width={width} height={LANE_PX * len(LANES) + 20} role=img>"]
    parts += [f"<text x=4 y={LANE_PX * lane + 17}>{name}</text>" for lane, name in enumerate(LANES)]
    for bar in bars:
        x, size = 70 + px * bar.first, max(1, px * (bar.last - bar.first) - 1)
        parts.append(
            f"<rect x={x} y={LANE_PX * bar.lane + 4} width={size} height={LANE_PX - 8} fill='{bar.colour}'>"
            f"<title>{escape(bar.title)}</title></rect>"
        )
    step = next(step for step in AXIS_STEPS if step * px >= NUMBER_PX)
    base = LANE_PX * len(LANES) + 14
    parts.append(f"<text x=4 y={base}>tick</text>")
    parts += [f"<text x={70 + px * tick} y={base}>{tick}</text>" for tick in range(0, ticks, step)]
    return "".join(parts) + "</svg>"


def _sets(kernel: Kernel, plan: Plan, device: Device) -> str:
    """Every dimension set with its tensor dimensions, and what divides it, if the kernel is one product or sum."""
    divided, rows = _divided(kernel, plan, device), []
    for found in dimension_sets(kernel):
        names = ", ".join(f"{tensor}[{index}]" for tensor, index in sorted(found.dimensions))
        cells = [found.name, names, *divided.get(found.name, ("", ""))]
        rows.append("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in cells) + "</tr>")
    head = "".join(f"<th>{name}</th>" for name in ("loop variables", "tensor dimensions", "channels", "axes"))
    return f"<table><tr>{head}</tr>{''.join(rows)}</table>"


def _divided(kernel: Kernel, plan: Plan, device: Device) -> dict[str, tuple[str, str]]:
    """By loop variable: over how many channels its class is divided, and along which axes of a channel."""
    mapping = plan.mappings.get(kernel.name)
    if not isinstance(mapping, Mapping | BroadcastMapping):
        return {}
    bound = kernel.bind(plan.sizes)
    contraction = contraction_of(bound, bound.statements[0])
    names = [axis.name for axis in device.group.axes] + ["accumulators"]
    divided = {}
    for number, loops in enumerate(contraction.loops):
        axes = [name for name, owner in zip(names, mapping.owners, strict=False) if owner == number]
        together = " together" if len(loops) > 1 else ""
        for loop in loops:
            divided[loop.variable] = (f"{mapping.splits[number]}{together}", ", ".join(axes) or "none")
    return divided


def _rows(stream: Stream, device: Device) -> int:
    """Rows that products meet."""
    return int(stream.row[lanes_of(stream, device) == 0].max(initial=0)) + 1


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
