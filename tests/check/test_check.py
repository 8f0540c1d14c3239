"""The validator, rule by rule: a legal mapping, an illegal one, and one at the limit."""

import itertools
import math
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cpsat_pim.arch import ComputeUnit, PhyDim2, PIMArchitecture
from cpsat_pim.check import box_elems, check_fits
from cpsat_pim.dims import RELEVANT, Dim, Tensor
from cpsat_pim.workload import ConvWorkload
from tests.check.mappings import (
    GLOBAL_BUFFER,
    PE,
    ROOMY,
    ROW_BUFFER,
    build_arch,
    build_mapping,
    change_level,
    violations,
)

# --- Factorization (Eq. 10, 12) --------------------------------------------------------------------------------------


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


@pytest.mark.parametrize("factor", [0, -2, 2.0, True, "2", None])
def test_factors_must_be_positive_integers(factor: Any) -> None:
    """Neither 0, a negative number, a float, a boolean, a text nor nothing is a factor."""
    temporal = [[1] * 8, [1] * 8, [1] * 8, [1] * 4 + [factor] + [1] * 3]
    assert violations(ConvWorkload(), build_mapping(temporal=temporal)) == [
        f"Dram: the temporal factor of C must be a positive integer (got {factor!r})"
    ]


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("temporal", [[1] * 8] * 3, "temporal: must have 4 rows (got 3)"),
        ("temporal", [[1] * 8] * 3 + [[1] * 7], "Dram: must have 8 temporal factors (got 7)"),
        ("spatial", [[1] * 8] * 2, "spatial: must have 3 rows (got 2)"),
        ("spatial", [[1] * 8, [1] * 7 + [0], [1] * 8], "W: the spatial factor of G must be a positive integer (got 0)"),
        ("order", [[]] * 3, "order: must have 4 levels (got 3)"),
        ("order", [[8], [], [], []], "Pe: the order must name dims (got 8)"),
        ("order", [[], ["C"], [], []], "Gbuf: the order must name dims (got 'C')"),
        ("stored", [[True] * 3] * 2, f"stored: must have 3 levels of 3 tensors (got {((True,) * 3,) * 2})"),
        ("stored", [[1] * 3] * 3, f"stored: must be true or false (got {((1,) * 3,) * 3})"),
        ("layout", (0, 0), "layout: must be 0 or 1 for each of I, W, O (got (0, 0))"),
        ("block_h", 1.0, "block_h: must be an integer (got 1.0)"),
        ("block_w", None, "block_w: must be an integer (got None)"),
        ("outside", [[0] * 3], f"outside: must have 2 levels of 3 tensors (got {((0,) * 3,)})"),
        ("outside", [[0] * 3, [0, 1, 0]], "Gbuf: the loops outside a tile must be 0 to 0 (got 1)"),
        ("outside", [[0, -1, 0], [0] * 3], "Pe: the loops outside a tile must be 0 to 0 (got -1)"),
        ("outside", [[True, 0, 0], [0] * 3], "Pe: the loops outside a tile must be 0 to 0 (got True)"),
    ],
)
def test_malformed_mappings_are_told_so(field: str, value: Any, message: str) -> None:
    """Tables of the wrong size or type are named, and nothing is computed from them."""
    assert violations(ConvWorkload(), attrs.evolve(build_mapping(), **{field: value})) == [message]


# --- PE array (Eq. 13, 18-20) ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("loops", "words"), [("HK2 WK2", "H and W"), ("WK2 LK2", "W and Internal")])
def test_dim_over_two_directions_is_refused_unless_the_array_allows_it(loops: str, words: str) -> None:
    """A dim uses at most one of H, W, Internal (Eq. 13); 000 section 7.2 splits dims, which is an option."""
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
def test_loops_left_out_repeated_or_trivial_are_named(order: tuple[Dim, ...], message: str) -> None:
    """A loop of factor 2 is in its level's order once, a loop of factor 1 is not."""
    found = violations(ConvWorkload(C=2), build_mapping("1C2", order=[[], order, [], []]))
    assert found == [f"Gbuf: {message}"]


def test_loop_in_the_order_of_another_level_is_no_help() -> None:
    """C = 2 at the global buffer, ordered at the DRAM: missing here, too much there."""
    assert len(violations(ConvWorkload(C=2), build_mapping("1C2", order=[[], [], [], [Dim.C]]))) == 2


# --- Residency -------------------------------------------------------------------------------------------------------

