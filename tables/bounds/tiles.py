"""Enumeration of the tiles whose lower bound meets a trial bound: extents in the PEs and in the global buffer.

Tiles are bounded one by one and in sets (`tables.bounds.tile_bounds`). A set leaves the extents of some dims open. Its
bound uses the smallest extents for what has to fit, the largest ones for what is fetched, and for scans the minima of
the shape tables over all extents of the set (`TileCosts.open_boxes`). So it is valid for every tile of the set; if it
exceeds the trial bound, the set is pruned. The enumeration is a depth-first search per spatial mapping: first with the
PEs' extents open, then for each of them, and in both cases it fixes the global buffer's extents dim by dim. Without a
row-aligned tensor, which bounds sets of tiles best, the PEs' extents are fixed dim by dim, too.
"""

import numpy as np

from tables.bounds.layer import (
    CLASS_OF,
    FILLS,
    HELD,
    HOLDERS,
    INFINITE_COST,
    MACS,
    MOVED0,
    MOVED1,
    MOVED2,
    ONE,
    QUANTITIES,
    SUMS,
    TOGETHER,
    USES,
    Record,
    TileCosts,
    elements_of,
    positions_of,
)
from tables.bounds.outer_state import DramLoopBounds
from tables.bounds.tile_bounds import TrialObjective, bound_array_tile, bound_tile, find_stored_sets
from tables.bounds.tile_state import TILE_STATE
from tables.bounds.tile_streams import ALL_FREE, bound_tensors
from tables.jit import borrowing_njit, njit
from tables.nest import C, I, Ints, K, O, P, R, S, W


@njit
def enumerate_tiles(costs: TileCosts, dram_bounds: DramLoopBounds, objective: TrialObjective, vectors: Ints,
                    kinds: Ints, cycles: Ints, is_aligned: bool, most: int, margin: int, found: Ints,
                    min_bound: Ints, stop: Ints) -> tuple[int, int, int, TrialObjective]:  # fmt: skip
    """Enumerate the tiles of spatial mappings whose lower bound meets the trial bound.

    `vectors` int[n, 19]: PEs per dim, lanes per dim, whether the PEs store each tensor. `kinds` int[n, 4]: rows of
    `TileCosts.points` and `arrays`, of axis P, then of Q. `cycles` int[n]: a lower bound on the latency of each spatial
    mapping. `is_aligned`: at least one tensor is row-aligned, else none. `most`: the number of evaluations after which
    the enumeration stops; it also stops when more tiles are found than `found` has rows, or where `stop` int[1] is set.
    `margin` m > 0: whenever a bound is found, the trial bound is lowered to that bound and an m-th of it; `found` may
    then hold tiles above it.

    Modifies `found` int[k, 18], the first k tiles: spatial mapping, extents in the PEs and in the global buffer, bound.
    Modifies `min_bound` int[n]: the smallest bound per spatial mapping that was reached, or `INFINITE_COST`.

    Returns how many spatial mappings were enumerated, the number of tiles found, that of evaluations (of tiles and of
    sets of them), and the objective with its trial bound.
    """
    states, evaluated, number, layer = np.zeros(1, TILE_STATE), 0, 0, costs.layer[0]
    for n in range(len(vectors)):
        min_bound[n], x = INFINITE_COST, states[0]
        _set_vector(x, layer, vectors[n], kinds[n], cycles[n])
        dims = 8 if x.in_pe[0] or x.in_pe[1] or x.in_pe[2] else 4  # else T0 of the other dims changes no bound
        is_left = objective.fixed + objective.cycle_weight * x.min_cycles <= objective.trial_bound
        while is_left:
            evaluated, value = evaluated + 1, INFINITE_COST
            fits = _set_inner(x, costs)
            if fits and bound_array_tile(x, layer, objective) <= objective.trial_bound:
                number, seen, value = _enumerate_buffer_tiles(
                    x, costs, dram_bounds, objective, is_aligned, n, number, found
                )
                evaluated += seen
            if evaluated > most or number > len(found) or stop[0]:
                return n, number, evaluated, objective
            if x.inner_open:
                if value <= objective.trial_bound:
                    x.inner_open = 0 if is_aligned else _next_open(x.inner_open, dims, x.loops_left)
                    continue
            else:
                min_bound[n] = min(min_bound[n], value)
                if margin and value <= objective.trial_bound and value + value // margin < objective.trial_bound:
                    objective = TrialObjective(
                        objective.cycle_weight, objective.fj_weight, objective.fixed, value + value // margin
                    )
            at = _advance_inner(x, costs, fits, dims)
            x.inner_open = 0 if is_aligned else at
            is_left = at < dims
    return len(vectors), number, evaluated, objective


