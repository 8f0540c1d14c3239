"""When tiles move and array steps happen: the exact latency of docs/model.md, section 6, by transitions of the nest.

Which tiles change is decided by the outermost loop that moves: every relevant loop further in then starts again. So a
tile changes if some relevant loop outside it is the loop that moved, or lies inside that loop. What repeats is counted
at once (`tables.counts.pipeline_repetitions`).
"""

import numpy as np

from tables.counts.pipeline_repetitions import MAX_SNAPSHOTS, go_all, recurrences, skip
from tables.counts.row_state import ROWS, SCANS, access_rows, cycles_so_far
from tables.counts.timing import APART, FREED, LAST, LINK, NOW, READY, SLOTS, TO_MACS, Banks, Tiles, Timing
from tables.counts.visits import add_visits, scan_pattern, scan_patterns
from tables.jit import njit
from tables.nest import DRAM, PE, I, Ints, O, W

#: The most visits that are kept. Beyond that they are found anew.
_MAX_VISITS = 1_000_000


@njit
def _most_banks(tiles: Tiles) -> int:
    """Return the most banks that a tensor has. (Numba takes a second to compile `max()` of an array.)"""
    return int(max(tiles.banks[0], tiles.banks[1], tiles.banks[2]))


@njit
def _new_banks(tiles: Tiles) -> Banks:
    """Return the banks at the start: no row is open."""
    dram, rows = tiles.dram, np.empty((3, 2, _most_banks(tiles)), np.int64)
    rows[:] = -1
    most = max(scan_patterns(tiles.i, dram), scan_patterns(tiles.w, dram), scan_patterns(tiles.o, dram))
    return Banks(
        np.zeros((3, 5), np.int64),
        np.zeros((3, 5), np.int64),
        np.zeros((3, ROWS), np.int64),
        rows,
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
    before = cycles_so_far(state, tiles.dram)
    rows = banks.rows[part]
    access_rows(row + t * APART * rows.shape[1], scanned, tiles.dram, tiles.banks[t], state, rows)
    return cycles_so_far(state, tiles.dram) - before, visits, listed


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
def _advance(index: Ints, first: int, end: int, factors: Ints, steps: Ints, at: Ints) -> int:
    """Go to the next iteration of the loops from `first` to `end`; return the loop that moved, or -1 after the last.

    Modifies index and at.
    """
    for i in range(end - 1, first - 1, -1):
        index[i] += 1
        go_all(at, steps, i, 1)
        if index[i] < factors[i]:
            return i
        go_all(at, steps, i, -factors[i])
        index[i] = 0
    return -1


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
def run_pipeline(timing: Timing, tiles: Tiles, most: int) -> int:
    """Return the cycle in which the last array step and the last write-out have ended.

    0 if more than `most` array steps and scans have to be walked one by one.
    """
    clock, index, drawn = np.zeros(SLOTS, np.int64), np.zeros(timing.factors.shape[0], np.int64), np.zeros(3, np.int64)
    banks, visits, listed = _new_banks(tiles), np.empty((64, 2), np.int64), 0
    times, shifts = recurrences(timing, tiles)
    snapshots = np.zeros((timing.outer, MAX_SNAPSHOTS, SLOTS + 3 * (2 + _most_banks(tiles))), np.int64)
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
            skip(clock, index, moved, then, times[moved], shifts[moved], timing, banks)
    end = clock[NOW]
    for level in range(3):
        if timing.stored[level, O]:
            cycles = timing.drain[level]
            if timing.parent[level, O] == DRAM:
                cycles, visits, listed = _scan(O, banks.held[O], timing.part[O], tiles, banks, visits, listed)
            clock[LAST + 3 * level + O] = _move(clock, timing, level, O, cycles)
            end = max(end, clock[LAST + 3 * level + O])
    return int(end)
