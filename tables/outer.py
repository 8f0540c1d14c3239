"""What the loops of the DRAM cost at least where tensors are row-aligned, whatever runs inside them.

The extents inside these loops and the dim of the innermost of them tell how often each row-aligned tensor is fetched,
in blocks of which the row buffer has to hold all; which rows these blocks lie in; and what every other tensor's scans
go over before a loop outside moves. Of mappings of which only the tiles in the global buffer are known the row buffer
has any loops that fit. So what is known of the extents inside the DRAM's loops is brought down to each tile: the least
over all extents that are multiples of its own.

The loops of the row buffer are either of one class, that of the DRAM's innermost loop, or there are none: then the
irrelevant loops of that class may be free at both levels (`CASES` 0 to 2). Or else the DRAM's are free for no tensor
that is not row-aligned (`APART`; docs/model.md, section 8).
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tables.dram import Dram, last_run, period
from tables.jit import njit
from tables.nest import AXES, C, G, I, Ints, K, N, O, P, Q, R, S, W

#: The class of each dim: the tensor that it does not move; groups move all.
CLASS_OF = (2, 2, 1, 1, 2, 0, 1, 3)
#: Cases of loops outside the global buffer (module docstring).
CASES = 4
APART = 3
#: Of bounds in single precision, so much is sure; and what is more than any of them.
SURE, _NEVER = 1 - 1e-6, np.float32(3e38)

#: Per tensor, layout and dim the place among the layout's axes, outermost first; -1 of no axis.
_AXES = np.array([[[axes.index(d) if d in axes else -1 for d in range(8)] for axes in of] for of in AXES])

Floats = NDArray[np.float32]


class Outer(NamedTuple):
    """Least figures per case, set of row-aligned tensors (bit t) and tile, float32[4, 8, n]: `cycles` of the longest
    stream, `fj` that row-aligned tensors take on top of being fetched once and opening the rows that they fill, `rows`
    [4, 8, 3, 2, n] of tensors that are not row-aligned, per layout. `again` [8, 3, n]: `fj` of `APART`, with what it
    takes to bring another tensor to the global buffer as often as the DRAM's loops say. `strides` int[8]: where a tile
    is found.
    """

    cycles: Floats
    fj: Floats
    rows: Floats
    again: Floats
    strides: Ints

    @classmethod
    def unknown(cls) -> "Outer":
        """Bounds that any tile meets."""
        nothing, rows = np.zeros((CASES, 8, 1), np.float32), np.zeros((CASES, 8, 3, 2, 1), np.float32)
        return cls(nothing, nothing, rows, np.zeros((8, 3, 1), np.float32), np.zeros(8, np.int64))


class Blocks(NamedTuple):
    """A layer's tensors in DRAM: `bounds`, `stride`, `dilation`; `divisors` int[8, n] of each bound, `counts` of them;
    `widths` int[3] and `least_widths` int[3] of an element in DRAM, `capacity` bytes of the row buffer; `least_rows`,
    `least_columns`, `needed` elements of each tensor; `windows` int[n, 2] (`tables.windows`) per extents without K;
    `boxed`, `again` int[3, n, 2] of boxes (`tables.shapes`) per layout, with strides `box_strides` int[3, 8];
    `aligned_fj` [3] per element from DRAM to the row buffer, `buffered_fj` [3] to the global buffer; `miss` cycles.
    """

    bounds: Ints
    stride: Ints
    dilation: Ints
    divisors: Ints
    counts: Ints
    widths: Ints
    least_widths: Ints
    capacity: int
    least_rows: Ints
    least_columns: Ints
    needed: Ints
    windows: Ints
    boxed: Ints
    again: Ints
    box_strides: Ints
    aligned_fj: Ints
    buffered_fj: Ints
    activation_fj: int
    miss: int


def outer_bounds(blocks: Blocks, dram: Dram) -> Outer:
    """The least figures of all tiles of a layer."""
    sizes = blocks.counts.tolist()
    n = math.prod(sizes)
    strides = np.array([math.prod(sizes[d + 1 :]) for d in range(8)], np.int64)
    cycles, fj = np.full((CASES, 8, n), _NEVER), np.full((CASES, 8, n), _NEVER)
    rows, again = np.full((CASES, 8, 3, 2, n), _NEVER), np.full((8, 3, n), _NEVER)
    _count(blocks, dram, strides, cycles, fj, rows, again)
    for case in range(CASES):
        dims = np.array([d for d in range(8) if case == APART or CLASS_OF[d] == case])
        for figures in (cycles, fj, rows):
            bring_down(figures[case].reshape(-1, n), dims, blocks.divisors, blocks.counts, strides)
    bring_down(again.reshape(24, n), np.arange(8), blocks.divisors, blocks.counts, strides)
    return Outer(cycles, fj, rows, again, strides)


@njit
def bring_down(figures: Floats, dims: Ints, divisors: Ints, counts: Ints, strides: Ints) -> None:
    """The least over all extents that are multiples along some dims. Modifies figures, [m, n]."""
    n = figures.shape[1]
    for d in dims:
        for i in range(n):
            at = i // strides[d] % counts[d]
            for more in range(at + 1, counts[d]):
                if divisors[d, more] % divisors[d, at] == 0:
                    larger = i + (more - at) * strides[d]
                    for m in range(figures.shape[0]):
                        figures[m, i] = min(figures[m, i], figures[m, larger])


@njit
def _count(blocks: Blocks, dram: Dram, strides: Ints, cycles: Floats, fj: Floats, rows: Floats, again: Floats) -> None:
    """The figures of given extents inside the DRAM's loops, the least over the dims of the innermost one. Modifies the
    last four.
    """
    n, bounds = cycles.shape[2], blocks.bounds
    e, loops, size = np.ones(8, np.int64), np.ones(8, np.int64), np.ones(3, np.int64)
    stream, extra = np.zeros(3, np.int64), np.zeros(3)
    other_rows, other_stream = np.zeros((2, 3, 2), np.int64), np.zeros((2, 3), np.int64)
    for i in range(n):
        for d in range(8):
            e[d] = blocks.divisors[d, i // strides[d] % blocks.counts[d]]
            loops[d] = bounds[d] // e[d]
        for t in range(3):
            size[t] = elements_of(t, e, blocks.stride, blocks.dilation)
        if (size * blocks.widths).min() > blocks.capacity:
            continue
        has_loops, window = loops.max() > 1, i - i // strides[K] % blocks.counts[K] * strides[K]
        for innermost in range(8 if has_loops else 1):
            if has_loops and loops[innermost] == 1:
                continue
            free = CLASS_OF[innermost] if has_loops else 3
            for t in range(3):
                fetches, visits = 1, 1
                for d in range(8):
                    fetches *= loops[d] if CLASS_OF[d] == t else 1
                    visits *= loops[d] if CLASS_OF[d] != t else 1
                moved = visits * size[t]
                taken = 1 if free == t else fetches
                found, columns = block_rows(blocks, dram, t, e, loops, innermost, size[t], taken, window)
                stream[t] = _cycles(blocks, dram, columns, found)
                extra[t] = blocks.aligned_fj[t] * float(moved * taken - blocks.needed[t])
                extra[t] += blocks.activation_fj * float(found - blocks.least_rows[t])
                for apart in range(2):
                    taken = 1 if free == t and not apart else fetches
                    _box_rows(blocks, t, e, innermost if has_loops else -1, taken, other_rows[apart, t])
                    scans = taken if t != O else 2 * taken - 1
                    found = other_rows[apart, t].min()
                    other_stream[apart, t] = _cycles(blocks, dram, scans * blocks.least_columns[t], found)
            for aligned in range(1, 8):
                used = 0
                for t in range(3):
                    used += size[t] * blocks.widths[t] if aligned >> t & 1 else 0
                if used > blocks.capacity:
                    continue
                for apart in range(2):
                    if not apart and free == 3 and has_loops:
                        continue
                    longest, energy = 0, 0.0
                    for t in range(3):
                        if aligned >> t & 1:
                            longest, energy = max(longest, stream[t]), energy + extra[t]
                        else:
                            longest = max(longest, other_stream[apart, t])
                    for case in range(APART, CASES) if apart else range(APART):
                        if not apart and has_loops and case != free:
                            continue
                        cycles[case, aligned, i] = min(cycles[case, aligned, i], longest * SURE)
                        fj[case, aligned, i] = min(fj[case, aligned, i], max(0.0, energy * SURE))
                        for t in range(3):
                            for layout in range(0 if aligned >> t & 1 else 2):
                                found = other_rows[apart, t, layout] * SURE
                                rows[case, aligned, t, layout, i] = min(rows[case, aligned, t, layout, i], found)
                    if apart:
                        for t in range(3):
                            fetches = 1
                            for d in range(8):
                                fetches *= loops[d] if CLASS_OF[d] == t else 1
                            more = blocks.buffered_fj[t] * float(blocks.needed[t] * (fetches - 1))
                            more = energy if aligned >> t & 1 else energy + more
                            again[aligned, t, i] = min(again[aligned, t, i], max(0.0, more * SURE))


@njit
def _cycles(blocks: Blocks, dram: Dram, columns: int, rows: int) -> int:
    """Of a stream of so many columns and rows, at least (`Streams._time`)."""
    ending, shortest = dram.RL + dram.burst - dram.tRTP - dram.tRP, period(1, dram)
    return max(dram.tCCD * columns + blocks.miss * rows + ending, shortest * (rows - 1) + last_run(1, dram))


@njit
def _box_rows(blocks: Blocks, t: int, e: Ints, innermost: int, passes: int, rows: Ints) -> None:
    """Rows per layout of a tensor that is not row-aligned: what the innermost loop sweeps is gone over so many times.
    Modifies rows.
    """
    at = 0
    for d in range(8):
        extent = blocks.bounds[d] if d == innermost else e[d]
        at += np.searchsorted(blocks.divisors[d, : blocks.counts[d]], extent) * blocks.box_strides[t, d]
    for layout in range(2):
        gone_over = blocks.boxed[t, at, layout] + (passes - 1) * blocks.again[t, at, layout]
        rows[layout] = max(blocks.least_rows[t], gone_over)


@njit
def block_rows(blocks: Blocks, dram: Dram, t: int, e: Ints, loops: Ints, innermost: int, size: int, fetches: int,
               window: int) -> tuple[int, int]:  # fmt: skip
    """Rows that a row-aligned tensor opens at least, and its columns, where all of its blocks (of I: windows), of so
    many elements, are fetched so many times.

    `e`, `loops` int[8]: extents inside the DRAM's loops, and these, of which `innermost` is the dim of the innermost
    one; `window`: where it is found in `blocks.windows`.
    """
    visits, number = 1, size * blocks.least_widths[t]
    for d in range(8):
        visits *= loops[d] if CLASS_OF[d] != t else 1
    swept = loops[innermost] if CLASS_OF[innermost] != t else 1
    scans = visits * (fetches if t != O else 2 * fetches - 1)
    columns = scans * (-(-number // dram.column_bytes))
    least, in_rows = blocks.least_rows[t], -(-number // dram.row_bytes)
    if not dram.is_open:
        return max(least, visits * fetches * in_rows), columns
    if dram.banks > 1 or blocks.widths[t] != blocks.least_widths[t]:
        return least, columns
    rows, outputs = least, number
    if t == I:
        rows = max(rows, fetches * blocks.windows[window, 1 if innermost == C and loops[C] > 1 else 0])
        outputs = e[P] * e[Q] * e[C] * e[N] * e[G] * blocks.widths[t]
        swept = 1 if innermost in (R, S) else swept
        overlaps = max(blocks.bounds[R], blocks.bounds[S]) > 1
        if number > (dram.row_bytes if overlaps else dram.row_bytes // 2):
            rows = max(rows, least * fetches)
    else:
        per_row = max(1, dram.row_bytes // number)
        rows = max(rows, -(-visits // per_row) * in_rows)
        if per_row == 1 and visits > 1:
            rows = max(rows, visits * fetches * in_rows)
        elif swept > 1:
            steps = visits
            for layout in range(2):
                step = 1
                for d in range(8):
                    step *= loops[d] if _AXES[t, layout, d] > _AXES[t, layout, innermost] else 1
                steps = min(steps, step)
            crossed = swept - 1 if steps >= per_row else (swept - 1) * steps // per_row
            rows = max(rows, visits // swept * fetches * crossed)
    if outputs * swept > dram.row_bytes:
        rows = max(rows, least * fetches)
    return rows, columns


@njit
def span_of(outputs: int, filters: int, stride: int, dilation: int) -> int:
    """Positions of I along an axis (Eq. 2, 3)."""
    return (outputs - 1) * stride + (filters - 1) * dilation + 1


@njit
def elements_of(t: int, e: Ints, stride: Ints, dilation: Ints) -> int:
    """Of a tensor's tile with these extents (Eq. 22)."""
    if t == I:
        area = span_of(e[P], e[R], stride[0], dilation[0]) * span_of(e[Q], e[S], stride[1], dilation[1])
        return int(area * e[C] * e[N] * e[G])
    return int(e[R] * e[S] * e[C] * e[K] * e[G] if t == W else e[P] * e[Q] * e[K] * e[N] * e[G])
