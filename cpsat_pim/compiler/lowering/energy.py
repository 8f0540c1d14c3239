"""Femtojoules of commands, by the figures of the device file."""

import numpy as np
from numpy.typing import NDArray

from cpsat_pim.compiler.language import KernelMistake
from cpsat_pim.device import Device
from tracesim.commands import Function

Ints = NDArray[np.int64]

#: Stands for a figure that the device file does not state.
UNKNOWN = -1


def energy_table(device: Device) -> Ints:
    """int64[commands, functions]: femtojoules of one issue, or `UNKNOWN`."""
    table = np.full((len(device.commands), max(Function) + 1), UNKNOWN, np.int64)
    for number, command in enumerate(device.commands):
        for function in Function:
            found = command.issue_fj(function.name.lower())
            table[number, function] = UNKNOWN if found is None else found
    return table


def issues_fj(device: Device, table: Ints, kinds: Ints, functions: Ints, counts: Ints) -> int:
    """Femtojoules of so many issues of every command with its function.

    Raises:
        KernelMistake: the device file does not state them.
    """
    known = table[kinds, functions]
    lacking = sorted({device.commands[kind].name for kind in kinds[(known == UNKNOWN) & (counts > 0)].tolist()})
    if lacking:
        raise KernelMistake(f"{device.name}: its file states no energy of {', '.join(lacking)}")
    return int((known * counts).sum())
