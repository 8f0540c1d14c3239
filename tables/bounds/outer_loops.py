"""What the loops of the DRAM cost at least where tensors are row-aligned, whatever runs inside them.

The extents inside these loops and the dim of the innermost of them tell how often each row-aligned tensor is fetched,
in blocks of which the row buffer has to hold all; which rows these blocks lie in; and what every other tensor's scans
go over before a loop outside moves. Of mappings of which only the tiles in the global buffer are known the row buffer
has any loops that fit. So what is known of the extents inside the DRAM's loops is brought down to each tile: the least
over all extents that are multiples of its own.

The loops of the row buffer are either of one class, that of the DRAM's innermost loop, or there are none: then the
irrelevant loops of that class may be free at both levels (`CASES` 0 to 2). Or else the DRAM's are free for no tensor
that is not row-aligned (`NONE_FREE`; docs/model.md, section 8).
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tables.bounds.layer import (
    BOX,
    CLASS_OF,
    COLUMNS,
    ENERGY,
    FIRST,
    INFINITE_COST,
    LAYOUT,
    MOVED1,
    MOVED2,
    REPEAT,
    SWEPT_REPEAT,
    Record,
    TileCosts,
    elements_of,
)
from tables.dram import Dram, last_run, period
from tables.jit import njit
from tables.nest import AXES, C, G, I, Ints, K, N, O, P, Q, R, S

#: Cases of loops outside the global buffer (module docstring).
CASES = 4
NONE_FREE = 3
#: Of bounds in single precision, so much is sure; and what is more than any of them.
_SURE, _NEVER = 1 - 1e-6, 3e38
#: Per tensor, layout and dim the place among the layout's axes, outermost first; -1 of no axis.
_AXES = np.array([[[axes.index(d) if d in axes else -1 for d in range(8)] for axes in of] for of in AXES])

Floats = NDArray[np.float32]

#: Extents inside the DRAM's loops, and what scans of them take. A record, as `tables.bounds.tile_bounds.LOOK`.
SCANS = np.dtype([
    # Of the layer, per tensor, fJ of fetching all of it to the row buffer, and to the global buffer.
    ("aligned_fj", np.int64, 3), ("buffered_fj", np.int64, 3),
    # The extents and the loops outside them, per dim; these per class, too; elements of each tensor's tile.
    ("e", np.int64, 8), ("loops", np.int64, 8), ("fetches", np.int64, 4), ("size", np.int64, 3),
    # With some innermost loops, which are `free` for one tensor. Per tensor, if it is row-aligned: cycles of its
    # stream, fJ on top of being fetched once. If it is not, without and with `NONE_FREE`: rows per layout, and cycles.
    ("free", np.int64), ("cycles", np.int64, 3), ("extra_fj", np.float64, 3), ("other_rows", np.int64, (2, 3, 2)),
    ("other_cycles", np.int64, (2, 3)),
    # What `DramLoopBounds` has of the extents, and the box of each tensor.
    ("least_cycles", np.float32, (CASES, 8)), ("least_fj", np.float32, (CASES, 8)),
    ("least_rows", np.float32, (CASES, 8, 3, 2)), ("again", np.float32, (8, 3)), ("boxes", np.int64, (3, 2 * LAYOUT)),
])  # fmt: skip


class DramLoopBounds(NamedTuple):
    """Least figures of tiles, of which `strides` int[8] tells where they are found.

    Per case, set of row-aligned tensors (bit t) and tile, float32[4, 8, n]: `cycles` of the longest stream, `fj` that
    row-aligned tensors take on top of being fetched once and opening the rows that they fill, `rows` [4, 8, 3, 2, n] of
    tensors that are not row-aligned, per layout. `again` [8, 3, n]: `fj` of `NONE_FREE`, with what it takes to bring
    another tensor to the global buffer as often as the DRAM's loops say, at `buffered_fj` [3] for all of it.

    `streams` cycles and `refetch` fJ float32[64, n]: what the streams of a tile, or of a larger one, take at least
    together, and fetching them again, per set of tensors that the global buffer (bit t) and the row buffer (bit 3 + t)
    store; the least of all sets in the first place.
    """

    cycles: Floats
    fj: Floats
    rows: Floats
    again: Floats
    buffered_fj: Ints
    streams: Floats
    refetch: Floats
    strides: Ints


def no_dram_loop_bounds() -> DramLoopBounds:
    """Bounds that any tile meets."""
    return _filled(1, 0, np.zeros(3, np.int64), np.zeros(8, np.int64))


def dram_loop_bounds(costs: TileCosts, dram: Dram, windows: Ints) -> DramLoopBounds:
    """The least figures of all tiles of a layer; `windows` int[n, 9]: what is known of windows (`tables.bounds.windows`)."""
    layer = costs.layer[0]
    sizes = layer["counts"].tolist()
    n, strides = math.prod(sizes), np.array([math.prod(sizes[d + 1 :]) for d in range(8)], np.int64)
    aligned_fj, buffered_fj = (
        np.array([_least_coefficient(layer, t, kept, quantity) * layer["needed"][t] for t in range(3)])
        for kept, quantity in ((slice(1, 4, 2), MOVED2), (slice(2, 3), MOVED1))
    )
    outer = _filled(n, _NEVER, buffered_fj, strides)
    rows, dims = np.zeros((n, 2), np.int64), [R, S, P, Q, C, N, G]
    rows[(costs.places[dims, windows[:, :-2]] * strides[dims]).sum(axis=1)] = windows[:, -2:]
    _count(costs, dram, rows, aligned_fj, outer)
    for case in range(CASES):
        along = np.array([d for d in range(8) if case == NONE_FREE or CLASS_OF[d] == case])
        for figures in (outer.cycles, outer.fj, outer.rows):
            _bring_down(figures[case].reshape(-1, n), along, costs, strides)
    _bring_down(outer.again.reshape(-1, n), np.arange(8), costs, strides)
    _count_streams(costs, outer)
    for figures in (outer.streams, outer.refetch):
        _bring_down(figures, np.arange(8), costs, strides)
        figures[0] = figures.min(axis=0)
    return outer


def _filled(n: int, value: float, buffered_fj: Ints, strides: Ints) -> DramLoopBounds:
    """One value for all of n tiles."""

    def full(*shape: int) -> Floats:
        return np.full((*shape, n), value, np.float32)

    return DramLoopBounds(
        full(CASES, 8), full(CASES, 8), full(CASES, 8, 3, 2), full(8, 3), buffered_fj, full(64), full(64), strides
    )


def _least_coefficient(layer: np.void, t: int, kept: slice, quantity: int) -> int:
    """Energy of a tensor's quantity in the stored sets that are offered; 0 if none is."""
    offered = layer["is_offered"][t, :, kept]
    found = layer["coefficients"][ENERGY, t, :, kept, quantity][offered > 0]
    return int(found.min(initial=INFINITE_COST)) if len(found) else 0