UNEVEN = build_arch(uneven_residency=True)


def uneven_violations(
    loops: str, stored: str, pe: tuple[int, ...] = (0, 0, 0), buffer: tuple[int, ...] = (0, 0, 0)
) -> list[str]:
    """What is wrong on a machine with uneven residency when so many loops lie outside each tile."""
    bounds = {dim.name: math.prod(int(w[2:]) for w in loops.split() if w[1] == dim.name) for dim in Dim}
    return violations(ConvWorkload(**bounds), build_mapping(loops, stored, outside=(pe, buffer)), UNEVEN)


@pytest.mark.parametrize("outside", [(0, 1, 0), (0, 3, 0), (3, 0, 1), (3, 3, 1)])
def test_tiles_may_cover_fewer_loops_where_the_machine_allows_it(outside: tuple[int, ...]) -> None:
    """Loops K C S: the last loop outside moves W (K or S), I (S) and O (K); on other machines each is refused."""
    loops = "K2 C2 S2"
    pe, buffer = (" ".join(level + loop for loop in loops.split()) for level in "01")
    assert uneven_violations(pe, "01 01 01", pe=outside) == []
    assert uneven_violations(buffer, "1 1 1", buffer=outside) == []
    found = violations(ConvWorkload(K=2, C=2, S=2), build_mapping(buffer, "1 1 1", outside=((0, 0, 0), outside)))
    assert len(found) == sum(count > 0 for count in outside)
    assert all(line.endswith("of the loops KCS, the machine has no uneven residency") for line in found)
    assert any(" covers none of " in line for line in found) == (3 in outside)


def test_only_stored_tiles_are_uneven() -> None:
    """The global buffer does not hold W."""
    assert uneven_violations("1K2 1C3", "1 0 1", buffer=(0, 1, 0)) == [
        "Gbuf: the tile of W covers C of the loops KC, but is not stored"
    ]


def test_points_lie_right_inside_a_loop_that_moves_the_tile() -> None:
    """N does not move W: with K alone outside, the tile is the same one."""
    assert uneven_violations("1K2 1N2 1C2", "1 1 1", buffer=(0, 2, 0)) == [
        "Gbuf: N does not change the tile of W, which must cover it"
    ]
    assert uneven_violations("1K2 1N2 1C2", "1 1 1", buffer=(0, 1, 0)) == []


def test_uneven_tiles_of_several_pes_come_through_the_global_buffer() -> None:
    """K over 2 PEs and outside the tile: they would take indices 2 apart. C is not spread, and in I there is no K."""
    text = (
        "W: the global buffer does not hold it, so K, spread over 2 PEs, cannot also loop outside its tile within a PE"
    )
    for stored in ("0 0 0", "0 02 0"):
        assert uneven_violations("HK2 0K2 0C2", stored, pe=(0, 1, 0)) == [text]
    assert uneven_violations("HK2 0K2 0C2", "0 01 0", pe=(0, 1, 0)) == []
    assert uneven_violations("HK2 0C2 0K2", "0 0 0", pe=(1, 1, 0)) == []
    assert uneven_violations("HK2 0K2 0C2", "0 0 0", pe=(2, 0, 0)) == []


def test_strided_positions_are_spread_where_pes_hold_one_at_a_time() -> None:
    """A PE takes its two rows one after another, so the PEs' columns are a regular grid."""
    layer, stride = ConvWorkload(P=2, Q=2, stride=(2, 2)), "cannot be spread over P or Q"
    (found,) = violations(layer, build_mapping("HP2 0Q2", "0 0 0"), UNEVEN)
    assert found.endswith(stride)
    mapping = build_mapping("HP2 0Q2", "0 0 0", outside=((1, 0, 0), (0, 0, 0)))
    assert violations(layer, mapping, UNEVEN) == []


# --- Direct steps ----------------------------------------------------------------------------------------------------


def direct_step_text(tensor: str, dim: str, pes: int, loop: int) -> str:
    """The complaint about a dim that is both spread over PEs and looped over within one."""
    return f"{tensor}: no buffer holds it, so {dim}, spread over {pes} PEs, cannot also loop within a PE (got {loop})"


@pytest.mark.parametrize("loops", ["HK2 1K2", "HK2 3K2", "0K4", "HK4"])
def test_macs_may_draw_neighbouring_indices_directly(loops: str) -> None:
    """K over PEs and looped over outside the array, or only one of the two, is legal with no buffer at all."""
    assert violations(ConvWorkload(K=4), build_mapping(loops)) == []


