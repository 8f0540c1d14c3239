"""Mappers that try: random search, and simulated annealing by any cost."""

import math
from collections.abc import Callable

import attrs
import numpy as np
from attrs import field, frozen
from numpy.random import Generator

from cpsat_pim.base.validate import not_negative, positive
from cpsat_pim.mapping import Mapping
from cpsat_pim.study.baselines.draft import Draft
from cpsat_pim.study.baselines.problem import Problem, Scored
from cpsat_pim.study.baselines.space import Space

#: What a mapping costs if that is at most a limit; else None, however much it is.
CostWithin = Callable[[Mapping, float], float | None]

#: Annealing takes what is worse by a share of its cost with probability 1/e, at first and at last.
_HOTTEST, _COLDEST = 0.1, 0.003
#: One of so many samples goes into finding where to start.
STARTS = 10


@frozen(kw_only=True)
class Effort:
    """How many mappings a search looks at, and the seed of what it draws."""

    samples: int = field(default=1000, validator=positive)
    seed: int = field(default=0, validator=not_negative)

    def share(self, parts: int) -> "Effort":
        """One of so many parts of it, with the same seed."""
        return attrs.evolve(self, samples=-(-self.samples // parts))

    def rng(self) -> Generator:
        """The same numbers every time."""
        return np.random.default_rng(self.seed)


def draw_mappings(problem: Problem, effort: Effort) -> list[Mapping]:
    """So many samples; fewer are the first of these. None of an empty space."""
    if problem.space.is_empty:
        return []
    rng = effort.rng()
    return [problem.space.draw(rng).to_mapping(problem.layer) for _ in range(effort.samples)]


def map_at_random(problem: Problem, effort: Effort) -> Scored | None:
    """The cheapest of so many samples."""
    return problem.best(draw_mappings(problem, effort))


def map_by_annealing(problem: Problem, effort: Effort) -> Scored | None:
    """Simulated annealing from the best of a tenth of the samples."""
    starts = effort.share(STARTS)
    start = map_at_random(problem, starts)
    if start is None:
        return None

    def cost_within(mapping: Mapping, limit: float) -> float | None:
        return None if problem.floor(mapping) > limit else problem.score(mapping).value

    steps = effort.samples - starts.samples
    return problem.score(anneal(problem.space, start.mapping, start.value, cost_within, steps, effort.rng()))


def anneal(space: Space, start: Mapping, cost: float, cost_within: CostWithin, steps: int, rng: Generator) -> Mapping:
    """The cheapest mapping on a walk from one to the next, ever less often to a dearer one.

    How much dearer the next one may be is drawn before it is looked at: one that surely is need not be counted.
    """
    here = Draft.of(start, space.layer)
    best, least = here, cost
    for step in range(steps):
        heat = _HOTTEST * (_COLDEST / _HOTTEST) ** (step / steps)
        limit = cost * (1 - heat * math.log(1 - rng.random()))
        there = space.neighbour(here, rng)
        found = cost_within(there.to_mapping(space.layer), limit) if there else None
        if there is not None and found is not None and found <= limit:
            here, cost = there, found
            if cost < least:
                best, least = here, cost
    return best.to_mapping(space.layer)
