"""PIM-DLS's row activations (DLS Eq. 7-11, 15-17): a table for I, a hybrid cost model for W and O."""

import math

import numpy as np

from tables.counts.stream import segments
from tables.estimators.hybrid_cost_model import open_line
from tables.estimators.loops import (
    AXIS_OF,
    inner_irrelevant_loops,
    input_extent,
    input_pitches,
    input_step,
    outer_irrelevant_loops,
    row_buffer_tiles,
    tensor_bytes,
)
from tables.estimators.pim_optimizer import crossing_count
from tables.jit import njit
from tables.nest import AXES, DRAM, IRRELEVANT, ROW_BUFFER, C, G, I, Ints, N, Nest, P, Q


def stream_cost(tensor_bytes: int, row_bytes: int) -> float:
    """Return C_stream (DLS Eq. 15): unlike Eq. 24 not at least 1."""
    return tensor_bytes / row_bytes


def dls_reuse_penalty(nest: Nest, t: int) -> int:
    """Return ReusePenalty (DLS Eq. 16): the irrelevant loops with x_j = 0, inner ones of their level.

    DRAM's and the row buffer's. 3.1.5 says x_j = 1 iff a relevant loop is inside j, so 1 - x_j = 1 are the loops that
    re-read the same tile. Section 5.2.1 calls L2 the global buffer; section 1.1 and the sum's other factor make it
    the row buffer.
    """
    return inner_irrelevant_loops(nest, t, DRAM) * inner_irrelevant_loops(nest, t, ROW_BUFFER)


def outer_irrelevant_product(nest: Nest, t: int) -> int:
    """Return OuterIrrProduct of DLS Eq. 17, undefined there: the loops that Eq. 16 leaves, at both levels."""
    return outer_irrelevant_loops(nest, t, DRAM) * outer_irrelevant_loops(nest, t, ROW_BUFFER)


def thrashing_factor(tile_bytes: int, reuse: int, row_bytes: int) -> int:
    """Return M_k (DLS 5.2.1): 2 for an unaligned tile that is re-read, else 1.

    Aligned: tile and row divide one another. "Or inner loops switch rows often" is taken as the reason for the 2, not
    as a second case: an aligned tile of several rows switches too, but ReusePenalty already pays for all its rows.
    """
    is_aligned = row_bytes % tile_bytes == 0 or tile_bytes % row_bytes == 0
    return 1 if is_aligned or reuse == 1 else 2


@njit
def mean_activations(lines: Ints, offsets: Ints, counts: Ints, row_bytes: int) -> float:
    """Return the mean cold cost of a tile of byte lines int[n, 2] at the offsets int[m], each `counts` times."""
    total = 0
    for i in range(offsets.shape[0]):
        active = -1
        for j in range(lines.shape[0]):
            start = offsets[i] + lines[j, 0]
            total += counts[i] * open_line(start, lines[j, 1], active, row_bytes)
            active = (start + lines[j, 1] - 1) // row_bytes
    return float(total / counts.sum())


def tile_offsets(nest: Nest, row_bytes: int) -> tuple[Ints, Ints]:
    """Return int64[n], int64[n]: distinct offsets in a row of the packed I's row-buffer tiles, and tiles per offset."""
    pitches = input_pitches(nest)
    offsets, counts = np.zeros(1, np.int64), np.ones(1, np.int64)
    for d in nest.order[DRAM]:
        if d not in IRRELEVANT[I]:
            factor = nest.temporal[DRAM][d]
            step = input_step(nest, d, nest.extent(ROW_BUFFER, d)) * pitches[AXIS_OF.get(d, d)]
            found = np.add.outer(offsets, step * np.arange(factor)).ravel() % row_bytes
            offsets, place = np.unique(found, return_inverse=True)
            counts = np.bincount(place.ravel(), np.repeat(counts, factor)).astype(np.int64)
    return offsets, counts


