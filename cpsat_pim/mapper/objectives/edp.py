"""The least product of latency and energy (EDP) of a layer, proven by solves for sums of both.

What may have less than the best product known lies in regions: at least so many cycles and femtojoules, a corner, and
below the hyperbola of the best. The least sum a * cycles + b * fj in a region is a line that all its mappings lie on or
above; on it the product is least at one of its two ends, on the borders of the corner. That bounds the region, soon
very closely where the front is dense. Where it is not, the least latency of the region's thriftier half moves the
corner further, so both are done in turns. If the bound is too low the region is parted at the energy of the mapping
found: what needs less, and what needs no less but is faster. Neither part holds that mapping, so this ends.
"""

import heapq
import itertools
import math
import time
from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any

import attrs
from attrs import frozen

from cpsat_pim.arch import PIMArchitecture
from cpsat_pim.base.interrupts import Stop
from cpsat_pim.base.units import FJ_PER_NJ
from cpsat_pim.base.validate import LIMIT
from cpsat_pim.evaluate.cost import Prediction, predict
from cpsat_pim.mapper.bounds.countable import FJ_WEIGHT, check_countable, heaviest_cycle
from cpsat_pim.mapper.bounds.layer_bound import least_cost
from cpsat_pim.mapper.result import NO_LIMIT, Budget, Objective, SolvedLayer, Status
from cpsat_pim.mapper.search import Options, Progress, solve_layer
from cpsat_pim.mapping import Mapping
from cpsat_pim.workload import ConvWorkload

#: The least of a sum within a budget, given a mapping within it to beat, if one is known.
Solve = Callable[[Objective, Budget, Mapping | None], SolvedLayer]

#: Is told what is known meanwhile.
Report = Callable[[Progress], None]

#: A range of energies is narrow if the most is no more than this times the least.
_NARROW = Fraction(103, 100)
#: Of the time that is left, what a solve may take; and seconds that are too few for another one.
_SHARE, _TOO_FEW_SECONDS = 1 / 4, 0.1

_ENERGY, _LATENCY, _EDP = (Objective.named(kind) for kind in ("energy", "latency", "edp"))


# --- Regions ---------------------------------------------------------------------------------------------------------


@frozen(kw_only=True)
class Line:
    """What has at least `least` of a * cycles + b * fj."""

    a: int
    b: int
    least: int

    def cycles_at(self, fj: int) -> Fraction:
        """The latency at which it passes an energy."""
        return Fraction(self.least - self.b * fj, self.a)

    def fj_at(self, cycles: int) -> Fraction:
        """The energy at which it passes a latency."""
        return Fraction(self.least - self.a * cycles, self.b)


