"""The least product of latency and energy (EDP) of a layer, proven by solves for weighted sums of both.

Mappings that cost less than the incumbent's product lie in regions of the plane of latency and energy
(`cpsat_pim.mapper.objectives.regions`), which end at the hyperbola of that product. The least sum of both in a region
raises the region's line. Where the Pareto front is not dense, the least latency of the region's half of less energy
moves the corner. So both are done in turns. A region whose bound is too low is divided at the energy of the mapping
found: into what needs less energy, and what needs no less but is faster. Neither half holds that mapping, so the search
ends.
"""

import heapq
import itertools
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import attrs
from attrs import frozen

from cpsat_pim.arch import PIMArchitecture
from cpsat_pim.base.interrupts import Stop
from cpsat_pim.base.units import FJ_PER_NJ
from cpsat_pim.base.validate import LIMIT
from cpsat_pim.evaluate.cost import Prediction, predict
from cpsat_pim.mapper.bounds.countable import FJ_WEIGHT, check_countable, heaviest_cycle
from cpsat_pim.mapper.bounds.layer_bound import layer_lower_bound
from cpsat_pim.mapper.objectives.regions import Line, Region
from cpsat_pim.mapper.result import NO_LIMIT, Budget, Objective, SolvedLayer, Status
from cpsat_pim.mapper.search import OnProgress, Progress, SolveRequest, ignore_progress, solve_layer
from cpsat_pim.mapper.space.parameters import DEFAULTS, SearchParameters
from cpsat_pim.mapping import Mapping
from cpsat_pim.workload import ConvWorkload

#: Returns the least of a sum within a budget, given a mapping within it to start from, if one is known.
Solve = Callable[[Objective, Budget, Mapping | None], SolvedLayer]

_ENERGY, _LATENCY, _EDP = (Objective.named(kind) for kind in ("energy", "latency", "edp"))


# --- The search ------------------------------------------------------------------------------------------------------


@frozen
class Candidate:
    """A mapping and its predicted cost."""

    mapping: Mapping
    prediction: Prediction

    @property
    def cost(self) -> tuple[int, int]:
        """Cycles and femtojoules."""
        return self.prediction.figures.latency_cycles, self.prediction.figures.energy_fj

    @property
    def edp(self) -> int:
        """Cycles times femtojoules."""
        return _EDP.value(*self.cost)


