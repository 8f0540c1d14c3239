"""Draw the lower bound and the incumbent of a layer over the time of its search: the picture of docs/solver.md.

    python scripts/plot_convergence.py [--network resnet50] [--layer fc] [--objective energy]
        [--time-limit 300] [--plot docs/solver.svg]

The points are the progress that the search reports (`cpsat_pim.mapper.search.Progress`), one after each step; seconds
depend on the machine. The plot needs the extra `plots`.
"""

import argparse
from pathlib import Path
from typing import Any

from cpsat_pim.arch import PIMArchitecture
from cpsat_pim.base.extras import import_extra
from cpsat_pim.mapper.network.run import solve_and_verify
from cpsat_pim.mapper.result import Objective, SolvedLayer
from cpsat_pim.mapper.search import Progress, SolveRequest
from cpsat_pim.workload.network import read_network

#: Units in which objectives are reported; a blend and a product have no name for theirs.
UNITS = {"latency": "cycles", "energy": "fJ"}


def main() -> None:
    """Solve the layer and draw its progress."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--network", default="resnet50")
    parser.add_argument("--layer", default="fc")
    parser.add_argument("--objective", default="energy")
    parser.add_argument("--time-limit", type=float, default=300.0)
    parser.add_argument("--plot", type=Path, default=Path("docs/solver.svg"))
    arguments = parser.parse_args()
    pyplot = import_extra("matplotlib.pyplot", "plots")
    points, solved = solve(arguments)
    draw(pyplot, points, solved, arguments.plot)
    print(f"{arguments.layer}: {solved.status}, {solved.objective_value}, {len(points)} reports")


def solve(arguments: argparse.Namespace) -> tuple[list[Progress], SolvedLayer]:
    """Return the progress after each step of the search, and its result."""
    (node,) = read_network(arguments.network).only([arguments.layer]).layers
    request = SolveRequest(objective=Objective.named(arguments.objective), then=None, time_limit=arguments.time_limit)
    points: list[Progress] = []
    solved = solve_and_verify(node.workload, PIMArchitecture(), request, on_progress=points.append)
    return points, solved


def draw(pyplot: Any, points: list[Progress], solved: SolvedLayer, path: Path) -> None:
    """Write a step line of each to an SVG file; the same points give the same file."""
    pyplot.rcParams |= {"svg.hashsalt": "cpsat_pim", "svg.fonttype": "none"}
    figure, axes = pyplot.subplots(figsize=(7, 3.2), layout="constrained")
    for name, style in (("incumbent", "-"), ("bound", "--")):
        known = [(p.seconds, getattr(p, name)) for p in points if getattr(p, name) is not None]
        seconds, values = zip(*known, strict=True)
        label = "lower bound" if name == "bound" else name
        axes.step(seconds, values, style, where="post", marker=".", label=label)
    axes.set_xlabel("seconds of the search")
    unit = UNITS.get(solved.objective.kind)
    axes.set_ylabel(f"{solved.objective.kind} ({unit})" if unit else solved.objective.kind)
    axes.legend(loc="lower right")
    figure.savefig(path, metadata={"Date": None})


if __name__ == "__main__":
    main()
