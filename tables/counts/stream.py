"""One tensor's DRAM stream under a mapping: its tiles, their order, and when the array needs them; scan by scan."""

import math
import pickle
from typing import NamedTuple

import numpy as np

from tables.counts.accesses import fetches
from tables.counts.repetitions import Demand
from tables.counts.visits import BLOCK, SEQUENTIAL, WINDOW, Tile
from tables.counts.walk import (
    NO_OVERLAP,
    NO_STREAM_LIMIT,
    Interruption,
    StreamCounts,
    StreamLimit,
    walk_stream,
)
from tables.dram import Dram, own_banks
from tables.jit import njit
from tables.nest import AXES, DRAM, FILTER_OF, IRRELEVANT, MACS, PE, ROW_BUFFER, I, Ints, Nest, O, P, axis_set, once


class ArrayTiming(NamedTuple):
    """The array's cycles without any load from DRAM, and whether PE, global buffer and row buffer have two slots."""

    array_cycles: int
    is_double: tuple[bool, bool, bool]


#: For callers that do not read stall cycles.
ANY_TIMING = ArrayTiming(1, (True, True, False))


@njit
def merge_segments(starts: Ints, length: int) -> Ints:
    """Join equal segments that touch, `starts` int[m] ascending. Returns int[n, 2]: first byte and bytes of each."""
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
    """Return int[n, 2]: first byte and bytes of the segments of a tile, in address order.

    The tile is the product of axis sets (`sets`, outermost axis first); `strides`: elements from one index to the next.
    """
    starts = np.zeros(1, np.int64)
    for offsets, stride in zip(sets, strides, strict=True):
        if len(offsets) > 1:
            starts = np.add.outer(starts, offsets * stride * width).ravel()
    return merge_segments(starts, width)


def _strides(sizes: list[int]) -> list[int]:
    """Return the elements (or blocks) from one index to the next along each axis of a packed array."""
    strides = [1]
    for size in reversed(sizes[1:]):
        strides.insert(0, strides[0] * size)
    return strides


def stream_loops(nest: Nest, t: int, consumer: int) -> list[tuple[int, int, int, int]]:
    """Return (dim, level, factor, step) of the loops that make a consumer fetch tiles of t, outermost first.

    The step is the extent inside the loop: by so many indices one iteration moves on.
    """
    loops = nest.fetch_loops(t, consumer)
    return [(d, level, nest.temporal[level][d], extent_inside(nest, level, d)) for level, d in reversed(loops)]


def extent_inside(nest: Nest, level: int, d: int) -> int:
    """Return how many indices of d one iteration of its loop at a level covers (or passes over)."""
    if level == 0:
        return nest.lanes(d)
    return nest.extent(0, d) * nest.array(d) if level == 1 else nest.extent(level - 1, d)


def demanded_tiles(nest: Nest, t: int, timing: ArrayTiming) -> int:
    """Return over how many tiles (or array steps) the array's cycles are divided evenly in `tile_demand`."""
    consumer, *inner = nest.consumers(t)
    if consumer == MACS:
        return nest.steps() // nest.array_step()
    holder = consumer if timing.is_double[consumer] else inner[0]
    return 1 if holder == MACS else fetches(nest, t, holder)


