"""Plans of networks against simpler planners and published schedules (docs/array-results.md).

    python scripts/benchmark_plan.py --array 4x4 --networks alexnet      one row
    python scripts/benchmark_plan.py --all                               all rows of the page that are missing
    python scripts/benchmark_plan.py --write                             the page's tables, from the rows

Every row is one network on one array, minimum latency: the optimal planner (value, bound, status, seconds), simpler
planners with the same node costs, and the ideal (multiplications over all PEs). Node programs cost their lower bounds,
or are solved (`--node-costs solved`, which takes longer by far). All plans are simulated unless `--no-simulation`. With
`--nn-dataflow FILE` a schedule that nn_dataflow wrote is replayed on the same array.

Rows are kept in a JSON file, plans in a folder. What has figures there is not run again, only simulated if it was not;
so a run that was stopped goes on where it was. `--all` runs the lines of scripts/plans/runs.txt, each one a command
line of this script.
"""

import argparse
import json
import resource
import shlex
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from attrs import evolve
from plan_tables import BASELINES, write_page

from cpsat_pim.arch import PIMArchitecture
from cpsat_pim.arch.reading import read_arch
from cpsat_pim.base.files import write_json
from cpsat_pim.base.reading import read_json
from cpsat_pim.mapper.result import Objective
from cpsat_pim.mapping.widths import on_machine, with_widths
from cpsat_pim.planner.array import NodeArray, parse_array
from cpsat_pim.planner.baselines.bound_costs import BoundCosts
from cpsat_pim.planner.baselines.nn_dataflow import read_schedule, replayed
from cpsat_pim.planner.baselines.problem import Problem
from cpsat_pim.planner.baselines.run import plan_baseline
from cpsat_pim.planner.capacity import least_peak_bytes
from cpsat_pim.planner.evaluate import PlanCost, evaluate_plan
from cpsat_pim.planner.explain import tour_share
from cpsat_pim.planner.graph import build_graph
from cpsat_pim.planner.nodes import NodeCosts
from cpsat_pim.planner.plan import Plan
from cpsat_pim.planner.plan_file import read_plan
from cpsat_pim.planner.repeats import written_out
from cpsat_pim.planner.search import solve_plan
from cpsat_pim.planner.simulation import differences, simulate
from cpsat_pim.planner.solved import SearchLimits
from cpsat_pim.planner.space import Space
from cpsat_pim.study.sweep.versions import current_versions
from cpsat_pim.workload.network import Network, read_network

#: Bytes of input, weight, output and partial sum on NicePIM's machines: section VIII-B. Others have their own words.
BYTES = (2, 2, 2, 4)
PLANS = Path(__file__).parent / "plans"


def main() -> int:
    """A row a network; ends with 3 if a simulation differs."""
    arguments = _parser().parse_args()
    path = Path(arguments.json)
    rows: dict[str, Any] = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    if arguments.write is not None:
        write_page(rows, arguments.write)
        return 0
    is_equal = True
    for one in _lines(arguments) if arguments.all else [arguments]:
        for name in one.networks:
            is_equal &= _run(Row(one, name), rows, path)
    return 0 if is_equal else 3


def _lines(arguments: argparse.Namespace) -> Iterator[argparse.Namespace]:
    """The command lines of scripts/plans/runs.txt, with the files that were given."""
    for line in (PLANS / "runs.txt").read_text(encoding="utf-8").splitlines():
        words = shlex.split(line, comments=True)
        if words:
            files = ["--json", arguments.json, "--keep", arguments.keep]
            yield _parser().parse_args([*words, *files, *(["--store", arguments.store] if arguments.store else [])])


