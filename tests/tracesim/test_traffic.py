"""Accesses, steps and energy of tiny nests, each rule of sections 3 and 4 by hand."""

from typing import Any

import numpy as np
import pytest

from tests.tracesim.nests import FREE_DEVICE, I, O, W, build_nest
from tracesim import Placement, Trace, simulate

PE, GLOBAL_BUFFER, ROW_BUFFER, DRAM = range(4)


def run(
    loops: str,
    stored: str = "0 0 0",
    conv: tuple[int, int, int, int] = (1, 1, 1, 1),
    outside: str = "",
    **rules: Any,
) -> Trace:
    """Simulate a nest on a device without limits but for other rules."""
    nest = build_nest(loops, stored, conv=conv, widths=(1, 1, 1, 4), outside=outside)
    return simulate(nest, Placement(np.array([0, 0, 0]), 1, 1), FREE_DEVICE._replace(**rules))


def accesses(trace: Trace, tensor: int) -> dict[int, tuple[int, int]]:
    """Return {level: (reads, writes)} of a tensor where there are any."""
    counts = {level: (int(r), int(w)) for level, (r, w) in enumerate(trace.accesses[:, tensor])}
    return {level: count for level, count in counts.items() if count != (0, 0)}


# -- fetch on change --------------------------------------------------------------------------------------------


def test_fetch_happens_when_the_tile_differs() -> None:
    """K outside C: I's C index changes at each of the 6 steps, K alone would not move it."""
    trace = run("3K2 3C3")
    assert accesses(trace, I) == {DRAM: (6, 0), PE: (6, 6)}  # 6 fetches of 1; 6 MACs read it
    assert accesses(trace, W) == {DRAM: (6, 0), PE: (6, 6)}
    # O: K changes once: 2 first visits. 6 updates, 2 of them of fresh sums; going out reads the PE once each.
    assert accesses(trace, O) == {DRAM: (0, 2), PE: (6 - 2 + 2, 6)}


def test_irrelevant_loops_inside_all_relevant_ones_are_free_across_levels() -> None:
    """K inside C at two other levels leaves I where it is: 3 fetches, not 12."""
    trace = run("3C3 2K2 1K2")
    assert accesses(trace, I) == {DRAM: (3, 0), PE: (12, 3)}
    assert accesses(trace, W) == {DRAM: (12, 0), PE: (12, 12)}


def test_output_tiles_that_return_are_read_back_and_first_visits_are_not() -> None:
    """C outside K: 4 tiles of O are entered 3 times each, 4 of the 12 visits are first ones."""
    trace = run("3C3 2K2 1K2")
    # DRAM: 12 written out, 8 read back. PE: writes 12 updates + 8 brought back;
    # reads 12 going out + 12 updates less 4 fresh sums.
    assert accesses(trace, O) == {DRAM: (8, 12), PE: (12 + 8, 12 + 8)}


def test_output_tile_that_stays_is_written_once() -> None:
    """C inside K at every level: 2 tiles, nothing comes back."""
    trace = run("3K2 3C2 2C2 1C2 0C2")
    assert accesses(trace, O) == {DRAM: (0, 2), PE: (32 - 2 + 2, 32)}


def test_input_tiles_are_told_apart_by_their_indices_not_by_their_place() -> None:
    """P and R reach the same column as p + r = 1 twice in a row (p=0, r=1 then p=1, r=0): a fetch all the same."""
    assert accesses(run("3P2 3R2"), I)[DRAM] == (4, 0)


def test_each_storing_level_fetches_for_itself() -> None:
    """All three levels: each fetch is a read at the parent and a write at the level."""
    trace = run("3C2 2C2 1C2 0C2", stored="012 012 012")
    # I: the row buffer takes 2 tiles of 8, the global buffer 4 of 4, the PE 8 of 2; 16 MACs.
    assert accesses(trace, I) == {DRAM: (16, 0), ROW_BUFFER: (16, 16), GLOBAL_BUFFER: (16, 16), PE: (16, 16)}
    # O: one element that never moves until the end, then out through every level.
    assert accesses(trace, O) == {DRAM: (0, 1), ROW_BUFFER: (1, 1), GLOBAL_BUFFER: (1, 1), PE: (15 + 1, 16)}


