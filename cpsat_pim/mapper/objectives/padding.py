"""Solve a layer that may be padded: a proven optimum over all layers that it may be padded to, and itself.

A padded layer is a layer like any other (docs/model.md, section 1), so each is solved as such, and the least of the
optima is the result. First, lower bounds of all candidates are computed. Then the most promising candidate is solved;
its cost is the value that the others have to beat. A candidate whose lower bound does not beat it is closed without a
solve, and a solve ends as soon as it is proven that nothing beats it. A candidate that was out of time has another turn
once all others have had one. Until it is closed, its lower bound counts for the result.
"""

import time
from functools import partial
from typing import Any

import attrs
from attrs import define

from cpsat_pim.arch import PIMArchitecture
from cpsat_pim.base.dims import Level
from cpsat_pim.base.interrupts import Stop
from cpsat_pim.base.units import to_fj
from cpsat_pim.mapper.bounds.countable import check_countable
from cpsat_pim.mapper.bounds.layer_bound import layer_lower_bound
from cpsat_pim.mapper.objectives.edp import solve_for
from cpsat_pim.mapper.result import SolvedLayer
from cpsat_pim.mapper.search import OnProgress, Progress, SolveRequest
from cpsat_pim.mapping import Mapping
from cpsat_pim.mapping.check import check_fits
from cpsat_pim.workload import ConvWorkload
from cpsat_pim.workload.padding import padded_layers


def solve_padded(
    layer: ConvWorkload, arch: PIMArchitecture, request: SolveRequest, stop: Stop, on_progress: OnProgress
) -> SolvedLayer:
    """Return the optimal mapping of a layer or of one that it may be padded to, or the incumbent and the lower bound
    when the time is up; `workload` of the result is the layer that the mapping is of.

    The mapping is not yet checked or simulated: `cpsat_pim.mapper.network.run` does that.

    Raises:
        ValueError: the mapping to start from breaks a constraint; the cost of some padded layer may be too large to be
            counted; or the request's `padding` is above 0 for the product of latency and energy.
    """
    padding, objective = request.padding, request.objective
    if padding and objective.is_product:
        raise ValueError(f"padding: must be 0 for {objective.kind} (got {padding:g})")
    _, *padded = padded_layers(layer, padding)
    for larger in padded:  # those that do not fit have no mapping at all, so the proof covers them, too
        check_countable(larger, arch, objective)
    counts = request.constraints.bank_counts
    layers = [layer, *(larger for larger in padded if not check_fits(larger, arch, counts))]
    if len(layers) == 1:
        return attrs.evolve(solve_for(layer, arch, request, stop, on_progress), padding=padding)
    search = _PaddedSearch(layers, arch, request, stop, on_progress)
    search.run()
    return attrs.evolve(search.result(), padding=padding)


@define(eq=False)
class _Candidate:
    """One of the layers. No mapping of it costs less than `lower_bound`; None if no mapping of it beats the incumbent.

    `has_bound`: whether its lower bound was computed. `turns`: how often it was solved.
    """

    layer: ConvWorkload
    lower_bound: int | None
    has_bound: bool = False
    turns: int = 0


