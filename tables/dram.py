"""A tensor's banks: geometry, timing, and where row-aligned blocks lie in them."""

from typing import NamedTuple

from tables.jit import njit


class Dram(NamedTuple):
    """Geometry (bytes) and timing (cycles) of a tensor's banks."""

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


@njit
def period(n: int, dram: Dram) -> int:
    """Cycles from one activation to the next with n column accesses between."""
    return max(dram.tRC, max(dram.tRAS, dram.tRCD + (n - 1) * dram.tCCD + dram.tRTP) + dram.tRP)


@njit
def last_run(n: int, dram: Dram) -> int:
    """Cycles from the last activation to the end of the last burst."""
    return dram.tRCD + (n - 1) * dram.tCCD + dram.RL + dram.burst if n > 0 else 0


def last_run_excess(dram: Dram) -> int:
    """Cycles by which a stream's last run differs from the others: none is closed after it."""
    return dram.RL + dram.burst - dram.tRTP - dram.tRP


@njit
def block_address(block: int, block_bytes: int, dram: Dram) -> int:
    """First byte of a row-aligned block (Eq. 52-56; departs from 54: blocks that fit a row never straddle one)."""
    if block_bytes <= dram.row_bytes:
        per_row = dram.row_bytes // block_bytes
        return block // per_row * dram.row_bytes + block % per_row * block_bytes
    return block * (-(-block_bytes // dram.row_bytes)) * dram.row_bytes


def block_counts(blocks: int, block_bytes: int, dram: Dram) -> tuple[int, int]:
    """Columns of scanning every row-aligned block once, each by itself, and rows that the blocks fill."""
    per_row = max(1, dram.row_bytes // block_bytes)
    columns = 0
    for slot in range(min(per_row, blocks)):
        start = slot * block_bytes
        touched = (start + block_bytes - 1) // dram.column_bytes - start // dram.column_bytes + 1
        columns += touched * len(range(slot, blocks, per_row))
    return columns, -(-blocks // per_row) * -(-block_bytes // dram.row_bytes)


@njit
def recurrence(step: int, unit: int) -> tuple[int, int]:
    """After how many steps one is whole units further on (at least one step), and how many units."""
    a, b = unit, step
    while b:
        a, b = b, a % b
    return unit // a, step // a