@pytest.mark.parametrize(
    ("stored", "expected"),
    [
        # The global buffer's tile (C 0..3) stays while K turns: 4 elements once; PEs fetch 2 x 4 x 1 from it.
        ("01", {DRAM: (4, 0), GLOBAL_BUFFER: (8, 4), PE: (8, 8)}),
        # Without it the PEs fetch the same 8 from DRAM.
        ("0", {DRAM: (8, 0), PE: (8, 8)}),
        # Without PEs each MAC reads the global buffer.
        ("1", {DRAM: (4, 0), GLOBAL_BUFFER: (8, 4)}),
        # Without either each MAC reads DRAM.
        ("-", {DRAM: (8, 0)}),
        # The row buffer holds C 0..3 as well, and feeds the PEs past the global buffer.
        ("02", {DRAM: (4, 0), ROW_BUFFER: (8, 4), PE: (8, 8)}),
    ],
)
def test_bypass_streams_past_a_level(stored: str, expected: dict[int, tuple[int, int]]) -> None:
    """I over K, then C at the global buffer, with levels that bypass it."""
    assert accesses(run("2K2 1C4", stored=f"{stored} 0 0"), I) == expected


@pytest.mark.parametrize(
    ("stored", "expected"),
    [
        # PE: K turns inside C, so each of the 2 array tiles is visited twice: out 4, back 2.
        # Updates 4, fresh 2: reads 2. Global buffer: the tile K 0..1 stays and goes out once.
        ("01", {DRAM: (0, 2), GLOBAL_BUFFER: (2 + 2, 4 + 0), PE: (2 + 4, 4 + 2)}),
        # Global buffer alone: each of 4 steps writes, all but the 2 first terms read; then 2 go out.
        ("1", {DRAM: (0, 2), GLOBAL_BUFFER: (2 + 2, 4)}),
        ("-", {DRAM: (2, 4)}),
    ],
)
def test_bypass_of_outputs(stored: str, expected: dict[int, tuple[int, int]]) -> None:
    """O over C, then K at the global buffer, with levels that bypass it."""
    assert accesses(run("1C2 1K2", stored=f"0 0 {stored}"), O) == expected


def test_factors_of_one_change_nothing() -> None:
    """Loops of one iteration may be there or not."""
    with_ones = run("3G1 3C2 2R1 2K2 1C1 1N1 0K3 0S1", stored="01 02 01")
    without = run("3C2 2K2 0K3", stored="01 02 01")
    for got, expected in zip(with_ones, without, strict=True):
        np.testing.assert_array_equal(got, expected)


def test_empty_nest_is_one_mac() -> None:
    """No loop at all: one MAC, one element of everything."""
    trace = run("")
    assert trace.compute_cycles == 1
    assert accesses(trace, I) == {DRAM: (1, 0), PE: (1, 1)}
    assert accesses(trace, O) == {DRAM: (0, 1), PE: (1, 1)}  # the first term reads nothing, going out does


# -- the array --------------------------------------------------------------------------------------------------


def test_multicast_reads_an_element_once_for_all_pes() -> None:
    """2 PEs in K by 2 in C: I's 2 elements are each held by 2 PEs, W's 4 by one, O's 2 by 2."""
    assert accesses(run("HK2 WC2"), I) == {DRAM: (2, 0), PE: (4, 4)}
    assert accesses(run("HK2 WC2", multicast=False), I) == {DRAM: (4, 0), PE: (4, 4)}
    assert accesses(run("HK2 WC2", multicast=False), W) == {DRAM: (4, 0), PE: (4, 4)}


def test_multicast_shares_the_halo() -> None:
    """PEs p = 0, 1 with a filter of 3 hold columns 0..2 and 1..3: 4 distinct, 6 copies."""
    assert accesses(run("HP2 0R3"), I) == {DRAM: (4, 0), PE: (6, 6)}
    assert accesses(run("HP2 0R3", multicast=False), I) == {DRAM: (6, 0), PE: (6, 6)}


