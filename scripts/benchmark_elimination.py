"""The time of exact elimination over the homes of a network, with tables of random entries (docs/plan.md).

    python scripts/benchmark_elimination.py                         ResNet-152 with 324 homes a tensor
    python scripts/benchmark_elimination.py --network googlenet --homes 64

Equal layers have equal tables, as in a search.
"""

import argparse
import time
from collections.abc import Iterator
from typing import Any

import numpy as np

from cpsat_pim.planner.alike import content_of
from cpsat_pim.planner.eliminate import Factor, minimize
from cpsat_pim.planner.graph import build_graph
from cpsat_pim.planner.tensors import Graph
from cpsat_pim.workload.network import read_network


def main() -> None:
    """Print the seconds of one processor."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--network", default="resnet152", help="(%(default)s)")
    parser.add_argument("--homes", type=int, default=324, help="homes of a tensor (%(default)d)")
    arguments = parser.parse_args()
    graph = build_graph(read_network(arguments.network))
    factors, sizes = list(random_factors(graph, arguments.homes)), dict.fromkeys(graph.homes, arguments.homes)
    minimize(factors[:1], {name: sizes[name] for name in factors[0].variables})  # compiles
    started = time.process_time()
    found = minimize(factors, sizes)
    seconds = time.process_time() - started
    print(f"{graph.name}: {len(factors)} layers, largest table {found.width} entries, {seconds:.2f} s of one processor")


def random_factors(graph: Graph, homes: int) -> Iterator[Factor]:
    """Yield a table of each layer over the homes that it reads and writes."""
    rng, known = np.random.default_rng(0), dict[Any, np.ndarray]()
    for task in graph.tasks:
        second = [task.reads_weights.stack] if task.reads_weights else []
        names = list(dict.fromkeys(graph.home_of[name] for name in (task.reads.stack, *second, task.writes)))
        key = (content_of(graph, task), len(names))
        if key not in known:
            known[key] = rng.integers(0, 10**4, (2, *[homes] * len(names)))
        cost, tie = known[key]
        yield Factor(variables=tuple(names), cost=cost, tie=tie)


if __name__ == "__main__":
    main()
