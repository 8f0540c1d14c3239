"""Rules of stored tensors: a legal mapping, an illegal one, and one at the limit."""

import math

import attrs
import pytest

from cpsat_pim.base.dims import Dim
from cpsat_pim.mapping import BANKS
from cpsat_pim.workload import ConvWorkload
from tests.mapping.check.mappings import GLOBAL_BUFFER, PE, build_arch, build_mapping, change_level, violations

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
STEPPED_WINDOW = "I: PEs fed strided or dilated windows straight from DRAM cannot be spread over {}"
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


STEPS = [{"stride": (2, 1)}, {"stride": (1, 2)}, {"dilation": (2, 1)}, {"dilation": (1, 2)}]


@pytest.mark.parametrize("steps", STEPS)
@pytest.mark.parametrize("loops", ["HR2 0P2", "0R2 HP2", "HS2 0Q2", "0S2 WQ2"])
def test_stepped_windows_of_several_pes_come_through_a_shared_buffer(steps, loops) -> None:
    """Along the axis of a stride or dilation PEs that are fed from DRAM are not spread; with steps of 1 they may be."""
    layer = ConvWorkload(**{word[1]: int(word[2:]) for word in loops.split()})
    assert input_violations(layer, loops, "0") == []
    stepped = attrs.evolve(layer, **steps)
    spread = next(word[1] for word in loops.split() if word[0] in "HW")
    is_along = max(pair["PRQS".index(spread) // 2] for pair in steps.values()) > 1
    assert input_violations(stepped, loops, "0") == [STEPPED_WINDOW.format(spread)] * is_along
    for stored in ("01", "02", "1", "2"):
        assert input_violations(stepped, loops, stored) == []


@pytest.mark.parametrize("steps", STEPS)
@pytest.mark.parametrize("loops", ["0R2 0P2", "0S2 1Q2", "0R2 3S2 0P2", "HK2 0R2 0Q2"])
def test_one_pe_takes_stepped_windows_from_dram(steps, loops) -> None:
    """It reads a box, gaps included; PEs along K all take the same one."""
    layer = ConvWorkload(**{word[1]: int(word[2:]) for word in loops.split()}, **steps)
    assert input_violations(layer, loops, "0") == []


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


# --- Banks -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", BANKS)
@pytest.mark.parametrize("there", [1, 2, 3, 16])
def test_each_part_has_a_bank_of_the_node(there: int, text: str) -> None:
    """As many parts as banks are legal, one more is not."""
    parts = text.count("|") + 1
    found = violations(ConvWorkload(), build_mapping(banks=BANKS[text]), build_arch(node_banks=there))
    assert found == ([] if parts <= there else [f"banks: {text} takes {parts} banks, the node has {there}"])


def test_banks_of_their_own_are_not_shared() -> None:
    """On a machine that does not say how many banks a node has."""
    assert violations(ConvWorkload(), build_mapping(banks=BANKS["I|W|O"])) == []
    assert violations(ConvWorkload(), build_mapping(banks=BANKS["IO|W"])) == [
        "banks: each tensor has banks of its own (no node_banks), none are shared (got IO|W)"
    ]


def test_row_buffer_stores_only_what_has_a_bank_for_itself() -> None:
    """W alone in its bank may be row-aligned, I beside O may not."""
    arch, banks = build_arch(node_banks=2), BANKS["IO|W"]
    assert violations(ConvWorkload(), build_mapping(stored="- 2 -", banks=banks), arch) == []
    found = violations(ConvWorkload(), build_mapping(stored="2 2 -", banks=banks, block_h=1, block_w=1), arch)
    assert found == ["Row: cannot store I, its bank is shared (IO|W)"]


@pytest.mark.parametrize(
    ("text", "counts", "taken"),
    [("I|W|O", (8, 4, 4), 16), ("I|W|O", (1, 2, 1), 4), ("IW|O", (1, 1, 4), 5), ("I|WO", (2, 1, 1), 3)],
)
def test_parts_have_as_many_banks_as_the_node(text: str, counts: tuple[int, int, int], taken: int) -> None:
    """The banks of all parts together are on the node; one fewer is too few."""
    mapping = build_mapping(banks=BANKS[text], bank_counts=counts)
    assert violations(ConvWorkload(), mapping, build_arch(node_banks=taken)) == []
    found = violations(ConvWorkload(), mapping, build_arch(node_banks=taken - 1))
    assert found == [f"banks: {text} takes {taken} banks, the node has {taken - 1}"]


def test_tensors_that_share_a_bank_have_only_this_one() -> None:
    """Two banks for I and W together would leave rows of one open while the other is scanned."""
    mapping = build_mapping(banks=BANKS["IW|O"], bank_counts=(2, 2, 1))
    assert violations(ConvWorkload(), mapping, build_arch(node_banks=16)) == [
        "bank_counts: tensors that share a bank (IW|O) have only this one (got (2, 2, 1))"
    ]


def test_bank_counts_need_banks_that_are_numbered() -> None:
    """On a machine without node_banks the number of banks is the machine's."""
    assert violations(ConvWorkload(), build_mapping(bank_counts=(2, 1, 1))) == [
        "bank_counts: each tensor has num_banks of its own (no node_banks), must be 1, 1, 1 (got (2, 1, 1))"
    ]
