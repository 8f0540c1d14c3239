"""Kernels one by one, and compiled against plain Python."""

import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.tracesim.nests import build_nest, rich_case, uneven_case
from tracesim import Nest, simulate
from tracesim.address import LAYOUT, block_address, set_layout
from tracesim.axes import axis_coefficients
from tracesim.bank import BANK, access_column, last_run_cycles, run_period, stream_cycles
from tracesim.jit import new_record
from tracesim.nest import ODOMETER, advance, count_visits, set_loops
from tracesim.stream import stream_columns
from tracesim.tiles import ARRAY, measure_geometry, residency_points, spread, tile_coordinates

TIMING = np.array([14, 14, 33, 47, 5, 4, 20, 4])  # tRCD tRP tRAS tRC tRTP tCCD_L RL BL


def both(kernel: Callable[..., Any]) -> list[Callable[..., Any]]:
    """Return a kernel compiled and as it is written."""
    return [kernel, getattr(kernel, "py_func", kernel)]


def test_simulation_is_the_same_without_the_compiler() -> None:
    """Everything, kernels included, run as plain Python in a process of its own."""
    environment = {**os.environ, "NUMBA_DISABLE_JIT": "1", "PYTHONPATH": os.pathsep.join(sys.path)}
    program = "from tests.tracesim.test_kernels import everything; print(everything())"
    plain = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True)
    assert plain.stdout.strip() == str(everything())


def everything() -> list[Any]:
    """Return what is simulated and streamed of the rich case, even and not, as plain data."""
    numbers: list[Any] = []
    for case in (rich_case(), uneven_case()):
        numbers += [np.asarray(x).tolist() for x in simulate(*case)]
        numbers += [buffer.tolist() for buffer in stream_columns(*case, size=100).bufferfuls]
    return numbers


def test_simulation_leaves_its_arguments_alone() -> None:
    """Two runs of the same arguments agree, and the arguments are as before."""
    case, untouched = rich_case(), rich_case()
    first, second = simulate(*case), simulate(*case)
    for got, again in zip(first, second, strict=True):
        np.testing.assert_array_equal(got, again)
    for record, before in zip(case, untouched, strict=True):
        for got, expected in zip(record, before, strict=True):
            np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("kernel", both(spread))
def test_spread_marks_every_translate(kernel: Callable[..., Any]) -> None:
    """{0, 2} spread by 3, three times: {0, 2, 3, 5, 6, 8}."""
    marks = kernel(np.array([True, False, True]), 3, 3)
    assert np.flatnonzero(marks).tolist() == [0, 2, 3, 5, 6, 8]


@pytest.mark.parametrize("kernel", both(tile_coordinates))
def test_tile_coordinates_of_boxes_arrays_and_steps(kernel: Callable[..., Any]) -> None:
    """I's columns for P = W2 x T0 2 and R = Internal 2, stride 3: PE 0 has p = 0, 1, PE 1 has p = 2, 3."""
    spatial = np.ones((3, 8), np.int64)
    spatial[1, 2], spatial[2, 0] = 2, 2
    nest = Nest(
        np.array([[0, 2, 2]]), spatial, np.zeros((3, 3), np.bool_), np.array([3, 1, 1, 1]), np.ones(4, np.int64)
    )
    geometry = measure_geometry(nest)

    def columns(kind: int) -> list[int]:
        coordinates, counts = kernel(geometry, kind, 0)
        assert counts[:4].tolist() == [1, 1, 1, 1]
        return coordinates[4, : counts[4]].tolist()  # type: ignore[no-any-return]

    assert columns(0) == [0, 1, 2, 3, 4]  # span of 0, 1, 3, 4
    assert columns(3) == [0, 1, 2, 3, 4, 6, 7, 8, 9, 10]  # two PEs, 5 is nobody's
    assert columns(4) == [0, 1, 6, 7]  # the first step: p = 0 and p = 2, r = 0, 1
    assert columns(5) == [0, 1]  # of one PE
    assert columns(1) == list(range(11))  # a buffer holds the gap as well


@pytest.mark.parametrize("kernel", both(residency_points))
def test_points_lie_at_a_level_unless_loops_of_it_are_outside(kernel: Callable[..., Any]) -> None:
    """Loops C P | K N | R S Q: level 2 has none. W leaves out K at level 1, O leaves out R and S at the PEs."""
    nest = build_nest("3C2 3P2 1K2 1N2 0R2 0S2 0Q2", "01 1 0", outside="1W1 0O2")
    # No PE stores W: of it an array step uses what lies within all points there.
    assert kernel(nest).tolist() == [[4, 6, 6], [2, 3, 2], [2, 2, 2], [7, 7, 7]]


def test_uneven_tiles_of_an_array_leave_gaps_between_its_pes() -> None:
    """K = T0 2 outside the tile, Internal 2 within, over 3 PEs that lie 4 apart; a buffer holds all 12."""
    geometry = measure_geometry(build_nest("0K2 HK3 LK2", "- 01 -", outside="0W1"))

    def filters(kind: int) -> list[int]:
        coordinates, counts = tile_coordinates(geometry, kind, 1)
        return coordinates[1, : counts[1]].tolist()  # type: ignore[no-any-return]

    assert filters(0) == [0, 1]
    assert filters(ARRAY) == [0, 1, 4, 5, 8, 9]
    assert filters(1) == list(range(12))


