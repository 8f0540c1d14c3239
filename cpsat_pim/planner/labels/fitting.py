"""The best plan that fits the nodes' DRAM, with proof: trial values, label setting, and more resources where it fails.

A trial value between the bound and the best known value is either refuted by label setting, which raises the bound
(destructive lower bound; Klein and Scholl 1999), or gives the cheapest path. A path limits bytes only on some nodes at
some steps. If its plan exceeds the capacity elsewhere, the fullest nodes of these steps become resources, too.
"""

from collections.abc import Callable, Sequence

import numpy as np
from attrs import define, evolve, field, frozen

from cpsat_pim.planner.eliminate import INFINITE
from cpsat_pim.planner.evaluate import PlanCost
from cpsat_pim.planner.instance import Instance
from cpsat_pim.planner.labels.reduced import OptionUse, ReducedProblem
from cpsat_pim.planner.labels.setting import Found, LabelLimits, set_labels
from cpsat_pim.planner.labels.stages import Guide, LayoutLimit, Multipliers, StagedProblem
from cpsat_pim.planner.labels.usage import Spot, Usage, fullest_step
from cpsat_pim.planner.plan import Plan
from cpsat_pim.planner.weighing import Price

#: No trial value is larger: multiples of it by a price's scale stay below `INFINITE`.
_LARGEST_TRIAL = INFINITE // 2**14


@frozen(kw_only=True)
class TrialLimits:
    """`first_share`: the first trial value is the bound and so much of it; `factor`: by so much each refuted distance
    grows. `most_spots`: resources that are added at a time. `prices`: multipliers of a resource that are tried.
    `most_labels`: where labels were left out, four times as many are kept, up to so many.

    Small trials leave few options and labels.
    """

    first_share: float = 0.001
    factor: int = 3
    most_spots: int = 4
    prices: int = 8
    most_labels: int = 800_000
    labels: LabelLimits = field(factory=LabelLimits)


@define(kw_only=True, eq=False)
class LabelFitting:
    """Raises the bound and finds better plans until both meet.

    `price`: of a byte on the first node, by which options are dropped. `bound`, `value`: what is known of plans that
    fit. `tighten(uses, price)`: tightens what is not exact of the options of a path; whether anything was.
    `evaluate(plan)`: cost and value. `offer(plan, cost, value)`: takes a plan that fits.
    """

    instance: Instance
    price: Price
    bound: int
    value: int
    tighten: Callable[[Sequence[OptionUse], Price], bool]
    evaluate: Callable[[Plan], tuple[PlanCost, int]]
    offer: Callable[[Plan, PlanCost, int], None]
    is_over: Callable[[], bool]
    report: Callable[[str], None]
    limits: TrialLimits = field(factory=TrialLimits)
    spots: list[Spot] = field(init=False, factory=list)
    #: The price of a unit of each resource by which it bounds best, as far as was tried.
    _prices: dict[Spot, int] = field(init=False, factory=dict)
    _usage: Usage = field(init=False)
    _layouts: LayoutLimit | None = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._usage, self._layouts = Usage(instance=self.instance), _layout_limit(self.instance)
        self.spots.append(Spot(node=self.instance.first_node, step=fullest_step(self.instance, self._usage)))

    def run(self) -> None:
        """Refute trial values, or take plans, until the bound is the value; ends early if nothing can be tightened."""
        distance, limits = max(1, int(self.bound * self.limits.first_share)), self.limits.labels
        while self.bound < self.value and not self.is_over():
            trial = min(self.value - 1, self.bound + distance, _LARGEST_TRIAL)
            reduced = ReducedProblem(self.instance, self.price, trial, self.is_over)
            problem = reduced.staged(self.spots, self._usage)
            found = self._solved(problem, trial, limits)
            options = sum(map(len, problem.stages))
            self.report(f"trial {trial}: {options} options, {len(self.spots)} resources, bound {found.bound}")
            self.bound = max(self.bound, found.bound)
            is_new = False
            if found.path is not None:
                if self.tighten(reduced.uses(found.path), self.price):
                    continue
                is_new = self._take(reduced.plan(found.path))
            if not found.is_complete:
                if self._is_at_limit(limits):
                    return
                limits = evolve(limits, most_labels=4 * limits.most_labels)
            elif found.path is None:
                self.bound = self.bound if trial < _LARGEST_TRIAL else INFINITE
                distance *= self.limits.factor
            elif not is_new:
                return

    def _solved(self, problem: StagedProblem, trial: int, limits: LabelLimits) -> Found:
        """Set labels, or solve a model: where tensors are coupled, or where too many labels were left out."""
        from cpsat_pim.planner.labels.model import solve_model  # the solver is imported by whoever solves

        if self._layouts is None:
            found = set_labels(problem, self._guides(problem), trial, limits, self.is_over)
            if found.is_complete or not self._is_at_limit(limits) or self.is_over():
                return found
        return solve_model(problem, trial, self._layouts, self.is_over)

    def _is_at_limit(self, limits: LabelLimits) -> bool:
        """Whether no more labels may be kept; a model has none."""
        return self._layouts is not None or limits.most_labels >= self.limits.most_labels

    def _take(self, plan: Plan) -> bool:
        """Offer a plan if it fits, else limit bytes where it does not; return whether anything is new."""
        cost, value = self.evaluate(plan)
        full = np.argwhere(cost.used_bytes == cost.used_bytes.max(axis=1)[:, None])
        steps = {int(step): int(node) for step, node in full[::-1]}  # the first of the fullest nodes
        worst = sorted(steps, key=lambda step: -int(cost.used_bytes[step].max()))
        over = [s for s in worst if cost.used_bytes[s].max() > self.instance.array.capacity_bytes]
        if not over:
            is_better = value < self.value
            if is_better:
                self.value = value
                self.offer(plan, cost, value)
            return is_better
        more = [Spot(node=steps[step], step=step) for step in over]
        more = [spot for spot in more if spot not in self.spots]
        self.spots += more[: self.limits.most_spots]
        return bool(more)

    def _guides(self, problem: StagedProblem) -> list[Guide]:
        """Return for each resource the multiplier that bounds best, by itself."""
        return [self._guide(problem, at, spot) for at, spot in enumerate(self.spots)]

    def _guide(self, problem: StagedProblem, at: int, spot: Spot) -> Guide:
        """Return the best of some multipliers of a resource: prices are doubled or halved while that helps."""
        per_unit = self._prices.get(spot, max(1, self.price.per_byte))
        best, bound = self._at_price(problem, at, per_unit)
        tries = self.limits.prices
        for up, down in ((2, 1), (1, 2), (5, 4), (4, 5)):
            while tries > 0:
                tries -= 1
                new = per_unit * up // down
                other, higher = self._at_price(problem, at, new)
                if higher <= bound or new == per_unit:
                    break
                best, bound, per_unit = other, higher, new
        self._prices[spot] = per_unit
        return best

    def _at_price(self, problem: StagedProblem, at: int, per_unit: int) -> tuple[Guide, int]:
        prices = np.zeros(len(problem.capacity), dtype=np.int64)
        prices[at] = per_unit
        by = Multipliers(scale=self.price.scale, per_unit=prices)
        completions = problem.completions(by)
        return Guide(multipliers=by, completions=completions), problem.bound(by, completions)


def _layout_limit(instance: Instance) -> LayoutLimit | None:
    """Return how many layouts tensors may have, if that is limited."""
    most = instance.space.constraints.most_layouts
    if most is None:
        return None
    layouts = {name: [home.layout for home in homes] for name, homes in instance.homes.items()}
    return LayoutLimit(most=most, layouts=layouts)
