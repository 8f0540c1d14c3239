"""Banks, nodes and the timing of every command at every node (`docs/devices.md`, sections 1 to 3)."""

from typing import NamedTuple

import numpy as np

from tracesim.commands.records import Ints
from tracesim.jit import kernel

#: `Channel.common[0]` while the banks have no row in common.
MIXED = -2
#: Columns of `Rules.constraints`.
_BEFORE, _AFTER, _LEVEL, _TICKS, _WINDOW, _SIBLINGS = range(6)


#: Columns of `Tables.table`.
SLOT, SCOPE, NEEDS, OPENS, CLOSES, ACTIVATE, PRECHARGE, LATENCY, BLOCKING, MODE = range(10)


class Tables(NamedTuple):
    """`Rules` for kernels: the command table is one array, because numba passes every array of a tuple on its own.

    `table` int64[C, 10]: slot, scope, needs, opens, closes, activate, precharge, latency, blocking, mode. The rest:
    `Rules`.
    """

    axes: Ints
    table: Ints
    constraints: Ints
    refresh: Ints
    all_bank_mode: Ints
    queue: int
    queue_level: int
    entry_queue: int
    mode_change: int


class Commands(NamedTuple):
    """`Stream` for kernels: without the work, which takes no part in timing."""

    kind: Ints
    coords: Ints
    row: Ints
    column: Ints
    group: Ints


class Channel(NamedTuple):
    """One channel at some tick. Arrays, modified in place.

    `first` int64[levels + 1]: the number of the first node of each level, then the number of nodes.
    `start` int64[C + 1], `constraints` int64[T, 6]: the constraints, sorted by the command that comes before.
    `ready` int64[nodes, C]: the earliest tick at which a command may be issued through a node.
    `past` int64[nodes, C, 4]: the last four ticks of each command at each node, kept for windows.
    `rows` int64[banks]: the open row, -1 if closed.
    `common` int64[2]: the row that all banks have open (-1 = all closed, MIXED = neither), and how many are open.
    `counts` int64[C]: commands issued. `log` int64[m, 3] and `logged` int64[1]: what the controller inserted.
    """

    first: Ints
    start: Ints
    constraints: Ints
    ready: Ints
    past: Ints
    rows: Ints
    common: Ints
    counts: Ints
    log: Ints
    logged: Ints


@kernel
def new_channel(rules: Tables, log_size: int) -> Channel:
    """Return a channel before its first tick: all banks closed, everything ready."""
    commands = rules.table.shape[0]
    first = _first_nodes(rules.axes)
    start, constraints = _sorted_constraints(rules.constraints, commands)
    ready = np.zeros((first[-1], commands), np.int64)
    past = np.zeros((first[-1], commands, 4), np.int64)
    rows = np.full(first[-1] - first[-2], -1, np.int64)
    common = np.array([-1, 0])
    counts = np.zeros(commands, np.int64)
    log = np.zeros((log_size, 3), np.int64)
    return Channel(first, start, constraints, ready, past, rows, common, counts, log, np.zeros(1, np.int64))


@kernel
def _first_nodes(axes: Ints) -> Ints:
    """Return the number of the first node of each level, then the number of nodes."""
    first = np.zeros(axes.size + 2, np.int64)
    size = 1
    for level in range(axes.size + 1):
        first[level + 1] = first[level] + size
        if level < axes.size:
            size *= axes[level]
    return first


@kernel
def _sorted_constraints(constraints: Ints, commands: int) -> tuple[Ints, Ints]:
    """Return where each command's constraints start and the constraints sorted by that command."""
    start = np.zeros(commands + 1, np.int64)
    for i in range(constraints.shape[0]):
        start[constraints[i, _BEFORE] + 1] += 1
    for command in range(commands):
        start[command + 1] += start[command]
    ordered = np.empty_like(constraints)
    at = start[:-1].copy()
    for i in range(constraints.shape[0]):
        before = constraints[i, _BEFORE]
        ordered[at[before]] = constraints[i]
        at[before] += 1
    return start, ordered


# --- Paths -----------------------------------------------------------------------------------------------------------


@kernel
def fill_path(path: Ints, first: Ints, axes: Ints, coords: Ints) -> None:
    """Set the nodes of a command's path, int64[levels]; a coordinate of -1 counts as 0."""
    path[0] = 0
    index = 0
    for level in range(axes.size):
        index = index * axes[level] + max(coords[level], 0)
        path[level + 1] = first[level + 1] + index


@kernel
def fill_node_path(path: Ints, first: Ints, axes: Ints, level: int, index: int) -> None:
    """Set the path to the `index`-th node of a level, and from there to the first node of each further level."""
    above = index
    path[level] = first[level] + index
    for upper in range(level - 1, -1, -1):
        above //= axes[upper]
        path[upper] = first[upper] + above
    below = index
    for lower in range(level, axes.size):
        below *= axes[lower]
        path[lower + 1] = first[lower + 1] + below


