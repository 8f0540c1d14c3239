"""The controller that reorders commands between barriers (`docs/devices.md`, section 4).

Commands pass through an entry queue, one a tick, into the queue of their rank (a node of `Rules.queue_level`). One
command is issued a tick: a refresh, else a command or the ACT that it needs, else a PRE.
"""

from typing import NamedTuple

import numpy as np

from tracesim.commands.records import Ints
from tracesim.commands.state import (
    ACTIVATE,
    LATENCY,
    PRECHARGE,
    SCOPE,
    Channel,
    Commands,
    Tables,
    fill_node_path,
    issue_command,
    log_inserted,
    ready_tick,
)
from tracesim.jit import kernel

_NEVER = 2**62
#: Entries of `Window.now`.
_ENTERED, _WAITING, _RANK, _DUE, _TURN, _NEXT_RANK, _NEXT_PRE, _EVENT = range(8)


class Window(NamedTuple):
    """The queues. Arrays, modified in place.

    `bank`, `rank`, `closes_group` int64[n]: of each command of the stream: its bank, its queue, and whether a barrier
    follows.
    `entry` int64[1 + queues, entries], `size` int64[1 + queues]: commands in the entry queue (row 0) and in each queue,
    oldest first.
    `mode` int64[queues]: 1 in all-bank mode; `entering`, `leaving` int64[queues]: masks of banks seen on the way.
    `path` int64[levels]. `now` int64[8]: commands that have entered; whether a refresh waits, for which rank, when the
    next is due and whose turn that is; rank and bank where the next search starts; the next tick at which something can
    happen.
    """

    bank: Ints
    rank: Ints
    closes_group: Ints
    entry: Ints
    size: Ints
    mode: Ints
    entering: Ints
    leaving: Ints
    path: Ints
    now: Ints


@kernel
def run_window(rules: Tables, stream: Commands, channel: Channel, refresh: bool, issue: Ints) -> int:
    """Issue a stream and return the finish tick, -1 if the controller can never go on.

    `channel` and `issue` int64[n] are modified in place.
    """
    window = _new_window(rules, stream, channel, refresh)
    now, n = window.now, stream.kind.size
    tick, done, finish = 0, 0, 0
    while done < n:
        tick += 1
        now[_EVENT] = _NEVER
        moved = _enter(rules, window, n)
        _request_refresh(rules, window, tick)
        at = _issue_one(rules, stream, channel, window, tick)
        if at >= 0:
            issue[at] = tick
            done += 1
            finish = max(finish, tick + rules.table[stream.kind[at], LATENCY])
        if not _move(rules, window) and not moved and at == -1:
            tick = min(now[_EVENT], now[_DUE]) - 1
            if tick == _NEVER - 1:
                return -1
    return finish


@kernel
def _new_window(rules: Tables, stream: Commands, channel: Channel, refresh: bool) -> Window:
    """Return the queues before the first tick: the entry queue is full, a barrier right behind it is lost."""
    n, queues = stream.kind.size, channel.first[rules.queue_level + 1] - channel.first[rules.queue_level]
    bank, closes_group = np.zeros(n, np.int64), np.zeros(n, np.int64)
    for i in range(n):
        for level in range(rules.axes.size):
            bank[i] = bank[i] * rules.axes[level] + max(stream.coords[i, level], 0)
        closes_group[i] = i + 1 < n and stream.group[i + 1] > stream.group[i] and i + 1 != rules.entry_queue
    size, masks = np.zeros(1 + queues, np.int64), np.zeros((3, queues), np.int64)
    entry = np.zeros((1 + queues, max(rules.queue, rules.entry_queue)), np.int64)
    size[0] = min(n, rules.entry_queue)
    entry[0, : size[0]] = np.arange(size[0])
    now = np.zeros(8, np.int64)
    now[_ENTERED] = size[0]
    now[_DUE] = rules.refresh[2] if refresh and rules.refresh[0] >= 0 else _NEVER
    rank = bank // (channel.rows.size // queues)
    path = np.zeros(rules.axes.size + 1, np.int64)
    return Window(bank, rank, closes_group, entry, size, masks[0], masks[1], masks[2], path, now)


# --- Queues ----------------------------------------------------------------------------------------------------------


@kernel
def _enter(rules: Tables, window: Window, n: int) -> bool:
    """Let one command enter the entry queue if there is room."""
    if window.now[_ENTERED] >= n or window.size[0] >= rules.entry_queue:
        return False
    window.entry[0, window.size[0]] = window.now[_ENTERED]
    window.size[0] += 1
    window.now[_ENTERED] += 1
    return True