def test_array_tile_keeps_the_gaps_between_pes() -> None:
    """Stride 5, filter 3: PEs hold 0..2 and 5..7, and nobody fetches 3 and 4."""
    assert accesses(run("HP2 0R3", conv=(5, 1, 1, 1)), I) == {DRAM: (6, 0), PE: (6, 6)}


def test_tiles_fill_the_gaps_inside_one_holder() -> None:
    """Stride 5, filter 3 in one PE or one buffer: the span 0..7 is held although 3 and 4 are never used."""
    assert accesses(run("0P2 0R3", conv=(5, 1, 1, 1)), I) == {DRAM: (8, 0), PE: (6, 8)}
    assert accesses(run("1P2 1R3", conv=(5, 1, 1, 1), stored="1 0 0"), I) == {DRAM: (8, 0), GLOBAL_BUFFER: (6, 8)}


def test_dilation_and_stride_span_both_axes() -> None:
    """Height, stride 2, dilation 3, Q=2, S=2: 2*1 + 3*1 + 1 = 6. Width, stride 1, dilation 2, P=3, R=2: 5."""
    assert accesses(run("0P3 0R2 0Q2 0S2", conv=(1, 2, 2, 3)), I)[DRAM] == (30, 0)


def test_step_set_counts_what_one_step_uses() -> None:
    """No PE stores I: a step of 2 PEs in K and 3 lanes in C uses 3 elements, or 6 reads without multicast."""
    assert accesses(run("0Q2 HK2 LC3", stored="1 0 0"), I) == {DRAM: (6, 0), GLOBAL_BUFFER: (6, 6)}
    assert accesses(run("0Q2 HK2 LC3", stored="1 0 0", multicast=False), I)[GLOBAL_BUFFER] == (12, 6)


def test_steps_without_a_pe_copy_read_even_what_did_not_change() -> None:
    """Nothing is held at the MACs: 4 steps over K read the same I element 4 times."""
    assert accesses(run("0K4", stored="- 0 0"), I) == {DRAM: (4, 0)}


def test_spatial_reduction_adds_partial_sums_on_the_way() -> None:
    """C outside K, 3 PEs and 2 lanes in C: 2 outputs visited twice, each in 3 PEs."""
    # 4 visits, 2 first, 2 returns. Out: 3 copies read in PEs, 1 written. Back: 1 read, to 1 PE.
    # Updates: 3 PEs x 1 (lanes are added) x 4 steps = 12 writes. Fresh: 3 a first visit, 2 a return: 12 - 10 = 2 reads.
    assert accesses(run("3C2 3K2 HC3 LC2"), O) == {DRAM: (2, 4), PE: (12 + 2, 2 + 12)}


def test_without_spatial_reduction_each_partial_sum_moves() -> None:
    """The same nest: every copy goes out and comes back, and lanes write one by one."""
    # Out: 12 read, 12 written. Back: 6 and 6. Updates: 6 MACs x 4 steps = 24 writes; fresh: 3 a first visit only.
    trace = run("3C2 3K2 HC3 LC2", spatial_reduction=False)
    assert accesses(trace, O) == {DRAM: (6, 12), PE: (24 - 6 + 12, 24 + 6)}


def test_sums_stay_fresh_only_until_their_first_update() -> None:
    """C also inside K: each visit makes 2 updates of the same sum, of which the first may be fresh."""
    # 1 PE: 2 visits of 2 outputs, 2 first and 2 returns; 8 updates, 2 fresh (a return brings the only copy).
    assert accesses(run("3C2 3K2 0C2"), O) == {DRAM: (2, 4), PE: (8 - 2 + 4, 8 + 2)}


