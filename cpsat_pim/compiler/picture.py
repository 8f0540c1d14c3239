"""A compiled kernel as a page: the slots of a channel over time, dimension sets, and what lies where in a bank."""

from collections.abc import Iterator
from html import escape
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cpsat_pim.compiler.language import Kernel, dimension_sets
from cpsat_pim.compiler.plan import Plan, format_plan
from cpsat_pim.compiler.target import Target
from tracesim.commands import Function, Stream, simulate
from tracesim.commands.records import FUNCTION

Ints = NDArray[np.int64]

#: Ticks of the chart of slots, and rows of the picture of a bank: the first ones, said on the page.
CHART_TICKS, BANK_ROWS = 600, 24
#: Pixels of a tick, of a lane of the chart, of a bank column.
TICK_PX, LANE_PX, COLUMN_PX = 3, 26, 14
COLOURS = ("#4e79a7", "#f28e2b", "#59a14f", "#e15759", "#76b7b2", "#edc948", "#b07aa1", "#9c755f")
LANES = ("MAC", "load", "drain", "other", "row")

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


def plan_page(plan: Plan, kernel: Kernel, stream: Stream, target: Target) -> str:
    """The page, complete in itself."""
    bars = list(slot_bars(stream, target))
    sections = [
        f"<h1>{escape(plan.kernel)} on {escape(plan.device)}</h1><pre>{escape(format_plan(plan))}</pre>",
        f"<h2>Slots of a channel, tick 1 to {min(CHART_TICKS, plan.simulated)} of {plan.simulated}</h2>",
        "<p>As simulated, without refresh. One column command and one row command a tick.</p>",
        f"<div class=scroll>{_chart(bars)}</div>",
        "<h2>Dimension sets</h2>" + _sets(kernel),
        f"<h2>A bank: the first {BANK_ROWS} rows, coloured by barrier group</h2>",
        "<p>Columns lie in the order in which MACs meet them; all cores of a channel alike.</p>",
        f"<div class=scroll>{_bank(stream, target)}</div>",
    ]
    head = f"<!doctype html><meta charset=utf-8><title>{escape(plan.kernel)}</title><style>{STYLE}</style>"
    return head + "\n".join(sections)


def slot_bars(stream: Stream, target: Target) -> Iterator[Bar]:
    """The bars of the chart: MACs of one barrier group that follow each other are one bar."""
    trace, device = simulate(target.rules, stream), target.device
    run: list[int] = []
    for at in range(stream.kind.size):
        if trace.issue[at] > CHART_TICKS:
            break
        if stream.kind[at] == target.mac and (not run or _follows(stream, trace.issue, run[-1], at, target)):
            run.append(at)
            continue
        yield from _mac_bar(stream, trace.issue, run, target)
        run = [at] if stream.kind[at] == target.mac else []
        if not run:
            tick, name = int(trace.issue[at]), device.commands[stream.kind[at]].name
            lane = {target.load: 1, target.reload: 1, target.drain: 2}.get(int(stream.kind[at]), 3)
            yield Bar(lane, tick, tick + 1, f"{name} at {tick}, group {stream.group[at]}", COLOURS[lane])
    yield from _mac_bar(stream, trace.issue, run, target)
    for tick, command, _ in trace.inserted.tolist():
        if tick <= CHART_TICKS:
            yield Bar(4, tick, tick + 2, f"{device.commands[command].name} at {tick}", COLOURS[4])


def _follows(stream: Stream, issue: Ints, before: int, after: int, target: Target) -> bool:
    return bool(issue[after] - issue[before] == target.timing.mac and stream.group[after] == stream.group[before])


def _mac_bar(stream: Stream, issue: Ints, run: list[int], target: Target) -> Iterator[Bar]:
    if run:
        first, last, group = int(issue[run[0]]), int(issue[run[-1]]) + target.timing.mac, int(stream.group[run[0]])
        title = f"{len(run)} MACs from tick {first}, group {group}, row {stream.row[run[0]]}"
        yield Bar(0, first, last, title, COLOURS[group % len(COLOURS)])


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


def _bank(stream: Stream, target: Target) -> str:
    macs = np.flatnonzero(stream.work[:, FUNCTION] != Function.NOTHING)
    macs = macs[stream.kind[macs] == target.mac]
    if not len(macs):
        macs = np.flatnonzero(stream.kind == target.mac)
    columns, seen, parts = target.device.core.columns, set[tuple[int, int]](), []
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
