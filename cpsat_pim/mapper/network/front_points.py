"""The points of a Pareto front: each is found by two solves, and proven if both are."""

from collections.abc import Callable, Iterator
from fractions import Fraction

from attrs import evolve, frozen

from cpsat_pim.mapper.objectives.edp import Solve
from cpsat_pim.mapper.result import NO_LIMIT, Budget, Objective, SolvedLayer, Status
from cpsat_pim.mapping import Mapping

#: The axes of fronts.
AXES = LATENCY, ENERGY = Objective.named("latency"), Objective.named("energy")

#: Cycles, femtojoules, row activations.
Cost = tuple[int, int, int]


@frozen(kw_only=True)
class Point:
    """A mapping on a front; `gap`: the larger one of its two solves.

    With a gap of 0 no mapping dominates it in latency and energy. If it `has_fewest` activations of all mappings of its
    latency and energy, too, none dominates it in all three.
    """

    solved: SolvedLayer
    gap: float | None
    has_fewest: bool = False

    @property
    def cycles(self) -> int:
        """Predicted latency."""
        return self.solved.latency

    @property
    def fj(self) -> int:
        """Energy."""
        return self.solved.predicted.energy_fj

    @property
    def activations(self) -> int:
        """Row activations of all tensors."""
        return self.solved.row_activations

    @property
    def edp(self) -> int:
        """Cycles times femtojoules."""
        return self.cycles * self.fj

    @property
    def status(self) -> Status:
        """OPTIMAL if it is proven that no mapping dominates it."""
        return Status.OPTIMAL if self.gap == 0 and self.has_fewest else Status.FEASIBLE


@frozen(kw_only=True)
class Front:
    """Points of rising latency, then energy. `least_energy`: the result for that objective; its mapping, if any, is a
    point, and without activations the last one.

    `is_complete`: all points are proven, and any mapping has a point that is as fast and needs no more energy (and
    activations), or no more within the request's `step`. `solves`: how many were made.
    """

    points: tuple[Point, ...]
    is_complete: bool
    least_energy: SolvedLayer
    solves: int


@frozen(kw_only=True)
class Found:
    """The solve for the least of one objective within a budget, and the point that it led to, if it found a mapping."""

    solved: SolvedLayer
    point: Point | None = None

    @property
    def is_empty(self) -> bool:
        """Whether no mapping is within the budget."""
        return self.solved.status is Status.INFEASIBLE

    @property
    def is_proven(self) -> bool:
        """Whether the point is proven."""
        return self.point is not None and self.point.status is Status.OPTIMAL

    @property
    def bound(self) -> int:
        """No mapping within the budget has less of the objective."""
        return int(self.solved.bound or 0)


