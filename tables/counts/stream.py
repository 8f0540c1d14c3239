"""One tensor's stream from DRAM under a mapping: its tiles, their order and pace, walked scan by scan."""

from typing import NamedTuple

import numpy as np

from tables.counts.accesses import fetches
from tables.counts.visits import BLOCK, SEQUENTIAL, WINDOW, Tile
from tables.counts.walk import (
    INFINITE_CYCLES,
    NO_OVERLAP,
    NO_STREAM_LIMIT,
    Demand,
    StreamCounts,
    StreamLimit,
    walk_stream,
)
from tables.dram import Dram
from tables.jit import njit
from tables.nest import AXES, DRAM, FILTER_OF, IRRELEVANT, MACS, PE, ROW_BUFFER, I, Ints, Nest, O, P, Q, axis_set


class ArrayTiming(NamedTuple):
    """Cycles of all array steps, and whether PE, global buffer and row buffer hold a second tile to load into."""

    array_cycles: int
    is_double: tuple[bool, bool, bool]


#: For those who count no late tiles.
ANY_TIMING = ArrayTiming(1, (True, True, False))


@njit
def merge_segments(starts: Ints, length: int) -> Ints:
    """Join sorted equal segments that touch: int[n, 2] of first byte and bytes."""
    merged = np.empty((starts.shape[0], 2), np.int64)
    n = 0
    for start in starts:
        if n and merged[n - 1, 0] + merged[n - 1, 1] == start:
            merged[n - 1, 1] += length
        else:
            merged[n, 0], merged[n, 1] = start, length
            n += 1
    return merged[:n].copy()


def segments(sets: list[Ints], strides: list[int], width: int) -> Ints:
    """Byte segments of the product of per-axis offset sets, outermost axis first, in address order."""
    starts = np.zeros(1, np.int64)
    for offsets, stride in zip(sets, strides, strict=True):
        if len(offsets) > 1:
            starts = np.add.outer(starts, offsets * stride * width).ravel()
    return merge_segments(starts, width)


def _strides(sizes: list[int]) -> list[int]:
    """Elements (or blocks) from one index to the next along each axis of a packed array."""
    strides = [1]
    for size in reversed(sizes[1:]):
        strides.insert(0, strides[0] * size)
    return strides


def stream_loops(nest: Nest, t: int, consumer: int) -> list[tuple[int, int, int, int]]:
    """Loops that drive t's fetches into a consumer, outermost first: (dim, level, factor, extent of one iteration).

    One iteration of a level-m loop moves by the extent of what is inside it.
    """
    loops = nest.fetch_loops(t, consumer)
    return [(d, level, nest.temporal[level][d], _extent_inside(nest, level, d)) for level, d in reversed(loops)]


def _extent_inside(nest: Nest, level: int, d: int) -> int:
    """Indices of d that one iteration of its loop at a level covers (or steps over)."""
    if level == 0:
        return nest.lanes(d)
    return nest.extent(0, d) * nest.array(d) if level == 1 else nest.extent(level - 1, d)


def demanded_tiles(nest: Nest, t: int, tempo: ArrayTiming) -> int:
    """Over how many tiles (or array steps) the array's cycles are shared out to make t's pace."""
    consumer, *inner = nest.consumers(t)
    if consumer == MACS:
        return nest.steps() // nest.array_step()
    holder = consumer if tempo.is_double[consumer] else inner[0]
    return 1 if holder == MACS else fetches(nest, t, holder)


