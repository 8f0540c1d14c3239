"""The front and the least product of finite sets of costs are those that comparing all of them gives."""

import math
import re
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cpsat_pim.arch import PIMArchitecture
from cpsat_pim.mapping import Mapping
from cpsat_pim.pareto import Front, LayerSolves, Solve, front, least_edp
from cpsat_pim.result import Budget, Objective, SolvedLayer, Status
from cpsat_pim.workload import ConvWorkload
from tests.report.results import solved_layer

Cost = tuple[int, int]

costs = st.lists(st.tuples(st.integers(1, 60), st.integers(1, 10**6)), min_size=1, max_size=40)
SOLVED = solved_layer()


def answer(objective: Objective, cost: Cost | None, bound: int | None, status: Status) -> SolvedLayer:
    """A solve's answer whose mapping has a cost, or that has none."""
    if cost is None or SOLVED.prediction is None:
        nothing = {"mapping": None, "prediction": None, "simulated": None}
        return attrs.evolve(SOLVED, objective=objective, status=status, bound=bound, **nothing)
    figures = attrs.evolve(SOLVED.prediction.figures, latency_cycles=cost[0], energy_fj=cost[1])
    prediction = attrs.evolve(SOLVED.prediction, figures=figures)
    return attrs.evolve(SOLVED, objective=objective, status=status, bound=bound, prediction=prediction)


class Finite:
    """Solves over a finite space, by trying all of it. The `unlucky` ones, by number, run out of time: they answer with
    the worst of the space, if with any.
    """

    def __init__(self, space: Sequence[Cost], unlucky: dict[int, Status] | None = None) -> None:
        self.space, self.unlucky, self.count = space, unlucky or {}, 0

    def __call__(self, objective: Objective, budget: Budget, start: Mapping | None) -> SolvedLayer:
        """Try all."""
        ranked = sorted((objective.value(*cost), cost) for cost in self.space if budget.allows(*cost))
        status = self.unlucky.get(self.count, Status.OPTIMAL) if ranked else Status.INFEASIBLE
        self.count += 1
        if status in (Status.INFEASIBLE, Status.UNKNOWN):
            return answer(objective, None, None if status is Status.INFEASIBLE else ranked[0][0] // 2, status)
        if status is Status.OPTIMAL or ranked[-1][0] == ranked[0][0]:
            return answer(objective, ranked[0][1], ranked[0][0], Status.OPTIMAL)
        return answer(objective, ranked[-1][1], ranked[0][0] * 3 // 4, status)


def undominated(space: Sequence[Cost]) -> list[Cost]:
    """By comparing each with each."""
    return sorted({p for p in space if not any(q != p and q[0] <= p[0] and q[1] <= p[1] for q in space)})


def costs_of(found: Front) -> list[Cost]:
    """Of its points."""
    return [(point.cycles, point.fj) for point in found.points]


def after(calls: int, solve: Finite) -> Callable[[], bool]:
    """Time that is up after so many solves."""
    return lambda: solve.count >= calls


# --- The front -------------------------------------------------------------------------------------------------------


@given(costs)
def test_front_is_all_that_nothing_dominates(space: list[Cost]) -> None:
    """Every point proven, by two solves each: the last one is known beforehand, and met once more if it is alone."""
    solve = Finite(space)
    found = front(solve)
    assert costs_of(found) == undominated(space)
    assert found.is_complete
    assert {point.status for point in found.points} == {Status.OPTIMAL}
    assert found.solves == solve.count <= 2 * len(found.points) + 1
    assert found.least_energy.predicted.energy_fj == min(fj for _, fj in space)


@given(costs, st.fractions(0, Fraction(9, 10)))
def test_stepped_front_comes_within_a_step_of_every_mapping(space: list[Cost], step: Fraction) -> None:
    """Its points are of the exact front; each cost has one that is as fast and needs a step more energy at most."""
    found = costs_of(front(Finite(space), step=step))
    assert set(found) <= set(undominated(space))
    for cycles, fj in space:
        assert any(c <= cycles and e * (1 - step) <= fj for c, e in found)


def test_steps_that_are_no_share_are_refused() -> None:
    """With the value."""
    with pytest.raises(ValueError, match=r"step: must be from 0 to below 1 \(got 1\)"):
        front(Finite([(1, 1)]), step=Fraction(1))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"total_time": math.nan}, "total_time: must be a number of at least 0 (got nan)"),
        ({"total_time": -1}, "total_time: must be a number of at least 0 (got -1)"),
        ({"time_limit": math.nan}, "Options.time_limit: must be a number from 0 to 1e7 (got nan)"),
    ],
)
def test_times_that_are_none_are_refused(changes: dict[str, Any], message: str) -> None:
    """Rather than taken for no time at all."""
    with pytest.raises(ValueError, match=re.escape(message)):
        LayerSolves(ConvWorkload(C=2), PIMArchitecture(), **changes)


