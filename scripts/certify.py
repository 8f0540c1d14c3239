"""Solve every layer of every network, for every objective, on four machines, and print how much of it is proven.

    python scripts/certify.py                            # all of it: two hours of a core; goes on where it was
    python scripts/certify.py --sample 100 --seed 1      # 100 layers drawn at random; 200 include them
    python scripts/certify.py --summary                  # what is there by now
    python scripts/certify.py --against OLD.sqlite       # and whether results of another version say otherwise

A layer is one of a network on a machine for an objective; equal ones of several networks are solved once. Each starts
cold: its tables are built anew, which is part of its time. Times in the summary are seconds of the CPU, so they are
those of a quiet machine; the time limit is one of the clock. Results are in a store (docs/sweep.md).
"""

import argparse
import math
import os
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any

import attrs
from peak_memory import peak_mib, reset_peak

from cpsat_pim.cli.arguments import checked, cpus, jobs
from cpsat_pim.mapper.result import Status
from cpsat_pim.study.sweep.engine.local import run_locally
from cpsat_pim.study.sweep.job import Job, arch_key, solve_job
from cpsat_pim.study.sweep.plan import Plan, Point, Use
from cpsat_pim.study.sweep.progress import LiveSweep
from cpsat_pim.study.sweep.reading import read_plan
from cpsat_pim.study.sweep.run import run_sweep
from cpsat_pim.study.sweep.store import Store, StoreError

PLAN = Path(__file__).parent / "certificate" / "plan.yaml"
PROVEN = (Status.OPTIMAL, Status.INFEASIBLE)
#: All that a result is of but for layer and machine.
ASKED = "json_array(jobs.objective, json_extract(options, '$.padding'), json_extract(answer, '$.constraints')) AS asked"
ROWS = f"""
SELECT results.*, jobs.arch AS machine, abs(1.0 * results.simulated_cycles / results.latency_cycles - 1) AS off,
    coalesce(json_extract(answer, '$.cpu_seconds'), results.seconds) AS cpu,
    json_extract(answer, '$.peak_mib') AS peak, {ASKED}
FROM results JOIN jobs USING (key) WHERE plan = ? ORDER BY network, results.objective, results.arch, key
"""
KNOWN = f"SELECT shape, arch AS machine, {ASKED}, status, objective_value, bound FROM jobs WHERE state = 'done'"
_layers = checked(int, lambda n: n >= 1, "must be a positive integer")
#: Seconds of the CPU in which most layers are to be proven.
PROMISED = 60
#: Bounds of blends are rounded.
ROUNDING = 1e-12
HEADER = (
    f"{'network':14}{'objective':11}{'machine':14}{'layers':>7}{'proven':>8}{'gap %':>8}"
    f"{'median s':>10}{'p95 s':>8}{'max s':>8}{'MiB':>7}{'off %':>8}"
)

Row = dict[str, Any]


def main() -> int:
    """Solve what is open, then print the summary; 0 if nothing failed."""
    arguments = parse_arguments()
    plan = planned(arguments)
    stopped = False
    with Store(arguments.store, readonly=arguments.summary) as store:
        if not arguments.summary:
            stopped = not has_solved(plan, store, arguments.jobs)
        rows = store.rows(ROWS, plan.name)
        print_summary(rows)
        failed = bool(store.query("SELECT 1 FROM results WHERE plan = ? AND failure != 'unfit'", plan.name))
    if arguments.against:
        with Store(arguments.against, readonly=True) as other:
            failed |= has_contradictions(different(rows), other.rows(KNOWN))
    return 130 if stopped else int(failed)


def parse_arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("plan", nargs="?", default=PLAN, help="another plan than the certificate's")
    parser.add_argument("--store", default="certificate.sqlite", help="where the results are kept")
    parser.add_argument("--time-limit", type=float, help="seconds a layer (the plan's)")
    parser.add_argument("--jobs", type=jobs, default=cpus(), help="layers solved at a time, each on one CPU")
    parser.add_argument("--sample", type=_layers, help="so many layers, drawn at random")
    parser.add_argument("--seed", type=int, default=0, help="of the sample")
    parser.add_argument("--against", metavar="STORE", help="compare with these results")
    parser.add_argument("--summary", action="store_true", help="solve nothing")
    return parser.parse_args()


