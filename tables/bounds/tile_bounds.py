"""Lower bounds on the objective of all mappings with given tiles at both on-chip levels.

`tables.bounds.spatial` bounds a spatial mapping without any refetch. Here the tiles in the PEs and in the global buffer
are given as well. They determine, for each choice of stored sets and of the innermost loop classes, how often each
tensor is fetched at least, which tensors fit the buffers, which rows their scans open at least, and which times cannot
overlap (the terms of `cpsat_pim.mapper.model.latency`). The bound is the minimum over these choices.

Why it is valid for every order and every split of the loops: of the loops outside the global buffer only the product
per class is used. Split over two levels they cause no fewer fetches than merged into one (docs/model.md, section 8).
All terms grow with the fetches of each tensor, and the bound takes all loops of the innermost class as free, which
gives the fewest fetches.
"""

from typing import NamedTuple

from tables.bounds.array_work import min_visits, min_work, port_cycles
from tables.bounds.busy import is_exposed, min_busy_cycles
from tables.bounds.layer import (
    ENERGY,
    INFINITE_COST,
    MOVED1,
    TOGETHER,
    Record,
)
from tables.bounds.outer_state import NONE_FREE, NONE_LEFT_OUT, DramLoopBounds, Floats
from tables.bounds.sweeps import SWEPT, choose_parts, choose_swept, closest_class
from tables.bounds.tile_passes import residence
from tables.bounds.tile_streams import ALL_FREE, NOT_STORABLE, bound_tensor, link_share, take_streams
from tables.jit import borrowing_njit
from tables.nest import I, Ints, O, W


class TrialObjective(NamedTuple):
    """A weighted sum of cycles and energy with a trial bound: tiles whose bound exceeds it are pruned.

    `fixed`: the part of the objective that all mappings share. If the weight of cycles is 0, cycles are not bounded.
    """

    cycle_weight: int
    fj_weight: int
    fixed: int
    trial_bound: int


@borrowing_njit
def bound_array_tile(x: Record, layer: Record, objective: TrialObjective) -> int:
    """Return a lower bound on the objective for the PEs' tile, whatever the global buffer's tile.

    The loops just outside the PEs' tile are irrelevant to one tensor at most. So the irrelevant loops of at most one
    tensor are free for the PEs, and the bound is the minimum over that tensor.
    """
    bound, (column, _, _, first_load, pipeline, _) = INFINITE_COST, layer.dram
    start, left = first_load if x.in_pe[I] or x.in_pe[W] else 0, x.class_loops_left
    steps = left[0] * left[1] * left[2] * left[3]
    for free in range(3):
        work = min_work(x, layer, steps, 1 if free == O else x.class_outer_loops[O])
        energy, cycles = layer.activation_fj * (layer.min_rows[I] + layer.min_rows[W] + layer.min_rows[O]), x.min_cycles
        cycles = max(cycles, start + work + column + pipeline)
        for f in range(layer.resources):
            load = 0
            for t in range(3):
                one, visits = NOT_STORABLE, 1 if t == free else x.class_outer_loops[t]
                for buffers in range(4):
                    if layer.is_offered[t, x.in_pe[t], buffers]:
                        moved1 = layer.coefficients[f, t, x.in_pe[t], buffers, MOVED1] * layer.needed[t]
                        one = min(one, x.without_visits[f, t, buffers] + x.per_visit[f, t, buffers] * visits + moved1)
                load += one
            if f == ENERGY:
                energy += load
            else:
                cycles = max(cycles, port_cycles(layer.rates[f], load, x.class_pes) + column + pipeline)
        if not objective.fj_weight or energy <= (objective.trial_bound - objective.fixed) // objective.fj_weight:
            bound = min(bound, _value(objective, cycles, energy))
    return bound


@borrowing_njit
def find_stored_sets(x: Record, layer: Record, streams: Floats, refetch: Floats, objective: TrialObjective,
                     is_aligned: bool) -> int:  # fmt: skip
    """Find the sets of tensors that fit both buffers and whose bound, with all loops free, meets the trial bound.

    `streams`, `refetch`: as `DramLoopBounds.stored_cycles` and `stored_fj`. `is_aligned`: at least one tensor is
    row-aligned, else none. Modifies x: the first entries of stored_sets.

    Returns the number of sets.
    """
    place, number, spare_fj = x.place, 0, _energy_left(x, objective)
    if _exceeds_trial_bound(x, layer, streams[0, place], refetch[0, place], objective, spare_fj):
        return 0
    pipeline = layer.dram[4]
    for stored in range(8 if is_aligned else 0, 64 if is_aligned else 8):
        used, used_aligned, is_possible, energy, cycles = 0, 0, True, 0, x.min_cycles
        streams_of_link = 0
        for t in range(3):
            k = 2 * (stored >> t & 1) + (stored >> (3 + t) & 1)
            if not x.can_store[t, k]:
                is_possible = False
                break
            used += (k >> 1) * x.size[t] * layer.widths[t, 1]
            used_aligned += (k & 1) * x.size[t] * layer.widths[t, 2]
            energy += x.usage[t, ALL_FREE, k, ENERGY]
            cycles = max(cycles, x.stream_cycles[t, ALL_FREE, k] + pipeline)
            streams_of_link += link_share(layer, t, x.stream_cycles[t, ALL_FREE, k])
        cycles = max(cycles, streams_of_link + pipeline)
        if not is_possible or used > layer.capacity[1, TOGETHER] or used_aligned > layer.capacity[2, TOGETHER]:
            continue
        fj, busy = refetch[stored, place], streams[stored, place]
        if fj <= spare_fj - energy and objective.cycle_weight * busy <= objective.trial_bound:
            cycles = max(cycles, int(busy) + pipeline)
            if _value(objective, cycles, energy + int(fj)) <= objective.trial_bound:
                x.stored_sets[number] = stored
                number += 1
    return number


