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
from tables.figures import (
    AGAIN,
    BOXED,
    CLASS_OF,
    COLUMNS,
    ENERGY,
    FIRST,
    LAYOUT,
    MORE,
    MOVED1,
    MOVED2,
    NEVER,
    Record,
    TileCosts,
    elements_of,
)
from tables.jit import njit
from tables.nest import AXES, C, G, I, Ints, K, N, O, P, Q, R, S

#: Cases of loops outside the global buffer (module docstring).
CASES = 4
APART = 3
#: Of bounds in single precision, so much is sure; and what is more than any of them.
_SURE, _NEVER = 1 - 1e-6, 3e38
#: Per tensor, layout and dim the place among the layout's axes, outermost first; -1 of no axis.
_AXES = np.array([[[axes.index(d) if d in axes else -1 for d in range(8)] for axes in of] for of in AXES])

Floats = NDArray[np.float32]


class Outer(NamedTuple):
    """Least figures of tiles, of which `strides` int[8] tells where they are found.

    Per case, set of row-aligned tensors (bit t) and tile, float32[4, 8, n]: `cycles` of the longest stream, `fj` that
    row-aligned tensors take on top of being fetched once and opening the rows that they fill, `rows` [4, 8, 3, 2, n] of
    tensors that are not row-aligned, per layout. `again` [8, 3, n]: `fj` of `APART`, with what it takes to bring
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


def no_bounds() -> Outer:
    """Bounds that any tile meets."""
    return _filled(1, 0, np.zeros(3, np.int64), np.zeros(8, np.int64))


def outer_bounds(costs: TileCosts, dram: Dram, windows: Ints) -> Outer:
    """The least figures of all tiles of a layer; `windows` int[n, 9]: what is known of windows (`tables.windows`)."""
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
        along = np.array([d for d in range(8) if case == APART or CLASS_OF[d] == case])
        for figures in (outer.cycles, outer.fj, outer.rows):
            _bring_down(figures[case].reshape(-1, n), along, costs, strides)
    _bring_down(outer.again.reshape(-1, n), np.arange(8), costs, strides)
    _count_streams(costs, outer)
    for figures in (outer.streams, outer.refetch):
        _bring_down(figures, np.arange(8), costs, strides)
        figures[0] = figures.min(axis=0)
    return outer


def _filled(n: int, value: float, buffered_fj: Ints, strides: Ints) -> Outer:
    """One value for all of n tiles."""

    def full(*shape: int) -> Floats:
        return np.full((*shape, n), value, np.float32)

    return Outer(
        full(CASES, 8), full(CASES, 8), full(CASES, 8, 3, 2), full(8, 3), buffered_fj, full(64), full(64), strides
    )


def _least_coefficient(layer: np.void, t: int, kept: slice, quantity: int) -> int:
    """Energy of a tensor's quantity in the stored sets that are offered; 0 if none is."""
    offered = layer["is_offered"][t, :, kept]
    found = layer["coefficients"][ENERGY, t, :, kept, quantity][offered > 0]
    return int(found.min(initial=NEVER)) if len(found) else 0


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
def _count(costs: TileCosts, dram: Dram, windows: Ints, aligned_fj: Ints, outer: Outer) -> None:
    """The figures of given extents inside the DRAM's loops, the least over the dims of the innermost one; `windows`
    int[n, 2]: rows that a pass over them opens, per extents without K. Modifies what outer holds, but for the last.
    """
    layer, e, loops, size = costs.layer[0], np.ones(8, np.int64), np.ones(8, np.int64), np.ones(3, np.int64)
    fetches, stream, extra = np.ones(4, np.int64), np.zeros(3, np.int64), np.zeros(3)
    rows, longer = np.zeros((2, 3, 2), np.int64), np.zeros((2, 3), np.int64)  # of others, without and with `APART`
    for i in range(outer.cycles.shape[2]):
        fetches[:] = 1
        for d in range(8):
            e[d] = costs.divisors[d, i // outer.strides[d] % layer.counts[d]]
            loops[d] = layer.bounds[d] // e[d]
            fetches[CLASS_OF[d]] *= loops[d]
        for t in range(3):
            size[t] = elements_of(t, e, layer)
        window = windows[i - i // outer.strides[K] % layer.counts[K] * outer.strides[K]]
        has_loops = loops.max() > 1
        for innermost in range(8):
            if loops[innermost] == 1 and (has_loops or innermost):
                continue
            free = CLASS_OF[innermost] if has_loops else 3
            for t in range(3):
                taken = 1 if free == t else fetches[t]
                found, columns, blocks = aligned_stream(layer, dram, t, e, loops, innermost, size[t], taken, window)
                stream[t] = _cycles(layer, dram, columns, found)
                more = blocks * size[t] * taken / layer.needed[t] - 1
                extra[t] = aligned_fj[t] * more + layer.activation_fj * (found - layer.least_rows[t])
                for apart in range(2):
                    taken = 1 if free == t and not apart else fetches[t]
                    _sweep(costs, t, e, innermost if has_loops else -1, taken, rows[apart, t])
                    scans = taken if t != O else 2 * taken - 1
                    longer[apart, t] = _cycles(layer, dram, scans * layer.least_columns[t], rows[apart, t].min())
            for aligned in range(1, 8):
                used = 0
                for t in range(3):
                    used += (aligned >> t & 1) * size[t] * layer.widths[t, 2]
                if used > layer.capacity[2]:
                    continue
                for case in range(CASES):
                    apart = int(case == APART)
                    if not apart and has_loops and case != free:
                        continue
                    cycles, fj = 0, 0.0
                    for t in range(3):
                        if aligned >> t & 1:
                            cycles, fj = max(cycles, stream[t]), fj + extra[t]
                            continue
                        cycles = max(cycles, longer[apart, t])
                        for layout in range(2):
                            _lower(outer.rows[case, aligned, t, layout], i, rows[apart, t, layout])
                    _lower(outer.cycles[case, aligned], i, cycles)
                    _lower(outer.fj[case, aligned], i, fj)
                    for t in range(3 * apart):
                        once_more = 0 if aligned >> t & 1 else outer.buffered_fj[t] * float(fetches[t] - 1)
                        _lower(outer.again[aligned, t], i, fj + once_more)


@njit
def _lower(figures: Floats, i: int, value: float) -> None:
    """Take a value for a figure if it is less, and what single precision may add to it off. Modifies figures."""
    figures[i] = min(figures[i], max(0.0, value * _SURE))


@njit
def _cycles(layer: Record, dram: Dram, columns: int, rows: int) -> int:
    """Of a stream of so many columns and rows, at least (`cpsat_pim.model.dram`, `Streams._time`)."""
    column, miss, ending = layer.dram[0], layer.dram[1], layer.dram[2]
    return int(max(column * columns + miss * rows + ending, period(1, dram) * (rows - 1) + last_run(1, dram)))


@njit
def _sweep(costs: TileCosts, t: int, e: Ints, innermost: int, passes: int, rows: Ints) -> None:
    """Rows per layout of a tensor that is not row-aligned: what the innermost loop sweeps is gone over so many times.
    Modifies rows.
    """
    layer, at = costs.layer[0], 0
    for d in range(8):
        at += costs.places[d, layer.bounds[d] if d == innermost else e[d]] * layer.strides[t, d]
    for layout in range(2):
        box = costs.boxes[t, at, layout * LAYOUT : (layout + 1) * LAYOUT]
        rows[layout] = max(layer.least_rows[t], box[BOXED] + (passes - 1) * box[AGAIN])


@njit
def aligned_stream(layer: Record, dram: Dram, t: int, e: Ints, loops: Ints, innermost: int, size: int, fetches: int,
                   window: Ints) -> tuple[int, int, int]:  # fmt: skip
    """Rows that a row-aligned tensor opens at least, and its columns, where all of its blocks (of I: windows), of so
    many elements, are fetched so many times; and how many these are.

    `e`, `loops` int[8]: extents inside the DRAM's loops, and these; `window`: rows that a pass over windows opens.
    """
    blocks, number, least = 1, size * layer.widths[t, 3], layer.least_rows[t]
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
            least = max(least, layer.least_rows[t] * fetches)
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
    per_row, blocks, step = max(1, dram.row_bytes // size), 1, NEVER
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
def _count_streams(costs: TileCosts, outer: Outer) -> None:
    """What the streams of each tile take together, the least over all loops outside. Modifies `streams`, `refetch`."""
    layer = costs.layer[0]
    column, miss, ending = layer.dram[0], layer.dram[1], layer.dram[2]
    e, loops, size, box = np.ones(8, np.int64), np.ones(4, np.int64), np.ones(3, np.int64), np.zeros(3, np.int64)
    for i in range(outer.streams.shape[1]):
        loops[:], box[:] = 1, 0
        for d in range(8):
            at = i // outer.strides[d] % layer.counts[d]
            e[d] = costs.divisors[d, at]
            loops[CLASS_OF[d]] *= layer.bounds[d] // e[d]
            for t in range(3):
                box[t] += at * layer.strides[t, d]
        for t in range(3):
            size[t] = elements_of(t, e, layer)
        for stored in range(8, 64):
            aligned, used, used_aligned = stored >> 3, 0, 0
            for t in range(3):
                used += (stored >> t & 1) * size[t] * layer.widths[t, 1]
                used_aligned += (aligned >> t & 1) * size[t] * layer.widths[t, 2]
            if used > layer.capacity[1] or used_aligned > layer.capacity[2]:
                continue
            for other in range(3):
                for case in (other, APART):
                    cycles, fj = outer.cycles[case, aligned, i], outer.fj[case, aligned, i]
                    if case == APART and (stored >> other & 1) and not (aligned >> other & 1):
                        fj = outer.again[aligned, other, i]
                    for t in range(3):
                        if aligned >> t & 1:
                            continue
                        times, stream = 1 if t == other else loops[t], np.inf
                        scans = times if t != O else 2 * times - 1
                        for layout in range(2):
                            columns, rows = scans * layer.least_columns[t], outer.rows[case, aligned, t, layout, i]
                            if stored >> t & 1:
                                of = costs.boxes[t, box[t], layout * LAYOUT : (layout + 1) * LAYOUT]
                                rows = max(rows, of[FIRST] + (times - 1) * of[MORE])
                                columns = max(columns, scans * of[COLUMNS])
                            stream = min(stream, column * columns + miss * rows + ending)
                        cycles = max(cycles, stream)
                        fj += (stored >> t & 1) * outer.buffered_fj[t] * float(times - 1)
                    _lower(outer.streams[stored], i, cycles)
                    _lower(outer.refetch[stored], i, fj)
