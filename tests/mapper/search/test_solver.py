"""How CP-SAT is asked."""

import threading
from collections.abc import Callable

import pytest
from ortools.sat.python import cp_model

from cpsat_pim import ConvWorkload, PIMArchitecture
from cpsat_pim.mapper.model import master
from cpsat_pim.mapper.model.master import MasterProblem
from cpsat_pim.mapper.result import Objective, SolvedLayer, Status
from cpsat_pim.mapper.search import Options, solve_layer
from cpsat_pim.mapper.search import solver as solver_module

LAYER, ARCH, LATENCY = ConvWorkload(P=28, Q=28, C=64, K=64), PIMArchitecture(), Objective.named("latency")


def with_each_solver(
    monkeypatch: pytest.MonkeyPatch, see: Callable[[cp_model.CpSolver], None], objective: Objective = LATENCY
) -> SolvedLayer:
    """The layer solved, each search of CP-SAT seen before it begins."""
    solve = solver_module._solve

    def seen(
        solver: cp_model.CpSolver, asked: MasterProblem, callback: solver_module._Creep | None, stop: threading.Event
    ) -> solver_module.SolveResult:
        see(solver)
        return solve(solver, asked, callback, stop)

    monkeypatch.setattr(solver_module, "_solve", seen)
    return solve_layer(LAYER, ARCH, objective, Options(time_limit=60))


def test_a_search_that_creeps_begins_again_and_ends_with_the_same_optimum(monkeypatch: pytest.MonkeyPatch) -> None:
    """With every answer after the first taken for creeping."""
    usual = solve_layer(LAYER, ARCH, LATENCY, Options(time_limit=60))
    monkeypatch.setattr(solver_module, "_CREEPING", 1)
    monkeypatch.setattr(solver_module, "_SHARE", 1e6)
    halving: list[bool] = []
    again = with_each_solver(monkeypatch, lambda s: halving.append(s.parameters.binary_search_num_conflicts > 0))
    assert any(halving)
    assert again.status is usual.status is Status.OPTIMAL
    assert again.cost == usual.cost


def test_a_long_search_begins_again_with_saved_phases_and_without(monkeypatch: pytest.MonkeyPatch) -> None:
    """After 20 conflicts each, then 80 each, and so on."""
    usual = solve_layer(LAYER, ARCH, LATENCY, Options(time_limit=60))
    monkeypatch.setattr(solver_module, "_CONFLICTS", 20)
    tried: list[tuple[bool, int]] = []
    again = with_each_solver(
        monkeypatch, lambda s: tried.append((s.parameters.use_phase_saving, s.parameters.max_number_of_conflicts))
    )
    assert {(False, 20), (True, 20), (False, 80), (True, 80)} <= set(tried)
    assert again.status is usual.status is Status.OPTIMAL
    assert again.cost == usual.cost
    assert again.solver_info["conflicts"] > 20


def test_a_long_search_of_few_tiles_begins_again_with_a_linear_relaxation(monkeypatch: pytest.MonkeyPatch) -> None:
    """Others do not."""
    objective = Objective.named("blended")
    usual = solve_layer(LAYER, ARCH, objective, Options(time_limit=60))
    monkeypatch.setattr(solver_module, "_CONFLICTS", 1)
    levels: list[int] = []
    again = with_each_solver(monkeypatch, lambda s: levels.append(s.parameters.linearization_level), objective)
    assert set(levels) == {0, 2}
    assert again.status is usual.status is Status.OPTIMAL
    assert again.cost == usual.cost
    monkeypatch.setattr(master, "_FEW_TILES", -1)
    levels.clear()
    with_each_solver(monkeypatch, lambda s: levels.append(s.parameters.linearization_level), objective)
    assert set(levels) == {0}