@pytest.mark.parametrize(
    ("spatial_reduction", "expected"),
    [
        # 2 outputs, 3 steps each; lanes of C are added: 6 writes, 4 reads.
        (True, (4, 6)),
        # Each of 12 MACs writes, and reads but for each output's first term.
        (False, (10, 12)),
    ],
)
def test_streamed_partial_sums(spatial_reduction: bool, expected: tuple[int, int]) -> None:
    """Nobody stores O: 2 outputs get 3 steps of 2 lanes each, straight in DRAM."""
    trace = run("1K2 0C3 LC2", stored="0 0 -", spatial_reduction=spatial_reduction)
    assert accesses(trace, O) == {DRAM: expected}


def test_dims_may_use_several_spatial_directions() -> None:
    """K = T1 x H x W x T0 x Internal = 2^5: every element of W is fetched once and read once."""
    assert accesses(run("1K2 HK2 WK2 0K2 LK2"), W) == {DRAM: (32, 0), PE: (32, 32)}


def test_groups_and_batches_are_relevant_where_they_should_be() -> None:
    """G moves everything; N moves I and O, not W."""
    trace = run("3G2 3N3")
    assert [accesses(trace, tensor)[DRAM] for tensor in (I, W, O)] == [(6, 0), (2, 0), (0, 6)]


# -- totals -----------------------------------------------------------------------------------------------------


def test_compute_cycles_are_steps() -> None:
    """PEs and lanes work side by side: 2 x 3 steps; the reduction latency is the latency's."""
    assert run("3C2 0K3 HK2 LC4", reduction_latency=5).compute_cycles == 6


def test_energy_adds_macs_accesses_and_activations() -> None:
    """Every share has its own decimal place."""
    costs = np.array([[1, 10], [0, 0], [0, 0], [100, 1000]])
    # One MAC: PE reads I, W once and O once (going out), writes I, W, O once; DRAM reads I and W, writes O.
    # 3 activations, one a tensor.
    trace = run("", access_fj=costs, mac_fj=100_000, activation_fj=10_000)
    assert trace.energy_fj == 100_000 + 3 * 1 + 3 * 10 + 2 * 100 + 1 * 1000 + 3 * 10_000


def test_energy_beyond_32_bits_is_exact() -> None:
    """10^6 MACs of 10^9 + 1 fJ."""
    assert run("0C1000 0K1000", mac_fj=10**9 + 1).energy_fj == 10**15 + 10**6


# -- residency --------------------------------------------------------------------------------------------------


def test_tile_that_covers_fewer_loops_is_smaller_and_moves_when_the_others_do() -> None:
    """Below N the global buffer holds W for all c and k, or for one c: that it fetches anew for each n."""
    nest = "2N2 1C2 1K3"
    assert accesses(run(nest, "0 01 0"), W) == {DRAM: (6, 0), GLOBAL_BUFFER: (12, 6), PE: (12, 12)}
    assert accesses(run(nest, "0 01 0", outside="1W1"), W) == {DRAM: (12, 0), GLOBAL_BUFFER: (12, 12), PE: (12, 12)}
    # Neither the other tensors nor another level's tiles take notice.
    for tensor in (I, O):
        assert accesses(run(nest, "0 01 0", outside="1W1"), tensor) == accesses(run(nest, "0 01 0"), tensor)


def test_irrelevant_loops_outside_the_point_are_free_as_outside_the_level() -> None:
    """N inside K, both outside W's tile: 2 fetches of 3, not 4; inside, one of 6."""
    for outside in ("1W1", "1W2"):
        assert accesses(run("1K2 1N2 1C3", "0 01 0", outside=outside), W)[DRAM] == (6, 0)
    assert accesses(run("1N2 1K2 1C3", "0 01 0", outside="1W2"), W)[DRAM] == (12, 0)


def test_pes_may_hold_one_operand_while_another_streams_past() -> None:
    """C outside K in the PEs: I's tile has one of 2 channels, W's all 6, so W comes once for both n, I 4 times."""
    trace = run("1N2 0C2 0K3", "01 01 01", outside="0I1")
    assert accesses(trace, W) == {DRAM: (6, 0), GLOBAL_BUFFER: (6, 6), PE: (12, 6)}
    assert accesses(trace, I) == {DRAM: (4, 0), GLOBAL_BUFFER: (4, 4), PE: (12, 4)}


