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
    TOGETHER,
    Record,
    TileCosts,
    elements_of,
)
from tables.bounds.row_aligned import aligned_stream
from tables.dram import Dram, last_run, period
from tables.jit import njit
from tables.nest import C, G, Ints, K, N, O, P, Q, R, S

#: The cases of the module docstring: the three classes, and NONE_FREE.
CASES = 4
NONE_FREE = 3
#: Bounds are kept in single precision, rounded down by this factor. INFINITE is more than any of them.
_ROUNDED_DOWN, _INFINITE = 1 - 1e-6, 3e38

Floats = NDArray[np.float32]

#: The working state: extents inside the DRAM's loops, and what streams take. It is one record for the reason given at
#: `tables.bounds.tile_bounds.TILE_STATE`.
STREAM_STATE = np.dtype([
    # Of the layer, per tensor: fJ of fetching all of it once to the row buffer, and to the global buffer.
    ("fetch_fj", np.int64, 3), ("fill_fj", np.int64, 3),
    # Extents, and DRAM loops outside them, per dim; products of these loops per class: the fetches of each tile of that
    # tensor if none is free; elements of each tensor's tile.
    ("e", np.int64, 8), ("loops", np.int64, 8), ("fetches", np.int64, 4), ("size", np.int64, 3),
    # With some innermost loop, `free` being its class. Per tensor if it is row-aligned: cycles of its stream, and fJ
    # beyond fetching it once. If it is not, for cases 0 to 2 and for NONE_FREE: rows per layout, and cycles.
    ("free", np.int64), ("cycles", np.int64, 3), ("refetch_fj", np.float64, 3), ("sequential_rows", np.int64, (2, 3,
    2)), ("sequential_cycles", np.int64, (2, 3)),
    # The entries of `DramLoopBounds` for the extents, and each tensor's row of `TileCosts.boxes`.
    ("min_cycles", np.float32, (CASES, 8)), ("min_fj", np.float32, (CASES, 8)),
    ("min_rows", np.float32, (CASES, 8, 3, 2)), ("refill_fj", np.float32, (8, 3)), ("boxes", np.int64, (3, 2 * LAYOUT)),
])  # fmt: skip


class DramLoopBounds(NamedTuple):
    """Lower bounds for all n tiles of the global buffer; `strides` int[8] gives the index of a tile from its divisors.

    Per case, set of row-aligned tensors (bit t) and tile:

    - `cycles` float32[4, 8, n]: of the longest stream. `fj` [4, 8, n]: of row-aligned tensors, beyond fetching each
      once and opening the rows that it fills. `rows` [4, 8, 3, 2, n]: of each other tensor, per layout.
    - `refill_fj` [8, 3, n]: `fj` of NONE_FREE, and what it takes to bring another tensor to the global buffer as often
      as the DRAM's loops say. `fill_fj` int[3]: what it takes to bring all of a tensor there once.

    Per set of tensors that the global buffer (bit t) and the row buffer (bit 3 + t) store, float32[64, n], for the tile
    and all larger ones; entry 0 is the minimum over all sets:

    - `stored_cycles`: of the longest stream. `stored_fj`: of fetching tiles more than once.
    """

    cycles: Floats
    fj: Floats
    rows: Floats
    refill_fj: Floats
    fill_fj: Ints
    stored_cycles: Floats
    stored_fj: Floats
    strides: Ints


def no_dram_loop_bounds() -> DramLoopBounds:
    """Return bounds of zero, which are valid for every tile."""
    return _filled(1, 0, np.zeros(3, np.int64), np.zeros(8, np.int64))


def dram_loop_bounds(costs: TileCosts, dram: Dram, windows: Ints) -> DramLoopBounds:
    """Return the bounds of all tiles of a layer; `windows` int[n, 9] as from `tables.bounds.windows.window_rows`."""
    layer = costs.layer[0]
    sizes = layer["counts"].tolist()
    n, strides = math.prod(sizes), np.array([math.prod(sizes[d + 1 :]) for d in range(8)], np.int64)
    fetch_fj, fill_fj = (
        np.array([_min_coefficient(layer, t, kept, quantity) * layer["needed"][t] for t in range(3)])
        for kept, quantity in ((slice(1, 4, 2), MOVED2), (slice(2, 3), MOVED1))
    )
    outer = _filled(n, _INFINITE, fill_fj, strides)
    rows, dims = np.zeros((n, 2), np.int64), [R, S, P, Q, C, N, G]
    rows[(costs.places[dims, windows[:, :-2]] * strides[dims]).sum(axis=1)] = windows[:, -2:]
    _bound_each(costs, dram, rows, fetch_fj, outer)
    for case in range(CASES):
        along = np.array([d for d in range(8) if case == NONE_FREE or CLASS_OF[d] == case])
        for bounds in (outer.cycles, outer.fj, outer.rows):
            _minimize_over_multiples(bounds[case].reshape(-1, n), along, costs, strides)
    _minimize_over_multiples(outer.refill_fj.reshape(-1, n), np.arange(8), costs, strides)
    _bound_stored_sets(costs, outer)
    for bounds in (outer.stored_cycles, outer.stored_fj):
        _minimize_over_multiples(bounds, np.arange(8), costs, strides)
        bounds[0] = bounds.min(axis=0)
    return outer


