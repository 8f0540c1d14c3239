"""One objective after the other: against the enumeration of tiny layers, and what is refused."""

import math
from fractions import Fraction
from functools import cache

import attrs
import pytest

from cpsat_pim.arch import PIMArchitecture
from cpsat_pim.evaluate.cost import predict
from cpsat_pim.mapper.network.run import solve_and_verify
from cpsat_pim.mapper.result import Objective, Status
from cpsat_pim.mapper.search import SolveRequest
from cpsat_pim.study.fuzz.enumeration import every_mapping
from cpsat_pim.workload import ConvWorkload
from tests.cross.test_solver_against_enumeration import CASES


@cache
def costs(layer: ConvWorkload, arch: PIMArchitecture) -> list[tuple[int, int]]:
    """Cycles and femtojoules of every mapping."""
    figures = [predict(layer, arch, mapping).figures for mapping in every_mapping(layer, arch)]
    return [(found.latency_cycles, found.energy_fj) for found in figures]


@pytest.mark.parametrize("within", [0.0, 0.1])
@pytest.mark.parametrize(
    ("layer", "arch"),
    [
        (ConvWorkload(C=3, K=2), CASES["product, weights in the row buffer"][1]),
        pytest.param(*CASES["product, bypass free"], marks=pytest.mark.slow),
    ],
    ids=["weights in the row buffer", "bypass free"],
)
def test_second_optimum_is_that_of_the_enumeration(layer: ConvWorkload, arch: PIMArchitecture, within: float) -> None:
    """Of all mappings at most so much above the first optimum, the least by the other objective."""
    every = costs(layer, arch)
    for first, kinds in enumerate([("latency", "energy"), ("energy", "latency")]):
        least = min(cost[first] for cost in every)
        most = math.floor(least * (1 + Fraction(str(within))))
        second = min(cost[1 - first] for cost in every if cost[first] <= most)
        request = SolveRequest(objective=Objective.named(kinds[0]), then=kinds[1], within=within)
        solved = solve_and_verify(layer, arch, request)
        assert solved.second is not None
        assert solved.second.status is Status.OPTIMAL
        assert solved.second.value == solved.second.bound == Objective.named(kinds[1]).reported(second)
        found = solved.predicted.latency_cycles, solved.predicted.energy_fj
        assert found[1 - first] == second
        assert least <= found[first] <= most
        assert solved.lower_bound == least
        assert solved.status is (Status.OPTIMAL if found[first] == least else Status.FEASIBLE)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"then": "energy"}, "SolveRequest.then: must be the other one of latency and energy (got energy and energy)"),
        ({"then": "edp"}, "SolveRequest.then: must be one of latency, energy, other, or nothing (got 'edp')"),
        ({"then": "latency", "padding": 0.1}, "SolveRequest.padding: must be 0 with a second objective (got 0.1)"),
        ({"then": None, "within": 0.1}, "SolveRequest.within: needs a second objective, `then` (got 0.1)"),
    ],
)
def test_requests_that_contradict_themselves_are_refused(fields: dict[str, object], message: str) -> None:
    """Each names its field."""
    with pytest.raises(ValueError) as caught:  # noqa: PT011 - the whole text is compared
        SolveRequest(objective=Objective.named("energy"), **fields)  # type: ignore[arg-type]
    assert str(caught.value) == message


@pytest.mark.parametrize(("kind", "other"), [("latency", "energy"), ("energy", "latency"), ("blended", None)])
def test_the_other_objective_is_second_by_default(kind: str, other: str | None) -> None:
    """Where there is one, and `then=None` is none."""
    request = SolveRequest(objective=Objective.named(kind))
    assert request.second == other
    assert attrs.evolve(request, then=None).second is None


def test_what_nobody_asked_for_waits_for_the_first_proof() -> None:
    """Without time for a proof there is no second objective; asked for, there is."""
    layer, arch = ConvWorkload(C=64, K=64, P=28, Q=28, R=3, S=3), PIMArchitecture()
    request = SolveRequest(objective=Objective.named("energy"), time_limit=0.01)
    assert solve_and_verify(layer, arch, request).second is None
    asked = solve_and_verify(layer, arch, attrs.evolve(request, then="latency"))
    assert asked.second is not None
    assert asked.second.status is Status.FEASIBLE
