"""The front of a layer in latency and energy, or in these and row activations, proven.

It comes of solves within budgets. The least latency within a budget of energy, and then the least energy at that
latency, are a point that no mapping dominates. The next one needs less energy than this one; after the point of least
energy of all there is none.

With row activations a budget is of both, and a point also the least of these at its latency and energy, found by asking
for fewer until there are none. What else of a budget is on the front needs less energy than its point or fewer
activations, so two smaller budgets come of it. One within another that is still to be looked at is left to that, one
within another that is empty is empty, and the point of another around it that lies in it is its own.

Latencies are predicted ones, as those of every objective.
"""

import math
import threading
import time
from collections.abc import Callable, Iterator
from fractions import Fraction

from attrs import evolve, frozen

from cpsat_pim.arch import PIMArchitecture
from cpsat_pim.base.interrupts import interrupt_stops
from cpsat_pim.mapper.network.run import solve_and_verify
from cpsat_pim.mapper.objectives.edp import Solve
from cpsat_pim.mapper.result import NO_LIMIT, Budget, Objective, SolvedLayer, Status
from cpsat_pim.mapper.search import Options
from cpsat_pim.mapping import Mapping
from cpsat_pim.workload import ConvWorkload
from cpsat_pim.workload.network import Network, NetworkNode

#: What is traded.
AXES = _LATENCY, _ENERGY = Objective.named("latency"), Objective.named("energy")

#: Cycles, femtojoules, row activations.
Cost = tuple[int, int, int]


# --- What is found ---------------------------------------------------------------------------------------------------


