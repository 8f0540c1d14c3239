"""A sequence of scans, walked: exact column accesses, row activations and DRAM cycles.

What a scan visits (`tables.counts.visits`) is found once for all that begin alike; then each of them is walked row by row.
"""

from typing import NamedTuple

import numpy as np

from tables.counts.visits import SEQUENTIAL, WINDOW, Tile, add_visits, scan_pattern, scan_patterns
from tables.dram import Dram, last_run, period, recurrence
from tables.jit import njit
from tables.nest import Ints

#: Slots of a walk's state: columns, activations, cycles of closed runs, columns in the open run, scans begun; tiles
#: taken, cycles when the array last took some, late cycles, of how many tiles these are, what of them falls on a second
#: one that is loaded ahead, and the least cycles that any took.
COLUMNS, ACTIVATIONS, CYCLES, RUN, SCANS, TAKEN, BEFORE, LATE, OVERLAPPED, SECOND, QUICKEST = range(11)
#: Of each bank: its open row, -1 for none, and the scan that used it last.
OPEN, USED = range(2)
#: A snapshot of a walk is its state, and from here on the banks' open rows.
_ROWS = QUICKEST + 1
#: Iterations of a loop that are remembered.
_MOST_REMEMBERED = 64
#: Visits that are remembered; then they are found anew, as those of most scans are needed soon or never.
_MOST_VISITS = 1_000_000
#: More cycles than any scan takes.
INFINITE_CYCLES = 2**62


class Demand(NamedTuple):
    """How fast the array asks for tiles: `scans` tiles in `cycles`.

    `is_drawn`: the MACs take them while they compute; else the first one (an output's last) overlaps no computation.
    `is_ahead`: the second one is loaded behind the first, before the array starts, if there is time.
    """

    scans: int
    cycles: int
    is_drawn: bool
    is_ahead: bool = False


#: Each tile as soon as the one before is there.
NO_OVERLAP = Demand(1, 0, False)


class StreamCounts(NamedTuple):
    """Totals of a stream, and the cycles that its first and its last scan take.

    `stall_cycles`: by how much tiles come (or outputs leave) later than the array asks for them, each by itself.
    `steady_stall_cycles`: what of it is left if all were as quick as the quickest. `second_stall_cycles`: what of it falls on a
    second tile that may be loaded before the array starts.
    """

    columns: int
    activations: int
    cycles: int
    first_cycles: int
    last_cycles: int
    stall_cycles: int
    steady_stall_cycles: int
    second_stall_cycles: int


class StreamLimit(NamedTuple):
    """Activations and cycles that a stream may take: of one that takes more, no more is counted than that it does."""

    activations: int
    cycles: int

    def holds(self, stream: StreamCounts) -> bool:
        """Whether it takes no more."""
        return stream.activations <= self.activations and stream.cycles <= self.cycles


#: No limit.
NO_STREAM_LIMIT = StreamLimit(INFINITE_CYCLES, INFINITE_CYCLES)


@njit
def _visit(row: int, visits: Ints, dram: Dram, state: Ints, rows: Ints) -> None:
    """Go through a scan's visits, from the row on where it begins. Modifies state and rows."""
    state[SCANS] += 1
    for i in range(len(visits)):
        here, columns = row + visits[i, 0], visits[i, 1]
        bank = here % dram.banks if dram.banks > 1 else 0
        rows[USED, bank] = state[SCANS]
        if rows[OPEN, bank] != here:
            rows[OPEN, bank] = here
            if state[RUN] > 0:
                state[CYCLES] += period(state[RUN], dram)
            state[ACTIVATIONS] += 1
            state[RUN] = 0
        state[RUN] += columns
        state[COLUMNS] += columns
    if not dram.is_open:
        rows[OPEN] = -1


@njit
def _cycles(state: Ints, dram: Dram) -> int:
    """Cycles of the stream, were it to end here."""
    return int(state[CYCLES]) + last_run(state[RUN], dram)


@njit
def _per_column(dram: Dram) -> int:
    """Cycles that a column adds to a stream at least, whatever the rows."""
    return max(0, dram.tCCD + min(0, dram.tRCD + min(dram.tRTP + dram.tRP, dram.RL + dram.burst) - dram.tCCD))