def tile_demand(nest: Nest, t: int, tempo: ArrayTiming) -> Demand:
    """How fast the array asks for t's tiles."""
    consumer, *inner = nest.consumers(t)
    if consumer == MACS:
        return Demand(nest.array_step(), tempo.array_cycles // demanded_tiles(nest, t, tempo), True)
    if t == O and nest.spilled():
        return Demand(1, INFINITE_CYCLES, False)  # outputs that come back are waited for as a whole
    holder = consumer if tempo.is_double[consumer] else inner[0]
    # A level with one slot takes its next tile only while the last tile taken from it is in use further in.
    if holder == MACS or not tempo.is_double[holder]:
        return NO_OVERLAP
    return Demand(1, tempo.array_cycles // demanded_tiles(nest, t, tempo), False, t != O and holder == consumer)


def stream_key(nest: Nest, t: int, tempo: ArrayTiming) -> tuple[object, ...]:
    """What t's stream depends on besides layout and blocks: of one layer, streams with equal keys are equal."""
    consumer = nest.consumers(t)[0]
    loops = [
        (factor,) if d in IRRELEVANT[t] else (d, factor, inside)
        for d, _, factor, inside in stream_loops(nest, t, consumer)
    ]
    spread = [nest.array(d) for d in range(8) if d not in IRRELEVANT[t]] if consumer <= PE else []
    return t, consumer, tuple(loops), tile_demand(nest, t, tempo), tuple(spread)


def dram_stream(
    nest: Nest, t: int, dram: Dram, tempo: ArrayTiming = ANY_TIMING, room: StreamLimit = NO_STREAM_LIMIT
) -> StreamCounts:
    """Exact counts of t's DRAM stream under a mapping, if there is room for it."""
    consumer = nest.consumers(t)[0]
    axes = AXES[t][nest.layout[t]]
    width = nest.width(t, DRAM)
    sizes = [nest.side(t, DRAM, a) for a in axes]
    none = np.zeros(5, np.int64)
    if consumer == ROW_BUFFER:
        box = [nest.side(t, ROW_BUFFER, a) for a in axes]
        block = list(box)
        if t == I:
            block = [nest.block_h if a == Q else nest.block_w if a == P else b for a, b in zip(axes, box, strict=True)]
        grid = [-(-size // b) for size, b in zip(sizes, block, strict=True)]
        strides = _strides(grid)
        block_bytes = int(np.prod(block)) * width
        mode = WINDOW if t == I else BLOCK
        tile = Tile(mode, np.array([[0, block_bytes]]), block_bytes, none, none, none, nest.layout[t] == 1, width)
        if t == I:
            canonical = AXES[I][0]
            pick = [axes.index(a) for a in canonical]
            tile = tile._replace(
                window=np.array([box[i] for i in pick]),
                block=np.array([block[i] for i in pick]),
                strides=np.array([strides[i] for i in pick]),
            )
    else:
        strides = _strides(sizes)
        sets = [axis_set(nest, t, consumer, a) for a in axes]
        tile = Tile(SEQUENTIAL, segments(sets, strides, width), 0, none, none, none, False, width)
    loops, steps = [], []
    for d, _, factor, inside in stream_loops(nest, t, consumer):
        step = [0] * 5
        if d not in IRRELEVANT[t]:
            axis, amount = _axis_step(nest, t, d, inside)
            position = axes.index(axis)
            if tile.mode == WINDOW:
                step[AXES[I][0].index(axis)] = amount
            elif tile.mode == BLOCK:
                step[0] = amount // box[position] * strides[position]
            else:
                step[0] = amount * strides[position] * width
        loops.append((factor, int(d in IRRELEVANT[t])))
        steps.append(step)
    return StreamCounts(
        *walk_stream(
            np.array(loops, np.int64).reshape(-1, 2),
            np.array(steps, np.int64).reshape(-1, 5),
            tile,
            t == O,
            t == O and nest.rereads_copies(),
            tile_demand(nest, t, tempo),
            dram,
            room,
        )
    )


def _axis_step(nest: Nest, t: int, d: int, indices: int) -> tuple[int, int]:
    """Axis that a dim walks and how far `indices` of the dim move along it."""
    if t == I:
        for axis, filters in FILTER_OF.items():
            if d in (axis, filters):
                stride, dilation = nest.stride_dilation(axis)
                return axis, indices * (stride if d == axis else dilation)
    return d, indices