@frozen(kw_only=True)
class Region:
    """At least so many `cycles` and `fj`, at most `most_fj`, on or above a line; `floor` is a bound known before.

    `depth`: how often it was parted.
    """

    cycles: int
    fj: int
    most_fj: int | None = None
    line: Line | None = None
    floor: int = 0
    depth: int = 0

    @property
    def bound(self) -> int:
        """No mapping of the region has a lower product: least at the corner, or at one end of the line above it."""
        if self.line is None or self.line.fj_at(self.cycles) <= self.fj:
            return max(self.floor, self.cycles * self.fj)
        ends = self.cycles * self.line.fj_at(self.cycles), self.fj * self.line.cycles_at(self.fj)
        return max(self.floor, _ceiling(min(ends)))

    @property
    def cycle_weight(self) -> int:
        """Of a cycle where a femtojoule weighs `FJ_WEIGHT`, as on the chord on which a hyperbola meets the corner's
        borders.
        """
        return max(1, round(Fraction(FJ_WEIGHT * self.fj, self.cycles)))

    def budget(self, most: int) -> Budget:
        """What mappings of at most this product cost at most."""
        cycles = most // self.fj if self.fj else None
        return Budget(cycles=cycles, fj=_least(most // self.cycles, self.most_fj))

    def middle(self, most: int) -> int:
        """An energy that parts what has a product of at most `most`: both parts get the same share of a wide range; a
        narrow one is more often empty than worth a division, so it is all below.
        """
        top = _least(most // self.cycles, self.most_fj) or 0
        return math.isqrt(self.fj * top) if top > _NARROW * self.fj else top

    def parts(self, fj: int, most: int) -> "Iterator[Region]":
        """What needs less than an energy, and what needs no less and is fast enough for a product of `most`."""
        if fj > self.fj:
            yield self._below(fj - 1)
        if fj <= (_least(most // self.cycles, self.most_fj) or 0):
            yield self._above(max(fj, self.fj), most)

    def _below(self, fj: int) -> "Region":
        cycles = self.cycles if self.line is None else max(self.cycles, _ceiling(self.line.cycles_at(fj)))
        return attrs.evolve(self, cycles=cycles, most_fj=fj, floor=self.bound)

    def _above(self, fj: int, most: int) -> "Region":
        if self.line and fj:
            fj = max(fj, _ceiling(self.line.fj_at(most // fj)))
        return attrs.evolve(self, fj=fj, floor=self.bound)


def _ceiling(x: Fraction) -> int:
    return -(-x.numerator // x.denominator)


def _least(*limits: int | None) -> int | None:
    return min((limit for limit in limits if limit is not None), default=None)


def _both(one: Budget, other: Budget) -> Budget:
    """Within one budget and the other."""
    return Budget(**{name: _least(getattr(one, name), getattr(other, name)) for name in attrs.fields_dict(Budget)})


# --- The search ------------------------------------------------------------------------------------------------------


@frozen
class Known:
    """A mapping and what it costs."""

    mapping: Mapping
    prediction: Prediction

    @property
    def cost(self) -> tuple[int, int]:
        """Cycles and femtojoules."""
        return self.prediction.figures.latency_cycles, self.prediction.figures.energy_fj

    @property
    def edp(self) -> int:
        """Their product."""
        return _EDP.value(*self.cost)


class LeastProduct:
    """The search for the least product within a budget, by a way to solve for sums.

    `bound`: no mapping has a lower product, None if there is no mapping. `best`: the least known. A cycle weighs no
    more than `heaviest` in sums, with any of which the proof holds.
    """

    def __init__(
        self,
        solve: Solve,
        budget: Budget,
        is_over: Callable[[], bool],
        tell: Callable[[], None],
        heaviest: int = LIMIT,
    ) -> None:
        self.best: Known | None = None
        self._solve, self._budget, self._is_over, self._tell = solve, budget, is_over, tell
        self._heaviest = heaviest
        self._known: list[Known] = []
        self._regions: list[tuple[int, int, Region]] = []
        self._numbers = itertools.count()
        #: Bounds of regions in which nothing more is found.
        self._given_up: list[int] = []

    @property
    def bound(self) -> int | None:
        """The least of all regions and the best."""
        best = [self.best.edp] if self.best else []
        return min([*best, *self._given_up, *(bound for bound, _, _ in self._regions)], default=None)

    def run(self, least_cycles: int, start: Known | None = None) -> None:
        """Begin with the least energy; then take the region of least bound until none may hold anything better."""
        if start:
            self._keep(start)
        found = self._solved(_ENERGY, self._budget)
        if found.status is not Status.INFEASIBLE:
            self._add(Region(cycles=max(1, least_cycles), fj=max(0, int(found.bound or 0))))
        self._tell()
        while self.best and self._regions and self._regions[0][0] < self.best.edp and not self._is_over():
            _, _, region = heapq.heappop(self._regions)
            for part in self._by_sum(region) if region.depth % 2 else self._by_latency(region):
                self._add(attrs.evolve(part, depth=region.depth + 1))
            self._tell()

    @property
    def _most(self) -> int:
        """What is better than the best has at most this product."""
        return self.best.edp - 1 if self.best else 0

    def _by_sum(self, region: Region) -> Iterator[Region]:
        """The parts of a region above the line of its least sum."""
        a, b = min(region.cycle_weight, self._heaviest), FJ_WEIGHT
        objective = Objective(kind="blended", alpha=a, beta=b * FJ_PER_NJ)
        found = self._solved(objective, region.budget(self._most))
        if found.status is not Status.INFEASIBLE:
            region = attrs.evolve(region, line=Line(a=a, b=b, least=int(found.bound or 0)), floor=region.bound)
            yield from self._without(found, region) if found.mapping else self._give_up(region)

    def _by_latency(self, region: Region) -> Iterator[Region]:
        """The parts of a region whose thriftier half has at least its least latency; at first, the whole space has."""
        parts = region.parts(region.middle(self._most) + 1, self._most) if region.depth else iter([region])
        thriftier = next(parts, None)
        if thriftier is None:  # nothing in it is better than what has been found since
            return
        yield from parts
        found = self._solved(_LATENCY, thriftier.budget(self._most) if region.depth else NO_LIMIT)
        if found.status is not Status.INFEASIBLE:
            cycles = max(thriftier.cycles, int(found.bound or 0))
            thriftier = attrs.evolve(thriftier, cycles=cycles, floor=thriftier.bound)
            yield from self._without(found, thriftier) if found.mapping else [thriftier]

    def _without(self, found: SolvedLayer, region: Region) -> Iterator[Region]:
        """The region without the mapping found in it."""
        return region.parts(found.predicted.energy_fj, self._most)

    def _give_up(self, region: Region) -> Iterator[Region]:
        """Nothing was found in it in two turns, and it is not empty either."""
        self._given_up.append(region.bound)
        return iter(())

    def _add(self, region: Region) -> None:
        heapq.heappush(self._regions, (region.bound, next(self._numbers), region))

    def _solved(self, objective: Objective, budget: Budget) -> SolvedLayer:
        """A solve from the best mapping known within the budget, and the one that was given."""
        budget = _both(budget, self._budget)
        fitting = [known for known in self._known if budget.covers(known.prediction.figures)]
        start = min(fitting, key=lambda known: objective.value(*known.cost), default=None)
        solved = self._solve(objective, budget, start.mapping if start else None)
        if solved.mapping is not None and solved.prediction is not None:
            self._keep(Known(solved.mapping, solved.prediction))
        return solved

    def _keep(self, known: Known) -> None:
        self._known.append(known)
        self.best = min(self._known, key=lambda known: known.edp)


# --- One layer -------------------------------------------------------------------------------------------------------


@frozen
class _Until:
    """A stop that comes by itself at the end of a time."""

    stop: Stop
    end: float

    def is_set(self) -> bool:
        return self.stop.is_set() or time.monotonic() >= self.end


class _Solves:
    """The solves of one layer, in a share each of the time that is left.

    The first one goes on until it has a mapping; the others have one to fall back on, and end in time.
    """

    def __init__(self, layer: ConvWorkload, arch: PIMArchitecture, options: Options) -> None:
        self._layer, self._arch, self._options = layer, arch, options
        self._started = time.monotonic()
        self.statistics: dict[str, Any] = {}
        self.count = 0

    @property
    def seconds(self) -> float:
        return time.monotonic() - self._started

    def is_over(self) -> bool:
        left = self._options.time_limit - self.seconds
        return self._options.stop.is_set() or left < _TOO_FEW_SECONDS

    def __call__(self, objective: Objective, budget: Budget, start: Mapping | None) -> SolvedLayer:
        seconds = _SHARE * (self._options.time_limit - self.seconds)
        stop: Any = self._options.stop
        if self.count:
            stop = _Until(stop, time.monotonic() + seconds)
        changes = {"time_limit": max(0.0, seconds), "stop": stop, "budget": budget, "start": start}
        solved = solve_layer(self._layer, self._arch, objective, attrs.evolve(self._options, **changes))
        self.count += 1
        for key, number in solved.solver_info.items():
            self.statistics[key] = self.statistics.get(key, 0) + number
        return solved


def solve_for(
    layer: ConvWorkload, arch: PIMArchitecture, objective: Objective, options: Options, report: Report
) -> SolvedLayer:
    """A layer solved for any objective; see `solve_edp` and `cpsat_pim.mapper.search.solve_layer`.

    Raises:
        ValueError: what it may cost cannot be counted; and see there.
    """
    check_countable(layer, arch, objective)
    if objective.is_product:
        return solve_edp(layer, arch, options, report)
    return solve_layer(layer, arch, objective, options, report)


def solve_edp(layer: ConvWorkload, arch: PIMArchitecture, options: Options, report: Report) -> SolvedLayer:
    """The mapping of least latency x energy, or the best found in time with its gap; not yet checked or simulated
    (`cpsat_pim.mapper.network.run` is).

    Raises:
        ValueError: the mapping to start from breaks a constraint or the budget, or there is a value to beat, which
            would be taken for that of a sum.
    """
    start = None if options.start is None else Known(options.start, predict(layer, arch, options.start))
    if start and not options.budget.covers(start.prediction.figures):
        raise ValueError(f"{layer.name}: the mapping to start from costs more than may be spent")
    if options.beat is not None:
        raise ValueError(f"{layer.name}: a product of latency and energy takes no value to beat")
    solves = _Solves(layer, arch, options)

    def tell() -> None:
        best = search.best.edp if search.best else None
        report(Progress(layer=layer.name, best=best, bound=search.bound, seconds=solves.seconds))

    search = LeastProduct(solves, options.budget, solves.is_over, tell, heaviest_cycle(layer, arch))
    search.run(least_cost(layer, arch, _LATENCY, options.constraints, options.budget) or 1, start)
    return SolvedLayer.known(
        (search.best.mapping, search.best.prediction) if search.best else None,
        search.bound,
        workload=layer,
        arch=arch,
        objective=_EDP,
        solve_seconds=solves.seconds,
        solver_info=solves.statistics | {"solves": solves.count},
        constraints=options.constraints,
        budget=options.budget,
    )
