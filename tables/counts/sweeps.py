"""Sweeps of the inner loops of a stream, each counted once for the byte of a row at which it begins.

Where tensors share a bank, every move of some outer loops interrupts the stream. A *sweep* is what the loops inside
these take until one of these moves again. It depends on the byte of the row at which it begins and on little else
(`BEGIN`), as outer loops mostly go on by whole rows or by few different bytes.
"""

from typing import NamedTuple

import numpy as np

from tables.counts.repetitions import CYCLES, OPEN, QUICKEST, ROWS, RUN, SCANS, SUPPLIED, TAKEN, USED
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


class Sweeps(NamedTuple):
    """`outer`: how many loops lie outside a sweep, 0 if none are kept. By pattern (`tables.counts.visits`) of the first
    scan: `is_known` bool[patterns], `begins` int[patterns, BEGIN], and `costs` int[patterns, ROWS + 1]: what the slots
    of a walk's state grow by, the run and the quickest load in place of that, and the open row as above.
    """

    outer: int
    is_known: Ints
    begins: Ints
    costs: Ints


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
    known = np.zeros(kept, np.int64)
    return Sweeps(outer, known, np.empty((kept, BEGIN), np.int64), np.empty((kept, ROWS + 1), np.int64))


@njit
def write_begin(begin: Ints, state: Ints, rows: Ints, row: int, scans: int, flags: int) -> None:
    """Write what a sweep depends on that begins in a row. Modifies `begin` int[BEGIN].

    `scans`: after so many the array needs a tile. `flags`: whatever else the scans of a sweep depend on.
    """
    begin[0], begin[1] = _open_row(rows, row), state[RUN]
    begin[2], begin[3], begin[4] = state[CYCLES] - state[SUPPLIED], state[TAKEN] % scans, flags


@njit
def _open_row(rows: Ints, row: int) -> int:
    """Return the open row of the one bank, counted from a row."""
    return int(rows[OPEN, 0]) - row if rows[OPEN, 0] >= 0 else _CLOSED


@njit
def recall(sweeps: Sweeps, which: int, begin: Ints, row: int, state: Ints, rows: Ints) -> bool:
    """Count a sweep that begins with the pattern `which` at once; return whether an equal one was kept.

    Modifies state and rows.
    """
    if not sweeps.is_known[which]:
        return False
    for i in range(BEGIN):
        if sweeps.begins[which, i] != begin[i]:
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
def keep(sweeps: Sweeps, which: int, begin: Ints, row: int, then: Ints, state: Ints, rows: Ints) -> None:
    """Keep a sweep that ended: `then` is the state in which it began, with no load so far. Modifies sweeps."""
    for i in range(BEGIN):
        sweeps.begins[which, i] = begin[i]
    cost = sweeps.costs[which]
    for slot in range(ROWS):
        cost[slot] = state[slot] - then[slot]
    cost[RUN], cost[QUICKEST], cost[ROWS] = state[RUN], state[QUICKEST], _open_row(rows, row)
    sweeps.is_known[which] = 1
