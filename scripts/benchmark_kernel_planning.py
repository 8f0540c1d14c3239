"""CPU time in which the best mapping of one kernel is found and proven, kernels compiled, as a Markdown table.

    python scripts/benchmark_kernel_planning.py [--devices attacc hbm-pim] [--repeat 5]

A matrix-vector product is GEMV with B matrices (keys of heads) or GEMM with one matrix and B vectors. Measured are
lowering to a contraction, space, bounds, walks and the proof, without simulation and execution on numbers.
"""

import argparse
import statistics
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from cpsat_pim.compiler.broadcast import best_of_kernel
from cpsat_pim.compiler.compile import is_attacc_like
from cpsat_pim.compiler.language import Kernel, shipped_kernel
from cpsat_pim.compiler.mapping import contraction_of
from cpsat_pim.compiler.search.objective import best_by
from cpsat_pim.compiler.target import target_of
from cpsat_pim.device import Device, read_device

DEVICES = ("attacc", "hbm-pim", "hbm-pim-hbm3", "gddr6-aim", "upmem")
#: Heads of an attention, layers of GPT-3 13B, Samsung's sizes, an odd one, and a small batch.
SHAPES = (
    ("gemv", {"B": 32, "N": 512, "K": 128}),
    ("gemv", {"B": 32, "N": 4096, "K": 128}),
    ("gemv", {"B": 160, "N": 2048, "K": 128}),
    ("gemm", {"B": 1, "N": 1024, "K": 1024}),
    ("gemm", {"B": 1, "N": 1009, "K": 3001}),
    ("gemm", {"B": 1, "N": 4096, "K": 4096}),
    ("gemm", {"B": 1, "N": 5120, "K": 5120}),
    ("gemm", {"B": 1, "N": 20480, "K": 5120}),
    ("gemm", {"B": 4, "N": 5120, "K": 5120}),
)


def planned(kernel: Kernel, device: Device) -> tuple[int, int, int]:
    """Ticks of the best mapping; how many mappings there are, and how many were walked."""
    if is_attacc_like(device):
        answer = best_by("time", contraction_of(kernel, kernel.statements[0]), target_of(device))
        if answer is None:
            return 0, 0, 0
        return answer.optimum.ticks, answer.optimum.mappings, answer.optimum.walked
    best = best_of_kernel(kernel, device, device.system.channels)
    return best.ticks, best.mappings, best.walked


def median_ms(kernel: Kernel, device: Device, repeat: int) -> float:
    """Median CPU milliseconds of so many runs."""
    spent = []
    for _ in range(repeat):
        begun = time.process_time()
        planned(kernel, device)
        spent.append(1000 * (time.process_time() - begun))
    return statistics.median(spent)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--devices", nargs="+", default=list(DEVICES))
    parser.add_argument("--repeat", type=int, default=5)
    args = parser.parse_args()
    print("| device | kernel | ticks | mappings | walked | CPU ms |\n|---|---|---|---|---|---|")
    for name in args.devices:
        device = read_device(name)
        for kernel_name, sizes in SHAPES:
            kernel = shipped_kernel(kernel_name).bind(sizes)
            try:
                ticks, mappings, walked = planned(kernel, device)
            except ValueError as error:
                print(f"| {name} | {kernel_name} {sizes} | {error} | | | |", flush=True)
                continue
            spent = median_ms(kernel, device, args.repeat)
            shape = " x ".join(map(str, sizes.values()))
            print(f"| {name} | {kernel_name} {shape} | {ticks} | {mappings} | {walked} | {spent:.1f} |", flush=True)


if __name__ == "__main__":
    main()
