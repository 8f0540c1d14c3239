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
from cpsat_pim.mapper.network.front_points import LATENCY, Found, Front, Point, Points
from cpsat_pim.mapper.network.run import solve_and_verify
from cpsat_pim.mapper.objectives.edp import Solve
from cpsat_pim.mapper.result import NO_LIMIT, Budget, Objective, SolvedLayer
from cpsat_pim.mapper.search import SolveRequest
from cpsat_pim.mapping import Mapping
from cpsat_pim.workload import ConvWorkload

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
    each: SolveRequest = field(factory=lambda: SolveRequest(objective=LATENCY, then=None), validator=is_a(SolveRequest))


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


# --- The front -------------------------------------------------------------------------------------------------------


def _never() -> bool:
    """Return that the time is not up."""
    return False


def front(
    solve: Solve, step: Fraction = Fraction(0), with_activations: bool = False, is_over: Callable[[], bool] = _never
) -> Front:
    """Return the front from the least latency to the least energy; `step`, `with_activations`: see `FrontRequest`."""
    points = Points(solve, is_over, with_activations)
    end = points.least_energy()
    traded = ("fj", "activations") if with_activations else ("fj",)
    is_complete = end.is_empty or (end.point is not None and _BudgetSearch(points, end.bound, step, traded).run())
    return points.front(end, step, is_complete)


class _BudgetSearch:
    """The search over budgets of what is `traded` for latency: open ones, those with a proven point, and empty ones."""

    def __init__(self, points: Points, least_fj: int, step: Fraction, traded: tuple[str, ...]) -> None:
        self._points, self._least_fj, self._step, self._traded = points, least_fj, step, traded
        self._open = [NO_LIMIT]
        self._done: list[tuple[Budget, Found]] = []
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

    def _known(self, budget: Budget) -> Found | None:
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
