"""Rules of loops: a legal mapping, an illegal one, and one at the limit."""

import itertools
from typing import Any

import pytest

from cpsat_pim.arch import ComputeUnit
from cpsat_pim.base.dims import Dim
from cpsat_pim.workload import ConvWorkload
from tests.mapping.check.mappings import build_arch, build_mapping, violations

# --- Factorization (Eq. 10) ------------------------------------------------------------------------------------------


def test_seven_factors_may_split_a_bound() -> None:
    """2 in each of T3, T2, T1, H, T0 makes 32, and a lane dim of its own 2."""
    layer = ConvWorkload(K=32, C=2)
    assert violations(layer, build_mapping("3K2 2K2 1K2 HK2 0K2 LC2", "- 0 0")) == []


@pytest.mark.parametrize("loops", ["3K3", "3K5", "3K2 HK3", ""])
def test_factors_that_miss_the_bound_are_named(loops: str) -> None:
    """K = 4 is neither 3, 5, 6 nor 1."""
    (violation,) = violations(ConvWorkload(K=4), build_mapping(loops))
    assert violation.startswith("K: factors ")
    assert violation.endswith(", the bound is 4")


def test_uneven_split_of_a_prime_is_no_factorization() -> None:
    """7 = 4 + 3, but no product of 2 and 4."""
    assert violations(ConvWorkload(P=7), build_mapping("1P4 0P2")) == [
        "P: factors 1 x 1 x 4 x 1 x 1 x 2 x 1 = 8, the bound is 7"
    ]


# --- PE array (Eq. 13, 18-20) ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("loops", "words"), [("HK2 WK2", "H and W"), ("WK2 LK2", "W and Internal")])
def test_dim_over_two_directions_is_refused_unless_the_array_allows_it(loops: str, words: str) -> None:
    """A dim uses at most one of H, W, Internal (Eq. 13); to spread it over several is an option."""
    layer, mapping = ConvWorkload(K=4), build_mapping(loops)
    assert violations(layer, mapping) == [f"PE array: K is spread over {words}, at most one is allowed"]
    assert violations(layer, mapping, build_arch(array={"exclusive_spatial": False})) == []


def test_dims_may_use_a_direction_each_or_share_one() -> None:
    """K over H and C over W, or both over H."""
    assert violations(ConvWorkload(K=2, C=2), build_mapping("HK2 WC2")) == []
    assert violations(ConvWorkload(K=2, C=2), build_mapping("HK2 HC2")) == []


@pytest.mark.parametrize(
    ("direction", "limit", "text"),
    [("H", 4, "H uses 5 rows"), ("W", 2, "W uses 3 columns"), ("L", 2, "Internal uses 3 lanes of a PE")],
)
def test_factors_fit_rows_columns_and_lanes(direction: str, limit: int, text: str) -> None:
    """All of a direction's places may be used, one more may not (Eq. 18-20)."""
    assert violations(ConvWorkload(K=limit), build_mapping(f"{direction}K{limit}")) == []
    found = violations(ConvWorkload(K=limit + 1), build_mapping(f"{direction}K{limit + 1}"))
    assert found == [f"PE array: {text}, there are {limit}"]


def test_factors_of_all_dims_share_a_direction() -> None:
    """K = 3 and C = 2 take 6 of 4 rows."""
    found = violations(ConvWorkload(K=3, C=2), build_mapping("HK3 HC2"))
    assert found == ["PE array: H uses 6 rows, there are 4"]


@pytest.mark.parametrize(
    ("unit", "spreads"),
    [
        ({"unit_type": "reduction_tree", "num_macs": 2}, "R/S/C"),
        ({"unit_type": "simd", "num_macs": 2, "internal_dim": 4}, "C"),
    ],
)
def test_lanes_take_only_the_dims_of_their_unit(unit: dict[str, Any], spreads: str) -> None:
    """A reduction tree adds lanes up, so K cannot be spread over them; nor where the unit is wired for C."""
    arch = build_arch(array={"compute_unit": ComputeUnit(**unit)})
    assert violations(ConvWorkload(C=2), build_mapping("LC2"), arch) == []
    found = violations(ConvWorkload(K=2), build_mapping("LK2"), arch)
    assert found == [f"PE array: Internal has K = 2, a {unit['unit_type']} unit spreads {spreads}"]


def test_scalar_unit_spreads_nothing() -> None:
    """One lane: the factor is too large, and there is no dim it may belong to."""
    found = violations(ConvWorkload(C=2), build_mapping("LC2"), build_arch(array={"compute_unit": ComputeUnit()}))
    assert found == [
        "PE array: Internal uses 2 lanes of a PE, there are 1",
        "PE array: Internal has C = 2, a scalar unit spreads nothing",
    ]


# --- Loop order (Eq. 15, 16) -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("order", list(itertools.permutations((Dim.C, Dim.K, Dim.P))))
def test_any_order_of_the_loops_is_legal(order: tuple[Dim, ...]) -> None:
    """All six orders of three loops."""
    layer = ConvWorkload(C=2, K=2, P=2)
    assert violations(layer, build_mapping("1C2 1K2 1P2", order=[[], order, [], []])) == []


@pytest.mark.parametrize(
    ("order", "message"),
    [
        ((), "loop C of factor 2 is 0 times in the order (empty), it must be there 1 times"),
        ((Dim.C, Dim.C), "loop C of factor 2 is 2 times in the order CC, it must be there 1 times"),
        ((Dim.C, Dim.K), "loop K of factor 1 is 1 times in the order CK, it must be there 0 times"),
    ],
)
def test_loops_missing_repeated_or_trivial_are_named(order: tuple[Dim, ...], message: str) -> None:
    """A loop of factor 2 is in its level's order once, a loop of factor 1 is not."""
    found = violations(ConvWorkload(C=2), build_mapping("1C2", order=[[], order, [], []]))
    assert found == [f"Gbuf: {message}"]


def test_loop_in_the_order_of_another_level_is_no_help() -> None:
    """C = 2 at the global buffer, ordered at the DRAM: missing here, too much there."""
    assert len(violations(ConvWorkload(C=2), build_mapping("1C2", order=[[], [], [], [Dim.C]]))) == 2
