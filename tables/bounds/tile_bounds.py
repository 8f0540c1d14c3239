"""What tiles of both on-chip levels cost at least: the bounds of `tables.bounds.tiles`, and what they are made of.

`tables.bounds.spatial` bounds a spatial mapping without any refetch. Here the tiles of both on-chip levels are given,
too, and with them how often each tensor is fetched under the best choice of innermost loops, which tensors fit the
buffers, the rows that their scans open at least, and what cannot overlap in time (the terms of
`cpsat_pim.mapper.model.latency`). Of the loops outside the global buffer only the products are looked at: over two
levels they cause no less traffic than merged into one (docs/model.md, section 8). All of it grows with the fetches of
each tensor, so that of some innermost loops fewer may be free than of all: a bound holds for each way to order and to
split the loops.
"""

from typing import NamedTuple

import numpy as np

from tables.bounds.layer import (
    BOX,
    CLASS_OF,
    COLUMNS,
    END,
    ENERGY,
    FIRST,
    INFINITE_COST,
    LAYOUT,
    MOVED1,
    REPEAT,
    RESCAN,
    RESOURCES,
    SWEPT_REPEAT,
    Record,
)
from tables.bounds.outer_loops import NONE_FREE, DramLoopBounds, Floats
from tables.jit import njit
from tables.nest import I, Ints, O, W

#: Irrelevant loops that are free at both levels.
ALL_FREE = 3
#: No figure that is to be the least is above it: that of what a tensor cannot be kept in.
_NOT_OFFERED = 2**58


class TrialObjective(NamedTuple):
    """An objective: its weights, what it is of a mapping without traffic and time, and the most that is looked for.

    With no weight on cycles these are not looked at.
    """

    cycle_weight: int
    fj_weight: int
    fixed: int
    target: int


#: What the bounds of one tile, or of all that have some of its extents, are made of. A record: to pass its many arrays
#: one by one would take several times what is done with them.
LOOK = np.dtype([
    # A spatial mapping: PEs, lanes and whether PEs store each tensor (`given`; the latter `in_pe`, too); of which
    # `kinds` it is; cycles at least; loops left for PEs, per dim (`pe_room`) and per class (`loops`); PEs per class.
    ("given", np.int64, 19), ("in_pe", np.int64, 3), ("kinds", np.int64, 4), ("cycles", np.int64),
    ("pe_room", np.int64, 8), ("loops", np.int64, 4), ("pes", np.int64, 4),
    # The extents inside the PEs' loops, if they are known. Per dim, which divisor of these loops it is, the extents of
    # PEs and of the array, and loops left outside; these per class, too. Per figure, tensor and whether the global (2)
    # and the row buffer (1) store it (`kept`): what it is without refetches, and per visit of the PEs. Per tensor the
    # box that PEs or MACs take.
    ("is_known", np.int64), ("inner_at", np.int64, 8), ("e0", np.int64, 8), ("array", np.int64, 8),
    ("room", np.int64, 8), ("outside", np.int64, 4), ("once", np.int64, (RESOURCES, 3, 4)),
    ("visit", np.int64, (RESOURCES, 3, 4)), ("pe_box", np.int64, 3),
    # The extents inside the global buffer's loops, those of dims before the `cut` being open. Per dim, which divisor of
    # the room it is, the smallest and the largest extent; per class, loops of the global buffer (of how many `classes`
    # there are some) and outside it; where the tile is found in `DramLoopBounds`. Per tensor the smallest box, its
    # elements, those of all tiles, and which sets of buffers hold one.
    ("cut", np.int64), ("at", np.int64, 8), ("extents", np.int64, 8), ("largest", np.int64, 8), ("inner", np.int64, 4),
    ("classes", np.int64), ("outer", np.int64, 4), ("place", np.int64), ("box", np.int64, 3), ("size", np.int64, 3),
    ("moved", np.int64, 3), ("can_keep", np.int64, (3, 4)),
    # What each tensor takes by itself, per tensor, way its irrelevant loops are free (2: at the global buffer, 1:
    # outside it) and `kept`: figures and cycles of its stream; rows and cycles without these, per layout; steps for
    # which a tile is in use (by `kept`).
    ("value", np.int64, (3, 4, 4, RESOURCES)), ("stream", np.int64, (3, 4, 4)), ("opened", np.int64, (3, 4, 4, 2)),
    ("taken", np.int64, (3, 4, 4, 2)), ("stay", np.int64, (3, 4)),
    # The sets of tensors that both buffers may store, and of one of them and one choice of innermost loops, per tensor,
    # `kept` and how it is free.
    ("sets", np.int64, 64), ("kept", np.int64, 3), ("freed", np.int64, 3),
])  # fmt: skip


