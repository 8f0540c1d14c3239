"""Checks that no mapping takes less than the lower bounds by which a search for the best one excludes mappings.

    python scripts/check_kernel_bounds.py --device hbm-pim --count 10000 --seed 0

Of random products and sums on HBM-PIM, AiM and UPMEM, random mappings are walked: their ticks against the bound of the
mapping and that of its cut under any tiling, their energy against its bound. Ends with 1 and prints the mapping at the
first one that is below a bound; else prints by how much the ticks exceed the bound.
"""

import argparse
import statistics
import sys
from random import Random
from typing import Any

from cpsat_pim.compiler.language import Kernel, shipped_kernel
from cpsat_pim.compiler.lowering.bank_contraction import BankContraction
from cpsat_pim.compiler.lowering.in_order import InOrderContraction
from cpsat_pim.compiler.lowering.targets import broadcast_target, has_bank_mode
from cpsat_pim.compiler.mapping import contraction_of
from cpsat_pim.compiler.search import bank_mode, in_order
from cpsat_pim.compiler.search.cuts import CutSpace
from cpsat_pim.device import read_device
from tables.commands.window import NOT_EXACT

#: Mappings of one kernel, and the most ticks of one that is walked.
PER_KERNEL, MOST_TICKS = 150, 60_000


def drawn_kernel(draw: Random) -> Kernel:
    """A shipped contraction of random size."""
    name = draw.choice(("gemv", "gemm", "gemm", "red"))
    sizes = {
        "red": {"B": draw.randint(1, 9), "N": draw.randint(1, 20_000)},
        "gemv": {"B": draw.randint(1, 12), "N": draw.randint(1, 700), "K": draw.randint(1, 400)},
        "gemm": {"B": draw.randint(1, 3), "N": draw.randint(1, 2500), "K": draw.randint(1, 1500)},
    }
    return shipped_kernel(name).bind(sizes[name])


def excesses(kernel: Kernel, target: Any, draw: Random) -> list[float]:
    """Ticks over bound, for some mappings of a kernel; exits at one that is below a bound."""
    has_bank = has_bank_mode(target.device)
    search: Any = bank_mode if has_bank else in_order
    contraction = contraction_of(kernel, kernel.statements[0])
    has_inputs, lanes = contraction.inputs is not None, target.device.core.lanes
    channels = draw.choice((1, 2, 5, 16))
    cuts = CutSpace.of(contraction, target.axes, lanes, search.LANES, channels, stores=has_bank).cuts()
    tilings = search.tilings(cuts.table, target, has_inputs) if has_bank else search.tilings(cuts.table, target)
    rows, found = cuts.table[tilings.cut], []
    bounds = search.lower_bounds(rows, tilings, target, has_inputs)
    least = search.least_ticks(rows, target)
    energy = (search.energy_bounds if has_bank else search.energies)(rows, tilings, target, has_inputs)
    for at in (draw.randrange(len(tilings)) for _ in range(PER_KERNEL)):
        mapping = tilings.mapping(at, cuts)
        if bounds[at] > MOST_TICKS or search.problem(mapping, contraction, target) is not None:
            continue
        walked = (BankContraction if has_bank else InOrderContraction)(contraction, mapping, target)
        if walked.ticks == NOT_EXACT:
            continue
        if max(bounds[at], least[at]) > walked.ticks or energy[at] > walked.channel_fj:
            print(f"below a bound: {kernel.name} {contraction.extents} {mapping}: {walked.ticks} ticks")
            sys.exit(1)
        found.append(walked.ticks / int(bounds[at]))
    return found


def main() -> None:
    """Check so many mappings."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", required=True)
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    target, draw = broadcast_target(read_device(args.device)), Random(args.seed)
    found: list[float] = []
    while len(found) < args.count:
        found += excesses(drawn_kernel(draw), target, draw)
    print(f"{args.device}: {len(found)} mappings, none below a bound;", end=" ")
    print(f"ticks over bound: {statistics.median(found):.3f} (median), {max(found):.2f} (most)")


if __name__ == "__main__":
    main()
