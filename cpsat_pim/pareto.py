"""The latency-energy front of a layer, proven.

It comes of solves within budgets. The least latency within a budget of energy, and then the least energy at that
latency, are a point that no mapping dominates. The next one needs less energy than this one; after the point of least
energy of all there is none. Latencies are predicted ones, as those of every objective.
"""

import math
import threading
import time
from collections.abc import Callable, Iterator
from fractions import Fraction

from attrs import evolve, frozen

from cpsat_pim.arch import PIMArchitecture
from cpsat_pim.edp import Solve
from cpsat_pim.interrupts import interrupt_stops
from cpsat_pim.mapping import Mapping
from cpsat_pim.model import Options
from cpsat_pim.result import NO_LIMIT, Budget, Objective, SolvedLayer, Status
from cpsat_pim.run import solve_and_verify
from cpsat_pim.workload import ConvWorkload
from cpsat_pim.workload.network import Network, NetworkNode

#: What is traded.
AXES = _LATENCY, _ENERGY = Objective.named("latency"), Objective.named("energy")


# --- What is found ---------------------------------------------------------------------------------------------------


@frozen(kw_only=True)
class Point:
    """A mapping on a front; `gap` is the larger one of its two solves, 0 a proof that no mapping dominates it."""

    solved: SolvedLayer
    gap: float | None

    @property
    def cycles(self) -> int:
        """Predicted latency."""
        return self.solved.latency

    @property
    def fj(self) -> int:
        """Energy."""
        return self.solved.predicted.energy_fj

    @property
    def edp(self) -> int:
        """Cycles times femtojoules."""
        return self.cycles * self.fj

    @property
    def status(self) -> Status:
        """Proven or not."""
        return Status.OPTIMAL if self.gap == 0 else Status.FEASIBLE


