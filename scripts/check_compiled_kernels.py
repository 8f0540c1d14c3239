"""Compiles kernels, replays them on published simulators, and compares with Samsung's own kernels.

    python scripts/check_compiled_kernels.py attacc --program attacc_simulator/ramulator2/build/ramulator2
    python scripts/check_compiled_kernels.py hbm-pim --program PIMSimulator/replay
    python scripts/check_compiled_kernels.py gddr6-aim --program aim_simulator/build/ramulator2 \\
        --config aim_simulator/test/example.yaml

`replay` is the program that `check_with_pim_simulators.py` describes; it refreshes always. Samsung's kernels are of
PIMSimulator b464dde, `src/tests/PIMKernel.cpp`, `executeGemv` and `executeEltwise`, which neither write operands to the
banks nor read results: "kernel" leaves the host's reads and writes out of ours, too. AiM's simulator needs a constant
number of ticks more for its end-of-compute instruction and its first command. For AttAcc's Ramulator `--count` random
mappings, as `check_compiled_streams.py` draws them, the optimum of GEMV 4096 x 4096, and attentions with the published
distribution and with ours, in turn with and without power limit and refresh. Ends with 1 if ticks differ otherwise.
"""

import argparse
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from random import Random

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

from cpsat_pim.compiler.attention import Attention, best_attention, lower_attention
from cpsat_pim.compiler.broadcast import best_of_kernel, lowered_of
from cpsat_pim.compiler.language import shipped_kernel
from cpsat_pim.compiler.lowering import lower
from cpsat_pim.compiler.lowering.bank_commands import emit
from cpsat_pim.compiler.lowering.bank_mode import (
    EVEN,
    LEAVE_PIM,
    ODD,
    REGISTER_ROW,
    BankTarget,
    Ints,
    entering,
    leaving,
    run,
)
from cpsat_pim.compiler.lowering.contraction import count_commands
from cpsat_pim.compiler.lowering.program import COMPUTE, HOST_READS, HOST_WRITES, LOADS, MODES, STORES
from cpsat_pim.compiler.mapping import contraction_of
from cpsat_pim.compiler.models.attacc_baseline import attacc_attention
from cpsat_pim.compiler.search import best_mapping
from cpsat_pim.compiler.target import Target, target_of
from cpsat_pim.compiler.traces import aim_trace, attacc_trace, pimsimulator_trace
from cpsat_pim.device import read_device
from cpsat_pim.device.rules import rules_of
from scripts.check_with_pim_simulators import ATTACC
from tables.commands.window import PART
from tests.compiler.drawing import drawn_mapping, shipped_contraction
from tracesim.commands import Stream, simulate

KERNELS = (
    ("gemm", {"B": 1, "N": 1024, "K": 1024}),
    ("gemm", {"B": 1, "N": 4096, "K": 4096}),
    ("gemm", {"B": 1, "N": 5120, "K": 5120}),
    ("gemv", {"B": 64, "N": 512, "K": 128}),
    ("gemv", {"B": 256, "N": 256, "K": 128}),
    ("va", {"B": 1, "N": 1 << 18}),
    ("va", {"B": 1, "N": 1 << 20}),
    ("relu", {"B": 1, "N": 1 << 20}),
    ("mul", {"B": 1, "N": 1 << 20}),
    ("red", {"B": 16, "N": 1 << 16}),
)
AIM_KERNELS = (
    *(("gemm", {"B": 1, "N": n, "K": k}) for n in (1024, 4096, 1000) for k in (512, 1024, 4096, 1531)),
    ("gemm", {"B": 4, "N": 2048, "K": 2048}),
    ("gemv", {"B": 40, "N": 128, "K": 128}),
    ("red", {"B": 16, "N": 1 << 16}),
)
#: Heads of a channel and tokens of attentions for AttAcc; the most commands of a random mapping's stream.
ATTENTIONS = ((1, 512), (2, 2048), (4, 1000), (1, 4096))
MOST = 4000
#: Ticks that aim_simulator reports beyond our finish tick: its end-of-compute instruction.
AIM_OFFSET = 2


