"""Plans of networks against simpler planners and published schedules (docs/array-results.md).

    python scripts/benchmark_plan.py --quick                    small networks, short limits
    python scripts/benchmark_plan.py --array 4x4 --networks alexnet googlenet --store nodes.db --json results.json

Every row is one network on one array, minimum latency: the optimal planner (value, bound, status, seconds), the three
baselines with the same node costs, and the ideal (multiplications over all PEs). Node programs cost their lower bounds,
or are solved (`--node-costs solved`, which takes longer by far). All plans are simulated unless `--no-simulation`. With
`--nn-dataflow FILE` a schedule that nn_dataflow wrote is replayed on the same array. Results are added to those of a
JSON file; `--write` puts tables of all that it has into docs/array-results.md.
"""

import argparse
import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from attrs import evolve

from cpsat_pim.arch.reading import read_arch
from cpsat_pim.base.files import write_json
from cpsat_pim.base.reading import read_json
from cpsat_pim.mapper.result import Objective
from cpsat_pim.mapping.widths import with_widths
from cpsat_pim.planner.array import NodeArray, parse_array
from cpsat_pim.planner.baselines.bound_costs import BoundCosts
from cpsat_pim.planner.baselines.nn_dataflow import read_schedule, replayed
from cpsat_pim.planner.baselines.problem import Problem
from cpsat_pim.planner.baselines.run import BASELINES, plan_baseline
from cpsat_pim.planner.capacity import least_peak_bytes
from cpsat_pim.planner.evaluate import PlanCost, evaluate_plan
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

#: Bytes of input, weight, output and partial sum: NicePIM, section VIII-B.
BYTES = (2, 2, 2, 4)
QUICK = ["alexnet"]
#: Lines of a table without rows.
_HEAD_LINES = 2
PAGE = Path(__file__).parents[1] / "docs" / "array-results.md"


def main() -> int:
    """A row a network; ends with 3 if a simulation differs."""
    arguments = _arguments()
    path = Path(arguments.json)
    rows: dict[str, Any] = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    if arguments.write is not None:
        write_page(rows, arguments.write)
        return 0
    is_equal = True
    for name in arguments.networks:
        row = Row(arguments, name)
        for key, figures in row.all():
            rows.setdefault(row.key, row.head()).setdefault("plans", {})[key] = figures
            path.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
            is_equal &= not figures["differences"]
            print(f"{row.key} {key}: {_short(figures)}", flush=True)
        row.costs.close()
    return 0 if is_equal else 3


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--networks", nargs="+", default=QUICK, metavar="NETWORK")
    add("--array", default="4x4", help="rows x columns; the machine is stacked-3d of this size (%(default)s)")
    add("--plans", nargs="+", default=["plan", *BASELINES], help="which planners run (%(default)s)")
    add("--layouts", default="BCHW,BHWC", help="as of `plan` (%(default)s)")
    text = "lower bounds of the mapper, or solved node programs (%(default)s)"
    add("--node-costs", choices=("bounds", "solved"), default="bounds", help=text)
    add("--cuts", type=int, default=0, help="as of `plan` (%(default)d)")
    add("--capacity", type=int, metavar="BYTES", help="of a node (the machine's)")
    add("--time-limit", type=float, default=300.0, help="seconds of each planner (%(default)g)")
    add("--node-time", type=float, default=60.0, help="seconds of a node problem (%(default)g)")
    add("--solves", type=int, default=8, help="node problems that a choice of a baseline may solve (%(default)d)")
    add("--jobs", type=int, default=1, help="node problems solved at a time (%(default)d)")
    add("--store", help="store of node problems")
    add("--no-simulation", action="store_true", help="do not simulate the plans")
    add("--keep", metavar="FOLDER", help="also write all plans into this folder; the search starts from those in it")
    add("--nn-dataflow", metavar="FILE", help="also replay this schedule")
    add("--json", default="benchmark_plan.json", help="results are added to this file (%(default)s)")
    add("--write", nargs="*", metavar="TABLE", help="run nothing: write (these) tables of docs/array-results.md")
    add("--quick", action="store_true", help="short limits: 60 s a planner, 5 s a node problem")
    arguments = parser.parse_args()
    if arguments.quick:
        arguments.time_limit, arguments.node_time = 60.0, 5.0
    return arguments


