"""What tiles cost at least: the extents inside the loops of the PEs and of the global buffer, per spatial mapping.

`tables.screen` bounds a spatial mapping without any refetch. Here the tiles of both on-chip levels are given, too, and
with them how often each tensor is fetched under the best choice of innermost loops, which tensors fit the buffers, the
rows that their scans open at least, and what cannot overlap in time (the terms of `cpsat_pim.model.latency`). Of the
loops outside the global buffer only the products are looked at: over two levels they cause no less traffic than merged
into one (docs/model.md, section 8). All of it grows with the fetches of each tensor, so that of some innermost loops
fewer may be free than of all: a bound holds for each way to order and to split the loops.

Sets of tiles are bounded like a tile, and left out together: of dims whose extents are open, with the smallest ones as
to what has to fit, and the largest ones as to what is fetched. First the PEs' extents are open, then known, and in both
cases those of the global buffer are told dim by dim.
"""

from typing import NamedTuple

import numpy as np

from tables.figures import (
    AGAIN,
    BOXED,
    CLASS_OF,
    COLUMNS,
    EACH,
    END,
    ENERGY,
    FIGURES,
    FILLS,
    FIRST,
    HELD,
    HOLDERS,
    LAYOUT,
    MACS,
    MORE,
    MOVED0,
    MOVED1,
    MOVED2,
    NEVER,
    ONE,
    QUANTITIES,
    SUMS,
    USES,
    Record,
    TileCosts,
    elements_of,
    positions_of,
)
from tables.jit import njit
from tables.nest import I, Ints, K, O, P, W
from tables.outer import APART, Floats, Outer

#: Irrelevant loops that are free at both levels.
_ALL_FREE = 3
#: A least energy where there is none.
_NOT_OFFERED = 2**58


class Goal(NamedTuple):
    """An objective: its weights, what it is of a mapping without traffic and time, and the most that is looked for.

    With no weight on cycles these are not looked at.
    """

    cycle_weight: int
    fj_weight: int
    fixed: int
    target: int


#: What the bounds of one tile, or of all that have some of its extents, are made of. A record: to pass its many arrays
#: one by one would take several times what is done with them.
_LOOK = np.dtype([
    # A spatial mapping: PEs, lanes and whether PEs store each tensor (`given`; the latter `in_pe`, too); of which
    # `kinds` it is; cycles at least; loops left for PEs, per dim (`pe_room`) and per class (`loops`); PEs per class.
    ("given", np.int64, 19), ("in_pe", np.int64, 3), ("kinds", np.int64, 4), ("cycles", np.int64),
    ("pe_room", np.int64, 8), ("loops", np.int64, 4), ("pes", np.int64, 4),
    # The extents inside the PEs' loops, if they are known. Per dim, which divisor of these loops it is, the extents of
    # PEs and of the array, and loops left outside; these per class, too. Per figure, tensor and whether the global (2)
    # and the row buffer (1) store it (`kept`): what it is without refetches, and per visit of the PEs. Per tensor the
    # box that PEs or MACs take.
    ("is_known", np.int64), ("inner_at", np.int64, 8), ("e0", np.int64, 8), ("array", np.int64, 8),
    ("room", np.int64, 8), ("outside", np.int64, 4), ("once", np.int64, (FIGURES, 3, 4)),
    ("visit", np.int64, (FIGURES, 3, 4)), ("pe_box", np.int64, 3),
    # The extents inside the global buffer's loops, those of dims before the `cut` being open. Per dim, which divisor of
    # the room it is, the smallest and the largest extent; per class, loops of the global buffer (of how many `classes`
    # there are some) and outside it; where the tile is found in `Outer`. Per tensor the smallest box, its elements,
    # those of all tiles, and which sets of buffers hold one.
    ("cut", np.int64), ("at", np.int64, 8), ("extents", np.int64, 8), ("largest", np.int64, 8), ("inner", np.int64, 4),
    ("classes", np.int64), ("outer", np.int64, 4), ("place", np.int64), ("box", np.int64, 3), ("size", np.int64, 3),
    ("moved", np.int64, 3), ("can_keep", np.int64, (3, 4)),
    # What each tensor takes by itself, per tensor, way its irrelevant loops are free (2: at the global buffer, 1:
    # outside it) and `kept`: figures and cycles of its stream; rows and cycles without these, per layout; steps for
    # which a tile is in use (by `kept`).
    ("value", np.int64, (3, 4, 4, FIGURES)), ("stream", np.int64, (3, 4, 4)), ("opened", np.int64, (3, 4, 4, 2)),
    ("taken", np.int64, (3, 4, 4, 2)), ("stay", np.int64, (3, 4)),
    # The sets of tensors that both buffers may store, and of one of them and one choice of innermost loops, per tensor,
    # `kept` and how it is free.
    ("sets", np.int64, 64), ("kept", np.int64, 3), ("freed", np.int64, 3),
])  # fmt: skip


