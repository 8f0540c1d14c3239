"""Ticks of a sequence of barrier groups, for devices that prefer what is ready and have a row and a column slot
(AttAcc).

A group consists of MACs of consecutive columns and of moves (drains of accumulators, then loads of input registers).
MACs and moves use different data paths and share the one column slot of a tick. The compiler emits both in the order of
their earliest ticks, a MAC before a move of the same tick. Then nothing behind the head of the queue is ready before
the head itself, and the controller, which prefers what is ready, issues in the order of the stream: the ticks follow
from a recurrence.

PRE and ACT use the row slot. They are issued for the next MAC as soon as it is in the queue and nothing in the queue
still needs the open row: they hide behind moves. Two moves are at least two ticks apart, so that the second slot of the
tick of a move is always free for them. Only softmax commands, whose distance is not checked, wait for their own slot
and keep PRE and ACT from the second one.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tables.jit import njit

Ints = NDArray[np.int64]

#: Columns of a group: MACs, bank column of the first, accumulators drained, input columns loaded; the steps that the
#: MACs, drains and loads belong to; and the segment of the kernel.
MACS, ADDRESS, DRAINS, LOADS, MAC_STEP, DRAIN_STEP, LOAD_STEP, SEGMENT = range(8)
#: Kinds of an emitted command.
MAC, DRAIN, LOAD = range(3)
#: A tick before all others.
NEVER = -(2**40)


class Timing(NamedTuple):
    """Ticks between commands, and the sizes that they depend on.

    `mac`: MAC to MAC. `act_to_mac`, `mac_to_pre`, `act_to_pre`, `act_to_act`, `pre_to_act`: rows. `queue`: entries.
    `columns`: of a row. `apart`: any two moves. `spacing` int64[levels]: a move to a later one through the same node of
    a level.
    """

    mac: int
    act_to_mac: int
    mac_to_pre: int
    act_to_pre: int
    act_to_act: int
    pre_to_act: int
    queue: int
    columns: int
    apart: int
    spacing: Ints


class Moves(NamedTuple):
    """The moves of every segment of a kernel.

    `drains`, `loads` int64[segments, moves, levels]: the nodes of the moves that drain one accumulator and that load
    one input column; `drain_moves`, `load_moves` int64[segments]: how many. `is_checked` int64[segments]: 0 if the
    device does not check the distance of a move to those before it (softmax). `nodes` of all levels.
    """

    drains: Ints
    loads: Ints
    drain_moves: Ints
    load_moves: Ints
    is_checked: Ints
    nodes: int


@njit
def _move_tick(timing: Timing, nodes: Ints, last: Ints) -> int:
    """Return the earliest tick of a move by the moves before it; `last` int64[nodes] are their last ticks."""
    tick = 1
    for level in range(nodes.size):
        tick = max(tick, last[nodes[level]] + timing.spacing[level])
    return tick


@njit
def _free_slot(tick: int, busy: int, until: int) -> int:
    """Return the first tick from a tick on whose second slot is free; it is not from `busy` to before `until`."""
    return until if busy <= tick < until else tick


@njit
def _row_tick(timing: Timing, is_open: bool, activated: int, last_mac: int, visible: int, busy: int, until: int) -> int:
    """Return the tick of the ACT of the next row: `visible` is the first tick at which its MAC is in the queue."""
    if not is_open:
        return _free_slot(max(visible, 1), busy, until)
    closed = _free_slot(max(last_mac + timing.mac_to_pre, activated + timing.act_to_pre, visible), busy, until)
    return _free_slot(max(closed + timing.pre_to_act, activated + timing.act_to_act), busy, until)


@njit
def _mac_tick(
    timing: Timing, wanted: int, row: int, column_tick: int, last_mac: int, activated: int, visible: int, busy: int,
    until: int,
) -> tuple[int, int]:  # fmt: skip
    """Return the tick of the next MAC, and that of the ACT of its row if another row is open."""
    soonest = max(last_mac + timing.mac, column_tick + 1)
    if wanted == row:
        return soonest, activated
    act_tick = _row_tick(timing, row >= 0, activated, last_mac, visible, busy, until)
    return max(act_tick + timing.act_to_mac, soonest), act_tick


@njit
def _visible_tick(removed: Ints, behind: int) -> int:
    """Return the first tick at which the MAC behind `behind` other entries is in the queue: a full queue takes it in
    when an entry leaves."""
    return removed[(behind - removed.size) % removed.size] + 1 if behind >= removed.size else 0


@njit
def _emit(emitted: Ints, out: int, kind: int, number: int, group: int, tick: int) -> int:
    """Return how many commands there are with one more; if nobody asks, 0. Output: `emitted`."""
    if emitted.shape[0] == 0:
        return 0
    emitted[out, 0], emitted[out, 1], emitted[out, 2], emitted[out, 3] = kind, number, group, tick
    return out + 1


@njit
def walk(timing: Timing, groups: Ints, moves: Moves, opened: int, emitted: Ints) -> int:
    """Return the tick of the last command.

    `groups` int64[groups, 8]. `opened`: the row that was opened long before the first tick, or -1: with the first row,
    the result is a lower bound for a kernel that follows another one. Output: `emitted` int64[commands, 4]: kind,
    number of the MAC or move within its group, group and tick; of length 0 if nobody asks.
    """
    last = np.full(moves.nodes, NEVER, np.int64)
    removed = np.zeros(timing.queue, np.int64)  # ticks at which the entries behind the last MAC left the queue
    behind = 0  # how many there are
    column_tick, last_mac, activated, row, out = 0, NEVER, NEVER, opened, 0
    busy, until = NEVER, NEVER  # ticks in which an unchecked move waits for its slot and would take the second one
    for group in range(groups.shape[0]):
        macs, address, segment = groups[group, MACS], groups[group, ADDRESS], groups[group, SEGMENT]
        drain_moves, load_moves = moves.drain_moves[segment], moves.load_moves[segment]
        drained = groups[group, DRAINS] * drain_moves
        wanted_moves = drained + groups[group, LOADS] * load_moves
        mac, move = 0, 0
        while mac < macs or move < wanted_moves:
            mac_tick, act_tick, wanted = 2**60, 0, -1
            if mac < macs:
                wanted, visible = (address + mac) // timing.columns, _visible_tick(removed, behind)
                mac_tick, act_tick = _mac_tick(
                    timing, wanted, row, column_tick, last_mac, activated, visible, busy, until
                )
            if move < wanted_moves:
                if move < drained:
                    path = moves.drains[segment, move % drain_moves]
                else:
                    path = moves.loads[segment, (move - drained) % load_moves]
                move_tick = column_tick + 1
                if moves.is_checked[segment]:
                    move_tick = max(_move_tick(timing, path, last), move_tick)
                if move_tick < mac_tick:
                    if not moves.is_checked[segment]:
                        busy, until = column_tick if until != column_tick else busy, move_tick
                    for node in path:
                        last[node] = move_tick
                    column_tick = removed[behind % timing.queue] = move_tick
                    behind += 1
                    out = _emit(emitted, out, DRAIN if move < drained else LOAD, move, group, move_tick)
                    move += 1
                    continue
            activated, row, run = act_tick, wanted, 1
            if move == wanted_moves:  # nothing interrupts the rest of the row
                run = min(macs - mac, timing.columns - (address + mac) % timing.columns)
            for i in range(run if emitted.shape[0] > 0 else 0):
                out = _emit(emitted, out, MAC, mac + i, group, mac_tick + i * timing.mac)
            last_mac = column_tick = mac_tick + (run - 1) * timing.mac
            behind = 0
            mac += run
        removed[behind % timing.queue] = column_tick  # the barrier
        behind += 1
    return column_tick
