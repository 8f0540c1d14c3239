"""How the subspaces are searched in turns."""

import math
from collections import Counter

import pytest

from cpsat_pim import ConvWorkload, PIMArchitecture
from cpsat_pim.mapper.model.master import MasterProblem
from cpsat_pim.mapper.result import Objective
from cpsat_pim.mapper.search import SolveRequest
from cpsat_pim.mapper.search.refutations import Refutations
from cpsat_pim.mapper.search.solve import search_subspaces
from cpsat_pim.mapper.search.solver import SolveResult
from cpsat_pim.mapper.search.state import SearchState
from cpsat_pim.mapper.space.restriction import Restriction


def test_master_problems_have_all_cuts_when_they_are_solved(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also the cuts that another subspace made while a master problem was kept."""
    layer, solve = ConvWorkload(P=14, Q=14, C=64, K=64), SearchState.solve

    def seen(state: SearchState, master: MasterProblem, until: float, work: float = math.inf) -> SolveResult:
        if not master.v.any_split:  # a relaxation over all splits has no variables of cuts
            assert master.cuts_known == len(state.cut_pool_of(master.spatial_bounds.restriction).cuts)
        return solve(state, master, until, work)

    monkeypatch.setattr(SearchState, "solve", seen)
    state = SearchState(layer, PIMArchitecture(), SolveRequest(objective=Objective.named("latency"), time_limit=60))
    search_subspaces(state)
    assert state.cut_pool_of(Restriction(layer, state.arch)).cuts


def test_extents_are_excluded_once_from_a_master_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    """Several solutions of a relaxation over all splits may have the same extents inside their outer loops."""
    layer, exclude = ConvWorkload(P=14, Q=14, C=256, K=64), Refutations.exclude
    excluded: Counter[tuple[int, tuple[int, ...]]] = Counter()
    masters: list[MasterProblem] = []  # kept, so that no two have one identity

    def seen(self: Refutations, master: MasterProblem, extents: tuple[int, ...], bound: int, until: float) -> bool:
        masters.append(master)
        excluded[id(master), extents] += 1
        return exclude(self, master, extents, bound, until)

    monkeypatch.setattr(Refutations, "exclude", seen)
    search_subspaces(SearchState(layer, PIMArchitecture(), SolveRequest(objective=Objective.named("latency"))))
    assert set(excluded.values()) == {1}
