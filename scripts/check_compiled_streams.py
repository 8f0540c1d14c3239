"""Compares walk and simulator on random mappings of random kernels, without refresh.

    python scripts/check_compiled_streams.py --device attacc --count 100000 --seed 0
    python scripts/check_compiled_streams.py --device hbm-pim --kernels affine --count 250 --numbers 1

Kernels are the shipped contractions (on HBM-PIM and UPMEM also the elementwise ones, on AttAcc also attention with its
softmax) with sizes among which are primes, or with `--kernels affine` random ones with offsets, strides and windows in
their indices. With `--numbers N` every N-th mapping is executed on numbers, too. Streams of more than `--most` commands
are drawn again, but every hundredth. Ends with 1 and prints the mapping at the first difference.
"""

import argparse
import math
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).parents[1]))

from cpsat_pim.compiler.attention import attention_ticks, count_attention_commands, lower_attention
from cpsat_pim.compiler.broadcast import lowered_of
from cpsat_pim.compiler.compile import is_attacc_like
from cpsat_pim.compiler.language import Kernel, shipped_kernel
from cpsat_pim.compiler.lowering import lower
from cpsat_pim.compiler.lowering.bank_contraction import BankContraction
from cpsat_pim.compiler.lowering.bank_mode import BankTarget
from cpsat_pim.compiler.lowering.contraction import count_commands
from cpsat_pim.compiler.lowering.in_order import InOrderContraction
from cpsat_pim.compiler.lowering.in_order_target import InOrderTarget
from cpsat_pim.compiler.lowering.targets import has_bank_mode
from cpsat_pim.compiler.mapping import Contraction, Mapping, contraction_of
from cpsat_pim.compiler.mapping.elementwise import SpreadMapping
from cpsat_pim.compiler.target import Target, target_of
from cpsat_pim.compiler.verify import compare_on_numbers, execute_on_numbers
from cpsat_pim.device import Device, read_device
from cpsat_pim.device.rules import rules_of
from tables.commands.in_order import COUNT as IN_ORDER_COUNT
from tables.commands.window import COUNT, NOT_EXACT
from tests.compiler.drawing import (
    affine_contraction,
    drawn_attention,
    drawn_broadcast,
    drawn_elementwise,
    drawn_mapping,
    shipped_contraction,
    shipped_elementwise,
)
from tracesim.commands import Stream, simulate
from tracesim.commands.records import checked_rules

#: Points of the loops of kernels that are executed on numbers.
MOST_POINTS = 300_000
#: Mappings that are drawn for a kernel.
MAPPINGS = 10
#: Of the kernels: attention on AttAcc, elementwise ones on HBM-PIM and UPMEM.
ATTENTIONS, ELEMENTWISE = 0.2, 0.3


class Case(NamedTuple):
    """A mapping: the commands that it has at most, the ticks of the walk with its stream, and the check on numbers."""

    kernel: Kernel
    mapping: Any
    size: int
    lowered: Callable[[], tuple[int, Stream | None]]
    execute: Callable[[], int] | None


def attacc_cases(draw: Random, device: Device, kernels: Callable[[Random], Kernel]) -> Iterator[Case]:
    """Random mappings for a device whose cores have inputs of their own."""
    target = target_of(device)
    while True:
        if kernels is shipped_contraction and draw.random() < ATTENTIONS:
            for _ in range(MAPPINGS):
                yield _attention_case(draw, target)
            continue
        kernel = kernels(draw)
        contraction = contraction_of(kernel, kernel.statements[0])
        for _ in range(MAPPINGS):
            mapping = drawn_mapping(draw, contraction, target)
            given = contraction.with_hull(mapping.hull)
            share = mapping.share(given, target)
            if share.batches * share.shared * math.ceil(share.depth * share.outputs / share.lanes) < MOST_POINTS:
                yield _attacc_case(kernel, given, mapping, target)


