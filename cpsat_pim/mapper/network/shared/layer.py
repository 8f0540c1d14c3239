"""One layer under partial choices: the bounds of all solves so far, and the best of all mappings found so far."""

from collections.abc import Sequence
from typing import Any

import attrs

from cpsat_pim.arch import PIMArchitecture
from cpsat_pim.evaluate.cost import predict
from cpsat_pim.evaluate.verify import verify
from cpsat_pim.mapper.bounds.layer_bound import layer_lower_bound
from cpsat_pim.mapper.network.shared.decisions import Choice, Decision, changed, constrained, covers
from cpsat_pim.mapper.result import SolvedLayer, Status
from cpsat_pim.mapper.search import SolveRequest
from cpsat_pim.mapping import Mapping
from cpsat_pim.mapping.check import check_mapping
from cpsat_pim.mapping.constraints import Constraints, check_constraints
from cpsat_pim.workload import ConvWorkload


class SharedLayer:
    """One layer under partial choices of shared decisions: its results, lower bounds and best known mappings.

    `request`: what its solves are asked besides a choice. `count`: how often the layer occurs.
    """

    def __init__(
        self,
        layer: ConvWorkload,
        arch: PIMArchitecture,
        decisions: Sequence[Decision],
        request: SolveRequest,
    ) -> None:
        self.layer, self.arch, self.decisions, self.request = layer, arch, decisions, request
        self.objective, self.own = request.objective, request.constraints
        self.start, self.count = request.start, 0
        self.results: dict[Choice, SolvedLayer] = {}
        self._factor_bounds: dict[Constraints, int | None] = {}
        self._costs: dict[Mapping, int | None] = {}

    def lower_bound(self, choice: Choice) -> int | None:
        """Return a lower bound of the cost under a choice: of the factors, and of all solves under wider choices; None
        if there is no mapping.
        """
        known = [self._factor_bound(choice)]
        known += [bound_of(result) for wider, result in self.results.items() if covers(wider, choice)]
        return None if None in known else max(n for n in known if n is not None)

    def best(self, choice: Choice) -> tuple[int, Mapping] | None:
        """Return the cheapest known mapping under a choice, and its cost: any mapping found, changed to the choice."""
        mappings = dict.fromkeys(self._changed(result, choice) for result in self.results.values() if result.mapping)
        costs = [(cost, mapping) for mapping in mappings if (cost := self._cost(mapping)) is not None]
        return min(costs, key=lambda known: known[0], default=None)

    def value(self, choice: Choice) -> int | None:
        """Return the cost of the cheapest known mapping under a choice."""
        best = self.best(choice)
        return None if best is None else best[0]

    def is_closed(self, choice: Choice) -> bool:
        """Whether a solve under a choice is of no use.

        It is if the cost is known, or if there was one. A solve that was out of time under a wider choice, with a
        mapping that is of this choice, too, is taken for one under this choice, unless the choice is whole: then the
        space is smallest.
        """
        if self.value(choice) == self.lower_bound(choice) or choice in self.results:
            return True
        return None in choice and any(
            covers(wider, choice) and self._has(result, choice) for wider, result in self.results.items()
        )

    def constraints(self, choice: Choice) -> Constraints | None:
        """Return the layer's own constraints and the choice's; None if they contradict each other."""
        return constrained(self.own, self.decisions, choice)

    def result(self, choice: Choice) -> SolvedLayer:
        """Return the result under a choice that has a mapping, checked and simulated, as a solve would return it.

        Raises:
            Disagreement: the mapping is illegal, or some exact figure was predicted wrongly.
        """
        best = self.best(choice)
        assert best is not None
        mapping, prediction = best[1], predict(self.layer, self.arch, best[1])
        return SolvedLayer.concluded(
            (mapping, prediction),
            self.lower_bound(choice) or 0,
            simulated=verify(self.layer, self.arch, mapping, prediction),
            **self._fields(self.constraints(choice) or self.own),
        )

    def result_without_mapping(self) -> SolvedLayer:
        """Return the result if no choice has a mapping for all layers: INFEASIBLE if this layer has none at all."""
        has_none = self.lower_bound((None,) * len(self.decisions)) is None
        return SolvedLayer(status=Status.INFEASIBLE if has_none else Status.UNKNOWN, **self._fields(self.own))

    def _fields(self, constraints: Constraints) -> dict[str, Any]:
        """Return the fields of a result that describe the problem, and the time of all solves."""
        return {
            "workload": self.layer,
            "arch": self.arch,
            "objective": self.objective,
            "constraints": constraints,
            "solve_seconds": sum(result.solve_seconds for result in self.results.values()),
        }

    def _factor_bound(self, choice: Choice) -> int | None:
        """Return the lower bound by factors and stored sets; axis orders do not matter to it."""
        constraints = self.constraints(choice)
        if constraints is None:
            return None
        constraints = attrs.evolve(constraints, layout=self.own.layout)
        if constraints not in self._factor_bounds:
            self._factor_bounds[constraints] = layer_lower_bound(self.layer, self.arch, self.objective, constraints)
        return self._factor_bounds[constraints]

    def _has(self, result: SolvedLayer, choice: Choice) -> bool:
        """Whether a result's mapping is of a choice without a change."""
        return result.mapping is not None and self._changed(result, choice) == result.mapping

    def _changed(self, result: SolvedLayer, choice: Choice) -> Mapping:
        assert result.mapping is not None
        return changed(result.mapping, self.layer, self.decisions, choice)

    def _cost(self, mapping: Mapping) -> int | None:
        """Return the cost of a mapping; None if it is illegal or breaks the layer's own constraints."""
        if mapping not in self._costs:
            is_legal = not check_mapping(self.layer, self.arch, mapping) and not check_constraints(mapping, self.own)
            self._costs[mapping] = self._exact_cost(mapping) if is_legal else None
        return self._costs[mapping]

    def _exact_cost(self, mapping: Mapping) -> int:
        figures = predict(self.layer, self.arch, mapping).figures
        return self.objective.value(figures.latency_cycles, figures.energy_fj)


def bound_of(result: SolvedLayer) -> int | None:
    """Return a result's lower bound in the objective's integers; None if there is no mapping."""
    return None if result.status is Status.INFEASIBLE else result.lower_bound or 0
