"""Columns, row activations and DRAM time of tiny tensors: the layouts of section 3 and the rules of section 5 by hand.

Elements are one byte unless said, a column is 4 bytes, a row 8.
"""

from typing import Any

import numpy as np
import pytest

from tests.tracesim.nests import FREE_DEVICE, I, O, W, build_nest
from tracesim import Placement, Trace, simulate

DEVICE = FREE_DEVICE._replace(
    row_bytes=8,
    timing=np.array([3, 4, 10, 20, 2, 2, 5, 4]),  # tRCD tRP tRAS tRC tRTP tCCD_L RL BL
)


def run(
    loops: str,
    stored: str = "0 0 0",
    widths: tuple[int, ...] = (1, 1, 1, 1),
    order: int = 0,
    block: tuple[int, int] = (1, 1),
    **rules: Any,
) -> Trace:
    """Simulate a nest on DEVICE with other rules, all tensors in their first or second axis order."""
    device = DEVICE._replace(**rules)
    return simulate(build_nest(loops, stored, widths=widths), Placement(np.array([order] * 3), *block), device)


def dram(trace: Trace, tensor: int) -> tuple[int, int]:
    """Return a tensor's column accesses and row activations."""
    return int(trace.columns[tensor]), int(trace.activations[tensor])


# -- sequential layouts -----------------------------------------------------------------------------------------


def test_weights_in_first_order_have_the_filter_innermost() -> None:
    """GKCSR, 4 K by 4 C: fetch k is bytes 4k..4k+3, one column; rows 0, 0, 1, 1."""
    assert dram(run("3K4 0C4"), W) == (4, 2)


def test_weights_in_second_order_have_k_innermost() -> None:
    """SRCGK: fetch k is bytes k, 4+k, 8+k, 12+k: 4 columns; rows 0, 0, 1, 1, and back to 0 for the next."""
    assert dram(run("3K4 0C4", order=1), W) == (16, 8)


@pytest.mark.parametrize(("order", "columns"), [(0, 2 * 4), (1, 2 * 4 * 2)])
def test_inputs_in_either_order(order: int, columns: int) -> None:
    """N=1, C=4, H=2, W=4; a fetch takes 2 of the channels.

    NGCHW: channels 2c, 2c+1 are bytes 16c..16c+15: 4 columns. NHWGC: the pixels are 4 bytes each, a column, of which
    a fetch takes a half: 8 columns.
    """
    assert run("3C2 0C2 0P4 0Q2", order=order).columns[I] == columns


@pytest.mark.parametrize(("order", "columns"), [(0, 2), (1, 4)])
def test_outputs_in_either_order(order: int, columns: int) -> None:
    """K=2, P=4, a write-out takes one k. NGKQP: bytes 4k..4k+3, a column. NQPGK: bytes k, 2+k, 4+k, 6+k, 2 columns."""
    assert run("3K2 0P4", order=order).columns[O] == columns


def test_group_axis_lies_where_the_order_says() -> None:
    """W with G=2, C=2, a fetch takes one c of both groups: GKCSR bytes c, 2+c; SRCGK bytes 2c, 2c+1."""
    assert run("3C2 0G2", order=0, column_bytes=2).columns[W] == 4
    assert run("3C2 0G2", order=1, column_bytes=2).columns[W] == 2
    # And one k of both groups: bytes k, 2+k in either order, K being inside G.
    assert run("3K2 0G2", order=0, column_bytes=2).columns[W] == 4
    assert run("3K2 0G2", order=1, column_bytes=2).columns[W] == 4


def test_wide_elements_take_their_bytes() -> None:
    """4 elements of 2 bytes are two columns, of 4 bytes four columns and two rows."""
    assert dram(run("0C4", widths=(1, 2, 1, 1)), W) == (2, 1)
    assert dram(run("0C4", widths=(1, 4, 1, 1)), W) == (4, 2)


# -- columns and scans ------------------------------------------------------------------------------------------


def test_column_is_shared_within_a_scan_but_not_by_two() -> None:
    """8 consecutive bytes: in one scan 2 columns, in 4 scans of 2 bytes 4, in 8 of one byte 8; one row throughout."""
    assert dram(run("0C8"), W) == (2, 1)
    assert dram(run("3C4 0C2"), W) == (4, 1)
    assert dram(run("3C8"), W) == (8, 1)


