"""The walk to cheaper neighbours: what it offers is legal, within the constraints, and costs what is said."""

from typing import Any

import pytest

from cpsat_pim import ConvWorkload
from cpsat_pim.arch.reading import read_arch
from cpsat_pim.evaluate import cost
from cpsat_pim.evaluate.cost import predict
from cpsat_pim.mapper.bounds.spatial_bounds import SpatialBounds
from cpsat_pim.mapper.result import Budget, Objective
from cpsat_pim.mapper.search import SolveRequest
from cpsat_pim.mapper.search.constructed import constructed_mappings
from cpsat_pim.mapper.search.descent import Descent
from cpsat_pim.mapper.search.state import SearchState
from cpsat_pim.mapper.space.banks import restrictions
from cpsat_pim.mapping.check import check_mapping
from cpsat_pim.mapping.constraints import Constraints, check_constraints


@pytest.mark.parametrize("kind", ["energy", "latency"])
@pytest.mark.parametrize("name", ["gddr6-aim", "hbm-pim"])
def test_a_descent_finds_a_cheaper_mapping_within_the_constraints(name: str, kind: str) -> None:
    """The constructed mapping of a small convolution is improved, and the constraint of its banks is kept."""
    layer, arch = ConvWorkload(R=3, S=3, P=8, Q=8, C=16, K=32), read_arch(name)
    constraints = Constraints(banks=(0, 0, 0))
    request = SolveRequest(objective=Objective.named(kind), then=None, constraints=constraints)
    state = SearchState(layer, arch, request, is_walked=False)
    searched = restrictions(layer, arch, constraints, request.budget)
    state.spatial_bounds += [SpatialBounds(layer, arch, state.objective, each) for each in searched]
    state.offer(next(iter(constructed_mappings(layer, arch, constraints))))
    assert state.incumbent is not None
    before = state.incumbent.value
    Descent(state).walk(state.incumbent, 300, until=60.0)
    after = state.incumbent
    assert after.value < before
    assert not check_mapping(layer, arch, after.mapping)
    assert not check_constraints(after.mapping, constraints)
    figures = predict(layer, arch, after.mapping).figures
    assert state.objective.value(figures.latency_cycles, figures.energy_fj) >= after.value


def test_a_descent_ends_at_its_time() -> None:
    """Without any time left no neighbour is tried."""
    layer, arch = ConvWorkload(C=64, K=64, N=8), read_arch("gddr6-aim")
    request = SolveRequest(objective=Objective.named("energy"), then=None)
    state = SearchState(layer, arch, request, is_walked=False)
    state.offer(next(iter(constructed_mappings(layer, arch, request.constraints))))
    before = state.incumbent
    assert before is not None
    Descent(state).walk(before, 600, until=0.0)
    assert state.incumbent is before


@pytest.mark.parametrize(
    ("kind", "most", "is_walked"), [("latency", None, True), ("energy", None, False), ("energy", 10**9, True)]
)
def test_an_offered_mapping_is_walked_only_where_cycles_matter(monkeypatch, kind, most, is_walked):
    """A walk takes many times as long as the counts. Cycles matter to latency, and to energy within a budget."""
    walked = []

    def predict_until(*given: Any, is_walked: bool) -> Any:
        walked.append(is_walked)
        return cost.predict_until(*given, is_walked=is_walked)

    monkeypatch.setattr("cpsat_pim.mapper.search.state.predict_until", predict_until)
    layer, arch = ConvWorkload(C=64, K=64, N=8), read_arch("gddr6-aim")
    state = SearchState(
        layer, arch, SolveRequest(objective=Objective.named(kind), then=None, budget=Budget(cycles=most))
    )
    assert state.offer(next(iter(constructed_mappings(layer, arch, state.request.constraints))))
    assert walked == [is_walked]
