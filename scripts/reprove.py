"""Prove a sample of optima again, with CP-SAT's presolve on and with another OR-Tools release, and compare.

    python scripts/reprove.py [--count 12] [--seed 0] [--time-limit 60] [--ortools 9.12.4544]

The sample is of all different layers of all networks on the default machine, for any objective. The other release gets
an environment of its own for the time being, which takes a minute and the package index. Exit code 1 if an answer of
one way is below what another has proven.
"""

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import tomllib
import venv
from importlib.metadata import version
from itertools import product
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
OBJECTIVES = ("latency", "energy", "blended")
#: Off as a rule, since it takes longer than it saves.
PRESOLVED = {"cp_model_presolve": True}
PROVEN = ("OPTIMAL", "INFEASIBLE")

Task = dict[str, Any]
Answer = dict[str, Any]


def main() -> int:
    """Draw, prove in all ways, print a line for each layer and the verdict."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=12, help="layers drawn")
    parser.add_argument("--seed", type=int, default=0, help="of the sample")
    parser.add_argument("--time-limit", type=float, default=60.0, help="seconds a layer and way")
    parser.add_argument("--ortools", default="9.12.4544", help="the other release")
    parser.add_argument("--answer", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.answer:
        answer_tasks()
        return 0
    tasks = drawn_tasks(arguments.count, arguments.seed, arguments.time_limit)
    with tempfile.TemporaryDirectory() as directory:
        other = other_python(Path(directory), arguments.ortools)
        usual = version("ortools")
        ways = {
            usual: answers(sys.executable, tasks, {}),
            f"{usual} presolved": answers(sys.executable, tasks, PRESOLVED),
            arguments.ortools: answers(other, tasks, {}),
        }
    return print_table(tasks, ways)


def drawn_tasks(count: int, seed: int, time_limit: float) -> list[Task]:
    """Layers and objectives, drawn by the seed."""
    from cpsat_pim.workload.network import network_names, read_network

    nodes = [(name, node) for name in network_names() for node in read_network(name).layers]
    first = {node.workload.shape_key: (name, node.name) for name, node in reversed(nodes)}
    asked = sorted(product(first.values(), OBJECTIVES))
    draw = random.Random(seed).random
    chosen = sorted(asked, key=lambda _: draw())[:count]
    return [
        {"network": network, "layer": layer, "objective": kind, "time_limit": time_limit}
        for (network, layer), kind in chosen
    ]


# --- Ways to prove ---------------------------------------------------------------------------------------------------


def other_python(directory: Path, release: str) -> str:
    """The interpreter of an environment with another release, and all else that the package needs."""
    needed = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    others = [requirement for requirement in needed if not requirement.startswith("ortools")]
    venv.create(directory, with_pip=True)
    python = str(directory / "bin" / "python")
    subprocess.run([python, "-m", "pip", "install", "--quiet", f"ortools=={release}", *others], check=True)
    return python


def answers(python: str, tasks: list[Task], parameters: dict[str, Any]) -> list[Answer]:
    """What an interpreter's solver says with these parameters."""
    asked = json.dumps([task | {"parameters": parameters} for task in tasks])
    done = subprocess.run(
        [python, __file__, "--answer"],
        input=asked,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
    )
    return [json.loads(line) for line in done.stdout.splitlines()]


def answer_tasks() -> None:
    """In such an interpreter: a line of JSON for each task of stdin."""
    for task in json.load(sys.stdin):
        print(json.dumps(answer(**task)), flush=True)


def answer(network: str, layer: str, objective: str, time_limit: float, parameters: dict[str, Any]) -> Answer:
    """A layer solved, and simulated as always."""
    from cpsat_pim import PIMArchitecture
    from cpsat_pim.mapper.network.run import solve_and_verify
    from cpsat_pim.mapper.result import Objective
    from cpsat_pim.mapper.search import SolveRequest
    from cpsat_pim.workload.network import read_network

    (node,) = read_network(network).only([layer]).layers
    request = SolveRequest(
        objective=Objective.named(objective), then=None, time_limit=time_limit, cp_sat_parameters=parameters
    )
    solved = solve_and_verify(node.workload, PIMArchitecture(), request)
    return {
        "status": solved.status.value,
        "value": solved.objective_value,
        "bound": solved.bound,
        "seconds": solved.solve_seconds,
    }


# --- The verdict -----------------------------------------------------------------------------------------------------


def print_table(tasks: list[Task], ways: dict[str, list[Answer]]) -> int:
    """A line for each task; 1 if some answers cannot both be right."""
    print(f"{'network':14}{'layer':26}{'objective':11}", *(f"{way:>32}" for way in ways), f"  {'verdict'}")
    verdicts = []
    for task, *given in zip(tasks, *ways.values(), strict=True):
        verdicts.append(verdict(given))
        cells = (f"{one['value'] or '':>14} {one['status']:>9}{one['seconds']:>6.1f} s" for one in given)
        print(f"{task['network']:14}{task['layer']:26}{task['objective']:11}", *cells, f"  {verdicts[-1]}")
    counts = ", ".join(f"{verdicts.count(word)} {word}" for word in ("equal", "compatible", "DIFFERENT"))
    print(f"{len(tasks)} layers: {counts}")
    return int("DIFFERENT" in verdicts)


def verdict(given: list[Answer]) -> str:
    """Equal optima; or, where something is not proven, no value below anybody's bound; or not even that."""
    values = {one["value"] for one in given}
    bounds = [one["bound"] for one in given if one["bound"] is not None]
    found = values - {None}
    if found and (any(one["status"] == "INFEASIBLE" for one in given) or max(bounds) > min(found)):
        return "DIFFERENT"
    return "equal" if len(values) == 1 and all(one["status"] in PROVEN for one in given) else "compatible"


if __name__ == "__main__":
    sys.exit(main())
