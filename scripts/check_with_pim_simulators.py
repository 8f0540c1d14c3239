"""Replays random command streams on published PIM simulators and compares the ticks with ours.

    python scripts/check_with_pim_simulators.py attacc --program attacc_simulator/ramulator2/build/ramulator2 --count 50
    python scripts/check_with_pim_simulators.py hbm-pim --program PIMSimulator/replay --count 100
    python scripts/check_with_pim_simulators.py gddr6-aim --program aim_simulator/build/ramulator2 --count 12 \\
        --config aim_simulator/test/example.yaml

The streams are those of `tests/tracesim/commands/streams.py`. AttAcc's and AiM's Ramulator are run as published.
PIMSimulator is a library: `replay` is a program around it that reads `R|W|P|H rank bankgroup bank row column` and `B`
(barrier) lines of each file given (P and H write the registers that begin and end PIM mode), adds all transactions to
one channel of two ranks, runs it, and prints `CYCLES file ticks`. With `--goldens FILE` the foreign ticks are written
to a file for the tests, with the source that `--source` names. PIMSimulator ends without a result now and then and is
run again then; a stream that a simulator gives up three times is passed over. Ends with 1 if the difference is not the
constant that is expected.
"""

import argparse
import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from cpsat_pim.device import Device, read_device
from cpsat_pim.device.rules import rules_of
from tests.tracesim.commands.streams import BARRIER, GENERATORS, Access, to_stream
from tracesim.commands import simulate

#: Ticks that a simulator reports beyond our finish tick. AiM: its end-of-compute instruction.
OFFSETS = {"attacc": 0, "hbm-pim": 0, "gddr6-aim": 2}
ATTEMPTS = 3

ATTACC = """
Frontend:
  impl: PIMLoadStoreTrace
  path: {path}
  clock_ratio: 1
  Translation: {{impl: NoTranslation, max_addr: 2147483648}}
MemorySystem:
  impl: PIMDRAM
  clock_ratio: 1
  DRAM: {{impl: HBM3-PIM, org: {{preset: HBM3_8Gb_2R, channel: 1}}, timing: {{preset: {timing}}}}}
  Controller: {{impl: HBM3-PIM, Scheduler: {{impl: PIM}}, RefreshManager: {{impl: {refresh}}}, plugins: }}
  AddrMapper: {{impl: HBM3-PIM}}
"""
_ATTACC_NAMES = {"MACAB": "MAC_AB", "WRGB": "WR_GB", "MVGB": "MV_GB", "MVSB": "MV_SB", "SFM": "SFM"}
_AIM_NAMES = {"WRGB": "WR_GB", "MAC16": "MAC_ABK", "WRMAC16": "WR_BIAS", "RDMAC16": "RD_MAC"}


def attacc_line(access: Access) -> str:
    """Return a line of an AttAcc trace: the address is pseudo-channel, rank, bank group, bank, row, column."""
    if access == BARRIER:
        return "PIM_BARRIER 0x0"
    pseudochannel, rank, bankgroup, bank, _ = access.coords
    address = ((pseudochannel * 2 + rank) * 4 + bankgroup) * 4 + bank
    return f"PIM_{_ATTACC_NAMES[access.kind]} {hex(((address * 16384 + access.row) * 32 + access.column) << 5)}"


def run_attacc(program: Path, folder: Path, accesses: list[Access], seed: int) -> tuple[str, bool, int | None]:
    """Run AttAcc's Ramulator; return the device, whether it refreshes, and the ticks. The seed chooses both."""
    limited, refresh = seed % 2 == 0, seed // 2 % 2 == 0
    trace, config = folder / "a.trace", folder / "a.yaml"
    trace.write_text("".join(attacc_line(access) + "\n" for access in accesses))
    timing = "HBM3_5.2Gbps" if limited else "HBM3_5.2Gbps_NPC"
    config.write_text(ATTACC.format(path=trace, timing=timing, refresh="AllBankHBM3" if refresh else "No"))
    ticks = _number(r"memory_system_cycles: (\d+)", [str(program), "-f", str(config)])
    return ("attacc" if limited else "attacc-no-power-limit"), refresh, ticks


def hbm_line(access: Access) -> str:
    """Return a line for the replay of PIMSimulator."""
    if access == BARRIER:
        return "B"
    rank, bankgroup, block, side = access.coords
    modes = {0: "P", 1: "H"} if access.row == 0x3FFF else {}
    letter = modes.get(access.column, "R" if access.kind.endswith("RD") else "W")
    column = 0 if letter == "H" else access.column
    return f"{letter} {rank} {bankgroup} {block * 2 + side} {access.row} {column}"