@borrowing_njit
def _exceeds_trial_bound(
    x: Record, layer: Record, streams: float, refetch: float, objective: TrialObjective, spare_fj: int
) -> bool:
    """Return whether a tensor fits no level, or the bound with the minimum of each usage exceeds the trial bound."""
    for t in range(3):
        if not (x.can_store[t, 0] or x.can_store[t, 1] or x.can_store[t, 2] or x.can_store[t, 3]):
            return True
    energy = _min_usage(x, ENERGY)
    if energy > spare_fj or refetch > spare_fj - energy:
        return True
    column, _, _, _, pipeline, _ = layer.dram
    cycles = max(x.min_cycles, int(streams) + pipeline)
    for f in range(1, layer.resources if objective.cycle_weight else 1):
        cycles = max(cycles, port_cycles(layer.rates[f], _min_usage(x, f), x.class_pes) + column + pipeline)
    return bool(_value(objective, cycles, energy + int(refetch)) > objective.trial_bound)


@borrowing_njit
def bound_tile(x: Record, layer: Record, boxes: Ints, dram_bounds: DramLoopBounds, objective: TrialObjective,
               few: int) -> int:  # fmt: skip
    """Return a lower bound on the objective for the tile at hand.

    It is the minimum over the first `few` stored sets, and over the classes that can be innermost at the global buffer
    and outside it. Modifies x: residence, buffers, free, streams.
    """
    left = x.class_loops_left
    steps = left[0] * left[1] * left[2] * left[3]
    buffers, free, bound = x.buffers, x.free, INFINITE_COST
    for t in range(3):
        for f in range(4):
            _set_residence(x, layer, t, f, steps)
    for stored in x.stored_sets[:few]:
        x.aligned = stored >> 3
        for t in range(3):
            buffers[t] = 2 * (stored >> t & 1) + (x.aligned >> t & 1)
        for innermost in range(9):
            one, x.outside = innermost // 3, innermost % 3
            if not (_is_innermost(x, x.class_buffer_loops, one) and _is_innermost(x, x.class_loops_outside, x.outside)):
                continue
            for t in range(3):
                free[t] = 2 * (t == one) + (t == x.outside)
            value = _bound_case(x, layer, boxes, dram_bounds, objective, bound)
            if value < bound:
                value = _bound_swept(x, layer, boxes, dram_bounds, objective, closest_class(x, one), value)
            bound = min(bound, value)
    return bound


@borrowing_njit
def _bound_swept(x: Record, layer: Record, boxes: Ints, dram_bounds: DramLoopBounds, objective: TrialObjective,
                 closest: int, value: int) -> int:  # fmt: skip
    """Return the bound `value` raised by what loops of the class `closest` sweep (B24). Modifies x."""
    visits = min_visits(x, closest, x.free[closest]) if closest >= 0 else 0
    if closest < 0 or not choose_swept(x, layer, boxes, closest, visits):
        return value
    free, least, fewest, steps = x.free, INFINITE_COST, 1, x.class_loops_left[0]
    for c in range(1, 4):
        steps *= x.class_loops_left[c]
    while fewest <= x.loops_swept and least > value:
        if choose_parts(x, layer, fewest):
            for t in (x.swept, closest):
                free[t] += SWEPT
                bound_tensor(x, layer, boxes, t, free[t])
                _set_residence(x, layer, t, free[t], steps)
            least = min(least, _bound_case(x, layer, boxes, dram_bounds, objective, least))
            for t in (x.swept, closest):
                free[t] -= SWEPT
        fewest *= 2
    return int(max(value, least))


@borrowing_njit
def _is_innermost(x: Record, loops: Ints, of: int) -> bool:
    """Return whether a class may be innermost, or stand for one that frees nothing: groups, loops that are open, none.

    `loops` int[4]: iterations per class.
    """
    is_known = not x.inner_open and not x.open_dims and loops[3] == 1
    return bool(loops[of] > 1 or (of == 0 and not (is_known and loops[1] * loops[2] > 1)))


@borrowing_njit
def _set_residence(x: Record, layer: Record, t: int, free: int, steps: int) -> None:
    for k in (0, 2):
        x.residence[t, free, k] = residence(x, layer, t, k, free, steps)