def _filled(n: int, value: float, fill_fj: Ints, strides: Ints) -> DramLoopBounds:
    """Return bounds that have one value for all n tiles."""

    def full(*shape: int) -> Floats:
        return np.full((*shape, n), value, np.float32)

    return DramLoopBounds(
        full(CASES, 8), full(CASES, 8), full(CASES, 8, 3, 2), full(8, 3), fill_fj, full(64), full(64), strides
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
        x.min_cycles[:], x.min_fj[:], x.min_rows[:], x.refill_fj[:] = _INFINITE, _INFINITE, _INFINITE, _INFINITE
        _set_extents(x, costs, outer.strides, i)
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
def _set_extents(x: Record, costs: TileCosts, strides: Ints, i: int) -> None:
    """Take the i-th extents. Modifies x: e, loops, fetches, size."""
    layer, x.fetches[:] = costs.layer[0], 1
    for d in range(8):
        x.e[d] = costs.divisors[d, i // strides[d] % layer.counts[d]]
        x.loops[d] = layer.bounds[d] // x.e[d]
        x.fetches[CLASS_OF[d]] *= x.loops[d]
    for t in range(3):
        x.size[t] = elements_of(t, x.e, layer)


@njit
def _set_row_aligned(x: Record, layer: Record, dram: Dram, innermost: int, window: Ints) -> None:
    """Bound what each tensor takes if it is row-aligned. Modifies x: cycles, refetch_fj."""
    for t in range(3):
        fetches = 1 if x.free == t else x.fetches[t]
        rows, columns, blocks = aligned_stream(layer, dram, t, x.e, x.loops, innermost, x.size[t], fetches, window)
        x.cycles[t] = _min_stream_cycles(layer, dram, columns, rows)
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
            x.sequential_cycles[none_free, t] = _min_stream_cycles(
                layer, dram, scans * layer.min_columns[t], min(rows[0], rows[1])
            )


@njit
def _lower_all_sets(x: Record, layer: Record, has_loops: bool) -> None:
    """Lower the bounds of each case, and of each set of row-aligned tensors that fits. Modifies x."""
    for aligned in range(1, 8):
        if _fits(x, layer, 2, aligned):
            for case in range(CASES):
                if case in (x.free, NONE_FREE) or not has_loops:
                    _lower_set(x, case, aligned)


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
            _lower(x.min_rows[case, aligned, t], layout, x.sequential_rows[none_free, t, layout])
    _lower(x.min_cycles[case], aligned, cycles)
    _lower(x.min_fj[case], aligned, fj)
    for t in range(3 * none_free):
        once_more = 0 if aligned >> t & 1 else x.fill_fj[t] * float(x.fetches[t] - 1)
        _lower(x.refill_fj[aligned], t, fj + once_more)


@njit
def _store(x: Record, layer: Record, outer: DramLoopBounds, i: int) -> None:
    """Store the bounds of the i-th extents. Modifies outer."""
    for aligned in range(1, 8):
        if not _fits(x, layer, 2, aligned):
            continue
        for case in range(CASES):
            outer.cycles[case, aligned, i] = x.min_cycles[case, aligned]
            outer.fj[case, aligned, i] = x.min_fj[case, aligned]
        for t in range(3):
            outer.refill_fj[aligned, t, i] = x.refill_fj[aligned, t]
            for case in range(CASES):
                for layout in range(2):
                    outer.rows[case, aligned, t, layout, i] = x.min_rows[case, aligned, t, layout]


@njit
def _fits(x: Record, layer: Record, level: int, stored: int) -> bool:
    """Return whether a level has room for the tiles of a set of tensors (bit t)."""
    used, fits = 0, True
    for t in range(3):
        tile = (stored >> t & 1) * x.size[t] * layer.widths[t, level]
        used, fits = used + tile, fits and tile <= layer.capacity[level, t]
    return bool(fits and used <= layer.capacity[level, TOGETHER])


@njit
def _lower(bounds: Floats, i: int, value: float) -> None:
    """Set the i-th bound to a value if that is smaller, rounded down to single precision. Modifies bounds."""
    bounds[i] = min(bounds[i], max(0.0, value * _ROUNDED_DOWN))


@njit
def _min_stream_cycles(layer: Record, dram: Dram, columns: int, rows: int) -> int:
    """Return a lower bound on the cycles of a stream with these columns and rows (`cpsat_pim.mapper.model.streams`)."""
    column, miss, excess = layer.dram[0], layer.dram[1], layer.dram[2]
    return int(max(column * columns + miss * rows + excess, period(1, dram) * (rows - 1) + last_run(1, dram)))


@njit
def _bound_stored_sets(costs: TileCosts, outer: DramLoopBounds) -> None:
    """Bound all streams of each tile together: the minimum over cases. Modifies outer: stored_cycles, stored_fj."""
    scans, layer = np.zeros(1, STREAM_STATE), costs.layer[0]
    for i in range(outer.stored_cycles.shape[1]):
        x = scans[0]
        _set_extents(x, costs, outer.strides, i)
        _set_boxes(x, layer, costs.places, costs.boxes)
        for aligned in range(1, 8):
            if _fits(x, layer, 2, aligned):
                _load(x, outer, aligned, i)
                for buffered in range(8):
                    if _fits(x, layer, 1, buffered):
                        stored = 8 * aligned + buffered
                        cycles, fj = _min_over_cases(x, layer, aligned, buffered)
                        _lower(outer.stored_cycles[stored], i, cycles)
                        _lower(outer.stored_fj[stored], i, fj)


@njit
def _set_boxes(x: Record, layer: Record, places: Ints, boxes: Ints) -> None:
    """Take each tensor's box with the extents at hand. Modifies x: boxes."""
    for t in range(3):
        at = 0
        for d in range(8):
            at += places[d, x.e[d]] * layer.strides[t, d]
        for column in range(2 * LAYOUT):
            x.boxes[t, column] = boxes[t, at, column]


@njit
def _load(x: Record, outer: DramLoopBounds, aligned: int, i: int) -> None:
    """Load the bounds of the i-th extents and one set of row-aligned tensors. Modifies x."""
    for case in range(CASES):
        x.min_cycles[case, aligned] = outer.cycles[case, aligned, i]
        x.min_fj[case, aligned] = outer.fj[case, aligned, i]
    for t in range(3):
        x.fill_fj[t], x.refill_fj[aligned, t] = outer.fill_fj[t], outer.refill_fj[aligned, t, i]
        for case in range(CASES):
            for layout in range(2):
                x.min_rows[case, aligned, t, layout] = outer.rows[case, aligned, t, layout, i]


@njit
def _min_over_cases(x: Record, layer: Record, aligned: int, buffered: int) -> tuple[float, float]:
    """Return lower bounds on the cycles of all streams and on the fJ of refetches, whichever loops are free."""
    min_cycles, min_fj = np.inf, np.inf
    for other in range(3):
        for case in (other, NONE_FREE):
            cycles, fj = _bound_case(x, layer, aligned, buffered, other, case)
            min_cycles, min_fj = min(min_cycles, cycles), min(min_fj, fj)
    return min_cycles, min_fj


@njit
def _bound_case(x: Record, layer: Record, aligned: int, buffered: int, other: int, case: int) -> tuple[float, float]:
    """Return the same bounds for one case, where the irrelevant loops of the tensor `other` may be free.

    `aligned`, `buffered`: sets of tensors that the row buffer and the global buffer store.
    """
    cycles, fj = x.min_cycles[case, aligned], x.min_fj[case, aligned]
    if case == NONE_FREE and buffered >> other & 1 and not aligned >> other & 1:
        fj = x.refill_fj[aligned, other]
    for t in range(3):
        if not aligned >> t & 1:
            is_buffered, times = buffered >> t & 1, 1 if t == other else x.fetches[t]
            cycles = max(cycles, min(
                _min_sequential_cycles(x, layer, t, 0, x.min_rows[case, aligned, t, 0], times, is_buffered),
                _min_sequential_cycles(x, layer, t, 1, x.min_rows[case, aligned, t, 1], times, is_buffered),
            ))  # fmt: skip
            fj += is_buffered * x.fill_fj[t] * float(times - 1)
    return cycles, fj


@njit
def _min_sequential_cycles(x: Record, layer: Record, t: int, layout: int, rows: float, times: int,
                     is_buffered: int) -> float:  # fmt: skip
    """Return a lower bound on the cycles of a tensor that is not row-aligned, in one layout.

    It opens at least `rows` rows and is scanned `times` times: tile by tile, if the global buffer stores it.
    """
    scans = times if t != O else 2 * times - 1
    columns = scans * layer.min_columns[t]
    if is_buffered:
        box = x.boxes[t, layout * LAYOUT : (layout + 1) * LAYOUT]
        rows = max(rows, box[FIRST] + (times - 1) * box[REPEAT])
        columns = max(columns, scans * box[COLUMNS])
    return float(layer.dram[0] * columns + layer.dram[1] * rows + layer.dram[2])