def run_hbm(program: Path, folder: Path, accesses: list[Access], seed: int) -> tuple[str, bool, int | None]:
    """Run PIMSimulator, which refreshes always."""
    trace = folder / "a.trace"
    trace.write_text("".join(hbm_line(access) + "\n" for access in accesses))
    ticks = _number(r"CYCLES \S+ (\d+)", [str(program.resolve()), str(trace)], cwd=program.resolve().parent)
    return "hbm-pim", True, ticks


def aim_lines(accesses: list[Access]) -> Iterator[str]:
    """Yield the instructions of an AiM trace for one channel; consecutive columns are one instruction."""
    i = 0
    while i < len(accesses):
        kind, row, size = accesses[i].kind, accesses[i].row, 1
        while kind in ("WRGB", "MAC16") and accesses[i + size : i + size + 1] == [
            accesses[i]._replace(column=accesses[i].column + size)
        ]:
            size += 1
        counted = {"WRGB": f"{size} 0 1", "MAC16": f"{size} 1 {row}"}.get(kind, "0 1")
        yield f"AiM {_AIM_NAMES[kind]} {counted}"
        i += size
    yield "AiM EOC"


def run_aim(program: Path, config: Path, folder: Path, accesses: list[Access]) -> tuple[str, bool, int | None]:
    """Run aim_simulator, which has no refresh for this device."""
    trace = folder / "a.trace"
    trace.write_text("".join(line + "\n" for line in aim_lines(accesses)))
    ticks = _number(r"memory_system_cycles: (\d+)", [str(program), "-f", str(config), "-t", str(trace)])
    return "gddr6-aim", False, ticks


def _number(pattern: str, command: list[str], cwd: Path | None = None) -> int | None:
    """Run a program and return the number that it prints; none if it gives the stream up.

    Raises:
        SystemExit: it cannot be run.
    """
    for _ in range(ATTEMPTS):
        try:
            done = subprocess.run(command, capture_output=True, text=True, cwd=cwd, check=False)
        except OSError as error:
            sys.exit(f"{command[0]}: cannot be run: {error.strerror}")
        if found := re.search(pattern, done.stdout):
            return int(found[1])
    return None


def compare(args: argparse.Namespace, generator: str) -> Iterator[dict[str, Any]]:
    """Yield one record for each stream; print those that differ."""
    _, generate = GENERATORS[generator]
    devices: dict[str, Device] = {}
    with tempfile.TemporaryDirectory() as name:
        for seed in range(args.seed, args.seed + args.count):
            accesses, folder = generate(seed), Path(name)
            if args.device == "gddr6-aim":
                device, refresh, foreign = run_aim(args.program, args.config, folder, accesses)
            else:
                replay = run_attacc if args.device == "attacc" else run_hbm
                device, refresh, foreign = replay(args.program, folder, accesses, seed)
            if foreign is None:
                print(f"{generator} {seed} on {device}: the simulator gives it up")
                continue
            known = devices.setdefault(device, read_device(device))
            ours = simulate(rules_of(known), to_stream(known, accesses), refresh).finish
            if foreign - ours != OFFSETS[args.device]:
                print(f"{generator} {seed} on {device}: {foreign} ticks, ours {ours}, {len(accesses)} commands")
            run = {"generator": generator, "seed": seed, "device": device, "refresh": refresh}
            yield {**run, "ticks": foreign, "ours": ours}


def main() -> None:
    """Compare, and write goldens if asked."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("device", choices=sorted(OFFSETS))
    parser.add_argument("--program", type=Path, required=True)
    parser.add_argument("--config", type=Path, help="configuration of aim_simulator")
    parser.add_argument("--count", type=int, default=20, help="streams of each kind")
    parser.add_argument("--seed", type=int, default=0, help="first seed")
    parser.add_argument("--goldens", type=Path, help="write the foreign ticks to this file")
    parser.add_argument("--source", help="project and commit of the simulator, for the goldens")
    args = parser.parse_args()
    records = [
        record for name, (device, _) in GENERATORS.items() if device == args.device for record in compare(args, name)
    ]
    offset = OFFSETS[args.device]
    wrong = sum(record["ticks"] != record["ours"] + offset for record in records)
    print(f"{len(records) - wrong} of {len(records)} streams agree (expected difference {offset})")
    if args.goldens:
        runs = [{key: value for key, value in record.items() if key != "ours"} for record in records]
        lines = ",\n".join(json.dumps(run) for run in runs)
        head = f'"source": {json.dumps(args.source)}, "offset": {offset}, "runs": [\n'
        args.goldens.write_text(f"{{{head}{lines}\n]}}\n")
    sys.exit(wrong > 0)


if __name__ == "__main__":
    main()
