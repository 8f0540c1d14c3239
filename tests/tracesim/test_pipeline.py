"""Latency of tiny nests: the pipeline of section 6 by hand, array step by array step.

DRAM takes no time, no level has a limit and each tensor its own port unless a test says so. Elements are one byte.
"""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.tracesim.nests import FREE_DEVICE, build_nest
from tracesim import Placement, simulate

READ, WRITE = range(2)

DEVICE = FREE_DEVICE._replace(column_bytes=1, ports=np.array([3, 3, 3]))

COLUMN_A_CYCLE = np.array([0, 0, 0, 0, 0, 1, 1, 0])
"""Timings under which n column accesses of one open row take n cycles."""


def latency(
    loops: str, stored: str = "0 0 0", double: str = "", sum_bytes: int = 1, outside: str = "", **rules: Any
) -> int:
    """Return the simulated latency; `double` names the double-buffered levels, partial sums have `sum_bytes`."""
    device = DEVICE._replace(double_buffered=np.array(["0" in double, "1" in double]), **rules)
    nest = build_nest(loops, stored, widths=(1, 1, 1, sum_bytes), outside=outside)
    return simulate(nest, Placement(np.zeros(3, np.int64), 1, 1), device).latency_cycles


def limit(level: int, way: int, bytes_: int, cycles: int = 1) -> NDArray[np.int64]:
    """Return bandwidths without limits but for one level and direction: so many bytes in so many cycles."""
    bandwidth = np.array([[[0, 1], [0, 1]]] * 3)
    bandwidth[level, way] = bytes_, cycles
    return bandwidth


def test_free_transfers_leave_the_steps() -> None:
    """12 steps, and the reduction latency once."""
    assert latency("3C3 2K2 0C2") == 12
    assert latency("3C3 2K2 0C2", reduction_latency=7) == 19


@pytest.mark.parametrize(
    ("double", "expected"),
    [
        # Load 0-4, step 4-8, load 8-12, step 12-16, load 16-20, step 20-24: one slot.
        ("", 24),
        # Loads 0-4, 4-8; steps 4-8, 8-12; the third load takes the first slot at 8: 8-12, step 12-16.
        ("0", 16),
        # Two slots elsewhere help nobody here.
        ("1", 24),
    ],
)
def test_double_buffering_overlaps_load_and_step(double: str, expected: int) -> None:
    """3 array steps of 4 cycles; each loads 4 elements of W at a byte a cycle (and one of I meanwhile)."""
    assert latency("1C3 0K4", "01 01 0", double, bandwidth=limit(1, READ, 1)) == expected


def test_first_load_and_slow_loads_cannot_hide() -> None:
    """Loads of 8 cycles back to back, steps of 4 behind them: 3 * 8 + 4."""
    assert latency("1C3 0K4", "01 01 0", "0", bandwidth=limit(1, READ, 1, 2)) == 28


def test_transfer_time_rounds_up_for_each_tile() -> None:
    """4 elements at 3 bytes a cycle are 2 cycles a load, not 4/3: single buffered 3 * (2 + 4)."""
    assert latency("1C3 0K4", "01 01 0", bandwidth=limit(1, READ, 3)) == 18


def test_multicast_decides_how_much_a_link_carries() -> None:
    """One array tile of 2 elements of I for 4 PEs: 2 bytes or, copied, 4; W's 4 are 4 either way."""
    assert latency("0P1 HN2 WK2", "01 0 0", bandwidth=limit(1, READ, 1)) == 2 + 1
    assert latency("0P1 HN2 WK2", "01 0 0", bandwidth=limit(1, READ, 1), multicast=False) == 4 + 1


def test_tensors_have_links_of_their_own() -> None:
    """I's and W's single elements load side by side, a cycle each: 6 * (1 + 1) single buffered."""
    assert latency("1C6", "01 01 0", bandwidth=limit(1, READ, 1)) == 12


def test_tile_that_stays_is_not_loaded_again() -> None:
    """W stays for 3 steps over P and loads in 2 cycles: load 0-2, steps 2-5, load 5-7, steps 7-10."""
    assert latency("1K2 1P3", "0 01 0", bandwidth=limit(1, READ, 1, 2)) == 10


