"""Branch and bound against trying all machines, and its bounds of boxes against single machines."""

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cpsat_pim.tuner.analytic import AnalyticCost
from cpsat_pim.tuner.exact import ExactLimits, best_hardware
from cpsat_pim.tuner.run import exhaustive
from cpsat_pim.tuner.space import Axis, Box, HardwareSpace
from tests.tuner.small import BUFFER, small_space, small_task

SPACE = small_space()


def analytic(space: HardwareSpace, alpha: float = 1.0, beta: float = 1.0) -> AnalyticCost:
    """The analytic cost of the small task."""
    task = small_task(space, alpha, beta)
    floors = task.floors()
    return AnalyticCost(floors, task.cost(floors))


COST = analytic(SPACE)


@pytest.mark.parametrize("limit_mm2", [0.12, 0.3, 1.0, None])
@pytest.mark.parametrize("powers", [(1.0, 1.0), (0.0, 1.0), (1.0, 0.0), (1.0, 2.0)])
def test_optimum_is_that_of_trying_all(limit_mm2: float | None, powers: tuple[float, float]) -> None:
    """Same cost, and a proof: tight limits, loose ones, none; latency, energy, and products."""
    space = small_space(limit_mm2)
    cost = analytic(space, *powers)
    found, (design, least) = best_hardware(space, cost), exhaustive(space, cost)
    assert design is not None
    assert found.design is not None
    assert found.is_proven
    assert found.cost == pytest.approx(least, rel=1e-12)
    assert space.fits(found.design)


def test_other_numbers_of_a_machine_may_vary() -> None:
    """Timings, energies and a shared buffer's word: the optimum is that of trying all 72."""
    axes = [
        Axis(path="arch.dram_timings.tCCD_L", values=(1, 2, 4)),
        Axis(path="arch.hierarchy.DRAM.access_cost", values=(0.005, 0.01, 0.02)),
        Axis(path="arch.hierarchy.GLOBAL_BUFFER.word_bytes", values=(1, 2)),
        Axis(path=f"{BUFFER}.W", values=(512, 4096)),
        Axis(path="array.rows", values=(1, 2)),
    ]
    space = HardwareSpace(name="other", arch=SPACE.arch, axes=axes, area=SPACE.area)
    cost = analytic(space)
    found, (_, least) = best_hardware(space, cost), exhaustive(space, cost)
    assert found.is_proven
    assert found.cost == pytest.approx(least, rel=1e-12)


def test_space_without_a_machine_that_fits_has_no_optimum() -> None:
    """Not an error, and no cost."""
    found = best_hardware(small_space(0.001), COST)
    assert found.design is None
    assert found.gap == 0


def test_search_that_is_cut_has_a_bound_and_never_falls() -> None:
    """Bounds only rise, incumbents only fall, and the optimum lies between them."""
    cut = best_hardware(SPACE, COST, ExactLimits(time_limit=1e-6), known=SPACE.whole.low)
    proven = best_hardware(SPACE, COST)
    assert cut.bound <= proven.cost <= cut.cost
    for before, after in pairwise(proven.history):
        assert before[1] <= after[1]
        assert before[2] >= after[2]


@st.composite
def boxes_with_a_point(draw: st.DrawFn) -> tuple[Box, tuple[int, ...]]:
    """A box of the small space, and one of its designs."""
    low, high, point = [], [], []
    for axis in SPACE.axes:
        a, b, c = sorted(draw(st.integers(0, len(axis.values) - 1)) for _ in range(3))
        low.append(a)
        point.append(b)
        high.append(c)
    return Box(tuple(low), tuple(high)), tuple(point)


@settings(max_examples=150, deadline=None)
@given(boxes_with_a_point())
def test_bound_of_a_box_is_no_more_than_any_machine_of_it(given_: tuple[Box, tuple[int, ...]]) -> None:
    """Machines that are within the area, as the bound leaves others out."""
    box, point = given_
    shrunk = SPACE.within_area(box)
    if not SPACE.fits(point):
        return
    assert shrunk is not None
    assert shrunk.holds(point)
    assert COST.of_box(shrunk) <= COST.of_values(SPACE.values(point)) * (1 + 1e-12)


@settings(max_examples=100, deadline=None)
@given(boxes_with_a_point())
def test_area_propagation_keeps_all_that_fits(given_: tuple[Box, tuple[int, ...]]) -> None:
    """Nothing of the box that is left out fits, and its largest values fit beside the smallest others."""
    box, _ = given_
    shrunk = SPACE.within_area(box)
    assert (shrunk is None) == (not SPACE.fits(box.low))
    for axis in range(len(SPACE.axes)) if shrunk else ():
        top = (*box.low[:axis], shrunk.high[axis], *box.low[axis + 1 :])
        assert SPACE.fits(top)
        if shrunk.high[axis] < box.high[axis]:
            assert not SPACE.fits((*top[:axis], shrunk.high[axis] + 1, *top[axis + 1 :]))
