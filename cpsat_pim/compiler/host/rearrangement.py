"""Packing a matrix for the banks: the host reads it and writes it to all channels (DCC, section IV-C.I).

The host's on-chip memory holds a block for every channel. Blocks are read one after another at the memory's bandwidth,
then written to all channels at once. A channel takes a column command a tick at most, or fewer if its device says so;
consecutive writes go to other pseudo-channels, ranks and bank groups, and rows are opened behind them, so that the slot
or the bus is the limit.
"""

from cpsat_pim.compiler.host.hosts import Host
from cpsat_pim.compiler.language import KernelMistake
from cpsat_pim.device import Device

#: Ticks until the first column may be written: a tick, and nRCDWR of the device.
FIRST = 1


def packing_ps(read_bytes: int, moved_bytes: int, channels: int, device: Device, host: Host) -> int:
    """Picoseconds to read bytes and to write some of them to so many channels, as if nothing overlapped."""
    read = -(-read_bytes * 10**12 // int(host.memory_bandwidth * host.memory_efficiency))
    return int(read + write_ticks(moved_bytes, channels, device) * device.tick_ps)


def write_ticks(moved_bytes: int, channels: int, device: Device) -> int:
    """Ticks in which every channel receives its part. A controller that issues in order also waits for every row.

    Raises:
        KernelMistake: the host does not write single banks.
    """
    if device.column_writes is None:
        raise KernelMistake(f"{device.name}: the host writes no single bank, so that packing has no time")
    ticks, writes = device.column_writes
    columns = -(-moved_bytes // (channels * device.core.column_bytes))
    rows = -(-columns // device.core.columns) * device.row_ticks if device.controller.policy == "in-order" else 0
    return FIRST + -(-columns * ticks // writes) + rows