@kernel
def _move(rules: Tables, window: Window) -> bool:
    """Move the first command whose queue has room out of the entry queue."""
    for i in range(window.size[0]):
        at = window.entry[0, i]
        queue = 1 + window.rank[at]
        if window.size[queue] < rules.queue:
            window.entry[queue, window.size[queue]] = at
            window.size[queue] += 1
            _remove(window, 0, i)
            return True
    return False


@kernel
def _remove(window: Window, queue: int, i: int) -> None:
    """Remove an entry of a queue."""
    window.size[queue] -= 1
    for j in range(i, window.size[queue]):
        window.entry[queue, j] = window.entry[queue, j + 1]


@kernel
def _request_refresh(rules: Tables, window: Window, tick: int) -> None:
    """Note that the refresh of the next rank is due."""
    now = window.now
    if tick == now[_DUE]:
        now[_WAITING], now[_RANK] = 1, now[_TURN]
        turns = window.mode.size + rules.refresh[5]
        now[_TURN] = (now[_TURN] + 1) % turns
        now[_DUE] += rules.refresh[3]
        if now[_TURN] == 0:
            now[_DUE] += rules.refresh[4] - turns * rules.refresh[3]


# --- One tick --------------------------------------------------------------------------------------------------------


@kernel
def _issue_one(rules: Tables, stream: Commands, channel: Channel, window: Window, tick: int) -> int:
    """Issue at most one command; return its index in the stream, -2 for an inserted one, -1 for none."""
    now = window.now
    if now[_WAITING] and _refresh(rules, channel, window, tick):
        return -2
    for _ in range(window.mode.size):
        queue = 1 + now[_NEXT_RANK]
        i = _ready_entry(rules, stream, channel, window, queue, tick)
        if i >= 0:
            at: int = window.entry[queue, i]
            _set_bank_path(rules, channel, window, window.bank[at])
            issue_command(rules, channel, window.path, stream.kind[at], stream.row[at], tick)
            _remove(window, queue, i)
            return at
        if _activate(rules, stream, channel, window, queue, tick):
            return -2
        now[_NEXT_RANK] = (now[_NEXT_RANK] + 1) % window.mode.size
    return -2 if _close_unused(rules, stream, channel, window, tick) else -1


@kernel
def _ready_entry(rules: Tables, stream: Commands, channel: Channel, window: Window, queue: int, tick: int) -> int:
    """Return the first entry up to the first barrier that may be issued, or -1.

    The last command of a group must be at the head. No command passes one with the same bank, row and column.
    """
    for i in range(window.size[queue]):
        at = window.entry[queue, i]
        closes = window.closes_group[at] > 0
        if closes and i > 0:
            return -1
        is_free = channel.rows[window.bank[at]] == stream.row[at] and not _repeats(stream, window, queue, i)
        if is_free and _is_ready(rules, channel, window, window.bank[at], stream.kind[at], tick):
            return i
        if closes:
            return -1
    return -1


@kernel
def _repeats(stream: Commands, window: Window, queue: int, i: int) -> bool:
    """Whether an earlier entry has the same bank, row and column."""
    at = window.entry[queue, i]
    for j in range(i):
        other = window.entry[queue, j]
        if (
            window.bank[other] == window.bank[at]
            and stream.row[other] == stream.row[at]
            and stream.column[other] == stream.column[at]
        ):
            return True
    return False


