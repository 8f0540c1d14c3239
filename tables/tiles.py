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

from tables.jit import njit
from tables.nest import I, Ints, K, O, P, W
from tables.outer import APART, CLASS_OF, SURE, Floats, Outer, bring_down, elements_of, span_of

#: The quantities of `tables.screen.access_terms` in the order of coefficients.
QUANTITIES = ("moved2", "moved1", "moved0", "fills", "held", "uses", "macs", "holders", "sums", "one")
_MOVED2, _MOVED1, _MOVED0, _FILLS, _HELD, _USES, _MACS, _HOLDERS, _SUMS, _ONE = range(len(QUANTITIES))
#: Columns of `TileCosts.boxes`: those of the shape tables with these names.
BOX_COLUMNS = ("first", "more", "each", "columns", "end_cycles", "boxed", "again")
_FIRST, _MORE, _EACH, _COLUMNS, _END, _BOXED, _AGAIN = range(len(BOX_COLUMNS))
#: Columns from one layout to the other.
_LAYOUT = len(BOX_COLUMNS)
#: The figures of `coefficients`: energy, then ports.
_ENERGY = 0
#: Irrelevant loops that are free at both levels.
_ALL_FREE = 3
#: More than any target; and a least energy where there is none.
NEVER, _NOT_OFFERED = 2**62 + 1, 2**58


class TileCosts(NamedTuple):
    """A layer on a machine.

    `divisors` int[8, n] of each bound (1 beyond `counts` of them) and `places` int[8, bound + 1], where they stand.
    `points`, `arrays` int[2, kinds, n + 1, n + 1] per axis P and Q: positions of I along it that steps use, and that
    array tiles cover, per kind of spatial vector and T0 of the axis and its filter dim, the least in the last place.
    `coefficients` int[1 + n, 3, 2, 4,
    10]: fJ, and bytes on each of n ports, per tensor, whether PEs and (`kept`) global (2) and row buffer (1) store it,
    and quantity; `is_offered` which of these stored sets there are; `paces` int[1 + n, 4]: bytes in so many cycles, how
    many ports tensors share, whether each PE has its own. `boxes` int[3, boxes, 14]: shape tables, layout by layout,
    `strides` int[3, 8] where a box is found. `dram` cycles: of a column, of a row miss, what a stream's end adds, of a
    first scan at least, and the pipeline's latency; then bytes of a column. `capacity`: bytes of the three levels;
    `widths` int[3, 4]: bytes per element there, and at least in DRAM; `needed` elements, I's in `depth` of C, N and G;
    `least_rows` and `least_columns` of streams; `outer`: what the DRAM's loops cost where tensors are row-aligned,
    `buffered_fj` as of `Blocks`. `streams` cycles and `refetch` fJ float32[64, n]: what the streams of a tile of
    `outer`, or of a larger one, take at least together, and fetching them again, per set of tensors that the global
    buffer (bit t) and the row buffer (bit 3 + t) store; the least of all sets in the first place.
    """

    bounds: Ints
    stride: Ints
    dilation: Ints
    divisors: Ints
    counts: Ints
    places: Ints
    points: Ints
    arrays: Ints
    coefficients: Ints
    is_offered: Ints
    paces: Ints
    boxes: Ints
    strides: Ints
    dram: Ints
    least_rows: Ints
    least_columns: Ints
    activation_fj: int
    capacity: Ints
    widths: Ints
    needed: Ints
    depth: int
    outer: Outer
    buffered_fj: Ints
    streams: Floats
    refetch: Floats


class Goal(NamedTuple):
    """An objective: its weights, what it is of a mapping without traffic and time, and the most that is looked for.

    With no weight on cycles these are not looked at.
    """

    cycle_weight: int
    fj_weight: int
    fixed: int
    target: int


class _Inner(NamedTuple):
    """What the extents inside the PEs' loops decide.

    Per dim: PEs' extents, those of the array, loops left outside; per class, loops outside the PEs. Per figure, tensor
    and whether the global and the row buffer store it (`kept`): `once` what it is without refetches, `visit` per visit
    of the PEs. Per tensor the `box` that PEs or MACs take.
    """

    e0: Ints
    array: Ints
    room: Ints
    outside: Ints
    once: Ints
    visit: Ints
    box: Ints


