"""The solver's parameters may be others, and the optimum is the same."""

from typing import Any

import pytest

from cpsat_pim import ConvWorkload, PIMArchitecture
from cpsat_pim.model import Options, solve_layer
from cpsat_pim.result import Objective, Status
from tests.cross.test_solver_against_enumeration import CASES


@pytest.mark.parametrize("parameters", [{"cp_model_presolve": True}, {"linearization_level": 2, "random_seed": 7}])
def test_optimum_does_not_depend_on_parameters(parameters: dict[str, Any]) -> None:
    """With presolve, or with linear relaxations."""
    layer, arch = CASES["product, bypass free"]
    usual, other = (
        solve_layer(layer, arch, Objective.named("latency"), Options(parameters=p)) for p in ({}, parameters)
    )
    assert usual.status is other.status is Status.OPTIMAL
    assert usual.objective_value == other.objective_value


@pytest.mark.parametrize(
    "works",
    [
        pytest.param({"_HARD_WORK": -1}, id="hard from the start"),
        pytest.param({"_HARD_WORK": -1, "_LITTLE_WORK": 0, "_MUCH_WORK": 0}, id="each program once"),
        pytest.param({"_HARD_WORK": 1e-7, "_MOST_WORK": 2e-7}, id="hard after a solve that was ended"),
    ],
)
@pytest.mark.parametrize("kind", ["latency", "energy"])
@pytest.mark.parametrize("case", ["product, bypass free", "strided"])
def test_optimum_does_not_depend_on_how_targets_rise(
    case: str, kind: str, works: dict[str, float], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Little by little from the start, and looking at tiles, as where a layer takes much work."""
    layer, arch = CASES[case]
    usual = solve_layer(layer, arch, Objective.named(kind), Options(time_limit=600))
    for name, work in works.items():
        monkeypatch.setattr(f"cpsat_pim.model.climb.{name}", work)
    other = solve_layer(layer, arch, Objective.named(kind), Options(time_limit=600))
    assert usual.status is other.status is Status.OPTIMAL
    assert usual.objective_value == other.objective_value


def test_parameters_are_passed_on() -> None:
    """One that leaves the solver no work to do leaves nothing proven."""
    layer, arch = CASES["strided"]
    options = Options(time_limit=1, parameters={"max_deterministic_time": 1e-9})
    assert solve_layer(layer, arch, Objective.named("latency"), options).status is not Status.OPTIMAL


@pytest.mark.parametrize("parameters", [{"no_such": 1}, {"cp_model_presolve": "yes"}])
def test_parameters_that_there_are_not_are_refused(parameters: dict[str, Any]) -> None:
    """When the options are made."""
    with pytest.raises(ValueError, match=r"Options\.parameters: must be parameters of CP-SAT"):
        Options(parameters=parameters)


def test_no_mapping_is_found_where_a_target_is_too_large_for_the_solver(monkeypatch: pytest.MonkeyPatch) -> None:
    """Out of time, and the only target left is one that CP-SAT cannot add up: nothing is found, and nothing breaks."""
    monkeypatch.setattr("cpsat_pim.model.climb._FIRST_STEPS", (1e14,))
    layer = ConvWorkload(C=64, K=64)
    solved = solve_layer(layer, PIMArchitecture(), Objective.named("blended"), Options(time_limit=0))
    assert solved.status is Status.UNKNOWN
