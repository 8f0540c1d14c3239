"""One layout of a matrix for several uses: batch sizes of a weight, lengths of a cache of keys or values.

A *layout* is a cut with its tiles and their order: what determines where elements lie. Which moves overlap may differ
from use to use. The best layout has the least weighted sum of times over all uses; every layout is evaluated or
excluded by a bound.

A cache grows. Its layout reserves the columns of the largest use, so that no element moves when the cache grows: tokens
are dealt to cores and lanes in turn, and the growing dimension is the outer one within a tile. A smaller use then runs
over a prefix of every tile.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tables.commands.steps import (
    OUTPUT_STATIONARY,
    Share,
    build_groups,
    build_steps,
    ceiling,
    place_batch,
    returns_too_soon,
    tile_macs,
)
from tables.commands.sweep import NONE, Space, build_tilings, lower_bound, share_of, tiled
from tables.commands.walk import ADDRESS, Moves, Timing, walk
from tables.jit import njit

Ints = NDArray[np.int64]


class Uses(NamedTuple):
    """What the layout is used for, the largest use first.

    `chunks` int64[uses, splits, 4]: elements of each class a channel. `extra_ps` int64[uses, splits]: picoseconds of
    the host behind the device. `floors_ps` int64[uses]: of what runs beside both. `weights` int64[uses]. `reserves`: 1
    if elements keep the places that the first use gives them.
    """

    chunks: Ints
    extra_ps: Ints
    floors_ps: Ints
    weights: Ints
    reserves: int


class BestLayout(NamedTuple):
    """The best layout: weighted sum of times, split, owner, and the tiling of the first use without overlaps."""

    total_ps: int
    split: int
    owner: int
    share: Share
    walked: int


@njit
def reserve_addresses(share: Share, steps: Ints, capacity: Share, columns_a_row: int) -> None:
    """Give steps the bank columns that they have in a layout for a larger share; `steps` are modified in place."""
    vectors, columns = ceiling(capacity.outputs, capacity.lanes), ceiling(capacity.depth, capacity.lanes)
    outputs, depths = ceiling(vectors, capacity.output_tile), ceiling(columns, capacity.depth_tile)
    offsets = np.zeros((outputs, depths), np.int64)
    at = 0
    for inner in range(outputs * depths):
        if capacity.order == OUTPUT_STATIONARY:
            output, depth = inner // depths, inner % depths
        else:
            depth, output = inner // outputs, inner % outputs
        offsets[output, depth] = at
        at += tile_macs(capacity, output, depth)
    used = ceiling(ceiling(share.outputs, share.lanes), share.output_tile)
    deep = ceiling(ceiling(share.depth, share.lanes), share.depth_tile)
    for step in range(steps.shape[0]):
        result, inner = step // (used * deep), step % (used * deep)
        if share.order == OUTPUT_STATIONARY:
            output, depth = inner // deep, inner % deep
        else:
            depth, output = inner // used, inner % used
        first = place_batch(capacity, result // share.shared, columns_a_row)
        steps[step, ADDRESS] = first + offsets[output, depth]


@njit
def use_ticks(space: Space, timing: Timing, share: Share, owner: int, capacity: Share, reserves: int) -> int:
    """Return the exact ticks of one use with a mapping."""
    one = slice(owner, owner + 1)
    moves = Moves(
        space.drains[one], space.loads[one], space.drain_moves[one], space.load_moves[one], space.is_checked,
        space.nodes
    )  # fmt: skip
    steps = build_steps(share, timing.columns)
    if reserves:
        reserve_addresses(share, steps, capacity, timing.columns)
    groups = build_groups(share, steps, space.drain_moves[owner], space.load_moves[owner])
    opened = 0 if space.follows else -1
    return walk(timing, groups, moves, opened, np.zeros((0, 4), np.int64))


@njit
def best_overlap(
    space: Space, timing: Timing, share: Share, owner: int, capacity: Share, reserves: int
) -> tuple[int, int, int]:
    """Return the least ticks of a use over what may overlap, and whether drains and loads do; the first of equals."""
    least, best_drains, best_loads = NONE, 0, 0
    width = min(share.output_tile, ceiling(share.outputs, share.lanes))
    tile = min(share.depth_tile, ceiling(share.depth, share.lanes))
    for drains in range(2):
        for loads in range(2):
            if width * (1 + drains) > space.accumulators or (loads and not space.has_inputs):
                continue
            if space.has_inputs and tile * (1 + loads) > space.inputs:
                continue
            candidate = Share(
                share.batches, share.shared, share.outputs, share.depth, share.lanes, share.is_tree, share.has_inputs,
                share.output_tile, share.depth_tile, share.order, drains, loads,
            )  # fmt: skip
            ticks = use_ticks(space, timing, candidate, owner, capacity, reserves)
            if ticks < least:
                least, best_drains, best_loads = ticks, drains, loads
    return least, best_drains, best_loads


@njit
def share_of_use(space: Space, uses: Uses, use: int, split: int, owner: int, tile: Share) -> Share:
    """Return the work of a core in one use, with the tiles of a layout."""
    chunks, parts = uses.chunks[use, split], space.parts[owner]
    return Share(
        ceiling(chunks[0], parts[0]), ceiling(chunks[1], parts[1]), ceiling(chunks[2], parts[2]),
        ceiling(chunks[3], parts[3]), space.lanes, tile.is_tree, space.has_inputs,
        tile.output_tile, tile.depth_tile, tile.order, 0, 0,
    )  # fmt: skip


@njit
def _bounds_of_cut(space: Space, timing: Timing, uses: Uses, split: int, owner: int, tile: Share, bounds: Ints) -> int:
    """Return a lower bound of the weighted sum of a cut, `NONE` if a use is not possible.

    Output: `bounds` int64[uses + 1], of the uses from each one on.
    """
    drain_moves, load_moves = space.drain_moves[owner], space.load_moves[owner]
    capacity = share_of_use(space, uses, 0, split, owner, tile)
    last, found = capacity, -1
    for use in range(uses.weights.size):
        share = share_of_use(space, uses, use, split, owner, tile)
        if found < 0 or share != last:
            if returns_too_soon(share, timing.columns):
                return NONE
            if place_batch(share, share.batches, timing.columns) > space.bank_columns:
                return NONE
            found, last = lower_bound(space, timing, share, drain_moves, load_moves), share
        time = max(found * space.tick_ps + uses.extra_ps[use, split], uses.floors_ps[use])
        bounds[use] = time * uses.weights[use]
    for use in range(uses.weights.size - 1, -1, -1):
        bounds[use] += bounds[use + 1]
    return int(bounds[0])


@njit
def layout_total(
    space: Space,
    timing: Timing,
    uses: Uses,
    split: int,
    owner: int,
    tile: Share,
    bounds: Ints,
    cutoff: int,
    chosen: Ints,
) -> int:
    """Return the weighted sum of a layout's times, or `NONE` as soon as it cannot be below the cutoff.

    Output: `chosen` int64[uses, 3]: ticks and overlaps of every use.
    """
    total, ticks, drains, loads = 0, -1, 0, 0
    capacity = share_of_use(space, uses, 0, split, owner, tile)
    last = capacity
    for use in range(uses.weights.size):
        if total + bounds[use] >= cutoff:
            return NONE
        share = share_of_use(space, uses, use, split, owner, tile)
        if ticks < 0 or share != last:
            ticks, drains, loads = best_overlap(space, timing, share, owner, capacity, uses.reserves)
            last = share
        chosen[use, 0], chosen[use, 1], chosen[use, 2] = ticks, drains, loads
        time = max(ticks * space.tick_ps + uses.extra_ps[use, split], uses.floors_ps[use])
        total += time * uses.weights[use]
    return total


@njit
def least_of_splits(space: Space, timing: Timing, uses: Uses) -> Ints:
    """Return int64[splits]: weighted sums that no layout of a split falls below: the MACs if no lane were idle."""
    cores = 1
    for owner in range(space.parts.shape[0]):
        used = 1
        for number in range(space.parts.shape[1]):
            used *= space.parts[owner, number]
        cores = max(cores, used)
    least = np.zeros(space.chunks.shape[0], np.int64)
    for split in range(space.chunks.shape[0]):
        for use in range(uses.weights.size):
            elements = 1
            for number in range(uses.chunks.shape[2]):
                elements *= uses.chunks[use, split, number]
            ticks = (ceiling(elements, cores * space.lanes) - 1) * timing.mac
            time = max(ticks * space.tick_ps + uses.extra_ps[use, split], uses.floors_ps[use])
            least[split] += time * uses.weights[use]
    return least


@njit
def sweep_layouts(space: Space, timing: Timing, uses: Uses, chosen: Ints) -> BestLayout:
    """Return the layout with the least weighted sum of times; `NONE` if there is none.

    Splits are visited in the order of their bounds, and of each the cut with the least bound comes first. `space` has
    the splits and owners of the first use. Output: `chosen` int64[uses, 3], see `layout_total`.
    """
    cuts = 2 * space.parts.shape[0]
    bounds, of_cuts = np.zeros(uses.weights.size + 1, np.int64), np.zeros(cuts, np.int64)
    least = least_of_splits(space, timing, uses)
    best = BestLayout(NONE, -1, -1, share_of(space, 0, 0, 0), 0)
    for split in np.argsort(least):
        if least[split] >= best.total_ps:
            break
        for cut in range(cuts):
            tile = share_of(space, split, cut // 2, cut % 2)
            bounds[:] = 0
            of_cuts[cut] = _bounds_of_cut(space, timing, uses, split, cut // 2, tile, bounds)
        first = int(of_cuts.argmin())
        for turn in range(cuts + 1):
            cut = first if turn == 0 else turn - 1
            if of_cuts[cut] < best.total_ps and (turn == 0 or cut != first):
                best = _better_layout(space, timing, uses, split, cut, best, bounds, chosen)
    return best


@njit
def _better_layout(
    space: Space, timing: Timing, uses: Uses, split: int, cut: int, best: BestLayout, bounds: Ints, chosen: Ints
) -> BestLayout:
    """Return the better of the best layout and those of a cut. Output: `chosen`, as in `sweep_layouts`."""
    smallest, trial = share_of(space, split, cut // 2, cut % 2), np.zeros_like(chosen)
    bounds[:] = 0
    if _bounds_of_cut(space, timing, uses, split, cut // 2, smallest, bounds) >= NONE:
        return best
    tilings = build_tilings(space, smallest)
    for i in range(tilings.shape[0]):
        if tilings[i, 3] or tilings[i, 4]:  # overlaps are chosen for each use
            continue
        tile = tiled(smallest, tilings[i])
        total = layout_total(space, timing, uses, split, cut // 2, tile, bounds, best.total_ps, trial)
        best = BestLayout(best.total_ps, best.split, best.owner, best.share, best.walked + 1)
        if total < best.total_ps:
            best = BestLayout(total, split, cut // 2, tile, best.walked)
            chosen[:] = trial
    return best
