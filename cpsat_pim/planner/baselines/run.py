"""Makes a baseline's plan by name, and takes given plans as what a search may not fall behind."""

import time
from collections.abc import Callable, Iterable
from typing import Any

from attrs import evolve, field, frozen

from cpsat_pim.mapper.result import Objective, Status
from cpsat_pim.planner.baselines.alternating import alternating
from cpsat_pim.planner.baselines.greedy import greedy
from cpsat_pim.planner.baselines.problem import Problem
from cpsat_pim.planner.baselines.sequential import sequential
from cpsat_pim.planner.evaluate import PlanCost
from cpsat_pim.planner.plan import Plan
from cpsat_pim.planner.search import SolvedPlan
from cpsat_pim.planner.space import Space

#: Planners by name.
BASELINES: dict[str, Callable[[Problem], tuple[Plan, PlanCost, int]]] = {
    "sequential": sequential,
    "alternating": alternating,
    "greedy": greedy,
}


@frozen(kw_only=True)
class BaselinePlan:
    """A baseline's plan with its cost and its objective; it has no bound.

    `statistics`: node problems solved, and choices that ended with some passed over.
    """

    name: str
    space: Space
    objective: Objective
    plan: Plan
    cost: PlanCost
    value: int
    seconds: float
    statistics: dict[str, Any] = field(factory=dict)


def plan_baseline(name: str, problem: Problem) -> BaselinePlan:
    """The plan of a baseline.

    Raises:
        ValueError: a layer fits no part of the array, or the plan does not fit the nodes (`NoRoom`); or the objective
            is a product, which layers cannot be chosen by on their own.
    """
    if problem.objective.is_product:
        raise ValueError("objective: a baseline minimizes cycles, energy or their weighted sum, no product")
    started, solves = time.monotonic(), problem.costs.solves
    plan, cost, value = BASELINES[name](problem)
    return BaselinePlan(
        name=name,
        space=problem.space,
        objective=problem.objective,
        plan=plan,
        cost=cost,
        value=value,
        seconds=time.monotonic() - started,
        statistics={"node_solves": problem.costs.solves - solves, "choices_cut": problem.effort.cut},
    )


def improved(solved: SolvedPlan, starts: Iterable[tuple[Plan, PlanCost]]) -> SolvedPlan:
    """The result of a search, or the best of the given plans where one is better: so it is never worse than they are.

    A given plan may lie outside of the declared space. The bound stays that of the space.
    """
    for plan, cost in starts:
        value = int(solved.objective.value(cost.latency_cycles, cost.energy_fj))
        if cost.peak_bytes > plan.array.capacity_bytes or (solved.value is not None and value >= solved.value):
            continue
        status = Status.OPTIMAL if value <= solved.bound else Status.FEASIBLE
        solved = evolve(solved, status=status, plan=plan, cost=cost, value=value, bound=min(value, solved.bound))
    return solved
