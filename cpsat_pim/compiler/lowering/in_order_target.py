"""Devices whose channels issue commands in order (AiM, UPMEM), their commands found by what they do."""

from functools import cached_property

import numpy as np
from attrs import frozen
from numpy.typing import NDArray

from cpsat_pim.compiler.language import KernelMistake
from cpsat_pim.compiler.lowering.broadcast_target import BroadcastTarget
from cpsat_pim.compiler.lowering.energy import energy_table
from cpsat_pim.device.distances import least_ticks

Ints = NDArray[np.int64]

_MODES = {"any": 0, "bank": 1, "register": 2}


@frozen(slots=False, eq=False)
class InOrderTarget(BroadcastTarget):
    """A device with an in-order controller, its commands found by what they do.

    Raises:
        KernelMistake: the device has another controller.
    """

    def __attrs_post_init__(self) -> None:
        if self.device.controller.policy != "in-order":
            raise KernelMistake(f"{self.device.name}: expected an all-bank mode or the controller in-order")

    @property
    def axes(self) -> tuple[int, ...]:
        """Cores along every axis of a channel; each computes one sum at a time."""
        return (*(axis.size for axis in self.device.group.axes), 1)

    @cached_property
    def sets_scalars(self) -> bool:
        """Whether sums are set and read as scalars, one a bank (AiM), else drained as registers (UPMEM)."""
        return any("drain_scalars" in command.does for command in self.device.commands)

    @cached_property
    def computes_elements(self) -> bool:
        """Whether the host writes other elements to each core at once, so that vectors can be spread (UPMEM)."""
        return any("write_each" in command.does for command in self.device.commands)

    def command(self, does: str) -> int:
        """The last command that does something; AiM's of all banks follow those of one.

        Raises:
            KernelMistake: there is none.
        """
        found = [number for number, command in enumerate(self.device.commands) if does in command.does]
        if not found:
            raise KernelMistake(f"{self.device.name}: no command does {does}")
        reads = [number for number in found if self.device.commands[number].name.startswith("RDMAC")]
        return reads[0] if reads else found[-1]

    @cached_property
    def table(self) -> Ints:
        """int64[commands, 4], see `tables.commands.in_order`."""
        device = self.device
        return np.array(
            [
                (device.ticks(c.latency), int(c.blocking), _MODES[c.mode], int(c.needs in ("row", "rows")))
                for c in device.commands
            ]
        )

    @cached_property
    def distances(self) -> Ints:
        """int64[commands, commands]: ticks from a command to a later one, both to all cores."""
        count = len(self.device.commands)
        return np.array([[least_ticks(self.device, a, b) for b in range(count)] for a in range(count)])

    @cached_property
    def energies(self) -> Ints:
        """int64[commands, functions], see `energy.energy_table`."""
        return energy_table(self.device)

    @cached_property
    def inserted(self) -> Ints:
        """int64[3]: ACT, PRE and mode change of the product, -1 if it needs none."""
        product = self.device.commands[self.command("mac_tree")]
        names = (product.activate, product.precharge, self.device.controller.mode_change)
        return np.array([-1 if name is None else self.device.command(name) for name in names])
