"""Solving a layer that may be padded to a proven optimum of all that it may be padded to, itself among them.

A padded layer is a layer like any other (docs/model.md, section 1), so each is solved as such, and the least of their
optima is the answer. First the screen says what each costs at least. Then the most promising one is solved, and what
it costs is what the others have to beat: those that by their bounds cannot are closed unseen, and a solve ends as soon
as it is proven that nothing beats it. One that is out of time has its turn again once all have had one; until it is
closed, its bound is one of the whole.
"""

import time
from collections.abc import Callable
from functools import partial
from typing import Any

import attrs
from attrs import define

from cpsat_pim.arch import PIMArchitecture
from cpsat_pim.base.dims import Level
from cpsat_pim.base.units import to_fj
from cpsat_pim.mapper.bounds.countable import check_countable
from cpsat_pim.mapper.bounds.layer_bound import least_cost
from cpsat_pim.mapper.objectives.edp import solve_for
from cpsat_pim.mapper.result import Objective, SolvedLayer
from cpsat_pim.mapper.search import Options, Progress
from cpsat_pim.mapping import Mapping
from cpsat_pim.mapping.check import check_fits
from cpsat_pim.workload import ConvWorkload
from cpsat_pim.workload.padding import padded_layers

#: Shares of the time: for the screen; for a solve while others wait, of what is left.
_SCREEN_SHARE, _SOLVE_SHARE = 0.5, 0.5
#: A solve has at least so many seconds.
_LEAST_SECONDS = 1.0


def solve_padded(
    layer: ConvWorkload,
    arch: PIMArchitecture,
    objective: Objective,
    options: Options,
    padding: float,
    report: Callable[[Progress], None],
) -> SolvedLayer:
    """The optimal mapping of a layer or of one that it may be padded to, or the best found in time with its gap; the
    answer's `workload` is the one that it is of. Not yet checked or simulated.

    Raises:
        ValueError: the mapping to start from breaks a constraint, some padded layer costs more than can be counted, or
            `padding` is not from 0 to below 1, or above 0 for the product of latency and energy.
    """
    if padding and objective.is_product:
        raise ValueError(f"padding: must be 0 for {objective.kind} (got {padding:g})")
    _, *padded = padded_layers(layer, padding)
    for larger in padded:  # what is left out below has no mapping at all, so the proof is of the others, too
        check_countable(larger, arch, objective)
    layers = [layer, *(larger for larger in padded if not check_fits(larger, arch))]
    if len(layers) == 1:
        return attrs.evolve(solve_for(layer, arch, objective, options, report), padding=padding)
    search = _PaddedSearch(layers, arch, objective, options, report)
    search.run()
    return attrs.evolve(search.result(), padding=padding)


@define(eq=False)
class _Candidate:
    """One of the layers: what it costs at least, None once nothing of it can be better than the best; whether the
    screen has said so; how often it was solved.
    """

    layer: ConvWorkload
    floor: int | None
    is_screened: bool = False
    turns: int = 0


