"""Ticks of a sequence of barrier groups, for devices that prefer what is ready and have a row and a column slot (AttAcc).

A group consists of MACs of consecutive columns and of moves (drains of accumulators, then loads of input registers). MACs and
moves use different data paths and share the one column slot of a tick. The compiler emits both in the order of their
earliest ticks, a MAC before a move of the same tick. Then nothing behind the head of the queue is ready before the head
itself, and the controller, which prefers what is ready, issues in the order of the stream: the ticks follow from a recurrence.

PRE and ACT use the row slot. They are issued for the next MAC as soon as it is in the queue and nothing in the queue
still needs the open row: they hide behind moves. Two moves are at least two ticks apart, so that the second slot of the
tick of a move is always free for them.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tables.commands.jit import njit

Ints = NDArray[np.int64]

#: Columns of a group: MACs, bank column of the first, accumulators drained, input columns loaded; and the steps that the
#: MACs, drains and loads belong to.
MACS, ADDRESS, DRAINS, LOADS, MAC_STEP, DRAIN_STEP, LOAD_STEP = range(7)
#: Kinds of an emitted command.
MAC, DRAIN, LOAD = range(3)
#: A tick before all others.
NEVER = -(2**40)


class Timing(NamedTuple):
    """Ticks between commands, and the sizes that they depend on.

    `mac`: MAC to MAC. `act_to_mac`, `mac_to_pre`, `act_to_pre`, `act_to_act`, `pre_to_act`: rows. `queue`: entries.
    `columns`: of a row. `spacing` int64[levels]: a move to a later one through the same node of a level.
    """

    mac: int
    act_to_mac: int
    mac_to_pre: int
    act_to_pre: int
    act_to_act: int
    pre_to_act: int
    queue: int
    columns: int
    spacing: Ints


@njit
def _move_tick(timing: Timing, nodes: Ints, last: Ints) -> int:
    """Return the earliest tick of a move by the moves before it; `last` int64[nodes] are their last ticks."""
    tick = 1
    for level in range(nodes.size):
        tick = max(tick, last[nodes[level]] + timing.spacing[level])
    return tick


@njit
def _row_tick(timing: Timing, is_open: bool, activated: int, last_mac: int, visible: int) -> int:
    """Return the tick of the ACT of the next row: `visible` is the first tick at which its MAC is in the queue."""
    if not is_open:
        return max(visible, 1)
    closed = max(last_mac + timing.mac_to_pre, activated + timing.act_to_pre, visible)
    return max(closed + timing.pre_to_act, activated + timing.act_to_act)


@njit
def walk(timing: Timing, groups: Ints, drains: Ints, loads: Ints, nodes: int, emitted: Ints) -> int:
    """Return the tick of the last command.

    `groups` int64[groups, 7]; `drains`, `loads` int64[moves, levels]: the nodes of the moves that drain one accumulator
    and that load one input column. Output: `emitted` int64[commands, 4]: kind, number of the MAC or move within its group,
    group and tick; of length 0 if nobody asks.
    """
    last = np.full(nodes, NEVER, np.int64)
    removed = np.zeros(timing.queue, np.int64)  # ticks at which the entries behind the last MAC left the queue
    behind = 0  # how many there are
    column_tick, last_mac, activated, row = 0, NEVER, NEVER, -1
    asked, out = emitted.shape[0] > 0, 0
    for group in range(groups.shape[0]):
        macs, address = groups[group, MACS], groups[group, ADDRESS]
        drained = groups[group, DRAINS] * drains.shape[0]
        moves = drained + groups[group, LOADS] * loads.shape[0]
        mac, move = 0, 0
        while mac < macs or move < moves:
            mac_tick, act_tick, wanted = 2**60, 0, -1
            if mac < macs:
                wanted = (address + mac) // timing.columns
                if wanted == row:
                    mac_tick = max(last_mac + timing.mac, column_tick + 1)
                else:
                    visible = 0
                    if behind >= timing.queue:
                        visible = removed[(behind - timing.queue) % timing.queue] + 1
                    act_tick = _row_tick(timing, row >= 0, activated, last_mac, visible)
                    mac_tick = max(act_tick + timing.act_to_mac, last_mac + timing.mac, column_tick + 1)
            if move < moves:
                path = drains[move % drains.shape[0]] if move < drained else loads[(move - drained) % loads.shape[0]]
                move_tick = max(_move_tick(timing, path, last), column_tick + 1)
                if move_tick < mac_tick:
                    for level in range(path.size):
                        last[path[level]] = move_tick
                    column_tick = move_tick
                    removed[behind % timing.queue] = move_tick
                    behind += 1
                    if asked:
                        emitted[out, 0] = DRAIN if move < drained else LOAD
                        emitted[out, 1], emitted[out, 2], emitted[out, 3] = move, group, move_tick
                        out += 1
                    move += 1
                    continue
            if wanted != row:
                activated, row = act_tick, wanted
            run = 1
            if move == moves:  # nothing interrupts the rest of the row
                run = min(macs - mac, timing.columns - (address + mac) % timing.columns)
            if asked:
                for i in range(run):
                    emitted[out, 0], emitted[out, 1] = MAC, mac + i
                    emitted[out, 2], emitted[out, 3] = group, mac_tick + i * timing.mac
                    out += 1
            last_mac = mac_tick + (run - 1) * timing.mac
            column_tick = last_mac
            behind = 0
            mac += run
        removed[behind % timing.queue] = column_tick  # the barrier
        behind += 1
    return column_tick
