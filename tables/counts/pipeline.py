"""When tiles move and array steps happen: the exact latency of docs/model.md, section 6, by transitions of the nest.

Which tiles change is decided by the outermost loop that moves: every relevant loop further in then starts again. So a
tile changes if some relevant loop outside it is the loop that moved, or lies inside that loop. Times follow from times
by sums and maxima alone. So if an iteration of a loop begins with all times as an earlier one began, later by the same
number of cycles, and in the same DRAM rows, later by a whole number of rows, then it takes what that one took, and so
do its repetitions. These are counted at once.
"""

from typing import NamedTuple

import numpy as np

from tables.counts.repetitions import OPEN, SCANS, USED, go, loop_recurrence
from tables.counts.visits import Tile, add_visits, scan_pattern, scan_patterns
from tables.counts.walk import _access_rows, _cycles
from tables.dram import Dram
from tables.jit import njit
from tables.nest import DRAM, PE, I, Ints, O, W
from tables.reduce import gcd

#: A level's way to the MACs is numbered as one more level.
TO_MACS = 3
#: Links: one into each level and to the MACs for each tensor; the shared bus; one for each part that shares a bank.
BUS = 12
BANK = BUS + 1
#: Slots of the clock, in cycles: the end of the last array step; when each LINK is free; by level and tensor when the
#: tile is READY (or its slot is free), and its LAST use; by level, tensor and age when the last two slots were FREED.
NOW, LINK = 0, 1
READY = LINK + BANK + 3
LAST = READY + 9
FREED = LAST + 9
_SLOTS = FREED + 18
#: Rows of one tensor are numbered so far from those of another one.
_APART = 2**40
#: The most iterations of a loop after which its addresses may recur for the recurrence to be used.
_MAX_SNAPSHOTS = 64
#: The most visits that are kept. Beyond that they are found anew.
_MAX_VISITS = 1_000_000
#: Fields of `_STATE_SLOTS` of a bank, as in `tables.counts.walk`.
_BANK_SLOTS = 11


class Timing(NamedTuple):
    """A mapped nest as `run_pipeline` walks it.

    Loops are those outside the array step, outermost first, then, if a tensor is drawn from DRAM, those inside it.

    - `factors` int[l], of which the first `outer` lie outside the array step. `steps` int[3, l, 5]: by how much an
      iteration moves the scan of each tensor, as in `tables.counts.walk.walk_stream`.
    - `stored` int[3 levels, 3]; `deepest` int[3, 3]: the innermost relevant loop outside the tile, -1 if none.
    - `returns` bool[4, l]: loops whose later iterations bring tiles of O back, at each level and at the MACs' steps.
    - `parent` int[3, 3]; `link` int[4, 3] into each level and to the MACs; `innermost` int[3]: level, or DRAM.
    - `is_double` int[3]; `part` int[3]: as in `tables.nest.Nest`.
    - `load` int[3, 3], `drain` int[3]: cycles of a tile from and to a parent on chip.
    - `draw` int[3]: cycles of what an array step's MACs take from a level on chip; `first_draw`: of O on first visits.
    - `array_step`: its steps. `rereads_copies`: as in `Nest`.
    """

    factors: Ints
    outer: int
    steps: Ints
    stored: Ints
    deepest: Ints
    returns: Ints
    parent: Ints
    link: Ints
    innermost: Ints
    is_double: Ints
    part: Ints
    load: Ints
    drain: Ints
    draw: Ints
    first_draw: int
    array_step: int
    rereads_copies: int


class Banks(NamedTuple):
    """What the DRAM does.

    `at` and `held` int[3, 5]: the positions of each tensor's tile now and in the last array step. By part `state` and
    open `rows` as in `tables.counts.walk`. `patterns` int[3, n, 2]: where the visits of each tensor's patterns begin
    and end.
    """

    at: Ints
    held: Ints
    state: Ints
    rows: Ints
    patterns: Ints


class Tiles(NamedTuple):
    """What one scan of each tensor reads, the DRAM, and the `banks` int[3] of each tensor, of which the largest number
    is a multiple of each.
    """

    i: Tile
    w: Tile
    o: Tile
    dram: Dram
    banks: Ints


