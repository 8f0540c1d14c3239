"""How CP-SAT is asked."""

import threading

import pytest
from ortools.sat.python import cp_model

from cpsat_pim import ConvWorkload, PIMArchitecture
from cpsat_pim.model import Options, cpsat, solve_layer
from cpsat_pim.model.program import Program
from cpsat_pim.result import Objective, Status


def test_a_search_that_begins_again_ends_with_the_same_optimum(monkeypatch: pytest.MonkeyPatch) -> None:
    """With every answer after the first taken for creeping."""
    layer, arch, objective = ConvWorkload(P=28, Q=28, C=64, K=64), PIMArchitecture(), Objective.named("latency")
    usual = solve_layer(layer, arch, objective, Options(time_limit=60))
    begun = []
    solve = cpsat._solve

    def count(
        solver: cp_model.CpSolver, program: Program, callback: cpsat._Creep | None, stop: threading.Event
    ) -> cpsat.Reply:
        begun.append(callback is None)
        return solve(solver, program, callback, stop)

    monkeypatch.setattr(cpsat, "_solve", count)
    monkeypatch.setattr(cpsat, "_CREEPING", 1)
    monkeypatch.setattr(cpsat, "_SHARE", 1e6)
    again = solve_layer(layer, arch, objective, Options(time_limit=60))
    assert any(begun)
    assert again.status is usual.status is Status.OPTIMAL
    assert again.cost == usual.cost
