"""A plan made layer by layer: each takes the partition and the home of its output that cost it least.

What was decided before stays: a layer reads tensors where they lie, and a tensor that is added to or concatenated with
an earlier one shares its home. Weights are replicated less, where they do not fit, as in the sequential baseline.
"""

from collections.abc import Iterator

from cpsat_pim.planner.baselines.homes import Homes, even_home
from cpsat_pim.planner.baselines.problem import Problem
from cpsat_pim.planner.baselines.replicas import fitted
from cpsat_pim.planner.baselines.step_costs import Choice, StepHomes
from cpsat_pim.planner.evaluate import PlanCost
from cpsat_pim.planner.partition import Home
from cpsat_pim.planner.plan import Plan
from cpsat_pim.planner.tensors import LayerTask


def greedy(problem: Problem) -> tuple[Plan, PlanCost, int]:
    """The plan of layer by layer choices."""
    homes: Homes = {}
    choices: dict[str, Choice] = {}
    for task in problem.graph.tasks:
        around = list(_around(problem, task, homes))
        partitions = problem.partitions(task.name, problem.array.whole)
        options = [(partition, one) for partition in partitions for one in around]
        choice = choices[task.name] = problem.layer(task.name).cheapest(options, problem.effort)
        _settle(problem, task, choice.homes, homes)
        problem.report(f"{task.name}: {choice.cost[0]}")
    for name, candidates in problem.homes.items():  # nobody reads or writes it
        homes.setdefault(name, even_home(problem.graph.stacks[name], candidates))
    return fitted(problem, problem.plan(choices, homes))


def _around(problem: Problem, task: LayerTask, homes: Homes) -> Iterator[StepHomes]:
    """Homes that a layer may read and write, where they are not decided yet."""
    home_of = problem.graph.home_of
    read, written = home_of[task.reads.stack], home_of[task.writes]
    second = home_of[task.others[0].stack] if task.others else None
    for reads in _open(problem, read, homes):
        for others in [None] if second is None else [reads] if second == read else _open(problem, second, homes):
            for writes in _open(problem, written, {**homes, read: reads}):
                yield StepHomes(reads=reads, others=others, writes=writes)


def _open(problem: Problem, name: str, homes: Homes) -> list[Home]:
    """The home of a stack if it is decided, else all of the space."""
    return [homes[name]] if name in homes else problem.homes[name]


def _settle(problem: Problem, task: LayerTask, around: StepHomes, homes: Homes) -> None:
    """Keep the homes that a choice decided."""
    home_of = problem.graph.home_of
    homes[home_of[task.reads.stack]] = around.reads
    homes[home_of[task.writes]] = around.writes
    if around.others is not None:
        homes[home_of[task.others[0].stack]] = around.others
