"""The best mapping of a contraction: every mapping of the space is evaluated or bounded from below.

A *cut* is a split over the channels, an owner for every axis and the role of the lanes. It fixes the work of a core.
The *tilings* of a cut are the tiles, their order and what overlaps. A cut whose lower bound is not below the best known
time has no better tiling. So every mapping is evaluated or excluded by a bound.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tables.commands.steps import (
    INPUT_STATIONARY,
    OUTPUT_STATIONARY,
    Share,
    build_groups,
    build_steps,
    ceiling,
    pass_columns,
    place_batch,
    returns_too_soon,
)
from tables.commands.walk import Moves, Timing, walk
from tables.jit import njit

Ints = NDArray[np.int64]

#: Time of what cannot be run.
NONE = 2**60


class Space(NamedTuple):
    """The space of mappings of one contraction.

    `chunks` int64[splits, 4]: elements of each class a channel; `extra` int64[splits]: picoseconds of the host.
    `parts` int64[owners, 4]: cores that each class is cut over; `drains`, `loads` int64[owners, moves, levels] with
    `drain_moves`, `load_moves` int64[owners] of them in use. `depth_tiles` int64: the tiles to try beside the largest
    that fits. `is_checked` int64[1]: 1, see `walk.Moves`. `follows`: ticks are those behind another kernel that has
    opened the first row.
    """

    chunks: Ints
    extra: Ints
    parts: Ints
    drains: Ints
    loads: Ints
    drain_moves: Ints
    load_moves: Ints
    depth_tiles: Ints
    is_checked: Ints
    nodes: int
    follows: int
    has_inputs: int
    lanes: int
    inputs: int
    accumulators: int
    bank_columns: int
    tick_ps: int


class Best(NamedTuple):
    """The best mapping: its time, split, owner, and the tiling; how many mappings were walked.

    `bound_ps`: the least lower bound of all cuts, for what the sweep is a part of.
    """

    time_ps: int
    bound_ps: int
    ticks: int
    split: int
    owner: int
    share: Share
    walked: int


@njit
def share_of(space: Space, split: int, owner: int, is_tree: int) -> Share:
    """Return the work of a core, with the smallest tiles."""
    chunks, parts = space.chunks[split], space.parts[owner]
    return Share(
        ceiling(chunks[0], parts[0]),
        ceiling(chunks[1], parts[1]),
        ceiling(chunks[2], parts[2]),
        ceiling(chunks[3], parts[3]),
        space.lanes, is_tree, space.has_inputs, 1, 1, OUTPUT_STATIONARY, 0, 0,
    )  # fmt: skip


@njit
def is_legal(space: Space, timing: Timing, share: Share) -> bool:
    """Whether the banks can hold the work of a core, and the walk is exact for it."""
    if returns_too_soon(share, timing.columns):
        return False
    return place_batch(share, share.batches, timing.columns) <= space.bank_columns


@njit
def lower_bound(space: Space, timing: Timing, share: Share, drain_moves: int, load_moves: int) -> int:
    """Return ticks that no tiling of a cut falls below.

    The MACs follow each other at their distance, with a PRE and an ACT between rows, behind the first ACT and the first
    load, and before the drain of the last accumulator. Every column of inputs is loaded once, every accumulator drained
    once.
    """
    size = pass_columns(share)
    rows = 0
    if share.shared == 1 or size > timing.columns:
        rows = ceiling(size * (1 if share.shared > 1 else share.batches), timing.columns) - 1
        if share.shared > 1:  # every vector but the last returns from the last row to the first
            rows = share.batches * (share.shared * rows + share.shared - 1)
    change = timing.mac_to_pre + timing.pre_to_act + timing.act_to_mac - timing.mac
    macs = share.batches * share.shared * size
    apart = timing.apart
    opened = 1 if space.follows else 1 + timing.act_to_mac
    first = max(opened, 1 + load_moves * apart - apart + 1)
    chain = first + (macs - 1) * timing.mac + rows * max(0, change) + 1 + (drain_moves - 1) * apart
    results = share.batches * share.shared
    columns = ceiling(share.depth, share.lanes) * results if share.has_inputs else 1
    moves = columns * load_moves + ceiling(share.outputs, share.lanes) * results * drain_moves
    return max(chain, 1 + (moves - 1) * apart)


@njit
def depth_tile(space: Space, share: Share, choice: int) -> int:
    """Return a depth tile to try: the largest that fits, the largest that fits twice, those of the space; 0 if it was
    tried."""
    columns = ceiling(share.depth, share.lanes)
    if not space.has_inputs:
        return columns if choice == 0 else 0
    largest, half = min(columns, space.inputs), min(columns, space.inputs // 2)
    if choice == 0:
        return largest
    if choice == 1:
        return half if half < largest else 0
    tile = space.depth_tiles[choice - 2]
    return tile if tile < largest and tile != half else 0


@njit
def build_tilings(space: Space, share: Share) -> Ints:
    """Return int64[tilings, 5]: output tile, depth tile, order, overlap of drains and of loads; none is another one's
    equal."""
    columns, vectors = ceiling(share.depth, share.lanes), ceiling(share.outputs, share.lanes)
    choices = space.depth_tiles.size + 2
    result = np.zeros((choices * space.accumulators * 8, 5), np.int64)
    size = 0
    for output_tile in range(1, min(space.accumulators, vectors) + 1):
        for choice in range(choices):
            tile = depth_tile(space, share, choice)
            for order in range(INPUT_STATIONARY + 1):
                if tile == 0 or (order == INPUT_STATIONARY and tile >= columns):
                    continue  # one depth tile: both orders are the same
                for drains in range(2):
                    for loads in range(2):
                        if output_tile * (1 + drains) > space.accumulators or (loads and not space.has_inputs):
                            continue
                        if space.has_inputs and tile * (1 + loads) > space.inputs:
                            continue
                        result[size, 0], result[size, 1], result[size, 2] = output_tile, tile, order
                        result[size, 3], result[size, 4] = drains, loads
                        size += 1
    return result[:size]


@njit
def tiled(share: Share, tiling: Ints) -> Share:
    """Return the work with a tiling."""
    return Share(
        share.batches, share.shared, share.outputs, share.depth, share.lanes, share.is_tree, share.has_inputs,
        tiling[0], tiling[1], tiling[2], tiling[3], tiling[4],
    )  # fmt: skip


@njit
def ticks_of(space: Space, timing: Timing, share: Share, owner: int) -> int:
    """Return the exact ticks of a mapping."""
    one = slice(owner, owner + 1)
    moves = Moves(
        space.drains[one], space.loads[one], space.drain_moves[one], space.load_moves[one], space.is_checked,
        space.nodes
    )  # fmt: skip
    steps = build_steps(share, timing.columns)
    groups = build_groups(share, steps, space.drain_moves[owner], space.load_moves[owner])
    opened = 0 if space.follows else -1
    return walk(timing, groups, moves, opened, np.zeros((0, 4), np.int64))


@njit
def best_tiling(space: Space, timing: Timing, share: Share, owner: int) -> tuple[int, Share, int]:
    """Return the least ticks of a cut, its tiling, and the number of tilings; the first of equals."""
    least, best = NONE, share
    tilings = build_tilings(space, share)
    for i in range(tilings.shape[0]):
        candidate = tiled(share, tilings[i])
        ticks = ticks_of(space, timing, candidate, owner)
        if ticks < least:
            least, best = ticks, candidate
    return least, best, tilings.shape[0]


@njit
def least_of_split(space: Space, timing: Timing, split: int) -> int:
    """Return picoseconds that no cut of a split falls below: its MACs if no lane of no core were idle."""
    elements, cores = 1, 1
    for number in range(space.chunks.shape[1]):
        elements *= space.chunks[split, number]
    for owner in range(space.parts.shape[0]):
        used = 1
        for number in range(space.parts.shape[1]):
            used *= space.parts[owner, number]
        cores = max(cores, used)
    macs = ceiling(elements, cores * space.lanes)
    return int((macs - 1) * timing.mac * space.tick_ps + space.extra[split])


@njit
def sweep(space: Space, timing: Timing, prunes: bool) -> Best:
    """Return the best mapping of a space; with `prunes`, cuts that a lower bound excludes are not walked.

    The time of a mapping is its ticks and the picoseconds of the host. Time is `NONE` if nothing can be run. The split
    with the least bound comes first, so that the others have a time to be compared with.
    """
    splits = space.chunks.shape[0]
    least = np.zeros(splits, np.int64)
    for split in range(splits):
        least[split] = least_of_split(space, timing, split)
    best = Best(NONE, NONE, NONE, -1, -1, share_of(space, 0, 0, 0), 0)
    first = int(least.argmin())
    for turn in range(splits + 1):
        split = first if turn == 0 else turn - 1
        if turn > 0 and split == first:
            continue
        if prunes and least[split] >= best.time_ps:
            best = _bounded(best, least[split])
        else:
            best = _sweep_split(space, timing, best, split, prunes)
    return best


@njit
def _sweep_split(space: Space, timing: Timing, best: Best, split: int, prunes: bool) -> Best:
    """Return the better of the best mapping and the best one of a split; the cut with the least bound comes first."""
    owners = space.parts.shape[0]
    bounds = np.full(2 * owners, NONE, np.int64)
    for cut in range(2 * owners):
        owner = cut // 2
        share = share_of(space, split, owner, cut % 2)
        if is_legal(space, timing, share):
            bound = lower_bound(space, timing, share, space.drain_moves[owner], space.load_moves[owner])
            bounds[cut] = bound * space.tick_ps + space.extra[split]
    first = int(bounds.argmin())
    best = _bounded(best, bounds[first])
    for turn in range(2 * owners + 1):
        cut = first if turn == 0 else turn - 1
        is_again = turn > 0 and cut == first
        if bounds[cut] < NONE and not is_again and (bounds[cut] < best.time_ps or not prunes):
            best = _improved(space, timing, best, split, cut)
    return best


@njit
def _bounded(best: Best, bound_ps: int) -> Best:
    """Return the best mapping with the least bound so far."""
    least = min(best.bound_ps, bound_ps)
    return Best(best.time_ps, least, best.ticks, best.split, best.owner, best.share, best.walked)


def count_mappings(space: Space, timing: Timing) -> int:
    """Return the number of mappings of a space; cuts that leave the same work to a core are counted together."""
    parts, owners = np.unique(space.parts, axis=0, return_counts=True)
    work = (-(-space.chunks[:, None] // parts[None])).reshape(-1, parts.shape[1])
    sizes = work.max(axis=0) + 1
    keys = work[:, 0]
    for number in range(1, work.shape[1]):  # the work of a core is at most that of the kernel: no key overflows
        keys = keys * sizes[number] + work[:, number]
    _, first, number = np.unique(keys, return_index=True, return_inverse=True)
    weights = np.bincount(number, weights=np.tile(owners, space.chunks.shape[0])).astype(np.int64)
    alone = space._replace(chunks=work[first], parts=np.ones((1, parts.shape[1]), np.int64))
    return int(_count_weighted(alone, timing, weights))


@njit
def _count_weighted(space: Space, timing: Timing, weights: Ints) -> int:
    """Return the number of mappings of a space in which every split stands for as many as its weight."""
    total = 0
    for split in range(space.chunks.shape[0]):
        for is_tree in range(2):
            share = share_of(space, split, 0, is_tree)
            if is_legal(space, timing, share):
                total += count_tilings(space, share) * weights[split]
    return total


@njit
def count_tilings(space: Space, share: Share) -> int:
    """Return the number of tilings without building them."""
    columns, vectors = ceiling(share.depth, share.lanes), ceiling(share.outputs, share.lanes)
    outputs = min(space.accumulators, vectors)
    both = min(space.accumulators // 2, outputs)
    if not space.has_inputs:
        return outputs + both
    total = 0
    for choice in range(space.depth_tiles.size + 2):
        tile = depth_tile(space, share, choice)
        if tile > 0:
            total += (1 if tile >= columns else 2) * (2 if 2 * tile <= space.inputs else 1)
    return total * (outputs + both)


@njit
def _improved(space: Space, timing: Timing, best: Best, split: int, cut: int) -> Best:
    """Return the better of the best mapping and the best tiling of a cut."""
    owner, is_tree = cut // 2, cut % 2
    share = share_of(space, split, owner, is_tree)
    ticks, tiling, walked = best_tiling(space, timing, share, owner)
    time = ticks * space.tick_ps + space.extra[split]
    if time < best.time_ps:
        return Best(time, best.bound_ps, ticks, split, owner, tiling, best.walked + walked)
    return Best(best.time_ps, best.bound_ps, best.ticks, best.split, best.owner, best.share, best.walked + walked)