class LeastProduct:
    """The search for the least product within a budget, by solves for sums.

    `bound`: no mapping has a lower product; None if there is no mapping. `incumbent`: the mapping of least product
    known. A cycle weighs no more than `heaviest` in sums; the proof holds for any weights.
    """

    def __init__(
        self,
        solve: Solve,
        budget: Budget,
        is_over: Callable[[], bool],
        on_step: Callable[[], None],
        heaviest: int = LIMIT,
        parameters: SearchParameters = DEFAULTS,
    ) -> None:
        self.incumbent: Candidate | None = None
        self._solve, self._budget, self._is_over, self._on_step = solve, budget, is_over, on_step
        self._heaviest, self._parameters = heaviest, parameters
        self._candidates: list[Candidate] = []
        self._regions: list[tuple[int, int, Region]] = []
        self._numbers = itertools.count()
        #: Bounds of regions that are neither empty nor have a mapping that was found in time.
        self._abandoned: list[int] = []

    @property
    def bound(self) -> int | None:
        """The least bound of all regions, and the incumbent's product."""
        incumbent = [self.incumbent.edp] if self.incumbent else []
        return min([*incumbent, *self._abandoned, *(bound for bound, _, _ in self._regions)], default=None)

    def run(self, min_cycles: int, start: Candidate | None = None) -> None:
        """Begin with the least energy; then search the region of least bound, until no bound is below the incumbent.

        `min_cycles`: no mapping is faster.
        """
        if start:
            self._update_incumbent(start)
        found = self._solved(_ENERGY, self._budget)
        if found.status is not Status.INFEASIBLE:
            self._add(Region(cycles=max(1, min_cycles), fj=max(0, int(found.bound or 0))))
        self._on_step()
        while self._is_open() and not self._is_over():
            _, _, region = heapq.heappop(self._regions)
            for half in self._by_sum(region) if region.depth % 2 else self._by_latency(region):
                self._add(attrs.evolve(half, depth=region.depth + 1))
            self._on_step()

    def _is_open(self) -> bool:
        """Whether a region may hold a mapping that beats the incumbent; not without an incumbent."""
        return self.incumbent is not None and bool(self._regions) and self._regions[0][0] < self.incumbent.edp

    @property
    def _cutoff(self) -> int:
        """The greatest product that beats the incumbent."""
        return self.incumbent.edp - 1 if self.incumbent else 0

    def _by_sum(self, region: Region) -> Iterator[Region]:
        """Yield what is left of a region above the line of its least sum."""
        a, b = min(region.cycle_weight, self._heaviest), FJ_WEIGHT
        objective = Objective(kind="blended", alpha=a, beta=b * FJ_PER_NJ)
        found = self._solved(objective, region.budget(self._cutoff))
        if found.status is not Status.INFEASIBLE:
            region = attrs.evolve(region, line=Line(a=a, b=b, least=int(found.bound or 0)), known_bound=region.bound)
            yield from self._without(found, region) if found.mapping else self._abandon(region)

    def _by_latency(self, region: Region) -> Iterator[Region]:
        """Yield the halves of a region, that of less energy with its least latency; the first region is not divided."""
        middle = region.middle(self._cutoff, self._parameters.narrow_energy_ratio)
        halves = region.halves(middle + 1, self._cutoff) if region.depth else iter([region])
        lower = next(halves, None)
        if lower is None:  # nothing in it beats the incumbent that was found since
            return
        yield from halves
        found = self._solved(_LATENCY, lower.budget(self._cutoff) if region.depth else NO_LIMIT)
        if found.status is not Status.INFEASIBLE:
            cycles = max(lower.cycles, int(found.bound or 0))
            lower = attrs.evolve(lower, cycles=cycles, known_bound=lower.bound)
            yield from self._without(found, lower) if found.mapping else [lower]

    def _without(self, found: SolvedLayer, region: Region) -> Iterator[Region]:
        """Return the halves of a region without the mapping found in it."""
        return region.halves(found.predicted.energy_fj, self._cutoff)

    def _abandon(self, region: Region) -> Iterator[Region]:
        """Keep the bound of a region in which two solves found no mapping, nor a proof that it is empty."""
        self._abandoned.append(region.bound)
        return iter(())

    def _add(self, region: Region) -> None:
        heapq.heappush(self._regions, (region.bound, next(self._numbers), region))

    def _solved(self, objective: Objective, budget: Budget) -> SolvedLayer:
        """Solve within this budget and the given one, from the best mapping known within both."""
        budget = budget & self._budget
        within = [candidate for candidate in self._candidates if budget.covers(candidate.prediction.figures)]
        start = min(within, key=lambda candidate: objective.value(*candidate.cost), default=None)
        solved = self._solve(objective, budget, start.mapping if start else None)
        if solved.mapping is not None and solved.prediction is not None:
            self._update_incumbent(Candidate(solved.mapping, solved.prediction))
        return solved

    def _update_incumbent(self, candidate: Candidate) -> None:
        self._candidates.append(candidate)
        self.incumbent = min(self._candidates, key=lambda candidate: candidate.edp)


# --- One layer -------------------------------------------------------------------------------------------------------


@frozen
class _Until:
    """A stop that is also set once a time has come."""

    stop: Stop
    end: float

    def is_set(self) -> bool:
        """Whether the stop was set or the time has come."""
        return self.stop.is_set() or time.monotonic() >= self.end


