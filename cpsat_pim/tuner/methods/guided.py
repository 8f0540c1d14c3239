"""A Gaussian process of what machines cost beyond their floors: it starts from the machines with the least floors.

The floor of a machine, a lower bound of its cost in closed form, takes a millisecond, and a trial takes half a minute
or more. So the process only has to learn the logarithm of cost over floor, which varies much less than the cost.
"""

import math
from collections.abc import Sequence

import numpy as np

from cpsat_pim.tuner.methods.gaussian import GaussianProcessSearch, expected_improvement, fit
from cpsat_pim.tuner.methods.method import MethodOptions
from cpsat_pim.tuner.space import Design, HardwareSpace

#: Designs of the least floors before the process is used, each the best of other random ones: it needs two to fit.
_FIRST = 2
#: Designs of the least floors so far that stay candidates.
_KEPT = 100


class FloorGuidedSearch(GaussianProcessSearch):
    """The candidate with the largest expected improvement; the mean of the process is the log of the floor."""

    def __init__(self, space: HardwareSpace, options: MethodOptions) -> None:
        super().__init__(space, options)
        self._floors: dict[Design, float] = {}

    def propose(self) -> Design:
        """Return a design within the area."""
        found = self.candidates()
        if len(self.designs) < _FIRST:
            return min(found, key=self.floor)
        return found[int(np.argmax(self.scores(found)))]

    def floor(self, design: Design) -> float:
        """Return the logarithm of a design's floor."""
        if design not in self._floors:
            assert self.options.floor is not None
            self._floors[design] = math.log(self.options.floor(design))
        return self._floors[design]

    def candidates(self) -> list[Design]:
        """Return designs that were not tried: random ones, those of the least floors, and neighbours of the best."""
        half = self.options.candidates // 2
        best = sorted(range(len(self.costs)), key=lambda i: self.costs[i])[:3]
        near = [
            self.neighbour(self.designs[one], 0.02 + 0.2 * self.random.random())
            for one in best
            for _ in range(half // len(best))
        ]
        found = dict.fromkeys([*self._pool, *near, *(self.random_design() for _ in range(half))])
        fresh = [design for design in found if design not in set(self.designs)]
        self._pool = sorted(fresh, key=self.floor)[:_KEPT]
        return fresh or [self.random_design()]

    def scores(self, designs: Sequence[Design]) -> np.ndarray:
        """Fit the process to the costs beyond the floors, and return expected improvements."""
        costs = self.targets()
        beyond = costs - np.array(list(map(self.floor, self.designs)))
        start = np.full(len(self.space.axes), 1.0) if self.lengths is None else self.lengths
        process = fit(self.points(self.designs), beyond, start)
        self.lengths = process.lengths
        mean, deviation = process.predict(self.points(designs))
        return expected_improvement(mean + np.array(list(map(self.floor, designs))), deviation, float(costs.min()))
