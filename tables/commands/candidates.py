"""All mappings whose ticks are below a cutoff: what an exact search over pairs of kernels chooses from."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tables.commands.steps import Share, build_groups, build_steps, pass_columns, place_batch
from tables.commands.sweep import Space, build_tilings, is_legal, lower_bound, share_of, tiled
from tables.commands.walk import ADDRESS, DRAINS, LOADS, MAC, MACS, SEGMENT, Moves, Timing, walk
from tables.jit import njit

Ints = NDArray[np.int64]

#: Columns of a candidate: ticks; tick of the last MAC; owner; lane role; tiling (`sweep.build_tilings`).
TICKS, LAST_MAC, OWNER, IS_TREE, TILING = range(5)
WIDTH = TILING + 5


class Ends(NamedTuple):
    """Ticks of a kernel, and of its last MAC."""

    ticks: int
    last_mac: int


@njit
def ends_of(space: Space, timing: Timing, share: Share, owner: int, offset: int) -> Ends:
    """Return when a mapping ends and when its last MAC is issued; its matrix begins at a column of a row."""
    one = slice(owner, owner + 1)
    drain_moves, load_moves = space.drain_moves[owner], space.load_moves[owner]
    moves = Moves(
        space.drains[one], space.loads[one], space.drain_moves[one], space.load_moves[one], space.is_checked,
        space.nodes
    )  # fmt: skip
    steps = build_steps(share, timing.columns)
    steps[:, ADDRESS] += offset
    groups = build_groups(share, steps, drain_moves, load_moves)
    size = groups[:, MACS].sum() + groups[:, DRAINS].sum() * drain_moves + groups[:, LOADS].sum() * load_moves
    emitted = np.zeros((size, 4), np.int64)
    ticks = walk(timing, groups, moves, 0 if space.follows else -1, emitted)
    last = 0
    for i in range(size):
        if emitted[i, 0] == MAC:
            last = emitted[i, 3]
    return Ends(ticks, last)


@njit
def behind_first_mac(timing: Timing, share: Share, drain_moves: int, offset: int) -> int:
    """Return ticks from the first MAC to the end at least: the MACs with a PRE and an ACT between rows, and the last
    drain. The matrix begins at column `offset` of a row.
    """
    size = pass_columns(share)
    macs, rows = share.batches * share.shared * size, 0
    if share.shared == 1:
        rows = (offset + macs - 1) // timing.columns
    change = timing.mac_to_pre + timing.pre_to_act + timing.act_to_mac - timing.mac
    return int((macs - 1) * timing.mac + rows * max(0, change) + 1 + (drain_moves - 1) * timing.apart)


@njit
def mac_chain(space: Space, timing: Timing, share: Share, owner: int, offset: int) -> int:
    """Return ticks of a cut's MACs that another kernel may not exceed: up to the last MAC of a kernel that comes first,
    or from the first MAC on of one that follows.
    """
    behind = behind_first_mac(timing, share, space.drain_moves[owner], offset)
    if space.follows:
        return behind
    return int(timing.act_to_mac + behind - (space.drain_moves[owner] - 1) * timing.apart)


@njit
def least_mac_chain(space: Space, timing: Timing, split: int) -> int:
    """Return the least `mac_chain` of all cuts of a split."""
    least = 2**60
    for cut in range(2 * space.parts.shape[0]):
        share = share_of(space, split, cut // 2, cut % 2)
        if is_legal(space, timing, share):
            least = min(least, mac_chain(space, timing, share, cut // 2, 0))
    return least


@njit
def collect(space: Space, timing: Timing, split: int, cutoff: int, chain_cutoff: int, offset: int) -> Ints:
    """Return int64[candidates, WIDTH]: the mappings of a split with fewer ticks than the cutoff, and whose MACs
    (`mac_chain`) take less than the other. The matrix begins at column `offset` of a row, which is open if the kernel
    follows another one.
    """
    found = np.zeros((64, WIDTH), np.int64)
    size = 0
    for cut in range(2 * space.parts.shape[0]):
        owner, is_tree = cut // 2, cut % 2
        share = share_of(space, split, owner, is_tree)
        if not is_legal(space, timing, share) or mac_chain(space, timing, share, owner, offset) >= chain_cutoff:
            continue
        if lower_bound(space, timing, share, space.drain_moves[owner], space.load_moves[owner]) >= cutoff:
            continue
        tilings = build_tilings(space, share)
        for i in range(tilings.shape[0]):
            candidate = tiled(share, tilings[i])
            ends = ends_of(space, timing, candidate, owner, offset)
            if ends.ticks >= cutoff or (not space.follows and ends.last_mac >= chain_cutoff):
                continue
            if size == found.shape[0]:
                larger = np.zeros((2 * size, WIDTH), np.int64)
                larger[:size] = found
                found = larger
            found[size, TICKS], found[size, LAST_MAC] = ends.ticks, ends.last_mac
            found[size, OWNER], found[size, IS_TREE] = owner, is_tree
            found[size, TILING:] = tilings[i]
            size += 1
    return found[:size]


@njit
def least_of_others(space: Space, timing: Timing, split: int, number: int, grain: int, lanes_if_tree: int) -> int:
    """Return the least lower bound of the cuts that cut a class into no multiple of a grain, or a large number.

    Cores and, if the lanes lie along the class (`lanes_if_tree`: in tree mode, else in the other), lanes cut it.
    """
    least = 2**60
    for cut in range(2 * space.parts.shape[0]):
        owner, is_tree = cut // 2, cut % 2
        lanes = space.lanes if is_tree == lanes_if_tree else 1
        if space.parts[owner, number] * lanes % grain == 0:
            continue
        share = share_of(space, split, owner, is_tree)
        if is_legal(space, timing, share):
            found = lower_bound(space, timing, share, space.drain_moves[owner], space.load_moves[owner])
            least = min(least, found)
    return least


class BestPair(NamedTuple):
    """The best pair, its ticks, and how many were walked; the candidates are -1 if none is below the cutoff."""

    ticks: int
    first: int
    second: int
    walked: int


@njit
def candidate_groups(space: Space, timing: Timing, candidate: Ints, segment: int, address: int) -> Ints:
    """Return the barrier groups of a candidate whose matrix lies from a bank column on."""
    owner = candidate[OWNER]
    share = tiled(share_of(space, 0, owner, candidate[IS_TREE]), candidate[TILING:])
    steps = build_steps(share, timing.columns)
    steps[:, ADDRESS] += address
    groups = build_groups(share, steps, space.drain_moves[owner], space.load_moves[owner])
    groups[:, SEGMENT] = segment
    return groups


@njit
def best_pair(
    first: Space,
    second: Space,
    timing: Timing,
    firsts: Ints,
    seconds: Ints,
    order: Ints,
    between: Ints,
    path: Ints,
    cutoff: int,
) -> BestPair:
    """Return the pair of a first and a second kernel with the least ticks below the cutoff.

    `order` int64[pairs, 3]: bound and both candidates, the least bound first. `between` int64[8]: the barrier group
    between the kernels, of segment 1, whose moves have no distance and go along `path` int64[levels] (softmax).
    """
    best = BestPair(cutoff, -1, -1, 0)
    width = max(first.drains.shape[1], first.loads.shape[1], second.drains.shape[1], second.loads.shape[1])
    levels = first.drains.shape[2]
    drains, loads = np.zeros((3, width, levels), np.int64), np.zeros((3, width, levels), np.int64)
    counts, checked = np.ones((2, 3), np.int64), np.array([1, 0, 1])
    drains[1, 0], loads[1, 0] = path, path
    for at in range(order.shape[0]):
        bound, a, b = order[at]
        if bound >= best.ticks:
            break
        one, other = firsts[a, OWNER], seconds[b, OWNER]
        drains[0, : first.drains.shape[1]], loads[0, : first.loads.shape[1]] = first.drains[one], first.loads[one]
        drains[2, : second.drains.shape[1]], loads[2, : second.loads.shape[1]] = (
            second.drains[other],
            second.loads[other],
        )
        counts[0, 0], counts[1, 0] = first.drain_moves[one], first.load_moves[one]
        counts[0, 2], counts[1, 2] = second.drain_moves[other], second.load_moves[other]
        share = share_of(first, 0, one, firsts[a, IS_TREE])
        behind = place_batch(share, share.batches, timing.columns)
        begin = candidate_groups(first, timing, firsts[a], 0, 0)
        end = candidate_groups(second, timing, seconds[b], 2, behind)
        groups = np.concatenate((begin, between.reshape(1, -1), end))
        moves = Moves(drains, loads, counts[0], counts[1], checked, first.nodes)
        ticks = walk(timing, groups, moves, -1, np.zeros((0, 4), np.int64))
        best = BestPair(best.ticks, best.first, best.second, best.walked + 1)
        if ticks < best.ticks:
            best = BestPair(ticks, a, b, best.walked)
    return best
