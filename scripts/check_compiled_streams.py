"""Compares walk and simulator on random mappings of random contractions, without refresh.

    python scripts/check_compiled_streams.py --device attacc --count 100000 --seed 0

Sizes have primes among them. Ends with 1 and prints the mapping at the first difference.
"""

import argparse
import random
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from cpsat_pim.compiler.language import shipped_kernel
from cpsat_pim.compiler.lowering import lower
from cpsat_pim.compiler.mapping import Contraction, Mapping, contraction_of
from cpsat_pim.compiler.target import Target, target_of
from cpsat_pim.device import read_device
from cpsat_pim.device.rules import rules_of
from tracesim.commands import simulate

EXTENTS = (1, 2, 3, 5, 7, 16, 17, 31, 33, 64, 97, 128, 250, 257, 512)


def random_contraction(draw: random.Random) -> Contraction:
    """A shipped kernel with random sizes."""
    kernel = shipped_kernel(draw.choice(("gemv", "gemm", "red", "context")))
    bound = kernel.bind({name: draw.choice(EXTENTS if name != "B" else EXTENTS[:6]) for name in kernel.sizes})
    return contraction_of(bound, bound.statements[0])


def random_mapping(draw: random.Random, contraction: Contraction, target: Target) -> Mapping:
    """A mapping that the device can run."""
    while True:
        mapping = Mapping(
            splits=tuple(draw.choice((1, 1, 2, 3)) for _ in range(4)),
            owners=tuple(draw.randint(-1, 3) for _ in target.axes),
            is_tree=draw.random() < 0.5,
            output_tile=draw.choice((1, 2)),
            depth_tile=draw.choice((1, 2, 3, 4, 8, 16)),
            order=draw.choice(("output-stationary", "input-stationary")),
            overlaps_drains=draw.random() < 0.5,
            overlaps_loads=draw.random() < 0.5,
        )
        if mapping.problem(contraction, target) is None:
            return mapping


def main() -> int:
    """Compare; the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="attacc")
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    target, draw = target_of(read_device(args.device)), random.Random(args.seed)
    rules, commands = rules_of(target.device), 0
    for number in range(args.count):
        contraction = random_contraction(draw)
        mapping = random_mapping(draw, contraction, target)
        lowered = lower(mapping, contraction, target)
        finish = simulate(rules, lowered.stream).finish
        commands += lowered.stream.kind.size
        if finish != lowered.ticks:
            print(f"{number}: {lowered.ticks} ticks predicted, {finish} simulated: {contraction.extents} {mapping}")
            return 1
        if number % 10000 == 9999:
            print(f"{number + 1} mappings, {commands} commands: no difference", flush=True)
    print(f"{args.count} mappings, {commands} commands: no difference")
    return 0


if __name__ == "__main__":
    sys.exit(main())