def test_copies_of_an_element_coincide_in_a_scan() -> None:
    """Without multicast 4 PEs fetch the same 4 bytes, in one scan of one column."""
    trace = run("HK4 0C4", multicast=False)
    assert trace.accesses[3, I, 0] == 16
    assert dram(trace, I) == (1, 1)


def test_streamed_operands_scan_their_step_set() -> None:
    """No PE holds W: step t of K = H x T0 uses k = t and k = 4 + t. 4 steps of 2 columns, all in one row."""
    assert dram(run("0K4 HK2", stored="0 - 0"), W) == (8, 1)


def test_streamed_outputs_read_before_they_write() -> None:
    """Nobody holds O, each k in a row of its own: steps k0 k1 k0 k1 (C outside K) are w0, w1, r0 w0, r1 w1."""
    # 6 columns; the row changes before w0, w1, r0 and r1.
    assert dram(run("3C2 3K2", stored="0 0 -", widths=(1, 1, 8, 8)), O) == (6, 4)


def test_streamed_outputs_reread_copies_on_the_first_visit() -> None:
    """Two lanes of C without reduction: the second reads what the first wrote, so the step scans twice."""
    trace = run("LC2", stored="0 0 -", spatial_reduction=False)
    assert trace.accesses[3, O].tolist() == [1, 2]
    assert dram(trace, O) == (2, 1)
    assert dram(run("LC2", stored="0 0 -"), O) == (1, 1)


def test_output_stream_holds_old_out_then_new_in() -> None:
    """PE holds O, each k in a row of its own, C outside K: w0 | w1, r0 | w0, r1 | w1."""
    # Rows 0 1 0 0 1 1: activations before w0, w1, r0 and r1.
    assert dram(run("3C2 3K2", widths=(1, 1, 8, 8)), O) == (6, 4)


# -- rows and banks ---------------------------------------------------------------------------------------------


def test_open_page_keeps_the_row_across_scans_and_closed_page_does_not() -> None:
    """4 scans of a column each in rows 0, 0, 1, 1."""
    assert dram(run("3K4 0C4"), W) == (4, 2)
    assert dram(run("3K4 0C4", open_page=False), W) == (4, 4)


def test_closed_page_keeps_the_row_within_a_scan() -> None:
    """One scan over two rows of two columns."""
    assert dram(run("0C16", open_page=False), W) == (4, 2)


@pytest.mark.parametrize(("banks", "activations"), [(1, 8), (2, 2), (3, 2)])
def test_banks_hold_a_row_each(banks: int, activations: int) -> None:
    """Rows 0 and 1 in turn, 4 times (see the second order of W above): with two banks both stay open."""
    assert dram(run("3K4 0C4", order=1, banks=banks), W) == (16, activations)


def test_rows_of_one_bank_evict_each_other() -> None:
    """Rows 0, 1, 2 in turn, twice, in 2 banks: row 1 stays in bank 1, rows 0 and 2 share bank 0."""
    # W: K=2, C=3, elements of 4 bytes in SRCGK: c in row c. Two fetches of 3 elements: 0 1 2 | 0 1 2.
    # Activations: 0, 1, 2 (evicts 0), 0 (evicts 2), 2 (evicts 0): 5, not 6.
    assert dram(run("3K2 0C3", order=1, widths=(1, 4, 1, 1), banks=2), W) == (6, 5)


def test_tensors_have_banks_of_their_own() -> None:
    """I and W are each one row, read in turn: one activation each."""
    trace = run("3C8")
    assert (dram(trace, I), dram(trace, W)) == ((8, 1), (8, 1))


# -- row-aligned layouts ----------------------------------------------------------------------------------------


def test_blocks_never_straddle_a_row() -> None:
    """5 tiles of 3 bytes: 2 blocks a row, at 0, 3 | 8, 11 | 16."""
    # Columns of 4 bytes: 0-2, 3-5 (two), 8-10, 11-13 (two), 16-18: 7. Rows 0, 0, 1, 1, 2.
    assert dram(run("3C5 2C3", stored="0 2 0"), W) == (7, 3)
    # Packed: 0-2, 3-5 (two), 6-8 (two, the second in row 1), 9-11, 12-14: 7; rows 0, 0, 0 and 1, 1, 1.
    assert dram(run("3C5 1C3", stored="0 1 0"), W) == (7, 2)


