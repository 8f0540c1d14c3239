"""A walk over the scans of a stream: exact column accesses, row activations, DRAM cycles and stall cycles.

The rows that a scan visits (`tables.counts.visits`) are found once per pattern. The walk then goes over each scan row
by row.
"""

from typing import NamedTuple

import numpy as np

from tables.counts.least import least_activations, least_cycles
from tables.counts.repetitions import Demand, go, is_used, loop_recurrence, skip_recurrence
from tables.counts.row_state import (
    ACTIVATIONS,
    COLUMNS,
    CYCLES,
    OPEN,
    OVERLAPPED,
    QUICKEST,
    ROWS,
    RUN,
    SECOND,
    STALLED,
    SUPPLIED,
    TAKEN,
    USED,
    access_rows,
    close_rows,
    cycles_so_far,
)
from tables.counts.sweeps import end_sweep, new_sweeps, recall_or_begin
from tables.counts.visits import WINDOW, Tile, add_visits, scan_pattern, scan_patterns
from tables.dram import Dram, period
from tables.jit import njit
from tables.nest import Ints
from tables.reduce import product

#: The most visits that are kept. Beyond that they are found anew: most are needed again soon, or never.
_MAX_VISITS = 1_000_000
#: More cycles than any stream takes.
INFINITE_CYCLES = 2**62


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


#: The fields of `StreamCounts`, as a kernel returns them.
Counted = tuple[int, int, int, int, int, int, int, int, int, int, int]


