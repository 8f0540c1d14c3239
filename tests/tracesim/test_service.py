"""Banks that serve accesses in order, with writes timed as writes: by hand, and command by command."""

from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.tracesim.nests import I, O, W
from tracesim.service import Rules, Service, serve_stream, served_cycles
from tracesim.stream import ColumnStream

ROW_BYTES, COLUMN_BYTES = 64, 8
#: Of a tensor: its number, whether it is written, its row and its column.
Access = tuple[int, int, int, int]


class Timings(NamedTuple):
    """Cycles; `burst` on the data bus."""

    tRCD: int
    tRP: int
    tRAS: int
    tRC: int
    tRTP: int
    tCCD: int
    RL: int
    WL: int
    burst: int
    tWR: int
    tWTR: int
    tRTW: int


SMALL = Timings(3, 4, 5, 9, 2, 2, 6, 5, 2, 7, 3, 8)
#: hbm-pim, gddr6-aim and attacc in their clocks (4 ns, 1 ns, 3.08 ns), as in the files of their sources.
DEVICES = (
    SMALL,
    Timings(4, 4, 9, 12, 2, 1, 5, 2, 1, 4, 3, 4),
    Timings(28, 16, 27, 45, 6, 1, 25, 4, 1, 17, 6, 25),
    Timings(5, 5, 12, 16, 2, 1, 5, 2, 1, 6, 3, 5),
)


def serve(
    accesses: list[Access],
    t: Timings,
    part: tuple[int, ...] = (0, 1, 2),
    banks: tuple[int, int, int] = (1, 1, 1),
    is_bus_shared: bool = False,
) -> Service:
    """Serve accesses, in two bufferfuls; each tensor has 4 rows."""
    listed = [(tensor, way, row * ROW_BYTES + column * COLUMN_BYTES) for tensor, way, row, column in accesses]
    rows = np.array(listed, np.int64)
    stream = ColumnStream(np.full(3, 4), iter([rows[:2], rows[2:]]))
    row_times = np.array([t.tRCD, t.tRAS, t.tRP, t.tRC])
    written = t.WL + t.burst
    gap = np.array([[t.tCCD, max(t.tCCD, t.tRTW)], [max(t.tCCD, written + t.tWTR), t.tCCD]])
    merged = Rules(gap, np.array([t.tRTP, max(t.tRTP, written + t.tWR)]), row_times)
    alone = Rules(np.full((2, 2), t.tCCD), np.full(2, t.tRTP), row_times)
    return serve_stream(stream, np.array(part), np.array(banks), ROW_BYTES, is_bus_shared, merged, alone)


def cycles(run, t: Timings) -> int:
    """The time to the end of the last data."""
    return served_cycles(run, t.RL + t.burst)


def issued_in_order(accesses: list[tuple[int, int]], t: Timings) -> int:
    """The time of one bank's accesses (way, row): each command as early as all commands before it allow."""
    never = -(10**6)
    act, column, open_row = never, [never, never], -1
    start = None
    for way, row in accesses:
        if row != open_row:
            pre = max(act + t.tRAS, column[0] + t.tRTP, column[1] + t.WL + t.burst + t.tWR)
            act = 0 if start is None else max(pre + t.tRP, act + t.tRC)
            start, open_row = 0, row
        waits = (t.tCCD, t.WL + t.burst + t.tWTR) if way == 0 else (t.tRTW, t.tCCD)
        column[way] = max(act + t.tRCD, column[0] + max(waits[0], t.tCCD), column[1] + max(waits[1], t.tCCD))
    return max(column) + t.RL + t.burst


def test_runs_with_writes_by_hand() -> None:
    """One bank: read, write, read of row 0; write of row 1; read of row 0.

    Row 0: commands at 3, 3 + tRTW 8 = 11, 11 + (WL 5 + 2 + tWTR 3) = 21. Closed at 11 + 5 + 2 + tWR 7 = 25, not at
    21 + tRTP 2; period 25 + tRP 4 = 29. Row 1: written at 3, closed at 17, period 21. Last: 3 + RL 6 + 2 = 11.
    As reads: 3 + 2*2 + 2 + 4 = 13, then max(tRC 9, 3 + 2 + 4) = 9, then 11.
    """
    found = serve([(O, 0, 0, 0), (O, 1, 0, 0), (O, 0, 0, 1), (O, 1, 1, 0), (O, 0, 0, 0)], SMALL)
    assert cycles(found.merged[O], SMALL) == 29 + 21 + 11
    assert cycles(found.alone[O, 0], SMALL) == 13 + 9 + 11
    assert found.switches.tolist() == [2, 2]
    assert found.columns.tolist() == [0, 0, 5]


def test_runs_of_one_bank_do_not_end_where_another_bank_opens_a_row() -> None:
    """Rows 0 and 1 in two banks, in turn: the part's second run has three columns, each bank's only run two.

    Merged: 3 + 2 + 4 = 9, then 3 + 2*2 + 6 + 2 = 15. Alone: 3 + 2 + 6 + 2 = 13.
    """
    found = serve([(I, 0, 0, 0), (I, 0, 1, 0), (I, 0, 0, 1), (I, 0, 1, 1)], SMALL, banks=(2, 1, 1))
    assert cycles(found.merged[I], SMALL) == 9 + 15
    assert [cycles(run, SMALL) for run in found.alone[I]] == [13, 13]


def test_parts_have_banks_of_their_own_number() -> None:
    """I has two banks and W one: rows 0 and 1 in turn stay open for I only."""
    turns = [(0, 0, 0), (0, 1, 0), (0, 0, 1), (0, 1, 1)]
    found = serve([(t, *access) for access in turns for t in (I, W)], SMALL, banks=(2, 1, 1))
    assert cycles(found.merged[I], SMALL) == 9 + 15
    assert cycles(found.merged[W], SMALL) == 9 + 9 + 9 + 11


def test_tensors_of_a_part_lie_in_rows_of_their_own() -> None:
    """I and O share the bank: row 0 of each is another row, so each access opens one: 9 + 21 + 11 with O's write."""
    found = serve([(I, 0, 0, 0), (O, 1, 0, 0), (I, 0, 0, 1)], SMALL, part=(0, 1, 0))
    assert cycles(found.merged[0], SMALL) == 9 + 21 + 11
    assert cycles(found.merged[2], SMALL) == 0


def test_shared_bus_turns_between_parts() -> None:
    """O's second write follows a read of I: it waits tRTW 8 on a shared bus, and tCCD 2 with a bus of its own."""
    accesses = [(O, 1, 0, 0), (I, 0, 0, 0), (O, 1, 0, 1)]
    own, shared = (serve(accesses, SMALL, is_bus_shared=flag) for flag in (False, True))
    assert cycles(own.merged[O], SMALL) == 3 + 2 + 8
    assert cycles(shared.merged[O], SMALL) == 3 + 8 + 8
    assert (own.switches.tolist(), shared.switches.tolist()) == ([0, 0], [1, 1])


@pytest.mark.parametrize("t", DEVICES)
@settings(max_examples=80, deadline=None)
@given(accesses=st.lists(st.tuples(st.integers(0, 1), st.integers(0, 2)), min_size=1, max_size=30))
def test_one_bank_is_served_as_command_by_command(t: Timings, accesses: list[tuple[int, int]]) -> None:
    """The same cycle as a list of commands, each issued when every rule of the device allows, also across rows."""
    found = serve([(O, way, row, 0) for way, row in accesses], t)
    assert cycles(found.merged[O], t) == issued_in_order(accesses, t)
