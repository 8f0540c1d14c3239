"""The steps of a contraction on one core, and the barrier groups that they become.

A core computes `outer` results sets (batch elements times vectors of a shared matrix), each `vectors` accumulators wide
and `depth` input columns deep. A step loads a tile of input columns if it is not there, runs MACs over a tile of
accumulators, and drains them if they are complete or if the next step needs them.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tables.commands.walk import ADDRESS, DRAIN_STEP, DRAINS, LOAD_STEP, LOADS, MAC_STEP, MACS
from tables.jit import njit

Ints = NDArray[np.int64]

#: Orders of the tiles of one result set: all depth tiles of an accumulator tile first, or all accumulator tiles of a
#: depth tile.
OUTPUT_STATIONARY, INPUT_STATIONARY = range(2)


class Share(NamedTuple):
    """What one core computes, and in which tiles.

    `batches` with a matrix of their own, `shared` vectors that meet the same matrix; `outputs` and `depth` elements of
    each. `is_tree`: the lanes of a column lie along the depth, else along the outputs. `has_inputs`: inputs differ
    along the depth. `output_tile` accumulators and `depth_tile` input columns a step; `order`; `overlaps_drains`,
    `overlaps_loads`: moves run beside the MACs of the next or the previous step.
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
def pass_columns(share: Share) -> int:
    """Return the bank columns of one batch element: what one vector walks over."""
    if share.is_tree:
        return share.outputs * ceiling(share.depth, share.lanes)
    return ceiling(share.outputs, share.lanes) * share.depth


@njit
def returns_too_soon(share: Share, columns: int) -> bool:
    """Whether a vector needs a row again while the queue may still hold MACs of that row.

    The controller keeps a row open as long as anything in its queue hits it, so that the tick of a PRE would depend on
    how far the queue reaches. Of more than two rows, more than a row lies between, and it cannot reach that far (a
    queue of at most `columns` + 1 entries). Batch elements of at most a row never straddle one (`build_steps`).
    """
    return share.shared > 1 and columns < pass_columns(share) <= 2 * columns


@njit
def place_batch(share: Share, batch: int, columns: int) -> int:
    """Return the first column of a batch element: dense, but within one row if several vectors walk over it."""
    size = pass_columns(share)
    if share.shared == 1 or size > columns:
        return batch * size
    per_row = columns // size
    return batch // per_row * columns + batch % per_row * size


@njit
def count_steps(share: Share) -> int:
    """Return the number of steps."""
    outputs = ceiling(ceiling(share.outputs, share.lanes), share.output_tile)
    depths = ceiling(ceiling(share.depth, share.lanes), share.depth_tile)
    return share.batches * share.shared * outputs * depths


@njit
def build_steps(share: Share, columns_a_row: int) -> Ints:
    """Return int64[steps, 4]: MACs, bank column of the first, accumulators to drain after it, input columns to load
    before it.

    The columns of a core lie in the order in which the first vector meets them; further vectors walk them again.
    """
    vectors, columns = ceiling(share.outputs, share.lanes), ceiling(share.depth, share.lanes)
    outputs, depths = ceiling(vectors, share.output_tile), ceiling(columns, share.depth_tile)
    steps = np.zeros((count_steps(share), 4), np.int64)
    at = 0
    for batch in range(share.batches):
        for _ in range(share.shared):
            address = place_batch(share, batch, columns_a_row)
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
    if not share.has_inputs:
        steps[0, LOADS] = 1
    return steps


@njit
def build_groups(share: Share, steps: Ints, drain_moves: int, load_moves: int) -> Ints:
    """Return int64[groups, 8]: the barrier groups, in order (`walk.walk`).

    Drains that overlap run beside the MACs of the next step, loads beside those of the step before. If both do, a
    barrier keeps them apart, and the MACs are divided in proportion to the moves: mixed, a move could be ready before
    an earlier one.
    """
    groups = np.zeros((4 * steps.shape[0] + 2, 8), np.int64)
    size, last = 0, steps.shape[0] - 1
    for step in range(steps.shape[0]):
        if steps[step, LOADS] > 0 and (step == 0 or not share.overlaps_loads):
            groups[size, LOADS], groups[size, LOAD_STEP] = steps[step, LOADS], step
            size += 1
        drained, loaded = 0, 0
        if share.overlaps_drains and step > 0:
            drained = steps[step - 1, DRAINS]
        if share.overlaps_loads and step < last:
            loaded = steps[step + 1, LOADS]
        macs = steps[step, MACS]
        first = macs
        if drained > 0 and loaded > 0:
            moves = drained * drain_moves + loaded * load_moves
            first = macs * drained * drain_moves // moves
        groups[size, MACS], groups[size, ADDRESS], groups[size, MAC_STEP] = first, steps[step, ADDRESS], step
        groups[size, DRAINS], groups[size, DRAIN_STEP] = drained, step - 1
        if drained > 0 and loaded > 0:
            size += 1
            groups[size, MACS], groups[size, MAC_STEP] = macs - first, step
            groups[size, ADDRESS] = steps[step, ADDRESS] + first
        groups[size, LOADS], groups[size, LOAD_STEP] = loaded, step + 1
        size += 1
        if steps[step, DRAINS] > 0 and (not share.overlaps_drains or step == last):
            groups[size, DRAINS], groups[size, DRAIN_STEP] = steps[step, DRAINS], step
            size += 1
    return groups[:size]
