"""The controller that issues the head of its queue alone (`docs/devices.md`, section 4)."""

import numpy as np

from tracesim.commands.records import Ints
from tracesim.commands.state import (
    BLOCKING,
    LATENCY,
    MODE,
    SCOPE,
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


@kernel
def run_in_order(rules: Tables, stream: Commands, channel: Channel, refresh: bool, issue: Ints) -> int:
    """Issue a stream and return the finish tick. `channel` and `issue` int64[n] are modified in place."""
    mode = np.ones(1, np.int64)
    path = np.zeros(rules.axes.size + 1, np.int64)
    tick, finish, enters, due = 0, 0, 1, rules.refresh[2]
    for at in range(stream.kind.size):
        kind = stream.kind[at]
        fill_path(path, channel.first, rules.axes, stream.coords[at])
        command = -1
        while command != kind:
            if refresh and rules.refresh[0] >= 0:
                tick, due = _serve_refresh(rules, channel, tick, due, max(enters, tick + 1))
                fill_path(path, channel.first, rules.axes, stream.coords[at])
            command, tick = _issue_next(rules, stream, channel, mode, path, at, max(tick + 1, enters))
            if command != kind:
                log_inserted(channel, tick, command, at)
        issue[at] = tick
        finish = max(finish, tick + rules.table[kind, LATENCY])
        if rules.table[kind, BLOCKING]:
            enters = tick + rules.table[kind, LATENCY] + 1
    return finish


@kernel
def _issue_next(
    rules: Tables, stream: Commands, channel: Channel, mode: Ints, path: Ints, at: int, earliest: int
) -> tuple[int, int]:
    """Issue what a command of the stream lacks, or itself; return the command and its tick.

    The mode changes when the command that would be issued is ready, not before.
    """
    kind, row = stream.kind[at], stream.row[at]
    command = missing_command(rules, channel, kind, path[-1] - channel.first[-2], row)
    tick = max(earliest, ready_tick(channel.ready, path, rules.table[command, SCOPE], command))
    if rules.table[kind, MODE] != 0 and rules.table[kind, MODE] != mode[0]:
        mode[0] = rules.table[kind, MODE]
        command = rules.mode_change
    issue_command(rules, channel, path, command, row, tick)
    return command, tick


@kernel
def _serve_refresh(rules: Tables, channel: Channel, tick: int, due: int, earliest: int) -> tuple[int, int]:
    """Issue every refresh that is due before a tick, its PRE first; return the last tick and the next due tick."""
    path = np.zeros(rules.axes.size + 1, np.int64)
    while earliest >= due:
        for node in range(channel.first[rules.refresh[1] + 1] - channel.first[rules.refresh[1]]):
            fill_node_path(path, channel.first, rules.axes, rules.refresh[1], node)
            command = -1
            while command != rules.refresh[0]:
                command = missing_command(rules, channel, rules.refresh[0], 0, 0)
                tick = max(tick + 1, due, ready_tick(channel.ready, path, rules.table[command, SCOPE], command))
                issue_command(rules, channel, path, command, 0, tick)
                log_inserted(channel, tick, command, -1)
        due += rules.refresh[4]
        earliest = max(earliest, tick + 1)
    return tick, due