def _run(row: "Row", rows: dict[str, Any], path: Path) -> bool:
    """Add the figures of a row that are missing, each as soon as it is there; whether all simulations agree."""
    is_equal = True
    known = rows.get(row.key, {}).get("plans", {})
    for key, figures in row.all({} if row.arguments.again else known):
        rows.setdefault(row.key, row.head()).setdefault("plans", {})[key] = figures
        path.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
        is_equal &= not figures["differences"]
        print(f"{row.key} {key}: {_short(figures)}", flush=True)
    row.costs.close()
    return is_equal


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--all", action="store_true", help="run what is missing of all rows of docs/array-results.md")
    add("--networks", nargs="+", default=["alexnet"], metavar="NETWORK")
    add("--array", default="4x4", help="rows x columns (%(default)s)")
    add("--arch", help="machine of a node (stacked-3d of the array's size)")
    add("--bind", nargs="*", default=[], metavar="NAME=SIZE", help="sizes of the network's parameters")
    add("--plans", nargs="+", default=["plan", *BASELINES], help="which planners run (%(default)s)")
    add("--layouts", default="BCHW,BHWC", help="as of `plan` (%(default)s)")
    text = "lower bounds of the mapper, or solved node programs (%(default)s)"
    add("--node-costs", choices=("bounds", "solved"), default="bounds", help=text)
    add("--cuts", type=int, default=0, help="as of `plan` (%(default)d)")
    add("--home-columns", action="store_true", help="as of `plan`")
    add("--padding", type=float, default=0.0, help="share of MACs that padded parts may have more (%(default)g)")
    add("--capacity", type=int, metavar="BYTES", help="of a node (the machine's)")
    add("--time-limit", type=float, default=300.0, help="seconds of each planner (%(default)g)")
    add("--node-time", type=float, default=60.0, help="seconds of a node problem (%(default)g)")
    add("--solves", type=int, default=8, help="node problems that a choice of a baseline may solve (%(default)d)")
    add("--jobs", type=int, default=1, help="node problems solved at a time (%(default)d)")
    add("--store", help="store of node problems")
    add("--no-simulation", action="store_true", help="do not simulate the plans")
    add("--nn-dataflow", metavar="FILE", help="also replay this schedule")
    add("--again", action="store_true", help="also run what has figures")
    text = "plans are kept in this folder; the search starts from those of simpler planners in it (%(default)s)"
    add("--keep", metavar="FOLDER", default="build/plans", help=text)
    add("--json", default=str(PLANS / "results.json"), help="rows are kept in this file (%(default)s)")
    add("--write", nargs="*", metavar="TABLE", help="run nothing: write (these) tables of docs/array-results.md")
    return parser


