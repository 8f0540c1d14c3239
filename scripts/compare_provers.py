"""Prove the layers on which other exact mappers have published an optimum and its time, on the machine they share.

python scripts/compare_provers.py [--time-limit 60]

Each layer is solved in a process of its own with cold caches; its seconds include tables, proof, recount and
simulation.
"""

import argparse
import multiprocessing
import os
import tempfile
import time

from attrs import frozen

from cpsat_pim.arch.reading import read_arch
from cpsat_pim.mapper.network.compile import compile_kernels
from cpsat_pim.mapper.network.run import solve_and_verify
from cpsat_pim.mapper.result import Objective, SolvedLayer
from cpsat_pim.mapper.search import SolveRequest
from cpsat_pim.workload import ConvWorkload


@frozen
class Peer:
    """The optimum that the best exact mapper with uneven residency proves, in uJ, and its seconds."""

    energy: float
    seconds: float


#: No optimum: that mapper has not ended on 3x3 layers after 290 s.
LAYERS = {
    "1x1 56x56, 64 -> 64": (ConvWorkload(C=64, K=64, P=56, Q=56), Peer(119.84, 54)),
    "matrix product 2048 -> 1000": (ConvWorkload(C=2048, K=1000), Peer(414.40, 15)),
    "3x3 56x56, 64 -> 64": (ConvWorkload(R=3, S=3, C=64, K=64, P=56, Q=56), None),
    "3x3 28x28, 128 -> 128": (ConvWorkload(R=3, S=3, C=128, K=128, P=28, Q=28), None),
    "3x3 14x14, 256 -> 256": (ConvWorkload(R=3, S=3, C=256, K=256, P=14, Q=14), None),
    "3x3 7x7, 512 -> 512": (ConvWorkload(R=3, S=3, C=512, K=512, P=7, Q=7), None),
}


def main() -> None:
    """One line per layer."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--time-limit", type=float, default=60.0)
    time_limit = parser.parse_args().time_limit
    print(f"{'layer':30}{'status':>9}{'gap %':>8}{'uJ':>10}{'s':>7}   peer: uJ, s, times slower")
    for name, (layer, peer) in LAYERS.items():
        solved, seconds = solve_apart(layer, time_limit)
        line = f"{name:30}{solved.status:>9}"
        if solved.mapping is not None and solved.gap is not None:
            line += f"{100 * solved.gap:>8.3f}{solved.predicted.energy_fj / 1e9:>10.3f}"
        print(f"{line:57}{seconds:>7.2f}   {beside(peer, seconds)}", flush=True)


def beside(peer: Peer | None, seconds: float) -> str:
    """What the other mapper needs."""
    return f"{peer.energy:.2f}, {peer.seconds:.0f}, {peer.seconds / seconds:.0f}" if peer else "does not end in 290 s"


def solve_apart(layer: ConvWorkload, time_limit: float) -> tuple[SolvedLayer, float]:
    """Solve a layer in a process that knows of nothing before."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(solve_cold, (layer, time_limit))


def solve_cold(layer: ConvWorkload, time_limit: float) -> tuple[SolvedLayer, float]:
    """The least energy of a layer on the machine of the comparison, and the seconds that it took."""
    compile_kernels()
    with tempfile.TemporaryDirectory() as cold:
        os.environ["CPSAT_PIM_CACHE"] = cold
        arch = read_arch("prover-comparison")
        request = SolveRequest(objective=Objective.named("energy"), then=None, time_limit=time_limit)
        started = time.monotonic()
        solved = solve_and_verify(layer, arch, request)
        return solved, time.monotonic() - started


if __name__ == "__main__":
    main()