def test_blocks_larger_than_a_row_start_on_one() -> None:
    """Tiles of 10 bytes take 2 rows each: bytes 0-9 and 16-25, 3 columns and 2 rows each."""
    assert dram(run("3C2 2C10", stored="0 2 0"), W) == (6, 4)
    # Packed: 0-9 (3 columns, rows 0 and 1) and 10-19 (8-11, 12-15, 16-19: 3 columns, rows 1 and 2).
    assert dram(run("3C2 1C10", stored="0 1 0"), W) == (6, 3)


@pytest.mark.parametrize(("order", "activations"), [(0, 2), (1, 4)])
def test_blocks_are_numbered_in_order(order: int, activations: int) -> None:
    """W: 2 K by 2 C blocks of 4 bytes, 2 blocks a row, fetched k by k.

    GKCSR: number 2k + c: rows 0, 0, 1, 1. SRCGK: number 2c + k: rows 0, 1, 0, 1.
    """
    assert dram(run("3K2 3C2 2C4", stored="0 2 0", order=order), W) == (4, activations)


def test_elements_of_a_block_are_packed_in_order() -> None:
    """A block of 2 K by 4 C; the PEs do not matter, the whole block is scanned: 8 bytes, 2 columns."""
    assert dram(run("3K2 2K2 2C4", stored="0 2 0"), W) == (4, 2)


def test_output_blocks_have_the_width_of_what_lies_in_dram() -> None:
    """O tiles of 3: final ones are 3 bytes, 2 blocks a row; spilled partial sums of 2 bytes are 6, a row each."""
    final = run("3K4 3C2 2K3", stored="0 0 2", widths=(1, 1, 1, 2))
    # Written once each, at 0, 3, 8, 11: columns 1, 2, 1, 2; rows 0, 0, 1, 1.
    assert dram(final, O) == (6, 2)
    spilled = run("3C2 3K4 2K3", stored="0 0 2", widths=(1, 1, 1, 2))
    # Old out, then new in: w0 | w1 | w2 | w3 r0 | w0 r1 | w1 r2 | w2 r3 | w3: 12 scans of 2 columns.
    # Rows 0 1 2 3 0 0 1 1 2 2 3 3: 8 activations.
    assert dram(spilled, O) == (24, 8)


def test_input_tile_crosses_blocks_along_its_width() -> None:
    """Tiles are columns 0..2 and 2..4 of 5, blocks 2 wide at bytes 0, 2 | 4 in rows of 4 bytes."""
    # Tile 0: bytes 0, 1, 2; tile 1: bytes 2, 3, 4. In columns of 2 bytes: 2 and 2. Rows 0 | 0, 1.
    trace = run("3P2 2P2 2R2", stored="2 0 0", block=(1, 2), row_bytes=4, column_bytes=2)
    assert dram(trace, I) == (4, 2)


def test_input_tile_crosses_blocks_along_both_axes() -> None:
    """2 x 2 tiles at (h, w) = (s, r) of a 3 x 3 input, in blocks of 2 x 2: 4 bytes each, at 0, 4 | 8, 12."""
    # (0,0): bytes 0-3: 1 column. Row 0 opens.
    # (1,0): (1,0), (1,1) are 2, 3 and (2,0), (2,1) are 8, 9: 2 columns. Row 1 opens.
    # (0,1): (0,1), (1,1) are 1, 3 and (0,2), (1,2) are 4, 6: 2 columns. Row 0 opens.
    # (1,1): (1,1) is 3, (1,2) is 6, (2,1) is 9, (2,2) is 12: 4 columns. Row 1 opens.
    trace = run("3R2 3S2 2P2 2Q2", stored="2 0 0", block=(2, 2))
    assert dram(trace, I) == (9, 4)


def test_input_blocks_lie_outside_channels_in_second_order() -> None:
    """NHWGC, 2 of 4 channels in a tile, 2 columns wide, blocks 1 wide: 2 bytes each, numbered 2w + c."""
    # c = 0: blocks 0 and 2 at bytes 0 and 4: 2 columns; c = 1: blocks 1 and 3 at 2 and 6: 2 columns.
    assert dram(run("3C2 2C2 2P2", stored="2 0 0", order=1, block=(1, 1)), I) == (4, 1)
    # NGCHW: numbered 2c + w: bytes 0-3 and 4-7, a column each.
    assert dram(run("3C2 2C2 2P2", stored="2 0 0", order=0, block=(1, 1)), I) == (2, 1)


