"""`plan --baseline` and `plan --start`: plans of simpler planners, alone or as what the search may not fall behind."""

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from cpsat_pim.cli.arguments import names
from cpsat_pim.cli.output import InputError, note, read_input

if TYPE_CHECKING:
    from cpsat_pim.mapper.result import Objective
    from cpsat_pim.planner.array import NodeArray
    from cpsat_pim.planner.baselines.problem import Problem
    from cpsat_pim.planner.baselines.run import BaselinePlan
    from cpsat_pim.planner.fronts import PlanRequest
    from cpsat_pim.planner.nodes import NodeCosts
    from cpsat_pim.planner.plan import Plan
    from cpsat_pim.planner.space import Space
    from cpsat_pim.planner.tensors import Graph

_T = TypeVar("_T")

#: As in `cpsat_pim.planner.baselines.run`, which is imported when it is needed.
_NAMES = ("sequential", "alternating", "greedy")


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options about baselines to the command `plan`."""
    text = "print the plan of a simpler planner, without a bound: " + ", ".join(_NAMES)
    parser.add_argument("--baseline", choices=_NAMES, metavar="NAME", help=text)
    text = "baselines or plan files; the result is never worse than any of them"
    parser.add_argument("--start", metavar="A,B", type=names, help=text)


def solve_baseline(
    arguments: argparse.Namespace,
    name: str,
    graph: "Graph",
    array: "NodeArray",
    space: "Space",
    objective: "Objective",
    costs: "NodeCosts",
    share: float = 1.0,
) -> "BaselinePlan":
    """The plan of a baseline, in a share of the time limit."""
    from cpsat_pim.planner.baselines.run import plan_baseline

    problem = _problem(arguments, graph, array, space, objective, costs, share)
    return read_input(lambda: plan_baseline(name, problem))


def _problem(
    arguments: argparse.Namespace,
    graph: "Graph",
    array: "NodeArray",
    space: "Space",
    objective: "Objective",
    costs: "NodeCosts",
    share: float = 1.0,
) -> "Problem":
    from cpsat_pim.planner.baselines.problem import Problem
    from cpsat_pim.planner.solved import ignore

    return Problem(
        graph=graph,
        array=array,
        space=space,
        objective=objective,
        costs=costs,
        time_limit=share * arguments.time_limit,
        report=ignore if arguments.quiet else note,
    )


def read_replay(
    arguments: argparse.Namespace,
    graph: "Graph",
    array: "NodeArray",
    space: "Space",
    objective: "Objective",
    costs: "NodeCosts",
) -> "Plan":
    """The plan of `--replay`: a plan file, or a schedule of nn_dataflow, whose node problems are solved."""
    from cpsat_pim.base.reading import read_json
    from cpsat_pim.planner.baselines.nn_dataflow import is_foreign, read_schedule, replayed
    from cpsat_pim.planner.plan_file import read_plan

    path = arguments.replay
    data = read_input(lambda: read_json(path))
    if not is_foreign(data):
        return read_input(lambda: read_plan(path, graph, array.node))
    problem = _problem(arguments, graph, array, space, objective, costs)
    schedule = _placed(path, lambda: read_schedule(data, graph, array, space.layouts[0]))
    note(f"{path}: nn_dataflow says {schedule.time:g} cycles; its partitions and homes are replayed on our nodes")
    return _placed(path, lambda: replayed(problem, schedule))


def _placed(path: str, read: Callable[[], _T]) -> _T:
    """Read something of a file; a mistake says which file it is in."""
    try:
        return read()
    except ValueError as error:
        raise InputError("\n".join(f"{path}: {line}" for line in str(error).splitlines())) from error


def check_starts(starts: list[str] | None) -> None:
    """Check before any work that everything that `--start` names exists."""
    for start in starts or ():
        if start not in _NAMES and not Path(start).exists():
            raise InputError(f"--start: must be plan files or some of {', '.join(_NAMES)} (got {start!r})")


def read_starts(arguments: argparse.Namespace, request: "PlanRequest", objective: "Objective") -> "tuple[Plan, ...]":
    """The plans of `--start`: those of baselines are made, in equal shares of half of the time limit. A baseline that
    finds none with room is left out.
    """
    from cpsat_pim.planner.baselines.replicas import NoRoom
    from cpsat_pim.planner.fronts import node_objective

    plans, share = [], 0.5 / max(1, len(arguments.start or ()))
    for start in arguments.start or ():
        if start in _NAMES and arguments.constraints:
            raise InputError(f"--start {start} cannot be combined with --constraints")
        if start in _NAMES:
            costs = request.make_costs(node_objective(objective, request.array.nodes))
            try:
                graph, array, space = request.graph, request.array, request.space
                plans.append(solve_baseline(arguments, start, graph, array, space, objective, costs, share).plan)
            except InputError as error:
                if not isinstance(error.__cause__, NoRoom):
                    raise
                note(f"--start {start}: left out, {error}")
            finally:
                costs.close()
        else:
            plans.append(_read(start, request.graph, request.array))
    return tuple(plans)


def _read(path: str, graph: "Graph", array: "NodeArray") -> "Plan":
    from cpsat_pim.planner.plan_file import read_plan

    plan = read_input(lambda: read_plan(path, graph, array.node))
    if plan.array != array:
        raise InputError(f"{path}: is a plan of another array ({plan.array.rows} x {plan.array.cols} nodes)")
    return plan
