"""Counts row activations with DRAMsim3 (github.com/umd-memsys/DRAMsim3) and holds them against the simulated ones.

    python scripts/check_with_dramsim3.py RESULT.json --program DRAMsim3/build/dramsim3main [--layers A,B]

For each mapping of a results or mapping file it writes the trace and a configuration of the machine's rows, columns,
banks and timings, runs DRAMsim3 (open page, no refresh, one access at a time), and prints a line. Ends with 1 if a
count differs. `check_with_ramulator2.py` does the same with Ramulator 2.
"""

import argparse
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from attrs import evolve

from cpsat_pim.cli.arguments import row_bits
from cpsat_pim.evaluate.verify import simulate
from cpsat_pim.export.dramtrace import DEFAULT_GAP, DEFAULT_ROW_BITS, write_trace
from cpsat_pim.export.simulators import CONFIGURATIONS
from cpsat_pim.report.jsonfile import MappedLayer, read_mapped_layers

#: Runs a simulator on a trace and its configuration; returns columns and activations.
Count = Callable[[str, Path, Path], tuple[int, int]]


def count_with_dramsim3(program: str, trace: Path, configuration: Path) -> tuple[int, int]:
    """Return the columns and activations that DRAMsim3 counts; it runs until the last access is served."""
    with trace.open("rb") as lines:
        cycles = DEFAULT_GAP * (sum(1 for _ in lines) + 10)
    command = [program, str(configuration), "-t", str(trace), "-c", str(cycles), "-o", str(trace.parent)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    text = (trace.parent / "dramsim3.txt").read_text(encoding="utf-8")
    found = {key: int(value) for key, value in re.findall(r"^(num_\w+_cmds)\s*=\s*(\d+)", text, re.MULTILINE)}
    return found["num_read_cmds"] + found["num_write_cmds"], found["num_act_cmds"]


def counted(case: MappedLayer, style: str, count: Count, program: str, bits: int) -> tuple[int, int]:
    """Return the columns and activations that a simulator counts for a mapping."""
    with tempfile.TemporaryDirectory() as directory:
        trace, configuration = Path(directory, "trace"), Path(directory, "configuration")
        with trace.open("w", encoding="ascii") as file:
            addresses = write_trace(case.layer, case.arch, case.mapping, style, file, row_bits=bits)
        text = CONFIGURATIONS[style](addresses, case.arch.dram_timings, str(trace), DEFAULT_GAP)
        configuration.write_text(text, encoding="utf-8")
        return count(program, trace, configuration)


def compare(parser: argparse.ArgumentParser, style: str, count: Count) -> int:
    """Read the command line, and print a line a layer. Return 1 if a count differs."""
    parser.add_argument("file")
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
        theirs = counted(case, style, count, arguments.program, arguments.row_bits)
        says = "equal" if theirs == ours else f"DIFFERENT: simulated {ours[0]:,} and {ours[1]:,}"
        name = f"{case.arch.name} {case.layer.name}"
        print(f"{name}: {theirs[0]:,} columns, {theirs[1]:,} activations: {says}", flush=True)
        differs |= theirs != ours
    return int(differs)


def main() -> int:
    """Compare with DRAMsim3."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default="dramsim3main")
    return compare(parser, "dramsim3", count_with_dramsim3)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (ValueError, OSError, subprocess.CalledProcessError) as error:
        sys.exit(f"check_with_dramsim3: {error}")
