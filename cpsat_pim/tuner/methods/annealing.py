"""Simulated annealing: a neighbour is accepted if it is better, or by chance, the less likely the later."""

import math

from cpsat_pim.tuner.methods.method import Method
from cpsat_pim.tuner.space import Design

#: Differences of log cost that are accepted with probability 1/e at the beginning and at the end.
_FIRST, _LAST = 0.5, 0.01
#: Share of an axis' values that a step may take at the beginning and at the end.
_FAR, _NEAR = 0.5, 0.05


class Annealing(Method):
    """Geometric cooling from `_FIRST` to `_LAST` over all trials."""

    current: Design | None = None
    current_cost = math.inf

    @property
    def _progress(self) -> float:
        return min(1.0, len(self.designs) / max(1, self.options.trials - 1))

    def propose(self) -> Design:
        """Return a neighbour of the current design; the first one is random."""
        reach = _FAR * (_NEAR / _FAR) ** self._progress
        return self.random_design() if self.current is None else self.neighbour(self.current, reach)

    def learn(self, design: Design, cost: float) -> None:
        """Move to the design, or stay."""
        super().learn(design, cost)
        temperature = _FIRST * (_LAST / _FIRST) ** self._progress
        if self.current is None or self._is_accepted(cost, temperature):
            self.current, self.current_cost = design, cost

    def _is_accepted(self, cost: float, temperature: float) -> bool:
        draw = self.random.random()
        if not math.isfinite(cost) or cost <= self.current_cost:
            return cost <= self.current_cost
        return draw < math.exp(-math.log(cost / self.current_cost) / temperature)