@frozen(kw_only=True)
class Front:
    """Points of rising latency. `least_energy` is the answer to that objective; its mapping, if any, is the last point.

    `is_complete`: all points are proven, and no mapping needs a `step` less energy than the last point that is as fast.
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
        """Nothing within the budget has less of the objective, nor less than one cycle or femtojoule."""
        return max(1, int(self.solved.bound or 0))


class _Points:
    """The points that solves have led to, and every mapping that may be a start for others."""

    def __init__(self, solve: Solve, is_over: Callable[[], bool]) -> None:
        self.is_over = is_over
        self._solve = solve
        self._mapped: list[SolvedLayer] = []
        self._points: list[Point] = []
        self._solves = 0

    def fastest(self, budget: Budget = NO_LIMIT) -> _Found:
        """The point of least latency."""
        return self._least(_LATENCY, _ENERGY, budget)

    def thriftiest(self) -> _Found:
        """The point of least energy."""
        return self._least(_ENERGY, _LATENCY, NO_LIMIT)

    def front(self, end: _Found, is_complete: bool) -> Front:
        """The points that no other one dominates."""
        points = tuple(self._undominated())
        return Front(
            points=points,
            is_complete=is_complete and all(point.status is Status.OPTIMAL for point in points),
            least_energy=end.point.solved if end.point else end.solved,
            solves=self._solves,
        )

    def _undominated(self) -> Iterator[Point]:
        """Of equal points a proven one."""
        least = None
        for point in sorted(self._points, key=lambda p: (p.cycles, p.fj, p.status is not Status.OPTIMAL)):
            if least is None or point.fj < least:
                least = point.fj
                yield point

    def _least(self, first: Objective, second: Objective, budget: Budget) -> _Found:
        """The least of one objective and, with no more of it, of the other."""
        one = self._solved(first, budget)
        if one.mapping is None:
            return _Found(solved=one)
        point = self._known(one) or self._completed(one, second)
        self._points.append(point)
        return _Found(solved=one, point=point)

    def _known(self, one: SolvedLayer) -> Point | None:
        """The proven point of this least latency: there is but one."""
        is_least = one.objective == _LATENCY and one.status is Status.OPTIMAL
        same = (p for p in self._points if p.cycles == one.latency and p.status is Status.OPTIMAL)
        return next(same, None) if is_least else None

    def _completed(self, one: SolvedLayer, second: Objective) -> Point:
        """The point that a mapping leads to; the claim that is kept with it is that of the first solve."""
        if self.is_over():
            return Point(solved=one, gap=None)
        two = self._solved(second, Budget(cycles=one.latency, fj=one.predicted.energy_fj))
        if two.mapping is None:
            return Point(solved=one, gap=None)
        gap = None if one.gap is None or two.gap is None else max(one.gap, two.gap)
        answer = evolve(one, mapping=two.mapping, prediction=two.prediction, simulated=two.simulated)
        return Point(solved=evolve(answer, solve_seconds=one.solve_seconds + two.solve_seconds), gap=gap)

    def _solved(self, objective: Objective, budget: Budget) -> SolvedLayer:
        """A solve from the best mapping known within the budget."""
        self._solves += 1
        solved = self._solve(objective, budget, self._start(objective, budget))
        if solved.mapping is not None:
            self._mapped.append(solved)
        return solved

    def _start(self, objective: Objective, budget: Budget) -> Mapping | None:
        def cost(solved: SolvedLayer) -> tuple[int, int]:
            return solved.latency, solved.predicted.energy_fj

        fitting = [solved for solved in self._mapped if budget.allows(*cost(solved))]
        return min(fitting, key=lambda solved: objective.value(*cost(solved))).mapping if fitting else None


# --- The front -------------------------------------------------------------------------------------------------------


def _never() -> bool:
    """No end of time."""
    return False


def front(solve: Solve, *, step: Fraction = Fraction(0), is_over: Callable[[], bool] = _never) -> Front:
    """The front from the least latency to the least energy; each point needs less energy than the one before by a
    share of at least `step`, but for the last.

    Raises:
        ValueError: `step` is not from 0 to below 1.
    """
    if not 0 <= step < 1:
        raise ValueError(f"step: must be from 0 to below 1 (got {step})")
    points = _Points(solve, is_over)
    end = points.thriftiest()
    return points.front(end, end.is_empty or (end.point is not None and _climb(points, end.bound, step)))


def _climb(points: _Points, least_fj: int, step: Fraction) -> bool:
    """Find point after point, with ever less energy; whether all are proven and nothing is left."""
    budget, all_proven = NO_LIMIT, True
    while budget.fj is None or budget.fj >= least_fj:
        if points.is_over():
            return False
        found = points.fastest(budget)
        if found.point is None:
            return found.is_empty and all_proven
        all_proven &= found.is_proven
        budget = Budget(fj=min(math.floor(found.point.fj * (1 - step)), found.point.fj - 1))
    return all_proven


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


def network_fronts(
    network: Network,
    arch: PIMArchitecture,
    *,
    step: Fraction = Fraction(0),
    time_limit: float = 60.0,
    total_time: float = math.inf,
    seed: int = 0,
    stop: threading.Event | None = None,
) -> NetworkFronts:
    """The front of each layer, equal ones found once.

    `time_limit` seconds a solve, `total_time` a layer. `stop`, or Ctrl-C, ends it with what was found.

    Raises:
        ValueError: `step` is not from 0 to below 1, or another number is out of range.
        Disagreement: a mapping is illegal, or some exact figure was predicted wrongly.
    """
    started, stop = time.monotonic(), stop or threading.Event()
    found: dict[str, Front] = {}
    with interrupt_stops(stop):
        for layer in (node.workload for node in network.layers):
            if layer.shape_key not in found and not stop.is_set():
                solve = LayerSolves(layer, arch, time_limit=time_limit, total_time=total_time, seed=seed, stop=stop)
                found[layer.shape_key] = front(solve, step=step, is_over=solve.is_over)
    nodes = (node for node in network.layers if node.workload.shape_key in found)
    return NetworkFronts(
        network=network.name,
        arch=arch,
        layers=tuple(LayerFront(node=node, front=found[node.workload.shape_key]) for node in nodes),
        seconds=time.monotonic() - started,
        interrupted=stop.is_set(),
    )
