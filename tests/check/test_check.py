"""The validator, rule by rule: a legal mapping, an illegal one, and one at the limit. Sizes are counted by hand."""

import itertools
import math
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cpsat_pim.arch import ComputeUnit, DramTimings, MemoryLevel, PEArray, PhyDim2, PIMArchitecture
from cpsat_pim.check import box_elems, check_fits, check_mapping
from cpsat_pim.dims import RELEVANT, Dim, Tensor
from cpsat_pim.mapping import Mapping
from cpsat_pim.workload import ConvWorkload

PE, GLOBAL_BUFFER, ROW_BUFFER, DRAM = range(4)
NAMES = ("Pe", "Gbuf", "Row", "Dram")
ROOMY = 2**40


def build_arch(*capacities: int, array: dict[str, Any] | None = None, **fields: Any) -> PIMArchitecture:
    """A machine of 4 x 2 PEs of 2 lanes with rows of 8 bytes and so many bytes at each level, no double buffering."""
    sizes = (*capacities, *[ROOMY] * (4 - len(capacities)))
    levels = [
        MemoryLevel(name=name, entries=size, row_buffer_size=8, double_buffered=False)
        for name, size in zip(NAMES, sizes, strict=True)
    ]
    unit = ComputeUnit(unit_type="simd", num_macs=2)
    return PIMArchitecture(
        hierarchy=levels,
        dram_timings=DramTimings(co_w=32),
        pe_array=PEArray(**{"array_shape": PhyDim2(h=4, w=2), "compute_unit": unit} | (array or {})),
        **fields,
    )


def change_level(arch: PIMArchitecture, level: int, **fields: Any) -> PIMArchitecture:
    """The machine with other fields at a level."""
    levels = list(arch.hierarchy)
    levels[level] = attrs.evolve(levels[level], **fields)
    return attrs.evolve(arch, hierarchy=levels)


def build_mapping(loops: str = "", stored: str = "- - -", **fields: Any) -> Mapping:
    """A mapping from "3C2 0K3 HP2": level (or H, W, L for lanes), dim, factor; loops of a level outermost first.

    `stored` names the levels that store I, W and O, "-" for none.
    """
    temporal, spatial = [[1] * 8 for _ in range(4)], [[1] * 8 for _ in range(3)]
    order: list[list[Dim]] = [[], [], [], []]
    for place, letter, factor in ((word[0], word[1], int(word[2:])) for word in loops.split()):
        if place in "HWL":
            spatial["HWL".index(place)][Dim[letter]] *= factor
        else:
            temporal[int(place)][Dim[letter]] *= factor
            order[int(place)].append(Dim[letter])
    flags = [[str(level) in levels for levels in stored.split()] for level in range(3)]
    return Mapping(**{"temporal": temporal, "spatial": spatial, "order": order, "stored": flags} | fields)


def violations(layer: ConvWorkload, mapping: Mapping, arch: PIMArchitecture | None = None) -> list[str]:
    """What is wrong with a mapping on a machine, by default a roomy one."""
    return check_mapping(layer, arch or build_arch(), mapping)


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


# --- Capacity (Eq. 2, 3, 17, 22) -------------------------------------------------------------------------------------


def fits_exactly(layer: ConvWorkload, mapping: Mapping, level: int, size: int, **fields: Any) -> bool:
    """Whether a mapping is legal with so many bytes at a level, and with one byte less only that level complains."""
    room = [ROOMY] * 4
    room[level] = size
    assert violations(layer, mapping, build_arch(*room, **fields)) == []
    room[level] = size - 1
    (violation,) = violations(layer, mapping, build_arch(*room, **fields))
    return violation.startswith(f"{NAMES[level]}: ") and f" = {size} B, there are {size - 1} B" in violation


CONV = ConvWorkload(R=3, S=2, P=4, Q=2, C=2, K=4, stride=(2, 1), dilation=(1, 3), psum_bytes=4)
# PE: P=2, R=3, S=2. Global buffer: and C=2, P=4 (two PEs), Q=2. Row buffer: and K=2.
# As two PEs loop over P and the filter is 3 x 2 (strided, dilated), I and O come through a buffer: I from level 1 or 2.
NEST = "3K2 2K2 1Q2 HP2 0C2 0P2 0R3 0S2"


