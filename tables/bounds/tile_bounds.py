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

import numpy as np

from tables.bounds.array_work import min_visits, min_work, move_cycles, port_cycles, work_cycles
from tables.bounds.layer import (
    END,
    ENERGY,
    INFINITE_COST,
    LAYOUT,
    MOVED1,
    RESOURCES,
    TOGETHER,
    Record,
)
from tables.bounds.link_waits import link_cycles
from tables.bounds.outer_state import NONE_FREE, DramLoopBounds, Floats
from tables.bounds.tile_passes import residence
from tables.bounds.tile_streams import ALL_FREE, NOT_STORABLE, box_place, link_share, take_streams
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


#: The working state of the enumeration: a spatial mapping, a tile or a set of tiles, and what their bounds are made of.
#: It is one record, as passing its many arrays one by one would take several times as long as the arithmetic on them.
#: *Buffers* is a number: 2 if the global buffer stores a tensor, plus 1 if the row buffer does. *Free* is a number: 2
#: if the irrelevant loops of the global buffer's innermost class are free for a tensor, plus 1 if those outside it are.
TILE_STATE = np.dtype([
    # The spatial mapping: `vector` holds PEs and lanes per dim and whether the PEs store each tensor (also in `in_pe`).
    # `kinds`: rows of `TileCosts.points` and `arrays`. `min_cycles`: a lower bound on its latency. `loops_left`: bound
    # divided by PEs and lanes, per dim; `class_loops_left` and `class_pes`: products per class. `has_copies`: whether
    # nothing adds up several copies of an output before the DRAM does.
    ("vector", np.int64, 19), ("in_pe", np.int64, 3), ("kinds", np.int64, 4), ("min_cycles", np.int64),
    ("loops_left", np.int64, 8), ("class_loops_left", np.int64, 4), ("class_pes", np.int64, 4),
    ("has_copies", np.int64),
    # The PEs' tile. T0 of the first `inner_open` dims is open: any divisor. Per dim: `inner_at`, which divisor T0 is, 1
    # if open; extents `e0` of a PE and of the `array`; `outer_loops`, the iterations outside the array;
    # `class_outer_loops`: products per class, of the dims that are not open. Usage [resource, tensor, buffers]:
    # `without_visits`, what does not depend on the fetches into the array, and `per_visit`, what each repetition of all
    # these fetches adds. `pe_box`: row of `TileCosts.boxes` of what PEs or MACs take; `pe_tiles`: the fewest tiles of
    # the PEs, per tensor.
    ("inner_open", np.int64), ("inner_at", np.int64, 8), ("e0", np.int64, 8), ("array", np.int64, 8),
    ("outer_loops", np.int64, 8), ("class_outer_loops", np.int64, 4), ("without_visits", np.int64, (RESOURCES, 3, 4)),
    ("per_visit", np.int64, (RESOURCES, 3, 4)), ("pe_box", np.int64, 3), ("pe_tiles", np.int64, 3),
    # The global buffer's tile. The extents of the first `open_dims` dims are open: they may be any multiple of the
    # smallest ones. Per dim: `buffer_at`, which divisor T1 is, smallest `extents` and `largest` extents. Per class:
    # `class_buffer_loops` (of dims whose T0 is not open) and `class_loops_outside`, iterations at the global buffer and
    # outside it; `looped_classes`:
    # the number of classes with iterations at the global buffer. `place`: index of the tile in `DramLoopBounds`. Per
    # tensor: `box`, row of `TileCosts.boxes` of the smallest tile; its `size` in elements; `moved`, elements of all
    # tiles; `buffer_tiles`, the fewest of them; `can_store` [buffers]: whether they have room for it.
    ("open_dims", np.int64), ("buffer_at", np.int64, 8), ("extents", np.int64, 8), ("largest", np.int64, 8),
    ("class_buffer_loops", np.int64, 4), ("looped_classes", np.int64), ("class_loops_outside", np.int64, 4),
    ("place", np.int64), ("box", np.int64, 3), ("size", np.int64, 3), ("moved", np.int64, 3),
    ("buffer_tiles", np.int64, 3), ("can_store", np.int64, (3, 4)),
    # Each tensor by itself, [tensor, free, buffers]: `usage` of each resource; `scans` and `stream_cycles`; `rows` and
    # `column_cycles` of the stream per layout. `residence` [tensor, free, buffers]: steps for which a tile is in use,
    # or cycles by which the stream is longer than `stream_cycles`, or both.
    ("usage", np.int64, (3, 4, 4, RESOURCES)), ("scans", np.int64, (3, 4, 4)), ("stream_cycles", np.int64, (3, 4, 4)),
    ("rows", np.int64, (3, 4, 4, 2)), ("column_cycles", np.int64, (3, 4, 4, 2)), ("residence", np.int64, (3, 4, 4)),
    # `stored_sets`: sets of tensors in the buffers that fit, bit t for the global buffer, bit 3 + t for the row buffer.
    # Of the set and the innermost classes at hand, per tensor: `buffers`, `free` and cycles of the `streams`.
    ("stored_sets", np.int64, 64), ("buffers", np.int64, 3), ("free", np.int64, 3), ("streams", np.int64, 3),
])  # fmt: skip


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
               is_aligned: bool, few: int) -> int:  # fmt: skip
    """Return a lower bound on the objective for the tile at hand.

    It is the minimum over the first `few` stored sets, and over the classes that can be innermost at the global buffer
    and outside it. Modifies x: residence, buffers, free, streams.
    """
    left = x.class_loops_left
    pipeline, steps, spare_fj = layer.dram[4], left[0] * left[1] * left[2] * left[3], _energy_left(x, objective)
    buffers, free, bound = x.buffers, x.free, INFINITE_COST
    for t in range(3):
        for k in (0, 2):
            for f in range(4):
                x.residence[t, f, k] = residence(x, layer, t, k, f, steps)
    for stored in x.stored_sets[:few]:
        for t in range(3):
            buffers[t] = 2 * (stored >> t & 1) + (stored >> (3 + t) & 1)
        for innermost in range(9):
            one, other = innermost // 3, innermost % 3
            if (x.class_buffer_loops[one] == 1 and one > 0) or (x.class_loops_outside[other] == 1 and other > 0):
                continue  # the class has no loop that could be innermost
            for t in range(3):
                free[t] = 2 * (t == one) + (t == other)
            energy, cycles = take_streams(x, layer), x.min_cycles
            for t in range(3):
                energy += x.usage[t, free[t], buffers[t], ENERGY]
                cycles = max(cycles, x.streams[t] + pipeline)
            most = min(objective.trial_bound, bound)
            if energy > spare_fj or _value(objective, cycles, energy) > most:
                continue
            if objective.cycle_weight:
                cycles = max(cycles, _min_busy_cycles(x, layer, boxes, steps) + pipeline)
            value = _value(objective, cycles, energy)
            if is_aligned and not x.inner_open and not x.open_dims and value < bound:
                value = _bound_with_dram_loops(x, layer, dram_bounds, objective, stored >> 3, other, energy, cycles)
            bound = min(bound, value)
    return bound