def tile_demand(nest: Nest, t: int, timing: ArrayTiming) -> Demand:
    """Return when the array needs the tiles of t: the q(t) of docs/model.md, section 7."""
    consumer, *inner = nest.consumers(t)
    if consumer == MACS:
        return Demand(nest.array_step(), timing.array_cycles // demanded_tiles(nest, t, timing), True)
    holder = consumer if timing.is_double[consumer] else inner[0]
    # A level with one slot loads its next tile only while the array uses the last tile that was taken from it. From
    # there outputs leave before others return: the array waits for all scans.
    if holder == MACS or (holder != consumer and t == O and nest.spilled()):
        return NO_OVERLAP
    return Demand(1, timing.array_cycles // demanded_tiles(nest, t, timing), False, t != O and holder == consumer)


def scan_order(nest: Nest, t: int) -> tuple[int, bool, int]:
    """Return what orders t's last scan among those of other tensors: the number of loops that fetch t, whether the MACs
    take its tiles, and the tensor. The last two also order the scans of one step.
    """
    consumer = nest.consumers(t)[0]
    return len(nest.fetch_loops(t, consumer)), consumer == MACS, t


def interruption(nest: Nest, t: int) -> Interruption:
    """Return between which scans of t its bank is used by other tensors (docs/model.md, section 5)."""
    own, others = scan_order(nest, t), [scan_order(nest, u) for u in nest.sharing(t)]
    later = [other for other in others if other[1:] > own[1:]]
    return Interruption(
        always=any(other[0] > own[0] for other in others),
        now=max((other[0] for other in others if other not in later), default=0),
        before=max((other[0] for other in later), default=0),
        at_start=any(other[1:] != (False, O) for other in later),
        is_streamed=own[1],
    )


def stream_key(nest: Nest, t: int, timing: ArrayTiming) -> tuple[object, ...]:
    """Return what t's stream depends on besides layout and blocks: streams of one layer with equal keys are equal."""
    consumer = nest.consumers(t)[0]
    loops = [
        (factor,) if d in IRRELEVANT[t] else (d, factor, inside)
        for d, _, factor, inside in stream_loops(nest, t, consumer)
    ]
    spread = [nest.array(d) for d in range(8) if d not in IRRELEVANT[t]] if consumer <= PE else []
    return (
        t,
        consumer,
        tuple(loops),
        tile_demand(nest, t, timing),
        tuple(spread),
        interruption(nest, t),
        nest.bank_counts[t],
    )


def is_long(nest: Nest, t: int) -> bool:
    """Return whether t has so many scans that its stream may take long to count."""
    loops = nest.fetch_loops(t, nest.consumers(t)[0])
    return math.prod(nest.temporal[level][d] for level, d in loops) >= LONG_SCANS


class Stopped(Exception):
    """A count was stopped before its end."""


def dram_stream(
    nest: Nest,
    t: int,
    dram: Dram,
    timing: ArrayTiming = ANY_TIMING,
    limit: StreamLimit = NO_STREAM_LIMIT,
    stop: Ints | None = None,
) -> StreamCounts:
    """Return the exact counts of t's DRAM stream under a mapping; beyond the limit only that it is exceeded.

    `stop` int[1]: another thread sets it to end the count, which holds no lock of the interpreter. Streams that take
    long are counted once a process.

    Raises:
        Stopped: `stop` was set.
    """
    consumer = nest.consumers(t)[0]
    tile = scan_tile(nest, t)
    driving = stream_loops(nest, t, consumer)
    loops = [(factor, int(d in IRRELEVANT[t])) for d, _, factor, _ in driving]
    steps = [position_step(nest, t, d, inside) for d, _, _, inside in driving]
    stream = _Stream(
        np.array(loops, np.int64).reshape(-1, 2),
        np.array(steps, np.int64).reshape(-1, 5),
        tile,
        t == O,
        t == O and nest.rereads_copies(),
        tile_demand(nest, t, timing),
        own_banks(nest.bank_counts[t], dram),
        interruption(nest, t),
    )
    return stream.counts(limit, np.zeros(1, np.int64) if stop is None else stop, is_kept=is_long(nest, t))


class _Stream(NamedTuple):
    """What `walk_stream` takes of a stream."""

    loops: Ints
    steps: Ints
    tile: Tile
    is_output: bool
    always_reads: bool
    demand: Demand
    dram: Dram
    interruption: Interruption

    def counts(self, limit: StreamLimit, stop: Ints, *, is_kept: bool) -> StreamCounts:
        """Walk over the stream, unless its counts were kept."""
        key = self._key if is_kept else None
        if key in _COUNTED:
            return _COUNTED[key]
        counts = StreamCounts(*walk_stream(*self[:-1], limit, self.interruption, stop))
        if stop[0]:
            raise Stopped
        if key is not None and limit.admits(counts):
            if len(_COUNTED) == _MAX_COUNTED:
                _COUNTED.clear()
            _COUNTED[key] = counts
        return counts

    @property
    def _key(self) -> bytes:
        """Everything that the counts depend on."""
        arrays = (self.loops, self.steps, *self.tile)
        values = [(a.shape, a.tobytes()) if isinstance(a, np.ndarray) else a for a in arrays]
        return pickle.dumps((values, self[3:]))


#: Scans of a stream from which on its counts are kept: 0.02 s, where rows never recur.
LONG_SCANS = 100_000
#: The counts of long streams, and how many are kept: a few KiB each.
_COUNTED: dict[bytes, StreamCounts] = {}
_MAX_COUNTED = 1024


@once
def scan_tile(nest: Nest, t: int) -> Tile:
    """Return what one scan of t reads."""
    consumer = nest.consumers(t)[0]
    return _aligned_tile(nest, t) if consumer == ROW_BUFFER else _packed_tile(nest, t, consumer)


def _packed_tile(nest: Nest, t: int, consumer: int) -> Tile:
    """Return what one scan of a sequential tensor reads for a consumer."""
    axes, width, none = AXES[t][nest.layout[t]], nest.width(t, DRAM), np.zeros(5, np.int64)
    sets = [axis_set(nest, t, consumer, a) for a in axes]
    parts = segments(sets, _strides([nest.side(t, DRAM, a) for a in axes]), width)
    return Tile(SEQUENTIAL, parts, 0, none, none, none, False, width)


def _aligned_tile(nest: Nest, t: int) -> Tile:
    """Return what one scan of a row-aligned tensor reads: a block, of I a window over blocks."""
    width, none = nest.width(t, DRAM), np.zeros(5, np.int64)
    block = {axis: _block_side(nest, t, axis) for axis in AXES[t][0]}
    block_bytes = math.prod(block.values()) * width
    tile = Tile(BLOCK, np.array([[0, block_bytes]]), block_bytes, none, none, none, nest.layout[t] == 1, width)
    if t != I:
        return tile
    strides = _block_strides(nest, t)
    return tile._replace(
        mode=WINDOW,
        window=np.array([nest.side(t, ROW_BUFFER, a) for a in AXES[I][0]]),
        block=np.array([block[a] for a in AXES[I][0]]),
        strides=np.array([strides[a] for a in AXES[I][0]]),
    )


def _block_side(nest: Nest, t: int, axis: int) -> int:
    """Return the elements of a block of a row-aligned tensor along an axis."""
    if t == I and axis in FILTER_OF:
        return nest.block_w if axis == P else nest.block_h
    return nest.side(t, ROW_BUFFER, axis)


def _block_strides(nest: Nest, t: int) -> dict[int, int]:
    """Return how much the number of a block grows from one block to the next along each axis."""
    axes = AXES[t][nest.layout[t]]
    grid = [-(-nest.side(t, DRAM, a) // _block_side(nest, t, a)) for a in axes]
    return dict(zip(axes, _strides(grid), strict=True))


@once
def _position_units(nest: Nest, t: int, mode: int) -> dict[int, tuple[int, int]]:
    """Return (elements, what they add to the position) per axis: one block and its number, or one element and bytes."""
    if mode != SEQUENTIAL:
        return {axis: (nest.side(t, ROW_BUFFER, axis), stride) for axis, stride in _block_strides(nest, t).items()}
    axes, width = AXES[t][nest.layout[t]], nest.width(t, DRAM)
    strides = _strides([nest.side(t, DRAM, a) for a in axes])
    return {axis: (1, stride * width) for axis, stride in zip(axes, strides, strict=True)}


def position_step(nest: Nest, t: int, d: int, indices: int) -> list[int]:
    """Return what `indices` of a dim add to a tile's position, as in `walk_stream`."""
    step, mode = [0] * 5, scan_tile(nest, t).mode
    if d in IRRELEVANT[t]:
        return step
    axis, amount = _axis_step(nest, t, d, indices)
    if mode == WINDOW:
        step[AXES[I][0].index(axis)] = amount
    else:
        elements, added = _position_units(nest, t, mode)[axis]
        step[0] = amount // elements * added
    return step


def _axis_step(nest: Nest, t: int, d: int, indices: int) -> tuple[int, int]:
    """Return the axis along which a dim moves, and by how many elements `indices` of the dim do."""
    if t == I:
        for axis, filters in FILTER_OF.items():
            if d in (axis, filters):
                stride, dilation = nest.stride_dilation(axis)
                return axis, indices * (stride if d == axis else dilation)
    return d, indices
