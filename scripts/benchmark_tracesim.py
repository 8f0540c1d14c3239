"""How many element accesses a second the trace simulator counts on one core, over ResNet-50's unique layers.

    python scripts/benchmark_tracesim.py [--network resnet50] [--mapper os]

An access is a read or write of one element at any level, DRAM included. One line per layer, in the mapping of a
baseline; compiled code is warm.
"""

import argparse
import statistics
import time

from cpsat_pim import PIMArchitecture
from cpsat_pim.evaluate.verify import simulate
from cpsat_pim.mapper.result import Objective
from cpsat_pim.study.baselines.catalogue import BASELINES
from cpsat_pim.study.baselines.problem import Problem
from cpsat_pim.study.baselines.search import Effort
from cpsat_pim.workload.network import read_network


def main() -> None:
    """Print a line per layer, then the median and the least."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--network", default="resnet50")
    parser.add_argument("--mapper", default="os", choices=sorted(BASELINES))
    args = parser.parse_args()
    arch, rates = PIMArchitecture(), []
    layers = {node.workload.shape_key: node.workload for node in read_network(args.network).layers}
    for layer in layers.values():
        scored = BASELINES[args.mapper](Problem(layer=layer, arch=arch, objective=Objective.named("energy")), Effort())
        if scored is None:
            continue
        simulate(layer, arch, scored.mapping)
        started = time.perf_counter()
        figures = simulate(layer, arch, scored.mapping)
        seconds = time.perf_counter() - started
        accesses = sum(n for level in figures.accesses for ways in level for n in ways)
        rates.append(accesses / seconds / 1e6)
        print(f"{layer.name:24}{accesses:>16,} accesses{seconds:>9.3f} s{rates[-1]:>12,.0f} million/s")
    print(f"{statistics.median(rates):,.0f} million accesses a second (median), {min(rates):,.0f} (least)")


if __name__ == "__main__":
    main()
