"""The best mapping by other objectives than time: energy, ticks of MACs and rows alone, ticks that moves add.

As in `sweep`, every mapping is evaluated or excluded by a lower bound. Of mappings with the same value the one of least
time is the best.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tables.commands.steps import Share, build_groups, build_steps, ceiling, pass_columns
from tables.commands.sweep import (
    NONE,
    Space,
    build_tilings,
    is_legal,
    lower_bound,
    share_of,
    ticks_of,
    tiled,
)
from tables.commands.walk import ADDRESS, DRAINS, LOADS, MACS, Moves, Timing, walk
from tables.jit import njit

Ints = NDArray[np.int64]

#: Femtojoules; picoseconds of MACs and rows alone; picoseconds that moves and the host add.
ENERGY, COMPUTE, REARRANGEMENT = range(3)


class Energies(NamedTuple):
    """Femtojoules of one command on one channel: a MAC in all banks, opening a row in all banks, a load, a drain."""

    mac: int
    row: int
    load: int
    drain: int


class BestBy(NamedTuple):
    """The best mapping: its value and time, ticks, split, owner and tiling; how many mappings were evaluated."""

    value: int
    time_ps: int
    ticks: int
    split: int
    owner: int
    share: Share
    walked: int


@njit
def count_rows(groups: Ints, columns: int) -> int:
    """Return how often a row is opened: each time a MAC needs another row than the MAC before it."""
    rows, opened = 0, -1
    for group in range(groups.shape[0]):
        if groups[group, MACS] > 0:
            first = groups[group, ADDRESS] // columns
            last = (groups[group, ADDRESS] + groups[group, MACS] - 1) // columns
            rows += last - first
            if first != opened:
                rows += 1
            opened = last
    return rows


@njit
def energy_of(energies: Energies, groups: Ints, drain_moves: int, load_moves: int, columns: int) -> int:
    """Return the femtojoules of the commands of one channel."""
    macs, drains, loads = groups[:, MACS].sum(), groups[:, DRAINS].sum(), groups[:, LOADS].sum()
    moved = drains * drain_moves * energies.drain + loads * load_moves * energies.load
    return int(macs * energies.mac + moved + count_rows(groups, columns) * energies.row)


@njit
def compute_ticks_of(space: Space, timing: Timing, share: Share) -> int:
    """Return the ticks of the MACs and their rows alone; they do not depend on the tiling."""
    groups = build_groups(share, build_steps(share, timing.columns), 1, 1)
    groups[:, DRAINS] = 0
    groups[:, LOADS] = 0
    one = np.ones(1, np.int64)
    moves = Moves(space.drains[:1, :1], space.loads[:1, :1], one, one, space.is_checked, space.nodes)
    return walk(timing, groups, moves, -1, np.zeros((0, 4), np.int64))


@njit
def least_energy(timing: Timing, energies: Energies, share: Share, drain_moves: int, load_moves: int) -> int:
    """Return femtojoules that no tiling of a cut falls below: rows are opened at least once a full row of columns, and
    inputs loaded and accumulators drained at least once.
    """
    results = share.batches * share.shared
    rows = ceiling(share.batches * pass_columns(share), timing.columns)
    loads = results * ceiling(share.depth, share.lanes) if share.has_inputs else 1
    drains = results * ceiling(share.outputs, share.lanes)
    moved = loads * load_moves * energies.load + drains * drain_moves * energies.drain
    return results * pass_columns(share) * energies.mac + rows * energies.row + moved


@njit
def least_added(timing: Timing, share: Share, drain_moves: int, load_moves: int, compute: int) -> int:
    """Return ticks that the moves of a cut add to its MACs and rows at least.

    No MAC is earlier than it would be without moves, and the last drain is behind the last MAC; all moves follow each
    other.
    """
    results, apart = share.batches * share.shared, timing.apart
    columns = ceiling(share.depth, share.lanes) * results if share.has_inputs else 1
    moves = columns * load_moves + ceiling(share.outputs, share.lanes) * results * drain_moves
    return max(1 + (drain_moves - 1) * apart, 1 + (moves - 1) * apart - compute)


@njit
def _bound_of(
    space: Space,
    timing: Timing,
    energies: Energies,
    extra_fj: Ints,
    objective: int,
    split: int,
    owner: int,
    share: Share,
) -> int:
    """Return a value that no tiling of a cut falls below."""
    drain_moves, load_moves = space.drain_moves[owner], space.load_moves[owner]
    if objective == ENERGY:
        return int(least_energy(timing, energies, share, drain_moves, load_moves) + extra_fj[split])
    compute = compute_ticks_of(space, timing, share)
    if objective == COMPUTE:
        return compute * space.tick_ps
    added = least_added(timing, share, drain_moves, load_moves, compute)
    return int(added * space.tick_ps + space.extra[split])


@njit
def _energy_of_tiling(space: Space, timing: Timing, energies: Energies, share: Share, owner: int) -> int:
    """Return the femtojoules of one channel under a mapping."""
    drain_moves, load_moves = space.drain_moves[owner], space.load_moves[owner]
    groups = build_groups(share, build_steps(share, timing.columns), drain_moves, load_moves)
    return energy_of(energies, groups, drain_moves, load_moves, timing.columns)


@njit
def _best_of_cut(
    space: Space,
    timing: Timing,
    energies: Energies,
    channels: Ints,
    extra_fj: Ints,
    objective: int,
    best: BestBy,
    split: int,
    owner: int,
    share: Share,
) -> BestBy:
    """Return the better of the best mapping and the best tiling of a cut."""
    tilings = build_tilings(space, share)
    compute = compute_ticks_of(space, timing, share) if objective != ENERGY else 0
    for i in range(tilings.shape[0]):
        candidate = tiled(share, tilings[i])
        value = compute * space.tick_ps
        if objective == ENERGY:
            value = _energy_of_tiling(space, timing, energies, candidate, owner) * channels[split] + extra_fj[split]
        walked = best.walked + 1
        best = BestBy(best.value, best.time_ps, best.ticks, best.split, best.owner, best.share, walked)
        if objective != REARRANGEMENT and value > best.value:
            continue
        ticks = ticks_of(space, timing, candidate, owner)
        time = ticks * space.tick_ps + space.extra[split]
        if objective == REARRANGEMENT:
            value = (ticks - compute) * space.tick_ps + space.extra[split]
        if value < best.value or (value == best.value and time < best.time_ps):
            best = BestBy(value, time, ticks, split, owner, candidate, walked)
    return best


@njit
def sweep_by(
    space: Space, timing: Timing, energies: Energies, channels: Ints, extra_fj: Ints, objective: int, prunes: bool
) -> BestBy:
    """Return the best mapping of a space by an objective.

    `channels` int64[splits]: channels in use; `extra_fj` int64[splits]: femtojoules of the host. The value is `NONE` if
    nothing can be run.
    """
    owners = space.parts.shape[0]
    best = BestBy(NONE, NONE, NONE, -1, -1, share_of(space, 0, 0, 0), 0)
    for split in range(space.chunks.shape[0]):
        for cut in range(2 * owners):
            owner = cut // 2
            share = share_of(space, split, owner, cut % 2)
            if not is_legal(space, timing, share):
                continue
            used = energies
            if objective == ENERGY:
                used = Energies(
                    energies.mac * channels[split], energies.row * channels[split],
                    energies.load * channels[split], energies.drain * channels[split],
                )  # fmt: skip
            value = _bound_of(space, timing, used, extra_fj, objective, split, owner, share)
            if prunes and value > best.value:
                continue
            if prunes and value == best.value:  # a tie: only a shorter time would be better
                least = lower_bound(space, timing, share, space.drain_moves[owner], space.load_moves[owner])
                if least * space.tick_ps + space.extra[split] >= best.time_ps:
                    continue
            best = _best_of_cut(
                space, timing, energies, channels, extra_fj, objective, best, split, owner, share
            )  # fmt: skip
    return best
