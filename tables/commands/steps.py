"""The steps of a contraction on one core, and the barrier groups that they become.

A core computes `outer` results sets (batch elements times vectors of a shared matrix), each `vectors` accumulators wide and
`depth` input columns deep. A step loads a tile of input columns if it is not there, runs MACs over a tile of accumulators,
and drains them if they are complete or if the next step needs them.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tables.commands.jit import njit
from tables.commands.walk import ADDRESS, DRAINS, LOADS, MACS

Ints = NDArray[np.int64]

#: Orders of the tiles of one result set: all depth tiles of an accumulator tile first, or all accumulator tiles of a depth tile.
OUTPUT_STATIONARY, INPUT_STATIONARY = range(2)


class Share(NamedTuple):
    """What one core computes, and in which tiles.

    `batches` with a matrix of their own, `shared` vectors that meet the same matrix; `outputs` and `depth` elements of each.
    `is_tree`: the lanes of a column lie along the depth, else along the outputs. `has_inputs`: inputs differ along the depth.
    `output_tile` accumulators and `depth_tile` input columns a step; `order`; `overlaps_drains`, `overlaps_loads`: moves run
    beside the MACs of the next or the previous step.
    """

    batches: int
    shared: int
    outputs: int
    depth: int
    lanes: int
    is_tree: int
    has_inputs: int
    output_tile: int
    depth_tile: int
    order: int
    overlaps_drains: int
    overlaps_loads: int


@njit
def ceiling(a: int, b: int) -> int:
    """Return a / b rounded up."""
    return -(-a // b)


@njit
def tile_macs(share: Share, output_tile: int, depth_tile: int) -> int:
    """Return the MACs of one step."""
    first, first_column = output_tile * share.output_tile * share.lanes, depth_tile * share.depth_tile
    outputs = min(share.output_tile * share.lanes, share.outputs - first)
    if share.is_tree:
        return outputs * min(share.depth_tile, ceiling(share.depth, share.lanes) - first_column)
    return ceiling(outputs, share.lanes) * min(share.depth_tile * share.lanes, share.depth - first_column * share.lanes)


@njit
def count_steps(share: Share) -> int:
    """Return the number of steps."""
    outputs = ceiling(ceiling(share.outputs, share.lanes), share.output_tile)
    depths = ceiling(ceiling(share.depth, share.lanes), share.depth_tile)
    return share.batches * share.shared * outputs * depths


@njit
def build_steps(share: Share) -> Ints:
    """Return int64[steps, 4]: MACs, bank column of the first, accumulators to drain after it, input columns to load before it.

    The columns of a core lie in the order in which the first vector meets them; further vectors walk them again.
    """
    vectors, columns = ceiling(share.outputs, share.lanes), ceiling(share.depth, share.lanes)
    outputs, depths = ceiling(vectors, share.output_tile), ceiling(columns, share.depth_tile)
    steps = np.zeros((count_steps(share), 4), np.int64)
    at, base, address = 0, 0, 0
    for _ in range(share.batches):
        for _ in range(share.shared):
            address = base
            for inner in range(outputs * depths):
                if share.order == OUTPUT_STATIONARY:
                    output, depth = inner // depths, inner % depths
                    is_complete, is_loaded = depth == depths - 1, depths == 1 and output > 0
                else:
                    depth, output = inner // outputs, inner % outputs
                    is_complete, is_loaded = True, output > 0
                steps[at, MACS] = tile_macs(share, output, depth)
                steps[at, ADDRESS] = address
                address += steps[at, MACS]
                if is_complete:
                    steps[at, DRAINS] = min(share.output_tile, vectors - output * share.output_tile)
                if not is_loaded and share.has_inputs:
                    steps[at, LOADS] = min(share.depth_tile, columns - depth * share.depth_tile)
                at += 1
        base = address
    if not share.has_inputs:
        steps[0, LOADS] = 1
    return steps


@njit
def build_groups(share: Share, steps: Ints) -> Ints:
    """Return int64[groups, 4]: the barrier groups, in order (`walk.walk`).

    Drains that overlap run beside the MACs of the next step, loads beside those of the step before.
    """
    groups = np.zeros((3 * steps.shape[0] + 2, 4), np.int64)
    size = 0
    for step in range(steps.shape[0]):
        is_first = step == 0
        if steps[step, LOADS] > 0 and (is_first or not share.overlaps_loads):
            groups[size, LOADS] = steps[step, LOADS]
            size += 1
        groups[size, MACS], groups[size, ADDRESS] = steps[step, MACS], steps[step, ADDRESS]
        if share.overlaps_drains and not is_first:
            groups[size, DRAINS] = steps[step - 1, DRAINS]
        if share.overlaps_loads and step + 1 < steps.shape[0]:
            groups[size, LOADS] = steps[step + 1, LOADS]
        size += 1
        if steps[step, DRAINS] > 0 and (not share.overlaps_drains or step == steps.shape[0] - 1):
            groups[size, DRAINS] = steps[step, DRAINS]
            size += 1
    return groups[:size]