# --- The plan --------------------------------------------------------------------------------------------------------


def planned(arguments: argparse.Namespace) -> Plan:
    """The plan, or a sample of it, with the time limit that is asked for."""
    plan = read_plan(arguments.plan)
    if arguments.time_limit is not None:
        points = [with_time_limit(point, arguments.time_limit) for point in plan.points]
        plan = attrs.evolve(plan, name=f"{plan.name}, {arguments.time_limit:g} s", points=points)
    return sampled(plan, arguments.sample, arguments.seed) if arguments.sample else plan


def with_time_limit(point: Point, seconds: float) -> Point:
    """The point with so much time for a layer."""
    return attrs.evolve(point, options=attrs.evolve(point.options, time_limit=seconds))


def sampled(plan: Plan, count: int, seed: int) -> Plan:
    """The plan with so many of its different layers, all alike, by nothing but the seed; a longer sample has a shorter
    one in it.
    """
    uses, draw = plan.uses(), random.Random(seed).random
    shuffled = sorted(sorted({content(use.job) for use in uses}), key=lambda _: draw())
    drawn = set(shuffled[:count])
    points = [only(point, i, uses, drawn) for i, point in enumerate(plan.points)]
    name = f"{plan.name}, {count} of seed {seed}"
    return Plan(name=name, points=[point for point in points if point is not None])


def content(job: Job) -> tuple[str, ...]:
    """What sets a layer apart from others, whatever the version of the program."""
    return (job.layer.shape_key, arch_key(job.arch), job.objective.kind)


def only(point: Point, i: int, uses: list[Use], drawn: set[tuple[str, ...]]) -> Point | None:
    """The i-th point with those of its layers that are drawn, if any are."""
    names = [use.layer for use in uses if use.point == i and content(use.job) in drawn]
    return attrs.evolve(point, network=point.network.only(names)) if names else None


# --- Solving ---------------------------------------------------------------------------------------------------------


def has_solved(plan: Plan, store: Store, jobs: int) -> bool:
    """Solve what is open; False if it was stopped, which loses nothing that had finished."""
    with LiveSweep(plan.name) as watch:
        try:
            run_sweep(plan, store, partial(run_locally, workers=jobs, work=solve_cold), watch=watch)
        except KeyboardInterrupt:
            return False
    return True


def solve_cold(job: Job) -> dict[str, Any]:
    """A job's answer, with its peak memory and seconds of the CPU: no table is known before."""
    reset_peak()
    started = time.process_time()
    with tempfile.TemporaryDirectory() as cold:
        os.environ["CPSAT_PIM_CACHE"] = cold
        return solve_job(job) | {"peak_mib": peak_mib(), "cpu_seconds": round(time.process_time() - started, 3)}


# --- The summary -----------------------------------------------------------------------------------------------------


def print_summary(rows: list[Row]) -> None:
    """A line for each network, objective and machine; then all of them, each layer once."""
    print(HEADER)

    def place(row: Row) -> tuple[str, str, str]:
        return (row["network"], row["objective"], row["arch"])

    for (network, objective, arch), group in groupby(rows, place):
        print_line(f"{network[:13]:14}{objective:11}{arch[:13]:14}", different(group))
    for column in ("objective", "arch"):
        print()
        for value in sorted({row[column] for row in rows}):
            print_line(f"{'all':14}{value:25}", different(row for row in rows if row[column] == value))
    print()
    print_unproven(different(rows))
    print_line(f"{'all':39}", different(rows))
    print_whole(different(rows))


def has_contradictions(rows: list[Row], others: list[Row]) -> bool:
    """Whether somebody has found a mapping that costs less than what somebody else has proven to be the least; a line
    for each layer.
    """
    known: dict[tuple[str, ...], list[Row]] = {}
    for other in others:
        known.setdefault(same(other), []).append(other)
    pairs = [(row, other) for row in rows if row["state"] == "done" for other in known.get(same(row), ())]
    wrong = [(row, other) for row, other in pairs if is_refuted(row, other) or is_refuted(other, row)]
    for row, other in wrong:
        where = f"{row['network']} {row['layer']}, {row['objective']}, {row['arch']}"
        print(f"{where}: {answer(row)} against {answer(other)}")
    print(f"{len(pairs)} results compared, {len(wrong)} contradict each other")
    return bool(wrong)


