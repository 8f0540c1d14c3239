"""A walk over the scans of a stream: exact column accesses, row activations, DRAM cycles and stall cycles.

The rows that a scan visits (`tables.counts.visits`) are found once per pattern. The walk then goes over each scan row
by row.
"""

from typing import NamedTuple

import numpy as np

from tables.counts.visits import SEQUENTIAL, WINDOW, Tile, add_visits, scan_pattern, scan_patterns
from tables.dram import Dram, last_run, period, recurrence
from tables.jit import njit
from tables.nest import Ints

#: Slots of a walk's state:
#:
#: - COLUMNS and ACTIVATIONS so far, CYCLES of the runs that are closed, columns in the current RUN, SCANS begun;
#: - tiles TAKEN; the cycle at which the array was last SUPPLIED; cycles for which it STALLED; tiles (or array steps)
#:   whose load is OVERLAPPED by computation, and the fewest cycles of such a load (QUICKEST); the stall for the SECOND.
COLUMNS, ACTIVATIONS, CYCLES, RUN, SCANS, TAKEN, SUPPLIED, STALLED, OVERLAPPED, SECOND, QUICKEST = range(11)
#: Rows of `rows` int[2, banks]: the open row of each bank (-1 for none), and the scan that used the bank last.
OPEN, USED = range(2)
#: A snapshot of a walk holds its state, and from this place on the open row of each bank.
_ROWS = QUICKEST + 1
#: The most iterations of a loop after which its addresses may recur for the recurrence to be used.
_MAX_SNAPSHOTS = 64
#: The most visits that are kept. Beyond that they are found anew: most are needed again soon, or never.
_MAX_VISITS = 1_000_000
#: More cycles than any stream takes.
INFINITE_CYCLES = 2**62


class Demand(NamedTuple):
    """When the array needs tiles: after every `scans` scans, and computation hides `cycles` cycles of their load.

    `is_streamed`: the MACs take the tiles as they compute, so all loads overlap computation. Else the first load (of
    outputs the last write-out) overlaps none. `loads_ahead`: the second tile may be loaded before the array starts.
    """

    scans: int
    cycles: int
    is_streamed: bool
    loads_ahead: bool = False


class Interruption(NamedTuple):
    """Between which scans of a stream another tensor's scan uses the same bank (docs/model.md, section 5).

    Loops are numbered as in the stream, outermost first. A scan is interrupted `always`, or if the loop that moved for
    it is below `now`, or the loop that had moved for the scan before it is below `before`; `at_start`: also if that was
    the first scan of all. `is_streamed`: the MACs take the tiles, so outputs are read and written in one step.
    """

    always: bool
    now: int
    before: int
    at_start: bool
    is_streamed: bool


#: The tensor has its banks for itself.
NO_INTERRUPTION = Interruption(False, 0, 0, False, False)

#: Computation hides nothing of any load.
NO_OVERLAP = Demand(1, 0, False)


class StreamCounts(NamedTuple):
    """Totals of a stream, and the cycles of its first and its last scan.

    `closed_cycles`: cycles if another tensor's row is opened next, which ends the last run.

    `stall_cycles`: cycles for which the array waits for tiles (or for outputs to leave), each load by itself.
    `steady_stall_cycles`: the stall if all loads were as quick as the quickest. `second_stall_cycles`: the stall for a
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
    closed_cycles: int


class StreamLimit(NamedTuple):
    """The most activations and cycles that a stream may take. The walk ends once a stream exceeds either."""

    activations: int
    cycles: int

    def admits(self, stream: StreamCounts) -> bool:
        """Return whether a stream exceeds neither limit."""
        return stream.activations <= self.activations and stream.cycles <= self.cycles


#: A limit that every stream meets.
NO_STREAM_LIMIT = StreamLimit(INFINITE_CYCLES, INFINITE_CYCLES)


@njit
def _access_rows(row: int, visits: Ints, dram: Dram, state: Ints, rows: Ints) -> None:
    """Access the rows of one scan; `row`: where it begins, `visits` int[n, 2]. Modifies state and rows."""
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
    """Return the cycles of the stream if it ended here."""
    return int(state[CYCLES]) + last_run(state[RUN], dram)


@njit
def _min_column_cycles(dram: Dram) -> int:
    """Return a lower bound on the cycles that one column access adds to a stream, whatever its row."""
    return max(0, dram.tCCD + min(0, dram.tRCD + min(dram.tRTP + dram.tRP, dram.RL + dram.burst) - dram.tCCD))


@njit
def _min_scan_cycles(tile: Tile, dram: Dram) -> int:
    """Return a lower bound on the cycles that one scan adds to a stream: those of the columns that its bytes fill."""
    size = np.prod(tile.window) * tile.width if tile.mode == WINDOW else np.sum(tile.segments[:, 1])
    return int(-(-size // dram.column_bytes)) * _min_column_cycles(dram)


@njit
def _min_total_cycles(state: Ints, more: int, dram: Dram) -> int:
    """Return a lower bound on the cycles of the stream if the scans that are left add at least `more`."""
    return int(state[CYCLES] + state[RUN] * _min_column_cycles(dram) + more)


@njit
def _advance(index: Ints, at: Ints, loops: Ints, steps: Ints) -> int:
    """Go to the next iteration; return the loop that advanced, or -1 after the last one. Modifies index and at."""
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
    """Return after how many iterations of a loop the addresses are a whole number of rows further on, and that number.

    For a window they also have to be whole blocks further on: then it cuts its blocks in the same places.
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
    repeats, shift = recurrence(blocks * rows, per_row)
    return times * repeats, shift