def average_cost(nest: Nest, row_bytes: int) -> float:
    """Return AvgCost of DLS Eq. 8: mean activations of one row-buffer tile of the packed I.

    3.3.1 has activations per tile, 5.1.2 "additional" ones; Eq. 8 subtracts the first itself, so it is 3.3.1's. The
    mean is taken over the mapping's own tiles, scanned in address order with no row open at first (HCM algorithm 1
    with channels).
    """
    pitches = input_pitches(nest)
    axes = AXES[I][nest.layout[I]]
    sets = [np.arange(input_extent(nest, ROW_BUFFER, a)) for a in axes]
    width = nest.width(I, DRAM)
    lines = segments(sets, [pitches[a] // width for a in axes], width)
    return float(mean_activations(lines, *tile_offsets(nest, row_bytes), row_bytes))


def input_sequential(nest: Nest, row_bytes: int) -> float:
    """Return the activations of a packed I (DLS Eq. 8): one activation a tile, and what is above it times ReusePenalty.

    As written there is no factor for outer irrelevant loops, so an outermost K is free.
    """
    tiles = row_buffer_tiles(nest, I)
    return tiles + (average_cost(nest, row_bytes) * tiles - tiles) * dls_reuse_penalty(nest, I)


def weight_output_sequential(nest: Nest, t: int, row_bytes: int) -> float:
    """Return the activations of a packed W or O (DLS Eq. 9, 17): 1 + I_penalty is M_k, Reuse the two products."""
    reuse = dls_reuse_penalty(nest, t)
    m_k = thrashing_factor(tensor_bytes(nest, t, ROW_BUFFER), reuse, row_bytes)
    return stream_cost(tensor_bytes(nest, t), row_bytes) * reuse * m_k * outer_irrelevant_product(nest, t)


def padded_bytes(nest: Nest, t: int, row_bytes: int) -> int:
    """Return TotalBytes_padded of DLS Eq. 10: every layout block padded to whole rows.

    "Each row of data is padded to a DRAM row boundary": the row of data is read as the layout block, the unit that is
    aligned. Our layout packs several small blocks in one row (model.md 3); DLS does not.
    """
    block_bytes, blocks = tensor_bytes(nest, t, ROW_BUFFER), row_buffer_tiles(nest, t)
    if t == I:
        packed = math.prod(nest.extent(ROW_BUFFER, d) for d in (N, G, C))
        block_bytes = packed * nest.block_h * nest.block_w * nest.width(I, DRAM)
        blocks = math.prod(nest.temporal[DRAM][d] for d in (N, G, C))
        blocks *= -(-nest.side(I, DRAM, Q) // nest.block_h) * -(-nest.side(I, DRAM, P) // nest.block_w)
    return blocks * -(-block_bytes // row_bytes) * row_bytes


def dls_aligned(nest: Nest, t: int, row_bytes: int) -> float:
    """Return the activations of a row-aligned layout (DLS Eq. 10), as written without outer irrelevant loops."""
    return padded_bytes(nest, t, row_bytes) / row_bytes * dls_reuse_penalty(nest, t)


def dls_block_crossing(nest: Nest) -> float:
    """Return Cost_BlockCrossing: N_tiles * P_cross * C_penalty (DLS Eq. 11).

    C_penalty is undefined; it is Eq. 30's 2 * ReusePenalty. Eq. 11 names BlockH only, 3.1.6 has both:
    `crossing_count` adds W.
    """
    return 2 * crossing_count(nest) * dls_reuse_penalty(nest, I)


def pim_dls_activations(nest: Nest, t: int, row_bytes: int) -> float:
    """Return TotalCost of a tensor (DLS Eq. 7). Only I has BlockCrossing."""
    crossing = dls_block_crossing(nest) if t == I else 0.0
    if nest.stored[ROW_BUFFER][t]:
        return dls_aligned(nest, t, row_bytes) + crossing
    if t == I:
        return input_sequential(nest, row_bytes) + crossing
    return weight_output_sequential(nest, t, row_bytes)