@pytest.mark.parametrize("kernel", both(axis_coefficients))
def test_axis_coefficients_put_strides_on_outputs_and_dilations_on_the_filter(kernel: Callable[..., Any]) -> None:
    """w = 2 p + 4 r, h = 3 q + 5 s; everything else counts one dim."""
    coefficients = kernel(np.array([2, 3, 4, 5]))
    assert coefficients[0, 4].tolist() == [4, 0, 2, 0, 0, 0, 0, 0]  # R S P Q C K N G
    assert coefficients[0, 3].tolist() == [0, 5, 0, 3, 0, 0, 0, 0]
    assert coefficients[1].sum(axis=0).tolist() == [1, 1, 0, 0, 1, 1, 0, 1]
    assert coefficients[2].sum(axis=0).tolist() == [0, 0, 1, 1, 0, 1, 1, 1]


@pytest.mark.parametrize("kernel", both(advance))
def test_odometer_visits_every_tile_in_order(kernel: Callable[..., Any]) -> None:
    """K 2 at DRAM, C 3 at the buffer: O's tile number is k, W's 3k + c (2 k per step 1 of K, c first element c)."""
    nest = rich_case()[0]._replace(
        loops=np.array([[3, 5, 2], [1, 4, 3]]), spatial=np.ones((3, 8), np.int64), conv=np.ones(4, np.int64)
    )
    odometer = new_record(ODOMETER)
    set_loops(odometer, nest.loops, measure_geometry(nest))
    seen = [(odometer.identity[1, 0], odometer.identity[1, 1], odometer.identity[2, 0], tuple(odometer.coordinate[1]))]
    while kernel(odometer, 0, 2):
        seen.append(
            (odometer.identity[1, 0], odometer.identity[1, 1], odometer.identity[2, 0], tuple(odometer.coordinate[1]))
        )
    # W's axes are G, K, C, S, R.
    assert seen == [(3 * k + c, k, k, (0, k, c, 0, 0)) for k in range(2) for c in range(3)]
    assert odometer.digits[:2].tolist() == [0, 0]
    assert not odometer.identity.any()


@pytest.mark.parametrize("kernel", both(count_visits))
def test_visits_are_counted_for_every_level(kernel: Callable[..., Any]) -> None:
    """C 3 at DRAM, K 2 at the buffer: what the buffer holds changes with C alone."""
    nest = rich_case()[0]._replace(loops=np.array([[3, 4, 3], [1, 5, 2], [0, 2, 5]]), spatial=np.ones((3, 8), np.int64))
    odometer = new_record(ODOMETER)
    set_loops(odometer, nest.loops, measure_geometry(nest))
    visits = kernel(odometer, np.zeros(1, np.int64))
    assert visits.entered.tolist() == [[3, 6, 6], [3, 3, 1], [3, 3, 1]]
    assert visits.first.tolist() == [2, 1, 1]
    assert (visits.array_steps, visits.steps_each) == (6, 5)


@pytest.mark.parametrize("kernel", both(run_period))
@pytest.mark.parametrize(("columns", "cycles"), [(1, 47), (2, 47), (4, 47), (5, 49), (32, 157)])
def test_run_period_follows_the_device(kernel: Callable[..., Any], columns: int, cycles: int) -> None:
    """HBM2: 14 + 4 (n - 1) + 5 reaches tRAS = 33 between n = 4 (31) and n = 5 (35); tRAS + tRP is tRC."""
    assert kernel(TIMING, columns) == cycles


@pytest.mark.parametrize("kernel", both(last_run_cycles))
def test_last_run_ends_with_its_data(kernel: Callable[..., Any]) -> None:
    """tRCD + (n - 1) tCCD_L + RL + BL/2; of an odd BL the half is dropped."""
    assert kernel(TIMING, 3) == 14 + 8 + 20 + 2
    assert kernel(np.array([0, 0, 0, 0, 0, 0, 0, 5]), 1) == 2


@pytest.mark.parametrize("kernel", both(access_column))
def test_access_column_opens_rows_and_counts(kernel: Callable[..., Any]) -> None:
    """Bytes 5, 8, 40 in columns of 4, rows of 16, 2 banks: columns 1, 2 of row 0 and one of row 2, the same bank."""
    bank, open_rows = new_record(BANK), np.array([-1, -1])
    bank.row_bytes, bank.column_bytes, bank.banks, bank.timing[:] = 16, 4, 2, TIMING
    assert [kernel(bank, open_rows, address) for address in (5, 8, 40)] == [8, 12, 44]
    assert (bank.columns, bank.activations, bank.run_columns) == (3, 2, 1)
    assert open_rows.tolist() == [2, -1]
    assert stream_cycles(bank) == 47 + 14 + 20 + 2


def test_empty_stream_costs_nothing() -> None:
    """No request, no time."""
    assert stream_cycles(new_record(BANK)) == 0


@pytest.mark.parametrize("kernel", both(block_address))
@pytest.mark.parametrize(
    ("block_bytes", "expected"),
    [(16, [0, 16, 32]), (8, [0, 8, 16]), (5, [0, 5, 10, 16, 21]), (17, [0, 32, 64]), (33, [0, 48])],
)
def test_block_address_packs_whole_blocks(kernel: Callable[..., Any], block_bytes: int, expected: list[int]) -> None:
    """Rows of 16 bytes hold 1, 2 or 3 whole blocks, or a block takes 2 or 3 rows."""
    layout = new_record(LAYOUT)
    extent, block = np.array([1, 1, 1, 1, 9 * block_bytes]), np.array([1, 1, 1, 1, block_bytes])
    set_layout(layout, np.arange(5), extent, block, 1, 16)
    assert [kernel(layout, number) for number in range(len(expected))] == expected
