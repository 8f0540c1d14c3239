"""Search mappers: random search, and simulated annealing with any cost function."""

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

#: Returns a mapping's cost if it is at most a limit, else None.
CostWithin = Callable[[Mapping, float], float | None]

#: Annealing temperatures: the relative increase of cost that is accepted with probability 1/e, at the start and at the
#: end.
_HOTTEST, _COLDEST = 0.1, 0.003
#: One part in this many of the samples is spent on finding the start.
STARTS = 10


@frozen(kw_only=True)
class Effort:
    """The effort of a search: the number of mappings that it evaluates, and its random seed."""

    samples: int = field(default=1000, validator=positive)
    seed: int = field(default=0, validator=not_negative)

    def share(self, parts: int) -> "Effort":
        """Return one of `parts` equal parts of the effort, with the same seed."""
        return attrs.evolve(self, samples=-(-self.samples // parts))

    def rng(self) -> Generator:
        """Return a new generator, which yields the same numbers every time."""
        return np.random.default_rng(self.seed)


def draw_mappings(problem: Problem, effort: Effort) -> list[Mapping]:
    """Draw as many samples as the effort allows; none if the space is empty. A smaller effort draws a prefix
    of them.
    """
    if problem.space.is_empty:
        return []
    rng = effort.rng()
    return [problem.space.draw(rng).to_mapping(problem.layer) for _ in range(effort.samples)]


def map_at_random(problem: Problem, effort: Effort) -> Scored | None:
    """Return the cheapest sample."""
    return problem.best(draw_mappings(problem, effort))


def map_by_annealing(problem: Problem, effort: Effort) -> Scored | None:
    """Run simulated annealing from the best of a tenth of the samples."""
    starts = effort.share(STARTS)
    start = map_at_random(problem, starts)
    if start is None:
        return None

    def cost_within(mapping: Mapping, limit: float) -> float | None:
        return None if problem.lower_bound(mapping) > limit else problem.cost(mapping)

    steps = effort.samples - starts.samples
    return problem.score(anneal(problem.space, start.mapping, start.value, cost_within, steps, effort.rng()))


def anneal(space: Space, start: Mapping, cost: float, cost_within: CostWithin, steps: int, rng: Generator) -> Mapping:
    """Return the cheapest mapping on a random walk that accepts worse mappings ever less often.

    The acceptance threshold is drawn before the neighbour is evaluated. A neighbour whose lower bound exceeds it is
    rejected without an exact count.
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