class _PaddedSearch:
    """The search over a layer and its padded layers: the candidates, the incumbent, time and statistics."""

    def __init__(
        self,
        layers: list[ConvWorkload],
        arch: PIMArchitecture,
        request: SolveRequest,
        stop: Stop,
        on_progress: OnProgress,
    ) -> None:
        self.arch, self.request, self.stop, self.on_progress = arch, request, stop, on_progress
        self.objective, self.parameters = request.objective, request.parameters
        self.started = time.monotonic()
        self.layer = layers[0]
        self.candidates = [_Candidate(layer, self._compute_bound(layer)) for layer in layers]
        self.incumbent: SolvedLayer | None = None
        self.statistics: dict[str, Any] = {"padded_layers": len(layers)}

    def run(self) -> None:
        """Solve the most promising candidate, as long as there is one."""
        if self.request.start is not None:
            self._start_from(self.request.start)
        self._bound_candidates()
        while (candidate := self._next()) and not self.is_over:
            self._solve(candidate)
        incumbent = self.incumbent.objective_value if self.incumbent else None
        bound = None if self.bound is None else self.objective.reported(self.bound)
        self.on_progress(Progress(layer=self.layer.name, incumbent=incumbent, bound=bound, seconds=self.seconds))

    @property
    def seconds(self) -> float:
        """Seconds since the search began."""
        return time.monotonic() - self.started

    @property
    def left(self) -> float:
        """Seconds until the time is up."""
        return self.request.time_limit - self.seconds

    @property
    def is_over(self) -> bool:
        """Whether the time is up or a stop was asked for."""
        return self.stop.is_set() or self.left <= 0

    @property
    def value_to_beat(self) -> int | None:
        """The cost that a useful mapping stays below: the incumbent's, or the request's; None if there is neither."""
        return self.incumbent.cost if self.incumbent else self.request.value_to_beat

    @property
    def open(self) -> list[_Candidate]:
        """The candidates that may beat the incumbent."""
        to_beat = self.value_to_beat
        return [
            c for c in self.candidates if c.lower_bound is not None and (to_beat is None or c.lower_bound < to_beat)
        ]

    @property
    def bound(self) -> int | None:
        """No candidate has a mapping that costs less; None if there is no mapping."""
        bounds = [c.lower_bound for c in self.open if c.lower_bound is not None]
        return min(bounds) if bounds else self.incumbent.cost if self.incumbent else None

    def result(self) -> SolvedLayer:
        """Return the incumbent with the lower bound over all candidates."""
        found: dict[str, Any] = {"solve_seconds": self.seconds, "solver_info": self.statistics}
        if self.incumbent is not None:
            return attrs.evolve(self.incumbent.with_lower_bound(self.bound), **found)
        return SolvedLayer.concluded(
            None,
            self.bound,
            workload=self.layer,
            arch=self.arch,
            objective=self.objective,
            constraints=self.request.constraints,
            budget=self.request.budget,
            **found,
        )

    # --- Lower bounds of the candidates ------------------------------------------------------------------------------

    def _compute_bound(self, layer: ConvWorkload) -> int:
        """Return the cost of a layer's MACs by themselves on a full array."""
        array = self.arch.pe_array
        steps = -(-layer.macs // array.macs_per_cycle)
        return self.objective.value(steps, layer.macs * to_fj(array.compute_unit.mac_energy))

    def _bound_candidates(self) -> None:
        """Compute the lower bounds of the candidates, those of fewest MACs first, while there is time."""
        for candidate in self.open:
            if self.stop.is_set() or self.seconds > self.parameters.padding_bound_share * self.request.time_limit:
                return
            limits = (self.request.constraints, self.request.budget)
            bound = layer_lower_bound(candidate.layer, self.arch, self.objective, *limits)
            candidate.lower_bound = self._raised(candidate, bound)
            candidate.has_bound = True

    def _raised(self, candidate: _Candidate, bound: int | None) -> int | None:
        """Return a candidate's lower bound, now that another one is known."""
        return None if bound is None else max(bound, candidate.lower_bound or 0)

    # --- Solves ------------------------------------------------------------------------------------------------------

    def _next(self) -> _Candidate | None:
        """Return the most promising of the candidates that have had fewest turns."""
        return min(self.open, key=lambda c: (c.turns, not c.has_bound, c.lower_bound), default=None)

    def _start_from(self, start: Mapping) -> None:
        """Give the first turn to the candidate that a mapping is of: its result is at least as good."""
        bounds = start.extents(Level.DRAM)
        for candidate in self.candidates:
            if candidate.layer.bounds == bounds:
                return self._solve(candidate, start)
        raise ValueError(f"{self.layer.name}: the mapping to start from is of bounds that the layer is not padded to")

    def _solve(self, candidate: _Candidate, start: Mapping | None = None) -> None:
        """Give a candidate its turn, and the time that the others can spare."""
        share = max(self.parameters.padding_min_seconds, self.parameters.padding_solve_share * self.left)
        seconds = self.left if self.open == [candidate] else share
        request = attrs.evolve(self.request, time_limit=seconds, start=start, value_to_beat=self.value_to_beat)
        on_progress = partial(self._pass_on, candidate, self.seconds)
        solved = solve_for(candidate.layer, self.arch, request, self.stop, on_progress)
        candidate.turns += 1
        candidate.lower_bound = self._raised(candidate, solved.lower_bound)
        if solved.mapping is not None:
            self.incumbent = solved
        for key, number in solved.solver_info.items():
            self.statistics[key] = self.statistics.get(key, 0) + number

    def _pass_on(self, candidate: _Candidate, before: float, progress: Progress) -> None:
        """Report the progress of one candidate as that of all."""
        incumbent = progress.incumbent
        if incumbent is None and self.incumbent is not None:
            incumbent = self.incumbent.objective_value
        others = [c.lower_bound for c in self.open if c is not candidate and c.lower_bound is not None]
        known = (progress.bound, incumbent, *map(self.objective.reported, others))
        bound = min((bound for bound in known if bound is not None), default=None)
        seconds = before + progress.seconds
        self.on_progress(attrs.evolve(progress, incumbent=incumbent, bound=bound, seconds=seconds))