@pytest.mark.parametrize(
    ("outside", "double", "expected"),
    [
        # W of both k loads 0-4; 6 steps 4-10.
        ("", "0", 10),
        # W of one k at a time: load 0-2, 3 steps 2-5, load 5-7, steps 7-10.
        ("0W1", "", 10),
        # Loads 0-2, 2-4; steps 2-5, 5-8.
        ("0W1", "0", 8),
    ],
)
def test_uneven_tiles_change_between_the_steps_of_a_pe(outside: str, double: str, expected: int) -> None:
    """A PE loops over K = 2 and N = 3; an element of W takes 2 cycles to load."""
    bandwidth = limit(1, READ, 1, 2)
    assert latency("0K2 0N3", "0 01 0", double, outside=outside, bandwidth=bandwidth) == expected


def test_streams_are_timed_from_one_change_of_an_uneven_tile_to_the_next() -> None:
    """I streams past the PE at 4 bytes in 10 cycles: 3 elements for each tile of W take 8, all 6 at once 15."""
    bandwidth = limit(1, READ, 4, 10)
    assert latency("0K2 0N3", "1 0 0", bandwidth=bandwidth) == 15
    assert latency("0K2 0N3", "1 0 0", outside="0W1", bandwidth=bandwidth) == 16


def test_first_visits_of_a_streamed_output_are_those_of_its_array_steps() -> None:
    """C outside K, W held by the PE for one k at a time, O in the global buffer: 4 steps, a step's sum at a time."""
    # k0, k1 write a sum in 3 cycles each; when c moves on they are read before, 5 cycles: 3 + 3 + 8 + 8.
    bandwidth = limit(1, WRITE, 1, 3)
    bandwidth[1, READ] = 1, 5
    assert latency("0C2 0K2", "0 0 1", outside="0W2", bandwidth=bandwidth) == 22
    # All four steps at once: 4 sums written in 12 cycles, 2 read in 10.
    assert latency("0C2 0K2", "0 0 1", bandwidth=bandwidth) == 22


@pytest.mark.parametrize(
    ("double", "expected"),
    [
        # Step 0-4, out 4-6, step 6-10, out 10-12, step 12-16, out 16-18.
        ("", 18),
        # Steps 0-4, 4-8; out 4-6 meanwhile, so step 8-12; out 12-14.
        ("0", 14),
    ],
)
def test_outputs_go_out_behind_the_steps(double: str, expected: int) -> None:
    """3 array tiles of one output, 4 steps each, 2 cycles on the way out; the last way out always shows."""
    assert latency("1K3 0C4", "0 0 01", double, bandwidth=limit(1, WRITE, 1, 2)) == expected


def test_slow_outputs_hold_the_steps_up() -> None:
    """Steps of 1 cycle, 3 cycles out, two slots: steps 0-1, 1-2, then a slot frees at 4 and 7; outs 1-4-7-10-13."""
    assert latency("1K4", "0 0 01", "0", bandwidth=limit(1, WRITE, 1, 3)) == 13


def test_returning_outputs_wait_for_the_old_tile_to_leave() -> None:
    """C outside K, 3 steps each, one cycle in and out, two slots."""
    # k0: 0-3, k1: 3-6, k0 out 3-4. k1 out 6-7, k0 in 7-8, step 8-11. k0 out 11-12, k1 in 12-13, step 13-16, out 16-17.
    bandwidth = limit(1, WRITE, 1)
    bandwidth[1, READ] = 1, 1
    assert latency("1C2 1K2 0S3", "0 0 01", "0", bandwidth=bandwidth) == 17


def test_outputs_pass_every_level_on_the_way_out() -> None:
    """One output through the global buffer (2 cycles) and the row buffer (3 cycles) after a step."""
    bandwidth = limit(1, WRITE, 1, 2)
    bandwidth[2, WRITE] = 1, 3
    assert latency("", "0 0 012", bandwidth=bandwidth) == 1 + 2 + 3


