"""The front of a finite set of costs is that which comparing all of them gives."""

import math
import re
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import attrs
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from cpsat_pim.mapper.network.front_points import Front
from cpsat_pim.mapper.network.pareto import FrontRequest, front
from cpsat_pim.mapper.objectives.edp import Solve
from cpsat_pim.mapper.result import Budget, Objective, SolvedLayer, Status
from cpsat_pim.mapping import Mapping
from tests.finite import Cost, Finite, after, costs, costs_of_three, unlucky


def undominated(space: Sequence[Cost]) -> list[Cost]:
    """By comparing each with each."""
    return sorted({p for p in space if not any(q != p and is_within(q, p) for q in space)})


def is_within(one: Cost, other: Cost) -> bool:
    """Whether nothing of it is more."""
    return all(a <= b for a, b in zip(one, other, strict=True))


def costs_of(found: Front, figures: int = 2) -> list[Cost]:
    """Of its points."""
    return [(point.cycles, point.fj, point.activations)[:figures] for point in found.points]


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
    with pytest.raises(ValueError, match=r"FrontRequest\.step: must be from 0 to below 1 \(got Fraction\(1, 1\)\)"):
        FrontRequest(step=Fraction(1))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"total_time": math.nan}, "FrontRequest.total_time: must be a number of at least 0 (got nan)"),
        ({"total_time": -1}, "FrontRequest.total_time: must be a number of at least 0 (got -1)"),
    ],
)
def test_times_that_are_none_are_refused(changes: dict[str, Any], message: str) -> None:
    """Rather than taken for no time at all."""
    with pytest.raises(ValueError, match=re.escape(message)):
        FrontRequest(**changes)


@given(costs, unlucky)
@example([(1, 1), (2, 0)], {0: Status.FEASIBLE})
@example([(3, 10), (3, 6)], {0: Status.FEASIBLE})
@settings(max_examples=300)
def test_front_claims_no_more_than_was_proven(space: list[Cost], unlucky: dict[int, Status]) -> None:
    """With solves that run out of time: what is called proven is undominated, and complete is complete; the least
    energy is that of the last point, and proven if the front is.
    """
    found = front(Finite(space, unlucky))
    exact = undominated(space)
    assert {(p.cycles, p.fj) for p in found.points if p.status is Status.OPTIMAL} <= set(exact)
    assert costs_of(found) == undominated(costs_of(found))
    if found.points:
        assert found.least_energy.predicted.energy_fj == found.points[-1].fj
    if found.is_complete:
        assert costs_of(found) == exact
        assert found.least_energy.status is Status.OPTIMAL


@given(costs, st.integers(1, 9))
def test_front_ends_with_the_time(space: list[Cost], calls: int) -> None:
    """With the points so far, of which only one may be unproven, and never called complete if one is missing."""
    solve = Finite(space)
    found = front(solve, is_over=after(calls, solve))
    assert solve.count <= calls
    assert sum(point.status is not Status.OPTIMAL for point in found.points) <= 1
    assert not found.is_complete or costs_of(found) == undominated(space)


# --- With row activations --------------------------------------------------------------------------------------------


@given(costs_of_three)
@example([(1, 1, 1), (2, 0, 3), (3, 0, 2)])
@settings(max_examples=300)
def test_front_of_three_is_all_that_nothing_dominates(space: list[Cost]) -> None:
    """Every point proven."""
    found = front(Finite(space), with_activations=True)
    assert costs_of(found, 3) == undominated(space)
    assert found.is_complete
    assert {point.status for point in found.points} == {Status.OPTIMAL}


@given(costs_of_three, st.fractions(0, Fraction(9, 10)))
def test_stepped_front_of_three_comes_within_a_step_of_every_mapping(space: list[Cost], step: Fraction) -> None:
    """In energy and in activations."""
    found = costs_of(front(Finite(space), step=step, with_activations=True), 3)
    assert set(found) <= set(undominated(space))
    for cycles, *rest in space:
        assert any(
            c <= cycles and all(a * (1 - step) <= b for a, b in zip(more, rest, strict=True)) for c, *more in found
        )


@given(costs_of_three, unlucky)
@settings(max_examples=300)
def test_front_of_three_claims_no_more_than_was_proven(space: list[Cost], unlucky: dict[int, Status]) -> None:
    """With solves that run out of time: what is called proven is undominated, and complete is complete."""
    found = front(Finite(space, unlucky), with_activations=True)
    exact = undominated(space)
    assert {
        cost for cost, p in zip(costs_of(found, 3), found.points, strict=True) if p.status is Status.OPTIMAL
    } <= set(exact)
    assert costs_of(found, 3) == undominated(costs_of(found, 3))
    if found.is_complete:
        assert costs_of(found, 3) == exact


@given(costs_of_three, st.integers(1, 12))
def test_front_of_three_ends_with_the_time(space: list[Cost], calls: int) -> None:
    """What was proven until then stays, and at most one point is not; nothing missing is called complete."""
    solve = Finite(space)
    found = front(solve, with_activations=True, is_over=after(calls, solve))
    assert solve.count <= calls
    assert sum(point.status is not Status.OPTIMAL for point in found.points) <= 1
    assert not found.is_complete or costs_of(found, 3) == undominated(space)


def test_fewest_activations_are_proven_or_the_point_is_not() -> None:
    """The last solves are those for fewer activations: if they do not end, the point has a gap of 0 and is no proof."""
    solve = Finite([(2, 2, 5), (2, 2, 4)])
    (point,) = front(solve, with_activations=True).points
    assert (point.activations, point.gap, point.status) == (4, 0, Status.OPTIMAL)
    solve = Finite([(2, 2, 5), (2, 2, 4)])
    found = front(solve, with_activations=True, is_over=after(2, solve))
    (point,) = found.points
    assert (point.activations, point.gap, point.status, found.is_complete) == (5, 0, Status.FEASIBLE, False)


# --- Solves ----------------------------------------------------------------------------------------------------------


def test_nothing_feasible_is_known_after_one_solve() -> None:
    """An empty front, which is complete."""
    assert front(Finite([])) == attrs.evolve(front(Finite([])), points=(), is_complete=True, solves=1)


def test_nothing_found_in_time_is_no_proof() -> None:
    """It is not complete."""
    assert not front(Finite([(2, 2)], {0: Status.UNKNOWN})).is_complete


def test_solves_begin_with_the_best_mapping_known() -> None:
    """Of those within the budget: all but the first two solves have one that keeps it."""
    seen: list[tuple[Budget, Mapping | None]] = []
    finite = Finite([(1, 9), (3, 5), (6, 1)])

    def solve(objective: Objective, budget: Budget, start: Mapping | None) -> SolvedLayer:
        seen.append((budget, start))
        return finite(objective, budget, start)

    front(solve)
    assert [start is None for _, start in seen] == [True] + [False] * (len(seen) - 1)


def test_a_solve_is_what_a_fake_is() -> None:
    """The fake has the type of the real one."""
    solve: Solve = Finite([(1, 1)])
    assert solve(Objective.named("energy"), Budget(), None).status is Status.OPTIMAL
