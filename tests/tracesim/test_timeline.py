"""The recorded pipeline of tiny nests, by hand; tests/cross/test_timeline.py holds it against the simulated one."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.tracesim.test_pipeline import COLUMN_A_CYCLE, DEVICE, READ, WRITE, build_nest, limit
from tracesim import Placement
from tracesim.timeline import (
    ARRAY_STEP,
    BINS,
    END,
    KIND,
    LEVEL,
    LIMIT,
    LINK,
    MOVE_IN,
    MOVE_OUT,
    START,
    STREAM,
    TENSOR,
    Timeline,
    halve,
    log_activation,
    log_event,
    record_timeline,
)
from tracesim.timeline import _new_log as new_log

I, W, O = range(3)  # noqa: E741 - the tensors' names


def timeline(loops: str, stored: str, double: str = "", events: int = 100, **rules: Any) -> Timeline:
    """Record a nest drawn as in `test_pipeline`."""
    device = DEVICE._replace(double_buffered=np.array(["0" in double, "1" in double]), **rules)
    return record_timeline(build_nest(loops, stored), Placement(np.zeros(3, np.int64), 1, 1), device, events)


def spans(recorded: Timeline, kind: int, tensor: int = 0) -> list[tuple[int, int]]:
    """Starts and ends of a kind of events of a tensor."""
    rows = [row for row in recorded.events.tolist() if row[KIND] == kind and row[TENSOR] == tensor]
    return [(row[START], row[END]) for row in rows]


def test_loads_and_steps_alternate_with_one_slot_and_overlap_with_two() -> None:
    """W loads 4 elements at a byte a cycle, an array step takes 4 cycles; I's element loads in 1."""
    single = timeline("1C3 0K4", "01 01 0", bandwidth=limit(1, READ, 1))
    assert spans(single, MOVE_IN, W) == [(0, 4), (8, 12), (16, 20)]
    assert spans(single, ARRAY_STEP) == [(4, 8), (12, 16), (20, 24)]
    double = timeline("1C3 0K4", "01 01 0", "0", bandwidth=limit(1, READ, 1))
    assert spans(double, MOVE_IN, W) == [(0, 4), (4, 8), (8, 12)]
    assert spans(double, ARRAY_STEP) == [(4, 8), (8, 12), (12, 16)]


def test_moves_name_tensor_level_and_link() -> None:
    """O's tiles leave the PEs for the global buffer, which writes a byte a cycle; nothing else takes time."""
    recorded = timeline("1K2", "0 0 01", bandwidth=limit(1, WRITE, 1))
    out = [row for row in recorded.events.tolist() if row[KIND] == MOVE_OUT]
    assert [(row[TENSOR], row[LEVEL]) for row in out] == [(O, 0), (O, 0)]
    assert len({row[LINK] for row in out}) == 1


def test_tensor_that_no_pe_stores_streams_through_the_array_step() -> None:
    """Two array steps of 2 cycles draw 2 elements of W each from the global buffer, 2 cycles an element."""
    recorded = timeline("1C2 0K2", "0 1 0", bandwidth=limit(1, READ, 1, 2))
    assert spans(recorded, STREAM, W) == spans(recorded, ARRAY_STEP) == [(0, 4), (4, 8)]


def test_busy_interconnect_is_an_event_of_its_own() -> None:
    """3 elements each of I and W come in and one of O goes out, 10 cycles a byte: longer than the 3 steps."""
    recorded = timeline("3C3", "0 0 0", interconnect=np.array([1, 10]))
    assert spans(recorded, LIMIT) == [(0, 70)]


def test_dram_transfer_lasts_as_long_as_its_stream_advances() -> None:
    """A column access a cycle: 4 elements of W in 4 cycles, once; 4 rows of one byte are opened in order."""
    recorded = timeline("1K4", "0 1 0", timing=COLUMN_A_CYCLE, row_bytes=1)
    assert spans(recorded, MOVE_IN, W)[0][0] == 0
    assert recorded.activations.tolist() == [1, 4, 4]
    assert recorded.maps[W, :4, :4].tolist() == np.eye(4, dtype=int).tolist()
    assert recorded.rows.tolist() == [1, 4, 4]