# --- Timing ----------------------------------------------------------------------------------------------------------


@kernel
def ready_tick(ready: Ints, path: Ints, scope: int, command: int) -> int:
    """Return the earliest tick at which the command may be issued along a path, checked down to a level."""
    tick = 0
    for level in range(scope + 1):
        tick = max(tick, ready[path[level], command])
    return tick


@kernel
def issue_command(rules: Tables, channel: Channel, path: Ints, command: int, row: int, tick: int) -> None:
    """Issue a command: delay what may follow it, open and close its banks, count it."""
    constraints, ready = channel.constraints, channel.ready
    for i in range(channel.start[command], channel.start[command + 1]):
        after, node = constraints[i, _AFTER], path[constraints[i, _LEVEL]]
        if constraints[i, _SIBLINGS]:
            _delay_siblings(rules, channel, path, constraints[i, _LEVEL], after, tick + constraints[i, _TICKS])
            continue
        since = tick
        if constraints[i, _WINDOW] > 1:
            since = _nth_last(channel.past, node, command, tick, constraints[i, _WINDOW])
        if since > 0:
            ready[node, after] = max(ready[node, after], since + constraints[i, _TICKS])
    _change_rows(channel, rules.table[command, OPENS], rules.table[command, CLOSES], path[-1] - channel.first[-2], row)
    channel.counts[command] += 1


@kernel
def _nth_last(past: Ints, node: int, command: int, tick: int, window: int) -> int:
    """Return the tick of the `window`-th last time that a command went through a node, this one included, or 0."""
    if past[node, command, 0] != tick:
        for i in range(past.shape[2] - 1, 0, -1):
            past[node, command, i] = past[node, command, i - 1]
        past[node, command, 0] = tick
    nth: int = past[node, command, window - 1]
    return nth


@kernel
def _delay_siblings(rules: Tables, channel: Channel, path: Ints, level: int, after: int, until: int) -> None:
    """Delay a command in the open banks below the other nodes of a level that have the same parent."""
    axes, first_bank = rules.axes, channel.first[-2]
    below = 1
    for i in range(level, axes.size):
        below *= axes[i]
    own = (path[-1] - first_bank) // below
    begin = own // axes[level - 1] * axes[level - 1] * below
    for bank in range(begin, begin + axes[level - 1] * below):
        if bank // below != own and channel.rows[bank] >= 0:
            channel.ready[first_bank + bank, after] = max(channel.ready[first_bank + bank, after], until)


# --- Rows ------------------------------------------------------------------------------------------------------------


@kernel
def missing_command(rules: Tables, channel: Channel, kind: int, bank: int, row: int) -> int:
    """Return the command that must be issued next for a command: itself, its ACT or its PRE (section 2)."""
    need = rules.table[kind, NEEDS]
    if need == 0:
        return kind
    have = channel.rows[bank] if need == 1 else channel.common[0]
    if need == 3:
        row = -1
    if have == row:
        return kind
    if have == MIXED and need == 2 and not _other_row_is_open(channel.rows, row):
        have = -1
    following: int = rules.table[kind, ACTIVATE] if have == -1 else rules.table[kind, PRECHARGE]
    return following


@kernel
def _other_row_is_open(rows: Ints, row: int) -> bool:
    """Whether some bank has another row open."""
    for other in rows:  # noqa: SIM110 - numba compiles no generator expressions
        if other >= 0 and other != row:
            return True
    return False


@kernel
def _change_rows(channel: Channel, opens: int, closes: int, bank: int, row: int) -> None:
    """Open and close banks: 0 none, 1 the bank, 2 all of the channel."""
    rows, common = channel.rows, channel.common
    if opens == 2 or closes == 2:
        rows[:] = row if opens == 2 else -1
        common[0] = rows[0]
        common[1] = rows.size if opens == 2 else 0
    elif opens == 1 or closes == 1:
        rows[bank] = row if opens == 1 else -1
        common[0] = rows[0]
        common[1] = 0
        for other in rows:
            common[1] += other >= 0
            if other != rows[0]:
                common[0] = MIXED


# --- Log -------------------------------------------------------------------------------------------------------------


@kernel
def log_inserted(channel: Channel, tick: int, command: int, cause: int) -> None:
    """Note a command that the controller inserted, as far as the log reaches."""
    at = channel.logged[0]
    if at < channel.log.shape[0]:
        channel.log[at, 0] = tick
        channel.log[at, 1] = command
        channel.log[at, 2] = cause
    channel.logged[0] += 1
