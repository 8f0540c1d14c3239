"""What the compiler needs to know of a device that multiplies in all banks of a channel at once (AttAcc)."""

from functools import cached_property, lru_cache

import numpy as np
from attrs import frozen
from numpy.typing import NDArray

from cpsat_pim.compiler.language import KernelMistake
from cpsat_pim.device import Device
from cpsat_pim.device.distances import least_ticks
from cpsat_pim.device.rules import rules_of
from tables.commands.walk import Timing
from tracesim.commands import Rules

Ints = NDArray[np.int64]

#: Below it, a move could take the second slot of a tick, and the walk would not be exact (`tables.commands.walk`).
MOVES_APART = 2


@frozen(slots=False, eq=False)
class Target:
    """A device with the commands that the compiler emits, found by what they do.

    `load` fills input registers from the host, `reload` from the channel's own buffer.
    """

    device: Device
    mac: int
    load: int
    reload: int
    drain: int

    @cached_property
    def axes(self) -> tuple[int, ...]:
        """Cores along every axis of a channel, outermost first."""
        return tuple(axis.size for axis in self.device.group.axes)

    @cached_property
    def axis_names(self) -> tuple[str, ...]:
        """The names of the axes."""
        return tuple(axis.name for axis in self.device.group.axes)

    @property
    def channels(self) -> int:
        """Channels of all stacks."""
        return self.device.system.channels

    @property
    def columns(self) -> int:
        """Columns of a bank."""
        return self.device.core.rows * self.device.core.columns

    @cached_property
    def rules(self) -> Rules:
        """The rules that the simulator takes."""
        return rules_of(self.device)

    @cached_property
    def loadable(self) -> tuple[bool, ...]:
        """For every axis, whether inputs may differ along it."""
        return tuple(name in self.device.core.input_axes for name in self.axis_names)

    @cached_property
    def reducible(self) -> tuple[bool, ...]:
        """For every axis, whether one drain adds up along it."""
        return tuple(name in self.device.group.reduces for name in self.axis_names)

    @cached_property
    def timing(self) -> Timing:
        """The ticks that `tables.commands.walk` takes.

        Raises:
            KernelMistake: drains and loads do not keep the same distances, or may follow each other at once.
        """
        device = self.device
        row, close = device.commands[self.mac].activate, device.commands[self.mac].precharge
        if row is None or close is None:
            raise KernelMistake(f"{device.name}: the controller must open and close rows for {self._name(self.mac)}")
        act, pre, spacing = device.command(row), device.command(close), self._spacing()
        return Timing(
            mac=self._least(self.mac, self.mac),
            act_to_mac=self._least(act, self.mac),
            mac_to_pre=self._least(self.mac, pre),
            act_to_pre=self._least(act, pre),
            act_to_act=self._least(act, act),
            pre_to_act=self._least(pre, act),
            queue=device.controller.queue,
            columns=device.core.columns,
            apart=int(spacing[spacing > 0].min()),
            spacing=spacing,
        )

    @cached_property
    def axis_order(self) -> tuple[int, ...]:
        """The axes, those first along which consecutive moves may follow each other soonest; of equals the inner
        one."""
        apart = [int(self.timing.spacing[: axis + 1].max()) for axis in range(len(self.axes))]
        return tuple(sorted(range(len(self.axes)), key=lambda axis: (apart[axis], -axis)))

    @cached_property
    def node_count(self) -> int:
        """Nodes of all levels."""
        return int(np.cumprod([1, *self.axes]).sum())

    def nodes(self, coordinates: Ints) -> Ints:
        """Return int64[moves, levels]: the node of every level on the path of each move; -1 counts as 0."""
        result, first, index = [np.zeros(len(coordinates), np.int64)], 1, np.zeros(len(coordinates), np.int64)
        for axis, size in enumerate(self.axes):
            index = index * size + np.maximum(coordinates[:, axis], 0)
            result.append(first + index)
            first += int(np.prod(self.axes[: axis + 1]))
        return np.stack(result, axis=1)

    def _spacing(self) -> Ints:
        """Ticks from a move to a move through the same node of each level."""
        kinds = [(a, b) for a in (self.load, self.drain) for b in (self.load, self.drain)]
        found = [[self._least(a, b, level) for level in range(len(self.axes) + 1)] for a, b in kinds]
        if any(row != found[0] for row in found):
            raise KernelMistake(f"{self.device.name}: loads and drains must keep the same distances")
        if self.loadable[0] or max(found[0][:2]) < MOVES_APART:
            raise KernelMistake(f"{self.device.name}: moves must be at least {MOVES_APART} ticks apart")
        return np.array(found[0], np.int64)

    def _least(self, before: int, after: int, level: int | None = None) -> int:
        """Ticks that the device asks for between two commands of one path, at one level or at any."""
        return least_ticks(self.device, before, after, level)

    def _name(self, command: int) -> str:
        return self.device.commands[command].name


@lru_cache(maxsize=8)
def target_of(device: Device) -> Target:
    """The compiler's view of a device.

    Raises:
        KernelMistake: the device lacks a command that the compiler needs.
    """
    mac, drain = _commands_that(device, "mac_tree")[0], _commands_that(device, "drain_clear")[0]
    loads = _commands_that(device, "load")
    return Target(device, mac, loads[0], loads[-1], drain)


def _commands_that(device: Device, does: str) -> list[int]:
    found = [number for number, command in enumerate(device.commands) if does in command.does]
    if not found:
        raise KernelMistake(f"{device.name}: no command does {does}")
    return found