@njit
def least_inside(x: Record, layer: Record, goal: TrialObjective) -> int:
    """The objective at least, whatever the tiles in the global buffer: of one tensor at most are the irrelevant loops
    free for the PEs, for another's are relevant to it.
    """
    least, (column, _, _, _, pipeline, _) = INFINITE_COST, layer.dram
    for free in range(3):
        energy, cycles = layer.activation_fj * layer.min_rows.sum(), x.cycles
        for f in range(layer.resources):
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
                cycles = max(cycles, _port_cycles(layer.rates[f], load, x.pes) + column + pipeline)
        if not goal.fj_weight or energy <= (goal.target - goal.fixed) // goal.fj_weight:
            least = min(least, _objective(goal, cycles, energy))
    return least


@njit
def weigh(x: Record, layer: Record, boxes: Ints, free: int) -> None:
    """Each tensor by itself, where some of its irrelevant loops are free; with all of them (`ALL_FREE`) each figure is
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
                x.value[t, free, k] = _NOT_OFFERED
                continue
            for f in range(layer.resources):
                passes = layer.coefficients[f, t, in_pe, k, MOVED1] * x.moved[t] * fetches
                x.value[t, free, k, f] = x.once[f, t, k] + x.visit[f, t, k] * visits + passes
            is_box, b, times = not k & 1, x.box[t], fetches
            columns = layer.min_columns[t]
            if (k == 2 and x.cut) or (not k and in_pe and not x.is_known):
                is_box, moved, times = False, x.moved[t] if k else layer.needed[t], fetches if k else visits
                scans = times if t != O else 2 * times - 1
                columns = max(columns, -(-moved * scans * layer.widths[t, 3] // column_bytes))
            elif not k:
                b, times = x.pe_box[t], visits if in_pe else x.loops[t]
            for layout in range(2):
                rows, taken = layer.min_rows[t], columns
                if is_box:
                    box = boxes[t, b, layout * LAYOUT : (layout + 1) * LAYOUT]
                    rows = max(rows, box[FIRST] + (times - 1) * (box[REPEAT] if k or in_pe else 0))
                    if not (k or in_pe):
                        rows = max(rows, times * box[RESCAN])
                    if not k and has_relevant and not x.cut:  # going over the box again opens all its rows again
                        around = boxes[t, x.box[t], layout * LAYOUT : (layout + 1) * LAYOUT]
                        rows = max(rows, around[BOX] + (x.outer[t] - 1) * around[SWEPT_REPEAT])
                    taken = max(taken, (times if t != O else 2 * times - 1) * box[COLUMNS])
                x.opened[t, free, k, layout] = rows
                x.taken[t, free, k, layout] = column * taken + ending
            opened, taken_of = x.opened[t, free, k], x.taken[t, free, k]
            x.value[t, free, k, ENERGY] += layer.activation_fj * min(opened[0], opened[1])
            x.stream[t, free, k] = min(taken_of[0] + miss * opened[0], taken_of[1] + miss * opened[1])


@njit
def possible_sets(x: Record, layer: Record, streams: Floats, refetch: Floats, goal: TrialObjective,
                   is_aligned: bool) -> int:  # fmt: skip
    """How many sets of tensors both buffers may store at most at the target, with all loops free: the first of `sets`,
    which tell what the global buffer stores (bit t), and the row buffer (bit 3 + t). Modifies x.
    """
    place, number, spare_fj = x.place, 0, _spare_fj(x, goal)
    if _is_hopeless(x, layer, streams[0, place], refetch[0, place], goal, spare_fj):
        return 0
    pipeline = layer.dram[4]
    for stored in range(8 if is_aligned else 0, 64 if is_aligned else 8):
        used, used_aligned, is_possible, energy, cycles = 0, 0, True, 0, x.cycles
        for t in range(3):
            k = 2 * (stored >> t & 1) + (stored >> (3 + t) & 1)
            is_possible &= x.can_keep[t, k]
            used += (k >> 1) * x.size[t] * layer.widths[t, 1]
            used_aligned += (k & 1) * x.size[t] * layer.widths[t, 2]
            energy += x.value[t, ALL_FREE, k, ENERGY]
            cycles = max(cycles, x.stream[t, ALL_FREE, k] + pipeline)
        if not is_possible or used > layer.capacity[1] or used_aligned > layer.capacity[2]:
            continue
        fj, busy = refetch[stored, place], streams[stored, place]
        if fj <= spare_fj - energy and goal.cycle_weight * busy <= goal.target:
            cycles = max(cycles, int(busy) + pipeline)
            if _objective(goal, cycles, energy + int(fj)) <= goal.target:
                x.sets[number] = stored
                number += 1
    return number


@njit
def _is_hopeless(x: Record, layer: Record, streams: float, refetch: float, goal: TrialObjective, spare_fj: int) -> bool:
    """Whether a tensor fits nowhere or all costs more than the target, wherever each of a tensor's figures is least."""
    for t in range(3):
        if not x.can_keep[t].any():
            return True
    energy = _least_figure(x, ENERGY)
    if energy > spare_fj or refetch > spare_fj - energy:
        return True
    column, _, _, _, pipeline, _ = layer.dram
    cycles = max(x.cycles, int(streams) + pipeline)
    for f in range(1, layer.resources if goal.cycle_weight else 1):
        cycles = max(cycles, _port_cycles(layer.rates[f], _least_figure(x, f), x.pes) + column + pipeline)
    return bool(_objective(goal, cycles, energy + int(refetch)) > goal.target)


