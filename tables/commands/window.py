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
#: Entries of `timing`: ticks between two commands of the same bank group, rank or bank; latencies and sizes; the rows
#: that enter and leave all-bank mode, the banks (as bits) in which they do, how many banks can be activated in it.
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
#: The state of the channel: tick, commands issued before this run and in all, first command not issued of the run,
#: bank closed last, rows open, all-bank mode, the banks seen on the way into or out of it, and the ACTs outside and
#: inside of it.
_NOW, _FIRST, _DONE, _HEAD, _CLOSED, _OPENED, _MODE, _SWITCHED, _ACTS, _ALL_BANK_ACTS = range(10)
_STATE = 10


@njit
def _raise(state: Ints, at: int, column: int, tick: int) -> None:
    """Delay what a column of the state stands for."""
    state[at, column] = max(state[at, column], tick)


@njit
def _column_tick(ready: Ints, timing: Ints, bank: int, column: int) -> int:
    """Return the earliest tick of an ACT, a read or a write of a bank by the commands before it."""
    banks = timing[BANKS]
    group = banks + bank // timing[BANKS_A_GROUP]
    tick: int = max(ready[bank, column], ready[group, column], ready[ready.shape[0] - 1, column])
    return tick


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
def _can_open(rows: Ints, timing: Ints, now: Ints, bank: int) -> bool:
    """Whether a bank is closed and may be activated in the mode of the rank."""
    is_possible: bool = rows[bank] < 0 and (now[_MODE] == 0 or bank < timing[MODE_BANKS])
    return is_possible


@njit
def _entry(
    timing: Ints, pattern: Ints, run: Ints, rows: Ints, ready: Ints, seen: Ints, taken: Ints, now: Ints, waits: bool
) -> tuple[int, int, int, int]:
    """Return the tick and number of the first command of a group that may be issued, and the tick and bank of an ACT.

    Notes in `seen` the banks that commands in the queue use. `waits`: the last command waits for the others.
    """
    issue_tick, issue_at, act_tick, act_bank = _NEVER, -1, _NEVER, -1
    column, size, count, visible, found = (_WR if run[IS_WRITE] else _RD), pattern[0], run[COUNT], 0, 0
    seen[:] = 0
    for j in range(now[_HEAD], count):
        bank = pattern[1 + j % size]
        visible += 1 - taken[j]
        if taken[j] or seen[bank]:
            continue
        if visible > timing[QUEUE] or found == size:
            break
        seen[bank], found = 1, found + 1
        if waits and j == count - 1:
            continue
        least = max(now[_NOW] + 1, now[_FIRST] + j + 2)  # a command enters the queue in every tick
        if rows[bank] == run[ROW]:
            tick = max(least, _column_tick(ready, timing, bank, column))
            if tick < issue_tick:
                issue_tick, issue_at = tick, j
        elif _can_open(rows, timing, now, bank):
            tick = max(least, _column_tick(ready, timing, bank, _ACT))
            if tick < act_tick:
                act_tick, act_bank = tick, bank
    return issue_tick, issue_at, act_tick, act_bank


@njit
def _early_act(
    timing: Ints, pattern: Ints, count: int, rows: Ints, ready: Ints, now: Ints, since: int
) -> tuple[int, int]:
    """Return tick and bank of the first ACT for `count` commands of the group behind the one at the head."""
    act_tick, act_bank = _NEVER, -1
    for j in range(min(count, pattern[0])):
        bank = pattern[1 + j]
        tick = max(now[_NOW] + 1, since + j + 2, _column_tick(ready, timing, bank, _ACT))
        if _can_open(rows, timing, now, bank) and tick < act_tick:
            act_tick, act_bank = tick, bank
    return act_tick, act_bank


@njit
def _unused_row(row: int, rows: Ints, ready: Ints, seen: Ints, now: Ints) -> tuple[int, int]:
    """Return tick and bank of the first PRE of a row that the group at the head does not use, from the last PRE on."""
    pre_tick, pre_bank = _NEVER, -1
    for k in range(rows.size):
        bank = (now[_CLOSED] + k) % rows.size
        if rows[bank] >= 0 and (rows[bank] != row or not seen[bank]):
            tick = max(now[_NOW] + 1, ready[bank, _PRE])
            if tick < pre_tick:
                pre_tick, pre_bank = tick, bank
    return pre_tick, pre_bank


@njit
def _switch_mode(timing: Ints, now: Ints, row: int, bank: int, mode: int) -> None:
    """Leave a mode if its row was the last one needed for that in this bank: activated (0) or closed (1)."""
    if now[_MODE] == mode and row == timing[LEAVE_ROW if mode else ENTER_ROW]:
        banks = timing[LEAVE_BANKS if mode else ENTER_BANKS]
        now[_SWITCHED] |= (1 << bank) & banks
        if now[_SWITCHED] == banks:
            now[_MODE], now[_SWITCHED] = 1 - mode, 0