@pytest.mark.parametrize("stored", ["- - -", "- 2 2"])
def test_macs_cannot_draw_scattered_indices_directly(stored: str) -> None:
    """Two PEs that loop over two of K each draw indices 2 apart; the row buffer is no buffer in between."""
    found = violations(ConvWorkload(K=4), build_mapping("HK2 0K2", stored))
    assert found == [direct_step_text("W", "K", 2, 2), direct_step_text("O", "K", 2, 2)]


def test_direct_steps_matter_to_unbuffered_tensors_and_their_dims_alone() -> None:
    """A buffer at either level frees its tensor, I has no K, and lanes beside the PEs leave indices neighbours."""
    layer = ConvWorkload(K=4)
    assert violations(layer, build_mapping("HK2 0K2", "- 0 1")) == []
    assert violations(layer, build_mapping("HK2 0K2", "- 0 -")) == [direct_step_text("O", "K", 2, 2)]
    assert violations(layer, build_mapping("HK2 0K2", "- - 1")) == [direct_step_text("W", "K", 2, 2)]
    assert violations(layer, build_mapping("HK2 LK2"), build_arch(array={"exclusive_spatial": False})) == []


def test_rows_and_columns_of_pes_both_spread_a_dim() -> None:
    """K over 2 x 2 PEs is 4 PEs, whichever direction its factors are in."""
    arch = build_arch(array={"exclusive_spatial": False})
    assert violations(ConvWorkload(K=4), build_mapping("HK2 WK2", "- 1 -"), arch) == []
    found = violations(ConvWorkload(K=8), build_mapping("HK2 WK2 0K2", "- 1 -"), arch)
    assert found == [direct_step_text("O", "K", 4, 2)]


# --- Input scans -----------------------------------------------------------------------------------------------------

DIRECT_WINDOW = "I: a filter window must come through a buffer, MACs cannot draw it straight from DRAM"
STEPPED_WINDOW = "I: PEs cannot take a strided or dilated window straight from DRAM, it must come through a buffer"
SCATTERED_GRID = "I: PEs that take several strided positions each straight from DRAM cannot be spread over P or Q"


def input_violations(layer: ConvWorkload, loops: str, stored: str) -> list[str]:
    """What is wrong where so many levels store I; O is in the PEs, and I in the row buffer has blocks of 1 x 1."""
    side = int("2" in stored)
    return violations(layer, build_mapping(loops, f"{stored} - 0", block_h=side, block_w=side))


@pytest.mark.parametrize("loops", ["0R2 1P2", "HR2 HP2", "3S2 0Q2"])
@pytest.mark.parametrize("stored", ["0", "1", "2", "012"])
def test_filter_windows_come_through_any_buffer(loops: str, stored: str) -> None:
    """A window of stride and dilation 1 may come from any level that stores I, but not straight from DRAM."""
    layer = ConvWorkload(**{word[1]: int(word[2:]) for word in loops.split()})
    assert input_violations(layer, loops, stored) == []
    assert input_violations(layer, loops, "-") == [DIRECT_WINDOW]


@pytest.mark.parametrize(("stride", "dilation"), [((1, 1), (1, 1)), ((2, 1), (1, 1)), ((1, 3), (2, 2))])
def test_filter_of_one_element_has_no_window(stride: tuple[int, int], dilation: tuple[int, int]) -> None:
    """With a 1x1 filter MACs may draw I straight from DRAM, at any stride; with one element more they cannot."""
    layer = ConvWorkload(P=2, Q=2, stride=stride, dilation=dilation)
    assert input_violations(layer, "HP2 1Q2", "-") == []
    assert input_violations(attrs.evolve(layer, R=2), "HP2 1Q2 1R2", "-") == [DIRECT_WINDOW]
    assert input_violations(attrs.evolve(layer, S=2), "HP2 1Q2 1S2", "-") == [DIRECT_WINDOW]


