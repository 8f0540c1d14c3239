"""Compares walk and simulator on random mappings of random contractions, without refresh.

    python scripts/check_compiled_streams.py --device attacc --count 100000 --seed 0

With `--numbers N` every N-th mapping of HBM-PIM, AiM and UPMEM is executed on numbers, too. Sizes have primes among
them. Ends with 1 and prints the mapping at the first difference.
"""

import argparse
import math
import random
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from cpsat_pim.compiler.broadcast import has_bank_mode, lowered_of
from cpsat_pim.compiler.compile import is_attacc_like
from cpsat_pim.compiler.language import Kernel, shipped_kernel
from cpsat_pim.compiler.lowering import bank_contraction, in_order, lower
from cpsat_pim.compiler.lowering.bank_mode import BankTarget
from cpsat_pim.compiler.lowering.in_order import InOrderTarget
from cpsat_pim.compiler.mapping import Contraction, Mapping, contraction_of
from cpsat_pim.compiler.mapping.broadcast import BroadcastMapping
from cpsat_pim.compiler.mapping.elementwise import ElementwiseMapping
from cpsat_pim.compiler.target import Target, target_of
from cpsat_pim.compiler.verify import execute_on_numbers
from cpsat_pim.device import Device, read_device
from cpsat_pim.device.rules import rules_of
from tables.commands.window import NOT_EXACT
from tracesim.commands import simulate

#: Points of the loops of kernels that are executed on numbers.
MOST_POINTS = 300_000
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


def random_lowered(draw: random.Random, device: Device) -> tuple[Kernel, Any]:
    """A shipped kernel with random sizes under a random mapping, for a device that broadcasts inputs."""
    target = BankTarget(device) if has_bank_mode(device) else InOrderTarget(device)
    if isinstance(target, BankTarget) and draw.random() < 0.3:
        kernel = shipped_kernel(draw.choice(("va", "mul", "relu")))
        bound = kernel.bind({"B": draw.randint(1, 7), "N": draw.choice((1, 17, 97, 1000, 4097, 9001))})
        flags = {name: draw.random() < 0.5 for name in ("both_banks", "shares_rows", "takes_turns")}
        mapping = ElementwiseMapping(channels=draw.randint(1, 5), mode_bank=draw.randint(0, 1), **flags)
        return bound, lowered_of(bound, mapping, device)
    kernel = shipped_kernel(draw.choice(("gemv", "gemm", "red", "context")))
    bound = kernel.bind({name: draw.choice(EXTENTS if name != "B" else EXTENTS[:6]) for name in kernel.sizes})
    contraction = contraction_of(bound, bound.statements[0])
    while True:
        drawn = random_broadcast(draw, contraction, target)
        problem = bank_contraction.problem if isinstance(target, BankTarget) else in_order.problem
        if problem(drawn, contraction, target) is None:  # type: ignore[arg-type]
            return bound, lowered_of(bound, drawn, device)


def random_broadcast(
    draw: random.Random, contraction: Contraction, target: BankTarget | InOrderTarget
) -> BroadcastMapping:
    """Any mapping, not always one that the device can run."""
    is_bank, classes = isinstance(target, BankTarget), (-1, 0, 1, 2, 3)
    return BroadcastMapping(
        splits=tuple(draw.choice((1, 1, 2, 3)) for _ in range(4)),
        owners=tuple(
            -1 if size == 1 else draw.choice((-1, 2, 2) if contraction.inputs is not None else classes)
            for size in target.axes
        ),
        lanes=draw.choice(("depth", "outputs")) if is_bank else "depth",
        depth_tile=draw.randint(1, target.device.core.inputs),
        keeps_inputs=is_bank and draw.random() < 0.3,
        order="output-stationary" if is_bank else draw.choice(("output-stationary", "input-stationary")),
        mode_bank=draw.randint(0, 1) if is_bank else 0,
    )


def check_broadcast(args: argparse.Namespace, device: Device) -> int:
    """Compare on a device that broadcasts inputs; the exit code."""
    rules, draw, commands, numbers, excluded = rules_of(device), random.Random(args.seed), 0, 0, 0
    for number in range(args.count):
        bound, lowered = random_lowered(draw, device)
        if lowered.ticks == NOT_EXACT:
            excluded += 1
            continue
        program = lowered.program
        finish = simulate(rules, program.stream).finish
        commands += program.stream.kind.size
        if finish != program.ticks:
            print(f"{number}: {program.ticks} ticks predicted, {finish} simulated: {bound.name} {lowered.mapping}")
            return 1
        points = math.prod(loop.extent for loop in bound.statements[0].loops)
        if args.numbers and number % args.numbers == 0 and points <= MOST_POINTS:
            execute_on_numbers(bound, lowered, device, number)
            numbers += 1
    print(
        f"{device.name}: {args.count - excluded} mappings, {commands} commands: no difference; {numbers} right on "
        f"numbers; {excluded} outside the space (a barrier would be lost)"
    )
    return 0


def main() -> int:
    """Compare; the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="attacc")
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--numbers", type=int, default=0, metavar="N", help="execute every N-th mapping on numbers")
    args = parser.parse_args()
    device = read_device(args.device)
    if not is_attacc_like(device):
        return check_broadcast(args, device)
    target, draw = target_of(device), random.Random(args.seed)
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