def test_outputs_move_at_the_width_of_the_level_outside() -> None:
    """4-byte sums at a byte a cycle: 4 cycles into the global buffer, 1 into the row buffer unless some spill."""
    into_both = limit(1, WRITE, 1)
    into_both[2, WRITE] = 1, 1
    assert latency("", "0 0 012", sum_bytes=4, bandwidth=into_both) == 1 + 4 + 1
    # C outside K at DRAM: K's 2 tiles come back, so the row buffer holds 4-byte sums: step 0-1, out 1-5, on 5-9.
    # The PE is free at 5, step 5-6; the buffer at 9: out 9-13, on 13-17. The first tile comes back at 17 through all
    # levels: step 17-18, out 18-22, on 22-26. So does the second: step 26-27, out 27-31, on 31-35.
    assert latency("3C2 3K2", "0 0 012", sum_bytes=4, bandwidth=into_both) == 35


def test_outputs_wait_for_their_place_outside() -> None:
    """The global buffer has one slot: the second tile's sums can leave the PEs only when the first is gone from it."""
    # Steps of 1 cycle: 0-1, 1-2 (two PE slots). Out of the PE is free; out of the buffer takes 5: 1-6, then 6-11.
    assert latency("2K2", "0 0 012", "0", bandwidth=limit(2, WRITE, 1, 5)) == 11
    # Three: the third step needs the first PE slot, free at 1; its sums too queue for the buffer: 11-16.
    assert latency("2K3", "0 0 012", "0", bandwidth=limit(2, WRITE, 1, 5)) == 16


@pytest.mark.parametrize(
    ("double", "expected"),
    [
        # Buffer loads 2 elements in 6 cycles, hands them on for free: 0-6, steps 6-7-8; the PE takes the second element
        # at 7, when its slot is free, and so the buffer's slot is free at 7: 7-13, steps 13-15.
        ("", 15),
        # Two slots in the PE: the second element leaves the buffer at 6: 6-12, steps 12-14.
        ("0", 14),
        # Two slots in the buffer: loads 0-6, 6-12, steps 6-8, 12-14.
        ("1", 14),
    ],
)
def test_a_slot_is_free_after_the_last_transfer_out_of_it(double: str, expected: int) -> None:
    """W through both buffers: 2 tiles of 2 elements, 3 cycles an element from the row buffer."""
    assert latency("2K2 1K2", "0 012 0", double, bandwidth=limit(2, READ, 1, 3)) == expected


def test_row_buffer_has_one_slot() -> None:
    """I and W from DRAM by 2 elements, a column a cycle; to PEs one by one: the next 2 wait for the last of these."""
    # Load 0-2, to PEs at 2 (free), step 2-3, second to PEs at 3 (one slot), step 3-4. Next load 3-5, steps 5-7, O 7-8.
    assert latency("3C2 2C2", "02 02 0", timing=COLUMN_A_CYCLE) == 8


def test_dram_scan_takes_what_its_stream_advances() -> None:
    """tRCD 3, tRP 2, tRAS 6, tCCD 1, RL 4; rows of 2 columns; scans of one byte."""
    # After 1, 2, 3, 4 accesses the stream is at 3+4 = 7; 7+1 = 8; period(2) + 7 = max(6, 4) + 2 + 7 = 15; 16.
    # So W's (and I's) loads take 7, 1, 7, 1, with a step of 1 after each; O goes out at the end in 3 + 4.
    timing = np.array([3, 2, 6, 0, 0, 1, 4, 0])
    assert latency("3C4", row_bytes=2, timing=timing) == (7 + 1) + (1 + 1) + (7 + 1) + (1 + 1) + 7


def test_shared_bus_serves_one_tensor_at_a_time() -> None:
    """3 array steps of 4 cycles, one scan of 4 columns of W and one of 4 of I each, O's 16 columns at the end."""
    # Own links, two slots: loads 0-4, 4-8, 8-12 beside each other; steps 4-8, 8-12, 12-16; O out 16-20.
    nest = "3C3 0K4 0N4"
    assert latency(nest, "0 0 0", "0", timing=COLUMN_A_CYCLE) == 4 + 3 * 16 + 16
    # One bus: I 0-4, W 4-8, step 8-24; the next two loads by 16, step 24-40; slots free at 24: 24-32, step 40-56; 72.
    assert latency(nest, "0 0 0", "0", timing=COLUMN_A_CYCLE, shared_bus=True) == 8 + 3 * 16 + 16