class _PaddedSearch:
    """The state of a solve: the candidates, the best answer, time and statistics."""

    def __init__(
        self,
        layers: list[ConvWorkload],
        arch: PIMArchitecture,
        objective: Objective,
        options: Options,
        report: Callable[[Progress], None],
    ) -> None:
        self.arch, self.objective, self.options, self.report = arch, objective, options, report
        self.started = time.monotonic()
        self.layer = layers[0]
        self.candidates = [_Candidate(layer, self._work(layer)) for layer in layers]
        self.best: SolvedLayer | None = None
        self.statistics: dict[str, Any] = {"padded_layers": len(layers)}

    def run(self) -> None:
        """Solve the most promising candidate, as long as there is one."""
        if self.options.start is not None:
            self._begin_with(self.options.start)
        self._screen()
        while (candidate := self._next()) and not self.is_over:
            self._solve(candidate)
        best = self.best.objective_value if self.best else None
        self.report(Progress(layer=self.layer.name, best=best, bound=self._reported_bound, seconds=self.seconds))

    @property
    def seconds(self) -> float:
        return time.monotonic() - self.started

    @property
    def left(self) -> float:
        return self.options.time_limit - self.seconds

    @property
    def is_over(self) -> bool:
        return self.options.stop.is_set() or self.left <= 0

    @property
    def value(self) -> int | None:
        """What is to be beaten."""
        return self.best.cost if self.best else self.options.beat

    @property
    def open(self) -> list[_Candidate]:
        """The candidates that may be better than the best."""
        return [c for c in self.candidates if c.floor is not None and (self.value is None or c.floor < self.value)]

    @property
    def bound(self) -> int | None:
        """No candidate has a mapping that costs less; None if there is no mapping."""
        floors = [c.floor for c in self.open if c.floor is not None]
        return min(floors) if floors else self.best.cost if self.best else None

    @property
    def _reported_bound(self) -> int | float | None:
        return None if self.bound is None else self.objective.reported(self.bound)

    def result(self) -> SolvedLayer:
        """The best answer, as far as it is proven."""
        found: dict[str, Any] = {"solve_seconds": self.seconds, "solver_info": self.statistics}
        if self.best is not None:
            return attrs.evolve(self.best.bounded(self.bound), **found)
        return SolvedLayer.known(
            None,
            self.bound,
            workload=self.layer,
            arch=self.arch,
            objective=self.objective,
            constraints=self.options.constraints,
            budget=self.options.budget,
            **found,
        )

    # --- What candidates cost at least -------------------------------------------------------------------------------

    def _work(self, layer: ConvWorkload) -> int:
        """What the MACs cost by themselves, on a full array."""
        array = self.arch.pe_array
        steps = -(-layer.macs // array.macs_per_cycle)
        return self.objective.value(steps, layer.macs * to_fj(array.compute_unit.mac_energy))

    def _screen(self) -> None:
        """Screen the candidates, those of fewest MACs first, as long as there is time."""
        for candidate in self.open:
            if self.options.stop.is_set() or self.seconds > _SCREEN_SHARE * self.options.time_limit:
                return
            limits = (self.options.constraints, self.options.budget)
            candidate.floor = self._raised(candidate, least_cost(candidate.layer, self.arch, self.objective, *limits))
            candidate.is_screened = True

    def _raised(self, candidate: _Candidate, floor: int | None) -> int | None:
        """A candidate's floor, now that this one is known."""
        return None if floor is None else max(floor, candidate.floor or 0)

    # --- Solving -----------------------------------------------------------------------------------------------------

    def _next(self) -> _Candidate | None:
        """The most promising of those that have had fewest turns."""
        return min(self.open, key=lambda c: (c.turns, not c.is_screened, c.floor), default=None)

    def _begin_with(self, start: Mapping) -> None:
        """The candidate that a mapping is of has the first turn: its answer is at least as good."""
        bounds = start.extents(Level.DRAM)
        for candidate in self.candidates:
            if candidate.layer.bounds == bounds:
                return self._solve(candidate, start)
        raise ValueError(f"{self.layer.name}: the mapping to start from is of bounds that the layer is not padded to")

    def _solve(self, candidate: _Candidate, start: Mapping | None = None) -> None:
        """Give a candidate its turn, and the time that the others can spare."""
        spare = self.left if self.open == [candidate] else max(_LEAST_SECONDS, _SOLVE_SHARE * self.left)
        options = attrs.evolve(self.options, time_limit=spare, start=start, beat=self.value)
        hear = partial(self._hear, candidate, self.seconds)
        solved = solve_for(candidate.layer, self.arch, self.objective, options, hear)
        candidate.turns += 1
        candidate.floor = self._raised(candidate, solved.least_cost)
        if solved.mapping is not None:
            self.best = solved
        for key, number in solved.solver_info.items():
            self.statistics[key] = self.statistics.get(key, 0) + number

    def _hear(self, candidate: _Candidate, before: float, progress: Progress) -> None:
        """Report what is known of one candidate as what it says of all."""
        best = progress.best if self.best is None or progress.best is not None else self.best.objective_value
        others = [self.objective.reported(c.floor) for c in self.open if c is not candidate and c.floor is not None]
        bound = min((b for b in (progress.bound, best, *others) if b is not None), default=None)
        self.report(attrs.evolve(progress, best=best, bound=bound, seconds=before + progress.seconds))
