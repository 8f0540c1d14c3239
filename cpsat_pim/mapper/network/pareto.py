"""The proven Pareto front of a layer in latency and energy, or in these and row activations.

It is made of solves within budgets. The least latency within a budget of energy, and then the least energy at that
latency, are a point that no mapping dominates. The next point needs less energy than this one. After the point of least
energy there is none.

With row activations, budgets are of energy and activations, and a point also has the fewest activations at its latency
and energy, found by asking for fewer until there are none. All other points within the point's budget need less energy
than it, or fewer activations, so two smaller budgets cover them. A budget is skipped if it lies within another one that
is still open or is empty. If it lies within one with a proven point, and holds that point, the point is its own.

Latencies are predicted ones, as in every objective.
"""

import math
import threading
import time
from collections.abc import Callable, Iterator
from fractions import Fraction

from attrs import evolve, field, frozen

from cpsat_pim.arch import PIMArchitecture
from cpsat_pim.base.validate import Rule, is_a
from cpsat_pim.mapper.network.run import solve_and_verify
from cpsat_pim.mapper.objectives.edp import Solve
from cpsat_pim.mapper.result import NO_LIMIT, Budget, Objective, SolvedLayer, Status
from cpsat_pim.mapper.search import SolveRequest
from cpsat_pim.mapping import Mapping
from cpsat_pim.workload import ConvWorkload

#: The axes of fronts.
AXES = _LATENCY, _ENERGY = Objective.named("latency"), Objective.named("energy")

#: Cycles, femtojoules, row activations.
Cost = tuple[int, int, int]


# --- What is found ---------------------------------------------------------------------------------------------------


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


# --- Solves ----------------------------------------------------------------------------------------------------------


_at_least_zero = Rule("must be a number of at least 0", lambda v: isinstance(v, int | float) and v >= 0)
_from_zero_to_one = Rule("must be from 0 to below 1", lambda v: 0 <= v < 1)


@frozen(kw_only=True)
class FrontRequest:
    """What is asked of fronts.

    `step`: each point needs less energy than the one before by at least this share, but for the last. With
    `with_activations`, any mapping has a point that is as fast and needs at most its energy and its activations, each
    divided by (1 - `step`). `total_time`: seconds a front. `each`: time limit, seed and parameters of its solves; their
    objectives and budgets are the front's own.

    Raises:
        ValueError: a field is out of range.
    """

    step: Fraction = field(default=Fraction(0), validator=_from_zero_to_one)
    with_activations: bool = False
    total_time: float = field(default=math.inf, validator=_at_least_zero)
    each: SolveRequest = field(
        factory=lambda: SolveRequest(objective=_LATENCY, then=None), validator=is_a(SolveRequest)
    )


class LayerSolves:
    """The solves of one layer, each checked and simulated, within the times of a request."""

    def __init__(
        self,
        layer: ConvWorkload,
        arch: PIMArchitecture,
        request: FrontRequest,
        stop: threading.Event | None = None,
    ) -> None:
        self._layer, self._arch, self._request = layer, arch, request.each
        self._stop = stop or threading.Event()
        self._end = time.monotonic() + request.total_time

    def __call__(self, objective: Objective, budget: Budget, start: Mapping | None) -> SolvedLayer:
        """Solve and verify.

        Raises:
            Disagreement: the mapping is illegal, or some exact figure was predicted wrongly.
        """
        seconds = max(0.0, min(self._request.time_limit, self._end - time.monotonic()))
        request = evolve(self._request, objective=objective, time_limit=seconds, start=start, budget=budget)
        return solve_and_verify(self._layer, self._arch, request, self._stop)

    def is_over(self) -> bool:
        """Whether the time is up or a stop was asked for."""
        return self._stop.is_set() or time.monotonic() >= self._end


@frozen(kw_only=True)
class _Found:
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


