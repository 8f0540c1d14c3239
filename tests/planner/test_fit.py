"""Prices of bytes, on problems whose plans are a list: what each costs and takes."""

from types import SimpleNamespace

from hypothesis import given
from hypothesis import strategies as st

from cpsat_pim.planner.eliminate import INFINITE
from cpsat_pim.planner.fit import Fitting, PriceSearch
from cpsat_pim.planner.weighing import Price

#: Plans (cost, bytes). The highest price of a byte is 2^24 / 2^12 = 4,096 cycles: sizes that differ differ by 256 bytes
#: or more, so that no difference of costs is worth as much.
PLANS = st.lists(
    st.tuples(st.integers(0, 10**6), st.integers(0, 4000).map(lambda pages: 256 * pages)), min_size=1, max_size=12
)


def fitting(plans, solved, room):
    """The search of a price; plans up to number `solved` have node programs."""

    def minimize(upper, price):
        known = plans[:solved] if upper else plans
        costs = [price.scale * cost + price.per_byte * size for cost, size in known]
        best = min(range(len(known)), key=costs.__getitem__, default=None)
        return SimpleNamespace(cost=INFINITE if best is None else costs[best], plan=best)

    def evaluate(plan):
        return SimpleNamespace(peak_bytes=plans[plan][1]), plans[plan][0]

    return Fitting(minimize, lambda choice, price: choice.plan, evaluate, room, room)


def bound_at(plans, room, per_byte):
    """What a price proves of all plans that fit, in whole cycles."""
    scale = PriceSearch().scale
    least = min(scale * cost + per_byte * size for cost, size in plans)
    return -((per_byte * room - least) // scale)


@given(PLANS, st.integers(0, 12), st.integers(0, 10**6))
def test_price_finds_a_plan_that_fits_and_a_bound(plans, solved, room):
    """The bound is below all plans that fit; if the smallest solved plan fits, one is found, and it fits."""
    fit = fitting(plans, solved, room).run()
    assert fit.bound <= min((cost for cost, size in plans if size <= room), default=INFINITE)
    smallest = min((size for _, size in plans[:solved]), default=INFINITE)
    assert (fit.plan is not None) == (smallest <= room)
    if fit.plan is not None:
        assert plans[fit.plan][1] <= room
        assert plans[fit.plan][0] == fit.value


@given(PLANS, st.integers(0, 10**6))
def test_without_a_plan_the_price_is_that_of_the_greatest_bound(plans, room):
    """Of all powers of two none proves more, as the bound is concave in the price."""
    fit = fitting(plans, 0, room).run()
    greatest = max(bound_at(plans, room, 2**power) for power in range(PriceSearch().doublings))
    assert fit.plan is None
    assert isinstance(fit.bound_price, Price)
    assert fit.bound == max(0, greatest)
    assert bound_at(plans, room, fit.bound_price.per_byte) == greatest or greatest <= 0
