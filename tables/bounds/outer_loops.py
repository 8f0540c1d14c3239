"""Lower bounds on what the DRAM's loops cost where tensors are row-aligned, whatever loops run inside them.

Two things determine the bounds: the extents inside the DRAM's loops, and the dim of the innermost one of these loops.
They say how often each row-aligned tensor is fetched, in blocks that all have to fit the row buffer; in which rows
these blocks lie; and which box the scans of every other tensor sweep before another loop of the DRAM advances.

A bound is needed for a tile of the global buffer, while the loops of the row buffer are open: they may be any that fit.
The extents inside the DRAM's loops are then multiples of the tile's extents. So the bound of a tile is the minimum over
all such multiples.

There are two kinds of mappings, and a bound for each:

- Cases 0 to 2, a class: the loops of the row buffer are all of the class of the DRAM's innermost loop, or there are
  none. Then the irrelevant loops of this class may be free at both levels. The extents differ from the tile's in dims
  of this class only.
- Case `NONE_FREE`: the row buffer has loops of another class. Then the DRAM's loops are free for no tensor that is not
  row-aligned (docs/model.md, section 8).
"""

import math

import numpy as np

from tables.bounds.layer import (
    BOX,
    CLASS_OF,
    ENERGY,
    INFINITE_COST,
    LAYOUT,
    MOVED1,
    MOVED2,
    SWEPT_REPEAT,
    Record,
    TileCosts,
)
from tables.bounds.outer_state import (
    CASES,
    INFINITE,
    NONE_FREE,
    NONE_LEFT_OUT,
    STREAM_STATE,
    DramLoopBounds,
    Floats,
    fits,
    lower,
    min_stream_cycles,
    set_extents,
)
from tables.bounds.row_aligned import aligned_stream
from tables.bounds.stored_sets import bound_stored_sets
from tables.bounds.tile_streams import link_share
from tables.dram import Dram
from tables.jit import njit
from tables.nest import C, G, Ints, K, N, O, P, Q, R, S


def no_dram_loop_bounds() -> DramLoopBounds:
    """Return bounds of zero, which are valid for every tile."""
    return _filled(1, 0, np.zeros(3, np.int64), np.zeros(8, np.int64), is_linked=False)


def dram_loop_bounds(costs: TileCosts, dram: Dram, windows: Ints) -> DramLoopBounds:
    """Return the bounds of all tiles of a layer; `windows` int[n, 9] as from `tables.bounds.windows.window_rows`."""
    layer = costs.layer[0]
    sizes = layer["counts"].tolist()
    n, strides = math.prod(sizes), np.array([math.prod(sizes[d + 1 :]) for d in range(8)], np.int64)
    fetch_fj, fill_fj = (
        np.array([_min_coefficient(layer, t, kept, quantity) * layer["needed"][t] for t in range(3)])
        for kept, quantity in ((slice(1, 4, 2), MOVED2), (slice(2, 3), MOVED1))
    )
    outer = _filled(n, INFINITE, fill_fj, strides, is_linked=bool(layer["is_linked"].any()))
    rows, dims = np.zeros((n, 2), np.int64), [R, S, P, Q, C, N, G]
    rows[(costs.places[dims, windows[:, :-2]] * strides[dims]).sum(axis=1)] = windows[:, -2:]
    _bound_each(costs, dram, rows, fetch_fj, outer)
    for case in range(CASES):
        along = np.array([d for d in range(8) if case == NONE_FREE or CLASS_OF[d] == case])
        for bounds in (outer.cycles, outer.linked, outer.fj, outer.rows):
            _minimize_over_multiples(bounds[case].reshape(-1, n), along, costs, strides)
    _minimize_over_multiples(outer.refill_fj.reshape(-1, n), np.arange(8), costs, strides)
    bound_stored_sets(costs, outer)
    for bounds in (outer.stored_cycles, outer.stored_fj):
        _minimize_over_multiples(bounds, np.arange(8), costs, strides)
        bounds[0] = bounds.min(axis=0)
    return outer