@njit
def _new_banks(tiles: Tiles) -> Banks:
    """Return the banks at the start: no row is open."""
    dram = tiles.dram
    most = max(scan_patterns(tiles.i, dram), scan_patterns(tiles.w, dram), scan_patterns(tiles.o, dram))
    return Banks(
        np.zeros((3, 5), np.int64),
        np.zeros((3, 5), np.int64),
        np.zeros((3, _BANK_SLOTS), np.int64),
        np.full((3, 2, tiles.banks.max()), -1, np.int64),
        np.zeros((3, most, 2), np.int64),
    )


@njit
def _pattern(t: int, at: Ints, tiles: Tiles) -> tuple[int, int]:
    """Return `scan_pattern` of a tensor's tile. (To choose among tuples by index takes longer than a scan.)"""
    if t == I:
        return scan_pattern(at, tiles.i, tiles.dram)
    if t == W:
        return scan_pattern(at, tiles.w, tiles.dram)
    return scan_pattern(at, tiles.o, tiles.dram)


@njit
def _list_visits(t: int, which: int, tiles: Tiles, banks: Banks, visits: Ints, listed: int) -> tuple[Ints, int]:
    """Add the visits of a tensor's pattern to those of all patterns found so far; modifies banks."""
    if listed > _MAX_VISITS:
        banks.patterns[:], listed = 0, 0
    banks.patterns[t, which, 0] = listed
    visits, listed = add_visits(which, (tiles.i, tiles.w, tiles.o)[t], tiles.dram, visits, listed)
    banks.patterns[t, which, 1] = listed
    return visits, listed


@njit
def _scan(t: int, at: Ints, part: int, tiles: Tiles, banks: Banks, visits: Ints, listed: int) -> tuple[int, Ints, int]:
    """Scan the tile of a tensor at a position; modifies banks.

    `visits` int[m, 2]: those of all patterns found so far, `listed` of them.

    Returns by how many cycles the stream of its part advances, and visits and listed with those of the tile's pattern.
    """
    row, which = _pattern(t, at, tiles)
    if not banks.patterns[t, which, 1]:
        visits, listed = _list_visits(t, which, tiles, banks, visits, listed)
    state, scanned = banks.state[part], visits[banks.patterns[t, which, 0] : banks.patterns[t, which, 1]]
    before = _cycles(state, tiles.dram)
    rows = banks.rows[part]
    _access_rows(row + t * _APART * rows.shape[1], scanned, tiles.dram, tiles.banks[t], state, rows)
    return _cycles(state, tiles.dram) - before, visits, listed


@njit
def _move(clock: Ints, timing: Timing, level: int, t: int, cycles: int) -> int:
    """Move a tile between a level and its parent, from its last use on; return the end. Modifies clock."""
    own, link, parent = 3 * level + t, LINK + timing.link[level, t], timing.parent[level, t]
    start = max(clock[LAST + own], clock[link])
    if parent != DRAM:
        start = max(start, clock[READY + 3 * parent + t])
    end = start + cycles
    if parent != DRAM:
        clock[LAST + 3 * parent + t] = max(clock[LAST + 3 * parent + t], end)
    clock[link] = end
    return int(end)


@njit
def _comes_back(index: Ints, returns: Ints) -> bool:
    """Return whether a tile was held before: some loop that brings it back is past its first iteration."""
    for i in range(index.shape[0]):  # noqa: SIM110 - numba compiles no generator expressions within any()
        if returns[i] and index[i] > 0:
            return True
    return False


@njit
def _leave(clock: Ints, timing: Timing, level: int, t: int, cycles: int) -> None:
    """Give up the tile that a level holds; a tile of O moves out first. Modifies clock."""
    own = 3 * level + t
    if t == O:
        clock[LAST + own] = _move(clock, timing, level, t, cycles)
    clock[FREED + 2 * own + 1] = clock[FREED + 2 * own]
    clock[FREED + 2 * own] = clock[LAST + own]


@njit
def _enter(clock: Ints, timing: Timing, level: int, t: int) -> None:
    """Take the slot of the next tile: the one that was just freed, or of two slots the other one. Modifies clock."""
    own = 3 * level + t
    free = clock[FREED + 2 * own + timing.is_double[level]]
    clock[READY + own] = clock[LAST + own] = free


@njit
def _go_all(at: Ints, steps: Ints, loop: int, times: int) -> None:
    """Go so many steps of a loop from the positions of all tensors. Modifies at."""
    for t in range(3):
        go(at[t], steps[t, loop], times)