def test_shared_bus_serves_in_the_order_of_the_nest() -> None:
    """One K a step: O's old tile goes out before the next step's W comes in, even if that could come earlier."""
    # One cycle a scan, two slots, steps of 1. Bus: I0 0-1, W0 1-2, step 2-3. W1 2-3, O0 out 3-4 (after step 0).
    # Step 1 3-4. W2 4-5 (waits for O0, though its slot is free at 3), O1 out 5-6 (after step 1 at 4), step 2 5-6,
    # O2 out 6-7.
    assert latency("3K3", "0 0 0", "0", timing=COLUMN_A_CYCLE, shared_bus=True) == 7
    # Own links: W0 0-1, step 1-2, W1 1-2, step 2-3, W2 2-3 (slot 0 is free at 2), step 3-4, out 4-5.
    assert latency("3K3", "0 0 0", "0", timing=COLUMN_A_CYCLE) == 5


def test_streamed_operands_stretch_the_array_step() -> None:
    """No PE holds W: each array step of 2 steps takes the 4 cycles that 2 elements need."""
    assert latency("1C3 0K2", "0 1 0", bandwidth=limit(1, READ, 1, 2)) == 12
    # At 4 bytes a cycle the steps are longer.
    assert latency("1C3 0K2", "0 1 0", bandwidth=limit(1, READ, 4)) == 6


def test_streamed_operands_from_dram_scan_during_the_array_step() -> None:
    """Nobody holds W: 3 array steps of 2 steps and 2 columns, the first column 5 cycles later."""
    timing = np.array([5, 0, 0, 0, 0, 3, 1, 0])  # n columns: 5 + 3 (n - 1) + 1
    # I and O are in PEs; I's fetch is one column each, 6, 3 and 3 cycles (1 slot). W's 2 columns: 9, 6, 6.
    # I 0-6, step 6-15, I 15-18, step 18-24, I 24-27, step 27-33, O out: 2 columns, 9.
    assert latency("3C3 0K2", "0 - 0", timing=timing) == 33 + 9


def test_streamed_outputs_read_and_write_on_one_link() -> None:
    """No PE holds O: array steps of 2 steps write 2 sums, and read 2 but on the first visit (1 cycle each)."""
    bandwidth = limit(1, WRITE, 1)
    bandwidth[1, READ] = 1, 1
    # 1st array step: 2 writes, no reads (first terms): 2 cycles. 2nd and 3rd: 2 + 2.
    assert latency("1C3 0K2", "0 0 1", bandwidth=bandwidth) == 2 + 4 + 4


def test_streamed_dram_tensors_share_the_bus_with_loads() -> None:
    """W is streamed and I loaded, one column a cycle, 4 steps an array step."""
    # Own links, two slots: I 0-1, step 1-5 (W 1-5), I 1-2 meanwhile, step 5-9, O out 9-13.
    assert latency("3C2 0K4", "0 - 0", "0", timing=COLUMN_A_CYCLE) == 13
    # One bus: I 0-1, step 1-5 (W 1-5), then I 5-6, step 6-10, O 10-14.
    assert latency("3C2 0K4", "0 - 0", "0", timing=COLUMN_A_CYCLE, shared_bus=True) == 14


@pytest.mark.parametrize(
    ("slow", "expected"),
    [
        # A port a tensor: each of I, W and O is read 6 times (5 sums, as the first starts afresh, and one going out).
        ({"bandwidth": limit(0, READ, 1, 2), "ports": np.array([3, 1, 1])}, 12),
        # One port for all three: 18 bytes.
        ({"bandwidth": limit(0, READ, 1, 2), "ports": np.array([1, 1, 1])}, 36),
        # In: 6 of I and 6 of W; out: one of O.
        ({"interconnect": np.array([1, 3])}, 39),
        ({"interconnect": np.array([100, 1])}, 6),
    ],
)
def test_limits_that_are_not_links_bound_the_latency(slow: dict[str, Any], expected: int) -> None:
    """6 steps of one PE: ports, interconnect and the PEs' own bandwidth are section 6's totals, each alone a bound."""
    assert latency("1C6", "01 01 01", **slow) == expected


def test_limits_of_a_pe_are_each_pe_its_own() -> None:
    """4 PEs read 6 bytes each of I, W and O at once, in 2 cycles a byte."""
    assert latency("1C6 HK4", "01 01 01", bandwidth=limit(0, READ, 1, 2)) == 12
