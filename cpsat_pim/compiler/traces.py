"""Command streams in the formats of published simulators."""

from collections.abc import Callable

import numpy as np

from cpsat_pim.compiler.language import KernelMistake
from cpsat_pim.compiler.lowering.bank_mode import LEAVE_PIM, MODE_COLUMN, REGISTER_ROW
from cpsat_pim.device import Device
from cpsat_pim.device.addresses import address_of
from tracesim.commands import Stream
from tracesim.commands.records import SOURCE, TARGET

#: Our commands by the names of AttAcc's trace (attacc_simulator c600051, `pim_loadstore_trace.cpp`).
ATTACC = {"MACAB": "PIM_MAC_AB", "WRGB": "PIM_WR_GB", "MVGB": "PIM_MV_GB", "MVSB": "PIM_MV_SB", "SFM": "PIM_SFM"}
BARRIER = "PIM_BARRIER 0x00000000"


def attacc_trace(stream: Stream, device: Device) -> str:
    """The stream of one channel as a trace of AttAcc's Ramulator: a command and an address a line.

    An address is that of the device's address map for PIM, of the first channel.

    Raises:
        KernelMistake: the device has commands that the trace does not, or no address map.
    """
    names, lines, group = [command.name for command in device.commands], [], 0
    if device.system.address_map is None:
        raise KernelMistake(f"{device.name}: its file has no address map (`system.address_map`)")
    axes = dict(zip((axis.name for axis in device.group.axes), np.maximum(stream.coords.T, 0), strict=False))
    place = {**axes, "row": stream.row, "column": stream.column}
    addresses = address_of(device, device.system.address_map.pim, place)
    for at in range(stream.kind.size):
        lines += [BARRIER] * (int(stream.group[at]) - group)
        group = int(stream.group[at])
        name = names[stream.kind[at]]
        if name not in ATTACC:
            raise KernelMistake(f"{device.name}: AttAcc's trace has no command {name}")
        lines.append(f"{ATTACC[name]} 0x{addresses[at]:08x}")
    return "".join(line + "\n" for line in lines)


def pimsimulator_trace(stream: Stream, device: Device) -> str:
    """The stream of one channel for a replay on Samsung's PIMSimulator: `R|W|P|H rank bankgroup bank row column`, `B`.

    P and H write the register that begins and ends PIM mode; B is a barrier.

    Raises:
        KernelMistake: the device has no all-bank mode.
    """
    if device.controller.all_bank_mode is None:
        raise KernelMistake(f"{device.name}: PIMSimulator has only devices with an all-bank mode")
    reads = {number for number, command in enumerate(device.commands) if command.name.endswith("RD")}
    lines, group = [], int(stream.group[0])
    for at in range(stream.kind.size):
        lines += ["B"] * (int(stream.group[at]) - group)
        group = int(stream.group[at])
        rank, bankgroup, block, side = (max(0, int(value)) for value in stream.coords[at])
        row, column = int(stream.row[at]), int(stream.column[at])
        letter = "R" if int(stream.kind[at]) in reads else "W"
        if row == REGISTER_ROW and column in (MODE_COLUMN, LEAVE_PIM):
            letter, column = ("P" if column == MODE_COLUMN else "H"), 0
        lines.append(f"{letter} {rank} {bankgroup} {block * device.core.banks + side} {row} {column}")
    return "".join(line + "\n" for line in lines)


#: Our commands by the names of AiM's instructions (aim_simulator 0f28a07) and what follows a name; {size}: columns.
AIM = {
    "WRGB": "WR_GB {size} 0 1",
    "MAC16": "MAC_ABK {size} 1 {row}",
    "WRMAC16": "WR_BIAS 0 1",
    "RDMAC16": "RD_MAC 0 1",
}


def aim_trace(stream: Stream, device: Device) -> str:
    """The stream of one channel as instructions of AiM for channel 0; columns that follow each other are one.

    Raises:
        KernelMistake: the device has commands that AiM has not.
    """
    names, lines, at = [command.name for command in device.commands], [], 0
    while at < stream.kind.size:
        name, size = names[stream.kind[at]], 1
        if name not in AIM:
            raise KernelMistake(f"{device.name}: AiM has no instruction for {name}")
        is_run = "{size}" in AIM[name]
        while is_run and at + size < stream.kind.size and _follows(stream, at + size):
            size += 1
        lines.append("AiM " + AIM[name].format(size=size, row=int(stream.row[at])))
        at += size
    return "".join(line + "\n" for line in [*lines, "AiM EOC"])


def _follows(stream: Stream, at: int) -> bool:
    """Whether a command does the same as the one before it, for the next column or register."""
    same_place = stream.kind[at] == stream.kind[at - 1] and stream.row[at] == stream.row[at - 1]
    steps = int(
        stream.work[at, SOURCE] - stream.work[at - 1, SOURCE] + stream.work[at, TARGET] - stream.work[at - 1, TARGET]
    )
    return bool(same_place and steps == 1)


#: The writers by the names that a user gives.
FORMATS: dict[str, Callable[[Stream, Device], str]] = {
    "attacc": attacc_trace,
    "pimsimulator": pimsimulator_trace,
    "aim": aim_trace,
}