@borrowing_njit
def _advance_inner(x: Record, costs: TileCosts, fits: bool, dims: int) -> int:
    """Go to the next divisors for T0, from the first dim on that is not open; beyond all larger ones if those at hand
    do not fit. Modifies x.

    Returns the dim that advanced, or `dims` after the last divisors.
    """
    first = min(x.inner_open, dims)
    if not fits:
        while first < dims and not x.inner_at[first]:
            first += 1
        first = min(first + 1, dims)
    return _advance(x.inner_at, x.loops_left, costs.divisors, costs.layer[0].counts, first, dims)


@borrowing_njit
def _next_open(open_dims: int, dims: int, loops: Ints) -> int:
    """Return how many dims are open if one more of `dims` is fixed; a dim without loops needs no choice."""
    open_dims = min(open_dims, dims) - 1
    while open_dims and loops[open_dims] == 1:
        open_dims -= 1
    return open_dims


@borrowing_njit
def _advance(at: Ints, loops: Ints, divisors: Ints, counts: Ints, first: int, dims: int) -> int:
    """Go to the next divisors of the loops of the dims from `first` on; earlier dims go back to 1. Modifies at.

    Returns the dim that advanced, or `dims` after the last divisors.
    """
    for d in range(first):
        at[d] = 0
    for d in range(first, dims):
        at[d] += 1
        while at[d] < counts[d] and loops[d] % divisors[d, at[d]]:
            at[d] += 1
        if at[d] < counts[d]:
            return d
        at[d] = 0
    return dims


@njit
def _set_vector(x: Record, layer: Record, given: Ints, kinds: Ints, cycles: int) -> None:
    """Take a spatial mapping, with the PEs' extents open. Modifies x."""
    x.min_cycles, x.inner_open = cycles, 8
    for i in range(len(given)):
        x.vector[i] = given[i]
    for t in range(3):
        x.in_pe[t] = given[16 + t]
    for i in range(4):
        x.kinds[i], x.class_loops_left[i], x.class_pes[i] = kinds[i], 1, 1
    for d in range(8):
        x.inner_at[d] = 0
        x.loops_left[d] = layer.bounds[d] // (given[d] * given[8 + d])
        x.class_loops_left[CLASS_OF[d]] *= x.loops_left[d]
        x.class_pes[CLASS_OF[d]] *= given[d]
    x.has_copies = not layer.adds_up and given[R] * given[S] * given[C] * given[8 + R] * given[8 + S] * given[8 + C] > 1