@njit
def _least_cycles(tile: Tile, dram: Dram) -> int:
    """Cycles that a scan adds to a stream at least: those of its bytes."""
    size = np.prod(tile.window) * tile.width if tile.mode == WINDOW else np.sum(tile.segments[:, 1])
    return int(-(-size // dram.column_bytes)) * _per_column(dram)


@njit
def _at_least(state: Ints, more: int, dram: Dram) -> int:
    """Cycles of the stream at least, if what is left of it adds so many."""
    return int(state[CYCLES] + state[RUN] * _per_column(dram) + more)


@njit
def _advance(index: Ints, at: Ints, loops: Ints, steps: Ints) -> int:
    """Next iteration of the loop nest; the loop that moved on, -1 after the last. Modifies index and at."""
    for i in range(loops.shape[0] - 1, -1, -1):
        index[i] += 1
        at += steps[i]
        if index[i] < loops[i, 0]:
            return i
        at -= steps[i] * loops[i, 0]
        index[i] = 0
    return -1


@njit
def _loop_recurrence(step: Ints, tile: Tile, dram: Dram) -> tuple[int, int]:
    """After how many iterations a loop is whole rows further on, and how many.

    A window that is whole blocks further on cuts these in the same way.
    """
    if not step.any():
        return 1, 0
    if tile.mode == SEQUENTIAL:
        return recurrence(step[0], dram.row_bytes)
    times, blocks = 1, step[0]
    if tile.mode == WINDOW:
        axis = np.flatnonzero(step)[0]
        times, moved = recurrence(step[axis], tile.block[axis])
        blocks = moved * tile.strides[axis]
    per_row = max(1, dram.row_bytes // tile.block_bytes)
    rows = max(1, -(-tile.block_bytes // dram.row_bytes))
    again, shift = recurrence(blocks * rows, per_row)
    return times * again, shift


@njit
def _same_place(now: Ints, then: Ints, shift: int, scans: int, rows: Ints, moving: Ints) -> bool:
    """Whether two snapshots differ only in what was counted and in how many rows on they are (in other banks, then).

    `moving`: set to the banks that were used in between, and those that will be if all goes on like that. What the
    others have open does not matter.
    """
    if now[RUN] != then[RUN]:
        return False
    is_within = now[TAKEN] // scans == then[TAKEN] // scans
    is_as_far = now[CYCLES] - now[BEFORE] == then[CYCLES] - then[BEFORE]
    if not is_within and not (is_as_far and (now[TAKEN] - then[TAKEN]) % scans == 0):
        return False  # neither within an array step nor whole ones
    moving[:] = 0
    banks = rows.shape[1]
    for used in np.flatnonzero(rows[USED] > then[SCANS]):
        bank = int(used)
        while not moving[bank]:
            moving[bank] = 1
            bank = (bank + shift) % banks
    for bank in range(banks):
        here, there = now[_ROWS + (bank + shift) % banks], then[_ROWS + bank]
        if moving[bank] and here != (there + shift if there >= 0 else -1):
            return False
    return True


@njit
def _move_on(rows: Ints, by: int, moving: Ints) -> None:
    """The open rows of some banks, so many rows further on, and just used. Modifies rows."""
    old = rows[OPEN].copy()
    for bank in np.flatnonzero(moving):
        to = (bank + by) % old.shape[0]
        rows[OPEN, to] = old[bank] + by if old[bank] >= 0 else -1
        rows[USED, to] = np.max(rows[USED])


@njit
def _returns(index: Ints, loops: Ints) -> bool:
    """Whether this tile was fetched before: some irrelevant loop is past its first iteration."""
    for i in range(loops.shape[0]):  # noqa: SIM110 - numba compiles no generator expressions within any()
        if loops[i, 1] == 1 and index[i] > 0:
            return True
    return False


@njit
def _pass_over(state: Ints, then: Ints, left: int, shift: int, pace: Demand, rows: Ints, moving: Ints) -> int:
    """Count at once as many repetitions of what came since a snapshot as there are, of so many left: how many. Each is
    so many rows further on. Modifies state, and rows, the open ones of some banks (`_same_place`).
    """
    again, taken = left, state[TAKEN] - then[TAKEN]
    if then[TAKEN] // pace.scans == state[TAKEN] // pace.scans:  # no further than to the last scan of the array step
        again = min(again, (pace.scans - 1 - state[TAKEN] % pace.scans) // taken)
    for slot in (COLUMNS, ACTIVATIONS, CYCLES, TAKEN, BEFORE, LATE, OVERLAPPED):
        state[slot] += again * (state[slot] - then[slot])
    _move_on(rows, again * shift, moving)
    return again


@njit
def _pace(state: Ints, now: int, is_overlapped: bool, pace: Demand) -> None:
    """Tiles that the array asks for at once are there at a cycle: by how much later than asked for. Modifies state."""
    took = now - state[BEFORE]
    if is_overlapped:
        state[LATE] += max(0, took - pace.cycles)
        state[OVERLAPPED] += 1
        state[QUICKEST] = min(state[QUICKEST], took)
        if state[TAKEN] == 2 and pace.is_ahead:
            state[SECOND] = state[LATE]
    state[BEFORE] = now


@njit
def walk_stream(
    loops: Ints,
    steps: Ints,
    tile: Tile,
    is_output: bool,
    always_reads: bool,
    pace: Demand,
    dram: Dram,
    room: StreamLimit,
) -> tuple[int, int, int, int, int, int, int, int]:
    """Scan every fetched tile of a stream in loop order, or as many as fill the room; the fields of `StreamCounts`.

    loops int[m, 2]: factor, 1 if irrelevant, outermost first; steps int[m, 5]: what one iteration adds to the tile's
    position: N G C H W elements for a window, else byte address or block number in column 0. An output tile is read
    when it returns (with `always_reads` on its first visit too) and written when it is left.

    An iteration that begins as an earlier one of the same loop began, but for whole rows of address, costs what that
    one cost, and so do all that follow: they are counted at once.
    """
    state, rows = np.zeros(_ROWS, np.int64), np.full((2, dram.banks), -1, np.int64)
    moving = np.zeros(dram.banks, np.int64)
    index, at = np.zeros(loops.shape[0], np.int64), np.zeros(5, np.int64)
    seen = np.zeros((loops.shape[0], _MOST_REMEMBERED, _ROWS + dram.banks), np.int64)
    known, visits, taken_down = np.zeros((scan_patterns(tile, dram), 2), np.int64), np.empty((64, 2), np.int64), 0
    recurs = [_loop_recurrence(step, tile, dram) for step in steps]
    here = np.empty(_ROWS + dram.banks, np.int64)
    state[QUICKEST], first_cycles, before_last = INFINITE_CYCLES, 0, 0
    moved, scans, least = 0, int(np.prod(loops[:, 0])), _least_cycles(tile, dram)
    while (
        state[ACTIVATIONS] <= room.activations and _at_least(state, (scans - state[TAKEN]) * least, dram) <= room.cycles
    ):
        row, which = scan_pattern(at, tile, dram)
        if not known[which, 1]:
            if taken_down > _MOST_VISITS:
                known[:], taken_down = 0, 0
            known[which, 0] = taken_down
            visits, taken_down = add_visits(which, tile, dram, visits, taken_down)
            known[which, 1] = taken_down
        of_scan = visits[known[which, 0] : known[which, 1]]
        if not is_output or always_reads or _returns(index, loops):
            _visit(row, of_scan, dram, state, rows)
        if state[TAKEN] == 0:
            first_cycles = _cycles(state, dram)
        moved = _advance(index, at, loops, steps)
        before_last = _cycles(state, dram)
        if is_output:
            _visit(row, of_scan, dram, state, rows)
        state[TAKEN] += 1
        if state[TAKEN] % pace.scans == 0:
            is_overlapped = pace.is_drawn or (moved >= 0 if is_output else state[TAKEN] > 1)
            _pace(state, _cycles(state, dram), is_overlapped, pace)
        if moved < 0:
            break
        period, shift = recurs[moved]
        if not 0 < period <= _MOST_REMEMBERED or loops[moved, 0] <= 2 * period:
            continue
        then = seen[moved, index[moved] % period]
        here[:_ROWS], here[_ROWS:] = state, rows[OPEN]
        if index[moved] > period and _same_place(here, then, shift, pace.scans, rows, moving):
            left = (loops[moved, 0] - 1 - index[moved]) // period
            again = _pass_over(state, then, left, shift, pace, rows, moving)
            index[moved] += again * period
            at += again * period * steps[moved]
        then[:] = here
    steady = state[OVERLAPPED] * max(0, state[QUICKEST] - pace.cycles) if state[OVERLAPPED] else 0
    total = max(_cycles(state, dram), _at_least(state, (scans - state[TAKEN]) * least, dram))
    counted = (state[COLUMNS], state[ACTIVATIONS], total)
    return (*counted, first_cycles, total - before_last, state[LATE], steady, state[SECOND])
