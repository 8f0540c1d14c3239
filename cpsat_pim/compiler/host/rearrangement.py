"""Packing a matrix for the banks: the host reads it and writes it to all channels (DCC, section IV-C.I).

The host's on-chip memory holds a block for every channel. Blocks are read one after another at the memory's bandwidth,
then written to all channels at once. A channel takes a column command a tick at most; consecutive writes go to other
pseudo-channels, ranks and bank groups, and rows are opened behind them, so that the slot is the limit.
"""

from cpsat_pim.compiler.host.hosts import Host

#: Ticks until the first column may be written: a tick, and nRCDWR of the device.
FIRST = 1


def packing_ps(read_bytes: int, moved_bytes: int, channels: int, column_bytes: int, tick_ps: int, host: Host) -> int:
    """Picoseconds to read bytes and to write some of them to so many channels, as if nothing overlapped."""
    read = -(-read_bytes * 10**12 // int(host.memory_bandwidth * host.memory_efficiency))
    return int(read + write_ticks(moved_bytes, channels, column_bytes) * tick_ps)


def write_ticks(moved_bytes: int, channels: int, column_bytes: int) -> int:
    """Ticks in which every channel receives its part: a column a tick."""
    return FIRST + -(-moved_bytes // (channels * column_bytes))