@kernel
def _activate(rules: Tables, stream: Commands, channel: Channel, window: Window, queue: int, tick: int) -> bool:
    """Issue the first ACT that an entry before the first barrier needs and that is ready."""
    for i in range(window.size[queue]):
        at = window.entry[queue, i]
        if window.closes_group[at] and i > 0:
            return False
        bank, rank = window.bank[at], queue - 1
        in_rank = bank - rank * (channel.rows.size // window.mode.size)
        if channel.rows[bank] < 0 and (window.mode[rank] == 0 or in_rank < rules.all_bank_mode[4]):
            command = rules.table[stream.kind[at], ACTIVATE]
            if _is_ready(rules, channel, window, bank, command, tick):
                issue_command(rules, channel, window.path, command, stream.row[at], tick)
                log_inserted(channel, tick, command, at)
                _enter_mode(rules, window, rank, in_rank, stream.row[at])
                return True
    return False


@kernel
def _close_unused(rules: Tables, stream: Commands, channel: Channel, window: Window, tick: int) -> bool:
    """Close the next bank, ranks first, whose open row no entry of the group at the head of its queue uses."""
    now, queues = window.now, window.mode.size
    banks = channel.rows.size // queues
    command = _precharge(rules)
    for _ in range(channel.rows.size):
        rank, in_rank = now[_NEXT_PRE] % queues, now[_NEXT_PRE] // queues
        bank = rank * banks + in_rank
        is_unused = channel.rows[bank] >= 0 and not _is_used(stream, channel, window, 1 + rank, bank)
        if is_unused and _is_ready(rules, channel, window, bank, command, tick):
            _close(rules, channel, window, bank, tick)
            return True
        now[_NEXT_PRE] = (now[_NEXT_PRE] + 1) % channel.rows.size
    return False


@kernel
def _is_used(stream: Commands, channel: Channel, window: Window, queue: int, bank: int) -> bool:
    """Whether an entry up to the first barrier hits the open row of a bank."""
    for i in range(window.size[queue]):
        at = window.entry[queue, i]
        if window.bank[at] == bank and stream.row[at] == channel.rows[bank]:
            return True
        if window.closes_group[at]:
            return False
    return False


@kernel
def _refresh(rules: Tables, channel: Channel, window: Window, tick: int) -> bool:
    """Close the next bank of the rank that waits for a refresh, or refresh it if all are closed."""
    rank, banks = window.now[_RANK], channel.rows.size // window.mode.size
    is_open = False
    for bank in range(rank * banks, min((rank + 1) * banks, channel.rows.size)):
        if channel.rows[bank] >= 0:
            is_open = True
            if _is_ready(rules, channel, window, bank, _precharge(rules), tick):
                _close(rules, channel, window, bank, tick)
                return True
    if is_open:
        return False
    if rank < window.mode.size:
        fill_node_path(window.path, channel.first, rules.axes, rules.queue_level, rank)
        issue_command(rules, channel, window.path, rules.refresh[0], 0, tick)
    log_inserted(channel, tick, rules.refresh[0], -1)
    window.now[_WAITING] = 0
    return True


# --- Parts -----------------------------------------------------------------------------------------------------------


@kernel
def _precharge(rules: Tables) -> int:
    """Return the command that closes a bank: that of the first command that names one."""
    for command in range(rules.table.shape[0]):
        if rules.table[command, PRECHARGE] >= 0:
            return int(rules.table[command, PRECHARGE])
    return -1


@kernel
def _set_bank_path(rules: Tables, channel: Channel, window: Window, bank: int) -> None:
    """Set the path to a bank."""
    node = bank
    for level in range(rules.axes.size, -1, -1):
        window.path[level] = channel.first[level] + node
        if level > 0:
            node //= rules.axes[level - 1]


@kernel
def _is_ready(rules: Tables, channel: Channel, window: Window, bank: int, command: int, tick: int) -> bool:
    """Whether a command may be issued to a bank; sets the path, and the next event if it may not."""
    _set_bank_path(rules, channel, window, bank)
    when = ready_tick(channel.ready, window.path, rules.table[command, SCOPE], command)
    if when > tick:
        window.now[_EVENT] = min(window.now[_EVENT], when)
    return when <= tick


@kernel
def _close(rules: Tables, channel: Channel, window: Window, bank: int, tick: int) -> None:
    """Issue the PRE of a bank and leave all-bank mode if it was the last one needed for that."""
    row, command = channel.rows[bank], _precharge(rules)
    issue_command(rules, channel, window.path, command, row, tick)
    log_inserted(channel, tick, command, -1)
    banks = channel.rows.size // window.mode.size
    rank, mode = bank // banks, rules.all_bank_mode
    if window.mode[rank] == 1 and row == mode[2]:
        window.leaving[rank] |= (1 << (bank - rank * banks)) & mode[3]
        if window.leaving[rank] == mode[3]:
            window.mode[rank], window.leaving[rank] = 0, 0


@kernel
def _enter_mode(rules: Tables, window: Window, rank: int, in_rank: int, row: int) -> None:
    """Enter all-bank mode if the row was the last one needed for that."""
    mode = rules.all_bank_mode
    if window.mode[rank] == 0 and row == mode[0]:
        window.entering[rank] |= (1 << in_rank) & mode[1]
        if window.entering[rank] == mode[1]:
            window.mode[rank], window.entering[rank] = 1, 0