def samsungs_gemv(target: BankTarget, outputs: int, depth: int) -> Ints:
    """The runs of `executeGemv`: 64 channels of 8 blocks compute 8 outputs each at a time, 128 inputs are loaded."""
    output_tiles, input_tiles = -(-outputs // (64 * 8 * 8)), -(-depth // (16 * 8))
    runs = entering(target)
    for output in range(output_tiles):
        runs.append(run(MODES, 1, EVEN, REGISTER_ROW, 1, 0))
        for tile in (*range(0, input_tiles, 2), *range(1, input_tiles, 2)):
            runs.append(run(LOADS, 1, ODD, REGISTER_ROW, 8, 8))
            first = 64 * (tile // 2 + output * input_tiles // 2)
            for column in range(first, first + 64, 8):
                runs.append(run(COMPUTE, 0, (EVEN, ODD)[tile % 2], column // 32, 8, column % 32))
        column = output_tiles * input_tiles // 2 * 64 + output * 8
        runs.append(run(STORES, 1, ODD, column // 32, 8, column % 32))
        runs.append(run(MODES, 1, EVEN, REGISTER_ROW, 1, LEAVE_PIM))
    return _stepped([*runs, *leaving(target)])


def samsungs_elementwise(target: BankTarget, points: int, operands: int) -> Ints:
    """The runs of `executeEltwise`: operands and result in rows 0, 128 and 256, even banks, then odd ones."""
    runs = [*entering(target), run(MODES, 1, EVEN, REGISTER_ROW, 1, 0)]
    for tile in range(points // 16 // (16 * 64 * 8)):
        for side in (EVEN, ODD):
            for row in (0, 128)[:operands]:
                runs.append(run(COMPUTE, 0, side, row + tile * 8 // 32, 8, tile * 8 % 32))
            runs.append(run(STORES, 1, side, 256 + tile * 8 // 32, 8, tile * 8 % 32))
    return _stepped([*runs, run(MODES, 1, EVEN, REGISTER_ROW, 1, LEAVE_PIM), *leaving(target)])


def _stepped(runs: list[Ints]) -> Ints:
    table = np.concatenate(runs)
    table[:, 7] = 1  # columns follow each other
    return table


def replay(program: Path, trace: str) -> int | None:
    """The ticks that PIMSimulator takes; none if it gives up three times."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "kernel.trace"
        file.write_text(trace)
        for _ in range(3):
            command = [str(program.resolve()), str(file)]
            done = subprocess.run(command, capture_output=True, text=True, cwd=program.resolve().parent, check=False)
            if found := re.search(r"CYCLES \S+ (\d+)", done.stdout):
                return int(found[1])
    return None


def check_hbm(args: argparse.Namespace) -> int:
    """Compare with PIMSimulator; the number of kernels that differ."""
    device = read_device("hbm-pim")
    target, rules, wrong = BankTarget(device), rules_of(device), 0
    heads = ("ours", "replayed", "kernel", "replayed", "Samsung", "gain")
    print(f"{'kernel':6} {'sizes':34} " + " ".join(f"{head:>9}" for head in heads))
    for name, sizes in KERNELS:
        bound = shipped_kernel(name).bind(sizes)
        lowered = lowered_of(bound, best_of_kernel(bound, device, target.channels).mapping, device)
        host = np.isin(lowered.runs[:, PART], (HOST_READS, HOST_WRITES))
        streams = [emit(target, runs, lowered.banks) for runs in (lowered.runs, lowered.runs[~host])]
        if name == "gemm":
            streams.append(emit(target, samsungs_gemv(target, sizes["N"], sizes["K"]), lowered.banks))
        elif name in ("va", "mul", "relu"):
            operands = 1 if name == "relu" else 2
            streams.append(emit(target, samsungs_elementwise(target, sizes["N"], operands), lowered.banks))
        ours = [simulate(rules, stream, refresh=True).finish for stream in streams]
        foreign = [replay(args.program, pimsimulator_trace(stream, device)) for stream in streams]
        wrong += ours != foreign
        numbers = [ours[0], foreign[0], ours[1], foreign[1], *foreign[2:]]
        gain = f"{foreign[2] / foreign[1]:9.2f}" if len(foreign) > 2 and foreign[1] and foreign[2] else ""
        print(f"{name:6} {_sizes(sizes):34} " + " ".join(f"{number:9}" for number in numbers) + " " + gain, flush=True)
    return wrong


def attacc_streams(target: Target, count: int) -> Iterator[tuple[str, Stream]]:
    """Names and streams: random mappings of at most `MOST` commands, a large GEMV, attentions."""
    draw, found = Random(0), 0
    while found < count:
        kernel = shipped_contraction(draw)
        contraction = contraction_of(kernel, kernel.statements[0])
        mapping = drawn_mapping(draw, contraction, target)
        if count_commands(mapping, contraction, target) <= MOST:
            found += 1
            yield f"{kernel.name}, mapping {found}", lower(mapping, contraction, target).stream
    large = shipped_kernel("gemv").bind({"B": 1, "N": 4096, "K": 4096})
    contraction = contraction_of(large, large.statements[0])
    for channels in (1, 16):
        best = best_mapping(contraction, target, channels, counts=False)
        assert best is not None
        yield f"GEMV 4096 x 4096, {channels} channels", lower(best.mapping, contraction, target).stream
    for heads, tokens in ATTENTIONS:
        attention = Attention(heads, tokens, 128)
        ours = lower_attention(attention, best_attention(attention, target, 1).mapping, target)
        yield f"attention {heads} x {tokens}, published", attacc_attention(heads, tokens, 128, target)
        yield f"attention {heads} x {tokens}, compiled", ours


def check_attacc(args: argparse.Namespace) -> int:
    """Compare with AttAcc's Ramulator; the number of streams that differ."""
    wrong = done = 0
    for name in ("attacc", "attacc-no-power-limit"):
        target = target_of(read_device(name))
        timing = "HBM3_5.2Gbps" if name == "attacc" else "HBM3_5.2Gbps_NPC"
        for number, (label, stream) in enumerate(attacc_streams(target, args.count // 2)):
            refresh = number % 2 == 0
            ours = simulate(target.rules, stream, refresh=refresh).finish
            with tempfile.TemporaryDirectory() as folder:
                trace, config = Path(folder) / "a.trace", Path(folder) / "a.yaml"
                trace.write_text(attacc_trace(stream, target.device))
                config.write_text(ATTACC.format(path=trace, timing=timing, refresh="AllBankHBM3" if refresh else "No"))
                command = [str(args.program), "-f", str(config)]
                text = subprocess.run(command, capture_output=True, text=True, check=False).stdout
            match = re.search(r"memory_system_cycles: (\d+)", text)
            foreign = int(match[1]) if match else -1
            wrong, done = wrong + (foreign != ours), done + 1
            if foreign != ours or "mapping" not in label:
                print(f"{name}: {label}, refresh {refresh}: ours {ours}, Ramulator {foreign}", flush=True)
    print(f"{done - wrong} of {done} streams take the same ticks")
    return wrong


def check_aim(args: argparse.Namespace) -> int:
    """Compare with aim_simulator; the number of kernels that differ."""
    device, wrong = read_device("gddr6-aim"), 0
    for name, sizes in AIM_KERNELS:
        bound = shipped_kernel(name).bind(sizes)
        best = best_of_kernel(bound, device, device.system.groups)
        stream = lowered_of(bound, best.mapping, device).program.stream
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "kernel.trace"
            file.write_text(aim_trace(stream, device))
            command = [str(args.program), "-f", str(args.config), "-t", str(file)]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
        found = re.search(r"memory_system_cycles: (\d+)", done.stdout)
        foreign = int(found[1]) if found else -1
        wrong += foreign - best.ticks != AIM_OFFSET
        print(f"{name:6} {_sizes(sizes):34} ours {best.ticks:7}, aim_simulator {foreign:7}", flush=True)
    return wrong


def _sizes(sizes: dict[str, int]) -> str:
    return ", ".join(f"{key}={value}" for key, value in sizes.items())


def main() -> int:
    """Compare; the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("device", choices=("attacc", "hbm-pim", "gddr6-aim"))
    parser.add_argument("--program", type=Path, required=True)
    parser.add_argument("--config", type=Path, help="configuration of aim_simulator")
    parser.add_argument("--count", type=int, default=100, help="random mappings for AttAcc's Ramulator")
    args = parser.parse_args()
    checks = {"attacc": check_attacc, "hbm-pim": check_hbm, "gddr6-aim": check_aim}
    return int(checks[args.device](args) > 0)


if __name__ == "__main__":
    sys.exit(main())
