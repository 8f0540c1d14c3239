"""CPU time and peak memory of a solve against the size of the problem: MACs, divisors, free choices of what is stored.

    python scripts/benchmark_scaling.py [--time-limit 60] [--csv docs/scaling.csv] [--plot docs/scaling.svg]
    python scripts/benchmark_scaling.py --plot-only [--csv docs/scaling.csv] [--plot docs/scaling.svg]

Each solve has a process of its own and builds its tables anew. CPU seconds, unlike the time limit, do not depend on
what else the machine does. The plot needs the extra `plots`.
"""

import argparse
import csv
import multiprocessing
import os
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import attrs
from peak_memory import peak_mib

from cpsat_pim.arch import PIMArchitecture
from cpsat_pim.base.dims import BUFFERS, Level
from cpsat_pim.base.extras import import_extra
from cpsat_pim.mapper.network.compile import compile_kernels
from cpsat_pim.mapper.network.run import solve_and_verify
from cpsat_pim.mapper.result import Objective
from cpsat_pim.mapper.search import SolveRequest
from cpsat_pim.workload import ConvWorkload

OBJECTIVES = ("energy", "latency")
#: Of each series what its axis counts.
AXES = {"size": "MACs", "divisors": "divisors of C and of K", "choices": "free choices of what is stored"}
COLUMNS = ("series", "x", "objective", "status", "gap", "seconds", "cpu_seconds", "peak_mib", "programs", "work")

Row = dict[str, Any]
Problem = tuple[str, int, ConvWorkload, PIMArchitecture]


def main() -> None:
    """Measure, unless it was measured before, and draw."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--time-limit", type=float, default=60.0)
    parser.add_argument("--csv", type=Path, default=Path("docs/scaling.csv"))
    parser.add_argument("--plot", type=Path, default=Path("docs/scaling.svg"))
    parser.add_argument("--plot-only", action="store_true", help="draw what was measured before")
    arguments = parser.parse_args()
    pyplot = import_extra("matplotlib.pyplot", "plots")
    if not arguments.plot_only:
        write_rows(arguments.csv, measured(arguments.time_limit))
    draw(pyplot, list(csv.DictReader(arguments.csv.read_text().splitlines())), arguments.plot)


# --- Problems --------------------------------------------------------------------------------------------------------


def problems() -> Iterator[Problem]:
    """Of each series, from its smallest on."""
    yield from larger_layers()
    yield from layers_of_more_divisors()
    yield from machines_of_more_choices()


def larger_layers() -> Iterator[Problem]:
    """A 3x3 convolution whose channels are doubled in turn: 1 to 64 times the MACs."""
    for doublings in range(7):
        channels = {"C": 16 * 2 ** ((doublings + 1) // 2), "K": 16 * 2 ** (doublings // 2)}
        layer = ConvWorkload(R=3, S=3, P=14, Q=14, **channels)
        yield "size", layer.macs, layer, PIMArchitecture()


def layers_of_more_divisors() -> Iterator[Problem]:
    """A matrix product of about the same size: 1009 is prime, 1007 = 19 x 53, 1001 = 7 x 11 x 13, 1000 and 1008."""
    for bound in (1009, 1007, 1001, 1000, 1008):
        divisors = sum(bound % n == 0 for n in range(1, bound + 1))
        yield "divisors", divisors, ConvWorkload(C=bound, K=bound, N=8), PIMArchitecture()


def machines_of_more_choices() -> Iterator[Problem]:
    """All stored in the PEs and the global buffer and nothing in the row buffer, until these are free, one by one."""
    layer = ConvWorkload(R=3, S=3, P=14, Q=14, C=64, K=64)
    for free in range(len(BUFFERS) + 1):
        fixed = {m: (m != Level.ROW_BUFFER,) * 3 for m in BUFFERS[free:]}
        levels = [
            attrs.evolve(level, stores=fixed[m], bypass_defined=True) if m in fixed else level
            for m, level in zip(Level, PIMArchitecture().hierarchy, strict=True)
        ]
        yield "choices", 3 * free, layer, PIMArchitecture(hierarchy=levels)


# --- Measuring -------------------------------------------------------------------------------------------------------


def measured(time_limit: float) -> Iterator[Row]:
    """A row for each problem and objective, printed as it comes."""
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, spawn, max_tasks_per_child=1) as fresh:
        fresh.submit(compile_kernels).result()  # once per version: in no solve's time or memory
        for series, x, layer, arch in problems():
            for kind in OBJECTIVES:
                row = {"series": series, "x": x, "objective": kind}
                row |= fresh.submit(solve_cold, layer, arch, kind, time_limit).result()
                print(" ".join(f"{column} {row[column]}" for column in COLUMNS), flush=True)
                yield row


def solve_cold(layer: ConvWorkload, arch: PIMArchitecture, kind: str, time_limit: float) -> Row:
    """What a solve takes that knows no table."""
    with tempfile.TemporaryDirectory() as cold:
        os.environ["CPSAT_PIM_CACHE"] = cold
        compile_kernels()
        begun = time.process_time()
        solved = solve_and_verify(
            layer, arch, SolveRequest(objective=Objective.named(kind), then=None, time_limit=time_limit)
        )
    return {
        "status": solved.status.value,
        "gap": solved.gap,
        "seconds": round(solved.solve_seconds, 2),
        "cpu_seconds": round(time.process_time() - begun, 2),
        "peak_mib": round(peak_mib() or 0),
        "programs": solved.solver_info["programs"],
        "work": round(solved.solver_info["work"], 1),
    }


def write_rows(path: Path, rows: Iterator[Row]) -> None:
    """A CSV file, row by row; one that is there is replaced at the end."""
    part = path.with_suffix(".part")
    with part.open("w", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        for row in rows:
            writer.writerow(row)
            file.flush()
    part.replace(path)


# --- Drawing ---------------------------------------------------------------------------------------------------------


def draw(pyplot: Any, rows: list[Row], path: Path) -> None:
    """CPU seconds above, memory below, a column a series; what is not proven is hollow."""
    figure, axes = pyplot.subplots(2, len(AXES), figsize=(11, 5.5), sharex="col", layout="constrained")
    for column, (series, label) in enumerate(AXES.items()):
        of_series = [row for row in rows if row["series"] == series]
        draw_series(axes[0][column], of_series, "cpu_seconds")
        draw_series(axes[1][column], of_series, "peak_mib")
        axes[1][column].set_xlabel(label)
        if series == "size":
            axes[0][column].set_xscale("log", base=2)
    axes[0][0].set_ylabel("CPU seconds")
    axes[1][0].set_ylabel("peak memory, MiB")
    axes[0][0].legend(frameon=False)
    with pyplot.rc_context({"svg.hashsalt": "scaling", "svg.fonttype": "none"}):  # the same text from the same figures
        figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)


def draw_series(axis: Any, rows: list[Row], figure: str) -> None:
    """A line for each objective."""
    for kind, colour in zip(OBJECTIVES, ("tab:blue", "tab:orange"), strict=True):
        points = [row for row in rows if row["objective"] == kind]
        xs, ys = [float(row["x"]) for row in points], [float(row[figure]) for row in points]
        faces = [colour if row["status"] == "OPTIMAL" else "white" for row in points]
        axis.plot(xs, ys, color=colour, label=kind, zorder=1)
        axis.scatter(xs, ys, edgecolors=colour, c=faces, zorder=2, clip_on=False)
    axis.set_ylim(bottom=0)
    axis.spines[["top", "right"]].set_visible(False)


if __name__ == "__main__":
    main()