def same(row: Row) -> tuple[str, ...]:
    """What a result is of."""
    return (row["shape"], row["machine"], row["asked"])


def answer(row: Row) -> str:
    """What was found and what is proven."""
    return f"{row['status']} {row['objective_value']} (bound {row['bound']})"


def is_refuted(row: Row, other: Row) -> bool:
    """Whether a mapping of another result costs less than a bound, or there was to be none."""
    bound, cost = row["bound"], other["objective_value"]
    if cost is None or row["status"] == Status.INFEASIBLE:
        return cost is not None
    return bound is not None and cost < bound - abs(bound) * ROUNDING


def print_unproven(rows: list[Row]) -> None:
    """A line for each layer whose optimum is not proven, the widest gap first."""
    left = [row for row in rows if row["state"] == "done" and row["status"] not in PROVEN]
    for row in sorted(left, key=lambda row: -math.inf if row["gap"] is None else -row["gap"]):
        gap = "none found" if row["gap"] is None else f"gap {100 * row['gap']:.3f} %"
        where = f"{row['network'][:13]:14}{row['objective']:11}{row['arch'][:13]:14}"
        print(f"{where}{row['layer']:24}{row['status']:>10}  {gap}")
    if left:
        print()


def different(rows: Any) -> list[Row]:
    """Each layer once, however many networks have it."""
    return list({row["key"]: row for row in rows}.values())


def print_line(label: str, rows: list[Row]) -> None:
    """How many layers there are and are proven, the worst gap of the others, and what the solves took."""
    done = [row for row in rows if row["state"] == "done"]
    seconds, peaks = known(done, "cpu"), known(done, "peak")
    gaps = [row["gap"] for row in done if row["status"] not in PROVEN]
    gap = "none" if None in gaps else f"{100 * max(gaps):.3f}" if gaps else ""
    print(
        f"{label}{len(rows):>7}{sum(row['status'] in PROVEN for row in done):>8}{gap:>8}"
        f"{figure(seconds, statistics.median):>10}{figure(seconds, percentile_95):>8}{figure(seconds, max):>8}"
        f"{figure(peaks, max, 0):>7}{figure(known(done, 'off'), lambda off: 100 * max(off), 3):>8}"
    )


def known(rows: list[Row], column: str) -> list[float]:
    """A column's values, where there are any."""
    return [row[column] for row in rows if row[column] is not None]


def figure(values: list[float], statistic: Callable[[list[float]], float], digits: int = 1) -> str:
    """Format a statistic of some values; empty if there are none."""
    return f"{statistic(values):.{digits}f}" if values else ""


def percentile_95(values: list[float]) -> float:
    """The least value that 95 % do not exceed."""
    return sorted(values)[math.ceil(0.95 * len(values)) - 1]


def print_whole(rows: list[Row]) -> None:
    """The whole in words: what is proven, what is left, and how well it was predicted."""
    done = [row for row in rows if row["state"] == "done"]
    unfit = sum(row["failure"] == "unfit" for row in rows)
    failed = [row for row in rows if row["state"] == "failed" and row["failure"] != "unfit"]
    wrong = sum(row["failure"] == "disagreement" for row in failed)
    proven = sum(row["status"] in PROVEN for row in done)
    print(f"proven {proven} of {len(done)} solved layers ({100 * proven / max(1, len(done)):.2f} %)", end="")
    print(f", {sum(row['cpu'] <= PROMISED for row in done if row['status'] in PROVEN)} of them", end=" ")
    left = len(rows) - len(done) - len(failed) - unfit
    print(f"in at most {PROMISED} s of the CPU; {len(failed)} failed, {unfit} fit no node, {left} open")
    off = known(done, "off")
    if off:
        print(f"exact figures differ from the simulated ones in {wrong} layers; the latency is off by", end=" ")
        print(f"{100 * statistics.median(off):.3f} % (median), {100 * percentile_95(off):.3f} % (p95),", end=" ")
        print(f"{100 * max(off):.3f} % (worst)")


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (ValueError, StoreError) as error:
        sys.exit(f"certify: {error}")
