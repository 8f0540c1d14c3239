"""Compares the DRAM time of streams whose tensors share one bank with the cycles of Ramulator 2.1.

    python scripts/check_stream_cycles.py --program VENV/bin/python --count 6

The program is a Python in which Ramulator's package `ramulator` can be imported (github.com/CMU-SAFARI/ramulator2). For
each preset it draws legal mappings of small layers whose tensors share one bank, and gives the merged stream of all
tensors to Ramulator in request order: all accesses are reads, as the model times writes like reads, and the read queue
has one place, so that nothing is reordered. Ramulator ends when the last access is sent, which may be before its row is
opened; so the last column is read `REPEATED` times more. Its data is not awaited. So cycles differ by one constant of
the machine. All times are multiplied by `SCALE`, so that the place in the queue is free again before the next column
may be read.

Prints a row per preset. Ends with 1 if the difference is not the same in all streams of a preset.
"""

import argparse
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import attrs
from compare_banks import LEAST_COLUMN, drawn, with_node_banks

from cpsat_pim.arch import PIMArchitecture
from cpsat_pim.arch.reading import arch_names, read_arch
from cpsat_pim.base.dims import Level
from cpsat_pim.evaluate.cost import predict
from cpsat_pim.evaluate.verify import MappedLayer
from cpsat_pim.export.dramtrace import DEFAULT_ROW_BITS, write_trace
from cpsat_pim.export.simulators import CONFIGURATIONS

#: Cycles of Ramulator to one of ours.
SCALE = 4
#: Times that the last column is read again at the end.
REPEATED = 4


def with_scaled_times(arch: PIMArchitecture) -> PIMArchitecture:
    """Return the machine with one bank for all tensors, and with all times of the DRAM multiplied by `SCALE`."""
    names = ("RL", "WL", "tRCDRD", "tRP", "tRAS", "tRC", "tRTP", "tCCD_L", "BL")
    old = arch.dram_timings
    times = {name: SCALE * getattr(old, name) for name in names}
    plain = {name: None for name in attrs.fields_dict(type(old)) if name not in (*names, "co_w")}
    dram = attrs.evolve(arch.hierarchy[Level.DRAM], num_banks=1)
    return attrs.evolve(
        arch,
        dram_timings=attrs.evolve(old, **times, **plain),
        hierarchy=(*arch.hierarchy[: Level.DRAM], dram),
        page_policy="open",
        node_banks=1,
    )


def cycles_of_ramulator2(program: str, case: MappedLayer) -> int:
    """Return the cycle in which Ramulator has sent the last access of a mapping's stream."""
    with tempfile.TemporaryDirectory() as directory:
        trace, configuration = Path(directory, "trace"), Path(directory, "run.py")
        with trace.open("w", encoding="ascii") as file:
            addresses = write_trace(case.layer, case.arch, case.mapping, "ramulator2", file, row_bits=DEFAULT_ROW_BITS)
        lines = trace.read_text(encoding="ascii").replace("ST ", "LD ").splitlines(keepends=True)
        trace.write_text("".join([*lines, *lines[-1:] * REPEATED]), encoding="ascii")
        text = CONFIGURATIONS["ramulator2"](addresses, case.arch.dram_timings, str(trace), 1)
        one_place = text.replace("        dram=dram,\n", "        dram=dram,\n        read_buffer_size=1,\n")
        configuration.write_text(one_place, encoding="utf-8")
        printed = subprocess.run([program, str(configuration)], check=True, capture_output=True, text=True).stdout
    (cycles,) = re.findall(r"^cycles, (\d+)", printed, re.MULTILINE)
    return int(cycles)


def main() -> int:
    """Print a row per preset."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default=sys.executable)
    parser.add_argument("--count", type=int, default=6, help="mappings of each preset")
    parser.add_argument("--presets", default="", help="presets, separated by commas; all if absent")
    args = parser.parse_args()
    differs = False
    print(f"{'machine':20}{'streams':>8}{'columns':>10}{'activations':>13}{'cycles here':>13}{'difference':>12}")
    for name in args.presets.split(",") if args.presets else arch_names():
        arch = with_scaled_times(with_node_banks(read_arch(name)))
        if arch.column_bytes < LEAST_COLUMN:
            continue
        columns = activations = cycles = 0
        found = set()
        for case in drawn(arch, args.count):
            figures = predict(case.layer, case.arch, case.mapping).figures
            columns += sum(figures.column_accesses)
            activations += sum(figures.row_activations)
            cycles += figures.dram_cycles
            found.add(figures.dram_cycles - cycles_of_ramulator2(args.program, case))
        differs |= len(found) > 1
        between = f"{min(found):,} to {max(found):,}" if len(found) > 1 else f"{min(found):,}"
        print(f"{name:20}{args.count:>8}{columns:>10,}{activations:>13,}{cycles:>13,}{between:>12}", flush=True)
    return int(differs)


if __name__ == "__main__":
    sys.exit(main())