def _filled(n: int, value: float, fill_fj: Ints, strides: Ints, *, is_linked: bool) -> DramLoopBounds:
    """Return bounds that have one value for all n tiles."""

    def full(*shape: int) -> Floats:
        return np.full((*shape, n), value, np.float32)

    linked = full(CASES, 8, 4 if is_linked else 0)
    return DramLoopBounds(
        full(CASES, 8), linked, full(CASES, 8), full(CASES, 8, 3, 2), full(8, 3), fill_fj, full(64), full(64), strides
    )


def _min_coefficient(layer: np.void, t: int, kept: slice, quantity: int) -> int:
    """Return the smallest fJ of a tensor's quantity over the stored sets that are offered; 0 if none is."""
    offered = layer["is_offered"][t, :, kept]
    found = layer["coefficients"][ENERGY, t, :, kept, quantity][offered > 0]
    return int(found.min(initial=INFINITE_COST)) if len(found) else 0


@njit
def _minimize_over_multiples(bounds: Floats, dims: Ints, costs: TileCosts, strides: Ints) -> None:
    """Set bounds [m, n] to their minimum over all tiles whose extents are multiples along some dims."""
    counts = costs.layer[0].counts
    for m in range(bounds.shape[0]):
        row = bounds[m]
        for d in dims:
            for start in range(0, len(row), counts[d] * strides[d]):
                for at in range(counts[d]):
                    for more in range(at + 1, counts[d]):
                        if costs.divisors[d, more] % costs.divisors[d, at] == 0:
                            here, larger = start + at * strides[d], start + more * strides[d]
                            for i in range(strides[d]):
                                row[here + i] = min(row[here + i], row[larger + i])