unlucky = st.dictionaries(st.integers(0, 30), st.sampled_from([Status.FEASIBLE, Status.UNKNOWN]), min_size=1)


@given(costs, unlucky)
@settings(max_examples=300)
def test_front_claims_no_more_than_was_proven(space: list[Cost], unlucky: dict[int, Status]) -> None:
    """With solves that run out of time: what is called proven is undominated, and complete is complete."""
    found = front(Finite(space, unlucky))
    exact = undominated(space)
    assert {(p.cycles, p.fj) for p in found.points if p.status is Status.OPTIMAL} <= set(exact)
    assert costs_of(found) == undominated(costs_of(found))
    if found.is_complete:
        assert costs_of(found) == exact


@given(costs, st.integers(1, 9))
def test_front_ends_with_the_time(space: list[Cost], calls: int) -> None:
    """With the points so far, of which only one may be unproven, and never called complete if one is missing."""
    solve = Finite(space)
    found = front(solve, is_over=after(calls, solve))
    assert solve.count <= calls
    assert sum(point.status is not Status.OPTIMAL for point in found.points) <= 1
    assert not found.is_complete or costs_of(found) == undominated(space)


def test_nothing_feasible_is_known_after_one_solve() -> None:
    """An empty front, which is complete; the least product of nothing."""
    assert front(Finite([])) == attrs.evolve(front(Finite([])), points=(), is_complete=True, solves=1)
    found = least_edp(Finite([]))
    assert (found.best, found.bound, found.gap, found.status) == (None, None, None, Status.INFEASIBLE)


def test_nothing_found_in_time_is_no_proof() -> None:
    """Neither complete nor infeasible."""
    assert not front(Finite([(2, 2)], {0: Status.UNKNOWN})).is_complete
    assert least_edp(Finite([(2, 2)], {0: Status.UNKNOWN})).status is Status.UNKNOWN


def test_solves_begin_with_the_best_mapping_known() -> None:
    """Of those within the budget: all but the first two solves have one that keeps it."""
    seen: list[tuple[Budget, Mapping | None]] = []
    finite = Finite([(1, 9), (3, 5), (6, 1)])

    def solve(objective: Objective, budget: Budget, start: Mapping | None) -> SolvedLayer:
        seen.append((budget, start))
        return finite(objective, budget, start)

    front(solve)
    assert [start is None for _, start in seen] == [True] + [False] * (len(seen) - 1)


# --- The least product -----------------------------------------------------------------------------------------------


@given(costs)
@settings(max_examples=300)
def test_least_product_is_that_of_all(space: list[Cost]) -> None:
    """With its proof, by few solves: each halves the logarithm of a range of energies, or meets a point of its own."""
    solve = Finite(space)
    found = least_edp(solve)
    least = min(cycles * fj for cycles, fj in space)
    assert found.best is not None
    assert (found.best.edp, found.bound, found.gap, found.status) == (least, least, 0, Status.OPTIMAL)
    assert set(costs_of(found.front)) <= set(undominated(space))
    assert solve.count <= 4 + 2 * (2 + math.log2(math.log(10**6, 1.03))) * len(undominated(space))


def test_least_product_needs_no_whole_front() -> None:
    """Of a thousand points on a front that is bent inwards, a handful is looked at."""
    space = [(n, 10**9 // n**3 + 1) for n in range(1, 501)] + [(500 + n, 8 - n // 63) for n in range(500)]
    solve = Finite(space)
    assert least_edp(solve).gap == 0
    assert solve.count < 30


@given(costs, unlucky)
@settings(max_examples=300)
def test_bound_of_the_product_holds_without_a_proof(space: list[Cost], unlucky: dict[int, Status]) -> None:
    """With solves that run out of time it is no more than the least product, and the best no less."""
    found = least_edp(Finite(space, unlucky))
    least = min(cycles * fj for cycles, fj in space)
    assert found.bound is not None
    assert found.bound <= least
    if found.best is not None:
        assert least <= found.best.edp
        assert (found.status is Status.OPTIMAL) == (found.gap == 0)


@given(costs, st.integers(1, 9))
def test_bound_of_the_product_holds_when_time_ends(space: list[Cost], calls: int) -> None:
    """No more solves are begun than there is time for."""
    solve = Finite(space)
    found = least_edp(solve, is_over=after(calls, solve))
    assert solve.count <= max(calls, 2)
    assert found.bound is not None
    assert found.bound <= min(cycles * fj for cycles, fj in space)


def test_a_solve_is_what_a_fake_is() -> None:
    """The fake has the type of the real one."""
    solve: Solve = Finite([(1, 1)])
    assert solve(Objective.named("energy"), Budget(), None).status is Status.OPTIMAL
