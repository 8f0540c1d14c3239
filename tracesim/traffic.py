"""Accesses per level: what was visited times what a visit moves (section 4). Plain Python on ints."""

from typing import NamedTuple

import numpy as np

from tracesim.axes import DRAM, INPUT, OUTPUT, PE, READ, WEIGHT, WRITE
from tracesim.nest import Visits
from tracesim.records import Device, Flags, Ints
from tracesim.tiles import ARRAY, LANES, STEP


class Moves(NamedTuple):
    """Elements that one move counts. `fetch` and `drain` are pairs (at the parent, at the level itself).

    `fetch` [level 0..2][tensor]: a tile comes in: reads at the parent, writes at the level.
    `drain` [level 0..2]: a tile of O goes out: writes at the parent, reads at the level.
    `use` [tensor]: a step without the tensor in its PEs: from (O: also to) the innermost storing level.
    `rereads_copies`: even on a first visit such a step reads back copies of an output that it has itself begun.
    `update`: a step with O in its PEs: writes there.
    `step_macs`: MACs of a step. `outputs`: distinct elements of O in an array tile, each in `copies` PEs.
    """

    fetch: list[list[tuple[int, int]]]
    drain: list[tuple[int, int]]
    use: list[int]
    rereads_copies: bool
    update: int
    step_macs: int
    outputs: int
    copies: int


def parents(stored: Flags) -> Ints:
    """Return int64[3, 3]: for [level][tensor] the next outer level that stores the tensor (3: DRAM)."""
    parent = np.full((3, 3), DRAM, np.int64)
    parent[1] = np.where(stored[2], 2, DRAM)
    parent[0] = np.where(stored[1], 1, parent[1])
    return parent


def innermost(stored: Flags) -> Ints:
    """Return int64[3]: per tensor the innermost level that stores it (3: DRAM alone)."""
    return np.where(stored.any(axis=0), stored.argmax(axis=0), DRAM).astype(np.int64)


def measure_moves(elems: Ints, spatial: Ints, multicast: bool, spatial_reduction: bool) -> Moves:
    """Return what one move of each kind counts, from the measured tile sizes int64[kind, tensor]."""
    size = elems.tolist()
    pes, step_macs = int(np.prod(spatial[:2])), int(np.prod(spatial))
    outputs = size[ARRAY][OUTPUT]
    copies = pes * size[PE][OUTPUT] // outputs
    moved_sums = outputs if spatial_reduction else copies * outputs

    fetch = [[(tile, tile) for tile in size[level]] for level in range(3)]
    for tensor in (INPUT, WEIGHT):
        in_pes = pes * size[PE][tensor]
        fetch[PE][tensor] = (size[ARRAY][tensor] if multicast else in_pes, in_pes)
    fetch[PE][OUTPUT] = (moved_sums, moved_sums)

    drain = [fetch[level][OUTPUT] for level in range(3)]
    drain[PE] = (moved_sums, copies * outputs)

    shares = (multicast, multicast, spatial_reduction)
    use = [size[STEP][tensor] if shares[tensor] else step_macs for tensor in range(3)]
    return Moves(
        fetch,
        drain,
        use,
        rereads_copies=use[OUTPUT] > size[STEP][OUTPUT],
        update=pes * size[LANES][OUTPUT] if spatial_reduction else step_macs,
        step_macs=step_macs,
        outputs=outputs,
        copies=copies,
    )


def count_accesses(stored: Flags, moves: Moves, visits: Visits, spatial_reduction: bool) -> Ints:
    """Return int64[4, 3, 2]: elements accessed, [level][tensor][read, write]."""
    accesses = np.zeros((4, 3, 2), np.int64)
    parent = parents(stored).tolist()
    use_level = innermost(stored).tolist()
    for tensor in (INPUT, WEIGHT, OUTPUT):
        for level in range(3):
            if stored[level, tensor]:
                _count_fetches(accesses, level, parent[level][tensor], tensor, moves, visits)
    for level in range(3):
        if stored[level, OUTPUT]:
            _count_drains(accesses, level, parent[level][OUTPUT], moves, visits)
    for tensor in (INPUT, WEIGHT):
        _count_operands(accesses, use_level[tensor], tensor, moves, visits)
    if use_level[OUTPUT] == PE:
        _count_updates(accesses, moves, visits, spatial_reduction)
    else:
        _count_streamed_sums(accesses, use_level[OUTPUT], moves, visits)
    return accesses


