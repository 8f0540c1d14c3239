"""The controller that prefers what is ready and has a row and a column slot (`docs/devices.md`, section 4)."""

from typing import NamedTuple

import numpy as np

from tracesim.commands.records import Ints
from tracesim.commands.state import (
    ACTIVATE,
    CLOSES,
    LATENCY,
    MIXED,
    NEEDS,
    OPENS,
    PRECHARGE,
    SCOPE,
    SLOT,
    Channel,
    Commands,
    Tables,
    fill_node_path,
    fill_path,
    issue_command,
    log_inserted,
    missing_command,
    ready_tick,
)
from tracesim.jit import kernel

_BARRIER = -1
_NOTHING = -1
#: `Slot.NONE`: what fits beside no other command of the same tick.
_NO_SLOT = 2
_NEVER = 2**62
#: Entries of `Queue.now`.
_SIZE, _AT, _BARRIERS, _DUE, _WAITING, _SERVED, _CHANGED, _FINISH = range(8)


class Queue(NamedTuple):
    """The commands that wait, the oldest first. Arrays of `Rules.queue` entries, modified in place.

    `entry`: index of the command in the stream, or _BARRIER. `command`: what must be issued next for it.
    `ticks`: when that is ready. `hits`: whether it uses an open row. `paths` int64[entries, levels]: its nodes.
    `path` int64[levels]: of the command that is being issued.
    `now` int64[8]: entries in use; next command of the stream; barriers that have entered; the tick of the next
    refresh; refreshes that wait; node whose turn it is; whether something has happened in this tick; the finish tick.
    """

    entry: Ints
    command: Ints
    ticks: Ints
    hits: Ints
    paths: Ints
    path: Ints
    now: Ints


@kernel
def run_ready_first(rules: Tables, stream: Commands, channel: Channel, refresh: bool, issue: Ints) -> int:
    """Issue a stream and return the finish tick, -1 if the controller can never go on.

    `channel` and `issue` int64[n] are modified in place.
    """
    queue = _new_queue(rules, refresh)
    now = queue.now
    tick = 0
    while now[_AT] < stream.kind.size or now[_SIZE] > 0 or now[_WAITING] > 0:
        tick += 1
        now[_CHANGED] = 0
        _refill(rules, stream, channel, queue)
        if tick >= now[_DUE]:
            now[_WAITING] += channel.first[rules.refresh[1] + 1] - channel.first[rules.refresh[1]]
            now[_DUE] += rules.refresh[4]
        slot = _take_slot(rules, stream, channel, queue, issue, tick, _NO_SLOT, True)
        _take_slot(rules, stream, channel, queue, issue, tick, slot, False)
        now[_FINISH] = max(now[_FINISH], tick)
        if not now[_CHANGED]:
            tick = _next_event(rules, channel, queue, tick) - 1
            if tick == _NEVER - 1:
                return -1
    finish: int = now[_FINISH]
    return finish


@kernel
def _new_queue(rules: Tables, refresh: bool) -> Queue:
    """Return an empty queue before the first tick."""
    levels = rules.axes.size + 1
    entry, command, ticks = np.zeros((3, rules.queue), np.int64)
    hits = np.zeros(rules.queue, np.int64)
    now = np.zeros(8, np.int64)
    now[_DUE] = rules.refresh[2] if refresh and rules.refresh[0] >= 0 else _NEVER
    paths, path = np.zeros((rules.queue, levels), np.int64), np.zeros(levels, np.int64)
    return Queue(entry, command, ticks, hits, paths, path, now)


@kernel
def _refill(rules: Tables, stream: Commands, channel: Channel, queue: Queue) -> None:
    """Let commands and barriers of the stream enter while there is room."""
    now = queue.now
    while now[_SIZE] < rules.queue and now[_AT] < stream.kind.size:
        at, size = now[_AT], now[_SIZE]
        is_barrier = now[_BARRIERS] < stream.group[at]
        queue.entry[size] = _BARRIER if is_barrier else at
        if is_barrier:
            now[_BARRIERS] += 1
            queue.command[size], queue.ticks[size], queue.hits[size] = _BARRIER, 0, 0
        else:
            now[_AT] += 1
            fill_path(queue.paths[size], channel.first, rules.axes, stream.coords[at])
            _look_up(rules, stream, channel, queue, size)
        now[_SIZE] += 1


@kernel
def _look_up(rules: Tables, stream: Commands, channel: Channel, queue: Queue, i: int) -> None:
    """Set what must be issued next for an entry, and when that is ready."""
    at, path = queue.entry[i], queue.paths[i]
    kind = stream.kind[at]
    command = missing_command(rules, channel, kind, path[-1] - channel.first[-2], stream.row[at])
    queue.command[i] = command
    queue.hits[i] = command == kind and rules.table[kind, NEEDS] > 0
    queue.ticks[i] = ready_tick(channel.ready, path, rules.table[command, SCOPE], command)


@kernel
def _take_slot(
    rules: Tables, stream: Commands, channel: Channel, queue: Queue, issue: Ints, tick: int, taken: int, is_first: bool
) -> int:
    """Issue at most one command; return the slot that no other command may take in this tick.

    The second command must have another slot than the first (`taken`). A refresh comes first: while it is not
    ready, only a command of the other slot is issued. If the first look finds nothing, the second issues nothing
    either, but removes a barrier.
    """
    now = queue.now
    if now[_WAITING] > 0:
        command = missing_command(rules, channel, rules.refresh[0], 0, 0)
        slot: int = rules.table[command, SLOT]
        if is_first or slot + taken == 1:
            fill_node_path(queue.path, channel.first, rules.axes, rules.refresh[1], now[_SERVED])
            if ready_tick(channel.ready, queue.path, rules.table[command, SCOPE], command) <= tick:
                _issue_refresh(rules, stream, channel, queue, command, tick)
            return slot
    if now[_SIZE] > 0 and queue.entry[0] == _BARRIER:
        _remove(queue, 0)
    if now[_SIZE] == 0:
        return _NO_SLOT
    best = _candidate(rules, queue, tick)
    slot = _NO_SLOT if queue.entry[best] == _BARRIER else rules.table[queue.command[best], SLOT]
    if queue.ticks[best] > tick or not (is_first or slot + taken == 1):
        return _NO_SLOT
    if queue.entry[best] == _BARRIER:
        _remove(queue, best)
    else:
        _issue_entry(rules, stream, channel, queue, issue, best, tick)
    return slot