class Row:
    """One network on one array."""

    def __init__(self, arguments: argparse.Namespace, name: str) -> None:
        self.arguments, self.network = arguments, _network(name)
        array = parse_array(arguments.array, read_arch(f"stacked-3d-{arguments.array}"))
        self.array: NodeArray = evolve(array, capacity_bytes=arguments.capacity or array.capacity_bytes)
        self.graph = build_graph(self.network)
        self.objective = Objective.named("latency")
        is_free = arguments.layouts == "free"
        layouts = ["BCHW"] if is_free else arguments.layouts.split(",")
        self.space = Space(layouts=layouts, is_tied=not is_free, cuts=arguments.cuts)
        store = Path(arguments.store) if arguments.store else None
        version = str(current_versions())
        costs = BoundCosts if arguments.node_costs == "bounds" else NodeCosts
        self.costs = costs(self.array.node, self.objective, store, version, arguments.node_time, arguments.jobs)

    @property
    def key(self) -> str:
        """Network, array and layouts."""
        cuts = f" cuts {self.arguments.cuts}" if self.arguments.cuts else ""
        cuts += f" capacity {self.arguments.capacity}" if self.arguments.capacity else ""
        return f"{self.network.name} {self.arguments.array}{cuts} {self.arguments.layouts} {self.arguments.node_costs}"

    def head(self) -> dict[str, Any]:
        """What the rows have in common."""
        macs = self.network.total_macs
        ideal = -(-macs // (self.array.nodes * self.array.node.pe_array.macs_per_cycle))
        more = {"capacity": self.arguments.capacity, "least_capacity": least_peak_bytes(self.graph, self.array.nodes)}
        return {"network": self.network.name, "array": self.arguments.array, "macs": macs, "ideal_cycles": ideal} | more

    def all(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """Figures of every planner that is asked for. The search comes last, from the baselines' plans."""
        starts = list(self._kept())
        for name in (name for name in BASELINES if name in self.arguments.plans):
            found = plan_baseline(name, self._problem())
            starts.append(found.plan)
            self._keep(name, found.plan)
            yield name, self._figures(found.plan, found.cost, found.seconds, **found.statistics)
        if self.arguments.nn_dataflow:
            yield "nn_dataflow", self._replayed(self.arguments.nn_dataflow)
        if "plan" in self.arguments.plans:
            yield "plan", self._planned(starts)

    def _problem(self) -> Problem:
        return Problem(
            graph=self.graph,
            array=self.array,
            space=self.space,
            objective=self.objective,
            costs=self.costs,
            time_limit=self.arguments.time_limit,
            solves=self.arguments.solves,
            report=lambda line: None,
        )

    def _planned(self, starts: list[Plan]) -> dict[str, Any]:
        limits, begin = SearchLimits(time_limit=self.arguments.time_limit), time.process_time()
        solved = solve_plan(self.graph, self.array, self.space, self.objective, self.costs, limits, incumbents=starts)
        if solved.plan is None or solved.cost is None:
            raise SystemExit(f"{self.key}: no plan was found in {self.arguments.time_limit:g} s")
        self._keep("plan", solved.plan)
        more = {"status": solved.status.value, "bound": solved.bound, "cpu_seconds": time.process_time() - begin}
        return self._figures(solved.plan, solved.cost, solved.seconds, **more, **solved.statistics)

    def _replayed(self, path: str) -> dict[str, Any]:
        started, problem = time.monotonic(), self._problem()
        schedule = read_schedule(read_json(path), self.graph, self.array, self.space.layouts[0])
        plan = replayed(problem, schedule)
        self._keep("nn_dataflow", plan)
        cost = evaluate_plan(self.graph, plan)
        return self._figures(
            plan, cost, time.monotonic() - started, their_cycles=schedule.time, their_cost=schedule.cost
        )

    def _simulated(self, plan: Plan, cost: PlanCost) -> dict[str, Any]:
        """The simulated latency, and how many exact figures differ."""
        if self.arguments.no_simulation:
            return {"simulated_cycles": None, "differences": None}
        simulated = simulate(self.network, self.graph, plan)
        return {
            "simulated_cycles": simulated.latency_cycles,
            "differences": len(differences(self.graph, cost, simulated)),
        }

    def _kept(self) -> Iterator[Plan]:
        """Plans of baselines that an earlier run wrote into the folder, and that this run does not make."""
        for name in BASELINES:
            path = Path(self.arguments.keep or "") / self._file(name)
            if self.arguments.keep and name not in self.arguments.plans and path.exists():
                yield read_plan(path, self.graph, self.array.node)

    def _file(self, name: str) -> str:
        return f"{self.key.replace(' ', '_')}_{name}.json"

    def _keep(self, name: str, plan: Plan) -> None:
        """Write the plan, so that `plan --replay` and other scripts can read it."""
        if self.arguments.keep:
            Path(self.arguments.keep).mkdir(exist_ok=True)
            write_json(plan.to_dict(), str(Path(self.arguments.keep) / self._file(name)))

    def _figures(self, plan: Plan, cost: PlanCost, seconds: float, **more: Any) -> dict[str, Any]:
        """Predicted totals, and what the simulation says."""
        node = sum(step.node_cycles for step in cost.steps)
        keys = ("energy_fj", "noc_energy_fj", "dram_energy_fj", "node_energy_fj", "peak_bytes")
        totals = cost.to_dict()
        return {
            "latency_cycles": cost.latency_cycles,
            "node_cycles": node,
            **{key: totals[key] for key in keys},
            **self._simulated(plan, cost),
            "seconds": round(seconds, 1),
            "time_limit": self.arguments.time_limit,
            "node_time": self.arguments.node_time,
            "solves": self.arguments.solves,
            **more,
        }


# Tables


def write_page(rows: dict[str, Any], wanted: list[str]) -> None:
    """Put the tables that have rows between the marks of the page: those of the given marks, or all."""
    text = PAGE.read_text(encoding="utf-8")
    tables = (
        ("baselines", baseline_table(rows)),
        ("nn_dataflow", replay_table(rows)),
        ("proofs", proof_table(rows)),
        ("capacities", capacity_table(rows)),
    )
    for mark, table in tables:
        lines, start, end = list(table), f"<!-- {mark} -->", f"<!-- end of {mark} -->"
        if len(lines) > _HEAD_LINES and mark in (wanted or [mark]):
            before, rest = text.split(start)
            text = before + start + "\n" + "\n".join(lines) + "\n" + end + rest.split(end)[1]
    PAGE.write_text(text, encoding="utf-8")


def baseline_table(rows: dict[str, Any]) -> Iterator[str]:
    """A line a network, array, layouts and node costs: latency and energy of each plan, and the ceiling."""
    names = list(BASELINES)
    yield "| network, array | node costs | optimal planner | bound | " + " | ".join(names) + " | ideal | ceiling |"
    yield "|---|---|---|---|" + "---|" * len(names) + "---|---|"
    for key, row in rows.items():
        plans = row["plans"]
        if not {"plan", "sequential"} <= plans.keys():
            continue
        best = plans["plan"]
        proof = f"{best['status']}, {best['cpu_seconds']:.0f} s"
        cells = [
            f"{row['network']}, {row['array']}",
            "bounds" if key.endswith("bounds") else f"solved, {best['node_time']:g} s each",
            f"{best['latency_cycles']:,} cycles, {_mj(best)} ({proof})",
            f"{best['bound']:,}",
            *(_cell(plans.get(name), best) for name in names),
            f"{row['ideal_cycles']:,}",
            f"{plans['sequential']['latency_cycles'] / row['ideal_cycles']:.2f}",
        ]
        yield f"| {' | '.join(cells)} |"


def proof_table(rows: dict[str, Any]) -> Iterator[str]:
    """A line a network, array and node costs: what was proven, in how many seconds of one processor."""
    yield "| network | array | node costs | latency | bound | gap | processor | partitions computed |"
    yield "|---|---|---|---|---|---|---|---|"
    for key, row in rows.items():
        best = row["plans"].get("plan")
        if best is None or "cpu_seconds" not in best or row.get("capacity"):
            continue
        gap = (best["latency_cycles"] - best["bound"]) / best["latency_cycles"]
        cells = [
            row["network"],
            row["array"],
            "bounds" if key.endswith("bounds") else "solved",
            f"{best['latency_cycles']:,}",
            f"{best['bound']:,}",
            "0, OPTIMAL" if best["status"] == "OPTIMAL" else f"{100 * gap:.2f} %",
            f"{best['cpu_seconds']:.0f} s",
            f"{best['partitions_computed']:,} of {best['partitions']:,}",
        ]
        yield f"| {' | '.join(cells)} |"


def capacity_table(rows: dict[str, Any]) -> Iterator[str]:
    """A line a network, array and capacity of a node: the best plan that fits, and what was proven."""
    yield "| network | array | capacity of a node | least that any plan takes | latency | bound | gap | processor |"
    yield "|---|---|---|---|---|---|---|---|"
    for row in rows.values():
        best = row["plans"].get("plan")
        if best is None or not row.get("capacity"):
            continue
        gap = (best["latency_cycles"] - best["bound"]) / best["latency_cycles"]
        cells = [
            row["network"],
            row["array"],
            f"{row['capacity'] / 2**20:.2f} MiB",
            f"{row['least_capacity'] / 2**20:.2f} MiB",
            f"{best['latency_cycles']:,}",
            f"{best['bound']:,}",
            "0, OPTIMAL" if best["status"] == "OPTIMAL" else f"{100 * gap:.2f} %",
            f"{best['cpu_seconds']:.0f} s",
        ]
        yield f"| {' | '.join(cells)} |"


def _mj(figures: dict[str, Any]) -> str:
    return f"{figures['energy_fj'] / 1e12:.3f} mJ"


def _cell(figures: dict[str, Any] | None, best: dict[str, Any]) -> str:
    """Latency and energy, and how much more than those of the best plan."""
    if figures is None:
        return "-"
    more = [100 * (figures[key] / best[key] - 1) for key in ("latency_cycles", "energy_fj")]
    cut = " *" if figures["choices_cut"] else ""
    return f"{figures['latency_cycles']:,}{cut} ({more[0]:+.1f} %), {_mj(figures)} ({more[1]:+.1f} %)"


def replay_table(rows: dict[str, Any]) -> Iterator[str]:
    """A line a schedule: what nn_dataflow says, what it costs here, and the optimal planner beside it."""
    yield "| network | array | its own time | replayed | energy | optimal planner | energy | latency |"
    yield "|---|---|---|---|---|---|---|---|"
    for row in rows.values():
        if {"nn_dataflow", "plan"} <= row["plans"].keys():
            theirs, ours = row["plans"]["nn_dataflow"], row["plans"]["plan"]
            ratio = 100 * (ours["latency_cycles"] / theirs["latency_cycles"] - 1)
            cells = [f"{theirs['their_cycles']:,.0f}"]
            for figures in (theirs, ours):
                cells += [f"{figures['latency_cycles']:,}", f"{figures['energy_fj'] / 1e12:.2f} mJ"]
            yield f"| {row['network']} | {row['array']} | {' | '.join(cells)} | {ratio:+.1f} % |"


def _network(name: str) -> Network:
    return written_out(with_widths(read_network(name), BYTES))


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
