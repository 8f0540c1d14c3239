"""Sweeps of the inner loops of a stream, each counted once for the byte of a row at which it begins.

Where tensors share a bank, every move of some outer loops interrupts the stream. A *sweep* is what the loops inside
these take until one of these moves again. It depends on the byte of the row at which it begins and on little else
(`BEGIN`), as outer loops mostly go on by whole rows or by few different bytes.
"""

from typing import NamedTuple

import numpy as np

from tables.counts.row_state import CYCLES, OPEN, QUICKEST, ROWS, RUN, SCANS, SUPPLIED, TAKEN, USED
from tables.counts.visits import WINDOW, Tile
from tables.dram import Dram
from tables.jit import njit
from tables.nest import Ints
from tables.reduce import gcd, product

#: Streams of fewer scans, and savings of less than this factor, are not worth it.
_LEAST_SCANS, _LEAST_SAVING = 10_000, 4
#: What a sweep depends on besides its byte: the open row, counted from the one in which the sweep begins; columns in
#: the current run; cycles since the array was supplied; tiles taken of those that the array needs next; and flags.
BEGIN = 5
#: The open row of a bank whose rows are closed, in place of a number.
_CLOSED = 2**62
#: The fewest cycles of a load where there was none.
_NO_LOAD = 2**62


class Sweeps(NamedTuple):
    """`outer`: how many loops lie outside a sweep, 0 if none are kept. By pattern (`tables.counts.visits`) of the first
    scan: `is_known` bool[patterns], `begins` int[patterns, BEGIN], and `costs` int[patterns, ROWS + 1]: what the slots
    of a walk's state grow by, the run and the quickest load in place of that, and the open row as above.

    Of the sweep that is being counted: how it `begin`s int[BEGIN], the state by `then` int[ROWS], and its `place`
    int[PLACE].
    """

    outer: int
    is_known: Ints
    begins: Ints
    costs: Ints
    begin: Ints
    then: Ints
    place: Ints


#: Of the sweep that is being counted: 1 if there is one, pattern and row of its first scan, and the fewest cycles of a
#: load before it.
IS_COUNTED, WHICH, ROW, BEFORE = range(4)
PLACE = BEFORE + 1


@njit
def new_sweeps(loops: Ints, steps: Ints, patterns: int, tile: Tile, dram: Dram) -> Sweeps:
    """Return sweeps inside so many loops that least is left to count; none are kept where that is little anyway.

    `loops` int[m, 2], `steps` int[m, 5]: as in `tables.counts.walk.walk_stream`.
    """
    outer, all_scans = 0, product(loops[:, 0])
    least, before, common = all_scans // _LEAST_SAVING, 1, dram.row_bytes
    if all_scans >= _LEAST_SCANS and dram.banks == 1 and tile.mode != WINDOW:
        for i in range(loops.shape[0] - 1):
            before *= loops[i, 0]
            common = gcd(common, steps[i, 0] * (tile.block_bytes if tile.block_bytes else 1))
            left = before + dram.row_bytes // common * (all_scans // before)
            if left < least:
                outer, least = i + 1, left
    kept = patterns if outer else 0
    return keeping(outer, kept)


@njit
def keeping(outer: int, patterns: int) -> Sweeps:
    """Return sweeps inside the first `outer` loops, of so many patterns."""
    begins, costs = np.empty((patterns, BEGIN), np.int64), np.empty((patterns, ROWS + 1), np.int64)
    begin, then = np.zeros(BEGIN, np.int64), np.zeros(ROWS, np.int64)
    return Sweeps(outer, np.zeros(patterns, np.int64), begins, costs, begin, then, np.zeros(PLACE, np.int64))


@njit
def recall_or_begin(sweeps: Sweeps, which: int, row: int, state: Ints, rows: Ints, scans: int, flags: int) -> bool:
    """Count a sweep at once if one that began alike was kept, and return whether that is so; else begin to count it.

    It begins in `row` with the pattern `which`. `scans`: after so many the array needs a tile. `flags`: whatever else
    its scans depend on. Modifies sweeps, state and rows.
    """
    _write_begin(sweeps.begin, state, rows, row, scans, flags)
    if _recall(sweeps, which, row, state, rows):
        return True
    place = sweeps.place
    place[IS_COUNTED], place[WHICH], place[ROW], place[BEFORE] = 1, which, row, state[QUICKEST]
    state[QUICKEST] = _NO_LOAD
    for slot in range(ROWS):
        sweeps.then[slot] = state[slot]
    return False


@njit
def end_sweep(sweeps: Sweeps, state: Ints, rows: Ints, is_kept: bool) -> None:
    """End the sweep that is being counted, if one is, and keep it. Modifies sweeps and state."""
    place = sweeps.place
    if not place[IS_COUNTED]:
        return
    if is_kept:
        _keep(sweeps, state, rows)
    place[IS_COUNTED], state[QUICKEST] = 0, min(state[QUICKEST], place[BEFORE])


@njit
def _write_begin(begin: Ints, state: Ints, rows: Ints, row: int, scans: int, flags: int) -> None:
    """Write what a sweep depends on that begins in a row. Modifies `begin` int[BEGIN]."""
    begin[0], begin[1] = _open_row(rows, row), state[RUN]
    begin[2], begin[3], begin[4] = state[CYCLES] - state[SUPPLIED], state[TAKEN] % scans, flags


@njit
def _open_row(rows: Ints, row: int) -> int:
    """Return the open row of the one bank, counted from a row."""
    return int(rows[OPEN, 0]) - row if rows[OPEN, 0] >= 0 else _CLOSED


@njit
def _recall(sweeps: Sweeps, which: int, row: int, state: Ints, rows: Ints) -> bool:
    """Count a sweep that begins with the pattern `which` at once; return whether an equal one was kept.

    Modifies state and rows.
    """
    if not sweeps.is_known[which]:
        return False
    for i in range(BEGIN):
        if sweeps.begins[which, i] != sweeps.begin[i]:
            return False
    cost = sweeps.costs[which]
    run, quickest = cost[RUN], min(state[QUICKEST], cost[QUICKEST])
    for slot in range(ROWS):
        state[slot] += cost[slot]
    state[RUN], state[QUICKEST] = run, quickest
    rows[OPEN, 0] = row + cost[ROWS] if cost[ROWS] != _CLOSED else -1
    rows[USED, 0] = state[SCANS]
    return True


@njit
def _keep(sweeps: Sweeps, state: Ints, rows: Ints) -> None:
    """Keep the sweep that is being counted. Modifies sweeps."""
    which = sweeps.place[WHICH]
    cost = sweeps.costs[which]
    for i in range(BEGIN):
        sweeps.begins[which, i] = sweeps.begin[i]
    for slot in range(ROWS):
        cost[slot] = state[slot] - sweeps.then[slot]
    cost[RUN], cost[QUICKEST], cost[ROWS] = state[RUN], state[QUICKEST], _open_row(rows, sweeps.place[ROW])
    sweeps.is_known[which] = 1