def test_pes_multicast_what_their_uneven_tiles_share() -> None:
    """Two PEs of two p, a filter of 3: at p = 0 and 2 they hold columns 0-2 and 2-4, at 1 and 3 1-3 and 3-5."""
    assert accesses(run("HP2 0P2 0R3", "01 0 0"), I)[PE] == (12, 4 + 4)  # 0-3 and 2-5 at once
    uneven = accesses(run("HP2 0P2 0R3", "01 0 0", outside="0I1"), I)
    assert (uneven[GLOBAL_BUFFER][0], uneven[PE]) == (5 + 5, (12, 4 * 3))
    copied = accesses(run("HP2 0P2 0R3", "01 0 0", outside="0I1", multicast=False), I)
    assert copied[GLOBAL_BUFFER][0] == 4 * 3


def test_sums_spill_from_a_tile_within_the_level_that_returns() -> None:
    """C outside K in the PEs, one sum held at a time: 6 visits, 3 of them first."""
    assert accesses(run("0C2 0K3"), O) == {DRAM: (0, 3), PE: (3 + 3, 6)}
    # Out: 6. Back: 3. Updates: 6 writes, of which the 3 of first visits read nothing.
    assert accesses(run("0C2 0K3", outside="0O2"), O) == {DRAM: (3, 6), PE: (6 + 3, 6 + 3)}


# -- arguments --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"loops": np.array([[0, 4, 2], [1, 4, 2]])}, "levels must descend"),
        ({"loops": np.array([[1, 4, 2], [1, 4, 2]])}, "at most once a level"),
        ({"loops": np.array([[1, 8, 2]])}, "dims must be"),
        ({"loops": np.array([[1, 4, 0]])}, "must be positive"),
        ({"loops": np.array([1, 4, 2])}, "Nest.loops: must have shape"),
        ({"spatial": np.ones((3, 7))}, "Nest.spatial: must have shape"),
        ({"conv": np.array([0, 1, 1, 1])}, "Nest.conv: must be positive"),
        ({"outside": np.array([[0, 0, 0], [0, 2, 0]])}, "Nest.outside: must be 0 to"),
        ({"outside": np.array([[0, 0, 0], [0, -1, 0]])}, "Nest.outside: must be 0 to"),
        ({"outside": np.array([[0, 0, 0], [1, 0, 0]])}, "Nest.outside: must be 0 to"),  # level 1 stores W alone
        ({"outside": np.zeros((3, 3))}, "Nest.outside: must have shape"),
    ],
)
def test_nests_that_are_none_are_refused(change: dict[str, Any], message: str) -> None:
    """The message names the field, the rule and the value."""
    with pytest.raises(ValueError, match=message):
        simulate(build_nest("1C2", "0 01 0")._replace(**change), Placement(np.array([0, 0, 0]), 1, 1), FREE_DEVICE)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"row_bytes": 6}, "Device.row_bytes: must be whole columns of 4 bytes"),
        ({"banks": 0}, "Device.banks: must be positive"),
        ({"timing": np.zeros(7)}, "Device.timing: must have shape"),
        ({"bandwidth": np.zeros((3, 2, 2))}, "Device.bandwidth"),
    ],
)
def test_devices_that_are_none_are_refused(change: dict[str, Any], message: str) -> None:
    """The message names the field, the rule and the value."""
    with pytest.raises(ValueError, match=message):
        run("1C2", **change)


def test_placements_that_are_none_are_refused() -> None:
    """Orders are 0 or 1; a row-aligned I needs blocks, others do not."""
    with pytest.raises(ValueError, match=r"Placement\.order"):
        simulate(build_nest("1C2"), Placement(np.array([0, 2, 0]), 1, 1), FREE_DEVICE)
    with pytest.raises(ValueError, match=r"Placement\.block"):
        simulate(build_nest("1C2", "2 0 0"), Placement(np.array([0, 0, 0]), 0, 1), FREE_DEVICE)
    simulate(build_nest("1C2"), Placement(np.array([0, 0, 0]), 0, 0), FREE_DEVICE)
