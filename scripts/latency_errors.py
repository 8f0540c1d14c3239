"""Measure by how much the predicted latency of optimal mappings is off, by preset and objective.

Each unique layer of a network is solved, and the latency of its mapping is walked to the cycle
(`tables.counts.latency`), which is what the simulator counts. Prints a line per layer with `--layers`, and per preset
and objective the number of mappings, how many are proven, and the median and the largest error.

    python scripts/latency_errors.py [--network bert-base] [--presets hbm-pim,upmem] [--time-limit 8] [--layers]
"""

import argparse
import statistics

from cpsat_pim.arch.reading import read_arch
from cpsat_pim.evaluate.cost import walk_latency
from cpsat_pim.mapper.result import Objective, Status
from cpsat_pim.mapper.search import SolveRequest
from cpsat_pim.mapper.search.solve import solve_layer
from cpsat_pim.workload import ConvWorkload
from cpsat_pim.workload.network import read_network

PRESETS = "default,stacked-3d,upmem,hbm-pim,gddr6-aim,attacc,ddr4-near-bank"


def error_of(layer: ConvWorkload, preset: str, kind: str, seconds: float, is_told: bool) -> tuple[float, bool] | None:
    """Return the relative error of a layer's predicted latency, and whether the mapping is proven; None without one."""
    arch = read_arch(preset)
    solved = solve_layer(layer, arch, SolveRequest(objective=Objective.named(kind), time_limit=seconds))
    if solved.mapping is None or solved.predicted is None:
        return None
    predicted, walked = solved.predicted.latency_cycles, walk_latency(layer, arch, solved.mapping)
    if is_told:
        off = f"{predicted / walked - 1:>9.2%}"
        print(f"{preset:15}{kind:9}{layer.name:28}{solved.status:9}{predicted:>12}{walked:>12}{off}", flush=True)
    return abs(predicted / walked - 1), solved.status is Status.OPTIMAL


def main() -> None:
    """Solve the layers, and print the errors as a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--network", default="bert-base")
    parser.add_argument("--presets", default=PRESETS, help="presets, separated by commas")
    parser.add_argument("--time-limit", type=float, default=8, help="seconds a solve")
    parser.add_argument("--layers", action="store_true", help="print a line per layer, too")
    args = parser.parse_args()
    layers = {n.workload.shape_key: n.workload for n in read_network(args.network).layers}
    table = []
    for preset in args.presets.split(","):
        for kind in ("energy", "latency"):
            found = [error_of(layer, preset, kind, args.time_limit, args.layers) for layer in layers.values()]
            errors = [error for error in found if error is not None]
            table.append((preset, kind, [off for off, _ in errors], sum(proven for _, proven in errors)))
    print(f"{'preset':15}{'objective':>10}{'mappings':>10}{'proven':>8}{'median error':>14}{'largest':>10}")
    for preset, kind, errors_of, proven in table:
        median, largest = (f"{statistics.median(errors_of):.2%}", f"{max(errors_of):.2%}") if errors_of else ("-", "-")
        print(f"{preset:15}{kind:>10}{len(errors_of):>10}{proven:>8}{median:>14}{largest:>10}")


if __name__ == "__main__":
    main()
