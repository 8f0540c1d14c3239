"""PIM-DLS's estimator: each equation by hand, and where it is exact and where not."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tables.counts.stream import dram_stream, segments
from tables.estimators.pim_dls import (
    average_cost,
    dls_reuse_penalty,
    mean_activations,
    outer_irrelevant_product,
    padded_bytes,
    pim_dls_activations,
    stream_cost,
    thrashing_factor,
    tile_offsets,
)
from tests.tables.nests import WEIGHTS, WINDOWS, I, O, W, build_dram, build_nest


def test_dls_penalties_split_both_levels() -> None:
    """DLS Eq. 16: inner at DRAM P5, at the row buffer P7: 35; Eq. 17's outer: N2 * Q3 = 6."""
    assert dls_reuse_penalty(build_nest(WEIGHTS), W) == 35
    assert outer_irrelevant_product(build_nest(WEIGHTS), W) == 6


@pytest.mark.parametrize(
    ("tile", "reuse", "expected"),
    [(16, 5, 1), (8, 5, 1), (32, 5, 1), (12, 1, 1), (12, 5, 2), (24, 5, 2)],
)
def test_thrashing_factor_doubles_unaligned_reuse(tile: int, reuse: int, expected: int) -> None:
    """M_k of rows of 16: 2 only if tile and row do not divide and the tile is re-read."""
    assert thrashing_factor(tile, reuse, 16) == expected


def test_dls_weights_pay_stream_reuse_and_thrashing() -> None:
    """DLS Eq. 9, 15, 17. Rows of 16: 64/16 * 35 * 1 * 6 = 840. Of 24 (16 unaligned): 64/24 * 35 * 2 * 6 = 1120."""
    assert stream_cost(8, 16) == 0.5
    assert pim_dls_activations(build_nest(WEIGHTS), W, 16) == 840
    assert pim_dls_activations(build_nest(WEIGHTS), W, 24) == pytest.approx(1120)


def test_dls_outputs_pay_at_partial_sum_width_when_spilled() -> None:
    """O has N2 * K4 * Q3 * P35 = 840 elements. At the row buffer C2 has P7 inside: inner 1, outer 2, and tiles return.

    So they are 4-byte partial sums. A tile of Q3 * P7 * 4 = 84 bytes is unaligned, but not re-read at once: M_k = 1.
    840 * 4/16 * 1 * 1 * 2 = 420.
    """
    nest = build_nest(WEIGHTS, width_bytes=(1, 1, 1, 4))
    assert nest.spilled()
    assert pim_dls_activations(nest, O, 16) == 420


def test_dls_aligned_pads_blocks_to_rows() -> None:
    """DLS Eq. 10: 4 blocks of 16 bytes. Rows of 24: 4 * 24/24 * 35 = 140; of 8: 4 * 16/8 * 35 = 280."""
    nest = build_nest(WEIGHTS, stored="1 12 1")
    assert padded_bytes(nest, W, 24) == 96
    assert pim_dls_activations(nest, W, 24) == 140
    assert pim_dls_activations(nest, W, 8) == 280


def test_dls_aligned_input_pads_its_own_blocks() -> None:
    """I of 10 x 4 in 2 blocks of 5 x 4 = 20 bytes, rows of 32: 2 * 32/32 * 6 = 12, and 28.8 for crossings."""
    nest = build_nest(WINDOWS, stored="12 1 1", block_h=5, block_w=4)
    assert padded_bytes(nest, I, 32) == 64
    assert pim_dls_activations(nest, I, 32) == pytest.approx(40.8)


def test_dls_input_amplifies_the_crossings_only() -> None:
    """DLS Eq. 8: tiles of 16 at 0, 8, 16, 24, rows of 16: AvgCost (1+2+1+2)/4 = 1.5; 4 + (6 - 4) * 6 = 16."""
    nest = build_nest(WINDOWS)
    offsets, counts = tile_offsets(nest, 16)
    assert (offsets.tolist(), counts.tolist()) == ([0, 8], [2, 2])
    assert average_cost(nest, 16) == 1.5
    assert pim_dls_activations(nest, I, 16) == 16


@settings(deadline=None)  # the first example compiles
@given(st.integers(1, 3), st.integers(1, 4), st.integers(1, 3), st.integers(0, 1), st.sampled_from([4, 8, 12, 32]))
def test_average_cost_is_the_mean_closed_page_scan(q: int, c: int, p: int, layout: int, row_bytes: int) -> None:
    """AvgCost times tiles is what closed pages open for tiles of several channels, in both layouts."""
    nest = build_nest(f"3Q{q} 3P3 3C{c} 1P{p} 1Q2 1S2 1C2", layout=(layout, 0, 0), stride=(2, 1))
    dram = build_dram(row_bytes)
    assert average_cost(nest, row_bytes) * q * 3 * c == pytest.approx(dram_stream(nest, I, dram).activations)


def test_mean_activations_weighs_offsets() -> None:
    """Lines of 4 at 0 and 8, rows of 8: from 0 rows 0, 1: 2; from 6 (6-9, 14-17) rows 0, 1, 2: 3. (3*2 + 1*3)/4."""
    lines = segments([np.arange(2), np.arange(4)], [8, 1], 1)
    for kernel in (mean_activations, getattr(mean_activations, "py_func", mean_activations)):
        assert kernel(lines, np.arange(2) * 6, np.arange(2) * -2 + 3, 8) == 9 / 4
