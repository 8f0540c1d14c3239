"""Repetitions of a walk over a stream, which are counted at once.

If an iteration of a loop begins in the state in which an earlier one of it began, a whole number of rows further on, it
costs what that one cost.
"""

from typing import NamedTuple

from tables.counts.row_state import (
    ACTIVATIONS,
    COLUMNS,
    CYCLES,
    OPEN,
    OVERLAPPED,
    ROWS,
    RUN,
    SCANS,
    STALLED,
    SUPPLIED,
    TAKEN,
    USED,
)
from tables.counts.visits import SEQUENTIAL, WINDOW, Tile
from tables.dram import Dram, recurrence
from tables.jit import njit
from tables.nest import Ints
from tables.reduce import copied, is_any

#: The most iterations of a loop after which its addresses may recur for the recurrence to be used. Elements of a byte
#: recur after 1024 in rows of a KiB.
MAX_SNAPSHOTS = 2048


class Demand(NamedTuple):
    """When the array needs tiles: after every `scans` scans, and computation hides `cycles` cycles of their load.

    `is_streamed`: the MACs take the tiles as they compute, so all loads overlap computation. Else the first load (of
    outputs the last write-out) overlaps none. `loads_ahead`: the second tile may be loaded before the array starts.
    """

    scans: int
    cycles: int
    is_streamed: bool
    loads_ahead: bool = False


@njit
def go(at: Ints, step: Ints, times: int) -> None:
    """Go so many steps from a position. Modifies at."""
    for axis in range(len(at)):
        at[axis] += times * step[axis]


@njit
def loop_recurrence(step: Ints, tile: Tile, dram: Dram) -> tuple[int, int]:
    """Return after how many iterations of a loop the addresses are a whole number of rows further on, and that number.

    For a window they also have to be whole blocks further on: then it cuts its blocks in the same places.
    """
    if not is_any(step):
        return 1, 0
    if tile.mode == SEQUENTIAL:
        return recurrence(step[0], dram.row_bytes)
    times, blocks = 1, step[0]
    if tile.mode == WINDOW:
        axis = 0
        while not step[axis]:
            axis += 1
        times, moved = recurrence(step[axis], tile.block[axis])
        blocks = moved * tile.strides[axis]
    per_row = max(1, dram.row_bytes // tile.block_bytes)
    rows = max(1, -(-tile.block_bytes // dram.row_bytes))
    repeats, shift = recurrence(blocks * rows, per_row)
    return times * repeats, shift


@njit
def is_used(times: int, factor: int) -> bool:
    """Return whether a loop of `factor` iterations whose addresses recur after so many of them is skipped in part."""
    return 0 < times <= MAX_SNAPSHOTS and factor > 2 * times


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
    banks = rows.shape[1]
    for bank in range(banks):
        moving[bank] = 0
    for used in range(banks):
        bank = used
        while rows[USED, used] > then[SCANS] and not moving[bank]:
            moving[bank] = 1
            bank = (bank + shift) % banks
    for bank in range(banks):
        here, there = now[ROWS + (bank + shift) % banks], then[ROWS + bank]
        if moving[bank] and here != (there + shift if there >= 0 else -1):
            return False
    return True


@njit
def _shift_open_rows(rows: Ints, by: int, moving: Ints) -> None:
    """Move the open rows of the `moving` banks `by` rows further on, and mark the banks as just used. Modifies rows."""
    old, last = copied(rows[OPEN]), rows[USED, 0]
    for bank in range(len(old)):
        last = max(last, rows[USED, bank])
    for bank in range(len(old)):
        if moving[bank]:
            to = (bank + by) % len(old)
            rows[OPEN, to] = old[bank] + by if old[bank] >= 0 else -1
            rows[USED, to] = last


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
def skip_recurrence(
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
    if not is_used(times, factor):
        return
    then = snapshots[index[moved] % times]
    here = snapshots[len(snapshots) - 1]
    for slot in range(ROWS):
        here[slot] = state[slot]
    for bank in range(rows.shape[1]):
        here[ROWS + bank] = rows[OPEN, bank]
    if index[moved] > times and _recurs(here, then, shift, demand.scans, rows, moving):
        left = (factor - 1 - index[moved]) // times
        repeats = _skip_repetitions(state, then, left, shift, demand, rows, moving)
        index[moved] += repeats * times
        go(at, step, repeats * times)
    for slot in range(len(here)):
        then[slot] = here[slot]