@njit
def _recurs(now: Ints, then: Ints, shift: int, scans: int, rows: Ints, moving: Ints) -> bool:
    """Return whether what followed the snapshot `then` will follow the snapshot `now`, `shift` rows further on.

    That holds if the two differ only in totals and in open rows that are `shift` rows apart, in banks as far apart.
    Sets `moving` int[banks] to 1 for the banks that were used in between and those that will be used by repetitions.
    The open rows of all other banks do not matter.
    """
    if now[RUN] != then[RUN]:
        return False
    is_within = now[TAKEN] // scans == then[TAKEN] // scans
    is_as_far = now[CYCLES] - now[SUPPLIED] == then[CYCLES] - then[SUPPLIED]
    if not is_within and not (is_as_far and (now[TAKEN] - then[TAKEN]) % scans == 0):
        return False  # neither within one array step nor a whole number of array steps
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
def _shift_open_rows(rows: Ints, by: int, moving: Ints) -> None:
    """Move the open rows of the `moving` banks `by` rows further on, and mark the banks as just used. Modifies rows."""
    old = rows[OPEN].copy()
    for bank in np.flatnonzero(moving):
        to = (bank + by) % old.shape[0]
        rows[OPEN, to] = old[bank] + by if old[bank] >= 0 else -1
        rows[USED, to] = np.max(rows[USED])


@njit
def _returns(index: Ints, loops: Ints) -> bool:
    """Return whether this tile was fetched before: some irrelevant loop is past its first iteration."""
    for i in range(loops.shape[0]):  # noqa: SIM110 - numba compiles no generator expressions within any()
        if loops[i, 1] == 1 and index[i] > 0:
            return True
    return False


