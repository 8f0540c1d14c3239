"""Runs a command stream on one channel: checks, chooses the controller, reports."""

from collections.abc import Callable

import numpy as np

from tracesim.commands.in_order import run_in_order
from tracesim.commands.ready_first import run_ready_first
from tracesim.commands.records import Ints, Policy, Rules, Stream, Trace, checked_rules, checked_stream
from tracesim.commands.state import Channel, new_channel
from tracesim.commands.window import run_window

_RUN: dict[int, Callable[[Rules, Stream, Channel, bool, Ints], int]] = {
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
    channel = new_channel(rules, 4 * size + 1024)
    issue = np.zeros(size, np.int64)
    finish = _RUN[rules.policy](rules, stream, channel, refresh, issue)
    if finish < 0:
        raise ValueError(f"Stream: nothing can be issued after {int((issue > 0).sum())} of {size} commands")
    logged = int(channel.logged[0])
    if logged > channel.log.shape[0]:
        raise ValueError(f"Stream: the controller inserts more than {channel.log.shape[0]} commands (got {logged})")
    return Trace(int(finish), issue, channel.log[:logged].copy(), channel.counts)
