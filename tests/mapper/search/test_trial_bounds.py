"""How trial bounds rise towards the cutoff."""

import math
from types import SimpleNamespace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from ortools.sat.python import cp_model

from cpsat_pim.mapper.search.solver import SolveResult
from cpsat_pim.mapper.search.trial_bounds import TrialBounds
from cpsat_pim.mapper.space.parameters import DEFAULTS
from cpsat_pim.mapper.space.subspace import Subspace

WORKS = st.sampled_from([0.0, 2.0, 5.0])
STATUSES = st.sampled_from([cp_model.INFEASIBLE, cp_model.UNKNOWN, cp_model.FEASIBLE])


def build_trial_bounds(
    subspace: Subspace, cutoff: int | None, *, is_hard: bool, is_shared: bool = True, takes_long: bool = False
) -> TrialBounds:
    """Those of a subspace of which no tiles are known."""
    restriction = SimpleNamespace(shared_parts=[[0, 1]] * is_shared)
    tiles: Any = SimpleNamespace(
        spatial_bounds=SimpleNamespace(restriction=restriction),
        trial_bound_beyond=lambda lower_bound, tiles: None,
        enumerate_up_to=lambda trial_bound: None,
    )
    state: Any = SimpleNamespace(parameters=DEFAULTS, cutoff=cutoff, is_hard=is_hard, takes_long=is_hard or takes_long)
    return TrialBounds(state, subspace, tiles)


def build_result(status: Any, work: float) -> SolveResult:
    """The outcome of a solve."""
    return SolveResult(status, None, [], 0, 0, work)


@given(
    st.sampled_from(Subspace),
    st.integers(0, 10**15),
    st.integers(0, 10**15),
    st.booleans(),
    st.lists(st.tuples(STATUSES, WORKS), max_size=30),
)
def test_trial_bounds_lie_between_lower_bound_and_cutoff(
    subspace: Subspace, lower_bound: int, distance: int, is_hard: bool, outcomes: list[tuple[Any, float]]
) -> None:
    """Whatever solves took so far, so that each refutation raises the lower bound."""
    trials = build_trial_bounds(subspace, lower_bound + distance, is_hard=is_hard)
    for status, work in outcomes:
        trial_bound = trials.next(lower_bound)
        assert trial_bound is not None
        assert lower_bound <= trial_bound <= lower_bound + distance
        trials.adapt(build_result(status, work))


@given(st.sampled_from(Subspace), st.integers(1, 10**12), st.integers(1, 10**12), st.integers(0, 8))
def test_light_refutations_lead_to_the_cutoff(
    subspace: Subspace, lower_bound: int, distance: int, unproven: int
) -> None:
    """However often a solve was too much before: the part of the way is at least halved again and again."""
    cutoff, steps = lower_bound + distance, 0
    trials = build_trial_bounds(subspace, cutoff, is_hard=True)
    for _ in range(unproven):
        trials.adapt(build_result(cp_model.UNKNOWN, 5.0))
    while lower_bound <= cutoff:
        trial_bound = trials.next(lower_bound)
        assert trial_bound is not None
        trials.adapt(build_result(cp_model.INFEASIBLE, 0.0))
        lower_bound, steps = trial_bound + 1, steps + 1
    assert steps < 1000


def test_solves_without_a_proof_may_take_more_work_and_come_nearer() -> None:
    """A split subspace at first tries to refute nearly all that beats the incumbent; a quarter of the way after that
    took too much.
    """
    trials = build_trial_bounds(Subspace.SPLIT, 2_000, is_hard=True)
    first, first_work = 2_000 - 2_000 // DEFAULTS.split_margin, trials.most_work
    assert trials.next(1_000) == first
    trials.adapt(build_result(cp_model.UNKNOWN, 0.1))  # the time was up
    assert (trials.next(1_000), trials.most_work) == (first, first_work)
    trials.adapt(build_result(cp_model.UNKNOWN, 5.0))
    assert (trials.next(1_000), trials.most_work) == (1_250, 2 * first_work)
    trials.adapt(build_result(cp_model.INFEASIBLE, 0.0))
    assert trials.next(1_000) == 1_500


def test_last_ten_thousandth_is_refuted_at_once() -> None:
    """Whatever solves took so far: 10 of 100,000 in one step, of 11 a quarter first (2, rounded down)."""
    trials = build_trial_bounds(Subspace.MERGED, 100_000, is_hard=True)
    trials.adapt(build_result(cp_model.UNKNOWN, 5.0))
    assert trials.next(99_989) == 99_991
    assert trials.next(99_990) == 100_000


def test_work_is_not_limited_where_no_tensors_share_a_bank() -> None:
    """There are three subspaces only."""
    assert math.isinf(build_trial_bounds(Subspace.SPLIT, 2_000, is_hard=True, is_shared=False).most_work)


def test_split_loops_are_refuted_below_the_cutoff_first_where_a_layer_takes_long() -> None:
    """By one part of 256: 10 of 2,560. Then up to the cutoff, as at once where it takes no time."""
    trials = build_trial_bounds(Subspace.SPLIT, 2_560, is_hard=False, takes_long=True)
    assert trials.next(0) == 2_550
    assert trials.next(2_551) == 2_560
    assert build_trial_bounds(Subspace.SPLIT, 2_560, is_hard=False).next(0) == 2_560