@njit
def _advance(index: Ints, first: int, end: int, factors: Ints, steps: Ints, at: Ints) -> int:
    """Go to the next iteration of the loops from `first` to `end`; return the loop that moved, or -1 after the last.

    Modifies index and at.
    """
    for i in range(end - 1, first - 1, -1):
        index[i] += 1
        _go_all(at, steps, i, 1)
        if index[i] < factors[i]:
            return i
        _go_all(at, steps, i, -factors[i])
        index[i] = 0
    return -1


@njit
def _recurrences(timing: Timing, tiles: Tiles) -> tuple[Ints, Ints]:
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
        if times[i] > _MAX_SNAPSHOTS or timing.factors[i] <= 2 * times[i]:
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
    for i in range(_SLOTS):
        if clock[i] != then[i]:
            if clock[i] - then[i] != by:
                return False
            oldest = min(oldest, then[i])
    for i in range(_SLOTS):
        if clock[i] == then[i] and clock[i] > oldest:
            return False
    place, width = _SLOTS, banks.rows.shape[2]
    for part in range(3):
        if banks.state[part, 3] != then[place]:
            return False
        for bank in range(width):
            here, there = banks.rows[part, OPEN, bank], then[place + 2 + bank]
            if banks.rows[part, USED, bank] > then[place + 1]:
                moved = shifts[here // (_APART * width)] if here >= 0 else 0
                if here != there + moved:
                    return False
        place += 2 + width
    return True


@njit
def _note(clock: Ints, banks: Banks, then: Ints) -> None:
    """Write a snapshot: the clock, and by part the columns of the current run, the scans so far and the open rows."""
    for i in range(_SLOTS):
        then[i] = clock[i]
    place, width = _SLOTS, banks.rows.shape[2]
    for part in range(3):
        then[place], then[place + 1] = banks.state[part, 3], banks.state[part, SCANS]
        for bank in range(width):
            then[place + 2 + bank] = banks.rows[part, OPEN, bank]
        place += 2 + width


@njit
def _repeat(clock: Ints, then: Ints, banks: Banks, shifts: Ints, repeats: int) -> None:
    """Let what came since a snapshot happen so many times more. Modifies clock and banks."""
    by, place, width = clock[NOW] - then[NOW], _SLOTS, banks.rows.shape[2]
    for i in range(_SLOTS):
        if clock[i] != then[i]:
            clock[i] += repeats * by
    for part in range(3):
        for bank in range(width):
            here = banks.rows[part, OPEN, bank]
            if here >= 0 and banks.rows[part, USED, bank] > then[place + 1]:
                banks.rows[part, OPEN, bank] += repeats * shifts[here // (_APART * width)]
        place += 2 + width


@njit
def _change_tiles(
    t: int, moved: int, index: Ints, clock: Ints, timing: Timing, tiles: Tiles, banks: Banks, visits: Ints, listed: int
) -> tuple[Ints, int]:
    """Go over to t's tiles of this array step: old ones leave, inner levels first; new ones enter, outer levels first.

    `moved`: the outermost loop that moved, -1 at the start. Modifies clock and banks; returns as `_scan` does.
    """
    for level in range(3):
        if moved >= 0 and timing.stored[level, t] and timing.deepest[level, t] >= moved:
            cycles = timing.drain[level] if t == O else 0
            if t == O and timing.parent[level, t] == DRAM:
                cycles, visits, listed = _scan(t, banks.held[t], timing.part[t], tiles, banks, visits, listed)
            _leave(clock, timing, level, t, cycles)
    for level in range(2, -1, -1):
        if not timing.stored[level, t] or timing.deepest[level, t] < moved:
            continue
        _enter(clock, timing, level, t)
        if t != O or _comes_back(index, timing.returns[level]):
            cycles = timing.load[level, t]
            if timing.parent[level, t] == DRAM:
                cycles, visits, listed = _scan(t, banks.at[t], timing.part[t], tiles, banks, visits, listed)
            clock[READY + 3 * level + t] = _move(clock, timing, level, t, cycles)
    return visits, listed


@njit
def _draw_from_dram(
    drawn: Ints, index: Ints, timing: Timing, tiles: Tiles, banks: Banks, visits: Ints, listed: int
) -> tuple[Ints, int]:
    """Scan, step by step, what an array step's MACs take from DRAM. Adds to `drawn`; returns as `_scan` does."""
    while True:
        for t in range(3):
            if timing.innermost[t] == DRAM:
                is_read = t == O and (timing.rereads_copies or _comes_back(index, timing.returns[TO_MACS]))
                for _ in range(1 + is_read):
                    cycles, visits, listed = _scan(t, banks.at[t], timing.part[t], tiles, banks, visits, listed)
                    drawn[t] += cycles
        if _advance(index, timing.outer, timing.factors.shape[0], timing.factors, timing.steps, banks.at) < 0:
            return visits, listed


@njit
def _work(clock: Ints, timing: Timing, start: int, drawn: Ints) -> None:
    """Do an array step from the cycle `start` on, with what is `drawn` past the PEs. Modifies clock."""
    clock[NOW] = start + timing.array_step
    for t in range(3):
        if timing.innermost[t] != PE:
            link = LINK + timing.link[TO_MACS, t]
            clock[link] = max(start, clock[link]) + drawn[t]
            clock[NOW] = max(clock[NOW], clock[link])
    for t in range(3):
        if timing.innermost[t] != DRAM:
            clock[LAST + 3 * timing.innermost[t] + t] = clock[NOW]


@njit
def _start(clock: Ints, timing: Timing) -> int:
    """Return when the array step can start: the last one has ended, and all tiles are there."""
    start = clock[NOW]
    for t in range(3):
        if timing.innermost[t] != DRAM:
            start = max(start, clock[READY + 3 * timing.innermost[t] + t])
    return int(start)


@njit
def _skip(
    clock: Ints, index: Ints, moved: int, then: Ints, times: int, shifts: Ints, timing: Timing, banks: Banks
) -> None:
    """Count at once the repetitions of the loop that moved, if it recurs; take a snapshot in place of `then`.

    Modifies clock, index, banks and then.
    """
    if index[moved] > times and _recurs(clock, then, banks, shifts):
        repeats = (timing.factors[moved] - 1 - index[moved]) // times
        _repeat(clock, then, banks, shifts, repeats)
        index[moved] += repeats * times
        _go_all(banks.at, timing.steps, moved, repeats * times)
        _go_all(banks.held, timing.steps, moved, repeats * times)
    _note(clock, banks, then)


@njit
def run_pipeline(timing: Timing, tiles: Tiles, most: int) -> int:
    """Return the cycle in which the last array step and the last write-out have ended.

    0 if more than `most` array steps and scans have to be walked one by one.
    """
    clock, index, drawn = np.zeros(_SLOTS, np.int64), np.zeros(timing.factors.shape[0], np.int64), np.zeros(3, np.int64)
    banks, visits, listed = _new_banks(tiles), np.empty((64, 2), np.int64), 0
    times, shifts = _recurrences(timing, tiles)
    snapshots = np.zeros((timing.outer, _MAX_SNAPSHOTS, _SLOTS + 3 * (2 + tiles.banks.max())), np.int64)
    moved, walked = -1, 0
    while True:
        walked += 1
        if walked + banks.state[0, SCANS] + banks.state[1, SCANS] + banks.state[2, SCANS] > most:
            return 0
        for t in range(3):
            visits, listed = _change_tiles(t, moved, index, clock, timing, tiles, banks, visits, listed)
        start = _start(clock, timing)
        for t in range(3):
            drawn[t] = timing.draw[t]
            for axis in range(banks.at.shape[1]):
                banks.held[t, axis] = banks.at[t, axis]
        if timing.innermost[O] not in (PE, DRAM) and not _comes_back(index, timing.returns[PE]):
            drawn[O] = timing.first_draw
        if max(timing.innermost[I], timing.innermost[W], timing.innermost[O]) == DRAM:
            visits, listed = _draw_from_dram(drawn, index, timing, tiles, banks, visits, listed)
        _work(clock, timing, start, drawn)
        moved = _advance(index, 0, timing.outer, timing.factors, timing.steps, banks.at)
        if moved < 0:
            break
        if times[moved]:
            then = snapshots[moved, index[moved] % times[moved]]
            _skip(clock, index, moved, then, times[moved], shifts[moved], timing, banks)
    end = clock[NOW]
    for level in range(3):
        if timing.stored[level, O]:
            cycles = timing.drain[level]
            if timing.parent[level, O] == DRAM:
                cycles, visits, listed = _scan(O, banks.held[O], timing.part[O], tiles, banks, visits, listed)
            clock[LAST + 3 * level + O] = _move(clock, timing, level, O, cycles)
            end = max(end, clock[LAST + 3 * level + O])
    return int(end)