class _Points:
    """The points found so far, and all mappings found, which later solves start from."""

    def __init__(self, solve: Solve, is_over: Callable[[], bool], with_activations: bool) -> None:
        self.is_over = is_over
        self._solve, self._with_activations = solve, with_activations
        self._mapped: list[SolvedLayer] = []
        self._points: list[Point] = []
        self._solves = 0

    def fastest(self, budget: Budget = NO_LIMIT) -> _Found:
        """Return the point of least latency within a budget."""
        return self._least(_LATENCY, _ENERGY, budget)

    def least_energy(self) -> _Found:
        """Return the point of least energy."""
        return self._least(_ENERGY, _LATENCY, NO_LIMIT)

    def front(self, end: _Found, step: Fraction, is_complete: bool) -> Front:
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

    def _least(self, first: Objective, second: Objective, budget: Budget) -> _Found:
        """Find the least of one objective and, with no more of it, of the other."""
        one = self._solved(first, budget)
        if one.mapping is None:
            return _Found(solved=one)
        point = self._known(one, budget) or self._completed(one, second, budget)
        self._points.append(point)
        return _Found(solved=one, point=point)

    def _known(self, one: SolvedLayer, budget: Budget) -> Point | None:
        """Return a proven point of this least latency within the budget: without activations there is only one."""
        is_least = one.objective == _LATENCY and one.status is Status.OPTIMAL
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


# --- The front -------------------------------------------------------------------------------------------------------


def _never() -> bool:
    """Return that the time is not up."""
    return False


def front(
    solve: Solve, step: Fraction = Fraction(0), with_activations: bool = False, is_over: Callable[[], bool] = _never
) -> Front:
    """Return the front from the least latency to the least energy; `step`, `with_activations`: see `FrontRequest`."""
    points = _Points(solve, is_over, with_activations)
    end = points.least_energy()
    traded = ("fj", "activations") if with_activations else ("fj",)
    is_complete = end.is_empty or (end.point is not None and _BudgetSearch(points, end.bound, step, traded).run())
    return points.front(end, step, is_complete)


class _BudgetSearch:
    """The search over budgets of what is `traded` for latency: open ones, those with a proven point, and empty ones."""

    def __init__(self, points: _Points, least_fj: int, step: Fraction, traded: tuple[str, ...]) -> None:
        self._points, self._least_fj, self._step, self._traded = points, least_fj, step, traded
        self._open = [NO_LIMIT]
        self._done: list[tuple[Budget, _Found]] = []
        self._empty: list[Budget] = []

    def run(self) -> bool:
        """Find point after point; return whether all are proven and no budget is open."""
        all_proven = True
        while self._open and not self._points.is_over():
            all_proven &= self._search(self._open.pop(0))
        return all_proven and not self._open

    def _search(self, budget: Budget) -> bool:
        """Find the point of a budget, and open the smaller budgets that it leaves.

        Return whether it is proven that the point is on the front, or that there is none.
        """
        found = self._known(budget) or self._points.fastest(budget)
        if found.point is None:
            self._empty += [budget] if found.is_empty else []
            return found.is_empty
        if found.is_proven:
            self._done.append((budget, found))
        for smaller in self._smaller(budget, found.point):
            self._add(smaller)
        return found.is_proven

    def _known(self, budget: Budget) -> _Found | None:
        """Return the proven point of a larger budget, if this one covers it."""
        larger = (found for other, found in self._done if _contains(other, budget))
        return next((f for f in larger if f.point and budget.covers(f.point.solved.predicted)), None)

    def _smaller(self, budget: Budget, point: Point) -> Iterator[Budget]:
        """Yield a budget for each traded cost, a step below the point's, but never below the least energy."""
        for name in self._traded:
            spent = getattr(point, name)
            smaller = evolve(budget, **{name: min(math.floor(spent * (1 - self._step)), spent - 1)})
            if smaller.fj is None or smaller.fj >= self._least_fj:
                yield smaller

    def _add(self, budget: Budget) -> None:
        """Open a budget in place of those within it, unless it lies within one that is open or empty."""
        if not any(_contains(other, budget) for other in (*self._open, *self._empty)):
            self._open = [*(other for other in self._open if not _contains(budget, other)), budget]


def _contains(budget: Budget, other: Budget) -> bool:
    """Whether a budget covers all that the other one covers, at any latency."""
    pairs = ((budget.fj, other.fj), (budget.activations, other.activations))
    return all(most is None or (limit is not None and limit <= most) for most, limit in pairs)
