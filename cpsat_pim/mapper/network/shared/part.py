"""One layer under partial choices: what it costs at least, by all bounds known, and at most, by all mappings known."""

from collections.abc import Sequence
from typing import Any

import attrs

from cpsat_pim.arch import PIMArchitecture
from cpsat_pim.evaluate.cost import predict
from cpsat_pim.evaluate.verify import verify
from cpsat_pim.mapper.bounds.layer_bound import least_cost
from cpsat_pim.mapper.network.shared.decisions import Choice, Decision, changed, constrained, covers
from cpsat_pim.mapper.result import Objective, SolvedLayer, Status
from cpsat_pim.mapping import Mapping
from cpsat_pim.mapping.check import check_mapping
from cpsat_pim.mapping.constraints import FREE, Constraints, check_constraints
from cpsat_pim.workload import ConvWorkload


class Part:
    """What is known of one layer under partial choices; `count` is how often it occurs, `start` a mapping of it."""

    def __init__(
        self,
        layer: ConvWorkload,
        arch: PIMArchitecture,
        objective: Objective,
        decisions: Sequence[Decision],
        own: Constraints = FREE,
        start: Mapping | None = None,
    ) -> None:
        self.layer, self.arch, self.objective, self.decisions = layer, arch, objective, decisions
        self.own, self.start, self.count = own, start, 0
        self.answers: dict[Choice, SolvedLayer] = {}
        self._screened: dict[Constraints, int | None] = {}
        self._costs: dict[Mapping, int | None] = {}

    def floor(self, choice: Choice) -> int | None:
        """No mapping under a choice costs less; None if there is none."""
        known = [self._screen(choice)]
        known += [bound_of(answer) for wider, answer in self.answers.items() if covers(wider, choice)]
        return None if None in known else max(n for n in known if n is not None)

    def best(self, choice: Choice) -> tuple[int, Mapping] | None:
        """The cheapest mapping known under a choice, and its cost: one that was found, changed if need be."""
        mappings = dict.fromkeys(self._changed(answer, choice) for answer in self.answers.values() if answer.mapping)
        costs = [(cost, mapping) for mapping in mappings if (cost := self._cost(mapping)) is not None]
        return min(costs, key=lambda known: known[0], default=None)

    def value(self, choice: Choice) -> int | None:
        """Its cost."""
        best = self.best(choice)
        return None if best is None else best[0]

    def is_settled(self, choice: Choice) -> bool:
        """Whether a solve under a choice would tell nothing new. Out of time under a wider choice, and with a mapping
        that is of this one, too, it would not, unless the choice is whole: then there is least to search.
        """
        if self.value(choice) == self.floor(choice) or choice in self.answers:
            return True
        return None in choice and any(
            covers(wider, choice) and self._has(answer, choice) for wider, answer in self.answers.items()
        )

    def constraints(self, choice: Choice) -> Constraints | None:
        """Its own and the choice's; None if they contradict each other."""
        return constrained(self.own, self.decisions, choice)

    def answer(self, choice: Choice) -> SolvedLayer:
        """What is known under a choice that has a mapping, as a solve would say it; checked and simulated.

        Raises:
            Disagreement: the mapping is illegal, or some exact figure was predicted wrongly.
        """
        best = self.best(choice)
        assert best is not None
        mapping, prediction = best[1], predict(self.layer, self.arch, best[1])
        return SolvedLayer.known(
            (mapping, prediction),
            self.floor(choice) or 0,
            simulated=verify(self.layer, self.arch, mapping, prediction),
            **self._asked(self.constraints(choice) or self.own),
        )

    def unanswered(self) -> SolvedLayer:
        """No mapping, after all the time that was spent; whether there is none at all, even with choices of its own."""
        has_none = self.floor((None,) * len(self.decisions)) is None
        return SolvedLayer(status=Status.INFEASIBLE if has_none else Status.UNKNOWN, **self._asked(self.own))

    def _asked(self, constraints: Constraints) -> dict[str, Any]:
        """The fields of an answer that say what it is of, and how long it took."""
        return {
            "workload": self.layer,
            "arch": self.arch,
            "objective": self.objective,
            "constraints": constraints,
            "solve_seconds": sum(answer.solve_seconds for answer in self.answers.values()),
        }

    def _screen(self, choice: Choice) -> int | None:
        """What a look at the factors tells; axis orders do not matter to it."""
        constraints = self.constraints(choice)
        if constraints is None:
            return None
        constraints = attrs.evolve(constraints, layout=self.own.layout)
        if constraints not in self._screened:
            self._screened[constraints] = least_cost(self.layer, self.arch, self.objective, constraints)
        return self._screened[constraints]

    def _has(self, answer: SolvedLayer, choice: Choice) -> bool:
        """Whether an answer's mapping is of a choice as it is."""
        return answer.mapping is not None and self._changed(answer, choice) == answer.mapping

    def _changed(self, answer: SolvedLayer, choice: Choice) -> Mapping:
        assert answer.mapping is not None
        return changed(answer.mapping, self.layer, self.decisions, choice)

    def _cost(self, mapping: Mapping) -> int | None:
        """What a mapping costs; None if it is illegal or breaks the layer's own constraints."""
        if mapping not in self._costs:
            is_legal = not check_mapping(self.layer, self.arch, mapping) and not check_constraints(mapping, self.own)
            self._costs[mapping] = self._exact_cost(mapping) if is_legal else None
        return self._costs[mapping]

    def _exact_cost(self, mapping: Mapping) -> int:
        figures = predict(self.layer, self.arch, mapping).figures
        return self.objective.value(figures.latency_cycles, figures.energy_fj)


def bound_of(answer: SolvedLayer) -> int | None:
    """An integer bound of an answer, None if there is no mapping."""
    return None if answer.status is Status.INFEASIBLE else answer.least_cost or 0