def _count_fetches(accesses: Ints, level: int, parent: int, tensor: int, moves: Moves, visits: Visits) -> None:
    """Every tile that is entered is fetched; of O's only those that return."""
    times = int(visits.entered[level, tensor])
    if tensor == OUTPUT:
        times -= visits.first[level]
    at_parent, at_level = moves.fetch[level][tensor]
    accesses[parent, tensor, READ] += times * at_parent
    accesses[level, tensor, WRITE] += times * at_level


def _count_drains(accesses: Ints, level: int, parent: int, moves: Moves, visits: Visits) -> None:
    """Every O tile that was entered leaves, the last one at the very end."""
    at_parent, at_level = moves.drain[level]
    accesses[level, OUTPUT, READ] += int(visits.entered[level, OUTPUT]) * at_level
    accesses[parent, OUTPUT, WRITE] += int(visits.entered[level, OUTPUT]) * at_parent


def _count_operands(accesses: Ints, level: int, tensor: int, moves: Moves, visits: Visits) -> None:
    """Every MAC reads its operand in its PE; without one there, the step reads it at the innermost storing level."""
    a_step = moves.step_macs if level == PE else moves.use[tensor]
    accesses[level, tensor, READ] += visits.array_steps * visits.steps_each * a_step


def _count_updates(accesses: Ints, moves: Moves, visits: Visits, spatial_reduction: bool) -> None:
    """Each partial sum written in a PE is read before, except where it starts afresh.

    On a first visit all copies of an output start afresh; on a return all but the one brought back, or, when every
    copy is moved by itself (no spatial reduction), none.
    """
    writes = visits.array_steps * visits.steps_each * moves.update
    returns = int(visits.entered[PE, OUTPUT] - visits.first[PE])
    afresh = visits.first[PE] * moves.copies * moves.outputs
    if spatial_reduction:
        afresh += returns * (moves.copies - 1) * moves.outputs
    accesses[PE, OUTPUT, WRITE] += writes
    accesses[PE, OUTPUT, READ] += writes - afresh


def _count_streamed_sums(accesses: Ints, level: int, moves: Moves, visits: Visits) -> None:
    """Steps read and write partial sums where they are stored; an output's first term reads nothing."""
    writes = visits.array_steps * visits.steps_each * moves.use[OUTPUT]
    accesses[level, OUTPUT, WRITE] += writes
    accesses[level, OUTPUT, READ] += writes - visits.first[PE] * moves.outputs


def count_crossings(stored: Flags, moves: Moves, visits: Visits) -> list[int]:
    """Return, per tensor, the elements that cross into or out of the array: its parent's reads, and writes of O.

    The array's parent is the innermost level outside the PEs that stores the tensor.
    """
    steps = visits.array_steps * visits.steps_each
    crossings = []
    for tensor in (INPUT, WEIGHT, OUTPUT):
        times = int(visits.entered[PE, tensor]) if stored[PE, tensor] else steps
        each = moves.fetch[PE][tensor][0] if stored[PE, tensor] else moves.use[tensor]
        crossings.append(times * each)
    if stored[PE, OUTPUT]:
        returning = int(visits.entered[PE, OUTPUT]) - int(visits.first[PE])
        crossings[OUTPUT] += returning * moves.fetch[PE][OUTPUT][0]
    else:
        crossings[OUTPUT] += crossings[OUTPUT] - int(visits.first[PE]) * moves.outputs
    return crossings


def energy_fj(accesses: Ints, activations: Ints, macs: int, device: Device) -> int:
    """Return the energy of MACs, accesses and row activations, in femtojoules (section 4)."""
    counts, costs = accesses.tolist(), device.access_fj.tolist()
    moved: int = sum(
        counts[level][tensor][way] * costs[level][way]
        for level in range(4)
        for tensor in range(3)
        for way in (READ, WRITE)
    )
    rows: int = sum(activations.tolist())
    return macs * device.mac_fj + moved + rows * device.activation_fj
