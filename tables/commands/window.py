"""Ticks of a sequence of runs for the controller that reorders commands between barriers (HBM-PIM).

A run is one barrier group: commands of one kind and one row, to one bank or to several banks in turn. Only the group at
the head of the queue decides what is issued: its commands, the ACTs of its closed banks, and a PRE for every open row
that it does not use. While its last command waits, ACTs of the next group are issued, too. So the ticks follow from a
recurrence over the groups; a group may be issued in any order.
"""

import numpy as np
from numpy.typing import NDArray

from tables.jit import njit

Ints = NDArray[np.int64]

#: Columns of `runs`: 1 for writes, number of the pattern of banks, row, commands, and the part of the kernel.
IS_WRITE, PATTERN, ROW, COUNT, PART = range(5)
#: Entries of `timing`: ticks between two commands of the same bank group, rank or bank; then latencies and sizes; then
#: the rows that enter and leave all-bank mode, the banks (as bits) in which they do, and the banks that can be activated in it.
(
    RD_RD_GROUP, RD_RD_RANK, WR_WR_GROUP, WR_WR_RANK, RD_WR, WR_RD, RD_PRE, WR_PRE, ACT_ACT_BANK, ACT_ACT_GROUP,
    ACT_ACT_RANK, ACT_RD, ACT_WR, ACT_PRE, PRE_ACT, RD_LATENCY, WR_LATENCY, BANKS, BANKS_A_GROUP, ENTRY_QUEUE,
    ENTER_ROW, ENTER_BANKS, LEAVE_ROW, LEAVE_BANKS, MODE_BANKS, QUEUE,
) = range(26)  # fmt: skip
TIMINGS = 26
#: A barrier of the stream is lost, or it blocks itself.
NOT_EXACT = -1
_NEVER = 2**60
#: Columns of the state of a bank, of a bank group and of the rank: earliest ACT, PRE, read, write.
_ACT, _PRE, _RD, _WR = range(4)


@njit
def _raise(state: Ints, at: int, column: int, tick: int) -> None:
    """Delay what a column of the state stands for."""
    state[at, column] = max(state[at, column], tick)


@njit
def _column_tick(ready: Ints, timing: Ints, bank: int, column: int) -> int:
    """Return the earliest tick of an ACT, a read or a write of a bank by the commands before it."""
    banks = timing[BANKS]
    group = banks + bank // timing[BANKS_A_GROUP]
    return max(ready[bank, column], ready[group, column], ready[ready.shape[0] - 1, column])


@njit
def _issue_columns(ready: Ints, timing: Ints, bank: int, is_write: int, tick: int) -> None:
    """Delay what follows a read or write: the same kind in the group and rank, the other kind, the PRE of the bank."""
    group, rank = timing[BANKS] + bank // timing[BANKS_A_GROUP], ready.shape[0] - 1
    same, other = (_WR, _RD) if is_write else (_RD, _WR)
    _raise(ready, group, same, tick + timing[WR_WR_GROUP if is_write else RD_RD_GROUP])
    _raise(ready, rank, same, tick + timing[WR_WR_RANK if is_write else RD_RD_RANK])
    _raise(ready, rank, other, tick + timing[WR_RD if is_write else RD_WR])
    _raise(ready, bank, _PRE, tick + timing[WR_PRE if is_write else RD_PRE])


@njit
def _issue_act(ready: Ints, timing: Ints, bank: int, tick: int) -> None:
    """Delay what follows an ACT."""
    group, rank = timing[BANKS] + bank // timing[BANKS_A_GROUP], ready.shape[0] - 1
    _raise(ready, bank, _ACT, tick + timing[ACT_ACT_BANK])
    _raise(ready, group, _ACT, tick + timing[ACT_ACT_GROUP])
    _raise(ready, rank, _ACT, tick + timing[ACT_ACT_RANK])
    _raise(ready, bank, _RD, tick + timing[ACT_RD])
    _raise(ready, bank, _WR, tick + timing[ACT_WR])
    _raise(ready, bank, _PRE, tick + timing[ACT_PRE])