@njit
def least_tiles(costs: TileCosts, outer: Outer, goal: Goal, vectors: Ints, kinds: Ints, cycles: Ints, is_aligned: bool,
                begin: int, end: int, most: int, margin: int, number: int, found: Ints,
                least: Ints) -> tuple[int, int, Goal]:  # fmt: skip
    """All tiles of the vectors from `begin` to `end` that may cost at most a target: with `number` earlier ones how
    many there are, how many (and sets of them) were looked at, little more than `most`, and the goal, its target
    lowered to an n-th above the least bound if `margin` is n > 0 (then `found` has some that are above it, too).

    `vectors` int[n, 19]: PEs per dim, lanes per dim, whether PEs store each tensor; `kinds` int[n, 4]: of `points` and
    `arrays` of P, then of Q; `cycles` int[n] that a vector takes at least; `is_aligned`: whether some tensor has to be
    row-aligned. Modifies `found` int[m, 18], the first m tiles (vector, extents inside the PEs' loops and the global
    buffer's, bound), and `least` int[n], their least bound per vector, or `NEVER`.
    """
    looks, looked, layer = np.zeros(1, _LOOK), 0, costs.layer[0]
    for n in range(begin, end):
        least[n], x = NEVER, looks[0]
        _set_vector(x, layer, vectors[n], kinds[n], cycles[n])
        dims = 8 if x.in_pe.any() else 4  # else only I's positions tell T0
        is_left = goal.fixed + goal.cycle_weight * x.cycles <= goal.target
        while is_left:
            looked, value, first = looked + 1, NEVER, 0
            fits = _set_inner(x, costs)
            if fits and _least_inside(x, layer, goal) <= goal.target:
                number, seen, value = _look_outside(x, costs, outer, goal, is_aligned, n, number, found)
                looked += seen
            if looked > most:
                return number, looked, goal
            if not x.is_known:  # whatever T0 is
                x.is_known, is_left = 1, value <= goal.target
                continue
            least[n] = min(least[n], value)
            if margin and value <= goal.target and value + value // margin < goal.target:
                goal = Goal(goal.cycle_weight, goal.fj_weight, goal.fixed, value + value // margin)
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
        for f in range(layer.figures):
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
def _least_inside(x: Record, layer: Record, goal: Goal) -> int:
    """The objective at least, whatever the tiles in the global buffer: of one tensor at most are the irrelevant loops
    free for the PEs, for another's are relevant to it.
    """
    least, (column, _, _, _, pipeline, _) = NEVER, layer.dram
    for free in range(3):
        energy, cycles = layer.activation_fj * layer.least_rows.sum(), x.cycles
        for f in range(layer.figures):
            load = 0
            for t in range(3):
                one, visits = _NOT_OFFERED, 1 if t == free else x.outside[t]
                for kept in range(4):
                    if layer.is_offered[t, x.in_pe[t], kept]:
                        moved1 = layer.coefficients[f, t, x.in_pe[t], kept, MOVED1] * layer.needed[t]
                        one = min(one, x.once[f, t, kept] + x.visit[f, t, kept] * visits + moved1)
                load += one
            if f == ENERGY:
                energy += load
            else:
                cycles = max(cycles, _port_cycles(layer.paces[f], load, x.pes) + column + pipeline)
        if not goal.fj_weight or energy <= (goal.target - goal.fixed) // goal.fj_weight:
            least = min(least, goal.fixed + goal.cycle_weight * cycles + goal.fj_weight * energy)
    return least


@njit
def _port_cycles(pace: Ints, load: int, pes: Ints) -> int:
    """Cycles that bytes take over all ports."""
    return int(-(-load * pace[1] // (pace[0] * pace[2] * (pes.prod() if pace[3] else 1))))


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
def _look_outside(x: Record, costs: TileCosts, outer: Outer, goal: Goal, is_aligned: bool, n: int, number: int,
                  found: Ints) -> tuple[int, int, int]:  # fmt: skip
    """All extents inside the global buffer's loops: how many tiles are found by then, how many (and sets of them) were
    looked at, and the least bound of the new ones. Modifies x and found; `n`: which vector it is. If T0 is not
    known (`_set_inner`), no more than whether there are some: the bound of the first ones.
    """
    layer, looked, least, is_first, x.cut, x.at[:] = costs.layer[0], 0, NEVER, True, 8, 0
    while x.cut < 8 or is_first:
        looked, is_first, cheapest = looked + 1, False, NEVER
        _set_tile(x, layer, costs.divisors, costs.places, outer.strides)
        if goal.cycle_weight * outer.streams[0, x.place] <= goal.target:
            _weigh(x, layer, costs.boxes, _ALL_FREE)
            few = _possible_sets(x, layer, outer.streams, outer.refetch, goal, is_aligned)
            if few:
                for free in range(3):
                    _weigh(x, layer, costs.boxes, free)
                cheapest = _cheapest(x, layer, costs.boxes, outer, goal, is_aligned, few)
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


@njit
def _weigh(x: Record, layer: Record, boxes: Ints, free: int) -> None:
    """Each tensor by itself, where some of its irrelevant loops are free; with all of them (`_ALL_FREE`) each figure is
    least. Modifies x.
    """
    column, miss, ending, _, _, column_bytes = layer.dram
    for t in range(3):
        in_pe = x.in_pe[t]
        has_relevant = x.classes > (x.inner[t] > 1)
        fetches = 1 if free & 1 else x.outer[t]
        visits = (1 if free & 2 else x.inner[t]) * (1 if free & 1 and not has_relevant else x.outer[t])
        for k in range(4):
            if not x.can_keep[t, k]:
                x.value[t, free, k, ENERGY] = _NOT_OFFERED
                continue
            for f in range(layer.figures):
                passes = layer.coefficients[f, t, in_pe, k, MOVED1] * x.moved[t] * fetches
                x.value[t, free, k, f] = x.once[f, t, k] + x.visit[f, t, k] * visits + passes
            is_box, b, times = not k & 1, x.box[t], fetches
            columns = layer.least_columns[t]
            if (k == 2 and x.cut) or (not k and in_pe and not x.is_known):
                is_box, moved, times = False, x.moved[t] if k else layer.needed[t], fetches if k else visits
                scans = times if t != O else 2 * times - 1
                columns = max(columns, -(-moved * scans * layer.widths[t, 3] // column_bytes))
            elif not k:
                b, times = x.pe_box[t], visits if in_pe else x.loops[t]
            for layout in range(2):
                rows, taken = layer.least_rows[t], columns
                if is_box:
                    box = boxes[t, b, layout * LAYOUT : (layout + 1) * LAYOUT]
                    rows = max(rows, box[FIRST] + (times - 1) * (box[MORE] if k or in_pe else 0))
                    if not (k or in_pe):
                        rows = max(rows, times * box[EACH])
                    if not k and has_relevant and not x.cut:  # going over the box again opens all its rows again
                        around = boxes[t, x.box[t], layout * LAYOUT : (layout + 1) * LAYOUT]
                        rows = max(rows, around[BOXED] + (x.outer[t] - 1) * around[AGAIN])
                    taken = max(taken, (times if t != O else 2 * times - 1) * box[COLUMNS])
                x.opened[t, free, k, layout] = rows
                x.taken[t, free, k, layout] = column * taken + ending
            opened, taken_of = x.opened[t, free, k], x.taken[t, free, k]
            x.value[t, free, k, ENERGY] += layer.activation_fj * min(opened[0], opened[1])
            x.stream[t, free, k] = min(taken_of[0] + miss * opened[0], taken_of[1] + miss * opened[1])


@njit
def _possible_sets(x: Record, layer: Record, streams: Floats, refetch: Floats, goal: Goal,
                   is_aligned: bool) -> int:  # fmt: skip
    """How many sets of tensors both buffers may store at most at the target, with all loops free: the first of `sets`,
    which tell what the global buffer stores (bit t), and the row buffer (bit 3 + t). Modifies x.
    """
    column, _, _, _, pipeline, _ = layer.dram
    place, number = x.place, 0
    spare_fj = _spare_fj(x, goal)
    energy, cycles = 0, x.cycles  # wherever each tensor's figures are least
    for t in range(3):
        one = _NOT_OFFERED
        for k in range(4):
            one = min(one, x.value[t, _ALL_FREE, k, ENERGY])
        energy += one
    if energy > min(spare_fj, _NOT_OFFERED - 1) or refetch[0, place] > spare_fj - energy:
        return 0
    energy += int(refetch[0, place])
    cycles = max(cycles, int(streams[0, place]) + pipeline)
    for f in range(1, layer.figures if goal.cycle_weight else 1):
        load = 0
        for t in range(3):
            one = _NOT_OFFERED
            for k in range(4):
                if x.can_keep[t, k]:
                    one = min(one, x.value[t, _ALL_FREE, k, f])
            load += one
        cycles = max(cycles, _port_cycles(layer.paces[f], load, x.pes) + column + pipeline)
    if goal.fixed + goal.cycle_weight * cycles + goal.fj_weight * energy > goal.target:
        return 0
    for stored in range(8 if is_aligned else 0, 64 if is_aligned else 8):
        used, used_aligned, is_possible, energy, cycles = 0, 0, True, 0, x.cycles
        for t in range(3):
            k = 2 * (stored >> t & 1) + (stored >> (3 + t) & 1)
            is_possible &= x.can_keep[t, k]
            used += (k >> 1) * x.size[t] * layer.widths[t, 1]
            used_aligned += (k & 1) * x.size[t] * layer.widths[t, 2]
            energy += x.value[t, _ALL_FREE, k, ENERGY]
            cycles = max(cycles, x.stream[t, _ALL_FREE, k] + pipeline)
        if not is_possible or used > layer.capacity[1] or used_aligned > layer.capacity[2]:
            continue
        fj, busy = refetch[stored, place], streams[stored, place]
        if fj <= spare_fj - energy and goal.cycle_weight * busy <= goal.target:
            cycles = max(cycles, int(busy) + pipeline)
            if goal.fixed + goal.cycle_weight * cycles + goal.fj_weight * (energy + int(fj)) <= goal.target:
                x.sets[number] = stored
                number += 1
    return number


@njit
def _spare_fj(x: Record, goal: Goal) -> int:
    """What a tile's energy may be at most."""
    return (goal.target - goal.fixed - goal.cycle_weight * x.cycles) // goal.fj_weight if goal.fj_weight else NEVER


@njit
def _cheapest(x: Record, layer: Record, boxes: Ints, outer: Outer, goal: Goal, is_aligned: bool,
              few: int) -> int:  # fmt: skip
    """The least that all tensors take together, over the first few sets that the buffers store, and all classes that
    may be innermost at the global buffer and outside it. Modifies x.
    """
    pipeline, steps, spare_fj, cheapest = layer.dram[4], x.loops.prod(), _spare_fj(x, goal), NEVER
    kept, freed = x.kept, x.freed
    for t in range(3):
        tiles = 1
        for d in range(8):
            if CLASS_OF[d] != t:
                tiles *= layer.bounds[d] // x.extents[d]
        # With fewer fetches a tile stays longer.
        x.stay[t, 2] = 0 if x.cut else steps // (tiles * x.outer[t])
    for stored in x.sets[:few]:
        for t in range(3):
            kept[t] = 2 * (stored >> t & 1) + (stored >> (3 + t) & 1)
        for innermost in range(9):
            one, other = innermost // 3, innermost % 3
            if (x.inner[one] == 1 and one > 0) or (x.outer[other] == 1 and other > 0):
                continue  # none of its loops can be free
            energy, cycles = 0, x.cycles
            for t in range(3):
                freed[t] = 2 * (t == one) + (t == other)
                energy += x.value[t, freed[t], kept[t], ENERGY]
                cycles = max(cycles, x.stream[t, freed[t], kept[t]] + pipeline)
            most = min(goal.target, cheapest)
            if energy > spare_fj or goal.fixed + goal.cycle_weight * cycles + goal.fj_weight * energy > most:
                continue
            if goal.cycle_weight:
                cycles = max(cycles, _busy(x, layer, boxes, steps) + pipeline)
            value = goal.fixed + goal.cycle_weight * cycles + goal.fj_weight * energy
            if is_aligned and x.is_known and not x.cut and value < cheapest:
                value = _beyond(x, layer, outer, goal, stored >> 3, other, energy, cycles)
            cheapest = min(cheapest, value)
    return cheapest


@njit
def _busy(x: Record, layer: Record, boxes: Ints, steps: int) -> int:
    """Cycles of what cannot overlap (the terms of `cpsat_pim.model.latency`)."""
    column, first_load, in_pe, kept, freed = layer.dram[0], layer.dram[3], x.in_pe, x.kept, x.freed
    start, end, outputs = 0, column, x.stream[O, freed[O], kept[O]]
    for t in (I, W):
        if in_pe[t] or kept[t]:
            start = max(start, first_load)
        if (in_pe[t] or kept[t]) and not kept[t] & 1 and not (x.cut if kept[t] else not x.is_known):
            box = boxes[t, x.box[t] if kept[t] else x.pe_box[t]]
            start = max(start, min(box[END], box[LAYOUT + END]))
    fetches = 1 if freed[O] & 1 and (kept[O] or x.classes == (x.inner[O] > 1)) else x.outer[O]
    fetches *= 1 if freed[O] & 2 or kept[O] else x.inner[O]
    if fetches > 1 and not kept[O] & 1 and (kept[O] or in_pe[O]):
        end = max(end, outputs)  # partial sums come back, and the array waits for them
    busy = max(start + steps + end, start + outputs + x.stay[O, kept[O]])
    for t in (I, W):
        before = 0 if in_pe[t] or kept[t] else start
        busy = max(busy, before + x.stream[t, freed[t], kept[t]] + x.stay[t, kept[t]] + end)
    for f in range(1, layer.figures):
        load, largest = 0, 0
        for t in range(3):
            one = x.value[t, freed[t], kept[t], f]
            load, largest = load + one, max(largest, one)
        port = _port_cycles(layer.paces[f], max(load, largest * layer.paces[f, 2]), x.pes)
        busy = max(busy, start + port + column)
    return int(busy)


@njit
def _beyond(x: Record, layer: Record, outer: Outer, goal: Goal, aligned: int, other: int, energy: int,
            cycles: int) -> int:  # fmt: skip
    """The objective with what the DRAM's loops cost at least, where the innermost ones outside the global buffer are of
    the `other` class; `NEVER` if that is more than the target.
    """
    miss, pipeline, place, kept, freed, least = layer.dram[1], layer.dram[4], x.place, x.kept, x.freed, NEVER
    spare_fj = _spare_fj(x, goal)
    for case in (other, APART):
        fj, share, busy = outer.fj[case, aligned, place], 0.0, outer.cycles[case, aligned, place]
        if case == APART and kept[other] == 2:
            share = 1.0
        elif case == APART and not kept[other] and x.in_pe[other] and x.classes == (x.inner[other] > 1):
            share = min(1.0, x.visit[ENERGY, other, 0] / max(1, outer.buffered_fj[other]))  # to the PEs instead
        fj = max(fj, share * outer.again[aligned, other, place])
        for t in range(3):
            if kept[t] & 1:
                continue
            opened, taken = x.opened[t, freed[t], kept[t]], x.taken[t, freed[t], kept[t]]
            rows = max(opened[0], outer.rows[case, aligned, t, 0, place])
            rows1 = max(opened[1], outer.rows[case, aligned, t, 1, place])
            fj += layer.activation_fj * (min(rows, rows1) - min(opened[0], opened[1]))
            busy = max(busy, min(taken[0] + miss * rows, taken[1] + miss * rows1))
        if fj <= spare_fj - energy and goal.cycle_weight * busy <= goal.target:
            most = max(cycles, int(busy) + pipeline)
            least = min(least, goal.fixed + goal.cycle_weight * most + goal.fj_weight * (energy + int(fj)))
    return least