@njit
def least_tiles(costs: TileCosts, goal: Goal, vectors: Ints, kinds: Ints, cycles: Ints, is_aligned: bool, begin: int,
                end: int, most: int, margin: int, number: int, found: Ints,
                least: Ints) -> tuple[int, int, Goal]:  # fmt: skip
    """All tiles of the vectors from `begin` to `end` that may cost at most a target: with `number` earlier ones how
    many there are, how many (and sets of them) were looked at, little more than `most`, and the goal, its target
    lowered to an n-th above the least bound if `margin` is n > 0 (then `found` has some that are above it, too).

    `vectors` int[n, 19]: PEs per dim, lanes per dim, whether PEs store each tensor; `kinds` int[n, 4]: of `points` and
    `arrays` of P, then of Q; `cycles` int[n] that a vector takes at least; `is_aligned`: whether some tensor has to be
    row-aligned. Modifies `found` int[m, 18], the first m tiles (vector, extents inside the PEs' loops and the global
    buffer's, bound), and `least` int[n], their least bound per vector, or `NEVER`.
    """
    figures = len(costs.paces)
    x = _Inner(
        np.ones(8, np.int64), np.ones(8, np.int64), np.ones(8, np.int64), np.ones(4, np.int64),
        np.zeros((figures, 3, 4), np.int64), np.zeros((figures, 3, 4), np.int64), np.zeros(3, np.int64),
    )  # fmt: skip
    room, at, loops, pes = np.ones(8, np.int64), np.zeros(8, np.int64), np.ones(4, np.int64), np.ones(4, np.int64)
    looked = 0
    for n in range(begin, end):
        least[n] = NEVER
        loops[:], pes[:], at[:] = 1, 1, 0
        for d in range(8):
            room[d] = costs.bounds[d] // (vectors[n, d] * vectors[n, 8 + d])
            loops[CLASS_OF[d]] *= room[d]
            pes[CLASS_OF[d]] *= vectors[n, d]
        dims = 8 if vectors[n, 16:].any() else 4  # else only I's positions tell T0
        is_known, is_left = False, goal.fixed + goal.cycle_weight * cycles[n] <= goal.target
        while is_left:
            looked, value, first = looked + 1, NEVER, 0
            fits = _set_inner(x, costs, vectors[n], kinds[n], room, at, is_known, loops, pes)
            if fits and _least_inside(x, costs, goal, vectors[n, 16:], pes, cycles[n]) <= goal.target:
                number, seen, value = _look_outside(
                    x, costs, goal, n, vectors[n, 16:], is_known, loops, pes, cycles[n], is_aligned, number, found
                )
                looked += seen
            if looked > most:
                return number, looked, goal
            if not is_known:  # whatever T0 is
                is_known, is_left = True, value <= goal.target
                continue
            least[n] = min(least[n], value)
            if margin and value <= goal.target and value + value // margin < goal.target:
                goal = Goal(goal.cycle_weight, goal.fj_weight, goal.fixed, value + value // margin)
            if not fits:  # nor does anything larger
                while first < dims and not at[first]:
                    first += 1
                first += 1
            is_left = _advance(at, room, costs.divisors, costs.counts, first, dims) < dims
    return number, looked, goal


def with_streams(costs: TileCosts) -> TileCosts:
    """The costs with `streams` and `refetch` that follow from the others."""
    n = costs.outer.cycles.shape[2]
    figures = np.full((2, 64, n), costs.outer.cycles.max(), np.float32)
    _count_streams(costs, *figures)
    bring_down(figures.reshape(-1, n), np.arange(8), costs.divisors, costs.counts, costs.outer.strides)
    figures[:, 0] = figures.min(axis=1)
    return costs._replace(streams=figures[0], refetch=figures[1])


@njit
def _count_streams(costs: TileCosts, streams: Floats, refetch: Floats) -> None:
    """Cycles of the longest stream, and fJ of fetching again, of each tile: the least over all loops outside. Modifies
    the last two.
    """
    beyond, column, miss, ending = costs.outer, costs.dram[0], costs.dram[1], costs.dram[2]
    e, outer, size, box = np.ones(8, np.int64), np.ones(4, np.int64), np.ones(3, np.int64), np.zeros(3, np.int64)
    for i in range(streams.shape[1]):
        outer[:], box[:] = 1, 0
        for d in range(8):
            at = i // beyond.strides[d] % costs.counts[d]
            e[d] = costs.divisors[d, at]
            outer[CLASS_OF[d]] *= costs.bounds[d] // e[d]
            for t in range(3):
                box[t] += at * costs.strides[t, d]
        for t in range(3):
            size[t] = elements_of(t, e, costs.stride, costs.dilation)
        for stored in range(8, 64):
            aligned, used1, used2 = stored >> 3, 0, 0
            for t in range(3):
                used1 += (stored >> t & 1) * size[t] * costs.widths[t, 1]
                used2 += (aligned >> t & 1) * size[t] * costs.widths[t, 2]
            if used1 > costs.capacity[1] or used2 > costs.capacity[2]:
                continue
            for other in range(3):
                for case in (other, APART):
                    busy, fj = beyond.cycles[case, aligned, i], beyond.fj[case, aligned, i]
                    if case == APART and (stored >> other & 1) and not (aligned >> other & 1):
                        fj = beyond.again[aligned, other, i]
                    for t in range(3):
                        if aligned >> t & 1:
                            continue
                        times = 1 if t == other else outer[t]
                        scans, stream = times if t != O else 2 * times - 1, np.inf
                        for layout in range(2):
                            columns, rows = scans * costs.least_columns[t], beyond.rows[case, aligned, t, layout, i]
                            if stored >> t & 1:
                                of = costs.boxes[t, box[t], layout * _LAYOUT : (layout + 1) * _LAYOUT]
                                rows = max(rows, of[_FIRST] + (times - 1) * of[_MORE])
                                columns = max(columns, scans * of[_COLUMNS])
                            stream = min(stream, column * columns + miss * rows + ending)
                        busy = max(busy, stream)
                        fj += (stored >> t & 1) * costs.buffered_fj[t] * float(costs.needed[t] * (times - 1))
                    streams[stored, i] = min(streams[stored, i], busy * SURE)
                    refetch[stored, i] = min(refetch[stored, i], fj * SURE)


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
def _set_inner(x: _Inner, costs: TileCosts, vector: Ints, kinds: Ints, room: Ints, at: Ints, is_known: bool,
               loops: Ints, pes: Ints) -> bool:  # fmt: skip
    """Take the divisors `at` of `room` for T0; whether that fits the PEs. Modifies x.

    If not `is_known`, `at` is the first of each, and what is set are the extents without T0, and the least that there
    is of each figure whatever T0 is.
    """
    x.outside[:] = 1
    for d in range(8):
        inner = costs.divisors[d, at[d]]
        x.e0[d] = vector[8 + d] * inner
        x.array[d] = x.e0[d] * vector[d]
        x.room[d] = room[d] // inner
        if is_known:
            x.outside[CLASS_OF[d]] *= x.room[d]
    used = 0
    for t in range(3):
        in_pe = vector[16 + t]
        used += in_pe * costs.widths[t, 0] * elements_of(t, x.e0, costs.stride, costs.dilation)
        quantities, x.box[t] = _quantities(x, costs, t, vector, kinds, at, is_known, loops, pes), 0
        for d in range(8):
            x.box[t] += costs.places[d, x.array[d] if in_pe else vector[d] * vector[8 + d]] * costs.strides[t, d]
        for f in range(len(costs.paces)):
            for kept in range(4):
                x.visit[f, t, kept], x.once[f, t, kept] = 0, 0
                for q in range(len(QUANTITIES)):
                    term = costs.coefficients[f, t, in_pe, kept, q] * quantities[q]
                    if _MOVED0 <= q < _USES:
                        x.visit[f, t, kept] += term
                    elif q != _MOVED1:
                        x.once[f, t, kept] += term
    return bool(used <= costs.capacity[0])


@njit
def _least_inside(x: _Inner, costs: TileCosts, goal: Goal, in_pe: Ints, pes: Ints, least_cycles: int) -> int:
    """The objective at least, whatever the tiles in the global buffer: of one tensor at most are the irrelevant loops
    free for the PEs, for another's are relevant to it.
    """
    least, (column, _, _, _, pipeline, _) = NEVER, costs.dram
    for free in range(3):
        energy, cycles = costs.activation_fj * costs.least_rows.sum(), least_cycles
        for f in range(len(costs.paces)):
            load = 0
            for t in range(3):
                one, visits = _NOT_OFFERED, 1 if t == free else x.outside[t]
                for kept in range(4):
                    if costs.is_offered[t, in_pe[t], kept]:
                        moved1 = costs.coefficients[f, t, in_pe[t], kept, _MOVED1] * costs.needed[t]
                        one = min(one, x.once[f, t, kept] + x.visit[f, t, kept] * visits + moved1)
                load += one
            if f == _ENERGY:
                energy += load
            else:
                cycles = max(cycles, _port_cycles(costs.paces[f], load, pes) + column + pipeline)
        if not goal.fj_weight or energy <= (goal.target - goal.fixed) // goal.fj_weight:
            least = min(least, goal.fixed + goal.cycle_weight * cycles + goal.fj_weight * energy)
    return least


@njit
def _port_cycles(pace: Ints, load: int, pes: Ints) -> int:
    """Cycles that bytes take over all ports."""
    return int(-(-load * pace[1] // (pace[0] * pace[2] * (pes.prod() if pace[3] else 1))))


@njit
def _quantities(x: _Inner, costs: TileCosts, t: int, vector: Ints, kinds: Ints, at: Ints, is_known: bool,
                loops: Ints, pes: Ints) -> Ints:  # fmt: skip
    """The quantities of a tensor, those of visits to the PEs of a single one; without `moved1`."""
    found = np.zeros(len(QUANTITIES), np.int64)
    found[_MOVED2], found[_MACS] = costs.needed[t], costs.bounds.prod()
    if t == I:
        found[_USES], found[_MOVED0], found[_FILLS] = costs.depth * loops[I], costs.depth, costs.depth * vector[K]
        for side in range(2):
            p, r = P + side, side
            i, j = (at[p], at[r]) if is_known else (-1, -1)
            found[_USES] *= costs.points[side, kinds[2 * side], i, j]
            found[_MOVED0] *= costs.arrays[side, kinds[2 * side + 1], i, j]
            most_p = x.e0[p] if is_known else costs.bounds[p] // vector[p]
            most_r = x.e0[r] if is_known else costs.bounds[r] // vector[r]
            found[_FILLS] *= _tiled(side, x.e0[p], most_p, x.e0[r], most_r, costs.bounds, costs.stride, costs.dilation)
        return found
    found[_ONE] = found[_MOVED0] = costs.needed[t]
    found[_FILLS] = found[_HELD] = found[_HOLDERS] = costs.needed[t] * pes[t]
    found[_USES], found[_SUMS] = costs.needed[t] * loops[t], costs.needed[t] * loops[t] * pes[t]
    return found


@njit
def _look_outside(x: _Inner, costs: TileCosts, goal: Goal, vector: int, in_pe: Ints, is_known: bool, loops: Ints,
                  pes: Ints, least_cycles: int, is_aligned: bool, number: int,
                  found: Ints) -> tuple[int, int, int]:  # fmt: skip
    """All extents inside the global buffer's loops: how many tiles are found by then, how many (and sets of them) were
    looked at, and the least bound of the new ones. Modifies found. If not `is_known` (`_set_inner`), no more than
    whether there are some: the bound of the first ones.

    Per tensor, way its irrelevant loops are free (2: at the global buffer, 1: outside it) and `kept`: figures, and
    cycles of its stream. Calls within this loop would take several times what they do.
    """
    (bounds, stride, dilation, divisors, counts, places, _, _, coefficients, is_offered, paces, boxes, strides, dram,
     least_rows, least_columns, activation_fj, capacity, widths, needed, depth, beyond, _, streams,
     refetch) = costs  # fmt: skip
    column, miss, ending, first_load, pipeline, column_bytes = dram
    once, visit, room, array, box0 = x.once, x.visit, x.room, x.array, x.box
    cycle_weight, fj_weight, fixed, target = goal
    figures = len(paces)
    value = np.zeros((3, 4, 4, figures), np.int64)
    stream, stay = np.zeros((3, 4, 4), np.int64), np.zeros((3, 4), np.int64)
    taken, opened = np.zeros((3, 4, 4, 2), np.int64), np.zeros((3, 4, 4, 2), np.int64)
    at, e1 = np.zeros(8, np.int64), np.ones(8, np.int64)
    inner, outer = np.ones(4, np.int64), np.ones(4, np.int64)
    box, moved1, size = np.zeros(3, np.int64), np.zeros(3, np.int64), np.zeros(3, np.int64)
    kept, freed, can_keep = np.zeros(3, np.int64), np.zeros(3, np.int64), np.zeros((3, 4), np.bool_)
    sets, number_of_sets = np.zeros(64, np.int64), 0
    largest_e1 = np.ones(8, np.int64)
    steps = loops.prod()
    base = fixed + cycle_weight * least_cycles
    spare_fj = (target - base) // fj_weight if fj_weight else NEVER
    looked, least, cut, is_first = 0, NEVER, 8, True
    while cut < 8 or is_first:
        looked, is_first, is_tile = looked + 1, False, is_known and not cut
        # The extents; those of dims before the cut are open.
        inner[:], outer[:], box[:], has_loops, place = 1, 1, 0, 0, 0
        for d in range(8):
            n = divisors[d, at[d]]
            e1[d] = largest_e1[d] = array[d] * n
            if is_known:
                inner[CLASS_OF[d]] *= n
            if d < cut:
                largest_e1[d] = bounds[d]
            else:
                outer[CLASS_OF[d]] *= room[d] // n
            place += places[d, e1[d]] * beyond.strides[d]
            for t in range(3):
                box[t] += places[d, e1[d]] * strides[t, d]
        for c in range(4):
            has_loops += inner[c] > 1
        moved1[I], moved1[W], moved1[O] = depth, needed[W], needed[O]
        for side in range(2):
            p, r = P + side, side
            moved1[I] *= _tiled(side, e1[p], largest_e1[p], e1[r], largest_e1[r], bounds, stride, dilation)
        for t in range(3):
            size[t] = elements_of(t, e1, stride, dilation)
            for k in range(4):
                fits = not k & 2 or size[t] * widths[t, 1] <= capacity[1]
                fits &= not k & 1 or size[t] * widths[t, 2] <= capacity[2]
                can_keep[t, k] = fits and is_offered[t, in_pe[t], k]
        # Each tensor by itself; first with all loops free and wherever each of its figures is least.
        is_dear = cycle_weight * streams[0, place] > target
        for free in (_ALL_FREE, 0, 1, 2):
            if is_dear:
                break
            for t in range(3):
                has_relevant = has_loops > (inner[t] > 1)
                fetches = 1 if free & 1 else outer[t]
                visits = (1 if free & 2 else inner[t]) * (1 if free & 1 and not has_relevant else outer[t])
                for k in range(4):
                    if not can_keep[t, k]:
                        value[t, free, k, _ENERGY] = _NOT_OFFERED
                        continue
                    for f in range(figures):
                        passes = coefficients[f, t, in_pe[t], k, _MOVED1] * moved1[t] * fetches
                        value[t, free, k, f] = once[f, t, k] + visit[f, t, k] * visits + passes
                    is_box, b, times = not k & 1, box[t], fetches
                    columns, rows = least_columns[t], least_rows[t]
                    if (k == 2 and cut) or (not k and in_pe[t] and not is_known):
                        is_box, moved, times = False, moved1[t] if k else needed[t], fetches if k else visits
                        scans = times if t != O else 2 * times - 1
                        columns = max(columns, -(-moved * scans * widths[t, 3] // column_bytes))
                    elif not k:
                        b, times = box0[t], visits if in_pe[t] else loops[t]
                    for layout in range(2):
                        one_columns, one_rows = columns, rows
                        if is_box:
                            figures_of = boxes[t, b, layout * _LAYOUT : (layout + 1) * _LAYOUT]
                            more = figures_of[_MORE] if k or in_pe[t] else 0
                            one_rows = max(one_rows, figures_of[_FIRST] + (times - 1) * more)
                            if not (k or in_pe[t]):
                                one_rows = max(one_rows, times * figures_of[_EACH])
                            if not k and has_relevant and not cut:  # going over the box again opens all its rows again
                                around = boxes[t, box[t], layout * _LAYOUT : (layout + 1) * _LAYOUT]
                                one_rows = max(one_rows, around[_BOXED] + (outer[t] - 1) * around[_AGAIN])
                            scans = times if t != O else 2 * times - 1
                            one_columns = max(one_columns, scans * figures_of[_COLUMNS])
                        opened[t, free, k, layout] = one_rows
                        taken[t, free, k, layout] = column * one_columns + ending
                    least_opened = min(opened[t, free, k, 0], opened[t, free, k, 1])
                    value[t, free, k, _ENERGY] += activation_fj * least_opened
                    stream[t, free, k] = min(taken[t, free, k, 0] + miss * opened[t, free, k, 0],
                                             taken[t, free, k, 1] + miss * opened[t, free, k, 1])  # fmt: skip
            if free == _ALL_FREE:
                energy, cycles = 0, least_cycles
                for t in range(3):
                    one = _NOT_OFFERED
                    for k in range(4):
                        one = min(one, value[t, free, k, _ENERGY])
                    energy += one
                is_dear = energy > min(spare_fj, _NOT_OFFERED - 1)
                is_dear |= refetch[0, place] > spare_fj - energy
                if is_dear:
                    break
                energy += int(refetch[0, place])
                cycles = max(cycles, int(streams[0, place]) + pipeline)
                is_dear = fixed + cycle_weight * cycles + fj_weight * energy > target
                if is_dear:
                    break
                if cycle_weight:
                    for f in range(1, figures):
                        load = 0
                        for t in range(3):
                            one = _NOT_OFFERED
                            for k in range(4):
                                if can_keep[t, k]:
                                    one = min(one, value[t, free, k, f])
                            load += one
                        cycles = max(cycles, _port_cycles(paces[f], load, pes) + column + pipeline)
                    is_dear = fixed + cycle_weight * cycles + fj_weight * energy > target
                    if is_dear:
                        break
                number_of_sets = 0
                for stored in range(8 if is_aligned else 0, 64 if is_aligned else 8):
                    used1, used2, is_possible, energy, cycles = 0, 0, True, 0, least_cycles
                    for t in range(3):
                        k = 2 * (stored >> t & 1) + (stored >> (3 + t) & 1)
                        is_possible &= can_keep[t, k]
                        used1 += (k >> 1) * size[t] * widths[t, 1]
                        used2 += (k & 1) * size[t] * widths[t, 2]
                        energy += value[t, free, k, _ENERGY]
                        cycles = max(cycles, stream[t, free, k] + pipeline)
                    if not is_possible or used1 > capacity[1] or used2 > capacity[2]:
                        continue
                    if refetch[stored, place] <= spare_fj - energy and cycle_weight * streams[stored, place] <= target:
                        energy += int(refetch[stored, place])
                        cycles = max(cycles, int(streams[stored, place]) + pipeline)
                        if fixed + cycle_weight * cycles + fj_weight * energy <= target:
                            sets[number_of_sets] = stored
                            number_of_sets += 1
                is_dear = number_of_sets == 0
        # All together.
        cheapest = NEVER
        if not is_dear:
            for t in range(3):
                n = 1
                for d in range(8):
                    if CLASS_OF[d] != t:
                        n *= bounds[d] // e1[d]
                # With fewer fetches a tile stays longer.
                stay[t, 2] = 0 if cut else steps // (n * outer[t])
            for stored in sets[:number_of_sets]:
                aligned = stored >> 3
                for t in range(3):
                    kept[t] = 2 * (stored >> t & 1) + (aligned >> t & 1)
                for innermost in range(9):
                    one, other = innermost // 3, innermost % 3
                    if (inner[one] == 1 and one > 0) or (outer[other] == 1 and other > 0):
                        continue  # none of its loops can be free
                    energy, cycles = 0, least_cycles
                    for t in range(3):
                        freed[t] = 2 * (t == one) + (t == other)
                        energy += value[t, freed[t], kept[t], _ENERGY]
                        cycles = max(cycles, stream[t, freed[t], kept[t]] + pipeline)
                    if energy > spare_fj or fixed + cycle_weight * cycles + fj_weight * energy > min(target, cheapest):
                        continue
                    if cycle_weight:
                        start, end = 0, column
                        for t in (I, W):
                            if in_pe[t] or kept[t]:
                                start = max(start, first_load)
                            if (in_pe[t] or kept[t]) and not kept[t] & 1 and not (cut if kept[t] else not is_known):
                                b = box[t] if kept[t] else box0[t]
                                start = max(start, min(boxes[t, b, _END], boxes[t, b, _LAYOUT + _END]))
                        of_outputs = stream[O, freed[O], kept[O]]
                        fetches = 1 if freed[O] & 1 and (kept[O] or has_loops == (inner[O] > 1)) else outer[O]
                        fetches *= 1 if freed[O] & 2 or kept[O] else inner[O]
                        if fetches > 1 and not kept[O] & 1 and (kept[O] or in_pe[O]):
                            end = max(end, of_outputs)  # partial sums come back, and the array waits for them
                        busy = max(start + steps + end, start + of_outputs + stay[O, kept[O]])
                        for t in (I, W):
                            before = 0 if in_pe[t] or kept[t] else start
                            busy = max(busy, before + stream[t, freed[t], kept[t]] + stay[t, kept[t]] + end)
                        for f in range(1, figures):
                            load, largest = 0, 0
                            for t in range(3):
                                load += value[t, freed[t], kept[t], f]
                                largest = max(largest, value[t, freed[t], kept[t], f])
                            port = _port_cycles(paces[f], max(load, largest * paces[f, 2]), pes)
                            busy = max(busy, start + port + column)
                        cycles = max(cycles, busy + pipeline)
                    one_value = fixed + cycle_weight * cycles + fj_weight * energy
                    if is_aligned and is_tile and one_value < cheapest:
                        one_value = NEVER
                        for case in (other, APART):
                            fj, share = beyond.fj[case, aligned, place], 0.0
                            if case == APART and kept[other] == 2:
                                share = 1.0
                            elif case == APART and not kept[other] and in_pe[other] and has_loops == (inner[other] > 1):
                                again = max(1, costs.buffered_fj[other] * needed[other])  # to the PEs instead
                                share = min(1.0, visit[_ENERGY, other, 0] / again)
                            fj = max(fj, share * beyond.again[aligned, other, place])
                            busy = beyond.cycles[case, aligned, place]
                            for t in range(3):
                                if kept[t] & 1:
                                    continue
                                own, more = opened[t, freed[t], kept[t]], beyond.rows[case, aligned, t]
                                rows, rows1 = max(own[0], more[0, place]), max(own[1], more[1, place])
                                fj += activation_fj * (min(rows, rows1) - min(own[0], own[1]))
                                own = taken[t, freed[t], kept[t]]
                                busy = max(busy, min(own[0] + miss * rows, own[1] + miss * rows1))
                            if fj <= spare_fj - energy and cycle_weight * busy <= target:
                                most = max(cycles, int(busy) + pipeline)
                                one_value = min(one_value, fixed + cycle_weight * most + fj_weight * (energy + int(fj)))
                    cheapest = min(cheapest, one_value)
        if not (is_known or cut or cheapest > target):
            return number, looked, cheapest
        if not cut:
            least = min(least, cheapest)
            if cheapest <= target:
                if number < len(found):
                    found[number, 0], found[number, 17] = vector, cheapest
                    found[number, 1:9], found[number, 9:17] = x.e0, e1
                number += 1
        elif cheapest <= target:
            cut -= 1
            while cut and room[cut] == 1:
                cut -= 1
            continue
        cut = _advance(at, room, divisors, counts, cut, 8)
    return number, looked, least


@njit
def _tiled(side: int, p: int, most_p: int, r: int, most_r: int, bounds: Ints, stride: Ints, dilation: Ints) -> int:
    """Positions of I along an axis in all its tiles, at least, for extents of so many outputs and filters up to so many
    more: in the inverse of both it is linear.
    """
    least = NEVER
    for outputs in (p, most_p):
        for filters in (r, most_r):
            tiles = (bounds[P + side] // outputs) * (bounds[side] // filters)
            least = min(least, tiles * span_of(outputs, filters, stride[side], dilation[side]))
    return least
