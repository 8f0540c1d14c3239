"""Write the configurations with which DRAMsim3 and Ramulator 2 read a trace of a machine (docs/export.md)."""

from collections.abc import Callable

from cpsat_pim.arch import DramTimings
from cpsat_pim.export.dramtrace import AddressMap

#: Both simulators number rows with 32-bit signed integers.
_MOST_ROW_BITS = 30

#: DRAMsim3 counts a bank's bytes in MiB, and rows in units of 1024.
_MEBIBYTE_BITS, _LEAST_ROW_BITS = 20, 10

#: Bank groups of both configurations; neither simulator is given fewer banks than four groups of four.
_GROUPS = 4

_DRAMSIM3 = """\
; {addresses}
[dram_structure]
protocol = DDR4
bankgroups = {groups}
banks_per_group = {banks_per_group}
rows = {rows}
columns = {columns}
device_width = {width}
BL = {burst}
[timing]
CL = {RL}
CWL = {WL}
tRCD = {tRCDRD}
tRP = {tRP}
tRAS = {tRAS}
tRTP = {tRTP}
tCCD_S = {tCCD_L}
tCCD_L = {tCCD_L}
; no refresh
tREFI = 2147483647
[system]
; one rank: more would take bits of the address
channel_size = {mebibytes}
channels = 1
bus_width = {width}
address_mapping = chrabgbaroco
queue_structure = PER_BANK
row_buf_policy = OPEN_PAGE
; else writes wait until there are many
unified_queue = true
[other]
; 1 writes dramsim3.txt; an epoch longer than the run keeps it from growing
output_level = 1
epoch_period = 2147483647
"""

_RAMULATOR2 = '''\
"""{addresses}.

Run with Ramulator 2.1's Python package; prints what it counts.
"""

import pathlib
import tempfile

import ramulator as r

TRACE = {trace!r}


class Dram(r.dram.HBM2):
    """HBM2 whose transactions have the bytes of the machine's columns."""

    data_payload_bytes = {column_bytes}


dram = Dram(
    org_preset="HBM2_8Gb",
    timing_preset="HBM2_2000Mbps",
    bankgroup={groups},
    bank={banks_per_group},
    row={rows},
    column={columns},
    nCL={RL},
    nCWL={WL},
    nRCDRD={tRCDRD},
    nRCDWR={tRCDRD},
    nRP={tRP},
    nRAS={tRAS},
    nRC={tRC},
    nRTPL={tRTP},
    nCCDS={tCCD_L},
    nCCDL={tCCD_L},
    nBL={burst_cycles},
)
with tempfile.TemporaryDirectory() as folder:
    # A simulation ends when the last access is sent: it is sent twice, so that the first is counted.
    lines = pathlib.Path(TRACE).read_text()
    trace, counts = pathlib.Path(folder, "trace"), pathlib.Path(folder, "counts")
    trace.write_text(lines + lines.splitlines()[-1] + "\\n")
    controller = r.controller.HBM12(
        dram=dram,
        scheduler=r.scheduler.FRFCFSRowHit(),
        refresh_manager=r.refresh_manager.NoRefresh(),
        row_policy=r.row_policy.Open(),
        addr_mapper=r.addr_mapper.ChRaBaRoCo(),
        controller_plugins=[
            r.controller_plugin.CommandCounter(commands_to_count=["ACT", "RD", "WR"], path=str(counts))
        ],
    )
    memory = r.memory_system.GenericDRAM(
        clock_ratio={gap},  # memory cycles to an access
        controllers=[controller],
        channel_mapper=r.channel_mapper.CacheLineInterleave(),
    )
    simulation = r.Simulation(r.frontend.LoadStoreTrace(clock_ratio=1, path=str(trace)), memory)
    simulation.run()
    print("cycles,", simulation.stats["memory_system"]["controller"]["cycles"])
    simulation.finalize()
    print(counts.read_text(), end="")
'''


def dramsim3_configuration(addresses: AddressMap, timings: DramTimings, trace: str, gap: int) -> str:
    """Return the `.ini` of one rank whose address fields are those of a trace.

    DRAMsim3 computes tRC as tRAS + tRP, so tRAS is as long as tRC requires. A column is a burst of at most four beats,
    so that each beat has at least a byte.

    Raises:
        ValueError: DRAMsim3 cannot have that few or that many rows.
    """
    row_bytes_bits = addresses.column_bits + addresses.byte_bits
    least = max(_LEAST_ROW_BITS, _MEBIBYTE_BITS - row_bytes_bits)
    if not least <= addresses.row_bits <= _MOST_ROW_BITS:
        raise ValueError(
            f"--row-bits: DRAMsim3 takes {least} to {_MOST_ROW_BITS} for rows of 2^{row_bytes_bits} bytes "
            f"(got {addresses.row_bits})"
        )
    burst = min(4, 2**addresses.byte_bits)
    banks_per_group = _banks_per_group(addresses)
    bits = addresses.row_bits + row_bytes_bits - _MEBIBYTE_BITS
    return _DRAMSIM3.format(
        addresses=addresses,
        groups=_GROUPS,
        banks_per_group=banks_per_group,
        rows=2**addresses.row_bits,
        columns=2**addresses.column_bits * burst,
        width=8 * 2**addresses.byte_bits // burst,
        burst=burst,
        mebibytes=_GROUPS * banks_per_group << bits,
        RL=timings.RL,
        WL=timings.WL,
        tRCDRD=timings.tRCDRD,
        tRP=timings.tRP,
        tRAS=max(timings.tRAS, timings.tRC - timings.tRP),
        tRTP=timings.tRTP,
        tCCD_L=timings.tCCD_L,
    )


def ramulator2_program(addresses: AddressMap, timings: DramTimings, trace: str, gap: int) -> str:
    """Return a Python program that runs the trace of this path through Ramulator 2.1 and prints what it counts.

    HBM2 has a prefetch of four, so a row has four times as many of its columns as it has transactions.

    Raises:
        ValueError: Ramulator cannot have that many rows.
    """
    if addresses.row_bits > _MOST_ROW_BITS:
        raise ValueError(f"--row-bits: Ramulator 2 takes at most {_MOST_ROW_BITS} (got {addresses.row_bits})")
    return _RAMULATOR2.format(
        addresses=addresses,
        trace=trace,
        column_bytes=2**addresses.byte_bits,
        groups=_GROUPS,
        banks_per_group=_banks_per_group(addresses),
        rows=2**addresses.row_bits,
        columns=4 * 2**addresses.column_bits,
        gap=max(1, gap),
        RL=timings.RL,
        WL=timings.WL,
        tRCDRD=timings.tRCDRD,
        tRP=timings.tRP,
        tRAS=timings.tRAS,
        tRC=timings.tRC,
        tRTP=timings.tRTP,
        tCCD_L=timings.tCCD_L,
        burst_cycles=max(1, timings.burst_cycles),
    )


def _banks_per_group(addresses: AddressMap) -> int:
    """Return the banks of each of the four groups: room for all banks that the trace names."""
    return max(_GROUPS, (1 << addresses.bank_bits) // _GROUPS)


#: The writers by the format of the trace; they take the address map, the timings, the trace's path, and the gap.
CONFIGURATIONS: dict[str, Callable[[AddressMap, DramTimings, str, int], str]] = {
    "dramsim3": dramsim3_configuration,
    "ramulator2": ramulator2_program,
}
