"""Compare the methods of `tune`: how far their best machine is from the optimum (docs/tuner-results.md).

    python scripts/benchmark_tuner.py --methods random sa gp --seeds 10 --json results.json
    python scripts/benchmark_tuner.py --tuned tuned.json --json results.json
    python scripts/benchmark_tuner.py --write --json results.json

Every run evaluates 60 machines of scripts/tuner/nicepim.yaml at the analytic cost, whose optimum is proven first.
Regret is the least cost so far over the optimum, less 1. Runs are added to those of the JSON file, so methods that need
other packages can run elsewhere. `--tuned` adds what `tune scripts/tuner/nicepim-plans.yaml --json` wrote.
`--write` puts tables of all of them into docs/tuner-results.md.
"""

import argparse
import json
import re
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median, quantiles
from typing import Any

from attrs import evolve

from cpsat_pim.arch.reading import read_arch
from cpsat_pim.planner.graph import build_graph
from cpsat_pim.tuner.analytic import AnalyticCost, Floors
from cpsat_pim.tuner.evaluate import Evaluator
from cpsat_pim.tuner.exact import ExactLimits, best_hardware
from cpsat_pim.tuner.objective import Figure, HardwareCost
from cpsat_pim.tuner.reading import read_tune_plan, with_bytes
from cpsat_pim.tuner.run import RunName, TunePlan, run_method
from cpsat_pim.tuner.space import Axis, HardwareSpace, describe
from cpsat_pim.tuner.task import Fidelity
from cpsat_pim.tuner.trials import here
from cpsat_pim.workload.network import Network, read_network

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "tuner-results.md"
#: Evaluations after which the table tells the regret.
MARKS = (20, 40, 60)


def main() -> int:
    """Run what is asked for and not in the file yet, or write the page."""
    arguments = _arguments()
    path = Path(arguments.json)
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {"runs": {}}
    if arguments.write:
        write_page(found)
        return 0
    if arguments.tuned:
        found["tuned"] = json.loads(Path(arguments.tuned).read_text(encoding="utf-8"))
        _save(found, path)
        return 0
    plan = evolve(read_tune_plan(arguments.plan), trials=arguments.trials)
    if arguments.points:
        evaluate_points(plan, found, arguments, path)
        return 0
    if arguments.single:
        bound_single(plan, found, arguments, path)
        return 0
    if "optimum" not in found:
        found["optimum"] = optimum(plan, arguments.bound_time)
        _save(found, path)
    for method in arguments.methods:
        for seed in range(arguments.seeds):
            if f"{method} {seed}" not in found["runs"]:
                found["runs"][f"{method} {seed}"] = run(plan, RunName(method, seed))
                _save(found, path)
                print(f"{method} {seed}: regret {100 * regret(found, f'{method} {seed}')[-1]:.2f} %", flush=True)
    return 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--plan", default=str(ROOT / "scripts" / "tuner" / "nicepim.yaml"))
    add("--methods", nargs="+", default=["random", "sa", "gp"])
    add("--seeds", type=int, default=10)
    add("--trials", type=int, default=60)
    add("--bound-time", type=float, default=300.0, help="seconds to prove the optimum (%(default)g)")
    add("--json", default="benchmark_tuner.json", help="results are added to this file (%(default)s)")
    add("--points", action="store_true", help="evaluate the reference and the optimum at a fidelity, and nothing else")
    add("--single", action="store_true", help="bound all machines for each published plan's network, and nothing else")
    add("--fidelity", choices=("bounds", "plan"), default="bounds", help="of --points (%(default)s)")
    add("--networks", nargs="+", help="of --points; those of the plan that are named")
    add("--time-limit", type=float, default=300.0, help="seconds of a network's plan (%(default)g)")
    add("--tuned", metavar="FILE", help="run nothing: add the document of a tuning by plans")
    add("--write", action="store_true", help="run nothing: write the tables of docs/tuner-results.md")
    return parser.parse_args()


def _save(found: dict[str, Any], path: Path) -> None:
    path.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


def optimum(plan: TunePlan, seconds: float) -> dict[str, Any]:
    """Prove the optimum of the analytic cost."""
    floors = plan.task.floors()
    started = time.process_time()
    best = best_hardware(plan.task.space, AnalyticCost(floors, plan.task.cost(floors)), ExactLimits(time_limit=seconds))
    assert best.design is not None
    return {
        "machine": plan.task.space.values(best.design),
        "cost": best.cost,
        "bound": best.bound,
        "evaluations": best.evaluations,
        "seconds": round(best.seconds, 1),
        "cpu_seconds": round(time.process_time() - started, 1),
    }