@njit
def _bound_each(costs: TileCosts, dram: Dram, windows: Ints, fetch_fj: Ints, outer: DramLoopBounds) -> None:
    """Bound given extents inside the DRAM's loops: the minimum over the dims of the innermost one.

    `windows` int[n, 2]: rows that one pass over the windows opens, per tile. Modifies outer, except `stored_cycles` and
    `stored_fj`.
    """
    scans, layer = np.zeros(1, STREAM_STATE), costs.layer[0]
    for i in range(outer.cycles.shape[2]):
        x = scans[0]  # taken here, as numba frees an array after its last use
        for t in range(3):  # copying an array at once would take a second to compile
            x.fetch_fj[t], x.fill_fj[t] = fetch_fj[t], outer.fill_fj[t]
        x.min_cycles[:], x.min_fj[:], x.min_rows[:], x.refill_fj[:] = INFINITE, INFINITE, INFINITE, INFINITE
        x.linked[:] = INFINITE
        set_extents(x, costs, outer.strides, i)
        window = windows[i - i // outer.strides[K] % layer.counts[K] * outer.strides[K]]
        has_loops = False
        for d in range(8):
            has_loops |= x.loops[d] > 1
        for innermost in range(8):
            if x.loops[innermost] > 1 or not (has_loops or innermost):
                x.free = CLASS_OF[innermost] if has_loops else NONE_FREE
                _set_row_aligned(x, layer, dram, innermost, window)
                _set_sequential(x, layer, dram, costs.places, costs.boxes, innermost if has_loops else -1)
                _lower_all_sets(x, layer, has_loops)
        _store(x, layer, outer, i)


@njit
def _set_row_aligned(x: Record, layer: Record, dram: Dram, innermost: int, window: Ints) -> None:
    """Bound what each tensor takes if it is row-aligned. Modifies x: cycles, refetch_fj."""
    for t in range(3):
        fetches = 1 if x.free == t else x.fetches[t]
        rows, columns, blocks = aligned_stream(layer, dram, t, x.e, x.loops, innermost, x.size[t], fetches, window)
        x.cycles[t] = min_stream_cycles(layer, dram, columns, rows)
        more = blocks * x.size[t] * fetches / layer.needed[t] - 1
        x.refetch_fj[t] = x.fetch_fj[t] * more + layer.activation_fj * (rows - layer.min_rows[t])


@njit
def _set_sequential(x: Record, layer: Record, dram: Dram, places: Ints, boxes: Ints, innermost: int) -> None:
    """Bound what each tensor takes if it is not row-aligned. Modifies x: sequential_rows, sequential_cycles.

    The innermost loop (-1 if there is none) sweeps a box, and the irrelevant loops that are not free repeat it.
    """
    for t in range(3):
        at = 0
        for d in range(8):
            at += places[d, layer.bounds[d] if d == innermost else x.e[d]] * layer.strides[t, d]
        for none_free in range(2):
            fetches, rows = 1 if x.free == t and not none_free else x.fetches[t], x.sequential_rows[none_free, t]
            for layout in range(2):
                box = boxes[t, at, layout * LAYOUT : (layout + 1) * LAYOUT]
                rows[layout] = max(layer.min_rows[t], box[BOX] + (fetches - 1) * box[SWEPT_REPEAT])
            scans = fetches if t != O else 2 * fetches - 1
            x.sequential_cycles[none_free, t] = min_stream_cycles(
                layer, dram, scans * layer.min_columns[t], min(rows[0], rows[1])
            )


@njit
def _lower_all_sets(x: Record, layer: Record, has_loops: bool) -> None:
    """Lower the bounds of each case, and of each set of row-aligned tensors that fits. Modifies x."""
    for aligned in range(1, 8):
        if fits(x, layer, 2, aligned):
            for case in range(CASES):
                if case in (x.free, NONE_FREE) or not has_loops:
                    _lower_set(x, case, aligned)
                    _lower_linked(x, layer, case, aligned)


@njit
def _lower_set(x: Record, case: int, aligned: int) -> None:
    """Lower the bounds of one case and one set of row-aligned tensors. Modifies x."""
    cycles, fj, none_free = 0, 0.0, int(case == NONE_FREE)
    for t in range(3):
        if aligned >> t & 1:
            cycles, fj = max(cycles, x.cycles[t]), fj + x.refetch_fj[t]
            continue
        cycles = max(cycles, x.sequential_cycles[none_free, t])
        for layout in range(2):
            lower(x.min_rows[case, aligned, t], layout, x.sequential_rows[none_free, t, layout])
    lower(x.min_cycles[case], aligned, cycles)
    lower(x.min_fj[case], aligned, fj)
    for t in range(3 * none_free):
        once_more = 0 if aligned >> t & 1 else x.fill_fj[t] * float(x.fetches[t] - 1)
        lower(x.refill_fj[aligned], t, fj + once_more)


@njit
def _lower_linked(x: Record, layer: Record, case: int, aligned: int) -> None:
    """Lower the bounds of the streams of a link. Modifies x."""
    total = 0
    for t in range(3):
        total += _linked_cycles(x, layer, case, aligned, t)
    lower(x.linked[case, aligned], NONE_LEFT_OUT, total)
    for t in range(3):
        lower(x.linked[case, aligned], t, total - _linked_cycles(x, layer, case, aligned, t))


@njit
def _linked_cycles(x: Record, layer: Record, case: int, aligned: int, t: int) -> int:
    """Return the cycles for which a tensor's scans occupy a link that it shares with others."""
    cycles = x.cycles[t] if aligned >> t & 1 else x.sequential_cycles[int(case == NONE_FREE), t]
    return link_share(layer, t, cycles)


@njit
def _store(x: Record, layer: Record, outer: DramLoopBounds, i: int) -> None:
    """Store the bounds of the i-th extents. Modifies outer."""
    for aligned in range(1, 8):
        if not fits(x, layer, 2, aligned):
            continue
        for case in range(CASES):
            outer.cycles[case, aligned, i] = x.min_cycles[case, aligned]
            outer.fj[case, aligned, i] = x.min_fj[case, aligned]
            for left_out in range(outer.linked.shape[2]):
                outer.linked[case, aligned, left_out, i] = x.linked[case, aligned, left_out]
        for t in range(3):
            outer.refill_fj[aligned, t, i] = x.refill_fj[aligned, t]
            for case in range(CASES):
                for layout in range(2):
                    outer.rows[case, aligned, t, layout, i] = x.min_rows[case, aligned, t, layout]
