"""Repetitions in the walk of array steps and tiles (`tables.counts.pipeline`), which are counted at once.

Times follow from times by sums and maxima alone. So if an iteration of a loop begins with all times as an earlier one
began, later by the same number of cycles, and in the same DRAM rows, later by a whole number of rows, then it takes
what that one took, and so do its repetitions.
"""

import numpy as np

from tables.counts.repetitions import go, loop_recurrence
from tables.counts.row_state import OPEN, RUN, SCANS, USED
from tables.counts.timing import APART, NOW, SLOTS, Banks, Tiles, Timing
from tables.jit import njit
from tables.nest import Ints
from tables.reduce import gcd

#: The most iterations of a loop after which its addresses may recur for the recurrence to be used.
MAX_SNAPSHOTS = 64


@njit
def go_all(at: Ints, steps: Ints, loop: int, times: int) -> None:
    """Go so many steps of a loop from the positions of all tensors. Modifies at."""
    for t in range(3):
        go(at[t], steps[t, loop], times)


@njit
def recurrences(timing: Timing, tiles: Tiles) -> tuple[Ints, Ints]:
    """Return after how many iterations of each outer loop all tensors' addresses recur, int[l] (0: after too many), and
    by how many rows, and whole rounds of the banks, they are further on then: int[l, 3].
    """
    times, shifts, each = np.ones(timing.outer, np.int64), np.zeros((timing.outer, 3), np.int64), np.ones(3, np.int64)
    for i in range(timing.outer):
        for t in range(3):
            tile = (tiles.i, tiles.w, tiles.o)[t]
            each[t], shifts[i, t] = loop_recurrence(timing.steps[t, i], tile, tiles.dram)
            rounds = tiles.banks[t] // gcd(tiles.banks[t], shifts[i, t])
            each[t], shifts[i, t] = each[t] * rounds, shifts[i, t] * rounds
            times[i] = times[i] // gcd(times[i], each[t]) * each[t]
        for t in range(3):
            shifts[i, t] *= times[i] // each[t]
        if times[i] > MAX_SNAPSHOTS or timing.factors[i] <= 2 * times[i]:
            times[i] = 0
    return times, shifts


@njit
def _recurs(clock: Ints, then: Ints, banks: Banks, shifts: Ints) -> bool:
    """Return whether what followed the snapshot `then` will follow again.

    All times that have moved have moved equally, and those that have not lie before all that have. The latter cannot
    matter again: each maximum of times has a member that moves. Open rows that were used since are as far on as their
    tensor's addresses.
    """
    by, oldest = clock[NOW] - then[NOW], clock[NOW]
    for i in range(SLOTS):
        if clock[i] != then[i]:
            if clock[i] - then[i] != by:
                return False
            oldest = min(oldest, then[i])
    for i in range(SLOTS):
        if clock[i] == then[i] and clock[i] > oldest:
            return False
    place, width = SLOTS, banks.rows.shape[2]
    for part in range(3):
        if banks.state[part, RUN] != then[place]:
            return False
        for bank in range(width):
            here, there = banks.rows[part, OPEN, bank], then[place + 2 + bank]
            if banks.rows[part, USED, bank] > then[place + 1]:
                moved = shifts[here // (APART * width)] if here >= 0 else 0
                if here != there + moved:
                    return False
        place += 2 + width
    return True


@njit
def _note(clock: Ints, banks: Banks, then: Ints) -> None:
    """Write a snapshot: the clock, and by part the columns of the current run, the scans so far and the open rows."""
    for i in range(SLOTS):
        then[i] = clock[i]
    place, width = SLOTS, banks.rows.shape[2]
    for part in range(3):
        then[place], then[place + 1] = banks.state[part, RUN], banks.state[part, SCANS]
        for bank in range(width):
            then[place + 2 + bank] = banks.rows[part, OPEN, bank]
        place += 2 + width


@njit
def _repeat(clock: Ints, then: Ints, banks: Banks, shifts: Ints, repeats: int) -> None:
    """Let what came since a snapshot happen so many times more. Modifies clock and banks."""
    by, place, width = clock[NOW] - then[NOW], SLOTS, banks.rows.shape[2]
    for i in range(SLOTS):
        if clock[i] != then[i]:
            clock[i] += repeats * by
    for part in range(3):
        for bank in range(width):
            here = banks.rows[part, OPEN, bank]
            if here >= 0 and banks.rows[part, USED, bank] > then[place + 1]:
                banks.rows[part, OPEN, bank] += repeats * shifts[here // (APART * width)]
        place += 2 + width


@njit
def skip(
    clock: Ints, index: Ints, moved: int, then: Ints, times: int, shifts: Ints, timing: Timing, banks: Banks
) -> None:
    """Count at once the repetitions of the loop that moved, if it recurs; take a snapshot in place of `then`.

    Modifies clock, index, banks and then.
    """
    if index[moved] > times and _recurs(clock, then, banks, shifts):
        repeats = (timing.factors[moved] - 1 - index[moved]) // times
        _repeat(clock, then, banks, shifts, repeats)
        index[moved] += repeats * times
        go_all(banks.at, timing.steps, moved, repeats * times)
        go_all(banks.held, timing.steps, moved, repeats * times)
    _note(clock, banks, then)