@pytest.mark.parametrize(
    ("level", "stored", "size"),
    [
        # I of a PE: width 2*(2-1) + 1*(3-1) + 1 = 5, height 1*0 + 3*(2-1) + 1 = 4, 2 channels.
        (PE, "01 - 1", 2 * 5 * 4),
        # W of a PE: R * S * C.
        (PE, "1 0 1", 3 * 2 * 2),
        # O of a PE: P=2, 4 bytes a partial sum.
        (PE, "1 - 0", 2 * 4),
        (PE, "01 0 0", 40 + 12 + 8),
        # I at the global buffer: width 2*(4-1) + 2 + 1 = 9, height (2-1) + 3 + 1 = 5, 2 channels.
        (GLOBAL_BUFFER, "1 - 0", 9 * 5 * 2),
        # O at the global buffer: P * Q, 4 bytes; the lanes and K are no part of it.
        (GLOBAL_BUFFER, "02 - 1", 4 * 2 * 4),
        (GLOBAL_BUFFER, "1 1 1", 90 + 12 + 32),
        # W at the row buffer: two of K.
        (ROW_BUFFER, "1 2 1", 2 * 12),
        # O at the row buffer: two of K, nothing comes back from DRAM, 1 byte each.
        (ROW_BUFFER, "1 - 12", 2 * 4 * 2),
    ],
)
def test_tiles_fit_to_the_byte(level: int, stored: str, size: int) -> None:
    """A tile may take all of its level; with a byte less the level and the sizes are named."""
    side = int("2" in stored.split()[Tensor.I])
    assert fits_exactly(CONV, build_mapping(NEST, stored, block_h=side, block_w=side), level, size)


def test_bypassed_tensor_takes_no_room() -> None:
    """With room for W alone, W is legal; the large I and O, which are stored further out, are not in the sum."""
    assert violations(CONV, build_mapping(NEST, "1 0 1"), build_arch(12)) == []


def test_array_factors_and_lanes_count_where_they_should() -> None:
    """Lanes are in a PE's tile, PEs are not: K = 2 lanes x 4 PEs is W of 2 at the PE, of 8 at the global buffer."""
    layer, loops, array = ConvWorkload(K=8), "HK4 LK2", {"exclusive_spatial": False}
    assert fits_exactly(layer, build_mapping(loops, "- 0 -"), PE, 2, array=array)
    assert fits_exactly(layer, build_mapping(loops, "- 1 -"), GLOBAL_BUFFER, 8, array=array)


@pytest.mark.parametrize("level", [PE, GLOBAL_BUFFER])
def test_double_buffering_halves_the_room(level: int) -> None:
    """A tile of 6 bytes needs 12 where loading overlaps; 11 bytes have two halves of 5."""
    layer, mapping = ConvWorkload(K=6), build_mapping("0K6", f"- {level} -")
    arch = change_level(build_arch(), level, entries=12, double_buffered=True)
    assert violations(layer, mapping, arch) == []
    found = violations(layer, mapping, change_level(arch, level, entries=11))
    assert found == [f"{NAMES[level]}: the tiles take W 6 = 6 B, there are 5 B (half of 11 B: double buffered)"]


def test_double_buffering_means_nothing_at_the_row_buffer() -> None:
    """A row buffer has one copy, whatever its field says."""
    arch = change_level(build_arch(), ROW_BUFFER, entries=6, double_buffered=True)
    assert violations(ConvWorkload(K=6), build_mapping("0K6", "- 2 -"), arch) == []


@pytest.mark.parametrize(
    ("loops", "width"),
    [
        ("3K2 3C2 0N3", 1),  # each tile of O is done before the next
        ("3C2 3K2 0N3", 4),  # C outside K: each tile comes back
        ("3C2 2K2 0N3", 1),  # K is inside the tile, C outside changes nothing: the one tile stays
        ("3C2 3K2 2C2 0N3", 4),
        ("3K2 2C2 2P2", 1),
        ("3P2 3R2 3K2 0N3", 4),
    ],
)
def test_spilled_partial_sums_are_wide_in_the_row_buffer(loops: str, width: int) -> None:
    """O in the row buffer has 4 bytes exactly if a tile returns from DRAM: a reduction loop outside a loop of O."""
    bounds = {dim.name: math.prod(int(w[2:]) for w in loops.split() if w[1] == dim.name) for dim in Dim}
    inside = math.prod(int(w[2:]) for w in loops.split() if w[0] in "02" and w[1] in "PQKNG")
    mapping = build_mapping(loops, "1 - 2")
    assert fits_exactly(ConvWorkload(**bounds, psum_bytes=4), mapping, ROW_BUFFER, inside * width)


# --- Row-aligned input (Eq. 8, 9, 17) --------------------------------------------------------------------------------


def test_input_blocks_lie_in_the_input() -> None:
    """Blocks of 1 x 1 up to the input's 5 x 9 (height x width) are legal, beyond and below are not."""
    for block_h, block_w in ((1, 1), (5, 9), (2, 4)):
        mapping = build_mapping(NEST, "12 - 1", block_h=block_h, block_w=block_w)
        assert violations(CONV, mapping) == []
    for block_h, block_w, side in ((0, 9, "h"), (6, 9, "h"), (-1, 9, "h"), (5, 0, "w"), (5, 10, "w")):
        (violation,) = violations(CONV, build_mapping(NEST, "12 - 1", block_h=block_h, block_w=block_w))
        limit, value = (5, block_h) if side == "h" else (9, block_w)
        assert violation == f"Row: block_{side} of I must be from 1 to {limit} (got {value})"


