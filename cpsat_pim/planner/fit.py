"""Plans that fit the nodes' DRAM: a price for bytes of weights, and the bound that it proves.

The first node of the array holds the largest part of all weights, and at most its capacity less what tensors at home
take there. So for any price of a byte, the least of cost + price x bytes on it, less the price of that room, bounds
every plan that fits from below (Lagrangian relaxation; Geoffrion 1974). Prices are raised until the plan that is best
at the price fits; the smallest such price is bisected. The bound ignores what steps stage, and which homes a plan has,
which only weakens it; whether a plan fits is judged with both.
"""

from collections.abc import Callable

from attrs import define, frozen

from cpsat_pim.planner.eliminate import INFINITE
from cpsat_pim.planner.evaluate import PlanCost
from cpsat_pim.planner.instance import Choice
from cpsat_pim.planner.plan import Plan
from cpsat_pim.planner.weighing import Price


@frozen(kw_only=True)
class PriceSearch:
    """How finely prices are searched.

    `scale`: parts of a cycle (a femtojoule) in which the price of a byte is an integer; one flit of 64 bytes takes a
    cycle, so prices below 1/64 cycle a byte matter.
    `doublings`: prices that are tried before a capacity is called too small.
    `bisections`: steps towards the smallest price whose plan fits; each is an elimination.
    """

    scale: int = 2**12
    doublings: int = 24
    bisections: int = 8


@define(kw_only=True, eq=False)
class Fit:
    """The best plan that fits, its cost and value; what bounds all that fit; the prices at which both were found.

    `least_peak_bytes`: of the fullest node of the smallest plan that was evaluated.
    """

    plan: Plan | None = None
    cost: PlanCost | None = None
    value: int = INFINITE
    bound: int = 0
    price: Price | None = None
    bound_price: Price | None = None
    least_peak_bytes: int = INFINITE


class Fitting:
    """Searches the price of a byte.

    `minimize(upper, price)`, `plan(optimum, price)` and `evaluate(plan)` are those of the search; `room_bytes`: the
    capacity of a node, `weight_bytes`: what weights may take of it on the first node. `is_over()`: whether time is up.
    `is_allowed(plan)`: whether it keeps to constraints that prices do not know.
    """

    def __init__(
        self,
        minimize: Callable[[bool, Price], Choice],
        plan: Callable[[Choice, Price], Plan],
        evaluate: Callable[[Plan], tuple[PlanCost, int]],
        room_bytes: int,
        weight_bytes: int,
        parameters: PriceSearch | None = None,
        is_over: Callable[[], bool] = lambda: False,
        is_allowed: Callable[[Plan], bool] = lambda plan: True,
    ) -> None:
        self._minimize, self._plan, self._evaluate = minimize, plan, evaluate
        self._room_bytes, self._weight_bytes = room_bytes, weight_bytes
        self._parameters = parameters or PriceSearch()
        self._is_over, self._is_allowed = is_over, is_allowed
        self.best = Fit()

    def run(self) -> Fit:
        """Find a price whose plan fits, then lower it as far as one does: by powers of two, then in equal steps."""
        power = self._some_power_that_fits()
        if power is None:
            self._raise_price_with_bound()
            return self.best
        power = self._lowered(-1, power, power, lambda one: 1 << one)
        high = self._lowered((1 << power) // 2, 1 << power, self._parameters.bisections, int)
        for price in (high, high - 1):
            if not self._is_over():
                self.raise_bound(self._price(price))
        return self.best

    def _raise_price_with_bound(self) -> None:
        """Double the price until the bound falls: it is concave in the price."""
        for power in range(self._parameters.doublings):
            price = self._price(1 << power)
            if self._is_over() or self._bound(self.raise_bound(price), price) < self.best.bound:
                return

    def _lowered(self, low: int, high: int, steps: int, price: Callable[[int], int]) -> int:
        """Bisect between what does not fit and what does; return the least that was found to."""
        for _ in range(steps):
            middle = (low + high) // 2
            if middle in (low, high) or self._is_over():
                break
            low, high = (low, middle) if self._fits(price(middle)) else (middle, high)
        return high

    def raise_bound(self, price: Price) -> Choice:
        """What a price proves; the optimum that it was proven with."""
        lower = self._minimize(False, price)
        bound = self._bound(lower, price)
        if bound > self.best.bound or self.best.bound_price is None:
            self.best.bound, self.best.bound_price = max(bound, self.best.bound), price
        return lower

    def _bound(self, lower: Choice, price: Price) -> int:
        """No plan that fits costs less, by the optimum at a price."""
        return -((price.per_byte * self._weight_bytes - lower.cost) // price.scale)

    @property
    def highest_price(self) -> Price:
        """Where bytes matter more than all else."""
        return self._price(2**self._parameters.doublings)

    def _price(self, per_byte: int) -> Price:
        return Price(scale=self._parameters.scale, per_byte=max(1, per_byte))

    def _some_power_that_fits(self) -> int | None:
        """Return a power of two whose plan fits: the highest, or else the lowest, as what is not held is staged."""
        highest = self._parameters.doublings
        powers: list[int] = [highest, *range(highest)]
        for power in powers:
            if self._fits(1 << power):
                return power
            if self._is_over():
                break
        return None

    def _fits(self, per_byte: int) -> bool:
        """Whether the best plan at a price fits; the best one that does is kept."""
        price = self._price(per_byte)
        upper = self._minimize(True, price)
        if upper.cost >= INFINITE:
            return False
        plan = self._plan(upper, price)
        cost, value = self._evaluate(plan)
        self.best.least_peak_bytes = min(self.best.least_peak_bytes, cost.peak_bytes)
        if cost.peak_bytes > self._room_bytes:
            return False
        if value < self.best.value and self._is_allowed(plan):
            self.best.plan, self.best.cost, self.best.value, self.best.price = plan, cost, value, price
        return True
