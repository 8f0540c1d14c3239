"""Node programs at their lower bounds: costs without a solve, by which planners can be compared in seconds.

The bounds are the mapper's, for latency and for energy each on its own, in free layouts. A plan at these costs is
a bound of the same plan with solved node programs, and the optimum at these costs is a bound of all plans.
"""

from collections.abc import Callable, Iterable, Sequence
from math import inf

from attrs import frozen

from cpsat_pim.mapper.bounds.layer_bound import layer_lower_bounds
from cpsat_pim.mapper.result import Objective
from cpsat_pim.mapping.check import check_fits
from cpsat_pim.planner.nodes import HIGHEST, NodeCost, NodeCosts, NodeProblem, Useful
from cpsat_pim.workload import ConvWorkload
from cpsat_pim.workload.padding import padded_layers

_LATENCY, _ENERGY = Objective.named("latency"), Objective.named("energy")


@frozen(kw_only=True)
class BoundCost(NodeCost):
    """A cost that counts as solved without a mapping."""

    @property
    def is_solved(self) -> bool:
        """Whether the bounds were computed."""
        return self.value is not None


class BoundCosts(NodeCosts):
    """Costs whose `refine` is all that a solve would do; `refined` counts it."""

    refined = 0

    def refine(self, problem: NodeProblem, below: int = HIGHEST) -> NodeCost | None:
        """Return the mapper's bounds as if a mapping had them, whatever is of use; None if the layer does not fit."""
        known = self.cost(problem)
        if known is None or known.is_solved:
            return known
        found = self._bounded(problem.relaxation)
        self._known[problem] = found
        return found

    raise_bound = refine_tied = refine

    def _bounded(self, problem: NodeProblem) -> BoundCost | None:
        known = self._known.get(problem)
        if isinstance(known, BoundCost):
            return known
        self.refined += 1
        fitting = [one for one in padded_layers(problem.layer, self.padding) if not check_fits(one, self.arch)]
        found = self._least([self._computed(one) for one in fitting])
        self._known[problem] = found
        return found

    def _least(self, found: list[BoundCost | None]) -> BoundCost | None:
        """Return the bounds of latency and of energy, each the least of all padded layers."""
        known = [one for one in found if one is not None]
        if not known:
            return None
        cycles, energy_fj = min(one.latency_cycles for one in known), min(one.energy_fj for one in known)
        value = int(self.objective.value(cycles, energy_fj))
        return BoundCost(least=value, value=value, latency_cycles=cycles, energy_fj=energy_fj)

    def _computed(self, layer: ConvWorkload) -> BoundCost | None:
        bounds = layer_lower_bounds(layer, self.arch, (_LATENCY, _ENERGY))
        if bounds is None:
            return None
        cycles, energy_fj = bounds
        value = int(self.objective.value(cycles, energy_fj))
        return BoundCost(least=value, value=value, latency_cycles=cycles, energy_fj=energy_fj)

    def solve_all(
        self,
        problems: Sequence[NodeProblem],
        slack: int | None = None,
        until: float = inf,
        useful: Useful | None = None,
    ) -> None:
        """Refine all of them."""
        for problem in problems:
            self.refine(problem)

    def solve_briefly(self, problems: Sequence[NodeProblem], seconds: float, until: float = inf) -> None:
        """Refine all of them."""
        self.solve_all(problems)

    def construct(self, problems: Iterable[NodeProblem], is_over: Callable[[], bool] = lambda: False) -> int:
        """Refine those that are not; return how many of them fit a node."""
        plain = [problem for problem in problems if (known := self.cost(problem)) is not None and not known.is_solved]
        return sum(self.refine(problem) is not None for problem in plain)