def test_input_that_is_not_row_aligned_has_no_block() -> None:
    """Without I in the row buffer the block is 0 x 0."""
    found = violations(CONV, build_mapping(NEST, "1 2 1", block_h=1))
    assert found == ["Row: stores no I, so block_h must be 0 (got 1)"]


def test_input_block_fits_the_row_buffer_as_the_tile_does() -> None:
    """A tile of one element beside a block of 3 x 2 (x 2 channels inside the row buffer): 12 bytes."""
    layer = ConvWorkload(C=2, P=4, Q=4)
    mapping = build_mapping("3P4 3Q4 2C2", "2 - -", block_h=3, block_w=2)
    assert violations(layer, mapping, build_arch(ROOMY, ROOMY, 12)) == []
    assert violations(layer, mapping, build_arch(ROOMY, ROOMY, 11)) == [
        "Row: a block of I takes 1 x 1 x 2 x 3 x 2 = 12 B, there are 11 B"
    ]


def test_input_tile_larger_than_its_block_must_fit_too() -> None:
    """The tile is 4 x 4, its blocks are 1 x 1: 16 bytes."""
    layer = ConvWorkload(P=4, Q=4)
    assert fits_exactly(layer, build_mapping("0P4 0Q4", "2 - -", block_h=1, block_w=1), ROW_BUFFER, 16)


# --- DRAM capacity ---------------------------------------------------------------------------------------------------


def test_packed_tensors_fit_dram_to_the_byte() -> None:
    """I 6 x 2 B, W 6 x 4 x 3 B, O 4 x 1 B: 12 + 72 + 4."""
    layer = ConvWorkload(C=6, K=4, input_bytes=2, weight_bytes=3)
    assert fits_exactly(layer, build_mapping("3K4 3C6", "- - 0"), DRAM, 88)


@pytest.mark.parametrize(
    ("loops", "stored", "arch", "o_bytes"),
    [
        ("3K4 3C6", "- - 0", {}, 4),  # each tile is finished before the next
        ("3C6 3K4", "- - 0", {}, 16),  # each tile comes back
        ("3C6 0K4", "- - 0", {}, 4),  # one tile
        ("3K4 3C6", "- - -", {}, 16),  # nobody holds O: every addition after the first reads it back
        ("3K4 0C6", "- - -", {}, 16),
        ("3K4 3C3 LC2", "- - 0", {}, 4),
        ("3K4 3C3 LC2", "- - 0", {"spatial_reduction": False}, 4),
    ],
)
def test_spilled_partial_sums_are_wide_in_dram(loops: str, stored: str, arch: dict[str, Any], o_bytes: int) -> None:
    """O takes 4 x 4 B if DRAM gives any of it back, else 4 x 1 B; I has 6 and W 24."""
    layer = ConvWorkload(C=6, K=4, psum_bytes=4)
    assert fits_exactly(layer, build_mapping(loops, stored), DRAM, 6 + 24 + o_bytes, **arch)


def test_lanes_that_add_in_dram_spill_unless_reduced() -> None:
    """Two lanes of one output and no buffer for O: added on the way there is one write, else the second reads."""
    layer, mapping = ConvWorkload(C=2, psum_bytes=4), build_mapping("LC2")
    assert fits_exactly(layer, mapping, DRAM, 2 + 2 + 1)
    assert fits_exactly(layer, mapping, DRAM, 2 + 2 + 4, spatial_reduction=False)


@pytest.mark.parametrize(
    ("loops", "w_bytes"),
    [
        ("3K3 0K3", 16),  # 3 blocks of 3 B, two to a row of 8 B: 2 rows
        ("3K9", 16),  # 9 blocks of 1 B, eight to a row
        ("3K2 0K9", 32),  # 2 blocks of 9 B, two rows each
        ("0K8", 8),
        ("3K3 0K8", 24),  # a row each
    ],
)
def test_row_aligned_weights_are_padded_to_rows(loops: str, w_bytes: int) -> None:
    """Small blocks share rows without crossing their ends, large ones have rows of their own; I and O are packed."""
    layer = ConvWorkload(K=math.prod(int(word[2:]) for word in loops.split()))
    assert fits_exactly(layer, build_mapping(loops, "- 2 -"), DRAM, w_bytes + 1 + layer.K)


def test_row_aligned_input_keeps_partial_blocks_whole() -> None:
    """I of 5 x 5 in blocks of 2 x 2: 3 x 3 blocks of 4 B, two to a row, 5 rows of 8 B; W 1 and O 25 bytes."""
    mapping = build_mapping("3P5 3Q5", "2 - -", block_h=2, block_w=2)
    assert fits_exactly(ConvWorkload(P=5, Q=5), mapping, DRAM, 40 + 1 + 25)


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
