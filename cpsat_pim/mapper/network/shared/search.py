"""The search for the choice of least sum over all layers, by branch and bound.

A partial choice fixes some decisions for all layers and leaves the others to each layer. The sum of the layers' lower
bounds under it is a lower bound of all choices that complete it. The partial choice of least bound is taken first: its
layers are solved under it, unless their costs are known. If their mappings agree on the decisions left, or can be
changed to agree at no cost, that is the best choice of these. If not, one more decision is fixed, either way.
"""

import heapq
import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Sequence

from cpsat_pim.mapper.network.shared.decisions import Choice, with_value
from cpsat_pim.mapper.network.shared.layer import SharedLayer
from cpsat_pim.mapper.result import SolvedLayer, Status

#: Solves some layers under a choice and leaves the results with them; a layer without one was not begun.
Solve = Callable[[Sequence[SharedLayer], Choice], None]


class SharedSearch:
    """Best-first branch and bound over partial choices; `jobs` layers may be solved at once.

    `total`, `choice`: the least known sum, in the objective's integers, and its whole choice.
    """

    def __init__(self, layers: Sequence[SharedLayer], solve: Solve, is_over: Callable[[], bool], jobs: int = 1) -> None:
        self.layers = layers
        self._solve, self._is_over, self._jobs = solve, is_over, jobs
        self._values = [decision.values(layers[0].arch) for decision in layers[0].decisions]
        #: The choice that fixes only what the machine fixes.
        self.free: Choice = tuple(values[0] if len(values) == 1 else None for values in self._values)
        self.choice: Choice | None = None
        self.total: int | None = None
        self._open: list[tuple[int, int, Choice]] = []
        self._numbers = itertools.count()
        self._unproven: list[int] = []

    @property
    def bound(self) -> int | None:
        """No choice has a lower sum; None if no choice has a mapping for every layer."""
        total = [] if self.total is None else [self.total]
        return min([*total, *self._unproven, *(bound for bound, _, _ in self._open)], default=None)

    @property
    def status(self) -> Status:
        """The status of the shared choice, as that of a solve."""
        if self.total is None:
            return Status.INFEASIBLE if self.bound is None else Status.UNKNOWN
        return Status.OPTIMAL if self.bound == self.total else Status.FEASIBLE

    def run(self) -> None:
        """Begin with a choice that is likely to be good; then branch on the partial choice of least bound."""
        self._solve(self.layers, self.free)
        if not all(layer.results for layer in self.layers):
            self._unproven.append(0)  # stopped before anything is known
            return
        self._add(self.free, 0)
        self._try(self._agreed(self.free))
        self._improve()
        while self._open and not self._is_over():
            bound, _, choice = heapq.heappop(self._open)
            if self.total is not None and bound >= self.total:
                return
            for further in self._branches(choice, bound):
                self._add(further, bound)

    def _improve(self) -> None:
        """Change single decisions of the best choice, as long as that helps (local search): solves under whole choices
        are short.
        """
        before = None
        while self.choice and self.total != before:
            before = self.total
            for whole in sorted(self._neighbours(self.choice), key=lambda whole: self._lower_bound(whole) or 0):
                if self.total == before:
                    self._try(whole)

    def _neighbours(self, whole: Choice) -> Iterator[Choice]:
        """Yield the choices that differ in one decision."""
        for i, values in enumerate(self._values):
            yield from (with_value(whole, i, value) for value in values if value != whole[i])

    def _branches(self, choice: Choice, bound: int) -> Sequence[Choice]:
        """Return the choices to search in place of one: itself once its bound is higher; its two halves; nothing."""
        known = self._lower_bound(choice)
        if known is None or known > bound:
            return [choice]
        if (narrower := self._forced(choice)) != choice:
            return [narrower]
        if open_layers := self._open_layers(choice):
            self._solve(open_layers[: self._jobs], choice)
            return [choice]
        total = self._try(self._agreed(choice))
        if total is not None and total <= bound:
            return []
        if None not in choice:
            self._unproven.append(bound)  # only longer solves could raise it
            return []
        return self._halves(choice)

    def _try(self, whole: Choice) -> int | None:
        """Return the sum under a whole choice, solving its layers while it may be the least; keep it if it is."""
        while (open_layers := self._open_layers(whole)) and self._may_win(whole) and not self._is_over():
            self._solve(open_layers[: self._jobs], whole)
        total = self.sum_of_best(whole)
        if total is not None and (self.total is None or total < self.total):
            self.total, self.choice = total, whole
        return total

    def _may_win(self, choice: Choice) -> bool:
        bound = self._lower_bound(choice)
        return bound is not None and (self.total is None or bound < self.total)

    def _open_layers(self, choice: Choice) -> list[SharedLayer]:
        """Return the layers whose cost under a choice is open, those of widest gap first."""

        def gap(layer: SharedLayer) -> int:
            bound = layer.lower_bound(choice) or 0
            return layer.count * ((layer.value(choice) or 2 * bound) - bound)

        return sorted((layer for layer in self.layers if not layer.is_closed(choice)), key=gap, reverse=True)

    def _add(self, choice: Choice, bound: int) -> None:
        """Keep a choice for later, unless some layer has no mapping under it."""
        known = self._lower_bound(choice)
        if known is not None:
            heapq.heappush(self._open, (max(known, bound), next(self._numbers), choice))

    def result(self, layer: SharedLayer) -> SolvedLayer:
        """Return a layer's result under the choice found.

        Raises:
            Disagreement: the mapping is illegal, or some exact figure was predicted wrongly.
        """
        return layer.result_without_mapping() if self.choice is None else layer.result(self.choice)

    # --- Sums --------------------------------------------------------------------------------------------------------

    def _lower_bound(self, choice: Choice) -> int | None:
        return _sum((layer.count, layer.lower_bound(choice)) for layer in self.layers)

    def sum_of_best(self, choice: Choice) -> int | None:
        """Return the sum of the layers' best known costs under a choice; None if one has no mapping yet."""
        return _sum((layer.count, layer.value(choice)) for layer in self.layers)

    # --- Decisions ---------------------------------------------------------------------------------------------------

    def _agreed(self, choice: Choice) -> Choice:
        """Return a whole choice: each open decision the way that costs least by itself."""
        return tuple(self._cheapest(choice, i) if fixed is None else fixed for i, fixed in enumerate(choice))

    def _cheapest(self, choice: Choice, i: int) -> int:
        return min(self._values[i], key=lambda value: self._regret(choice, i, value))

    def _forced(self, choice: Choice) -> Choice:
        """Return a choice with all decisions fixed of which one way cannot beat the least known sum."""
        for i, fixed in enumerate(choice):
            if fixed is None and self.total is not None:
                values = [value for value in self._values[i] if self._rise(choice, i, value) is not None]
                choice = with_value(choice, i, values[0]) if len(values) == 1 else choice
        return choice

    def _halves(self, choice: Choice) -> list[Choice]:
        """Return the two ways to fix the decision that raises the bounds most, or else is likely to."""

        def worth(i: int) -> tuple[int, int]:
            rises = [self._rise(choice, i, value) for value in self._values[i]]
            least_regret = min(self._regret(choice, i, value) for value in self._values[i])
            return math.prod(1 + (self.total or 0 if rise is None else rise) for rise in rises), least_regret

        i = max((i for i, fixed in enumerate(choice) if fixed is None), key=worth)
        return [with_value(choice, i, value) for value in self._values[i]]

    def _rise(self, choice: Choice, i: int, value: int) -> int | None:
        """Return by how much a decision raises the bound without a solve; None if it cannot beat the least sum then."""
        fixed, terms = with_value(choice, i, value), []
        for layer in self.layers:
            is_kept = layer.value(choice) is not None and layer.value(choice) == layer.value(fixed)
            terms.append((layer.count, layer.lower_bound(choice if is_kept else fixed)))
        before, after = self._lower_bound(choice), _sum(terms)
        if before is None or after is None or (self.total is not None and after >= self.total):
            return None
        return after - before

    def _regret(self, choice: Choice, i: int, value: int) -> int:
        """Return by how much the known mappings cost more if a decision is changed: an estimate of what it adds."""
        fixed, regret = with_value(choice, i, value), 0
        for layer in self.layers:
            before, after = layer.value(choice), layer.value(fixed)
            if before is not None:
                regret += layer.count * (before if after is None else after - before)
        return regret


def _sum(terms: Iterable[tuple[int, int | None]]) -> int | None:
    """Return the sum of (count, value) products; None if some value is None."""
    total = 0
    for count, value in terms:
        if value is None:
            return None
        total += count * value
    return total
