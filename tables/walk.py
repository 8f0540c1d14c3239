"""A sequence of scans, walked: exact column accesses, row activations and DRAM cycles.

A scan is a list of contiguous byte segments: the same list for every tile but for its base address, except for a
row-aligned I, whose windows cut the layout's blocks differently.
"""

from typing import NamedTuple

import numpy as np

from tables.dram import Dram, last_run, period, place, recurrence
from tables.factors import log2_of, quotient
from tables.jit import njit
from tables.nest import Ints

#: Slots of a bank state: columns, activations, cycles of closed runs, columns in the open run, last column of the scan,
#: scans begun.
COLUMNS, ACTIVATIONS, CYCLES, RUN, LAST, SCANS = range(6)
#: Of each bank: its open row, -1 for none, and the scan that used it last.
OPEN, USED = range(2)
#: How a tile's bytes are found: packed tensor, one block of a row-aligned tensor, a window over blocks.
SEQUENTIAL, BLOCK, WINDOW = range(3)
#: Slots of a snapshot of the walk, after columns and activations; from the last one on, the banks' open rows.
_CYCLES, _RUN, _TAKEN, _BEFORE, _SCANS, _ROWS = 2, 3, 4, 5, 8, 9
#: Iterations of a loop that are remembered.
_MOST_REMEMBERED = 64
#: More cycles than any scan takes.
NEVER = 2**62


class Tile(NamedTuple):
    """What one scan reads: `segments` int[n, 2] (first byte, bytes) from the tile's base; blocks and windows as below.

    `window`, `block`: extents per axis N G C H W of a row-aligned I; `strides`: blocks from one to the next along each.
    """

    mode: int
    segments: Ints
    block_bytes: int
    window: Ints
    block: Ints
    strides: Ints
    channels_last: bool
    width: int


class Pace(NamedTuple):
    """How fast the array asks for tiles: `scans` tiles in `cycles`.

    `is_drawn`: the MACs take them while they compute; else the first one (an output's last) overlaps no computation.
    `is_ahead`: the second one is loaded behind the first, before the array starts, if there is time.
    """

    scans: int
    cycles: int
    is_drawn: bool
    is_ahead: bool = False


class StreamCounts(NamedTuple):
    """Totals of a stream, and the cycles that its first and its last scan take.

    `late_cycles`: by how much tiles come (or outputs leave) later than the array asks for them, each by itself.
    `steady_cycles`: what of it is left if all were as quick as the quickest. `second_cycles`: what of it falls on a
    second tile that may be loaded before the array starts.
    """

    columns: int
    activations: int
    cycles: int
    first_cycles: int
    last_cycles: int
    late_cycles: int
    steady_cycles: int
    second_cycles: int


class Room(NamedTuple):
    """Activations and cycles that a stream may take: of one that takes more, no more is counted than that it does."""

    activations: int
    cycles: int

    def holds(self, stream: StreamCounts) -> bool:
        """Whether it takes no more."""
        return stream.activations <= self.activations and stream.cycles <= self.cycles


#: No limit.
ENDLESS = Room(NEVER, NEVER)


class _Shifts(NamedTuple):
    """log2 of a column's bytes and of a row's columns; -1 where that is no whole number."""

    column: int
    row: int


@njit
def _touch(start: int, length: int, dram: Dram, shifts: _Shifts, state: Ints, rows: Ints) -> None:
    """Access the bytes [start, start + length): columns, and rows per bank. Modifies state and rows."""
    per_row = dram.row_bytes // dram.column_bytes
    column = quotient(start, dram.column_bytes, shifts.column)
    end = quotient(start + length - 1, dram.column_bytes, shifts.column)
    if column == state[LAST]:
        column += 1
    while column <= end:
        row = quotient(column, per_row, shifts.row)
        last = min(end, (row + 1) * per_row - 1)
        bank = row % dram.banks if dram.banks > 1 else 0
        rows[USED, bank] = state[SCANS]
        if rows[OPEN, bank] != row:
            rows[OPEN, bank] = row
            if state[RUN] > 0:
                state[CYCLES] += period(state[RUN], dram)
            state[ACTIVATIONS] += 1
            state[RUN] = 0
        state[RUN] += last - column + 1
        state[COLUMNS] += last - column + 1
        column = last + 1
    state[LAST] = end


