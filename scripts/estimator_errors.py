"""Measure the relative error of the estimators of row activations against the exact counts.

For every unique layer of a network and every tensor, random tiles that fit the global buffer are streamed once, with
one loop per dim outside the tile. Prints the mean, median and worst relative error per estimator and tensor.

    python scripts/estimator_errors.py [--network resnet50] [--tiles 60]
"""

import argparse
import random
import statistics
from collections import defaultdict

from cpsat_pim.arch import PIMArchitecture
from cpsat_pim.base.dims import RELEVANT, Dim, Level, Tensor
from cpsat_pim.evaluate.cost import to_machine, to_nest
from cpsat_pim.mapping import Mapping
from cpsat_pim.workload import ConvWorkload
from cpsat_pim.workload.network import read_network
from tables.counts.stream import dram_stream
from tables.estimators import COVERS, ESTIMATORS
from tables.factors import divisors


def tile_mapping(layer: ConvWorkload, extents: dict[Dim, int]) -> Mapping:
    """Return a mapping with all tensors in the global buffer, tiles of these extents, one DRAM loop a dim."""
    inner = [extents[d] for d in Dim]
    outer = [layer.bounds[d] // extents[d] for d in Dim]
    ones = [1] * len(Dim)
    order = [tuple(d for d in Dim if f[d] > 1) for f in (ones, inner, ones, outer)]
    everything, nothing = (True,) * 3, (False,) * 3
    return Mapping(
        temporal=[ones, inner, ones, outer], spatial=[ones] * 3, order=order, stored=[nothing, everything, nothing]
    )


def main() -> None:
    """Draw the tiles, measure the errors, and print them as a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--network", default="resnet50")
    parser.add_argument("--tiles", type=int, default=60, help="tiles drawn per layer and tensor (seed 0)")
    args = parser.parse_args()
    arch = PIMArchitecture()
    machine = to_machine(arch)
    errors: dict[tuple[str, Tensor], list[float]] = defaultdict(list)
    layers = {n.workload.shape_key: n.workload for n in read_network(args.network).layers}
    draw = random.Random(0)
    for layer in layers.values():
        for tensor in Tensor:
            for _ in range(args.tiles):
                extents = {d: draw.choice(divisors(layer.bounds[d])) for d in Dim}
                for d in set(Dim) - set(RELEVANT[tensor]):
                    extents[d] = layer.bounds[d]
                mapping = tile_mapping(layer, extents)
                nest = to_nest(layer, mapping)
                if nest.box(tensor, Level.GLOBAL_BUFFER) > arch.usable_bytes(Level.GLOBAL_BUFFER):
                    continue
                exact = dram_stream(nest, tensor, machine.dram).activations
                for name, estimate in ESTIMATORS.items():
                    if tensor in COVERS[name]:
                        errors[name, tensor].append(abs(estimate(nest, tensor, machine.dram) - exact) / exact)
    print(f"{'estimator':22}{'tensor':>7}{'tiles':>8}{'mean error':>12}{'median':>10}{'worst':>12}")
    for (name, tensor), found in sorted(errors.items()):
        mean, worst = statistics.mean(found), max(found)
        print(f"{name:22}{tensor.name:>7}{len(found):>8}{mean:>12.1%}{statistics.median(found):>10.1%}{worst:>12.1%}")


if __name__ == "__main__":
    main()