@borrowing_njit
def _min_busy_cycles(x: Record, layer: Record, boxes: Ints, steps: int) -> int:
    """Return a lower bound on the cycles of what cannot overlap: the terms of `cpsat_pim.mapper.model.latency`."""
    column, first_load, in_pe, buffers, free = layer.dram[0], layer.dram[3], x.in_pe, x.buffers, x.free
    start, end, outputs, first_i, first_w = 0, column, x.streams[O], 0, 0
    for t in range(3):
        is_held = in_pe[t] or buffers[t]
        edge = first_load if t != O and is_held else 0
        if is_held and not buffers[t] & 1:
            level, at = box_place(x, layer, t, buffers[t])
            edge = max(edge, min(boxes[level, t, at, END], boxes[level, t, at, LAYOUT + END]))
        if t == O:
            end = max(end, edge)
        elif t == I:
            first_i = edge
        else:
            first_w = edge
    start = first_i + first_w if layer.is_linked[I] and layer.is_linked[W] else max(first_i, first_w)
    in_use, streams_of_link = steps, 0
    for t in range(3):
        if layer.is_linked[t]:
            in_use = min(in_use, x.residence[t, free[t], buffers[t]])
            streams_of_link += link_share(layer, t, x.streams[t])
    visits = min_visits(x, O, free[O])
    fetches = (1 if free[O] & 1 else x.class_loops_outside[O]) if buffers[O] else visits
    work, last = work_cycles(x, layer, steps, buffers[O], visits) if buffers[O] else steps, end
    if buffers[O] == 3:
        work += move_cycles(layer, 2, fetches - 1)
    if fetches > 1 and not buffers[O] & 1 and (buffers[O] or in_pe[O]):
        # Partial sums return, and the array waits for them. Two slots hide one write-out of each tile behind a tile's
        # share of the work. Besides that and the last one, 2 X - 2 of 2 X - 1 equal scans of each tile are awaited.
        taken = x.column_cycles[O, free[O], buffers[O]]
        columns = max(0, min(taken[0], taken[1]) - max(0, layer.dram[2]))
        awaited = columns * (2 * fetches - 2) // (2 * fetches - 1)
        last = max(end + awaited, outputs - (work // fetches if layer.is_double[min(1, buffers[O])] else 0))
    busy = max(start + work + last, start + outputs + x.residence[O, free[O], buffers[O]], streams_of_link + in_use)
    for t in (I, W):
        before = 0 if in_pe[t] or buffers[t] else start
        busy = max(busy, before + x.streams[t] + x.residence[t, free[t], buffers[t]] + end)
    for f in range(1, layer.resources):
        load, largest = 0, 0
        for t in range(3):
            one = x.usage[t, free[t], buffers[t], f]
            load, largest = load + one, max(largest, one)
        port = port_cycles(layer.rates[f], max(load, largest * layer.rates[f, 2]), x.class_pes)
        busy = max(busy, start + port + end)
    busy = max(busy, link_cycles(x, layer, steps, first_i, first_w, end))
    return int(max(busy, _exposed_cycles(x, layer, steps)))


@borrowing_njit
def _exposed_cycles(x: Record, layer: Record, steps: int) -> int:
    """Return the cycles of the steps and of loads that nothing hides: a level with one slot that alone stores a tensor
    loads while the array waits. Over a link that tensors share, such loads follow each other.
    """
    busy, exposed = 0, steps
    for t in range(3):
        at = x.buffers[t]
        # Of the row buffer alone, else of a level with one slot alone.
        is_bare = at == 1 if not x.in_pe[t] else not at and not layer.is_double[0]
        if is_bare or (at == 2 and not x.in_pe[t] and not layer.is_double[1]):
            busy = max(busy, steps + x.streams[t])
            exposed += link_share(layer, t, x.streams[t])
    return int(max(busy, exposed))


@borrowing_njit
def _bound_with_dram_loops(x: Record, layer: Record, dram_bounds: DramLoopBounds, objective: TrialObjective,
                           aligned: int, other: int, energy: int, cycles: int) -> int:  # fmt: skip
    """Return the bound with what the DRAM's loops add to it; `INFINITE_COST` if that exceeds the trial bound.

    `aligned`: set of row-aligned tensors. `other`: the class of the innermost loops outside the global buffer.
    `energy`, `cycles`: the bound without the DRAM's loops.
    """
    miss, pipeline, place = layer.dram[1], layer.dram[4], x.place
    buffers, free, bound = x.buffers, x.free, INFINITE_COST
    spare_fj = _energy_left(x, objective)
    for case in (other, NONE_FREE):
        fj, share, busy = dram_bounds.fj[case, aligned, place], 0.0, dram_bounds.cycles[case, aligned, place]
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
