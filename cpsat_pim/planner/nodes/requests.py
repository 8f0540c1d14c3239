"""What the mapper is asked of a node problem. The solver is imported by whoever solves."""

from collections.abc import Iterable
from typing import Any

from cpsat_pim.arch import PIMArchitecture
from cpsat_pim.mapper.result import Budget, Objective
from cpsat_pim.mapping.mapping import Mapping
from cpsat_pim.planner.nodes.problem import HIGHEST, NodeCost, NodeProblem

#: So many times longer is a problem solved again that was not proven.
_LONGER = 4.0


def solve_seconds(known: NodeCost, time_limit: float) -> float:
    """Return how many seconds the next solve of a problem may take; the first one for a proof takes `time_limit`."""
    return time_limit if known.is_brief else max(time_limit, _LONGER * known.seconds)


def value_request(
    problem: NodeProblem, known: NodeCost, below: int, objective: Objective, seconds: float, padding: float
) -> Any:
    """Return the request for a mapping that costs less than `below`, from the one that is known if that is no more.

    A problem that was solved before, and not just briefly, is solved by walks.
    """
    from cpsat_pim.mapper.search import SolveRequest

    is_start = known.value is not None and known.value <= below
    return SolveRequest(
        then=None,
        objective=objective,
        time_limit=seconds,
        constraints=problem.constraints,
        start=known.mapping if is_start else None,
        value_to_beat=None if is_start or below == HIGHEST else below,
        by_walks=known.seconds > 0 and not known.is_brief,
        padding=padding,
    )


def energy_request(problem: NodeProblem, start: Mapping, budget: Budget, time_limit: float, padding: float) -> Any:
    """Return the request for the least energy of the mappings within a budget, from one of them."""
    from cpsat_pim.mapper.search import SolveRequest

    return SolveRequest(
        then=None,
        objective=Objective.named("energy"),
        time_limit=time_limit,
        constraints=problem.constraints,
        start=start,
        padding=padding,
        budget=budget,
    )


def tasks_of(asked: Iterable[tuple[str, NodeProblem, Any]], arch: PIMArchitecture) -> list[Any]:
    """Return the tasks of some requests, by key, of node problems."""
    from cpsat_pim.mapper.network.tasks import Task

    return [Task(key=key, layer=problem.layer, arch=arch, request=request) for key, problem, request in asked]