@njit
def _set_inner(x: Record, costs: TileCosts) -> bool:
    """Take the divisors `inner_at` for T0; return whether the tiles fit the PEs. Modifies x.

    Of open dims `inner_at` stands for 1. Then the extents without T0 are set, and the usage is the minimum over all T0.
    """
    layer, x.class_outer_loops[:], x.pe_tiles[:] = costs.layer[0], 1, 1
    for d in range(8):
        inner = costs.divisors[d, x.inner_at[d]]
        x.e0[d] = x.vector[8 + d] * inner
        x.array[d] = x.e0[d] * x.vector[d]
        x.array_at[d] = costs.places[d, x.array[d]]
        x.outer_loops[d] = x.loops_left[d] // inner
        if d >= x.inner_open:
            x.class_outer_loops[CLASS_OF[d]] *= x.outer_loops[d]
            for t in range(3):
                x.pe_tiles[t] *= x.outer_loops[d] if CLASS_OF[d] != t else 1
    used, fits = 0, True
    for t in range(3):
        in_pe = x.in_pe[t]
        tile = in_pe * layer.widths[t, 0] * elements_of(t, x.e0, layer)
        used, fits = used + tile, fits and tile <= layer.capacity[0, t]
        quantities = _quantities(x, layer, costs.points, costs.arrays, t)
        x.pe_box[t], x.array_box[t] = 0, 0
        for d in range(8):
            extent = x.array[d] if in_pe else x.vector[d] * x.vector[8 + d]
            x.pe_box[t] += costs.places[d, extent] * layer.strides[t, d]
            x.array_box[t] += x.array_at[d] * layer.strides[t, d]
        for f in range(layer.resources):
            for buffers in range(4):
                x.per_visit[f, t, buffers], x.without_visits[f, t, buffers] = 0, 0
                for q in range(len(QUANTITIES)):
                    term = layer.coefficients[f, t, in_pe, buffers, q] * quantities[q]
                    if MOVED0 <= q < USES:
                        x.per_visit[f, t, buffers] += term
                    elif q != MOVED1:
                        x.without_visits[f, t, buffers] += term
    return bool(fits and used <= layer.capacity[0, TOGETHER])


@njit
def _quantities(x: Record, layer: Record, points: Ints, arrays: Ints, t: int) -> Ints:
    """Return int[10]: the quantities of a tensor, those of fetches into the PEs for one visit, without `moved1`."""
    found, loops, pes = np.zeros(len(QUANTITIES), np.int64), x.class_loops_left, x.class_pes
    found[MOVED2], found[MACS] = layer.needed[t], 1
    for d in range(8):
        found[MACS] *= layer.bounds[d]
    if t == I:
        found[USES], found[MOVED0], found[FILLS] = layer.depth * loops[I], layer.depth, layer.depth * x.vector[K]
        for side in range(2):
            p, r = P + side, side
            i = x.inner_at[p] if p >= x.inner_open else -1
            j = x.inner_at[r] if r >= x.inner_open else -1
            found[USES] *= points[side, x.kinds[2 * side], i, j]
            found[MOVED0] *= arrays[side, x.kinds[2 * side + 1], i, j]
            most_p = x.e0[p] if p >= x.inner_open else layer.bounds[p] // x.vector[p]
            most_r = x.e0[r] if r >= x.inner_open else layer.bounds[r] // x.vector[r]
            found[FILLS] *= positions_of(side, x.e0[p], most_p, x.e0[r], most_r, layer)
        return found
    found[ONE] = found[MOVED0] = layer.needed[t]
    found[FILLS] = found[HELD] = found[HOLDERS] = layer.needed[t] * pes[t]
    found[USES], found[SUMS] = layer.needed[t] * loops[t], layer.needed[t] * loops[t] * pes[t]
    return found


