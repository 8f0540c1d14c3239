"""The banks of a part: columns, open rows and the time of its accesses so far (section 5).

A part is a tensor, or several that share their banks.
"""

from tracesim.jit import Record, kernel, record_type
from tracesim.records import Ints

T_RCD, T_RP, T_RAS, T_RC, T_RTP, T_CCD_L, T_RL, T_BL = range(8)

BANK = record_type(
    row_bytes=(),
    column_bytes=(),
    banks=(),
    open_page=(),
    timing=(8,),
    columns=(),
    activations=(),
    run_columns=(),
    cut_cycles=(),
    row_end=(),
)
"""The banks of one part. The byte at address b lies in row b // row_bytes, row r in bank r % banks.

- `columns`, `activations`: column accesses and row activations so far.
- `run_columns`: column accesses since the last activation. `cut_cycles`: cycles of all runs before it.
- `row_end`: first byte behind the row of the last column access of this scan.

`open_rows` int64[n] goes with each record: the open row of each of its `banks`, -1 for none.
"""


@kernel
def access_column(bank: Record, open_rows: Ints, address: int) -> int:
    """Access the column that holds the byte, and return the first byte behind the column."""
    if address >= bank.row_end:
        row = address // bank.row_bytes
        bank.row_end = (row + 1) * bank.row_bytes
        if open_rows[row % bank.banks] != row:
            open_rows[row % bank.banks] = row
            activate(bank)
    bank.columns += 1
    bank.run_columns += 1
    column_end: int = address - address % bank.column_bytes + bank.column_bytes
    return column_end


@kernel
def activate(bank: Record) -> None:
    """Count a row activation, and cut the stream's run before it."""
    if bank.run_columns:
        bank.cut_cycles += run_period(bank.timing, bank.run_columns)
    bank.run_columns = 0
    bank.activations += 1


@kernel
def begin_scan(bank: Record) -> None:
    """Begin a scan. It shares no column access with the scan before. Rows that are open stay open."""
    bank.row_end = 0


@kernel
def end_scan(bank: Record, open_rows: Ints) -> None:
    """Under the closed-page policy all of the part's banks are precharged after a scan."""
    if not bank.open_page:
        open_rows[:] = -1


@kernel
def run_period(timing: Ints, columns: int) -> int:
    """Return the time from one activation to the next, with so many column accesses between."""
    to_precharge = max(timing[T_RAS], timing[T_RCD] + (columns - 1) * timing[T_CCD_L] + timing[T_RTP])
    cycles: int = max(timing[T_RC], to_precharge + timing[T_RP])
    return cycles


@kernel
def last_run_cycles(timing: Ints, columns: int) -> int:
    """Return the time from an activation to the last data of its run (of an odd burst, half a cycle less)."""
    cycles: int = timing[T_RCD] + (columns - 1) * timing[T_CCD_L] + timing[T_RL] + timing[T_BL] // 2
    return cycles


@kernel
def stream_cycles(bank: Record) -> int:
    """Return the time of all requests so far, back to back."""
    if bank.run_columns == 0:
        return 0
    cycles: int = bank.cut_cycles + last_run_cycles(bank.timing, bank.run_columns)
    return cycles