@borrowing_njit
def _bound_case(x: Record, layer: Record, boxes: Ints, dram_bounds: DramLoopBounds, objective: TrialObjective,
                bound: int) -> int:  # fmt: skip
    """Return a lower bound with the tensors stored and free as in `x.buffers` and `x.free`; `INFINITE_COST` if it
    exceeds the trial bound or the least bound so far. Modifies x: streams.
    """
    left, pipeline, spare_fj = x.class_loops_left, layer.dram[4], _energy_left(x, objective)
    buffers, free, most = x.buffers, x.free, min(objective.trial_bound, bound)
    energy, cycles = take_streams(x, layer), x.min_cycles
    for t in range(3):
        energy += x.usage[t, free[t], buffers[t], ENERGY]
        cycles = max(cycles, x.streams[t] + pipeline)
    if energy > spare_fj or _value(objective, cycles, energy) > most:
        return INFINITE_COST
    if objective.cycle_weight:
        steps = left[0] * left[1] * left[2] * left[3]
        cycles = max(cycles, min_busy_cycles(x, layer, boxes, steps) + pipeline)
    value = _value(objective, cycles, energy)
    if x.aligned and not x.inner_open and not x.open_dims and value < bound:
        value = _bound_with_dram_loops(x, layer, dram_bounds, objective, energy, cycles)
    return int(value)


@borrowing_njit
def _bound_with_dram_loops(x: Record, layer: Record, dram_bounds: DramLoopBounds, objective: TrialObjective,
                           energy: int, cycles: int) -> int:  # fmt: skip
    """Return the bound with what the DRAM's loops add to it; `INFINITE_COST` if that exceeds the trial bound.

    `energy`, `cycles`: the bound without the DRAM's loops.
    """
    aligned, other = x.aligned, x.outside
    miss, pipeline, place = layer.dram[1], layer.dram[4], x.place
    buffers, free, bound = x.buffers, x.free, INFINITE_COST
    spare_fj, (left_out, together) = _energy_left(x, objective), _left_out(x, layer)
    for case in (other, NONE_FREE):
        fj, share, busy = dram_bounds.fj[case, aligned, place], 0.0, dram_bounds.cycles[case, aligned, place]
        if dram_bounds.linked.shape[2]:
            busy = max(busy, together + dram_bounds.linked[case, aligned, left_out, place])
        if case == NONE_FREE and buffers[other] == 2:
            share = 1.0
        no_others = x.looped_classes == (x.class_buffer_loops[other] > 1)
        if case == NONE_FREE and not buffers[other] and x.in_pe[other] and no_others:
            # The PEs are refilled, not the global buffer.
            share = min(1.0, x.per_visit[ENERGY, other, 0] / max(1, dram_bounds.fill_fj[other]))
        fj = max(fj, share * dram_bounds.refill_fj[aligned, other, place])
        for t in range(3):
            if buffers[t] & 1:
                continue
            opened, taken = x.rows[t, free[t], buffers[t]], x.column_cycles[t, free[t], buffers[t]]
            rows = max(opened[0], dram_bounds.rows[case, aligned, t, 0, place])
            rows1 = max(opened[1], dram_bounds.rows[case, aligned, t, 1, place])
            fj += layer.activation_fj * (min(rows, rows1) - min(opened[0], opened[1]))
            busy = max(busy, min(taken[0] + miss * rows, taken[1] + miss * rows1))
        if fj <= spare_fj - energy and objective.cycle_weight * busy <= objective.trial_bound:
            most = max(cycles, int(busy) + pipeline)
            bound = min(bound, _value(objective, most, energy + int(fj)))
    return bound


@borrowing_njit
def _left_out(x: Record, layer: Record) -> tuple[int, int]:
    """Return a tensor, or none, and cycles that follow those of the link's other tensors: of its stream if the MACs
    draw it, or the steps if they wait for the loads of all others.
    """
    hidden, left_out = 0, NONE_LEFT_OUT
    for t in range(3):
        if layer.is_linked[t] and not x.in_pe[t] and not x.buffers[t]:
            return t, link_share(layer, t, x.streams[t])
        if layer.is_linked[t] and not is_exposed(x, layer, t):
            hidden, left_out = hidden + 1, t
    left = x.class_loops_left
    return left_out, left[0] * left[1] * left[2] * left[3] if hidden <= 1 else 0


@borrowing_njit
def _value(objective: TrialObjective, cycles: int, energy: int) -> int:
    """Return the objective of a mapping with these cycles and this energy of its traffic."""
    return objective.fixed + objective.cycle_weight * cycles + objective.fj_weight * energy


@borrowing_njit
def _min_usage(x: Record, f: int) -> int:
    """Return the usage of a resource, summed over tensors, each stored where it is smallest, with all loops free."""
    total = 0
    for t in range(3):
        one = NOT_STORABLE
        for k in range(4):
            one = min(one, x.usage[t, ALL_FREE, k, f])
        total += one
    return total


@borrowing_njit
def _energy_left(x: Record, objective: TrialObjective) -> int:
    """Return the largest traffic energy with which the objective can meet the trial bound."""
    if not objective.fj_weight:
        return INFINITE_COST
    left = objective.trial_bound - objective.fixed - objective.cycle_weight * x.min_cycles
    return int(left // objective.fj_weight)