@frozen(kw_only=True)
class Point:
    """A mapping on a front; `gap` is the larger one of its two solves. With 0, no mapping dominates it, but where
    activations are traded for one of the same latency and energy, unless it `has_fewest` of them, too.
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
        """Proven or not."""
        return Status.OPTIMAL if self.gap == 0 and self.has_fewest else Status.FEASIBLE


@frozen(kw_only=True)
class Front:
    """Points of rising latency, then energy. `least_energy` is the answer to that objective; its mapping, if any, is a
    point, and without activations the last one.

    `is_complete`: all points are proven, and any mapping has a point that is as fast and needs no more, or within a
    `step` no more, of what is traded.
    """

    points: tuple[Point, ...]
    is_complete: bool
    least_energy: SolvedLayer
    solves: int


# --- Solves ----------------------------------------------------------------------------------------------------------


class LayerSolves:
    """The solves of one layer, each checked and simulated: `time_limit` seconds for one, `total_time` for all."""

    def __init__(
        self,
        layer: ConvWorkload,
        arch: PIMArchitecture,
        *,
        time_limit: float = 60.0,
        total_time: float = math.inf,
        seed: int = 0,
        stop: threading.Event | None = None,
    ) -> None:
        if not total_time >= 0:
            raise ValueError(f"total_time: must be a number of at least 0 (got {total_time})")
        limits = Options(time_limit=time_limit, seed=seed)
        self._layer, self._arch, self._seed, self._time_limit = layer, arch, limits.seed, limits.time_limit
        self._stop = stop or threading.Event()
        self._end = time.monotonic() + total_time

    def __call__(self, objective: Objective, budget: Budget, start: Mapping | None) -> SolvedLayer:
        """Solve and verify.

        Raises:
            Disagreement: the mapping is illegal, or some exact figure was predicted wrongly.
        """
        seconds = max(0.0, min(self._time_limit, self._end - time.monotonic()))
        options = Options(time_limit=seconds, seed=self._seed, stop=self._stop, start=start, budget=budget)
        return solve_and_verify(self._layer, self._arch, objective, options)

    def is_over(self) -> bool:
        """Whether the time is up or a stop was asked for."""
        return self._stop.is_set() or time.monotonic() >= self._end


@frozen(kw_only=True)
class _Found:
    """What a solve said of the least of one objective within a budget, and the point there, if any was found."""

    solved: SolvedLayer
    point: Point | None = None

    @property
    def is_empty(self) -> bool:
        """Whether nothing at all is within the budget."""
        return self.solved.status is Status.INFEASIBLE

    @property
    def is_proven(self) -> bool:
        """Whether the point is."""
        return self.point is not None and self.point.status is Status.OPTIMAL

    @property
    def bound(self) -> int:
        """Nothing within the budget has less of the objective."""
        return int(self.solved.bound or 0)


class _Points:
    """The points that solves have led to, and every mapping that may be a start for others."""

    def __init__(self, solve: Solve, is_over: Callable[[], bool], with_activations: bool) -> None:
        self.is_over = is_over
        self._solve, self._with_activations = solve, with_activations
        self._mapped: list[SolvedLayer] = []
        self._points: list[Point] = []
        self._solves = 0

    def fastest(self, budget: Budget = NO_LIMIT) -> _Found:
        """The point of least latency."""
        return self._least(_LATENCY, _ENERGY, budget)

    def thriftiest(self) -> _Found:
        """The point of least energy."""
        return self._least(_ENERGY, _LATENCY, NO_LIMIT)

    def front(self, end: _Found, step: Fraction, is_complete: bool) -> Front:
        """The points that no other one dominates."""
        points = tuple(self._undominated())
        is_complete = is_complete and all(point.status is Status.OPTIMAL for point in points)
        least = None if is_complete and not step else end.solved.least_cost
        return Front(
            points=points,
            is_complete=is_complete,
            least_energy=_with_best(end.point.solved if end.point else end.solved, points, least),
            solves=self._solves,
        )

    def _undominated(self) -> Iterator[Point]:
        """Of equal points a proven one."""
        kept: list[Cost] = []
        for point in sorted(self._points, key=lambda p: (self._cost(p), p.status is not Status.OPTIMAL)):
            cost = self._cost(point)
            if not any(all(a <= b for a, b in zip(other, cost, strict=True)) for other in kept):
                kept.append(cost)
                yield point

    def _cost(self, point: Point) -> Cost:
        """What is traded: as if there were no activations if these are not."""
        return point.cycles, point.fj, point.activations if self._with_activations else 0

    def _least(self, first: Objective, second: Objective, budget: Budget) -> _Found:
        """The least of one objective and, with no more of it, of the other."""
        one = self._solved(first, budget)
        if one.mapping is None:
            return _Found(solved=one)
        point = self._known(one, budget) or self._completed(one, second, budget)
        self._points.append(point)
        return _Found(solved=one, point=point)

    def _known(self, one: SolvedLayer, budget: Budget) -> Point | None:
        """A proven point of this least latency within the budget: without activations there is but one."""
        is_least = one.objective == _LATENCY and one.status is Status.OPTIMAL
        proven = (p for p in self._points if p.status is Status.OPTIMAL and budget.covers(p.solved.predicted))
        return next((p for p in proven if p.cycles == one.latency), None) if is_least else None

    def _completed(self, one: SolvedLayer, second: Objective, budget: Budget) -> Point:
        """The point that a mapping leads to; the claim that is kept with it is that of the first solve."""
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
        """What is as fast and thrifty with fewer and fewer activations, and whether that ended with a proof."""
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
        """A solve from the best mapping known within the budget."""
        self._solves += 1
        solved = self._solve(objective, budget, self._start(objective, budget))
        if solved.mapping is not None:
            self._mapped.append(solved)
        return solved

    def _start(self, objective: Objective, budget: Budget) -> Mapping | None:
        def value(solved: SolvedLayer) -> int:
            return objective.value(solved.latency, solved.predicted.energy_fj)

        fitting = [solved for solved in self._mapped if budget.covers(solved.predicted)]
        return min(fitting, key=value).mapping if fitting else None


def _with_best(end: SolvedLayer, points: tuple[Point, ...], least: int | None) -> SolvedLayer:
    """The answer to least energy with the mapping of the best point, as none needs less than `least` fJ, or than it."""
    if not points:
        return end
    best = min(points, key=lambda point: (point.fj, point.cycles)).solved
    answer = evolve(end, mapping=best.mapping, prediction=best.prediction, simulated=best.simulated)
    return answer.bounded(least)


# --- The front -------------------------------------------------------------------------------------------------------


def _never() -> bool:
    """No end of time."""
    return False


def front(
    solve: Solve, *, step: Fraction = Fraction(0), with_activations: bool = False, is_over: Callable[[], bool] = _never
) -> Front:
    """The front from the least latency to the least energy; each point needs less energy than the one before by a
    share of at least `step`, but for the last. With activations, any mapping has a point that is as fast and needs at
    most its energy and its activations / (1 - step).

    Raises:
        ValueError: `step` is not from 0 to below 1.
    """
    if not 0 <= step < 1:
        raise ValueError(f"step: must be from 0 to below 1 (got {step})")
    points = _Points(solve, is_over, with_activations)
    end = points.thriftiest()
    traded = ("fj", "activations") if with_activations else ("fj",)
    is_complete = end.is_empty or (end.point is not None and _Climb(points, end.bound, step, traded).run())
    return points.front(end, step, is_complete)


class _Climb:
    """Budgets that are yet to be looked at, those that gave a proven point, and those that hold nothing; they are of
    what is `traded` for latency.
    """

    def __init__(self, points: _Points, least_fj: int, step: Fraction, traded: tuple[str, ...]) -> None:
        self._points, self._least_fj, self._step, self._traded = points, least_fj, step, traded
        self._open = [NO_LIMIT]
        self._done: list[tuple[Budget, _Found]] = []
        self._empty: list[Budget] = []

    def run(self) -> bool:
        """Find point after point; whether all are proven and nothing is left."""
        all_proven = True
        while self._open and not self._points.is_over():
            all_proven &= self._look(self._open.pop(0))
        return all_proven and not self._open

    def _look(self, budget: Budget) -> bool:
        """Find the point of a budget, which leaves parts of it; whether it is proven, or that there is none."""
        found = self._known(budget) or self._points.fastest(budget)
        if found.point is None:
            self._empty += [budget] if found.is_empty else []
            return found.is_empty
        if found.is_proven:
            self._done.append((budget, found))
        for part in self._parts(budget, found.point):
            self._add(part)
        return found.is_proven

    def _known(self, budget: Budget) -> _Found | None:
        """The fastest one of a larger budget that lies within this one."""
        larger = (found for other, found in self._done if _contains(other, budget))
        return next((f for f in larger if f.point and budget.covers(f.point.solved.predicted)), None)

    def _parts(self, budget: Budget, point: Point) -> Iterator[Budget]:
        """What needs less than a point: a step less of one that is traded, and never less than the least energy."""
        for name in self._traded:
            spent = getattr(point, name)
            part = evolve(budget, **{name: min(math.floor(spent * (1 - self._step)), spent - 1)})
            if part.fj is None or part.fj >= self._least_fj:
                yield part

    def _add(self, part: Budget) -> None:
        """Look at it, too, unless that is done with another one around it; likewise at those within it."""
        if not any(_contains(other, part) for other in (*self._open, *self._empty)):
            self._open = [*(other for other in self._open if not _contains(part, other)), part]


def _contains(budget: Budget, other: Budget) -> bool:
    """Whether all that is within the other one is within this one, at any latency."""
    pairs = ((budget.fj, other.fj), (budget.activations, other.activations))
    return all(most is None or (limit is not None and limit <= most) for most, limit in pairs)


# --- Networks --------------------------------------------------------------------------------------------------------


@frozen(kw_only=True)
class LayerFront:
    """The front of a layer of a network."""

    node: NetworkNode
    front: Front

    @property
    def points(self) -> tuple[tuple[str, Point], ...]:
        """The points and their names: the layer's, and a number from 1."""
        return tuple((f"{self.node.name}.{i}", point) for i, point in enumerate(self.front.points, 1))