@njit
def least_together(x: Record, layer: Record, boxes: Ints, outer: DramLoopBounds, goal: TrialObjective, is_aligned: bool,
              few: int) -> int:  # fmt: skip
    """The least that all tensors take together, over the first few sets that the buffers store, and all classes that
    may be innermost at the global buffer and outside it. Modifies x.
    """
    pipeline, steps, spare_fj, cheapest = layer.dram[4], x.loops.prod(), _spare_fj(x, goal), INFINITE_COST
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
            if energy > spare_fj or _objective(goal, cycles, energy) > most:
                continue
            if goal.cycle_weight:
                cycles = max(cycles, _busy(x, layer, boxes, steps) + pipeline)
            value = _objective(goal, cycles, energy)
            if is_aligned and x.is_known and not x.cut and value < cheapest:
                value = _beyond(x, layer, outer, goal, stored >> 3, other, energy, cycles)
            cheapest = min(cheapest, value)
    return cheapest


@njit
def _busy(x: Record, layer: Record, boxes: Ints, steps: int) -> int:
    """Cycles of what cannot overlap (the terms of `cpsat_pim.mapper.model.latency`)."""
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
    for f in range(1, layer.resources):
        load, largest = 0, 0
        for t in range(3):
            one = x.value[t, freed[t], kept[t], f]
            load, largest = load + one, max(largest, one)
        port = _port_cycles(layer.rates[f], max(load, largest * layer.rates[f, 2]), x.pes)
        busy = max(busy, start + port + column)
    return int(busy)


@njit
def _beyond(x: Record, layer: Record, outer: DramLoopBounds, goal: TrialObjective, aligned: int, other: int, energy: int,
            cycles: int) -> int:  # fmt: skip
    """The objective with what the DRAM's loops cost at least, where the innermost ones outside the global buffer are of
    the `other` class; `INFINITE_COST` if that is more than the target.
    """
    miss, pipeline, place, kept, freed, least = layer.dram[1], layer.dram[4], x.place, x.kept, x.freed, INFINITE_COST
    spare_fj = _spare_fj(x, goal)
    for case in (other, NONE_FREE):
        fj, share, busy = outer.fj[case, aligned, place], 0.0, outer.cycles[case, aligned, place]
        if case == NONE_FREE and kept[other] == 2:
            share = 1.0
        elif case == NONE_FREE and not kept[other] and x.in_pe[other] and x.classes == (x.inner[other] > 1):
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
            least = min(least, _objective(goal, most, energy + int(fj)))
    return least


@njit
def _objective(goal: TrialObjective, cycles: int, energy: int) -> int:
    """Of a mapping that takes so many cycles and so much energy for traffic."""
    return goal.fixed + goal.cycle_weight * cycles + goal.fj_weight * energy


@njit
def _least_figure(x: Record, f: int) -> int:
    """The sum of a figure over all tensors, with all loops free, each stored where it is least."""
    total = 0
    for t in range(3):
        one = _NOT_OFFERED
        for k in range(4):
            one = min(one, x.value[t, ALL_FREE, k, f])
        total += one
    return total


@njit
def _spare_fj(x: Record, goal: TrialObjective) -> int:
    """What a tile's energy may be at most."""
    return (
        (goal.target - goal.fixed - goal.cycle_weight * x.cycles) // goal.fj_weight if goal.fj_weight else INFINITE_COST
    )


@njit
def _port_cycles(pace: Ints, load: int, pes: Ints) -> int:
    """Cycles that bytes take over all ports."""
    return int(-(-load * pace[1] // (pace[0] * pace[2] * (pes.prod() if pace[3] else 1))))