@pytest.mark.parametrize("steps", [{"stride": (2, 1)}, {"stride": (1, 2)}, {"dilation": (2, 1)}, {"dilation": (1, 2)}])
@pytest.mark.parametrize("loops", ["0R2 0P2", "0S2 0P2"])
def test_stepped_windows_come_through_a_shared_buffer(steps: dict[str, tuple[int, int]], loops: str) -> None:
    """A stride or dilation of 2 along any axis needs the global or row buffer; with steps of 1 the PEs will do."""
    layer = ConvWorkload(**{word[1]: int(word[2:]) for word in loops.split()})
    assert input_violations(layer, loops, "0") == []
    stepped = attrs.evolve(layer, **steps)
    assert input_violations(stepped, loops, "0") == [STEPPED_WINDOW]
    for stored in ("01", "02", "1", "2"):
        assert input_violations(stepped, loops, stored) == []


@pytest.mark.parametrize("loops", ["HP2 1P2 1Q4", "HP4 WQ2 3Q2", "0P4 0Q4", "HK2 0P4 0Q4"])
def test_strided_positions_may_be_spread_or_gathered(loops: str) -> None:
    """PEs fed from DRAM at a stride hold one position each, or are not spread over P and Q at all."""
    layer = ConvWorkload(P=4, Q=4, K=2 if "K" in loops else 1, stride=(2, 1))
    assert input_violations(layer, loops, "0") == []


@pytest.mark.parametrize("loops", ["HP2 0P2", "HQ2 0P4 0Q2", "HQ2 LP2", "WP2 0Q2"])
def test_strided_positions_cannot_be_spread_and_gathered(loops: str) -> None:
    """Several positions in each of several PEs are no grid, but are with a buffer, or without the stride."""
    bounds = {d: math.prod(int(word[2:]) for word in loops.split() if word[1] == d) for d in "PQ"}
    layer = ConvWorkload(**bounds, stride=(1, 2))
    assert input_violations(layer, loops, "0") == [SCATTERED_GRID]
    assert input_violations(layer, loops, "01") == []
    assert input_violations(layer, loops, "02") == []
    assert input_violations(attrs.evolve(layer, stride=(1, 1)), loops, "0") == []
    assert input_violations(attrs.evolve(layer, stride=(1, 1), dilation=(2, 2)), loops, "0") == []


# --- Bypass (Eq. 6) --------------------------------------------------------------------------------------------------


def test_level_cannot_store_what_it_is_not_made_for() -> None:
    """A global buffer for I and O may hold either or none; W it cannot hold."""
    arch = change_level(build_arch(), GLOBAL_BUFFER, stores=[True, False, True])
    for stored in ("- - -", "1 - -", "- - 1", "1 - 1"):
        assert violations(ConvWorkload(), build_mapping(stored=stored), arch) == []
    assert violations(ConvWorkload(), build_mapping(stored="1 1 1"), arch) == ["Gbuf: cannot store W"]


def test_level_with_a_defined_bypass_stores_exactly_its_tensors() -> None:
    """With bypass_defined the mask is what is stored, no more and no less."""
    arch = change_level(build_arch(), PE, stores=[False, True, True], bypass_defined=True)
    assert violations(ConvWorkload(), build_mapping(stored="- 0 0"), arch) == []
    found = violations(ConvWorkload(), build_mapping(stored="0 0 -"), arch)
    assert found == ["Pe: cannot store I", "Pe: must store O"]


# --- Relevancy (section 12.1) ----------------------------------------------------------------------------------------

SMALL = st.integers(1, 3)
LAYERS = st.builds(
    ConvWorkload, stride=st.tuples(SMALL, SMALL), dilation=st.tuples(SMALL, SMALL), **{dim.name: SMALL for dim in Dim}
)


@given(layer=LAYERS, extents=st.tuples(*[SMALL] * 8), dim=st.sampled_from(Dim), tensor=st.sampled_from(Tensor))
def test_only_relevant_dims_change_a_tile(layer: ConvWorkload, extents: Any, dim: Dim, tensor: Tensor) -> None:
    """One more along a dim makes a tile larger exactly if the dim is relevant to the tensor."""
    longer = tuple(extent + (d == dim) for d, extent in zip(Dim, extents, strict=True))
    grows = box_elems(layer, longer, tensor) > box_elems(layer, extents, tensor)
    assert grows == (dim in RELEVANT[tensor])


@given(layer=LAYERS)
def test_whole_box_of_input_is_what_the_macs_span(layer: ConvWorkload) -> None:
    """The box of all extents spans the first to the last column and row that any MAC reads."""
    columns = {
        layer.stride[0] * p + layer.dilation[0] * r for p, r in itertools.product(range(layer.P), range(layer.R))
    }
    rows = {layer.stride[1] * q + layer.dilation[1] * s for q, s in itertools.product(range(layer.Q), range(layer.S))}
    span = (max(columns) + 1) * (max(rows) + 1)
    assert box_elems(layer, layer.bounds, Tensor.I) == layer.N * layer.G * layer.C * span