@njit
def walk_window(timing: Ints, patterns: Ints, runs: Ints, parts: Ints) -> int:
    """Return the tick at which the last command completes, or `NOT_EXACT`.

    `timing` int64[TIMINGS]; `patterns` int64[patterns, 1 + banks]: how many banks, and which, in turn; `runs`
    int64[runs, 5]. Output: `parts` int64[parts], to which the ticks from the end of a run to the end of the next are
    added.
    """
    banks = timing[BANKS]
    rows = np.full(banks, -1, np.int64)
    ready = np.zeros((banks + banks // timing[BANKS_A_GROUP] + 1, 4), np.int64)
    seen, taken = np.zeros(banks, np.int64), np.zeros(runs[:, COUNT].max(), np.int64)
    now, done, closed, finish, opened = 1, 0, 0, 0, 0
    mode, switched = 0, 0  # all-bank mode, and the banks seen on the way into or out of it
    for run in range(runs.shape[0]):
        is_write, pattern, row, count = runs[run, IS_WRITE], runs[run, PATTERN], runs[run, ROW], runs[run, COUNT]
        column, size, since, i, first = (_WR if is_write else _RD), patterns[pattern, 0], now, 0, done
        is_last = run + 1 == runs.shape[0]
        left = count
        taken[:count] = 0
        while left > 0:
            issue_tick, issue_at, act_tick, act_bank, pre_tick, pre_bank = _NEVER, i, _NEVER, -1, _NEVER, -1
            act_row, visible, found = row, 0, 0
            seen[:] = 0
            for j in range(i, count):
                bank = patterns[pattern, 1 + j % size]
                visible += 1 - taken[j]
                if taken[j] or seen[bank]:
                    continue
                if visible > timing[QUEUE]:
                    break
                seen[bank], found = 1, found + 1
                is_possible = rows[bank] == row or (rows[bank] < 0 and (mode == 0 or bank < timing[MODE_BANKS]))
                if is_possible and (j < count - 1 or left == 1 or is_last):  # the last of a group waits for the others
                    entered = first + j + 2
                    if rows[bank] == row:
                        tick = max(now + 1, entered, _column_tick(ready, timing, bank, column))
                        if tick < issue_tick:
                            issue_tick, issue_at = tick, j
                    else:
                        tick = max(now + 1, entered, _column_tick(ready, timing, bank, _ACT))
                        if tick < act_tick:
                            act_tick, act_bank = tick, bank
                if found == size:
                    break
            if left == 1 and not is_last:  # while the last of a group waits, ACTs of the next group are issued
                coming, row_after = runs[run + 1, PATTERN], runs[run + 1, ROW]
                others = runs[run + 1, COUNT] - (run + 2 < runs.shape[0])
                for j in range(min(others, patterns[coming, 0])):
                    bank = patterns[coming, 1 + j]
                    tick = max(now + 1, first + count + j + 2, _column_tick(ready, timing, bank, _ACT))
                    is_possible = rows[bank] < 0 and (mode == 0 or bank < timing[MODE_BANKS])
                    if is_possible and tick < act_tick:
                        act_tick, act_bank, act_row = tick, bank, row_after
            for k in range(banks):
                if opened == 1 and size == 1 and rows[patterns[pattern, 1]] == row:
                    break
                bank = (closed + k) % banks
                if rows[bank] >= 0 and (rows[bank] != row or not seen[bank]):
                    tick = max(now + 1, ready[bank, _PRE])
                    if tick < pre_tick:
                        pre_tick, pre_bank = tick, bank
            if issue_tick < _NEVER and issue_tick <= act_tick and issue_tick <= pre_tick:
                bank, more = patterns[pattern, 1 + issue_at % size], 1
                if opened == 1 and size == 1 and left > 1:  # nothing interrupts the run up to its last command
                    more = left - 1
                    apart = max(timing[WR_WR_GROUP if is_write else RD_RD_GROUP], 1)
                    issue_tick += (more - 1) * max(apart, timing[WR_WR_RANK if is_write else RD_RD_RANK])
                _issue_columns(ready, timing, bank, is_write, issue_tick)
                now, done, left = issue_tick, done + more, left - more
                taken[issue_at : issue_at + more] = 1
                while i < count and taken[i]:
                    i += 1
                finish = max(finish, now + timing[WR_LATENCY if is_write else RD_LATENCY])
            elif act_tick < _NEVER and act_tick <= pre_tick:
                _issue_act(ready, timing, act_bank, act_tick)
                rows[act_bank], now, opened = act_row, act_tick, opened + 1
                if mode == 0 and act_row == timing[ENTER_ROW]:
                    switched |= (1 << act_bank) & timing[ENTER_BANKS]
                    if switched == timing[ENTER_BANKS]:
                        mode, switched = 1, 0
            elif pre_tick < _NEVER:
                _raise(ready, pre_bank, _ACT, pre_tick + timing[PRE_ACT])
                if mode == 1 and rows[pre_bank] == timing[LEAVE_ROW]:
                    switched |= (1 << pre_bank) & timing[LEAVE_BANKS]
                    if switched == timing[LEAVE_BANKS]:
                        mode, switched = 0, 0
                rows[pre_bank], now, closed, opened = -1, pre_tick, pre_bank, opened - 1
            else:
                return NOT_EXACT
        parts[runs[run, PART]] += now - since
        if done == timing[ENTRY_QUEUE] and run + 1 < runs.shape[0]:
            if size > 1 or runs[run + 1, PATTERN] != pattern or runs[run + 1, IS_WRITE] != is_write:
                return NOT_EXACT
    parts[runs[runs.shape[0] - 1, PART]] += finish - now
    return finish
