"""What a walk over scans has counted so far, and the rows that are open: both change row by row."""

from tables.dram import Dram, last_run, period
from tables.jit import njit
from tables.nest import Ints

#: Slots of a walk's state:
#:
#: - COLUMNS and ACTIVATIONS so far, CYCLES of the runs that are closed, columns in the current RUN, SCANS begun;
#: - tiles TAKEN; the cycle at which the array was last SUPPLIED; cycles for which it STALLED; tiles (or array steps)
#:   whose load is OVERLAPPED by computation, and the fewest cycles of such a load (QUICKEST); the stall for the SECOND.
COLUMNS, ACTIVATIONS, CYCLES, RUN, SCANS, TAKEN, SUPPLIED, STALLED, OVERLAPPED, SECOND, QUICKEST = range(11)
#: Rows of `rows` int[2, banks]: the open row of each bank (-1 for none), and the scan that used the bank last.
OPEN, USED = range(2)
#: A snapshot of a walk holds its state, and from this place on the open row of each bank.
ROWS = QUICKEST + 1


@njit
def access_rows(row: int, visits: Ints, dram: Dram, banks: int, state: Ints, rows: Ints) -> None:
    """Access the rows of one scan; `row`: where it begins, `visits` int[n, 2], `banks` of the tensor. Modifies state
    and rows.
    """
    state[SCANS] += 1
    for i in range(len(visits)):
        here, columns = row + visits[i, 0], visits[i, 1]
        bank = here % banks if banks > 1 else 0
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
        close_rows(rows)


@njit
def close_rows(rows: Ints) -> None:
    """Close the rows of all banks. Modifies rows."""
    for bank in range(rows.shape[1]):
        rows[OPEN, bank] = -1


@njit
def cycles_so_far(state: Ints, dram: Dram) -> int:
    """Return the cycles of the stream if it ended here."""
    return int(state[CYCLES]) + last_run(state[RUN], dram)