@njit
def _skip_repetitions(state: Ints, then: Ints, left: int, shift: int, demand: Demand, rows: Ints, moving: Ints) -> int:
    """Count repetitions of what came since the snapshot `then` at once, at most `left` of them.

    Each repetition lies `shift` rows further on. `moving` as set by `_recurs`. Modifies state and rows.

    Returns the number of repetitions.
    """
    repeats, taken = left, state[TAKEN] - then[TAKEN]
    if then[TAKEN] // demand.scans == state[TAKEN] // demand.scans:  # stay before the last scan of the array step
        repeats = min(repeats, (demand.scans - 1 - state[TAKEN] % demand.scans) // taken)
    for slot in (COLUMNS, ACTIVATIONS, CYCLES, TAKEN, SUPPLIED, STALLED, OVERLAPPED):
        state[slot] += repeats * (state[slot] - then[slot])
    _shift_open_rows(rows, repeats * shift, moving)
    return repeats


@njit
def _is_interrupted(last: int, moved: int, by: Interruption) -> bool:
    """Return whether the bank is used by another tensor between two scans.

    `last`, `moved`: the loops that moved for the first and for the second one; -1 at the start and at the end.
    """
    if by.always or 0 <= moved < by.now:
        return True
    return last < by.before if last >= 0 else by.at_start


@njit
def _supply(state: Ints, now: int, is_overlapped: bool, demand: Demand) -> None:
    """Supply the array with the tiles that it needs next, in the cycle `now`; add its stall. Modifies state."""
    took = now - state[SUPPLIED]
    if is_overlapped:
        state[STALLED] += max(0, took - demand.cycles)
        state[OVERLAPPED] += 1
        state[QUICKEST] = min(state[QUICKEST], took)
        if state[TAKEN] == 2 and demand.loads_ahead:
            state[SECOND] = state[STALLED]
    state[SUPPLIED] = now


@njit
def _list_visits(which: int, tile: Tile, dram: Dram, patterns: Ints, visits: Ints, listed: int) -> tuple[Ints, int]:
    """Return the visits of all patterns found so far with those of pattern `which`, and how many they are.

    `patterns` int[n, 2]: where the visits of each pattern begin and end; modified. Too many visits are forgotten.
    """
    if listed > _MAX_VISITS:
        patterns[:], listed = 0, 0
    patterns[which, 0] = listed
    visits, listed = add_visits(which, tile, dram, visits, listed)
    patterns[which, 1] = listed
    return visits, listed


@njit
def _skip_recurrence(
    index: Ints,
    at: Ints,
    moved: int,
    state: Ints,
    rows: Ints,
    moving: Ints,
    snapshots: Ints,
    loops: Ints,
    step: Ints,
    recurrence: tuple[int, int],
    demand: Demand,
) -> None:
    """Skip the repetitions of an iteration of the loop that `moved` if it begins like an earlier one, and keep how it
    began in the loop's `snapshots`, of which the last one holds how this iteration begins.
    """
    times, shift = recurrence
    factor = loops[moved, 0]
    if not 0 < times <= _MAX_SNAPSHOTS or factor <= 2 * times:
        return
    then = snapshots[index[moved] % times]
    here = snapshots[_MAX_SNAPSHOTS]
    here[:_ROWS], here[_ROWS:] = state, rows[OPEN]
    if index[moved] > times and _recurs(here, then, shift, demand.scans, rows, moving):
        left = (factor - 1 - index[moved]) // times
        repeats = _skip_repetitions(state, then, left, shift, demand, rows, moving)
        index[moved] += repeats * times
        at += repeats * times * step
    then[:] = here


@njit
def walk_stream(
    loops: Ints,
    steps: Ints,
    tile: Tile,
    is_output: bool,
    always_reads: bool,
    demand: Demand,
    dram: Dram,
    limit: StreamLimit,
    interruption: Interruption,
) -> tuple[int, int, int, int, int, int, int, int, int]:
    """Scan the tiles of a stream in loop order, until all are scanned or a limit is exceeded.

    `loops` int[m, 2]: factor, and 1 if irrelevant, outermost first. `steps` int[m, 5]: what one iteration adds to the
    tile's position: elements along N G C H W of a window, else in column 0 the byte address or the block number. An
    output tile is read when it returns (with `always_reads` also on its first visit) and written when it is left.

    Where another tensor uses the bank between two scans (`interruption`, one bank only), no row of the stream is open.

    If an iteration begins in the state in which an earlier one of the same loop began, a whole number of rows further
    on, it costs what that one cost, and so do its repetitions. These are counted at once.

    Returns the fields of `StreamCounts`. Of a stream beyond the limit the activations or the cycles exceed it, and
    nothing else is meant by them.
    """
    state, rows = np.zeros(_ROWS, np.int64), np.full((2, dram.banks), -1, np.int64)
    moving = np.zeros(dram.banks, np.int64)
    index, at = np.zeros(loops.shape[0], np.int64), np.zeros(5, np.int64)
    snapshots = np.zeros((loops.shape[0], _MAX_SNAPSHOTS + 1, _ROWS + dram.banks), np.int64)
    patterns, visits, listed = np.zeros((scan_patterns(tile, dram), 2), np.int64), np.empty((64, 2), np.int64), 0
    recurrences = [_loop_recurrence(step, tile, dram) for step in steps]
    state[QUICKEST], first_cycles, before_last = INFINITE_CYCLES, 0, 0
    moved, last, scans, scan_cycles = 0, -1, int(np.prod(loops[:, 0])), _min_scan_cycles(tile, dram)
    while (
        state[ACTIVATIONS] <= limit.activations
        and _min_total_cycles(state, (scans - state[TAKEN]) * scan_cycles, dram) <= limit.cycles
    ):
        row, which = scan_pattern(at, tile, dram)
        if not patterns[which, 1]:
            visits, listed = _list_visits(which, tile, dram, patterns, visits, listed)
        scanned = visits[patterns[which, 0] : patterns[which, 1]]
        if not is_output or always_reads or _returns(index, loops):
            _access_rows(row, scanned, dram, state, rows)
        if state[TAKEN] == 0:
            first_cycles = _cycles(state, dram)
        moved = _advance(index, at, loops, steps)
        before_last, is_interrupted = _cycles(state, dram), _is_interrupted(last, moved, interruption)
        if is_interrupted and not interruption.is_streamed:
            rows[OPEN] = -1
        if is_output:
            _access_rows(row, scanned, dram, state, rows)
        if is_interrupted and interruption.is_streamed:
            rows[OPEN] = -1
        last = moved
        state[TAKEN] += 1
        if state[TAKEN] % demand.scans == 0:
            is_overlapped = demand.is_streamed or (moved >= 0 if is_output else state[TAKEN] > 1)
            _supply(state, _cycles(state, dram), is_overlapped, demand)
        if moved < 0:
            break
        _skip_recurrence(
            index, at, moved, state, rows, moving, snapshots[moved], loops, steps[moved], recurrences[moved], demand
        )
    steady = state[OVERLAPPED] * max(0, state[QUICKEST] - demand.cycles) if state[OVERLAPPED] else 0
    total = max(_cycles(state, dram), _min_total_cycles(state, (scans - state[TAKEN]) * scan_cycles, dram))
    closed = state[CYCLES] + (period(state[RUN], dram) if state[RUN] else 0)
    counted = (state[COLUMNS], state[ACTIVATIONS], total)
    return (*counted, first_cycles, total - before_last, state[STALLED], steady, state[SECOND], closed)
