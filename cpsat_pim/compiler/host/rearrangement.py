"""Packing a matrix for the banks: the host reads it and writes it to all channels (DCC, section IV-C.I).

The host's on-chip memory holds a block for every channel. Blocks are read one after another at the memory's bandwidth,
then written to all channels at once. The host reads each channel's part of the array at the channel's share of the
bandwidth; the part follows from the device's address map. A channel takes a column command a tick at most, or fewer if
its device says so; consecutive writes go to other pseudo-channels, ranks and bank groups, and rows are opened behind
them, so that the slot or the bus is the limit.
"""

from cpsat_pim.compiler.host.hosts import host_of
from cpsat_pim.compiler.language import KernelMistake
from cpsat_pim.device import Device
from cpsat_pim.device.addresses import busiest_channel_bytes

#: Ticks until the first column may be written: a tick, and nRCDWR of the device.
FIRST = 1


def packing_ps(read_bytes: int, moved_bytes: int, channels: int, device: Device) -> int:
    """Picoseconds to read bytes and to write some of them to so many channels, as if nothing overlapped."""
    host = host_of(device)
    spread = busiest_channel_bytes(device, read_bytes) * device.system.channels
    read = -(-spread * 10**12 // int(host.memory_bandwidth * host.memory_efficiency))
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