class _Solves:
    """The solves of one layer for sums, each in a share of the time that is left.

    The first one may go past its time until it has a mapping. The others have one to start from, and end in time.
    """

    def __init__(self, layer: ConvWorkload, arch: PIMArchitecture, request: SolveRequest, stop: Stop) -> None:
        self._layer, self._arch, self._request, self._stop = layer, arch, request, stop
        self._started = time.monotonic()
        self.statistics: dict[str, Any] = {}
        self.count = 0

    @property
    def seconds(self) -> float:
        """Seconds since the search began."""
        return time.monotonic() - self._started

    def is_over(self) -> bool:
        """Whether a stop was asked for, or too little time is left for a solve."""
        left = self._request.time_limit - self.seconds
        return self._stop.is_set() or left < self._request.parameters.product_min_seconds

    def __call__(self, objective: Objective, budget: Budget, start: Mapping | None) -> SolvedLayer:
        """Solve for a sum within a budget."""
        seconds = self._request.parameters.product_solve_share * (self._request.time_limit - self.seconds)
        stop: Any = self._stop
        if self.count:
            stop = _Until(stop, time.monotonic() + seconds)
        request = attrs.evolve(
            self._request, objective=objective, time_limit=max(0.0, seconds), budget=budget, start=start
        )
        solved = solve_layer(self._layer, self._arch, request, stop)
        self.count += 1
        for key, number in solved.solver_info.items():
            self.statistics[key] = self.statistics.get(key, 0) + number
        return solved


def solve_for(
    layer: ConvWorkload, arch: PIMArchitecture, request: SolveRequest, stop: Stop, on_progress: OnProgress
) -> SolvedLayer:
    """Solve a layer for any objective: see `solve_edp` and `cpsat_pim.mapper.search.solve_layer`.

    Raises:
        ValueError: its cost may be too large to be counted; and see there.
    """
    check_countable(layer, arch, request.objective)
    solve = solve_edp if request.objective.is_product else solve_layer
    return solve(layer, arch, request, stop, on_progress)


def solve_edp(
    layer: ConvWorkload,
    arch: PIMArchitecture,
    request: SolveRequest,
    stop: Stop | None = None,
    on_progress: OnProgress = ignore_progress,
) -> SolvedLayer:
    """Return the mapping of least latency x energy, or the incumbent and the lower bound when the time is up.

    The mapping is not yet checked or simulated: `cpsat_pim.mapper.network.run` does that.

    Raises:
        ValueError: the mapping to start from breaks a constraint or the budget; or the request has a value to beat,
            which the solves for sums would take for that of a sum.
    """
    start = None if request.start is None else Candidate(request.start, predict(layer, arch, request.start))
    if start and not request.budget.covers(start.prediction.figures):
        raise ValueError(f"{layer.name}: the mapping to start from costs more than may be spent")
    if request.value_to_beat is not None:
        raise ValueError(f"{layer.name}: a product of latency and energy takes no value to beat")
    solves = _Solves(layer, arch, request, stop or threading.Event())

    def report() -> None:
        incumbent = search.incumbent.edp if search.incumbent else None
        on_progress(Progress(layer=layer.name, incumbent=incumbent, bound=search.bound, seconds=solves.seconds))

    heaviest = heaviest_cycle(layer, arch)
    search = LeastProduct(solves, request.budget, solves.is_over, report, heaviest, request.parameters)
    search.run(layer_lower_bound(layer, arch, _LATENCY, request.constraints, request.budget) or 1, start)
    return SolvedLayer.concluded(
        (search.incumbent.mapping, search.incumbent.prediction) if search.incumbent else None,
        search.bound,
        workload=layer,
        arch=arch,
        objective=_EDP,
        solve_seconds=solves.seconds,
        solver_info=solves.statistics | {"solves": solves.count},
        constraints=request.constraints,
        budget=request.budget,
    )