def test_of_too_many_events_the_first_and_the_last_stay() -> None:
    """Of 10 array steps of one cycle, a log of 4 keeps the first two and the last two."""
    recorded = timeline("1C10", "0 0 0", events=4)
    assert spans(recorded, ARRAY_STEP) == [(0, 1), (1, 2), (8, 9), (9, 10)]
    assert recorded.dropped == 6


def test_map_that_is_outgrown_merges_its_bins() -> None:
    """Activation n opens row 3n: 2 activations and 4 rows a bin when BINS + 1 have happened, none lost."""
    log = new_log(2, np.arange(3))
    for n in range(BINS + 1):
        log_activation(log, W, 3 * n)
    assert (log.counter.order_width[W], log.counter.row_width[W]) == (2, 4)
    expected: NDArray[np.int64] = np.zeros((BINS, BINS), np.int64)
    for n in range(BINS + 1):
        expected[n // 2, 3 * n // 4] += 1
    assert log.maps[W].tolist() == expected.tolist()


def test_tensors_of_one_bank_share_order_and_rows() -> None:
    """I and W alternate, O has a bank of its own: its bins stay single when those of the shared bank are merged.

    Activation 2n opens I's row 0, 2n + 1 opens W's row 100. After 80 of them two activations and two rows fall into a
    bin, so each of the first 40 bins of the order holds one of I (row bin 0) and one of W (row bin 50).
    """
    log = new_log(2, np.array([0, 0, 1]))
    for _ in range(40):
        log_activation(log, I, 0)
        log_activation(log, W, 100)
    log_activation(log, O, 3)
    assert (log.counter.order_width[:2].tolist(), log.counter.row_width[:2].tolist()) == ([2, 1], [2, 1])
    assert log.counter.activations.tolist() == [40, 40, 1]
    assert log.counter.rows.tolist() == [1, 101, 4]
    expected: NDArray[np.int64] = np.zeros((3, BINS, BINS), np.int64)
    expected[I, :40, 0] = expected[W, :40, 50] = expected[O, 0, 3] = 1
    assert log.maps.tolist() == expected.tolist()


def test_rows_of_a_shared_bank_lie_behind_each_other() -> None:
    """Four W of a byte in rows of a byte lie behind I's one row, O's four behind W's; the nest opens each once.

    Apart, each tensor's rows begin at 0. Together the order is I, four of W, four of O.
    """
    nest, device = build_nest("1K4", "0 1 0"), DEVICE._replace(timing=COLUMN_A_CYCLE, row_bytes=1)
    apart, together = (
        record_timeline(nest, Placement(np.zeros(3, np.int64), 1, 1, np.array(part)), device, 100)
        for part in ([0, 1, 2], [0, 0, 0])
    )
    assert (apart.first_row.tolist(), apart.rows.tolist()) == ([0, 0, 0], [1, 4, 4])
    assert (together.first_row.tolist(), together.rows.tolist()) == ([0, 1, 5], [1, 5, 9])
    assert together.activations.tolist() == [1, 4, 4]
    assert together.maps[W].sum(axis=0)[:9].tolist() == [0, 1, 1, 1, 1, 0, 0, 0, 0]
    assert together.maps.sum(axis=(0, 2))[:9].tolist() == [1] * 9


@pytest.mark.parametrize("compiled", [True, False])
def test_kernels_do_as_python_does(compiled: bool) -> None:
    """`halve` and `log_event`, compiled and not: pairs are added; what takes no time is no event."""
    cells = np.arange(BINS * 2).reshape(BINS, 2).repeat(BINS // 2, axis=1)
    run = halve if compiled else halve.py_func  # type: ignore[attr-defined]
    before = cells.copy()
    run(cells)
    assert cells[0].tolist() == (before[0] + before[1]).tolist()
    assert cells[BINS // 2 :].sum() == 0
    log = new_log(4, np.arange(3))
    note = log_event if compiled else log_event.py_func  # type: ignore[attr-defined]
    note(log, MOVE_IN, 3, 3, 0, W, 5, 5)
    note(log, MOVE_IN, 3, 3, 0, W, 5, 9)
    assert log.counter.events == 1
    assert log.events[0].tolist() == [MOVE_IN, 3, 3, 0, W, 5, 9]
