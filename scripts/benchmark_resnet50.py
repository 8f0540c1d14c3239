"""Solve a network for each objective with cold caches and print what is proven, how exact it is and how long it takes.

python scripts/benchmark_resnet50.py [--network resnet50] [--time-limit 60] [--jobs 2] [--objectives energy ...]

Tables are built anew for each objective. Code is compiled first, once for an installation, which is shown apart.
"""

import argparse
import os
import statistics
import tempfile
import time

from cpsat_pim.mapper.network.compile import compile_kernels
from cpsat_pim.mapper.network.run import Execution, solve_network
from cpsat_pim.mapper.result import NetworkLayer, Objective, SolvedNetwork, Status
from cpsat_pim.mapper.search import SolveRequest
from cpsat_pim.workload.network import read_network


def main() -> None:
    """Print one section per objective."""
    from cpsat_pim import PIMArchitecture

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--network", default="resnet50")
    parser.add_argument("--time-limit", type=float, default=60.0)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--objectives", nargs="+", default=["latency", "energy", "blended"])
    args = parser.parse_args()
    started = time.monotonic()
    compile_kernels()
    print(f"compiled in {time.monotonic() - started:.1f} s, or read from disk")
    for kind in args.objectives:
        with tempfile.TemporaryDirectory() as cold:
            os.environ["CPSAT_PIM_CACHE"] = cold
            started = time.monotonic()
            solved = solve_network(
                read_network(args.network),
                PIMArchitecture(),
                SolveRequest(objective=Objective.named(kind), then=None, time_limit=args.time_limit),
                Execution(jobs=args.jobs),
            )
            if solved.interrupted:
                raise SystemExit(130)
            print_section(kind, solved, time.monotonic() - started)


def print_section(kind: str, solved: SolvedNetwork, total: float) -> None:
    """One objective: a line per unique layer, then the totals."""
    print(f"\n{solved.network}, {kind}: {total:.1f} s")
    print(f"{'layer':24}{'status':>10}{'gap %':>10}{'predicted':>12}{'simulated':>12}{'off %':>8}{'exact':>7}{'s':>7}")
    errors = []
    unique = list({n.solved.workload.shape_key: n for n in solved.layers}.values())
    for node in unique:
        error = print_layer(node)
        if error is not None:
            errors.append(error)
    optimal = sum(n.solved.status is Status.OPTIMAL for n in unique)
    gaps = [n.solved.gap for n in unique if n.solved.gap is not None]
    unknown = f" where there is one, none for {len(unique) - len(gaps)}" if len(gaps) < len(unique) else ""
    print(f"optimal {optimal} of {len(unique)} unique layers; worst gap {100 * max(gaps, default=0):.4f} %{unknown}")
    seconds = [n.solved.solve_seconds for n in unique]
    p95 = statistics.quantiles(seconds, n=20, method="inclusive")[-1] if seconds[1:] else seconds[0]
    print(f"seconds a layer: {statistics.median(seconds):.1f} (median), {p95:.1f} (p95), {max(seconds):.1f} (worst)")
    if errors:
        print(f"simulated latency off by {statistics.median(errors):.3f} % (median), {max(errors):.3f} % (worst)")


def print_layer(node: NetworkLayer) -> float | None:
    """A layer's line; returns by how many percent its simulated latency is off, None without a mapping."""
    answer = node.solved
    if answer.mapping is None or answer.simulated is None:
        print(f"{node.name:24}{answer.status:>10}")
        return None
    off = 100 * abs(answer.simulated.latency_cycles / answer.latency - 1)
    exact = "no" if answer.predicted.differences(answer.simulated) else "yes"
    print(
        f"{node.name:24}{answer.status:>10}{100 * (answer.gap or 0):>10.4f}{answer.latency:>12}"
        f"{answer.simulated.latency_cycles:>12}{off:>8.3f}{exact:>7}{answer.solve_seconds:>7.1f}"
    )
    return off


if __name__ == "__main__":
    main()