def bound_single(plan: TunePlan, found: dict[str, Any], arguments: argparse.Namespace, path: Path) -> None:
    """Bound all machines of the space for one network at a time; the machine that costs 1 is the published plan's."""
    for name, cycles, energy_mj in published_plans():
        if arguments.networks and name not in arguments.networks:
            continue
        task = evolve(plan.task, networks=[published_network(name)], weights=[1.0], reference={})
        floors = task.floors()
        cost = HardwareCost(weights=[1.0], references=[Figure(cycles=cycles, pj=energy_mj * 1e9)])
        best = best_hardware(task.space, AnalyticCost(floors, cost), ExactLimits(time_limit=arguments.bound_time))
        assert best.design is not None
        machine = task.space.values(best.design)
        figures = {"machine": machine, "cost": best.cost, "bound": best.bound, "seconds": round(best.seconds, 1)}
        found.setdefault("single", {})[name] = figures
        _save(found, path)
        print(name, json.dumps(figures), flush=True)


def evaluate_points(plan: TunePlan, found: dict[str, Any], arguments: argparse.Namespace, path: Path) -> None:
    """Plan networks on the reference and on the optimum, one by one; floors are those of the network alone."""
    fidelity = Fidelity(name=arguments.fidelity, time_limit=arguments.time_limit)
    for network in plan.task.networks:
        if arguments.networks and network.name not in arguments.networks:
            continue
        task = evolve(plan.task, networks=[network], weights=[1.0], fidelity=fidelity)
        for name, values in (("reference", plan.task.reference), ("optimum", found["optimum"]["machine"])):
            started = time.process_time()
            evaluated = Evaluator(task).evaluate(values).to_dict((network.name,))
            seconds = round(time.process_time() - started)
            figures = evaluated["networks"][0] | {"cost": evaluated["cost"], "bound": evaluated["bound"]}
            analytic = Evaluator(plan.task).floors.of_values(values)[plan.task.networks.index(network)]
            figures |= {"floor_cycles": analytic.cycles, "floor_pj": analytic.pj, "cpu_seconds": seconds}
            found.setdefault("points", {})[f"{network.name} {name} {arguments.fidelity}"] = figures
            _save(found, path)
            print(network.name, name, json.dumps(figures), flush=True)


def run(plan: TunePlan, name: RunName) -> dict[str, Any]:
    """Run a method with a seed; return the cost of each trial."""
    started = time.process_time()
    found = run_method(plan, name, None, here(), None)
    return {"costs": [trial.cost for trial in found.trials], "cpu_seconds": round(time.process_time() - started, 2)}


# Tables


def regret(found: dict[str, Any], name: str) -> list[float]:
    """Return the regret after each trial of a run."""
    least, regrets = float("inf"), []
    for cost in found["runs"][name]["costs"]:
        least = min(least, cost)
        regrets.append(least / found["optimum"]["cost"] - 1)
    return regrets


def best_three(costs: list[float]) -> float:
    """Return the paper's measure: 1 / the mean cost of the best three machines."""
    return 3 / sum(sorted(costs)[:3])


def regret_table(found: dict[str, Any]) -> Iterator[str]:
    """A line a method: median and quartiles of the regret, and CPU seconds of a run."""
    methods = list(dict.fromkeys(name.split()[0] for name in found["runs"]))
    heads = [f"regret after {mark}" for mark in MARKS]
    yield f"| method | seeds | {' | '.join(heads)} | best of all seeds | 1 / cost of the best three | CPU s a run |"
    yield "|---|---|" + "---|" * len(MARKS) + "---|---|---|"
    order = {method: median(_last(found, method)) for method in methods}
    for method in sorted(methods, key=lambda m: order[m]):
        names = _names(found, method)
        cells = [method, str(len(names))]
        for mark in MARKS:
            cells.append(_spread([100 * regret(found, name)[mark - 1] for name in names]))
        cells.append(f"{100 * min(_last(found, method)):.1f} %")
        cells.append(f"{median(best_three(found['runs'][name]['costs']) for name in names):.2f}")
        cells.append(f"{median(found['runs'][name]['cpu_seconds'] for name in names):.1f}")
        yield f"| {' | '.join(cells)} |"


def _names(found: dict[str, Any], method: str) -> list[str]:
    return [name for name in found["runs"] if name.split()[0] == method]


def _last(found: dict[str, Any], method: str) -> list[float]:
    return [regret(found, name)[-1] for name in _names(found, method)]


def _spread(values: list[float]) -> str:
    """Median and quartiles in per cent."""
    if len(values) < 2:
        return f"{values[0]:.1f} %"
    low, middle, high = quantiles(values, n=4, method="inclusive")
    return f"{middle:.1f} % ({low:.1f} to {high:.1f})"


def optimum_lines(found: dict[str, Any]) -> Iterator[str]:
    """The optimum, and what its proof took."""
    best = found["optimum"]
    yield f"Optimum of the analytic cost: {describe(best['machine'])} (elements of 2 bytes), cost"
    proof = f"{best['evaluations']:,} evaluations, {best['cpu_seconds']} CPU s"
    yield f"{best['cost']:.5f}, bound {best['bound']:.5f}; {proof}."


