"""Objectives that take several searches: latency times energy, and plans that trade one for the other.

Each search minimises a weighted sum of latency and energy and proves a half-plane: no plan lies below it. The product
is quasi-concave where both are positive, so over the polygon that the half-planes leave it is least in a corner.
That bounds all plans, and the plan of the least product is one that some weighted sum finds: the corner with the least
product gives the weights of the next search, until a plan is as good as the best corner (outer approximation; Benson
1998).
"""

import time
from collections.abc import Callable, Iterator
from fractions import Fraction
from itertools import pairwise

from attrs import evolve, field, frozen

from cpsat_pim.base.units import FJ_PER_NJ
from cpsat_pim.mapper.result import Objective, Status
from cpsat_pim.planner.array import NodeArray
from cpsat_pim.planner.nodes import NodeCosts
from cpsat_pim.planner.plan import Plan
from cpsat_pim.planner.search import solve_plan
from cpsat_pim.planner.solved import Report, SearchLimits, SolvedPlan, ignore
from cpsat_pim.planner.space import Space
from cpsat_pim.planner.tensors import Graph

#: Weights of searches are rounded to such denominators: any weights prove a half-plane, and short ones keep sums small.
_DENOMINATOR = 64


@frozen(kw_only=True)
class PlanRequest:
    """What is planned: a network on an array, over a space. `make_costs`: node costs for an objective of a node."""

    graph: Graph
    array: NodeArray
    space: Space
    make_costs: Callable[[Objective], NodeCosts]
    limits: SearchLimits = field(factory=SearchLimits)
    report: Report = ignore


@frozen
class HalfPlane:
    """No plan has `cycles` * latency + `fj` * energy below `value`."""

    cycles: Fraction
    fj: Fraction
    value: Fraction


def node_objective(objective: Objective, nodes: int) -> Objective:
    """Return the objective of one of so many equal nodes: its cycles count once, its energy as often as nodes."""
    return objective if objective.kind != "blended" else evolve(objective, beta=objective.beta * nodes)


def solve_weighted(
    request: PlanRequest, objective: Objective, *, then_energy: bool = False, known: tuple[Plan, ...] = ()
) -> SolvedPlan:
    """Return the best plan by one objective that is a sum."""
    costs = request.make_costs(node_objective(objective, request.array.nodes))
    try:
        return solve_plan(
            request.graph, request.array, request.space, objective, costs, request.limits, request.report,
            then_energy=then_energy, incumbents=known,
        )  # fmt: skip
    finally:
        costs.close()


def solve_product(request: PlanRequest) -> SolvedPlan:
    """Return the plan of the least latency times energy, and a bound of all plans of the space."""
    search = _Corners(request)
    while (corner := search.least_corner()) is not None:
        if not search.solve(_tangent(corner)):
            break
    return search.answer()


def solve_front(request: PlanRequest, most: int) -> list[SolvedPlan]:
    """Return up to `most` plans from the least latency to the least energy, each the best of a weighted sum.

    Plans that are the best of no weighted sum are not among them.
    """
    search = _Corners(request)
    closed: set[tuple[tuple[int, int], tuple[int, int]]] = set()
    while len(search.front()) < most and not search.is_over:
        gaps = [pair for pair in pairwise(search.front()) if pair not in closed]
        if not gaps:
            break
        a, b = max(gaps, key=lambda pair: (pair[1][0] - pair[0][0]) * (pair[0][1] - pair[1][1]))
        before = len(search.front())
        search.solve(_weights(Fraction(a[1] - b[1]), Fraction(b[0] - a[0])))
        if len(search.front()) == before:
            closed.add((a, b))
    return [search.plans[point] for point in search.front()]


def _tangent(corner: tuple[Fraction, Fraction]) -> Objective:
    """Return the weighted sum that the product has as its tangent in a corner (latency, energy)."""
    return _weights(corner[1], corner[0])


def _weights(cycles: Fraction, fj: Fraction) -> Objective:
    """Return a weighted sum about in this proportion, a nanojoule counting one."""
    alpha = (cycles / (fj * FJ_PER_NJ)).limit_denominator(_DENOMINATOR)
    return Objective(kind="blended", alpha=max(alpha, Fraction(1, _DENOMINATOR)), beta=Fraction(1))


