"""Counts row activations with DRAMsim3 (github.com/umd-memsys/DRAMsim3) and holds them against the simulated ones.

    python scripts/check_with_dramsim3.py RESULT.json --program DRAMsim3/build/dramsim3main [--layers A,B]

For each mapping of a results or mapping file it writes the trace and a configuration of the machine's rows, columns and
banks, runs DRAMsim3 (open page, no refresh, one access at a time), and prints a line. Ends with 1 if a count differs.
"""

import argparse
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from attrs import evolve

from cpsat_pim.cli.arguments import row_bits
from cpsat_pim.evaluate.verify import simulate
from cpsat_pim.export.dramtrace import DEFAULT_GAP, DEFAULT_ROW_BITS, AddressMap, write_trace
from cpsat_pim.report.jsonfile import MappedLayer, read_mapped_layers

BURST = 4
CONFIGURATION = """
[dram_structure]
protocol = HBM
bankgroups = 4
banks_per_group = {banks_per_group}
rows = {rows}
columns = {columns}
device_width = {width}
BL = {burst}
[timing]
tREFI = 2147483647
[system]
channel_size = {mebibytes}
channels = 1
bus_width = {width}
address_mapping = chrabgbaroco
queue_structure = PER_BANK
row_buf_policy = OPEN_PAGE
unified_queue = true
[other]
output_level = 1
"""


def configuration(addresses: AddressMap) -> str:
    """One rank whose address fields are those of a trace."""
    banks_per_group = max(4, 2**addresses.bank_bits // 4)
    bits = addresses.row_bits + addresses.column_bits + addresses.byte_bits
    return CONFIGURATION.format(
        banks_per_group=banks_per_group,
        rows=2**addresses.row_bits,
        columns=2**addresses.column_bits * BURST // 2,  # of HBM's prefetch of two
        width=8 * 2**addresses.byte_bits // BURST,
        burst=BURST,
        mebibytes=4 * banks_per_group * 2**bits >> 20,
    )


def counted(case: MappedLayer, program: str, directory: Path, bits: int) -> tuple[int, int]:
    """Column accesses and row activations that DRAMsim3 counts."""
    trace, config = directory / "trace", directory / "dram.ini"
    with trace.open("w", encoding="ascii") as file:
        addresses = write_trace(case.layer, case.arch, case.mapping, "dramsim3", file, row_bits=bits)
    config.write_text(configuration(addresses), encoding="ascii")
    with trace.open("rb") as lines:
        cycles = DEFAULT_GAP * (sum(1 for _ in lines) + 10)
    command = [program, str(config), "-t", str(trace), "-c", str(cycles), "-o", str(directory)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    text = (directory / "dramsim3.txt").read_text(encoding="utf-8")
    found = {key: int(value) for key, value in re.findall(r"^(num_\w+_cmds)\s*=\s*(\d+)", text, re.MULTILINE)}
    return found["num_read_cmds"] + found["num_write_cmds"], found["num_act_cmds"]


def main() -> int:
    """A line a layer."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file")
    parser.add_argument("--program", default="dramsim3main")
    parser.add_argument("--layers", default="")
    parser.add_argument("--row-bits", type=row_bits, default=DEFAULT_ROW_BITS, help="bits of an address for the row")
    arguments = parser.parse_args()
    cases = {case.layer.name: case for case in read_mapped_layers(arguments.file)}
    wanted = [name for name in arguments.layers.split(",") if name] or [*cases]
    if unknown := [name for name in wanted if name not in cases]:
        raise ValueError(f"{arguments.file}: has no mapping of {', '.join(unknown)}")
    differs = False
    for case in map(cases.__getitem__, wanted):
        figures = simulate(case.layer, evolve(case.arch, page_policy="open"), case.mapping)
        ours = (sum(figures.column_accesses), sum(figures.row_activations))
        with tempfile.TemporaryDirectory() as directory:
            theirs = counted(case, arguments.program, Path(directory), arguments.row_bits)
        says = "equal" if theirs == ours else f"DIFFERENT: simulated {ours[0]:,} and {ours[1]:,}"
        print(f"{case.layer.name}: {theirs[0]:,} columns, {theirs[1]:,} activations: {says}", flush=True)
        differs |= theirs != ours
    return int(differs)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (ValueError, OSError, subprocess.CalledProcessError) as error:
        sys.exit(f"check_with_dramsim3: {error}")