def test_partial_blocks_keep_the_full_pitch() -> None:
    """A 1 x 3 x 3 input in blocks of 2 x 2: the lower right block holds one element and 4 bytes.

    So does each other partial one: blocks at 0, 4, 8, 12; and the third row of the image, (2,0), (2,1) and (2,2), is
    bytes 8, 9 and 12.
    """
    # All 9 elements in one scan: 0 1 2 3 | 4 6 | 8 9 | 12: 4 columns, 2 rows.
    assert dram(run("2P3 2Q3", stored="2 0 0", block=(2, 2)), I) == (4, 2)


# -- time -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("columns", "period"),
    [
        (1, 20),  # max(10, 3 + 0 + 2) + 4 = 14, below tRC
        (4, 20),  # max(10, 3 + 6 + 2) + 4 = 15, below tRC
        (6, 20),  # max(10, 3 + 10 + 2) + 4 = 19, below tRC
        (7, 21),  # max(10, 3 + 12 + 2) + 4 = 21: the row is busy for longer
        (8, 23),
    ],
)
def test_closed_runs_cost_their_period(columns: int, period: int) -> None:
    """Two runs of so many columns in rows of as many; the last one costs tRCD + (n-1) tCCD_L + RL + BL/2."""
    trace = run(f"0C{8 * columns}", row_bytes=4 * columns)
    last = 3 + (columns - 1) * 2 + 5 + 2
    assert dram(trace, W) == (2 * columns, 2)
    assert trace.stream_cycles[W] == period + last


@pytest.mark.parametrize(("ras", "period"), [(5, 9), (6, 10), (8, 12)])
def test_period_has_a_floor_at_ras(ras: int, period: int) -> None:
    """Runs of one column, tRCD + tRTP = 5, tRC small: max(tRAS, 5) + tRP."""
    timing = np.array([3, 4, ras, 1, 2, 2, 5, 4])
    assert run("0C8", row_bytes=4, timing=timing).stream_cycles[W] == period + 3 + 5 + 2


def test_runs_span_scans_of_an_open_row() -> None:
    """8 scans of one byte of one row are one run of 8 columns; closed, 8 runs of one."""
    assert run("3C8").stream_cycles[W] == 3 + 7 * 2 + 5 + 2
    assert run("3C8", open_page=False).stream_cycles[W] == 7 * 20 + 3 + 5 + 2


def test_runs_hold_hits_in_other_banks() -> None:
    """Rows 0, 1 twice in 2 banks, a column each (W in SRCGK): runs of 1 and, before no activation, 3."""
    trace = run("3K2 0C2", order=1, widths=(1, 8, 1, 1), row_bytes=16, banks=2)
    # K=2, C=2, 8 bytes each: fetch k is bytes 8k and 16 + 8k: rows 0, 1 | 0, 1. Elements of two columns count by
    # their first byte: one column access each.
    assert dram(trace, W) == (4, 2)
    assert trace.stream_cycles[W] == 20 + 3 + 2 * 2 + 5 + 2


def test_streams_run_side_by_side_unless_they_share_the_bus() -> None:
    """I: one run of 8 columns, 24 cycles; W the same; O one column, 10 cycles."""
    trace = run("3C8")
    assert trace.stream_cycles.tolist() == [24, 24, 10]
    assert trace.dram_cycles == 24
    assert run("3C8", shared_bus=True).dram_cycles == 58


def test_writes_are_timed_like_reads() -> None:
    """O written at 8 places of a row takes what reading W there takes."""
    trace = run("3K8")
    assert trace.stream_cycles[O] == trace.stream_cycles[W] == 24


def test_outputs_in_dram_are_partial_sums_only_when_some_come_back() -> None:
    """8 outputs of 1 byte, partial sums of 4."""
    # C moves nothing of O: written once, 8 bytes.
    assert run("3C2 0K8", widths=(1, 1, 1, 4)).columns[O] == 2
    # K in two halves inside C: each half goes out twice and comes back once, 4 columns of 4 bytes each time.
    assert run("3C2 3K2 0K4", widths=(1, 1, 1, 4)).columns[O] == 3 * 8
