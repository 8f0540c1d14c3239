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

#: Slots of a bank state: columns, activations, cycles of closed runs, columns in the open run, scans begun.
COLUMNS, ACTIVATIONS, CYCLES, RUN, SCANS = range(5)
#: Of each bank: its open row, -1 for none, and the scan that used it last.
OPEN, USED = range(2)
#: How a tile's bytes are found: packed tensor, one block of a row-aligned tensor, a window over blocks.
SEQUENTIAL, BLOCK, WINDOW = range(3)
#: Slots of a snapshot of the walk, after columns and activations; from the last one on, the banks' open rows.
_CYCLES, _RUN, _TAKEN, _BEFORE, _SCANS, _ROWS = 2, 3, 4, 5, 8, 9
#: How far a scan is taken down: visits to rows, of all scans and of this one, and its last column.
_VISITS, _ADDED, _COLUMN = range(3)
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
def _touch(start: int, length: int, dram: Dram, shifts: _Shifts, visits: Ints, end: Ints) -> None:
    """Access the bytes [start, start + length): add columns to the visit of the last row, or visits of further ones.
    Modifies visits and end.
    """
    per_row = dram.row_bytes // dram.column_bytes
    column = quotient(start, dram.column_bytes, shifts.column)
    stop = quotient(start + length - 1, dram.column_bytes, shifts.column) + 1
    column += column == end[_COLUMN]
    while column < stop:
        row = quotient(column, per_row, shifts.row)
        last = min(stop, (row + 1) * per_row)
        if not end[_ADDED] or visits[end[_VISITS] - 1, 0] != row:
            visits[end[_VISITS]] = row, 0
            end[_VISITS] += 1
            end[_ADDED] += 1
        visits[end[_VISITS] - 1, 1] += last - column
        column = last
    end[_COLUMN] = stop - 1


