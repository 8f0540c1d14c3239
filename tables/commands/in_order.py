"""Ticks of a sequence of runs for the controller that issues the head of its queue alone (AiM, UPMEM).

A run consists of equal commands to all cores. A command is issued as soon as those before it allow; what it lacks - the
row in all banks, the mode - is issued first, one command a tick. All but the first of a run keep the distance of their
kind.
"""

import numpy as np
from numpy.typing import NDArray

from tables.jit import njit

Ints = NDArray[np.int64]

#: Columns of `runs`: command, row (-1 if it needs none), how many, part of the kernel.
KIND, ROW, COUNT, PART = range(4)
#: Columns of `table`: ticks to completion, whether later commands wait for it, mode (0: any), whether it needs a row.
LATENCY, IS_BLOCKING, MODE, NEEDS_ROW = range(4)
#: The mode before the first command.
_FIRST_MODE = 1


@njit
def walk_in_order(table: Ints, distances: Ints, inserted: Ints, runs: Ints, parts: Ints) -> int:
    """Return the tick at which the last command completes.

    `table` int64[commands, 4]; `distances` int64[commands, commands]: ticks from one to a later other; `inserted`
    int64[3]: ACT, PRE, mode change, or -1; `runs` int64[runs, 4]. Output: `parts`, to which the ticks from the end of a
    run to the end of the next are added.
    """
    ready = np.zeros(table.shape[0], np.int64)
    tick, finish, enters, opened, mode = 0, 0, 1, -1, _FIRST_MODE
    for run in range(runs.shape[0]):
        kind, row, since = runs[run, KIND], runs[run, ROW], tick
        issued = -1
        while issued != kind:
            issued = kind
            if table[kind, NEEDS_ROW] and opened != row:
                issued = inserted[0] if opened < 0 else inserted[1]
            tick = max(tick + 1, enters, ready[issued])
            if table[kind, MODE] != 0 and table[kind, MODE] != mode:  # as soon as what is lacking could be issued
                issued, mode = inserted[2], table[kind, MODE]
            elif issued != kind:
                opened = row if issued == inserted[0] else -1
            if issued == kind:
                apart = max(distances[kind, kind], table[kind, LATENCY] + 1 if table[kind, IS_BLOCKING] else 1)
                tick += (runs[run, COUNT] - 1) * apart
            for other in range(table.shape[0]):
                if distances[issued, other] > 0:
                    ready[other] = max(ready[other], tick + distances[issued, other])
        finish = max(finish, tick + table[kind, LATENCY])
        if table[kind, IS_BLOCKING]:
            enters = tick + table[kind, LATENCY] + 1
        parts[runs[run, PART]] += tick - since
    parts[runs[runs.shape[0] - 1, PART]] += finish - tick
    return finish
