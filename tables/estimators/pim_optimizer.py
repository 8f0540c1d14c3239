"""PIM Optimizer's row activations (Eq. 24-32, 58): streaming or thrashing, aligned tiles, block crossings."""

import math

from tables.estimators.loops import (
    inner_irrelevant_loops,
    input_step,
    irrelevant_loops,
    outer_irrelevant_loops,
    row_buffer_tiles,
    tensor_bytes,
)
from tables.nest import DRAM, FILTER_OF, ROW_BUFFER, I, Nest, P, Q


def streaming_cost(tensor_bytes: int, row_bytes: int) -> float:
    """Return the activations of one pass over a packed tensor (Eq. 24).

    Not rounded up, as written: 1.5 rows cost 1.5. Exact for whole rows.
    """
    return max(1.0, tensor_bytes / row_bytes)


def reuse_penalty(nest: Nest, t: int) -> int:
    """Return the re-reads of a tile while it stays in use: Reuse_DRAM * Reuse_RowBuffer (Eq. 25).

    Reuse_DRAM, "irrelevant .. inside the DRAM level (L3) but outside the Row Buffer", read literally is every
    irrelevant DRAM loop; then OuterPenalty would charge some of them twice. Eq. 59's x_j divides them: loops with no
    relevant DRAM loop inside ("inner loop reuse") are here, the others in OuterPenalty. Reuse_RowBuffer is every
    irrelevant row-buffer loop, as written.
    """
    return inner_irrelevant_loops(nest, t, DRAM) * irrelevant_loops(nest, t, ROW_BUFFER)


def outer_penalty(nest: Nest, t: int) -> int:
    """Return OuterPenalty of Eq. 27, 29: "repetitions due to outer irrelevant loops" of DRAM, as Eq. 25 leaves them."""
    return outer_irrelevant_loops(nest, t, DRAM)


def is_small_and_aligned(tile_bytes: int, row_bytes: int) -> bool:
    """Return Eq. 26's "Small Block & Aligned", which has no formula: packed tiles fit a row and never straddle two."""
    return row_bytes % tile_bytes == 0


def sequential_activations(nest: Nest, t: int, row_bytes: int) -> float:
    """Return the activations of a packed layout (Eq. 26, 27). The block is the row buffer's tile, as in Eq. 25."""
    base = streaming_cost(tensor_bytes(nest, t), row_bytes)
    if not is_small_and_aligned(tensor_bytes(nest, t, ROW_BUFFER), row_bytes):
        base *= reuse_penalty(nest, t)
    return base * outer_penalty(nest, t)


def aligned_activations(nest: Nest, t: int) -> float:
    """Return the activations of a row-aligned layout: tiles times OuterPenalty (Eq. 28, 29).

    dim_j is the dim's DRAM factor, "the number of tiles", not its bound. A tile costs 1 even if it is longer than a
    row.
    """
    return float(row_buffer_tiles(nest, t) * outer_penalty(nest, t))


def crossing_ratio(tile: int, block: int, step: int, start: int = 0) -> float:
    """Return the share of windows start + i*step that cross a block's edge (Eq. 31, 58; DLS Eq. 11).

    It is 1 - SafePositions/Period.

    g = gcd(step, block), Period = block/g (10.2 calls g itself the period; there are block/g positions before they
    repeat). SafePositions = ceil((block - tile + 1)/g), here at least 0, since a tile longer than its block by more
    than g would make the ratio exceed 1. `start` shifts the positions (DLS: split kernels); with 0 it is the papers'.
    Exact for whole periods of windows.
    """
    g = math.gcd(step, block)
    period = block // g
    safe = max(0, -((start % g - (block - tile + 1)) // g))
    return 1 - safe / period


def crossing_count(nest: Nest) -> float:
    """Return CrossingCount of I's row-buffer tiles (Eq. 31), along H and along W.

    - Eq. 58 names block_h only; Eq. 9 has a block_w, and table (57) is per spatial dim: both axes are counted and
      added.
    - Step: stride times the tile's outputs. An axis whose DRAM loop is 1 never steps (step 0, one position); otherwise
      a tile that is a whole block would be said to cross.
    - A filter dim split over DRAM gives one window per part, averaged ("kernel splitting", DLS 5.1.1).
    - Without blocks (sequential, block 0) nothing crosses. Section 5.5.4 charges "both modes"; a packed tensor has no
      layout block to cross, and what its tiles do at rows is Eq. 26's.
    """
    return _crossings(nest, P, nest.block_w) + _crossings(nest, Q, nest.block_h)


def _crossings(nest: Nest, axis: int, block: int) -> float:
    """Return the tiles of I that cross a block's edge along one axis."""
    if block == 0:
        return 0.0
    filters = FILTER_OF[axis]
    parts = nest.temporal[DRAM][filters]
    step = input_step(nest, axis, nest.extent(ROW_BUFFER, axis)) if nest.temporal[DRAM][axis] > 1 else 0
    shift = input_step(nest, filters, nest.extent(ROW_BUFFER, filters))
    tile = nest.side(I, ROW_BUFFER, axis)
    ratios = [crossing_ratio(tile, block, step, part * shift) for part in range(parts)]
    return row_buffer_tiles(nest, I) * sum(ratios) / parts


def block_crossing(nest: Nest) -> float:
    """Return BlockCrossing (Eq. 30): both ways, for every re-read, but as written not for those of OuterPenalty."""
    return 2 * crossing_count(nest) * reuse_penalty(nest, I)


def pim_optimizer_activations(nest: Nest, t: int, row_bytes: int) -> float:
    """Return row_acts of a tensor (Eq. 32).

    Loops inside the row buffer are ignored, even if no level below stores t. O's read-backs are not counted.
    """
    is_aligned = nest.stored[ROW_BUFFER][t]
    acts = aligned_activations(nest, t) if is_aligned else sequential_activations(nest, t, row_bytes)
    return acts + (block_crossing(nest) if t == I else 0.0)