class Points:
    """The points found so far, and all mappings found, which later solves start from."""

    def __init__(self, solve: Solve, is_over: Callable[[], bool], with_activations: bool) -> None:
        self.is_over = is_over
        self._solve, self._with_activations = solve, with_activations
        self._mapped: list[SolvedLayer] = []
        self._points: list[Point] = []
        self._solves = 0

    def fastest(self, budget: Budget = NO_LIMIT) -> Found:
        """Return the point of least latency within a budget."""
        return self._least(LATENCY, ENERGY, budget)

    def least_energy(self) -> Found:
        """Return the point of least energy."""
        return self._least(ENERGY, LATENCY, NO_LIMIT)

    def front(self, end: Found, step: Fraction, is_complete: bool) -> Front:
        """Return the front: the points that no other one dominates."""
        points = tuple(self._undominated())
        is_complete = is_complete and all(point.status is Status.OPTIMAL for point in points)
        least = None if is_complete and not step else end.solved.lower_bound
        return Front(
            points=points,
            is_complete=is_complete,
            least_energy=_with_best(end.point.solved if end.point else end.solved, points, least),
            solves=self._solves,
        )

    def _undominated(self) -> Iterator[Point]:
        """Yield the points that no other one dominates; of equal points a proven one."""
        kept: list[Cost] = []
        for point in sorted(self._points, key=lambda p: (self._cost(p), p.status is not Status.OPTIMAL)):
            cost = self._cost(point)
            if not any(all(a <= b for a, b in zip(other, cost, strict=True)) for other in kept):
                kept.append(cost)
                yield point

    def _cost(self, point: Point) -> Cost:
        """Return a point's costs on the axes; activations count as 0 if they are no axis."""
        return point.cycles, point.fj, point.activations if self._with_activations else 0

    def _least(self, first: Objective, second: Objective, budget: Budget) -> Found:
        """Find the least of one objective and, with no more of it, of the other."""
        one = self._solved(first, budget)
        if one.mapping is None:
            return Found(solved=one)
        point = self._known(one, budget) or self._completed(one, second, budget)
        self._points.append(point)
        return Found(solved=one, point=point)

    def _known(self, one: SolvedLayer, budget: Budget) -> Point | None:
        """Return a proven point of this least latency within the budget: without activations there is only one."""
        is_least = one.objective == LATENCY and one.status is Status.OPTIMAL
        proven = (p for p in self._points if p.status is Status.OPTIMAL and budget.covers(p.solved.predicted))
        return next((p for p in proven if p.cycles == one.latency), None) if is_least else None

    def _completed(self, one: SolvedLayer, second: Objective, budget: Budget) -> Point:
        """Return the point that a mapping leads to; its status and bound are those of the first solve."""
        if self.is_over():
            return Point(solved=one, gap=None)
        two = self._solved(second, evolve(budget, cycles=one.latency, fj=one.predicted.energy_fj))
        if two.mapping is None:
            return Point(solved=one, gap=None)
        gap = None if one.gap is None or two.gap is None else max(one.gap, two.gap)
        last, has_fewest = self._fewest(two) if self._with_activations else (two, True)
        answer = evolve(one, mapping=last.mapping, prediction=last.prediction, simulated=last.simulated)
        seconds = one.solve_seconds + last.solve_seconds
        return Point(solved=evolve(answer, solve_seconds=seconds), gap=gap, has_fewest=has_fewest)

    def _fewest(self, found: SolvedLayer) -> tuple[SolvedLayer, bool]:
        """Return a mapping of the same latency and energy with the fewest activations, and whether that is proven."""
        seconds = found.solve_seconds
        while not self.is_over():
            most = Budget(cycles=found.latency, fj=found.predicted.energy_fj, activations=found.row_activations - 1)
            fewer = self._solved(found.objective, most)
            seconds += fewer.solve_seconds
            if fewer.mapping is None:
                return evolve(found, solve_seconds=seconds), fewer.status is Status.INFEASIBLE
            found = fewer
        return evolve(found, solve_seconds=seconds), False

    def _solved(self, objective: Objective, budget: Budget) -> SolvedLayer:
        """Solve within a budget, from the best mapping known within it."""
        self._solves += 1
        solved = self._solve(objective, budget, self._start(objective, budget))
        if solved.mapping is not None:
            self._mapped.append(solved)
        return solved

    def _start(self, objective: Objective, budget: Budget) -> Mapping | None:
        def value(solved: SolvedLayer) -> int:
            return objective.value(solved.latency, solved.predicted.energy_fj)

        within = [solved for solved in self._mapped if budget.covers(solved.predicted)]
        return min(within, key=value).mapping if within else None


def _with_best(end: SolvedLayer, points: tuple[Point, ...], least: int | None) -> SolvedLayer:
    """Return the result for least energy with the mapping of the best point; no mapping needs less than `least` fJ, or
    than that point if it is None.
    """
    if not points:
        return end
    best = min(points, key=lambda point: (point.fj, point.cycles)).solved
    answer = evolve(end, mapping=best.mapping, prediction=best.prediction, simulated=best.simulated)
    return answer.with_lower_bound(least)
