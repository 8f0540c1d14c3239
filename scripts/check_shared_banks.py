"""Compares `tables` with `tracesim` on random mappings whose tensors share banks of a node, or have several.

    python scripts/check_shared_banks.py --count 100000 --seed 1

Layers, machines and mappings are those of `fuzz`: every option, tiny figures. Each mapping is counted in several orders
and layouts, under every legal way to share banks, with drawn numbers of banks for tensors that do not. Every exact
figure must be equal: columns, activations, DRAM cycles and accesses. Prints how many mappings were compared, and by
banks how many there were and how often they open more rows, or fewer, than with one bank for each tensor. Ends with 1
at the first mapping whose figures differ, which is printed.
"""

import argparse
import itertools
import sys
from collections import Counter
from collections.abc import Iterator

import attrs
import numpy as np

from cpsat_pim.arch import PIMArchitecture
from cpsat_pim.base.dims import Tensor
from cpsat_pim.evaluate.cost import Figures, predict_until
from cpsat_pim.evaluate.verify import MappedLayer, differences, simulate
from cpsat_pim.mapping import BANKS, ONE_BANK, OWN_BANKS, Mapping, banks_text
from cpsat_pim.mapping.check import check_mapping
from cpsat_pim.study.baselines.space import Space
from cpsat_pim.study.fuzz.draw import Drawer
from cpsat_pim.study.fuzz.oracle import bank_counts
from cpsat_pim.workload import ConvWorkload

#: MACs of a layer: few, so that a simulation takes about a millisecond.
MOST_MACS = 2000
#: Mappings that are drawn of a layer on a machine: to find its legal stored sets takes as long as 100 of them.
DRAWN = 100
#: Times that each of them is rearranged, which is quicker than to draw another.
REARRANGED = 10

#: Mappings after which a line is printed.
REPORTED = 5000


def shared_cases(seed: int) -> Iterator[MappedLayer]:
    """Yield random mapped layers without end, each under every legal way to share banks; tensors that share none have a
    drawn number of them.
    """
    for number in itertools.count():
        rng = np.random.default_rng((seed, number))
        draw = Drawer.of(rng)
        layer, arch = draw.layer(MOST_MACS), draw.few_banks(draw.machine())
        if arch.column_bytes % max(layer.width_bytes):
            continue
        space = Space(layer, arch)
        for _ in range(0 if space.is_empty else DRAWN):
            drawn = space.draw(rng).to_mapping(layer)
            for mapping in (drawn, *(rearranged(drawn, rng) for _ in range(REARRANGED))):
                for banks in BANKS.values():
                    counts = draw.any_of((ONE_BANK, *bank_counts(arch, banks)))
                    shared = attrs.evolve(mapping, banks=banks, bank_counts=counts)
                    is_plain = banks == OWN_BANKS and counts == ONE_BANK
                    if not is_plain and not check_mapping(layer, arch, shared):
                        yield MappedLayer(layer=layer, arch=arch, mapping=shared)


def rearranged(mapping: Mapping, rng: np.random.Generator) -> Mapping:
    """Return the mapping with its loops in another order at each level, and with other layouts."""
    order = [[loops[i] for i in rng.permutation(len(loops))] for loops in mapping.order]
    return attrs.evolve(mapping, order=order, layout=[int(n) for n in rng.integers(2, size=len(Tensor))])


def counted(layer: ConvWorkload, arch: PIMArchitecture, mapping: Mapping) -> Figures:
    """Return the figures of `tables`. No walk over the pipeline: the latency is not compared."""
    prediction = predict_until(lambda: False, layer, arch, mapping, is_walked=False)
    assert prediction is not None  # nothing ends the count
    return prediction.figures


def own_activations(case: MappedLayer) -> int:
    """Return the row activations with one bank for each tensor."""
    roomy = attrs.evolve(case.arch, node_banks=3)
    own = counted(case.layer, roomy, attrs.evolve(case.mapping, banks=OWN_BANKS, bank_counts=ONE_BANK))
    return sum(own.row_activations)


def machine_of(arch: PIMArchitecture) -> str:
    """Return the options that decide how banks are counted."""
    return f"{arch.page_policy} pages, {'one bus' if arch.shared_data_bus else 'a bus for each part'}"


def main() -> int:
    """Compare so many mappings, and print the totals."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=1000, help="mappings to compare")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    by_banks: Counter[str] = Counter()
    more_rows: Counter[str] = Counter()
    fewer_rows: Counter[str] = Counter()
    machines: Counter[str] = Counter()
    for number, case in enumerate(itertools.islice(shared_cases(args.seed), args.count)):
        if number and number % REPORTED == 0:
            print(f"seed {args.seed}: {number:,} mappings so far, all exact figures are equal", flush=True)
        figures = counted(case.layer, case.arch, case.mapping)
        if wrong := differences(figures, simulate(case.layer, case.arch, case.mapping), "simulated"):
            print(*wrong, case, sep="\n")
            return 1
        banks = banks_text(case.mapping.banks) + (" several" if max(case.mapping.bank_counts) > 1 else "")
        by_banks[banks] += 1
        machines[machine_of(case.arch)] += 1
        opened, own = sum(figures.row_activations), own_activations(case)
        more_rows[banks] += opened > own
        fewer_rows[banks] += opened < own
    print(f"seed {args.seed}: {sum(by_banks.values()):,} mappings, all exact figures are equal")
    for banks, count in sorted(by_banks.items()):
        rows = f"{more_rows[banks]:,} open more rows, {fewer_rows[banks]:,} fewer, than with one bank for each tensor"
        print(f"  {banks:14}{count:>9,} mappings, {rows}")
    for machine, count in sorted(machines.items()):
        print(f"  {count:>9,} on machines with {machine}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