@frozen(kw_only=True)
class NetworkFronts:
    """The fronts of a network's layers, in its order; those not begun are absent."""

    network: str
    arch: PIMArchitecture
    layers: tuple[LayerFront, ...]
    seconds: float
    interrupted: bool
    with_activations: bool = False


def network_fronts(
    network: Network,
    arch: PIMArchitecture,
    *,
    step: Fraction = Fraction(0),
    with_activations: bool = False,
    time_limit: float = 60.0,
    total_time: float = math.inf,
    seed: int = 0,
    stop: threading.Event | None = None,
    keep: Callable[[NetworkFronts], None] | None = None,
) -> NetworkFronts:
    """The front of each layer, equal ones found once.

    `time_limit` seconds a solve, `total_time` a layer. `stop`, or Ctrl-C, ends it with what was found. `keep` is given
    the fronts so far whenever there is another one, as if it had ended there.

    Raises:
        ValueError: `step` is not from 0 to below 1, or another number is out of range.
        Disagreement: a mapping is illegal, or some exact figure was predicted wrongly.
    """
    started, stop = time.monotonic(), stop or threading.Event()
    found: dict[str, Front] = {}

    def fronts_so_far(interrupted: bool) -> NetworkFronts:
        nodes = (node for node in network.layers if node.workload.shape_key in found)
        return NetworkFronts(
            network=network.name,
            arch=arch,
            layers=tuple(LayerFront(node=node, front=found[node.workload.shape_key]) for node in nodes),
            seconds=time.monotonic() - started,
            interrupted=interrupted,
            with_activations=with_activations,
        )

    with interrupt_stops(stop):
        for layer in (node.workload for node in network.layers):
            if layer.shape_key not in found and not stop.is_set():
                solve = LayerSolves(layer, arch, time_limit=time_limit, total_time=total_time, seed=seed, stop=stop)
                found[layer.shape_key] = front(
                    solve, step=step, with_activations=with_activations, is_over=solve.is_over
                )
                if keep:
                    keep(fronts_so_far(interrupted=True))
    return fronts_so_far(stop.is_set())
