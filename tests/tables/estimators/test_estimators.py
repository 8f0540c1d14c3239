"""What all the seeds' estimators have in common, and where streaming is exact and where not."""

import math

from hypothesis import given, settings
from hypothesis import strategies as st

from cpsat_pim.base.dims import Dim
from tables.counts.stream import dram_stream
from tables.estimators import COVERS, ESTIMATORS
from tables.estimators.pim_optimizer import (
    pim_optimizer_activations,
    streaming_cost,
)
from tables.nest import Nest
from tests.tables.nests import I, O, W, build_dram, build_nest


@st.composite
def nests(draw: st.DrawFn) -> Nest:
    """Small nests of all dims, levels, placements and layouts."""
    loops = []
    for d in Dim:
        for place in draw(st.lists(st.sampled_from("3210HWL"), max_size=2, unique=True)):
            loops.append(f"{place}{d.name}{draw(st.integers(2, 3))}")
    stored = "".join(level for level in "012" if draw(st.booleans())) or "-"
    stored += " " + draw(st.sampled_from(["-", "1", "12", "02"])) + " " + draw(st.sampled_from(["-", "0", "1", "2"]))
    nest = build_nest(
        " ".join(draw(st.permutations(loops))),
        stored,
        layout=tuple(draw(st.integers(0, 1)) for _ in range(3)),
        stride=(draw(st.integers(1, 3)), draw(st.integers(1, 3))),
        dilation=(draw(st.integers(1, 2)), draw(st.integers(1, 2))),
        width_bytes=draw(st.sampled_from([(1, 1, 1, 4), (2, 1, 2, 4)])),
    )
    if nest.stored[2][I]:
        nest = nest._replace(block_h=draw(st.integers(1, 4)), block_w=draw(st.integers(1, 4)))
    return nest


@settings(deadline=None)  # the first example compiles
@given(nests(), st.sampled_from([8, 32, 1024]))
def test_estimates_are_finite_and_not_negative(nest: Nest, row_bytes: int) -> None:
    """Every estimator, every tensor that it covers."""
    assert set(ESTIMATORS) == set(COVERS)
    for name, estimate in ESTIMATORS.items():
        for t in COVERS[name]:
            value = estimate(nest, t, build_dram(row_bytes))
            assert isinstance(value, float)
            assert math.isfinite(value)
            assert value >= 0


@settings(deadline=None)  # the first example compiles
@given(st.integers(1, 3), st.integers(1, 3), st.integers(1, 4), st.integers(0, 1), st.integers(1, 4), st.booleans())
def test_streaming_cost_is_exact_for_one_fetch_of_whole_rows(
    c: int, k: int, pixels: int, layout: int, banks: int, is_open: bool
) -> None:
    """Eq. 24 is the exact count when a packed tensor of whole rows is fetched once, whole: each row opens once."""
    nest = build_nest(f"1C{16 * c} 1K{16 * k} 1P{pixels} 1Q2", layout=(layout,) * 3)
    for t, size in ((I, 32 * c * pixels), (W, 256 * c * k), (O, 32 * k * pixels)):
        exact = dram_stream(nest, t, build_dram(16, is_open, banks)).activations
        assert streaming_cost(size, 16) == exact
        assert pim_optimizer_activations(nest, t, 16) == exact


def test_streaming_cost_is_below_the_count_of_a_broken_row() -> None:
    """1.5 rows are 2 activations, Eq. 24 says 1.5."""
    nest = build_nest("1C24")
    assert dram_stream(nest, W, build_dram(16)).activations == 2
    assert pim_optimizer_activations(nest, W, 16) == 1.5