# --- All rules -------------------------------------------------------------------------------------------------------

PLACES = st.sampled_from(("3", "2", "1", "H", "W", "0", "L"))


@st.composite
def mapped_layers(draw: Any) -> tuple[ConvWorkload, list[str]]:
    """A layer and loops that multiply to its bounds, at most one per place and dim."""
    places = draw(st.dictionaries(st.tuples(PLACES, st.sampled_from(Dim)), st.integers(2, 5), max_size=12))
    bounds = {dim.name: math.prod(f for (_, d), f in places.items() if d == dim) for dim in Dim}
    return ConvWorkload(**bounds), [f"{place}{dim.name}{factor}" for (place, dim), factor in places.items()]


HUGE_ARRAY = {
    "array_shape": PhyDim2(h=ROOMY, w=ROOMY),
    "compute_unit": ComputeUnit(unit_type="simd", num_macs=ROOMY),
    "exclusive_spatial": False,
}


@given(case=mapped_layers(), data=st.data())
def test_any_factorization_is_legal_on_a_large_machine_and_none_other(case: Any, data: Any) -> None:
    """Whatever multiplies to the bounds is legal if everything has room; one factor more or less is not."""
    layer, loops = case
    arch = build_arch(2**60, 2**60, 2**60, 2**60, array=HUGE_ARRAY)
    assert violations(layer, build_mapping(" ".join(loops), "01 01 01"), arch) == []
    if loops:
        dropped = data.draw(st.sampled_from(loops))
        rest = " ".join(loop for loop in loops if loop != dropped)
        (violation,) = violations(layer, build_mapping(rest, "01 01 01"), arch)
        assert violation.startswith(f"{dropped[1]}: factors ")


def test_every_broken_rule_is_reported_at_once() -> None:
    """A wrong factor, two directions, a full array and a full buffer are four lines."""
    found = violations(ConvWorkload(K=7, C=8), build_mapping("HK2 WK4 0C8", "- 0 -"), build_arch(7))
    assert [line.split(":")[0] for line in found] == ["K", "PE array", "PE array", "Pe"]


# --- Layers that cannot be mapped ------------------------------------------------------------------------------------


def test_layer_that_fits_has_no_complaint() -> None:
    """A small layer on the default machine."""
    assert check_fits(ConvWorkload(C=64, K=64), PIMArchitecture()) == []


def test_forced_tensors_need_room_for_one_element_each() -> None:
    """A PE that must hold W (1 B) and O (a partial sum of 4 B) has room with 5 bytes, not with 4."""
    layer = ConvWorkload(K=100, psum_bytes=4)
    for size, complaints in (
        (5, []),
        (4, ["Pe: one element of each tensor that it must store takes W 1 + O 4 = 5 B, there are 4 B"]),
    ):
        arch = change_level(build_arch(size), PE, stores=[False, True, True], bypass_defined=True)
        assert check_fits(layer, arch) == complaints


def test_tensors_that_may_be_bypassed_need_no_room() -> None:
    """A PE of one byte is no obstacle to elements of two, if nothing forces it to hold them."""
    assert check_fits(ConvWorkload(input_bytes=2), build_arch(1)) == []


def test_layer_must_fit_dram_at_its_smallest() -> None:
    """I 6, W 24 and O 4 bytes, though partial sums have 4: 34 bytes."""
    layer = ConvWorkload(C=6, K=4, psum_bytes=4)
    assert check_fits(layer, build_arch(ROOMY, ROOMY, ROOMY, 34)) == []
    assert check_fits(layer, build_arch(ROOMY, ROOMY, ROOMY, 33)) == [
        "Dram: the layer takes at least I 6 + W 24 + O 4 = 34 B, there are 33 B"
    ]


def test_forced_row_alignment_takes_whole_rows() -> None:
    """W of 12 bytes is two rows of 8 if the row buffer must store it: 16 + 1 + 12."""
    layer, stores = ConvWorkload(K=12), [False, True, False]
    for size, fits in ((29, True), (28, False)):
        arch = change_level(build_arch(ROOMY, ROOMY, ROOMY, size), ROW_BUFFER, stores=stores, bypass_defined=True)
        assert (check_fits(layer, arch) == []) == fits
