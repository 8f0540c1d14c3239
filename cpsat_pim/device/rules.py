"""A device as the arrays that the simulator is given."""

import numpy as np
from numpy.typing import NDArray

from cpsat_pim.device.commands import Command
from cpsat_pim.device.device import Device
from tracesim.commands.records import Needs, Policy, Reach, Rules, Slot, checked_rules

_MODES = {"any": 0, "bank": 1, "register": 2}


def rules_of(device: Device) -> Rules:
    """Return the rules of one channel of a device.

    Level i of the simulator is `device.levels[i]`. A level below which nothing branches has one node for each above.
    """
    axes = [axis.size for axis in device.group.axes]
    return checked_rules(
        Rules(
            axes=np.array([*axes, device.core.banks]),
            **_command_table(device),
            constraints=_constraints(device),
            policy=int(Policy[device.controller.policy.replace("-", "_").upper()]),
            queue=device.controller.queue,
            queue_level=device.levels.index(device.controller.queue_at),
            entry_queue=device.controller.entry_queue,
            mode_change=_index(device, device.controller.mode_change),
            refresh=_refresh(device),
            all_bank_mode=_all_bank_mode(device),
            inputs=device.core.inputs,
            accumulators=device.core.accumulators,
            lanes=device.core.lanes,
            columns=device.core.columns,
        )
    )


def _index(device: Device, name: str | None) -> int:
    return -1 if name is None else device.command(name)


def _command_table(device: Device) -> dict[str, NDArray[np.int64]]:
    rows = [_command_row(device, command) for command in device.commands]
    return {name: np.array([row[name] for row in rows]) for name in rows[0]}


def _command_row(device: Device, command: Command) -> dict[str, int]:
    levels = device.levels
    return {
        "slot": Slot[command.slot.upper()],
        "scope": len(levels) - 1 if command.scope is None else levels.index(command.scope),
        "needs": Needs[command.needs.upper()],
        "opens": Reach[command.opens.upper()],
        "closes": Reach[command.closes.upper()],
        "activate": _index(device, command.activate),
        "precharge": _index(device, command.precharge),
        "latency": device.ticks(command.latency),
        "blocking": int(command.blocking),
        "mode": _MODES[command.mode],
    }


def _constraints(device: Device) -> NDArray[np.int64]:
    """Return one row for each pair of commands, level and window: the largest ticks."""
    most: dict[tuple[int, int, int, int, int], int] = {}
    for constraint in device.constraints:
        for before in constraint.before:
            for after in constraint.after:
                level = device.levels.index(constraint.at)
                key = (
                    device.command(before),
                    device.command(after),
                    level,
                    constraint.window,
                    int(constraint.siblings),
                )
                most[key] = max(most.get(key, 0), device.ticks(constraint.ticks))
    rows = [(before, after, level, ticks, window, side) for (before, after, level, window, side), ticks in most.items()]
    return np.array(rows, np.int64).reshape(-1, 6)


def _refresh(device: Device) -> NDArray[np.int64]:
    refresh = device.refresh
    if refresh is None:
        return np.array([-1, 0, 0, 0, 0, 0])
    ticks = [device.ticks(value) for value in (refresh.first, refresh.stagger, refresh.interval)]
    return np.array([device.command(refresh.command), device.levels.index(refresh.at), *ticks, refresh.idle])


def _all_bank_mode(device: Device) -> NDArray[np.int64]:
    mode = device.controller.all_bank_mode
    if mode is None:
        return np.array([-1, 0, -1, 0, 0])
    enter, leave = (sum(1 << bank for bank in banks) for banks in (mode.enter_banks, mode.leave_banks))
    return np.array([mode.enter_row, enter, mode.leave_row, leave, mode.banks])