@kernel
def _candidate(rules: Tables, queue: Queue, tick: int) -> int:
    """Return the entry that would be issued; it may not be ready.

    A later entry wins if it alone is ready, unless it does not hit a row while another entry hits one on the same path.
    Behind a barrier only ACT and PRE take part.
    """
    best = 0
    behind = False
    for i in range(1, queue.now[_SIZE]):
        if queue.ticks[best] <= tick:
            break
        if queue.entry[i] == _BARRIER:
            behind = True
        elif queue.ticks[i] <= tick:
            command = queue.command[i]
            takes_part = not behind or rules.table[command, OPENS] > 0 or rules.table[command, CLOSES] > 0
            if takes_part and (queue.hits[i] or not _path_is_hit(queue, queue.paths[i, -1])):
                best = i
    return best


@kernel
def _path_is_hit(queue: Queue, bank: int) -> bool:
    """Whether an entry with this bank in its path hits an open row."""
    for i in range(queue.now[_SIZE]):  # noqa: SIM110 - numba compiles no generator expressions
        if queue.hits[i] and queue.paths[i, -1] == bank:
            return True
    return False


@kernel
def _issue_entry(
    rules: Tables, stream: Commands, channel: Channel, queue: Queue, issue: Ints, i: int, tick: int
) -> None:
    """Issue what an entry needs next; it leaves the queue if that is itself."""
    at, command = queue.entry[i], queue.command[i]
    issue_command(rules, channel, queue.paths[i], command, stream.row[at], tick)
    if command == stream.kind[at]:
        issue[at] = tick
        queue.now[_FINISH] = max(queue.now[_FINISH], tick + rules.table[command, LATENCY])
        _remove(queue, i)
    else:
        log_inserted(channel, tick, command, at)
    _look_up_all(rules, stream, channel, queue)


@kernel
def _issue_refresh(rules: Tables, stream: Commands, channel: Channel, queue: Queue, command: int, tick: int) -> None:
    """Issue a refresh or the PRE before it."""
    issue_command(rules, channel, queue.path, command, 0, tick)
    log_inserted(channel, tick, command, _NOTHING)
    if command == rules.refresh[0]:
        level = rules.refresh[1]
        queue.now[_WAITING] -= 1
        queue.now[_SERVED] = (queue.now[_SERVED] + 1) % (channel.first[level + 1] - channel.first[level])
    _look_up_all(rules, stream, channel, queue)


@kernel
def _look_up_all(rules: Tables, stream: Commands, channel: Channel, queue: Queue) -> None:
    """Bring every entry up to date after a command.

    This is where the time goes. The arrays have names of their own because numba counts references to every array
    of a NamedTuple that is passed on.
    """
    table, kinds, ready, first = rules.table, stream.kind, channel.ready, channel.first
    rows, common = stream.row, channel.common
    entry, paths, ticks, command, hits = queue.entry, queue.paths, queue.ticks, queue.command, queue.hits
    queue.now[_CHANGED] = 1
    for i in range(queue.now[_SIZE]):
        if entry[i] == _BARRIER:
            continue
        kind = kinds[entry[i]]
        following = kind
        if table[kind, NEEDS] == 2 and common[0] != MIXED:
            hits[i] = common[0] == rows[entry[i]]
            if not hits[i]:
                following = rules.table[kind, ACTIVATE] if common[0] < 0 else rules.table[kind, PRECHARGE]
        elif table[kind, NEEDS] > 0:
            following = missing_command(rules, channel, kind, paths[i, -1] - first[-2], rows[entry[i]])
            hits[i] = following == kind
        tick = 0
        for level in range(table[following, SCOPE] + 1):
            tick = max(tick, ready[paths[i, level], following])
        command[i], ticks[i] = following, tick


@kernel
def _remove(queue: Queue, at: int) -> None:
    """Remove an entry."""
    last = queue.now[_SIZE] - 1
    for i in range(at, last):
        queue.entry[i], queue.command[i] = queue.entry[i + 1], queue.command[i + 1]
        queue.ticks[i], queue.hits[i] = queue.ticks[i + 1], queue.hits[i + 1]
        for level in range(queue.paths.shape[1]):
            queue.paths[i, level] = queue.paths[i + 1, level]
    queue.now[_SIZE] = last
    queue.now[_CHANGED] = 1


@kernel
def _next_event(rules: Tables, channel: Channel, queue: Queue, tick: int) -> int:
    """Return the next tick at which a command becomes ready or a refresh is due. Until then nothing can happen."""
    now = queue.now
    event: int = now[_DUE]
    for i in range(now[_SIZE]):
        if queue.ticks[i] > tick:
            event = min(event, queue.ticks[i])
    if now[_WAITING] > 0:
        command = missing_command(rules, channel, rules.refresh[0], 0, 0)
        fill_node_path(queue.path, channel.first, rules.axes, rules.refresh[1], now[_SERVED])
        when = ready_tick(channel.ready, queue.path, rules.table[command, SCOPE], command)
        if when > tick:
            event = min(event, when)
    return event