@borrowing_njit
def _enumerate_buffer_tiles(x: Record, costs: TileCosts, dram_bounds: DramLoopBounds, objective: TrialObjective,
                            is_aligned: bool, n: int, number: int, found: Ints) -> tuple[int, int, int]:  # fmt: skip
    """Enumerate the global buffer's tiles for the PEs' tile at hand; `n`: the spatial mapping. Modifies x and found.

    If T0 is open in some dim, stop at the first tile that meets the trial bound: it only shows that there are some.

    Returns the number of tiles found so far, the number of evaluations, and the smallest bound of a tile.
    """
    layer, evaluated, min_bound, is_first, x.open_dims, x.buffer_at[:] = costs.layer[0], 0, INFINITE_COST, True, 8, 0
    while x.open_dims < 8 or is_first:
        evaluated, is_first = evaluated + 1, False
        bound = _bound_set(x, costs, dram_bounds, objective, is_aligned)
        if x.inner_open and not x.open_dims and bound <= objective.trial_bound:
            return number, evaluated, bound
        if not x.open_dims:
            min_bound = min(min_bound, bound)
            if bound <= objective.trial_bound:
                if number < len(found):
                    found[number, 0], found[number, 17] = n, bound
                    for d in range(8):
                        found[number, 1 + d], found[number, 9 + d] = x.e0[d], x.extents[d]
                number += 1
        elif bound <= objective.trial_bound:
            x.open_dims = _next_open(x.open_dims, 8, x.outer_loops)
            continue
        x.open_dims = _advance(x.buffer_at, x.outer_loops, costs.divisors, layer.counts, x.open_dims, 8)
    return number, evaluated, min_bound


@borrowing_njit
def _bound_set(x: Record, costs: TileCosts, dram_bounds: DramLoopBounds, objective: TrialObjective,
               is_aligned: bool) -> int:  # fmt: skip
    """Return a lower bound for the tile or set of tiles at hand; `INFINITE_COST` if it exceeds the trial bound for any
    stored set. Modifies x.
    """
    layer, bound = costs.layer[0], INFINITE_COST
    _set_tile(x, layer, costs.divisors, costs.places, dram_bounds.strides)
    if objective.cycle_weight * dram_bounds.stored_cycles[0, x.place] <= objective.trial_bound:
        bound_tensors(x, layer, costs.open_boxes, ALL_FREE)
        sets = find_stored_sets(x, layer, dram_bounds.stored_cycles, dram_bounds.stored_fj, objective, is_aligned)
        if sets:
            for free in range(3):
                bound_tensors(x, layer, costs.open_boxes, free)
            bound = bound_tile(x, layer, costs.open_boxes, dram_bounds, objective, sets)
    return bound


@borrowing_njit
def _set_tile(x: Record, layer: Record, divisors: Ints, places: Ints, strides: Ints) -> None:
    """Take the divisors `buffer_at` for T1; the first `open_dims` dims are open. Modifies x."""
    x.class_buffer_loops[:], x.class_loops_outside[:], x.box[:], x.place, x.looped_classes = 1, 1, 0, 0, 0
    x.buffer_tiles[:] = 1
    for d in range(8):
        n = divisors[d, x.buffer_at[d]]
        e = x.array[d] * n
        x.extents[d] = x.largest[d] = e
        if d >= x.inner_open:
            x.class_buffer_loops[CLASS_OF[d]] *= n
        if d < x.open_dims:
            x.largest[d] = layer.bounds[d]
        else:
            outside = x.outer_loops[d] // n
            x.class_loops_outside[CLASS_OF[d]] *= outside
            for t in range(3):
                x.buffer_tiles[t] *= outside if CLASS_OF[d] != t else 1
        x.extents_at[d] = at = places[d, e]
        x.place += at * strides[d]
        for t in range(3):
            x.box[t] += at * layer.strides[t, d]
    for c in range(4):
        x.looped_classes += x.class_buffer_loops[c] > 1
    x.moved[I], x.moved[W], x.moved[O] = layer.depth, layer.needed[W], layer.needed[O]
    for side in range(2):
        p, r = P + side, side
        x.moved[I] *= positions_of(side, x.extents[p], x.largest[p], x.extents[r], x.largest[r], layer)
    for t in range(3):
        x.size[t] = elements_of(t, x.extents, layer)
        for k in range(4):
            fits = not k & 2 or x.size[t] * layer.widths[t, 1] <= layer.capacity[1, t]
            fits &= not k & 1 or x.size[t] * layer.widths[t, 2] <= layer.capacity[2, t]
            x.can_store[t, k] = fits and layer.is_offered[t, x.in_pe[t], k]
