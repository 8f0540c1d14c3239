"""The banks of a tensor: geometry, timing, and the addresses of row-aligned blocks."""

import math
from typing import NamedTuple

from tables.jit import jitable, njit


class Dram(NamedTuple):
    """Geometry (bytes) and timing (cycles) of a tensor's banks. `is_open`: rows stay open from one scan to the next."""

    row_bytes: int
    column_bytes: int
    banks: int
    is_open: bool
    tRCD: int
    tRP: int
    tRAS: int
    tRC: int
    tRTP: int
    tCCD: int
    RL: int
    burst: int


def own_banks(count: int, dram: Dram) -> Dram:
    """Return the banks of a tensor whose part has `count` times those of `dram`."""
    return dram._replace(banks=count * dram.banks)


@njit
def period(n: int, dram: Dram) -> int:
    """Return the cycles from one row activation to the next, with n column accesses between (Eq. 33, at least tRC)."""
    return max(dram.tRC, max(dram.tRAS, dram.tRCD + (n - 1) * dram.tCCD + dram.tRTP) + dram.tRP)


@njit
def last_run(n: int, dram: Dram) -> int:
    """Return the cycles from the last activation to the end of the last of n bursts; 0 if n is 0."""
    return dram.tRCD + (n - 1) * dram.tCCD + dram.RL + dram.burst if n > 0 else 0


def last_run_excess(dram: Dram) -> int:
    """Return the cycles that a stream's last run takes beyond tRCD and its columns, less those of an earlier run.

    After the last run the data is awaited (RL, burst); after an earlier one its row is closed (tRTP, tRP). It may be
    negative.
    """
    return dram.RL + dram.burst - dram.tRTP - dram.tRP


@jitable
def row_miss(dram: Dram) -> int:
    """Return the least cycles that a row activation adds to a stream, beside its columns (Eq. 33)."""
    return dram.tRCD - dram.tCCD + dram.tRTP + dram.tRP


@njit
def block_address(block: int, block_bytes: int, dram: Dram) -> int:
    """Return a row-aligned block's first byte (Eq. 52-56, except that a block that fits a row never straddles two)."""
    if block_bytes <= dram.row_bytes:
        per_row = dram.row_bytes // block_bytes
        return block // per_row * dram.row_bytes + block % per_row * block_bytes
    return block * (-(-block_bytes // dram.row_bytes)) * dram.row_bytes


def block_counts(blocks: int, block_bytes: int, dram: Dram) -> tuple[int, int]:
    """Return the columns of one scan per row-aligned block, and the rows that all blocks fill."""
    per_row = max(1, dram.row_bytes // block_bytes)
    rows, left = divmod(blocks, per_row)
    columns = rows * _slot_columns(per_row, block_bytes, dram) + _slot_columns(left, block_bytes, dram)
    return columns, -(-blocks // per_row) * -(-block_bytes // dram.row_bytes)


def _slot_columns(slots: int, block_bytes: int, dram: Dram) -> int:
    """Return the columns of one scan of each of the first blocks of a row; they recur where blocks begin a column."""
    recurs = dram.column_bytes // math.gcd(block_bytes, dram.column_bytes)
    starts = range(0, min(slots, recurs) * block_bytes, block_bytes)
    touched = [(start + block_bytes - 1) // dram.column_bytes - start // dram.column_bytes + 1 for start in starts]
    return slots // recurs * sum(touched) + sum(touched[: slots % recurs])


@njit
def recurrence(step: int, unit: int) -> tuple[int, int]:
    """Return the fewest steps (at least one) whose total length is a multiple of the unit, and that multiple."""
    a, b = unit, step
    while b:
        a, b = b, a % b
    return unit // a, step // a
