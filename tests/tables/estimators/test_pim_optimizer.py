"""PIM Optimizer's estimator of activations: each equation by hand, and where it is exact and where not."""

import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tables.estimators.pim_optimizer import (
    block_crossing,
    crossing_count,
    crossing_ratio,
    is_small_and_aligned,
    outer_penalty,
    pim_optimizer_activations,
    reuse_penalty,
    sequential_activations,
    streaming_cost,
)
from tests.tables.nests import WEIGHTS, WINDOWS, I, W, build_nest


def test_streaming_cost_is_the_tensor_in_rows() -> None:
    """Eq. 24: at least 1, and not rounded."""
    assert streaming_cost(64, 16) == 4
    assert streaming_cost(24, 16) == 1.5
    assert streaming_cost(1, 16) == 1


def test_reuse_penalty_and_outer_penalty_share_the_irrelevant_loops() -> None:
    """Eq. 25: P5 (nothing relevant inside at DRAM) times Q3 * P7 (row buffer) = 105; Eq. 27's outer: N2."""
    assert reuse_penalty(build_nest(WEIGHTS), W) == 5 * 3 * 7
    assert outer_penalty(build_nest(WEIGHTS), W) == 2


@pytest.mark.parametrize(("tile", "expected"), [(16, True), (8, True), (12, False), (32, False)])
def test_small_and_aligned_tiles_never_straddle_rows(tile: int, expected: bool) -> None:
    """Eq. 26: of rows of 16. Laid end to end, some tile of 12 does, and one of 32 is not small."""
    assert is_small_and_aligned(tile, 16) == expected
    assert expected == all(i * tile // 16 == (i * tile + tile - 1) // 16 for i in range(16))


def test_sequential_activations_stream_or_thrash() -> None:
    """Eq. 26, 27. Rows of 16: tiles of 16 are aligned, 64/16 * 2 = 8. Of 24: 64/24 * 105 * 2 = 560."""
    assert sequential_activations(build_nest(WEIGHTS), W, 16) == 8
    assert sequential_activations(build_nest(WEIGHTS), W, 24) == pytest.approx(560)
    # W is no I: nothing is added (Eq. 32).
    assert pim_optimizer_activations(build_nest(WEIGHTS), W, 16) == 8


def test_aligned_activations_count_tiles() -> None:
    """Eq. 28, 29: K4 tiles of W, N2 outside: 8, for any row."""
    nest = build_nest(WEIGHTS, stored="1 12 1")
    assert pim_optimizer_activations(nest, W, 16) == pim_optimizer_activations(nest, W, 4) == 8


@settings(deadline=None)  # the first example compiles
@given(st.integers(1, 20), st.integers(1, 20), st.integers(0, 40), st.integers(0, 40))
def test_crossing_ratio_is_exact_over_whole_periods(tile: int, block: int, step: int, start: int) -> None:
    """Eq. 31, 58 against every window of a period."""
    period = block // math.gcd(step, block)
    crossing = sum((start + i * step) % block + tile > block for i in range(period))
    assert crossing_ratio(tile, block, step, start) == pytest.approx(crossing / period)


def test_crossing_ratio_follows_dls_equation_11() -> None:
    """(Period - ceil((BlockH - TileH + 1)/g))/Period."""
    # Block 8, tile 3, step 2: g = 2, period 4, safe ceil(6/2) = 3 (0, 2, 4).
    assert crossing_ratio(3, 8, 2) == 1 / 4
    # Block 5, tile 4, step 2: g = 1, period 5, safe 2.
    assert crossing_ratio(4, 5, 2) == pytest.approx(3 / 5)
    # Tile 5 in blocks of 2, step 1: literally (2 - ceil(-2/1))/2 = 2; a share is at most 1.
    assert crossing_ratio(5, 2, 1) == 1


def test_crossing_count_is_an_estimate_for_a_broken_period() -> None:
    """Windows of 4 at 0, 2, 4, 6 in blocks of 5: 2 and 4 cross, 2 windows; Eq. 31 says 4 * 3/5 = 2.4."""
    nest = build_nest(WINDOWS, stored="12 1 1", block_h=5, block_w=4)
    assert sum(p % 5 + 4 > 5 for p in (0, 2, 4, 6)) == 2
    assert crossing_count(nest) == pytest.approx(2.4)


def test_crossing_count_adds_both_axes() -> None:
    """W: 3 windows of 4 (P2, R3) at 0, 2, 4 in blocks of 6: g = 2, period 3, safe ceil(3/2) = 2: 1/3.

    H: 2 windows of 3 (Q3) in blocks of 3: g = 3, period 1, safe 1: 0. 6 tiles: 2.
    """
    nest = build_nest("3P3 3Q2 1P2 1R3 1Q3", stored="12 1 1", block_h=3, block_w=6)
    assert crossing_count(nest) == pytest.approx(2)


def test_crossing_count_splits_the_filter() -> None:
    """S2 at DRAM, dilation 3: windows of 1 + 1 = 2 (Q2) at 0, 2, 4, .. and at 3, 5, 7, .. in blocks of 4.

    g = 2, period 2. From 0: 0 and 2 are safe. From 3: 3 mod 4 crosses, 1 does not: 1/2. Mean 1/4 of Q4 * S2 = 8: 2.
    """
    nest = build_nest("3Q4 3S2 1Q2", stored="12 1 1", block_h=4, block_w=1, dilation=(1, 3))
    assert crossing_count(nest) == pytest.approx(2)


def test_crossing_count_is_zero_without_a_step_or_a_block() -> None:
    """One window that is the whole block crosses nothing (literally 1 - 1/4); a packed I has no blocks."""
    nest = build_nest("3C2 1Q4", stored="12 1 1", block_h=4, block_w=1)
    assert crossing_count(nest) == 0
    assert crossing_ratio(4, 4, 1) == 3 / 4
    assert crossing_count(build_nest(WINDOWS)) == 0


def test_pim_optimizer_adds_block_crossing_for_the_input() -> None:
    """Eq. 30, 32: 2.4 crossings, ReusePenalty K3 * K2 = 6: 2 * 2.4 * 6 = 28.8, and 4 tiles.

    With K3 outside: ReusePenalty 2, OuterPenalty 3: 2 * 2.4 * 2 + 4 * 3 = 21.6.
    """
    blocks: dict[str, Any] = {"stored": "12 1 1", "block_h": 5, "block_w": 4}
    nest = build_nest(WINDOWS, **blocks)
    assert block_crossing(nest) == pytest.approx(28.8)
    assert pim_optimizer_activations(nest, I, 32) == pytest.approx(32.8)
    outside = build_nest("3K3 3Q4 2K2 1Q2 1S3 1P4", **blocks)
    assert pim_optimizer_activations(outside, I, 32) == pytest.approx(21.6)


def test_pim_optimizer_packed_input() -> None:
    """I is 40 bytes. Rows of 16: tiles of 16 are aligned, 2.5. Of 20: 40/20 * 6 = 12."""
    assert pim_optimizer_activations(build_nest(WINDOWS), I, 16) == 2.5
    assert pim_optimizer_activations(build_nest(WINDOWS), I, 20) == 12
