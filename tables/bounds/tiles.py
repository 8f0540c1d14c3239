"""All tiles that may cost little: extents inside the loops of the PEs and of the global buffer, per spatial mapping.

Sets of tiles are bounded like a tile (`tables.bounds.tile_bounds`), and left out together: of dims whose extents are
open, with the smallest ones as to what has to fit, and the largest ones as to what is fetched. First the PEs' extents
are open, then known, and in both cases those of the global buffer are told dim by dim.
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
    USES,
    Record,
    TileCosts,
    elements_of,
    positions_of,
)
from tables.bounds.outer_loops import DramLoopBounds
from tables.bounds.tile_bounds import ALL_FREE, LOOK, TrialObjective, least_inside, least_together, possible_sets, weigh
from tables.jit import njit
from tables.nest import I, Ints, K, O, P, W


@njit
def enumerate_tiles(costs: TileCosts, outer: DramLoopBounds, goal: TrialObjective, vectors: Ints, kinds: Ints, cycles: Ints, is_aligned: bool,
                begin: int, end: int, most: int, margin: int, number: int, found: Ints,
                least: Ints) -> tuple[int, int, TrialObjective]:  # fmt: skip
    """All tiles of the vectors from `begin` to `end` that may cost at most a target: with `number` earlier ones how
    many there are, how many (and sets of them) were looked at, little more than `most`, and the goal, its target
    lowered to an n-th above the least bound if `margin` is n > 0 (then `found` has some that are above it, too).

    `vectors` int[n, 19]: PEs per dim, lanes per dim, whether PEs store each tensor; `kinds` int[n, 4]: of `points` and
    `arrays` of P, then of Q; `cycles` int[n] that a vector takes at least; `is_aligned`: whether some tensor has to be
    row-aligned. Modifies `found` int[m, 18], the first m tiles (vector, extents inside the PEs' loops and the global
    buffer's, bound), and `least` int[n], their least bound per vector, or `INFINITE_COST`.
    """
    looks, looked, layer = np.zeros(1, LOOK), 0, costs.layer[0]
    for n in range(begin, end):
        least[n], x = INFINITE_COST, looks[0]
        _set_vector(x, layer, vectors[n], kinds[n], cycles[n])
        dims = 8 if x.in_pe.any() else 4  # else only I's positions tell T0
        is_left = goal.fixed + goal.cycle_weight * x.cycles <= goal.target
        while is_left:
            looked, value, first = looked + 1, INFINITE_COST, 0
            fits = _set_inner(x, costs)
            if fits and least_inside(x, layer, goal) <= goal.target:
                number, seen, value = _look_outside(x, costs, outer, goal, is_aligned, n, number, found)
                looked += seen
            if looked > most:
                return number, looked, goal
            if not x.is_known:  # whatever T0 is
                x.is_known, is_left = 1, value <= goal.target
                continue
            least[n] = min(least[n], value)
            if margin and value <= goal.target and value + value // margin < goal.target:
                goal = TrialObjective(goal.cycle_weight, goal.fj_weight, goal.fixed, value + value // margin)
            if not fits:  # nor does anything larger
                while first < dims and not x.inner_at[first]:
                    first += 1
                first += 1
            is_left = _advance(x.inner_at, x.pe_room, costs.divisors, layer.counts, first, dims) < dims
    return number, looked, goal


@njit
def _advance(at: Ints, room: Ints, divisors: Ints, counts: Ints, first: int, dims: int) -> int:
    """The next divisors of the room of some dims, from the `first` one on, those before it back at 1; the dim that
    moved on, `dims` after the last divisors. Modifies at.
    """
    for d in range(first):
        at[d] = 0
    for d in range(first, dims):
        at[d] += 1
        while at[d] < counts[d] and room[d] % divisors[d, at[d]]:
            at[d] += 1
        if at[d] < counts[d]:
            return d
        at[d] = 0
    return dims


@njit
def _set_vector(x: Record, layer: Record, given: Ints, kinds: Ints, cycles: int) -> None:
    """Take a spatial mapping, the extents inside the PEs' loops not being known. Modifies x."""
    x.given[:], x.in_pe[:], x.kinds[:], x.cycles, x.is_known = given, given[16:], kinds, cycles, 0
    x.loops[:], x.pes[:], x.inner_at[:] = 1, 1, 0
    for d in range(8):
        x.pe_room[d] = layer.bounds[d] // (given[d] * given[8 + d])
        x.loops[CLASS_OF[d]] *= x.pe_room[d]
        x.pes[CLASS_OF[d]] *= given[d]


@njit
def _set_inner(x: Record, costs: TileCosts) -> bool:
    """Take the divisors `inner_at` for T0; whether that fits the PEs. Modifies x.

    If T0 is not known, these are the first of each, and what is set are the extents without T0, and the least that
    there is of each figure whatever T0 is.
    """
    layer, x.outside[:] = costs.layer[0], 1
    for d in range(8):
        inner = costs.divisors[d, x.inner_at[d]]
        x.e0[d] = x.given[8 + d] * inner
        x.array[d] = x.e0[d] * x.given[d]
        x.room[d] = x.pe_room[d] // inner
        if x.is_known:
            x.outside[CLASS_OF[d]] *= x.room[d]
    used = 0
    for t in range(3):
        in_pe = x.in_pe[t]
        used += in_pe * layer.widths[t, 0] * elements_of(t, x.e0, layer)
        quantities, x.pe_box[t] = _quantities(x, layer, costs.points, costs.arrays, t), 0
        for d in range(8):
            extent = x.array[d] if in_pe else x.given[d] * x.given[8 + d]
            x.pe_box[t] += costs.places[d, extent] * layer.strides[t, d]
        for f in range(layer.resources):
            for kept in range(4):
                x.visit[f, t, kept], x.once[f, t, kept] = 0, 0
                for q in range(len(QUANTITIES)):
                    term = layer.coefficients[f, t, in_pe, kept, q] * quantities[q]
                    if MOVED0 <= q < USES:
                        x.visit[f, t, kept] += term
                    elif q != MOVED1:
                        x.once[f, t, kept] += term
    return bool(used <= layer.capacity[0])


@njit
def _quantities(x: Record, layer: Record, points: Ints, arrays: Ints, t: int) -> Ints:
    """The quantities of a tensor, those of visits to the PEs of a single one; without `moved1`."""
    found, loops, pes = np.zeros(len(QUANTITIES), np.int64), x.loops, x.pes
    found[MOVED2], found[MACS] = layer.needed[t], layer.bounds.prod()
    if t == I:
        found[USES], found[MOVED0], found[FILLS] = layer.depth * loops[I], layer.depth, layer.depth * x.given[K]
        for side in range(2):
            p, r = P + side, side
            i, j = (x.inner_at[p], x.inner_at[r]) if x.is_known else (-1, -1)
            found[USES] *= points[side, x.kinds[2 * side], i, j]
            found[MOVED0] *= arrays[side, x.kinds[2 * side + 1], i, j]
            most_p = x.e0[p] if x.is_known else layer.bounds[p] // x.given[p]
            most_r = x.e0[r] if x.is_known else layer.bounds[r] // x.given[r]
            found[FILLS] *= positions_of(side, x.e0[p], most_p, x.e0[r], most_r, layer)
        return found
    found[ONE] = found[MOVED0] = layer.needed[t]
    found[FILLS] = found[HELD] = found[HOLDERS] = layer.needed[t] * pes[t]
    found[USES], found[SUMS] = layer.needed[t] * loops[t], layer.needed[t] * loops[t] * pes[t]
    return found


@njit
def _look_outside(x: Record, costs: TileCosts, outer: DramLoopBounds, goal: TrialObjective, is_aligned: bool, n: int, number: int,
                  found: Ints) -> tuple[int, int, int]:  # fmt: skip
    """All extents inside the global buffer's loops: how many tiles are found by then, how many (and sets of them) were
    looked at, and the least bound of the new ones. Modifies x and found; `n`: which vector it is. If T0 is not
    known (`_set_inner`), no more than whether there are some: the bound of the first ones.
    """
    layer, looked, least, is_first, x.cut, x.at[:] = costs.layer[0], 0, INFINITE_COST, True, 8, 0
    while x.cut < 8 or is_first:
        looked, is_first, cheapest = looked + 1, False, INFINITE_COST
        _set_tile(x, layer, costs.divisors, costs.places, outer.strides)
        if goal.cycle_weight * outer.streams[0, x.place] <= goal.target:
            weigh(x, layer, costs.boxes, ALL_FREE)
            few = possible_sets(x, layer, outer.streams, outer.refetch, goal, is_aligned)
            if few:
                for free in range(3):
                    weigh(x, layer, costs.boxes, free)
                cheapest = least_together(x, layer, costs.boxes, outer, goal, is_aligned, few)
        if not (x.is_known or x.cut or cheapest > goal.target):
            return number, looked, cheapest
        if not x.cut:
            least = min(least, cheapest)
            if cheapest <= goal.target:
                if number < len(found):
                    found[number, 0], found[number, 17] = n, cheapest
                    found[number, 1:9], found[number, 9:17] = x.e0, x.extents
                number += 1
        elif cheapest <= goal.target:
            x.cut -= 1
            while x.cut and x.room[x.cut] == 1:
                x.cut -= 1
            continue
        x.cut = _advance(x.at, x.room, costs.divisors, layer.counts, x.cut, 8)
    return number, looked, least


@njit
def _set_tile(x: Record, layer: Record, divisors: Ints, places: Ints, strides: Ints) -> None:
    """Take the divisors at which the tile is, those of dims before the cut being open. Modifies x."""
    x.inner[:], x.outer[:], x.box[:], x.place, x.classes = 1, 1, 0, 0, 0
    for d in range(8):
        n = divisors[d, x.at[d]]
        e = x.array[d] * n
        x.extents[d] = x.largest[d] = e
        if x.is_known:
            x.inner[CLASS_OF[d]] *= n
        if d < x.cut:
            x.largest[d] = layer.bounds[d]
        else:
            x.outer[CLASS_OF[d]] *= x.room[d] // n
        at = places[d, e]
        x.place += at * strides[d]
        for t in range(3):
            x.box[t] += at * layer.strides[t, d]
    for c in range(4):
        x.classes += x.inner[c] > 1
    x.moved[I], x.moved[W], x.moved[O] = layer.depth, layer.needed[W], layer.needed[O]
    for side in range(2):
        p, r = P + side, side
        x.moved[I] *= positions_of(side, x.extents[p], x.largest[p], x.extents[r], x.largest[r], layer)
    for t in range(3):
        x.size[t] = elements_of(t, x.extents, layer)
        for k in range(4):
            fits = not k & 2 or x.size[t] * layer.widths[t, 1] <= layer.capacity[1]
            fits &= not k & 1 or x.size[t] * layer.widths[t, 2] <= layer.capacity[2]
            x.can_keep[t, k] = fits and layer.is_offered[t, x.in_pe[t], k]