@njit
def _bring_down(figures: Floats, dims: Ints, costs: TileCosts, strides: Ints) -> None:
    """The least over all extents that are multiples along some dims. Modifies figures, [m, n]."""
    counts = costs.layer[0].counts
    for m in range(figures.shape[0]):
        of = figures[m]
        for d in dims:
            for start in range(0, len(of), counts[d] * strides[d]):
                for at in range(counts[d]):
                    for more in range(at + 1, counts[d]):
                        if costs.divisors[d, more] % costs.divisors[d, at] == 0:
                            here, larger = start + at * strides[d], start + more * strides[d]
                            for i in range(strides[d]):
                                of[here + i] = min(of[here + i], of[larger + i])


@njit
def _count(costs: TileCosts, dram: Dram, windows: Ints, aligned_fj: Ints, outer: DramLoopBounds) -> None:
    """The figures of given extents inside the DRAM's loops, the least over the dims of the innermost one; `windows`
    int[n, 2]: rows that a pass over them opens, per extents without K. Modifies what outer holds, but for the last.
    """
    scans, layer = np.zeros(1, SCANS), costs.layer[0]
    for i in range(outer.cycles.shape[2]):
        x = scans[0]  # here, for numba frees an array after its last use
        for t in range(3):  # to copy an array at once would take a second to compile
            x.aligned_fj[t], x.buffered_fj[t] = aligned_fj[t], outer.buffered_fj[t]
        x.least_cycles[:], x.least_fj[:], x.least_rows[:], x.again[:] = _NEVER, _NEVER, _NEVER, _NEVER
        _set_extents(x, costs, outer.strides, i)
        window = windows[i - i // outer.strides[K] % layer.counts[K] * outer.strides[K]]
        has_loops = x.loops.max() > 1
        for innermost in range(8):
            if x.loops[innermost] > 1 or not (has_loops or innermost):
                x.free = CLASS_OF[innermost] if has_loops else NONE_FREE
                _set_aligned(x, layer, dram, innermost, window)
                _set_others(x, layer, dram, costs.places, costs.boxes, innermost if has_loops else -1)
                _lower_sets(x, layer, has_loops)
        _put_least(x, layer, outer, i)


@njit
def _set_extents(x: Record, costs: TileCosts, strides: Ints, i: int) -> None:
    """Take the i-th extents. Modifies x."""
    layer, x.fetches[:] = costs.layer[0], 1
    for d in range(8):
        x.e[d] = costs.divisors[d, i // strides[d] % layer.counts[d]]
        x.loops[d] = layer.bounds[d] // x.e[d]
        x.fetches[CLASS_OF[d]] *= x.loops[d]
    for t in range(3):
        x.size[t] = elements_of(t, x.e, layer)


@njit
def _set_aligned(x: Record, layer: Record, dram: Dram, innermost: int, window: Ints) -> None:
    """What each tensor takes if it is row-aligned. Modifies x."""
    for t in range(3):
        fetches = 1 if x.free == t else x.fetches[t]
        rows, columns, blocks = aligned_stream(layer, dram, t, x.e, x.loops, innermost, x.size[t], fetches, window)
        x.cycles[t] = _cycles(layer, dram, columns, rows)
        more = blocks * x.size[t] * fetches / layer.needed[t] - 1
        x.extra_fj[t] = x.aligned_fj[t] * more + layer.activation_fj * (rows - layer.min_rows[t])


@njit
def _set_others(x: Record, layer: Record, dram: Dram, places: Ints, boxes: Ints, innermost: int) -> None:
    """What each tensor takes if it is not row-aligned: what the innermost loop (-1 if there is none) sweeps is gone
    over again by the irrelevant loops that are not free. Modifies x.
    """
    for t in range(3):
        at = 0
        for d in range(8):
            at += places[d, layer.bounds[d] if d == innermost else x.e[d]] * layer.strides[t, d]
        for apart in range(2):
            fetches, rows = 1 if x.free == t and not apart else x.fetches[t], x.other_rows[apart, t]
            for layout in range(2):
                box = boxes[t, at, layout * LAYOUT : (layout + 1) * LAYOUT]
                rows[layout] = max(layer.min_rows[t], box[BOX] + (fetches - 1) * box[SWEPT_REPEAT])
            scans = fetches if t != O else 2 * fetches - 1
            x.other_cycles[apart, t] = _cycles(layer, dram, scans * layer.min_columns[t], min(rows[0], rows[1]))


@njit
def _lower_sets(x: Record, layer: Record, has_loops: bool) -> None:
    """Take the figures of each case and set of row-aligned tensors that fits, where they are less. Modifies x."""
    for aligned in range(1, 8):
        if _fits(x, layer, 2, aligned):
            for case in range(CASES):
                if case in (x.free, NONE_FREE) or not has_loops:
                    _lower_set(x, case, aligned)


@njit
def _lower_set(x: Record, case: int, aligned: int) -> None:
    """Take the figures of a case and a set of row-aligned tensors, where they are less. Modifies x."""
    cycles, fj, apart = 0, 0.0, int(case == NONE_FREE)
    for t in range(3):
        if aligned >> t & 1:
            cycles, fj = max(cycles, x.cycles[t]), fj + x.extra_fj[t]
            continue
        cycles = max(cycles, x.other_cycles[apart, t])
        for layout in range(2):
            _lower(x.least_rows[case, aligned, t], layout, x.other_rows[apart, t, layout])
    _lower(x.least_cycles[case], aligned, cycles)
    _lower(x.least_fj[case], aligned, fj)
    for t in range(3 * apart):
        once_more = 0 if aligned >> t & 1 else x.buffered_fj[t] * float(x.fetches[t] - 1)
        _lower(x.again[aligned], t, fj + once_more)


@njit
def _put_least(x: Record, layer: Record, outer: DramLoopBounds, i: int) -> None:
    """Modifies the i-th figures of outer."""
    for aligned in range(1, 8):
        if not _fits(x, layer, 2, aligned):
            continue
        for case in range(CASES):
            outer.cycles[case, aligned, i] = x.least_cycles[case, aligned]
            outer.fj[case, aligned, i] = x.least_fj[case, aligned]
        for t in range(3):
            outer.again[aligned, t, i] = x.again[aligned, t]
            for case in range(CASES):
                for layout in range(2):
                    outer.rows[case, aligned, t, layout, i] = x.least_rows[case, aligned, t, layout]


@njit
def _fits(x: Record, layer: Record, level: int, stored: int) -> bool:
    """Whether a level holds a tile of each tensor of a set (bit t)."""
    used = 0
    for t in range(3):
        used += (stored >> t & 1) * x.size[t] * layer.widths[t, level]
    return bool(used <= layer.capacity[level])


@njit
def _lower(figures: Floats, i: int, value: float) -> None:
    """Take a value for a figure if it is less, and what single precision may add to it off. Modifies figures."""
    figures[i] = min(figures[i], max(0.0, value * _SURE))


@njit
def _cycles(layer: Record, dram: Dram, columns: int, rows: int) -> int:
    """Of a stream of so many columns and rows, at least (`cpsat_pim.mapper.model.streams`, `Streams._time`)."""
    column, miss, excess = layer.dram[0], layer.dram[1], layer.dram[2]
    return int(max(column * columns + miss * rows + excess, period(1, dram) * (rows - 1) + last_run(1, dram)))


@njit
def aligned_stream(layer: Record, dram: Dram, t: int, e: Ints, loops: Ints, innermost: int, size: int, fetches: int,
                   window: Ints) -> tuple[int, int, int]:  # fmt: skip
    """Rows that a row-aligned tensor opens at least, and its columns, where all of its blocks (of I: windows), of so
    many elements, are fetched so many times; and how many these are.

    `e`, `loops` int[8]: extents inside the DRAM's loops, and these; `window`: rows that a pass over windows opens.
    """
    blocks, number, least = 1, size * layer.widths[t, 3], layer.min_rows[t]
    for d in range(8):
        blocks *= loops[d] if CLASS_OF[d] != t else 1
    scans = blocks * (fetches if t != O else 2 * fetches - 1)
    columns = scans * (-(-number // dram.column_bytes))
    if not dram.is_open:
        least = max(least, blocks * fetches * (-(-number // dram.row_bytes)))
    elif dram.banks == 1 and t == I:
        least = max(least, fetches * window[int(innermost == C and loops[C] > 1)])
        outputs = e[P] * e[Q] * e[C] * e[N] * e[G] * (loops[innermost] if innermost not in (R, S, K) else 1)
        overlaps = max(layer.bounds[R], layer.bounds[S]) > 1
        is_large = number > (dram.row_bytes if overlaps else dram.row_bytes // 2)
        if is_large or outputs * layer.widths[t, 3] > dram.row_bytes:
            least = max(least, layer.min_rows[t] * fetches)
    elif dram.banks == 1 and layer.widths[t, 2] == layer.widths[t, 3]:
        least = max(least, _block_rows(dram, t, loops, innermost, number, fetches, least))
    return least, columns, blocks


@njit
def _block_rows(dram: Dram, t: int, loops: Ints, innermost: int, size: int, fetches: int, least: int) -> int:
    """Rows of one bank that W or O opens at least, with pages that stay open, where each of its blocks of so many bytes
    is fetched so many times.

    `loops` int[8]: those of the DRAM, of which `innermost` is the dim of the innermost one; `least`: rows that all
    elements fill. Blocks follow each other as that loop goes over them. What it sweeps begins at its lowest block and
    ends at its highest, so if these are in two rows every row is opened each time (docs/model.md, section 8).
    """
    per_row, blocks, step = max(1, dram.row_bytes // size), 1, INFINITE_COST
    swept = loops[innermost] if CLASS_OF[innermost] != t else 1
    for d in range(8):
        blocks *= loops[d] if CLASS_OF[d] != t else 1
    if per_row == 1 and blocks > 1:
        return int(blocks * fetches * (-(-size // dram.row_bytes)))
    for layout in range(2):  # blocks from one iteration to the next
        inside = 1
        for d in range(8):
            inside *= loops[d] if _AXES[t, layout, d] > _AXES[t, layout, innermost] else 1
        step = min(step, inside)
    crossed = swept - 1 if step >= per_row else (swept - 1) * step // per_row
    rows = max(-(-blocks // per_row) * (-(-size // dram.row_bytes)), blocks // swept * fetches * crossed)
    return int(max(rows, least * fetches) if size * swept > dram.row_bytes else rows)


@njit
def _count_streams(costs: TileCosts, outer: DramLoopBounds) -> None:
    """What the streams of each tile take together, the least over all loops outside. Modifies `streams`, `refetch`."""
    scans, layer = np.zeros(1, SCANS), costs.layer[0]
    for i in range(outer.streams.shape[1]):
        x = scans[0]
        _set_extents(x, costs, outer.strides, i)
        _set_boxes(x, layer, costs.places, costs.boxes)
        for aligned in range(1, 8):
            if _fits(x, layer, 2, aligned):
                _set_least(x, outer, aligned, i)
                for buffered in range(8):
                    if _fits(x, layer, 1, buffered):
                        stored = 8 * aligned + buffered
                        cycles, fj = _least_together(x, layer, aligned, buffered)
                        _lower(outer.streams[stored], i, cycles)
                        _lower(outer.refetch[stored], i, fj)


@njit
def _set_boxes(x: Record, layer: Record, places: Ints, boxes: Ints) -> None:
    """Take the boxes of the extents. Modifies x."""
    for t in range(3):
        at = 0
        for d in range(8):
            at += places[d, x.e[d]] * layer.strides[t, d]
        for column in range(2 * LAYOUT):
            x.boxes[t, column] = boxes[t, at, column]


@njit
def _set_least(x: Record, outer: DramLoopBounds, aligned: int, i: int) -> None:
    """Take the i-th figures of a set of row-aligned tensors. Modifies x."""
    for case in range(CASES):
        x.least_cycles[case, aligned] = outer.cycles[case, aligned, i]
        x.least_fj[case, aligned] = outer.fj[case, aligned, i]
    for t in range(3):
        x.buffered_fj[t], x.again[aligned, t] = outer.buffered_fj[t], outer.again[aligned, t, i]
        for case in range(CASES):
            for layout in range(2):
                x.least_rows[case, aligned, t, layout] = outer.rows[case, aligned, t, layout, i]


@njit
def _least_together(x: Record, layer: Record, aligned: int, buffered: int) -> tuple[float, float]:
    """Cycles of all streams and fJ of fetching again at least, whichever irrelevant loops are free."""
    least_cycles, least_fj = np.inf, np.inf
    for other in range(3):
        for case in (other, NONE_FREE):
            cycles, fj = _together(x, layer, aligned, buffered, other, case)
            least_cycles, least_fj = min(least_cycles, cycles), min(least_fj, fj)
    return least_cycles, least_fj


@njit
def _together(x: Record, layer: Record, aligned: int, buffered: int, other: int, case: int) -> tuple[float, float]:
    """Cycles of the longest stream and fJ of fetching again, where the irrelevant loops of the `other` tensor may be
    free.
    """
    cycles, fj = x.least_cycles[case, aligned], x.least_fj[case, aligned]
    if case == NONE_FREE and buffered >> other & 1 and not aligned >> other & 1:
        fj = x.again[aligned, other]
    for t in range(3):
        if not aligned >> t & 1:
            is_buffered, times = buffered >> t & 1, 1 if t == other else x.fetches[t]
            cycles = max(cycles, min(
                _stream_at_least(x, layer, t, 0, x.least_rows[case, aligned, t, 0], times, is_buffered),
                _stream_at_least(x, layer, t, 1, x.least_rows[case, aligned, t, 1], times, is_buffered),
            ))  # fmt: skip
            fj += is_buffered * x.buffered_fj[t] * float(times - 1)
    return cycles, fj


@njit
def _stream_at_least(x: Record, layer: Record, t: int, layout: int, rows: float, times: int,
                     is_buffered: int) -> float:  # fmt: skip
    """Cycles of a tensor that is not row-aligned, in one layout, where it opens at least so many rows and is scanned so
    many times: tile by tile, if the global buffer stores it.
    """
    scans = times if t != O else 2 * times - 1
    columns = scans * layer.min_columns[t]
    if is_buffered:
        box = x.boxes[t, layout * LAYOUT : (layout + 1) * LAYOUT]
        rows = max(rows, box[FIRST] + (times - 1) * box[REPEAT])
        columns = max(columns, scans * box[COLUMNS])
    return float(layer.dram[0] * columns + layer.dram[1] * rows + layer.dram[2])
