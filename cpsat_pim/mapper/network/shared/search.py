"""The search for the choice that is best for the sum of all layers.

A partial choice fixes some decisions for all layers and leaves the others to each. The sum of what layers cost at least
under it bounds all choices that complete it. Best first, a partial choice is taken: its layers are solved under it, as
far as it is not known already what they cost; if they agree on the decisions left, or their mappings can be changed to
agree at no cost, that is the best choice of these. If not, one decision more is fixed, each way.
"""

import heapq
import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Sequence

from cpsat_pim.mapper.network.shared.decisions import Choice, with_value
from cpsat_pim.mapper.network.shared.part import Part
from cpsat_pim.mapper.result import SolvedLayer, Status

#: Solves some parts under a choice and leaves the answers with them; a part without one was not begun.
Solve = Callable[[Sequence[Part], Choice], None]


class SharedSearch:
    """Best-first search over partial choices; `jobs` parts may be solved at once.

    `total`, `choice`: the least sum known, in the objective's integers, and its whole choice.
    """

    def __init__(self, parts: Sequence[Part], solve: Solve, is_over: Callable[[], bool], jobs: int = 1) -> None:
        self.parts = parts
        self._solve, self._is_over, self._jobs = solve, is_over, jobs
        self._values = [decision.values(parts[0].arch) for decision in parts[0].decisions]
        #: What nothing but the machine has fixed.
        self.free: Choice = tuple(values[0] if len(values) == 1 else None for values in self._values)
        self.choice: Choice | None = None
        self.total: int | None = None
        self._open: list[tuple[int, int, Choice]] = []
        self._numbers = itertools.count()
        self._unproven: list[int] = []

    @property
    def bound(self) -> int | None:
        """No choice has a lower sum; None if none suits all parts."""
        total = [] if self.total is None else [self.total]
        return min([*total, *self._unproven, *(floor for floor, _, _ in self._open)], default=None)

    @property
    def status(self) -> Status:
        """As of a solve."""
        if self.total is None:
            return Status.INFEASIBLE if self.bound is None else Status.UNKNOWN
        return Status.OPTIMAL if self.bound == self.total else Status.FEASIBLE

    def run(self) -> None:
        """Begin with a choice that is likely to be good; then pursue what has the lowest bound."""
        self._solve(self.parts, self.free)
        if not all(part.answers for part in self.parts):
            self._unproven.append(0)  # stopped before anything is known
            return
        self._add(self.free, 0)
        self._try(self._agreed(self.free))
        self._climb()
        while self._open and not self._is_over():
            floor, _, choice = heapq.heappop(self._open)
            if self.total is not None and floor >= self.total:
                return
            for further in self._pursue(choice, floor):
                self._add(further, floor)

    def _climb(self) -> None:
        """Change single decisions of the best choice, as long as that helps: little is left to search in whole ones."""
        before = None
        while self.choice and self.total != before:
            before = self.total
            for whole in sorted(self._neighbours(self.choice), key=lambda whole: self._floor(whole) or 0):
                if self.total == before:
                    self._try(whole)

    def _neighbours(self, whole: Choice) -> Iterator[Choice]:
        """The choices that differ in one decision."""
        for i, values in enumerate(self._values):
            yield from (with_value(whole, i, value) for value in values if value != whole[i])

    def _pursue(self, choice: Choice, floor: int) -> Sequence[Choice]:
        """What is to be pursued instead of a choice: itself, when more is known of it; its two halves; nothing."""
        known = self._floor(choice)
        if known is None or known > floor:
            return [choice]
        if (narrower := self._forced(choice)) != choice:
            return [narrower]
        if unsettled := self._unsettled(choice):
            self._solve(unsettled[: self._jobs], choice)
            return [choice]
        total = self._try(self._agreed(choice))
        if total is not None and total <= floor:
            return []
        if None not in choice:
            self._unproven.append(floor)  # only longer solves would tell more
            return []
        return self._halves(choice)

    def _try(self, whole: Choice) -> int | None:
        """The sum under a whole choice, kept if it is the least; solved as long as it may be."""
        while (unsettled := self._unsettled(whole)) and self._may_win(whole) and not self._is_over():
            self._solve(unsettled[: self._jobs], whole)
        total = self.sum_of_best(whole)
        if total is not None and (self.total is None or total < self.total):
            self.total, self.choice = total, whole
        return total

    def _may_win(self, choice: Choice) -> bool:
        floor = self._floor(choice)
        return floor is not None and (self.total is None or floor < self.total)

    def _unsettled(self, choice: Choice) -> list[Part]:
        """The parts that may cost more under a choice than is known, those with most to learn first."""

        def unknown(part: Part) -> int:
            return part.count * ((part.value(choice) or 2 * (part.floor(choice) or 0)) - (part.floor(choice) or 0))

        return sorted((part for part in self.parts if not part.is_settled(choice)), key=unknown, reverse=True)

    def _add(self, choice: Choice, floor: int) -> None:
        """Keep for later, unless it suits some part not at all."""
        known = self._floor(choice)
        if known is not None:
            heapq.heappush(self._open, (max(known, floor), next(self._numbers), choice))

    def answer(self, part: Part) -> SolvedLayer:
        """A part's under the choice found.

        Raises:
            Disagreement: the mapping is illegal, or some exact figure was predicted wrongly.
        """
        return part.unanswered() if self.choice is None else part.answer(self.choice)

    # Sums

    def _floor(self, choice: Choice) -> int | None:
        return _sum((part.count, part.floor(choice)) for part in self.parts)

    def sum_of_best(self, choice: Choice) -> int | None:
        """Of what is known of the parts by themselves under a choice."""
        return _sum((part.count, part.value(choice)) for part in self.parts)

    # Decisions

    def _agreed(self, choice: Choice) -> Choice:
        """A whole choice: each decision as it costs least by itself."""
        return tuple(self._cheapest(choice, i) if fixed is None else fixed for i, fixed in enumerate(choice))

    def _cheapest(self, choice: Choice, i: int) -> int:
        return min(self._values[i], key=lambda value: self._regret(choice, i, value))

    def _forced(self, choice: Choice) -> Choice:
        """The choice with the decisions that can go but one way, as the other one cannot be better than the best."""
        for i, fixed in enumerate(choice):
            if fixed is None and self.total is not None:
                values = [value for value in self._values[i] if self._rise(choice, i, value) is not None]
                choice = with_value(choice, i, values[0]) if len(values) == 1 else choice
        return choice

    def _halves(self, choice: Choice) -> list[Choice]:
        """The two ways to fix the decision that raises the bounds most, or else is likely to."""

        def worth(i: int) -> tuple[int, int]:
            rises = [self._rise(choice, i, value) for value in self._values[i]]
            least_regret = min(self._regret(choice, i, value) for value in self._values[i])
            return math.prod(1 + (self.total or 0 if rise is None else rise) for rise in rises), least_regret

        i = max((i for i, fixed in enumerate(choice) if fixed is None), key=worth)
        return [with_value(choice, i, value) for value in self._values[i]]

    def _rise(self, choice: Choice, i: int, value: int) -> int | None:
        """By how much a decision raises the bound, as far as is known before solving; None if that rules it out."""
        fixed, terms = with_value(choice, i, value), []
        for part in self.parts:
            is_kept = part.value(choice) is not None and part.value(choice) == part.value(fixed)
            terms.append((part.count, part.floor(choice if is_kept else fixed)))
        before, after = self._floor(choice), _sum(terms)
        if before is None or after is None or (self.total is not None and after >= self.total):
            return None
        return after - before

    def _regret(self, choice: Choice, i: int, value: int) -> int:
        """What a decision is likely to add to the sum: so much do the mappings known cost more if they are changed."""
        fixed, regret = with_value(choice, i, value), 0
        for part in self.parts:
            before, after = part.value(choice), part.value(fixed)
            if before is not None:
                regret += part.count * (before if after is None else after - before)
        return regret


def _sum(terms: Iterable[tuple[int, int | None]]) -> int | None:
    """The sum of so many times so much; None if some term has no value."""
    total = 0
    for count, value in terms:
        if value is None:
            return None
        total += count * value
    return total