class Row:
    """One network on one array."""

    def __init__(self, arguments: argparse.Namespace, name: str) -> None:
        self.arguments = arguments
        node = read_arch(arguments.arch or f"stacked-3d-{arguments.array}")
        self.network = _network(arguments, name, node)
        array = parse_array(arguments.array, node)
        self.array: NodeArray = evolve(array, capacity_bytes=arguments.capacity or array.capacity_bytes)
        self.graph = build_graph(self.network)
        self.objective = Objective.named("latency")
        is_free = arguments.layouts == "free"
        layouts = ["BCHW"] if is_free else arguments.layouts.split(",")
        columns = arguments.home_columns
        self.space = Space(
            layouts=layouts, is_tied=not is_free, cuts=arguments.cuts, home_columns=columns, padding=arguments.padding
        )
        store = Path(arguments.store) if arguments.store else None
        version = str(current_versions())
        costs = BoundCosts if arguments.node_costs == "bounds" else NodeCosts
        self.costs = costs(
            self.array.node,
            self.objective,
            store,
            version,
            arguments.node_time,
            arguments.jobs,
            padding=arguments.padding,
        )

    @property
    def key(self) -> str:
        """Network, array and space."""
        given = self.arguments
        parts = [self.network.name, given.arch, given.array]
        parts += [f"cuts {given.cuts}"] if given.cuts else []
        parts += ["home columns"] if given.home_columns else []
        parts += [f"padding {given.padding:g}"] if given.padding else []
        parts += [f"capacity {given.capacity}"] if given.capacity else []
        return " ".join(filter(None, [*parts, given.layouts, given.node_costs]))

    def head(self) -> dict[str, Any]:
        """What the plans of a row have in common."""
        macs, given = self.network.total_macs, self.arguments
        return {
            "network": self.network.name,
            "array": given.array,
            "arch": given.arch,
            "home_columns": given.home_columns,
            "padding": given.padding,
            "node_costs": given.node_costs,
            "clock": self.array.node.clock,
            "macs": macs,
            "ideal_cycles": -(-macs // (self.array.nodes * self.array.node.pe_array.macs_per_cycle)),
            "capacity": given.capacity,
            "least_capacity": least_peak_bytes(self.graph, self.array.nodes),
        }

    def all(self, known: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
        """Figures of every planner that is asked for and has none. The search comes last, from the others' plans."""
        wanted = [name for name in (*BASELINES, "nn_dataflow", "plan") if name in self._wanted()]
        for name in wanted:
            figures = known.get(name)
            if figures is None:
                figures = self._figures_of(name)
                yield name, figures
            if not self._path(name).exists():
                continue
            if "saved_by_tours" not in figures:
                figures = figures | self._tours(evaluate_plan(self.graph, self._read(name)))
                yield name, figures
            if figures["simulated_cycles"] is None and not self.arguments.no_simulation:
                yield name, figures | self._simulated(self._read(name))

    def _wanted(self) -> list[str]:
        return [*self.arguments.plans, *(["nn_dataflow"] if self.arguments.nn_dataflow else [])]

    def _figures_of(self, name: str) -> dict[str, Any]:
        if name == "plan":
            return self._planned([self._read(one) for one in BASELINES if self._path(one).exists()])
        if name == "nn_dataflow":
            return self._replayed(self.arguments.nn_dataflow)
        found = plan_baseline(name, self._problem())
        return self._figures(name, found.plan, found.cost, found.seconds, **found.statistics)

    def _problem(self) -> Problem:
        return Problem(
            graph=self.graph,
            array=self.array,
            space=self.space,
            objective=self.objective,
            costs=self.costs,
            time_limit=self.arguments.time_limit,
            solves=self.arguments.solves,
            report=_progress,
        )

    def _planned(self, starts: list[Plan]) -> dict[str, Any]:
        limits, begin = SearchLimits(time_limit=self.arguments.time_limit), time.process_time()
        solved = solve_plan(
            self.graph, self.array, self.space, self.objective, self.costs, limits, _progress, incumbents=starts
        )
        if solved.plan is None or solved.cost is None:
            why = solved.reason or f"no plan was found in {self.arguments.time_limit:g} s"
            raise SystemExit(f"{self.key}: {why}; all of the space cost at least {solved.bound}")
        seconds, memory = time.process_time() - begin, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        more = {"status": solved.status.value, "bound": solved.bound, "cpu_seconds": seconds, "memory_mib": memory}
        return self._figures("plan", solved.plan, solved.cost, solved.seconds, **more, **solved.statistics)

    def _replayed(self, path: str) -> dict[str, Any]:
        started, problem = time.monotonic(), self._problem()
        schedule = read_schedule(read_json(path), self.graph, self.array, self.space.layouts[0])
        plan = replayed(problem, schedule)
        cost, seconds = evaluate_plan(self.graph, plan), time.monotonic() - started
        return self._figures("nn_dataflow", plan, cost, seconds, their_cycles=schedule.time, their_cost=schedule.cost)

    def _simulated(self, plan: Plan) -> dict[str, Any]:
        """The simulated latency, and how many exact figures differ."""
        cost, simulated = evaluate_plan(self.graph, plan), simulate(self.network, self.graph, plan)
        unequal = len(differences(self.graph, cost, simulated))
        return {"simulated_cycles": int(simulated.latency_cycles), "differences": unequal}

    def _tours(self, cost: PlanCost) -> dict[str, Any]:
        """Cycles of exchanges along tours, and how many of them other tours save at most."""
        share = tour_share(self.array, cost)
        return {"toured_cycles": share.cycles, "saved_by_tours": share.most_saved}

    def _path(self, name: str) -> Path:
        return Path(self.arguments.keep) / f"{self.key.replace(' ', '_')}_{name}.json"

    def _read(self, name: str) -> Plan:
        return read_plan(self._path(name), self.graph, self.array.node)

    def _figures(self, name: str, plan: Plan, cost: PlanCost, seconds: float, **more: Any) -> dict[str, Any]:
        """Keep the plan, which `plan --replay` reads; return predicted totals. It is simulated later."""
        self._path(name).parent.mkdir(parents=True, exist_ok=True)
        write_json(plan.to_dict(), str(self._path(name)))
        node = sum(step.node_cycles for step in cost.steps)
        keys = ("energy_fj", "noc_energy_fj", "dram_energy_fj", "node_energy_fj", "peak_bytes")
        totals = cost.to_dict()
        return {
            "latency_cycles": cost.latency_cycles,
            "node_cycles": node,
            **{key: totals[key] for key in keys},
            **self._tours(cost),
            "simulated_cycles": None,
            "differences": None,
            "seconds": round(seconds, 1),
            "time_limit": self.arguments.time_limit,
            "node_time": self.arguments.node_time,
            "solves": self.arguments.solves,
            **more,
        }


def _network(arguments: argparse.Namespace, name: str, node: PIMArchitecture) -> Network:
    bind = {key: int(size) for key, size in (one.split("=") for one in arguments.bind)}
    network = read_network(name, parameters=bind)
    return written_out(on_machine(network, node) if arguments.arch else with_widths(network, BYTES))


def _progress(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _short(figures: dict[str, Any]) -> str:
    energy = figures["energy_fj"] / 1e12
    proof = f", {figures['status']}, bound {figures['bound']}" if "status" in figures else ""
    same = "" if not figures["differences"] else f", {figures['differences']} FIGURES DIFFER"
    return f"{figures['latency_cycles']} cycles, {energy:.3f} mJ{proof}, {figures['seconds']} s{same}"


if __name__ == "__main__":
    try:
        sys.exit(main())
    except ValueError as error:
        sys.exit(f"benchmark_plan: {error}")
