"""Runs a command stream on one channel: checks, chooses the controller, reports."""

from collections.abc import Callable

import numpy as np

from tracesim.commands.in_order import run_in_order
from tracesim.commands.ready_first import run_ready_first
from tracesim.commands.records import (
    COMMAND_COLUMNS,
    Ints,
    Policy,
    Rules,
    Stream,
    Trace,
    checked_rules,
    checked_stream,
)
from tracesim.commands.state import Channel, Commands, Tables, new_channel
from tracesim.commands.window import run_window

_RUN: dict[int, Callable[[Tables, Commands, Channel, bool, Ints], int]] = {
    Policy.IN_ORDER: run_in_order,
    Policy.READY_FIRST: run_ready_first,
    Policy.WINDOW: run_window,
}


def simulate(rules: Rules, stream: Stream, refresh: bool = False, checked: bool = False) -> Trace:
    """Return when each command of a stream is issued on one channel that was idle, all banks closed.

    `checked`: the caller has passed both through `checked_rules` and `checked_stream` already.

    Raises:
        ValueError: the rules or the stream are malformed, or the controller comes to a point where nothing can be
        issued.
    """
    if not checked:
        rules = checked_rules(rules)
        stream = checked_stream(rules, stream)
    size = stream.kind.size
    tables, commands = _tables(rules), Commands(*stream[:5])
    channel = new_channel(tables, 4 * size + 1024)
    issue = np.zeros(size, np.int64)
    finish = _RUN[rules.policy](tables, commands, channel, refresh, issue)
    if finish < 0:
        raise ValueError(f"Stream: nothing can be issued after {int((issue > 0).sum())} of {size} commands")
    logged = int(channel.logged[0])
    if logged > channel.log.shape[0]:
        raise ValueError(f"Stream: the controller inserts more than {channel.log.shape[0]} commands (got {logged})")
    return Trace(int(finish), issue, channel.log[:logged].copy(), channel.counts)


def _tables(rules: Rules) -> Tables:
    """Return the rules as the kernels take them."""
    table = np.stack([getattr(rules, name) for name in COMMAND_COLUMNS], axis=1)
    numbers = (rules.queue, rules.queue_level, rules.entry_queue, rules.mode_change)
    return Tables(rules.axes, table, rules.constraints, rules.refresh, rules.all_bank_mode, *numbers)
