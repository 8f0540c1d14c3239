"""Measure by how much the predicted latency of optimal mappings is off, by preset and objective.

Each unique layer of a network is solved with elements as wide as the machine's words, and the latency of its mapping is
walked to the cycle (`tables.counts.latency`), which is what the simulator counts. Prints a line per layer with
`--layers`, which has the gap of what is not proven, and per preset and objective the number of mappings, how many are
proven, the median of the absolute error, and the most that a prediction is too low and too high (`low`, `high`).

    python scripts/latency_errors.py [--network bert-base] [--presets hbm-pim,upmem] [--time-limit 10] [--layers]

`--tolerated-percent 0` charges the walk wherever it takes longer than the formula, not only where it takes 1 % longer.
"""

import argparse
import statistics
from collections.abc import Iterator

from attrs import frozen

from cpsat_pim.arch import PIMArchitecture
from cpsat_pim.arch.reading import arch_names, read_arch
from cpsat_pim.evaluate.cost import walk_latency
from cpsat_pim.mapper.result import Objective, Status
from cpsat_pim.mapper.search import SolveRequest
from cpsat_pim.mapper.search.solve import solve_layer
from cpsat_pim.mapping import Mapping
from cpsat_pim.mapping.widths import on_machine
from cpsat_pim.workload import ConvWorkload
from cpsat_pim.workload.network import read_network
from tables.counts import latency


@frozen(kw_only=True)
class Measured:
    """A layer's mapping with its predicted latency and that of its walk, cycles."""

    layer: ConvWorkload
    arch: PIMArchitecture
    objective: str
    mapping: Mapping
    is_proven: bool
    gap: float
    predicted: int
    walked: int

    @property
    def error(self) -> float:
        """Return the relative error; below 0 if the prediction is too low."""
        return self.predicted / self.walked - 1

    def __str__(self) -> str:
        """Return the line of `--layers`."""
        status = "proven" if self.is_proven else f"{self.gap:.2%}"
        names = f"{self.arch.name:18}{self.objective:9}{self.layer.name:28}{status:8}"
        return f"{names}{self.predicted:>12}{self.walked:>12}{self.error:>+9.2%}"


def unique_layers(network: str, arch: PIMArchitecture) -> list[ConvWorkload]:
    """Return the layers of different shapes, with elements as wide as the machine's words."""
    return [*{n.workload.shape_key: n.workload for n in on_machine(read_network(network), arch).layers}.values()]


def measured(layer: ConvWorkload, arch: PIMArchitecture, objective: str, seconds: float) -> Measured | None:
    """Return what a solve finds; None if it finds no mapping."""
    solved = solve_layer(layer, arch, SolveRequest(objective=Objective.named(objective), time_limit=seconds))
    if solved.mapping is None or solved.predicted is None:
        return None
    return Measured(
        layer=layer,
        arch=arch,
        objective=objective,
        mapping=solved.mapping,
        is_proven=solved.status is Status.OPTIMAL,
        gap=solved.gap or 0.0,
        predicted=solved.predicted.latency_cycles,
        walked=walk_latency(layer, arch, solved.mapping),
    )


def measure(args: argparse.Namespace) -> Iterator[Measured]:
    """Yield what is found of all layers on all presets, for energy and for latency."""
    for preset in args.presets.split(","):
        arch = read_arch(preset)
        for objective in args.objectives.split(","):
            for layer in unique_layers(args.network, arch):
                found = measured(layer, arch, objective, args.time_limit)
                if found:
                    if args.layers:
                        print(found, flush=True)
                    yield found


def row(found: list[Measured]) -> str:
    """Return the line of one preset and objective."""
    errors = [one.error for one in found]
    low, high = max(0.0, -min(errors)), max(0.0, *errors)
    names = f"{found[0].arch.name:18}{found[0].objective:>10}{len(found):>10}{sum(m.is_proven for m in found):>8}"
    return f"{names}{statistics.median(map(abs, errors)):>14.2%}{low:>10.2%}{high:>10.2%}"


def main() -> None:
    """Solve the layers, and print the errors as a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--network", default="bert-base")
    parser.add_argument("--presets", default=",".join(arch_names()), help="presets, separated by commas")
    parser.add_argument("--objectives", default="energy,latency")
    parser.add_argument("--time-limit", type=float, default=10, help="seconds a solve")
    parser.add_argument("--layers", action="store_true", help="print a line per layer, too")
    parser.add_argument("--tolerated-percent", type=int, default=latency.TOLERATED_PERCENT)
    args = parser.parse_args()
    latency.TOLERATED_PERCENT = args.tolerated_percent
    groups: dict[tuple[str, str], list[Measured]] = {}
    for one in measure(args):
        groups.setdefault((one.arch.name, one.objective), []).append(one)
    print(f"{'preset':18}{'objective':>10}{'mappings':>10}{'proven':>8}{'median error':>14}{'low':>10}{'high':>10}")
    for found in groups.values():
        print(row(found))


if __name__ == "__main__":
    main()
