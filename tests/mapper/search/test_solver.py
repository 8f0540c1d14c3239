"""How CP-SAT is asked."""

from collections.abc import Callable

import attrs
import pytest
from ortools.sat.python import cp_model

from cpsat_pim import ConvWorkload, PIMArchitecture
from cpsat_pim.base.interrupts import Stop
from cpsat_pim.mapper.model.master import MasterProblem
from cpsat_pim.mapper.result import Objective, SolvedLayer, Status
from cpsat_pim.mapper.search import SolveRequest, solve_layer
from cpsat_pim.mapper.search import solver as solver_module
from cpsat_pim.mapper.space.parameters import SearchParameters

LAYER, ARCH = ConvWorkload(P=28, Q=28, C=64, K=64), PIMArchitecture()
LATENCY = SolveRequest(objective=Objective.named("latency"), time_limit=60)


def solve_seeing(
    monkeypatch: pytest.MonkeyPatch, see: Callable[[cp_model.CpSolver], None], request: SolveRequest
) -> SolvedLayer:
    """Solve the layer, and pass each search of CP-SAT to `see` before it begins."""
    solve = solver_module._solve

    def seen(
        solver: cp_model.CpSolver, asked: MasterProblem, callback: solver_module._CreepDetector | None, stop: Stop
    ) -> solver_module.SolveResult:
        see(solver)
        return solve(solver, asked, callback, stop)

    monkeypatch.setattr(solver_module, "_solve", seen)
    return solve_layer(LAYER, ARCH, request)


def test_a_search_that_creeps_begins_again_and_ends_with_the_same_optimum(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every solution after the first is taken for creeping."""
    usual = solve_layer(LAYER, ARCH, LATENCY)
    request = attrs.evolve(LATENCY, parameters=SearchParameters(creeping_solutions=1, creeping_share=1e6))
    halving: list[bool] = []
    again = solve_seeing(monkeypatch, lambda s: halving.append(s.parameters.binary_search_num_conflicts > 0), request)
    assert any(halving)
    assert again.status is usual.status is Status.OPTIMAL
    assert again.cost == usual.cost


def test_a_long_search_begins_again_with_saved_phases_and_without(monkeypatch: pytest.MonkeyPatch) -> None:
    """After 20 conflicts each, then 80 each, and so on."""
    usual = solve_layer(LAYER, ARCH, LATENCY)
    request = attrs.evolve(LATENCY, parameters=SearchParameters(restart_conflicts=20))
    tried: list[tuple[bool, int]] = []
    again = solve_seeing(
        monkeypatch,
        lambda s: tried.append((s.parameters.use_phase_saving, s.parameters.max_number_of_conflicts)),
        request,
    )
    assert {(False, 20), (True, 20), (False, 80), (True, 80)} <= set(tried)
    assert again.status is usual.status is Status.OPTIMAL
    assert again.cost == usual.cost
    assert again.solver_info["conflicts"] > 20


def test_a_long_search_of_few_tiles_begins_again_with_a_linear_relaxation(monkeypatch: pytest.MonkeyPatch) -> None:
    """Searches of many tiles do not."""
    blended = SolveRequest(objective=Objective.named("blended"), time_limit=60)
    usual = solve_layer(LAYER, ARCH, blended)
    request = attrs.evolve(blended, parameters=SearchParameters(restart_conflicts=1))
    levels: list[int] = []
    again = solve_seeing(monkeypatch, lambda s: levels.append(s.parameters.linearization_level), request)
    assert set(levels) == {0, 2}
    assert again.status is usual.status is Status.OPTIMAL
    assert again.cost == usual.cost
    none_is_small = attrs.evolve(request, parameters=SearchParameters(restart_conflicts=1, small_tiles=-1))
    levels.clear()
    solve_seeing(monkeypatch, lambda s: levels.append(s.parameters.linearization_level), none_is_small)
    assert set(levels) == {0}
