"""A search for latency by the formula, and what its bound says of mappings whose walks take longer."""

from functools import cache
from unittest.mock import Mock

import attrs
import pytest

from cpsat_pim import ConvWorkload, PIMArchitecture
from cpsat_pim.evaluate.cost import predict
from cpsat_pim.mapper.result import Objective, SolvedLayer, Status
from cpsat_pim.mapper.search import SolveRequest
from cpsat_pim.mapper.search.completion import Completion
from cpsat_pim.mapper.search.ranking import best_walked
from cpsat_pim.mapper.search.solve import solve_layer
from cpsat_pim.mapper.search.state import SearchState

#: The formula is more than 1 % below the walks of its quickest mappings.
LAYER, ARCH = ConvWorkload(R=3, P=4, Q=4, C=4, K=4), PIMArchitecture()
FORMULA = SolveRequest(objective=Objective.named("latency"), by_walks=False)


@cache
def by_formula() -> SolvedLayer:
    """The result of the first search alone."""
    return solve_layer(LAYER, ARCH, FORMULA)


def test_without_walks_a_gap_is_left() -> None:
    """The cost is the predicted latency, of the walk; the bound is that of the formula, and is no proof of it."""
    solved = by_formula()
    assert solved.status is Status.FEASIBLE
    assert solved.mapping is not None
    assert solved.lower_bound is not None
    assert solved.cost == predict(LAYER, ARCH, solved.mapping).figures.latency_cycles
    assert solved.lower_bound * 1.01 < solved.cost


def test_nothing_below_the_bound_of_the_formula_is_sought_by_walks() -> None:
    """A value to beat that the formula cannot beat has no mapping."""
    bound = by_formula().lower_bound
    solved = solve_layer(LAYER, ARCH, attrs.evolve(FORMULA, by_walks=True, value_to_beat=bound))
    assert solved.mapping is None
    assert solved.lower_bound is None


def test_a_mapping_that_beats_a_value_by_the_formula_only_is_of_no_use() -> None:
    """By its walk it does not; the bound stays."""
    bound = by_formula().lower_bound
    assert bound is not None
    solved = solve_layer(LAYER, ARCH, attrs.evolve(FORMULA, value_to_beat=bound + 1))
    assert (solved.mapping, solved.lower_bound) == (None, bound)


def test_incumbents_that_cannot_win_are_not_walked(monkeypatch: pytest.MonkeyPatch) -> None:
    """The last incumbent is walked first. One that costs as much by the formula as it by its walk is left out."""
    mapping = by_formula().mapping
    assert mapping is not None
    walked, prediction = predict(LAYER, ARCH, mapping), predict(LAYER, ARCH, mapping)
    end = walked.figures.latency_cycles
    state = SearchState(LAYER, ARCH, FORMULA, is_walked=False)
    state.incumbents.extend(Completion(mapping, prediction, value) for value in (end + 1, end, end - 1))
    walks = Mock(return_value=walked)
    monkeypatch.setattr("cpsat_pim.mapper.search.ranking.predict", walks)
    assert best_walked(state) == Completion(mapping, walked, end)
    assert (walks.call_count, len(state.incumbents)) == (1, 0)


def test_an_early_incumbent_that_is_quickest_by_its_walk_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many later ones cost less by the formula: the sixth of ten is quicker by its walk than these."""
    mapping = by_formula().mapping
    assert mapping is not None
    prediction = predict(LAYER, ARCH, mapping)
    end = prediction.figures.latency_cycles
    state = SearchState(LAYER, ARCH, FORMULA, is_walked=False)
    state.incumbents.extend(Completion(mapping, prediction, end - i) for i in range(10))
    walks = [
        attrs.evolve(prediction, figures=attrs.evolve(prediction.figures, latency_cycles=n))
        for n in (end + 9, end + 8, end + 7, end + 6, end + 1, *[end + 5] * 5)
    ]
    monkeypatch.setattr("cpsat_pim.mapper.search.ranking.predict", Mock(side_effect=walks))
    best = best_walked(state)
    assert best is not None
    assert best.value == end + 1
