"""Tightening of what an optimum over lower bounds uses: data movement that was not computed, bounds, node problems."""

import math
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from attrs import field, frozen

from cpsat_pim.planner.instance import Use
from cpsat_pim.planner.labels.reduced import OptionUse
from cpsat_pim.planner.nodes import HIGHEST, NodeCost, NodeCosts, NodeProblem, Useful, highest
from cpsat_pim.planner.nodes.requests import solve_seconds
from cpsat_pim.planner.partition import Partition
from cpsat_pim.planner.solved import SearchLimits
from cpsat_pim.planner.usefulness import Usefulness
from cpsat_pim.planner.weighing import FREE_BYTES, Price

#: Seconds that find most problems a mapping that is hardly improved later. Measured: of 16 parts of GoogLeNet on 4x8
#: nodes mappings cost 42 % more after 1 s than after 4 s, and 0.1 % more after 2 s.
BRIEF_SECONDS = 2.0


@frozen(kw_only=True, eq=False)
class Tightening:
    """Narrows bounds, cheapest ways first.

    `until`: the time at which solves end; `is_over()`: whether the search is. `is_paused()`: whether it is,
    or something else comes before bounds are refined. `slack()`: by so much the optimum over lower bounds may rise
    before it is no better than the best plan, None if none is known. `factor`: how often the cost of a node program
    counts in a plan's. `then_energy()`: whether energies count.
    """

    costs: NodeCosts
    limits: SearchLimits
    until: float
    is_over: Callable[[], bool]
    is_paused: Callable[[], bool]
    slack: Callable[[], int | None]
    factor: int
    then_energy: Callable[[], bool]
    #: What was known of problems, in their layouts and in any, before solves that narrowed nothing.
    fruitless: dict[NodeProblem, tuple[NodeCost | None, NodeCost | None]] = field(init=False, factory=dict)

    def look_at(self, best: list[tuple[Use, tuple[Partition, NodeProblem] | None]], price: Price) -> int:
        """Compute more partitions where an optimum uses ones that were not; return for how many layers."""
        unseen = {id(use[0]): use[0] for use, found in best if found is None}
        for options in unseen.values():
            options.look_at(self.limits.batch, self.is_paused, price)
        return len(unseen)

    def refine(self, best: list[tuple[Use, tuple[Partition, NodeProblem] | None]], price: Price) -> int:
        """Refine bounds that an optimum uses: first in any layouts, then in those of its homes. Return how many.

        Before, the option that may be the best one at these homes gets a mapping: what it costs is the limit up to
        which bounds of others matter there. Of each layer's options the best one is refined, so that the next optimum
        tells which ones matter; several jobs refine as many.
        """
        uses = [use for use, found in best if found is not None]
        likeliest = [Usefulness(*use).likeliest() for use in uses]
        self.costs.construct((problem for problem in likeliest if problem is not None), self.is_paused)
        used = [Usefulness(*use, self.slack(), price) for use in uses]
        unrefined = highest(asked for one in used for asked in one.unrefined(self.costs.jobs).items())
        refined = self.costs.refine_all(unrefined, self.is_paused)
        untied = highest(asked for one in used for asked in one.untied().items())
        return refined or self.costs.refine_all(untied, self.is_paused, tied=True)

    def find_mappings(self, layers: Mapping[NodeProblem, int], until: float) -> int:
        """Solve briefly some node problems of a plan that were not solved, up to the time `until`.

        These are the ones whose gaps cost it most in all layers that use them. Return of how many more is known then.
        """
        known = {problem: cost for problem in layers if (cost := self.costs.cost(problem)) is not None}
        gaps = {
            problem: layers[problem] * (cost.gap if cost.is_solved else cost.least)
            for problem, cost in known.items()
            if not (cost.seconds or cost.is_proven)
        }
        if not gaps or self.is_over() or time.monotonic() >= until:
            return 0
        chosen = sorted(gaps, key=lambda problem: gaps[problem], reverse=True)[: self.limits.mapped]
        self.costs.solve_briefly(chosen, BRIEF_SECONDS, until)
        return sum(self.costs.cost(problem) != known[problem] for problem in chosen)

    def _is_refined(self, problem: NodeProblem) -> bool:
        known = self.costs.cost(problem)
        return known is not None and known.is_refined

    def useful(self, best: list[tuple[Use, tuple[Partition, NodeProblem] | None]], price: Price) -> Useful:
        """Return of each node problem that an optimum uses the cost from which on it is of no use.

        At the same homes another option, which is solved, costs no more then: no plan needs this one there. At a price
        of bytes one that costs no more may take more room, so nothing is of no use. Where a solve left a wide gap, the
        option with the next bound comes first: it may be better, and then it is known up to which cost the wide one
        matters.
        """
        if price != FREE_BYTES:
            return dict.fromkeys((found[1] for _, found in best if found), HIGHEST)
        found: list[tuple[NodeProblem, int]] = []
        for (options, at), option in best:
            if option is not None:
                usefulness = Usefulness(options, at)
                below = usefulness.useful_below() + self.then_energy()  # at equal latency it may take less energy
                found.append((option[1], below))
                if self._is_wide(option[1]) and (other := usefulness.alternative()) is not None:
                    found.append(other)
        return highest(found)

    def _is_wide(self, problem: NodeProblem) -> bool:
        """Whether a problem was solved, and its bound is far below what its mapping costs."""
        known = self.costs.cost(problem)
        return (
            known is not None
            and known.value is not None
            and known.seconds > 0
            and not known.is_brief
            and known.gap > self.limits.wide_gap * known.value
        )

    def solve(self, problems: Useful, until: float = math.inf, layers: Mapping[NodeProblem, int] | None = None) -> int:
        """Solve the node problems of an optimum up to the costs that are of use; return how many bounds that narrowed.

        First those that have no mapping, then those whose gaps cost the plan most, then energies; the next ones where
        a solve narrows nothing. `layers`: how many
        layers use a problem; one if absent. Solves end at the time `until`, if that is before the search ends.
        """
        known = {problem: cost for problem in problems if (cost := self.costs.cost(problem)) is not None}
        left = {
            problem: cost
            for problem, cost in known.items()
            if not cost.is_proven and cost.least < problems[problem] and not self._is_fruitless(problem)
        }
        slack = self.slack()
        of_node = None if slack is None else -(-slack // self.factor)
        while left:
            chosen = [problem for problem, cost in left.items() if not cost.is_solved]
            chosen = chosen or self._most_promising(left, layers or {})
            before, solves = {problem: self._known(problem) for problem in chosen}, self.costs.solves
            self.costs.solve_all(chosen, of_node, min(until, self.until), problems)
            if narrowed := sum(self.costs.cost(problem) != known[problem] for problem in chosen):
                return narrowed
            if self.costs.solves > solves:
                self.fruitless.update(before)
            left = {problem: cost for problem, cost in left.items() if problem not in before}
        return self._solve_energies(known) if self.then_energy() else 0

    def _known(self, problem: NodeProblem) -> tuple[NodeCost | None, NodeCost | None]:
        """Return what is known of a problem, in its layouts and in any."""
        return self.costs.cost(problem), self.costs.cost(problem.relaxation)

    def _is_fruitless(self, problem: NodeProblem) -> bool:
        """Whether a solve narrowed nothing, and nothing has become known since it began."""
        return problem in self.fruitless and self.fruitless[problem] == self._known(problem)

    def _most_promising(
        self, left: Mapping[NodeProblem, NodeCost], layers: Mapping[NodeProblem, int]
    ) -> list[NodeProblem]:
        """Return the problems whose gaps, in all layers that use them, are widest for the seconds that their next
        solves may take: those with half of the widest or more.
        """
        rates = {
            problem: known.gap * layers.get(problem, 1) / solve_seconds(known, self.costs.time_limit)
            for problem, known in left.items()
        }
        widest = max(rates.values(), default=0)
        return [problem for problem, rate in rates.items() if 2 * rate >= widest]

    def _solve_energies(self, known: dict[NodeProblem, Any]) -> int:
        """Find the least energies of node programs of least latency; return how many bounds that narrowed."""
        plain = [problem for problem, cost in known.items() if not cost.least_energy_fj]
        for problem in plain:
            if not self.is_over():
                self.costs.refine_energy(problem)
        if not plain:
            self.costs.solve_energies(known, self.until)
        return sum(self.costs.cost(problem) != cost for problem, cost in known.items())

    def tighten_uses(self, uses: Sequence[OptionUse], price: Price) -> bool:
        """Tighten what is not exact of the options of a path, cheapest first; return whether anything was."""
        unseen: dict[int, list[OptionUse]] = {}
        for use in uses:
            if use.row >= use.options.seen:
                unseen.setdefault(id(use.options), []).append(use)
        problems = list(dict.fromkeys(use.options.option(use.row, 1, use.at)[1] for use in uses))
        for some in unseen.values():
            some[0].options.look_at(self.limits.batch, self.is_over, price, {use.row for use in some})
        plain = [problem for problem in problems if not self._is_refined(problem)]
        for problem in plain:
            if not self.is_over():
                self.costs.refine(problem)
        return bool(unseen or plain) or self.solve(dict.fromkeys(problems, HIGHEST)) > 0


def layers_of(
    uses: Counter[Use], best: Sequence[tuple[Use, tuple[Partition, NodeProblem] | None]]
) -> Counter[NodeProblem]:
    """Return how many layers use each node problem of an optimum."""
    found: Counter[NodeProblem] = Counter()
    for use, option in best:
        if option is not None:
            found[option[1]] += uses[use]
    return found