def _attacc_case(kernel: Kernel, contraction: Contraction, mapping: Mapping, target: Target) -> Case:
    def walked() -> tuple[int, Stream]:
        lowered = lower(mapping, contraction, target)
        return lowered.ticks, lowered.stream

    def execute() -> int:
        return compare_on_numbers(kernel, contraction, lower(mapping, contraction, target), target)

    return Case(kernel, mapping, count_commands(mapping, contraction, target), walked, execute)


def _attention_case(draw: Random, target: Target) -> Case:
    """Its products are executed by themselves elsewhere: what lies between them has no numbers."""
    attention, mapping, given = drawn_attention(draw, target)
    kernel = shipped_kernel("attention").bind({"B": attention.heads, "N": attention.tokens, "K": attention.head_size})

    def walked() -> tuple[int, Stream]:
        return attention_ticks(attention, mapping, given), lower_attention(attention, mapping, given)

    return Case(kernel, mapping, count_attention_commands(attention, mapping, given), walked, None)


def broadcast_cases(draw: Random, device: Device, kernels: Callable[[Random], Kernel]) -> Iterator[Case]:
    """The same for a device that sends the same inputs to all cores."""
    is_bank = has_bank_mode(device)
    target: Any = BankTarget(device) if is_bank else InOrderTarget(device)
    while True:
        takes_vectors = is_bank or target.computes_elements
        if takes_vectors and kernels is shipped_contraction and draw.random() < ELEMENTWISE:
            kernel = shipped_elementwise(draw)
            for _ in range(MAPPINGS):
                spread = drawn_elementwise(draw) if is_bank else SpreadMapping(channels=draw.randint(1, 5))
                yield _case(kernel, lowered_of(kernel, spread, device), device)
            continue
        kernel = kernels(draw)
        contraction = contraction_of(kernel, kernel.statements[0])
        for _ in range(MAPPINGS):
            mapping = drawn_broadcast(draw, contraction, target)
            form = BankContraction if is_bank else InOrderContraction
            yield _case(kernel, form(contraction.with_hull(mapping.hull), mapping, target), device)


def _case(kernel: Kernel, lowered: Any, device: Device) -> Case:
    count = COUNT if has_bank_mode(device) else IN_ORDER_COUNT

    def walked() -> tuple[int, Stream | None]:
        ticks = lowered.ticks
        return (ticks, None) if ticks == NOT_EXACT else (ticks, lowered.program.stream)

    size = int(lowered.runs[:, count].sum())
    return Case(kernel, lowered.mapping, size, walked, lambda: execute_on_numbers(kernel, lowered, device))


def main() -> int:
    """Compare; the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="attacc")
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--most", type=int, default=400, help="commands of a stream, except of every hundredth")
    parser.add_argument("--kernels", choices=("shipped", "affine"), default="shipped")
    parser.add_argument("--numbers", type=int, default=0, metavar="N", help="execute every N-th mapping on numbers")
    args = parser.parse_args()
    device = read_device(args.device)
    cases = attacc_cases if is_attacc_like(device) else broadcast_cases
    kernels = {"shipped": shipped_contraction, "affine": affine_contraction}[args.kernels]
    rules = checked_rules(rules_of(device))
    done = commands = numbers = excluded = 0
    for case in cases(Random(args.seed), device, kernels):
        if case.size > args.most and done % 100:
            continue
        ticks, stream = case.lowered()
        if stream is None:
            excluded += 1
            continue
        finish = simulate(rules, stream, checked=True).finish
        done, commands = done + 1, commands + stream.kind.size
        if finish != ticks:
            print(f"{done}: {ticks} ticks predicted, {finish} simulated: {case.kernel.name} {case.mapping}")
            return 1
        points = math.prod(loop.extent for loop in case.kernel.statements[0].loops)
        if case.execute is not None and args.numbers and done % args.numbers == 0 and points <= MOST_POINTS:
            case.execute()
            numbers += 1
        if done % 5000 == 0 or done == args.count:
            print(
                f"{device.name}: {done} mappings, {commands} commands: no difference; {numbers} right on numbers; "
                f"{excluded} outside the space (a barrier would be lost)",
                flush=True,
            )
        if done == args.count:
            return 0
    return 0


if __name__ == "__main__":
    sys.exit(main())