@njit
def _walk_run(
    timing: Ints, patterns: Ints, runs: Ints, number: int, rows: Ints, ready: Ints, seen: Ints, taken: Ints, now: Ints
) -> bool:
    """Issue one group; return whether that is possible. Arrays of the state are modified in place."""
    run, is_last, left = runs[number], number + 1 == runs.shape[0], runs[number, COUNT]
    pattern, is_write = patterns[run[PATTERN]], run[IS_WRITE]
    now[_HEAD], now[_FIRST] = 0, now[_DONE]
    taken[:left] = 0
    while left > 0:
        waits = left > 1 and not is_last
        issue_tick, at, act_tick, act_bank = _entry(timing, pattern, run, rows, ready, seen, taken, now, waits)
        act_row, pre_tick, pre_bank = run[ROW], _NEVER, -1
        if left == 1 and not is_last:  # while the last of a group waits, ACTs of the next group are issued
            others = runs[number + 1, COUNT] - (number + 2 < runs.shape[0])
            after = patterns[runs[number + 1, PATTERN]]
            tick, bank = _early_act(timing, after, others, rows, ready, now, now[_FIRST] + run[COUNT])
            if tick < act_tick:
                act_tick, act_bank, act_row = tick, bank, runs[number + 1, ROW]
        is_alone = now[_OPENED] == 1 and pattern[0] == 1 and rows[pattern[1]] == run[ROW]
        if not is_alone:
            pre_tick, pre_bank = _unused_row(run[ROW], rows, ready, seen, now)
        if issue_tick < _NEVER and issue_tick <= act_tick and issue_tick <= pre_tick:
            more = left - 1 if is_alone and left > 1 else 1  # nothing interrupts a group up to its last command
            apart = max(
                timing[WR_WR_GROUP if is_write else RD_RD_GROUP], timing[WR_WR_RANK if is_write else RD_RD_RANK]
            )
            issue_tick += (more - 1) * max(apart, 1)
            _issue_columns(ready, timing, pattern[1 + at % pattern[0]], is_write, issue_tick)
            now[_NOW], now[_DONE], left = issue_tick, now[_DONE] + more, left - more
            taken[at : at + more] = 1
            while now[_HEAD] < run[COUNT] and taken[now[_HEAD]]:
                now[_HEAD] += 1
        elif act_tick < _NEVER and act_tick <= pre_tick:
            _issue_act(ready, timing, act_bank, act_tick)
            rows[act_bank], now[_NOW] = act_row, act_tick
            now[_OPENED] += 1
            now[_ALL_BANK_ACTS if now[_MODE] else _ACTS] += 1
            _switch_mode(timing, now, act_row, act_bank, 0)
        elif pre_tick < _NEVER:
            _raise(ready, pre_bank, _ACT, pre_tick + timing[PRE_ACT])
            _switch_mode(timing, now, rows[pre_bank], pre_bank, 1)
            rows[pre_bank], now[_NOW], now[_CLOSED] = -1, pre_tick, pre_bank
            now[_OPENED] -= 1
        else:
            return False
    return True


@njit
def walk_window(timing: Ints, patterns: Ints, runs: Ints, parts: Ints, acts: Ints) -> int:
    """Return the tick at which the last command completes, or `NOT_EXACT`.

    `timing` int64[TIMINGS]; `patterns` int64[patterns, 1 + banks]: how many banks, and which, in turn; `runs`
    int64[runs, 5]. Outputs, both added to: `parts` int64[parts], the ticks from the end of a run to the end of the
    next; `acts` int64[2], ACTs of one bank and, in all-bank mode, of all blocks.
    """
    banks, finish = timing[BANKS], 0
    rows, seen = np.full(banks, -1, np.int64), np.zeros(banks, np.int64)
    ready = np.zeros((banks + banks // timing[BANKS_A_GROUP] + 1, 4), np.int64)
    taken, now = np.zeros(runs[:, COUNT].max(), np.int64), np.zeros(_STATE, np.int64)
    now[_NOW] = 1
    for number in range(runs.shape[0]):
        since, run = now[_NOW], runs[number]
        if not _walk_run(timing, patterns, runs, number, rows, ready, seen, taken, now):
            return NOT_EXACT
        finish = max(finish, now[_NOW] + timing[WR_LATENCY if run[IS_WRITE] else RD_LATENCY])
        parts[run[PART]] += now[_NOW] - since
        if now[_DONE] == timing[ENTRY_QUEUE] and number + 1 < runs.shape[0]:  # this barrier is lost
            is_same = runs[number + 1, PATTERN] == run[PATTERN] and runs[number + 1, IS_WRITE] == run[IS_WRITE]
            if not is_same or patterns[run[PATTERN], 0] > 1:
                return NOT_EXACT
    parts[runs[runs.shape[0] - 1, PART]] += finish - now[_NOW]
    acts += now[_ACTS : _ALL_BANK_ACTS + 1]
    return finish