@njit
def _touch_window(at: Ints, tile: Tile, dram: Dram, shifts: _Shifts, state: Ints, rows: Ints) -> None:
    """A window over a row-aligned I that starts at element `at` (N G C H W), block by block in address order."""
    size = tile.block
    first = at // size * tile.strides
    outer = size[0] if tile.channels_last else size[0] * size[1] * size[2]
    inner = size[1] * size[2] if tile.channels_last else 1
    per_row = max(1, dram.row_bytes // tile.block_bytes)
    for bh in range(at[3] // size[3], (at[3] + tile.window[3] - 1) // size[3] + 1):
        h0 = max(at[3] - bh * size[3], 0)
        h1 = min(at[3] + tile.window[3] - bh * size[3], size[3])
        bw, last = at[4] // size[4], (at[4] + tile.window[4] - 1) // size[4]
        while bw <= last:
            w0 = max(at[4] - bw * size[4], 0)
            w1 = min(at[4] + tile.window[4] - bw * size[4], size[4])
            number = first[0] + first[1] + first[2] + bh * tile.strides[3] + bw * tile.strides[4]
            base = place(number, tile.block_bytes, dram)
            bw += 1
            # Bytes that follow each other: of a line, of whole lines, of a whole block and those after it in the row.
            lines, length, images = 1, (w1 - w0) * inner * tile.width, outer
            if w1 - w0 == size[4]:
                lines, length = h1 - h0, (h1 - h0) * length
                if lines == size[3]:
                    more = min((at[4] + tile.window[4]) // size[4] - bw, per_row - 1 - number % per_row)
                    more = more if tile.strides[4] == 1 else 0
                    images, length, bw = 1, (1 + more) * tile.block_bytes, bw + more
            for o in range(images):
                for h in range(h0, h1, lines):
                    byte = base + ((o * size[3] + h) * size[4] + w0) * inner * tile.width
                    _touch(byte, length, dram, shifts, state, rows)


@njit
def _scan(at: Ints, tile: Tile, dram: Dram, shifts: _Shifts, state: Ints, rows: Ints) -> None:
    """One scan of the tile at a position. Modifies state and rows."""
    state[LAST] = -1
    state[SCANS] += 1
    if tile.mode == WINDOW:
        _touch_window(at, tile, dram, shifts, state, rows)
    else:
        base = at[0] if tile.mode == SEQUENTIAL else place(at[0], tile.block_bytes, dram)
        for i in range(tile.segments.shape[0]):
            _touch(base + tile.segments[i, 0], tile.segments[i, 1], dram, shifts, state, rows)
    if not dram.is_open:
        rows[OPEN] = -1


@njit
def _cycles(state: Ints, dram: Dram) -> int:
    """Cycles of the stream, were it to end here."""
    return int(state[CYCLES]) + last_run(state[RUN], dram)


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
    if now[_RUN] != then[_RUN]:
        return False
    is_within = now[_TAKEN] // scans == then[_TAKEN] // scans
    is_as_far = now[_CYCLES] - now[_BEFORE] == then[_CYCLES] - then[_BEFORE]
    if not is_within and not (is_as_far and (now[_TAKEN] - then[_TAKEN]) % scans == 0):
        return False  # neither within an array step nor whole ones
    moving[:] = 0
    banks = rows.shape[1]
    for used in np.flatnonzero(rows[USED] > then[_SCANS]):
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
def walk_stream(
    loops: Ints, steps: Ints, tile: Tile, is_output: bool, always_reads: bool, pace: Pace, dram: Dram, room: Room
) -> tuple[int, int, int, int, int, int, int, int]:
    """Scan every fetched tile of a stream in loop order, or as many as fill the room; the fields of `StreamCounts`.

    loops int[m, 2]: factor, 1 if irrelevant, outermost first; steps int[m, 5]: what one iteration adds to the tile's
    position: N G C H W elements for a window, else byte address or block number in column 0. An output tile is read
    when it returns (with `always_reads` on its first visit too) and written when it is left.

    An iteration that begins as an earlier one of the same loop began, but for whole rows of address, costs what that
    one cost, and so do all that follow: they are counted at once.
    """
    state, rows = np.zeros(6, np.int64), np.full((2, dram.banks), -1, np.int64)
    shifts = _Shifts(log2_of(dram.column_bytes), log2_of(dram.row_bytes // dram.column_bytes))
    moving = np.zeros(dram.banks, np.int64)
    index, at = np.zeros(loops.shape[0], np.int64), np.zeros(5, np.int64)
    left = np.zeros(5, np.int64)
    seen = np.zeros((loops.shape[0], _MOST_REMEMBERED, _ROWS + dram.banks), np.int64)
    first_cycles, before_last, taken, before = 0, 0, 0, 0
    late, second, overlapped, quickest = 0, 0, 0, np.iinfo(np.int64).max
    moved = 0
    while moved >= 0 and state[ACTIVATIONS] <= room.activations and state[CYCLES] <= room.cycles:
        if not is_output or always_reads or _returns(index, loops):
            _scan(at, tile, dram, shifts, state, rows)
        if taken == 0:
            first_cycles = _cycles(state, dram)
        left[:] = at
        moved = _advance(index, at, loops, steps)
        before_last = _cycles(state, dram)
        if is_output:
            _scan(left, tile, dram, shifts, state, rows)
        taken += 1
        if taken % pace.scans == 0:
            now = _cycles(state, dram)
            if pace.is_drawn or (moved >= 0 if is_output else taken > 1):
                late += max(0, now - before - pace.cycles)
                second = late if taken == 2 and pace.is_ahead else second
                quickest = min(quickest, now - before)
                overlapped += 1
            before = now
        if moved < 0:
            break
        period, shift = _loop_recurrence(steps[moved], tile, dram)
        if not 0 < period <= _MOST_REMEMBERED or loops[moved, 0] <= 2 * period:
            continue
        then = seen[moved, index[moved] % period]
        here = np.empty(_ROWS + dram.banks, np.int64)
        here[:_SCANS] = (state[COLUMNS], state[ACTIVATIONS], state[CYCLES], state[RUN], taken, before, late, overlapped)
        here[_SCANS], here[_ROWS:] = state[SCANS], rows[OPEN]
        if index[moved] > period and _same_place(here, then, shift, pace.scans, rows, moving):
            again = (loops[moved, 0] - 1 - index[moved]) // period
            if then[_TAKEN] // pace.scans == taken // pace.scans:  # no further than to the last scan of the array step
                again = min(again, (pace.scans - 1 - taken % pace.scans) // (taken - then[_TAKEN]))
            gained = again * (here - then)
            state[COLUMNS] += gained[0]
            state[ACTIVATIONS] += gained[1]
            state[CYCLES] += gained[_CYCLES]
            taken, before = taken + gained[_TAKEN], before + gained[_BEFORE]
            late, overlapped = late + gained[6], overlapped + gained[7]
            _move_on(rows, again * shift, moving)
            index[moved] += again * period
            at += again * period * steps[moved]
        then[:] = here
    steady = overlapped * max(0, quickest - pace.cycles) if overlapped else 0
    total = _cycles(state, dram)
    return state[COLUMNS], state[ACTIVATIONS], total, first_cycles, total - before_last, late, steady, second