class StreamCounts(NamedTuple):
    """Totals of a stream, and the cycles of its first and its last scan.

    `closed_cycles`: cycles if another tensor's row is opened next, which ends the last run.
    `fewest_columns`, `fewest_rows`: of one scan.

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
    fewest_columns: int
    fewest_rows: int


#: The streams of I, W and O.
Streams = tuple[StreamCounts, StreamCounts, StreamCounts]


class StreamLimit(NamedTuple):
    """The most activations and cycles that a stream may take. The walk ends once a stream exceeds either."""

    activations: int
    cycles: int

    def admits(self, stream: StreamCounts) -> bool:
        """Return whether a stream exceeds neither limit."""
        return stream.activations <= self.activations and stream.cycles <= self.cycles

    def within(self, other: "StreamLimit") -> "StreamLimit":
        """Return the limit of streams that keep both."""
        return StreamLimit(min(self.activations, other.activations), min(self.cycles, other.cycles))


#: A limit that every stream meets.
NO_STREAM_LIMIT = StreamLimit(INFINITE_CYCLES, INFINITE_CYCLES)


@njit
def min_column_cycles(dram: Dram) -> int:
    """Return a lower bound on the cycles that one column access adds to a stream, whatever its row."""
    return max(0, dram.tCCD + min(0, dram.tRCD + min(dram.tRTP + dram.tRP, dram.RL + dram.burst) - dram.tCCD))


@njit
def _min_scan_columns(tile: Tile, dram: Dram) -> int:
    """Return the fewest columns of one scan: those that its bytes fill."""
    size = product(tile.window) * tile.width if tile.mode == WINDOW else 0
    for segment in range(len(tile.segments) if tile.mode != WINDOW else 0):
        size += tile.segments[segment, 1]
    return int(-(-size // dram.column_bytes))


@njit
def _min_total_cycles(state: Ints, more: int, dram: Dram) -> int:
    """Return a lower bound on the cycles of the stream if the scans that are left add at least `more`."""
    return int(state[CYCLES] + state[RUN] * min_column_cycles(dram) + more)


@njit
def _advance(index: Ints, at: Ints, loops: Ints, steps: Ints) -> int:
    """Go to the next iteration; return the loop that advanced, or -1 after the last one. Modifies index and at."""
    for i in range(loops.shape[0] - 1, -1, -1):
        index[i] += 1
        go(at, steps[i], 1)
        if index[i] < loops[i, 0]:
            return i
        go(at, steps[i], -loops[i, 0])
        index[i] = 0
    return -1


@njit
def _returns(index: Ints, loops: Ints) -> bool:
    """Return whether this tile was fetched before: some irrelevant loop is past its first iteration."""
    for i in range(loops.shape[0]):  # noqa: SIM110 - numba compiles no generator expressions within any()
        if loops[i, 1] == 1 and index[i] > 0:
            return True
    return False


@njit
def _is_interrupted(last: int, moved: int, by: Interruption) -> bool:
    """Return whether the bank is used by another tensor between two scans.

    `last`, `moved`: the loops that moved for the first and for the second one; -1 at the start and at the end.
    """
    if by.always or 0 <= moved < by.now:
        return True
    return last < by.before if last >= 0 else by.at_start


@njit
def _comes_back_behind(index: Ints, loops: Ints, moving: int) -> bool:
    """Return whether the tile was fetched before to which the loop `moving` moves, once those inside have ended."""
    for i in range(moving):
        if loops[i, 1] == 1 and index[i] > 0:
            return True
    return bool(loops[moving, 1] == 1)


@njit
def _supply(state: Ints, now: int, exposed: int, is_overlapped: bool, demand: Demand) -> None:
    """Supply the array with the tiles that it needs next, in the cycle `now`; add its stall. Modifies state.

    `exposed`: cycles of the load that nothing hides, as outputs return in them.
    """
    took = now - state[SUPPLIED]
    state[STALLED] += exposed
    if is_overlapped:
        state[STALLED] += max(0, took - exposed - demand.cycles)
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
        listed = 0
        for pattern in range(len(patterns)):
            patterns[pattern, 0], patterns[pattern, 1] = 0, 0
    patterns[which, 0] = listed
    visits, listed = add_visits(which, tile, dram, visits, listed)
    patterns[which, 1] = listed
    return visits, listed


@njit
def _no_rows(dram: Dram) -> Ints:
    """Return the rows of a walk that has not begun, int[2, banks]: none is open, none was used."""
    rows = np.empty((2, dram.banks), np.int64)
    for bank in range(dram.banks):
        rows[OPEN, bank], rows[USED, bank] = -1, -1
    return rows


@njit
def _recurrences(loops: Ints, steps: Ints, tile: Tile, dram: Dram) -> tuple[int, int, Ints]:
    """Return the scans of all loops, the most snapshots that a loop needs, and int[m, 2]: `loop_recurrence` of each."""
    scans, kept, found = 1, 1, np.empty((loops.shape[0], 2), np.int64)
    for i in range(loops.shape[0]):
        scans *= loops[i, 0]
        found[i, 0], found[i, 1] = loop_recurrence(steps[i], tile, dram)
        if is_used(found[i, 0], loops[i, 0]):
            kept = max(kept, int(found[i, 0]))
    return scans, kept, found


@njit
def _moves_next(index: Ints, loops: Ints, outer: int) -> int:
    """Return which of the first `outer` loops moves once those inside have ended, or -1 if none does any more."""
    for i in range(outer - 1, -1, -1):
        if index[i] < loops[i, 0] - 1:
            return i
    return -1


@njit
def _sweep_flags(index: Ints, loops: Ints, outer: int, last: int, is_output: bool, by: Interruption) -> int:
    """Return what the scans of a sweep depend on besides the state: how its first and its last one are interrupted, and
    whether its output tiles, and the one behind them, return; -1 for the last sweep.

    `last`: the loop that had moved for the scan before the sweep.
    """
    following = _moves_next(index, loops, outer)
    if following < 0:
        return -1
    flags = 2 * (last < by.before) + (following < by.now)
    if not is_output:
        return flags
    return 4 * flags + 2 * _returns(index, loops) + _comes_back_behind(index, loops, following)


@njit
def _supply_scanned(index: Ints, loops: Ints, is_output: bool, goes_on: bool, before_last: int, state: Ints,
                    demand: Demand, dram: Dram) -> None:  # fmt: skip
    """Supply the tiles that are scanned, `index` having moved on; an old output tile makes room for one that returns.

    `before_last`: cycles before the tile that was scanned last was left.
    """
    now, exposed = cycles_so_far(state, dram), 0
    if is_output and not demand.is_streamed:
        exposed = (now if _returns(index, loops) else before_last) - state[SUPPLIED]
    _supply(state, now, exposed, demand.is_streamed or (goes_on if is_output else state[TAKEN] > 1), demand)


@njit
def _counted(state: Ints, activations: int, total: int, first_cycles: int, before_last: int, demand: Demand,
             smallest: tuple[int, int], dram: Dram) -> Counted:  # fmt: skip
    """Return the fields of `StreamCounts` of a walk that has ended; `smallest`: columns and rows of a scan."""
    steady = state[OVERLAPPED] * max(0, state[QUICKEST] - demand.cycles) if state[OVERLAPPED] else 0
    closed = state[CYCLES] + (period(state[RUN], dram) if state[RUN] else 0)
    counted = (state[COLUMNS], activations, total)
    return (*counted, first_cycles, total - before_last, state[STALLED], steady, state[SECOND], closed, *smallest)


@njit
def walk_stream(loops: Ints, steps: Ints, tile: Tile, is_output: bool, always_reads: bool, demand: Demand, dram: Dram,
                limit: StreamLimit, interruption: Interruption, stop: Ints) -> Counted:  # fmt: skip
    """Scan the tiles of a stream in loop order, until all are scanned, a limit is exceeded, or `stop` int[1] is set.

    `loops` int[m, 2]: factor, and 1 if irrelevant, outermost first. `steps` int[m, 5]: what one iteration adds to the
    tile's position: elements along N G C H W of a window, else in column 0 the byte address or the block number. An
    output tile is read when it returns (with `always_reads` also on its first visit) and written when it is left.

    Where another tensor uses the bank between two scans (`interruption`, one bank only), no row of the stream is open.

    If an iteration begins in the state in which an earlier one of the same loop began, a whole number of rows further
    on, it costs what that one cost, and so do its repetitions. These are counted at once. So are sweeps of the inner
    loops behind an interruption that begin alike (`tables.counts.sweeps`).

    Returns the fields of `StreamCounts`. Of a stream beyond the limit the activations or the cycles exceed it, and
    nothing else is meant by them. Those of a walk that was stopped mean nothing.
    """
    state, rows, moving = np.zeros(ROWS, np.int64), _no_rows(dram), np.zeros(dram.banks, np.int64)
    index, at = np.zeros(loops.shape[0], np.int64), np.zeros(5, np.int64)
    scans, kept, recurrences = _recurrences(loops, steps, tile, dram)
    snapshots = np.zeros((loops.shape[0], kept + 1, ROWS + dram.banks), np.int64)
    patterns, visits, listed = np.zeros((scan_patterns(tile, dram), 2), np.int64), np.empty((64, 2), np.int64), 0
    sweeps, scan_columns = new_sweeps(loops, steps, len(patterns), tile, dram), _min_scan_columns(tile, dram)
    scan_cycles, fewest = scan_columns * min_column_cycles(dram), least_activations(loops, steps, tile, dram)
    least = least_cycles(scans * scan_columns, fewest, dram)
    state[QUICKEST], first_cycles, before_last, moved, last = INFINITE_CYCLES, 0, 0, 0, -1
    fewest_columns = fewest_rows = INFINITE_CYCLES
    while (
        not stop[0]
        and max(fewest, state[ACTIVATIONS]) <= limit.activations
        and max(least, _min_total_cycles(state, (scans - state[TAKEN]) * scan_cycles, dram)) <= limit.cycles
    ):
        row, which = scan_pattern(at, tile, dram)
        if moved < sweeps.outer and state[TAKEN] >= 2:
            flags = _sweep_flags(index, loops, sweeps.outer, last, is_output, interruption)
            if flags >= 0 and recall_or_begin(sweeps, which, row, state, rows, demand.scans, flags):
                last = moved = _advance(index, at, loops[: sweeps.outer], steps[: sweeps.outer])
                again, step = (recurrences[moved, 0], recurrences[moved, 1]), steps[moved]
                skip_recurrence(index, at, moved, state, rows, moving, snapshots[moved], loops, step, again, demand)
                continue
        if not patterns[which, 1]:
            visits, listed = _list_visits(which, tile, dram, patterns, visits, listed)
            fewest_columns = min(fewest_columns, visits[patterns[which, 0] : listed, 1].sum())
            fewest_rows = min(fewest_rows, listed - patterns[which, 0])
        scanned = visits[patterns[which, 0] : patterns[which, 1]]
        if not is_output or always_reads or _returns(index, loops):
            access_rows(row, scanned, dram, dram.banks, state, rows)
        if state[TAKEN] == 0:
            first_cycles = cycles_so_far(state, dram)
        moved = _advance(index, at, loops, steps)
        before_last, is_interrupted = cycles_so_far(state, dram), _is_interrupted(last, moved, interruption)
        if is_interrupted and not interruption.is_streamed:
            close_rows(rows)
        if is_output:
            access_rows(row, scanned, dram, dram.banks, state, rows)
        if is_interrupted and interruption.is_streamed:
            close_rows(rows)
        last = moved
        state[TAKEN] += 1
        if state[TAKEN] % demand.scans == 0:
            _supply_scanned(index, loops, is_output, moved >= 0, before_last, state, demand, dram)
        if moved < sweeps.outer:
            end_sweep(sweeps, state, rows, moved >= 0)
        if moved < 0:
            break
        again, step = (recurrences[moved, 0], recurrences[moved, 1]), steps[moved]
        skip_recurrence(index, at, moved, state, rows, moving, snapshots[moved], loops, step, again, demand)
    total = max(least, cycles_so_far(state, dram), _min_total_cycles(state, (scans - state[TAKEN]) * scan_cycles, dram))
    smallest = fewest_columns, fewest_rows
    return _counted(state, max(fewest, state[ACTIVATIONS]), total, first_cycles, before_last, demand, smallest, dram)
