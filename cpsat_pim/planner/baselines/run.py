"""Makes the plan of a baseline by name."""

import time
from collections.abc import Callable
from typing import Any

from attrs import field, frozen

from cpsat_pim.mapper.result import Objective
from cpsat_pim.planner.baselines.alternating import alternating
from cpsat_pim.planner.baselines.greedy import greedy
from cpsat_pim.planner.baselines.problem import Problem
from cpsat_pim.planner.baselines.sequential import sequential
from cpsat_pim.planner.evaluate import PlanCost
from cpsat_pim.planner.plan import Plan
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