@njit
def _touch_window(at: Ints, number: int, tile: Tile, dram: Dram, shifts: _Shifts, visits: Ints, end: Ints) -> None:
    """A window over a row-aligned I that starts at element `at` (N G C H W), in a block of that number, block by block
    in address order. Modifies visits and end.
    """
    size = tile.block
    outer = size[0] if tile.channels_last else size[0] * size[1] * size[2]
    inner = size[1] * size[2] if tile.channels_last else 1
    per_row = max(1, dram.row_bytes // tile.block_bytes)
    for bh in range((at[3] + tile.window[3] - 1) // size[3] + 1):
        h0 = max(at[3] - bh * size[3], 0)
        h1 = min(at[3] + tile.window[3] - bh * size[3], size[3])
        bw, last = 0, (at[4] + tile.window[4] - 1) // size[4]
        while bw <= last:
            w0 = max(at[4] - bw * size[4], 0)
            w1 = min(at[4] + tile.window[4] - bw * size[4], size[4])
            here = number + bh * tile.strides[3] + bw * tile.strides[4]
            base = place(here, tile.block_bytes, dram)
            bw += 1
            # Bytes that follow each other: of a line, of whole lines, of a whole block and those after it in the row.
            lines, length, images = 1, (w1 - w0) * inner * tile.width, outer
            if w1 - w0 == size[4]:
                lines, length = h1 - h0, (h1 - h0) * length
                if lines == size[3]:
                    more = min((at[4] + tile.window[4]) // size[4] - bw, per_row - 1 - here % per_row)
                    more = more if tile.strides[4] == 1 else 0
                    images, length, bw = 1, (1 + more) * tile.block_bytes, bw + more
            for o in range(images):
                for h in range(h0, h1, lines):
                    byte = base + ((o * size[3] + h) * size[4] + w0) * inner * tile.width
                    _touch(byte, length, dram, shifts, visits, end)


@njit
def _begin(at: Ints, tile: Tile, dram: Dram) -> tuple[int, int]:
    """The row in which the scan of the tile at a position begins, and which of all that it can be it is but for that:
    the byte there, of windows also where they cut the first block.
    """
    if tile.mode != WINDOW:
        base = at[0] if tile.mode == SEQUENTIAL else place(at[0], tile.block_bytes, dram)
        return base // dram.row_bytes, base % dram.row_bytes
    number, size = 0, tile.block
    for axis in range(5):
        number += at[axis] // size[axis] * tile.strides[axis]
    per_row, rows = max(1, dram.row_bytes // tile.block_bytes), -(-tile.block_bytes // dram.row_bytes)
    cut = at[3] % size[3] * size[4] + at[4] % size[4]
    return number // per_row * rows, cut * per_row + number % per_row


@njit
def _scan(which: int, tile: Tile, dram: Dram, shifts: _Shifts, visits: Ints, end: Ints) -> Ints:
    """Take down which rows a scan visits, from where it begins, and columns in each; the visits, of which there may be
    more than room was for. Modifies visits and end.
    """
    per_row, size = max(1, dram.row_bytes // max(1, tile.block_bytes)), tile.block
    end[_ADDED], end[_COLUMN] = 0, -1
    if tile.mode == WINDOW:
        at, cut = np.zeros(5, np.int64), which // per_row
        at[3], at[4] = cut // size[4], cut % size[4]
        lines = (at[3] + tile.window[3] - 1) // size[3] + 1
        most = lines * ((at[4] + tile.window[4] - 1) // size[4] + 1) * -(-tile.block_bytes // dram.row_bytes)
    else:
        most = np.sum((tile.segments[:, 1] - 1) // dram.row_bytes + 2)
    if end[_VISITS] + most > len(visits):
        visits = np.concatenate((visits, np.empty((len(visits) + most, 2), np.int64)))
    if tile.mode == WINDOW:
        _touch_window(at, which % per_row, tile, dram, shifts, visits, end)
    else:
        for i in range(len(tile.segments)):
            _touch(which + tile.segments[i, 0], tile.segments[i, 1], dram, shifts, visits, end)
    return visits


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
    state, rows = np.zeros(SCANS + 1, np.int64), np.full((2, dram.banks), -1, np.int64)
    shifts = _Shifts(log2_of(dram.column_bytes), log2_of(dram.row_bytes // dram.column_bytes))
    moving = np.zeros(dram.banks, np.int64)
    index, at = np.zeros(loops.shape[0], np.int64), np.zeros(5, np.int64)
    seen = np.zeros((loops.shape[0], _MOST_REMEMBERED, _ROWS + dram.banks), np.int64)
    scans = tile.block[3] * tile.block[4] * max(1, dram.row_bytes // tile.block_bytes) if tile.mode == WINDOW else 0
    known, visits = np.zeros((max(scans, dram.row_bytes), 2), np.int64), np.empty((64, 2), np.int64)
    end = np.zeros(3, np.int64)
    recurs = [_loop_recurrence(step, tile, dram) for step in steps]
    here = np.empty(_ROWS + dram.banks, np.int64)
    first_cycles, before_last, taken, before = 0, 0, 0, 0
    late, second, overlapped, quickest = 0, 0, 0, np.iinfo(np.int64).max
    moved = 0
    while moved >= 0 and state[ACTIVATIONS] <= room.activations and state[CYCLES] <= room.cycles:
        row, which = _begin(at, tile, dram)
        if not known[which, 1]:
            known[which, 0] = end[_VISITS]
            visits = _scan(which, tile, dram, shifts, visits, end)
            known[which, 1] = end[_VISITS]
        of_scan = visits[known[which, 0] : known[which, 1]]
        if not is_output or always_reads or _returns(index, loops):
            _visit(row, of_scan, dram, state, rows)
        if taken == 0:
            first_cycles = _cycles(state, dram)
        moved = _advance(index, at, loops, steps)
        before_last = _cycles(state, dram)
        if is_output:
            _visit(row, of_scan, dram, state, rows)
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
        period, shift = recurs[moved]
        if not 0 < period <= _MOST_REMEMBERED or loops[moved, 0] <= 2 * period:
            continue
        then = seen[moved, index[moved] % period]
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