def floor_table() -> Iterator[str]:
    """A line a plan of docs/array-results.md on 4 x 4 nodes: its latency and energy beside the floors."""
    yield "| network | latency: floor | plan | | energy: floor | plan | |"
    yield "|---|---|---|---|---|---|---|"
    for name, cycles, energy_mj in published_plans():
        floor = floors_on("stacked-3d-4x4", name, 4, 4)
        parts = (f"{100 * floor.cycles / cycles:.0f} %", f"{100 * floor.pj / 1e9 / energy_mj:.0f} %")
        cells = [name, f"{floor.cycles:,.0f}", f"{cycles:,}", parts[0], f"{floor.pj / 1e9:.2f} mJ", f"{energy_mj} mJ"]
        yield f"| {' | '.join([*cells, parts[1]])} |"


def published_plans() -> list[tuple[str, int, float]]:
    """Return network, cycles and mJ of the optimal planner's plans on 4 x 4 nodes, from their page."""
    text = (ROOT / "docs" / "array-results.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| ([\w-]+), 4x4 \| bounds \| ([\d,]+) cycles, ([\d.]+) mJ", text, re.MULTILINE)
    return [(name, int(cycles.replace(",", "")), float(energy)) for name, cycles, energy in rows]


def published_network(name: str) -> Network:
    """Return the network of a published plan, with 16-bit data."""
    own = ROOT / "scripts" / "plans" / f"{name}.yaml"
    return with_bytes(read_network(own if own.exists() else name), (2, 2, 2, 4))


def single_table(found: dict[str, Any]) -> Iterator[str]:
    """A line a network: the bound of all machines beside the published plan on 4 x 4 nodes, whose cost is 1."""
    yield "| network | best machine by floors (elements of 2 bytes) | bound of all machines / published plan | gap |"
    yield "|---|---|---|---|"
    for name, best in found.get("single", {}).items():
        yield f"| {name} | {describe(best['machine'])} | {best['bound']:.3f} | {100 * (1 - best['bound']):.0f} % |"


def tuned_table(found: dict[str, Any]) -> Iterator[str]:
    """The tuning by plans: a line a machine, and one a network on the best and on the paper's machine."""
    tuned = found["tuned"]
    best, exact, reference = (tuned[key] for key in ("best", "exact", "reference"))
    yield "| machine | nodes | PEs | buffers I, W, O, KiB | mm2 | cost | bound of its plans |"
    yield "|---|---|---|---|---|---|---|"
    for name, one in (("best found", best), ("optimum of the floors", exact), ("the paper's", reference)):
        if one and one["cost"]:
            values = list(one["machine"].values())
            nodes, pes = (f"{values[i]:.0f} x {values[i + 1]:.0f}" for i in (0, 2))
            sizes = ", ".join(f"{2 * entries / 1024:g}" for entries in values[4:])
            figures = f"{one['area_mm2']:.1f} | {one['cost']:.3f} | {one['bound']:.3f}"
            yield f"| {name} | {nodes} | {pes} | {sizes} | {figures} |"
    yield ""
    yield "| network | cycles: best found | the paper's | mJ: best found | the paper's |"
    yield "|---|---|---|---|---|"
    for ours, theirs in zip(best["networks"], reference["networks"], strict=True):
        cycles = f"{ours['latency_cycles']:,.0f} | {theirs['latency_cycles']:,.0f}"
        energy = f"{ours['energy_pj'] / 1e9:.2f} | {theirs['energy_pj'] / 1e9:.2f}"
        yield f"| {ours['network']} | {cycles} | {energy} |"
    yield ""
    run = tuned["runs"][0]
    costs = ", ".join(f"{trial['cost']:.3f}" if trial["cost"] else "failed" for trial in run["trials"])
    space, count = tuned["space"], len(run["trials"])
    share = f"{100 * space['feasible_share']:.1f} %"
    yield f"{space['size']:,} machines, {share} within the area."
    yield f"Costs of the {count} trials of `{run['method']}`: {costs}."
    gap = f"the best machine is within {100 * tuned['gap']:.0f} % of any machine"
    yield f"Bound of all machines: {tuned['bound']:.4f}; {gap}."


def floors_on(arch: str, name: str, rows: int, cols: int) -> Figure:
    """Return the floors of a network, with 16-bit data, on an array of a machine."""
    network = published_network(name)
    values = {"array.rows": float(rows), "array.cols": float(cols)}
    axes = [Axis(path=path, values=(value,)) for path, value in values.items()]
    space = HardwareSpace(name="one", arch=read_arch(arch), axes=axes)
    return Floors(space, [build_graph(network)]).of_values(values)[0]


def write_page(found: dict[str, Any]) -> None:
    """Put the tables between the marks of the page."""
    text = PAGE.read_text(encoding="utf-8")
    tables = {
        "regret": regret_table(found),
        "optimum": optimum_lines(found),
        "floors": floor_table(),
        "single": single_table(found),
    } | ({"tuned": tuned_table(found)} if "tuned" in found else {})
    for mark, lines in tables.items():
        start, end = f"<!-- {mark} -->", f"<!-- end of {mark} -->"
        before, rest = text.split(start)
        text = before + start + "\n" + "\n".join(lines) + "\n" + end + rest.split(end)[1]
    PAGE.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    try:
        sys.exit(main())
    except ValueError as error:
        sys.exit(f"benchmark_tuner: {error}")