class _Corners:
    """Half-planes proven so far, and the plans found."""

    def __init__(self, request: PlanRequest) -> None:
        self.request, self.started = request, time.monotonic()
        self.planes: list[HalfPlane] = []
        self.plans: dict[tuple[int, int], SolvedPlan] = {}
        self.is_stopped = False
        self.last: SolvedPlan | None = None
        self.solve(Objective.named("latency"), then_energy=True)
        self.solve(Objective.named("energy"))

    @property
    def is_over(self) -> bool:
        """Whether the time is up or a stop was asked for."""
        return self.is_stopped or time.monotonic() - self.started >= self.request.limits.time_limit

    def solve(self, objective: Objective, *, then_energy: bool = False) -> bool:
        """Search by a weighted sum; return whether that brought a plan or a half-plane that was not known."""
        if self.is_over:
            return False
        left = self.request.limits.time_limit - (time.monotonic() - self.started)
        request = evolve(self.request, limits=evolve(self.request.limits, time_limit=left))
        known = tuple(solved.plan for solved in self.plans.values() if solved.plan)
        self.last = solved = solve_weighted(request, objective, then_energy=then_energy, known=known)
        self.is_stopped = solved.interrupted
        cycles, fj = (Fraction(weight, objective.scale) for weight in objective.weights)
        plane = HalfPlane(cycles, fj, Fraction(solved.bound, objective.scale))
        is_new = plane not in self.planes
        self.planes.append(plane)
        if solved.cost is not None:
            point = (solved.cost.latency_cycles, solved.cost.energy_fj)
            is_new = is_new or point not in self.plans
            self.plans.setdefault(point, solved)
        return is_new

    def front(self) -> list[tuple[int, int]]:
        """Return the plans (latency, energy) that no other one is better than in both."""
        points: list[tuple[int, int]] = []
        for point in sorted(self.plans):
            if not points or point[1] < points[-1][1]:
                points.append(point)
        return points

    @property
    def best(self) -> tuple[int, int] | None:
        """The plan of the least product."""
        return min(self.plans, key=lambda point: point[0] * point[1], default=None)

    def least_corner(self) -> tuple[Fraction, Fraction] | None:
        """Return the corner of the polygon with the least product; None if no plan's product is above it."""
        corners, best = list(self._corners()), self.best
        if best is None or not corners:
            return None
        corner = min(corners, key=lambda point: point[0] * point[1])
        return corner if corner[0] * corner[1] < best[0] * best[1] else None

    def _corners(self) -> Iterator[tuple[Fraction, Fraction]]:
        """Yield the corners: where two half-planes meet, and no other one cuts off."""
        for i, one in enumerate(self.planes):
            for other in self.planes[:i]:
                determinant = one.cycles * other.fj - other.cycles * one.fj
                if determinant:
                    latency = (one.value * other.fj - other.value * one.fj) / determinant
                    energy = (one.cycles * other.value - other.cycles * one.value) / determinant
                    if all(p.cycles * latency + p.fj * energy >= p.value for p in self.planes):
                        yield latency, energy

    def answer(self) -> SolvedPlan:
        """Return the plan of the least product with its bound."""
        objective, best = Objective.named("edp"), self.best
        corner = min((latency * energy for latency, energy in self._corners()), default=Fraction(0))
        assert self.last is not None
        seconds = time.monotonic() - self.started
        if best is None:
            return evolve(self.last, objective=objective, bound=int(corner), seconds=seconds)
        value = best[0] * best[1]
        bound = min(value, -(-corner.numerator // corner.denominator))
        return evolve(
            self.plans[best],
            objective=objective,
            status=Status.OPTIMAL if bound >= value else Status.FEASIBLE,
            value=value,
            bound=bound,
            energy_bound=None,
            interrupted=self.is_stopped,
            seconds=seconds,
            statistics=self.plans[best].statistics | {"searches": len(self.planes)},
        )
