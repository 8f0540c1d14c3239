"""Mappings that are sought among the cheapest tiles."""

import pytest

from cpsat_pim import ConvWorkload
from cpsat_pim.arch.reading import read_arch
from cpsat_pim.mapper.bounds.stream_bounds import build_tables
from cpsat_pim.mapper.result import Objective
from cpsat_pim.mapper.search import SolveRequest
from cpsat_pim.mapper.search.constructed import constructed_mappings
from cpsat_pim.mapper.search.solve import solve_layer
from cpsat_pim.mapper.search.state import SearchState
from cpsat_pim.mapper.search.subspace_search import SubspaceSearch
from cpsat_pim.mapper.space.banks import restrictions
from cpsat_pim.mapper.space.parameters import SearchParameters
from cpsat_pim.mapper.space.subspace import Subspace
from cpsat_pim.mapping.check import check_mapping

LAYER, ARCH = ConvWorkload(R=3, S=3, P=8, Q=8, C=16, K=32), read_arch("gddr6-aim")
REQUEST = SolveRequest(objective=Objective.named("energy"), then=None, parameters=SearchParameters(hard_work=-1.0))


def test_the_cheapest_tiles_of_a_hard_layer_have_a_mapping_close_to_its_bound() -> None:
    """One that is legal and costs no less than the optimum, which no lower bound exceeds; split loops are left out."""
    state = SearchState(LAYER, ARCH, REQUEST)
    searched = restrictions(LAYER, ARCH, REQUEST.constraints, REQUEST.budget)
    state.tables |= {each.bank_counts: build_tables(LAYER, ARCH, lambda: False, each.bank_counts) for each in searched}
    searches = [SubspaceSearch(state, restriction) for restriction in searched]
    first = [search.lower_bound for search in searches]
    for _ in REQUEST.parameters.tile_steps:  # the lower bound rises by one of these at a time
        for search in searches:
            search.seek_in_hard_layer(60.0)
    assert state.incumbent is not None
    assert not check_mapping(LAYER, ARCH, state.incumbent.mapping)
    optimum = solve_layer(LAYER, ARCH, REQUEST).cost
    assert optimum is not None
    assert min(search.lower_bound or 0 for search in searches) <= optimum <= state.incumbent.value < 2 * optimum
    for search, bound in zip(searches, first, strict=True):
        assert (search.lower_bound or 0) >= (bound or 0)
        assert search.subspace is not Subspace.SPLIT or search.lower_bound == bound


@pytest.mark.parametrize("is_built", [True, False])
def test_cheapest_tiles_are_tried_as_long_as_there_is_only_a_built_mapping(is_built: bool) -> None:
    """Before the first master problem of a layer that is not hard, and not once a solve has found the incumbent."""
    request = SolveRequest(objective=Objective.named("energy"), then=None)
    state = SearchState(LAYER, ARCH, request)
    state.offer(next(constructed_mappings(LAYER, ARCH, request.constraints)))
    state.constructed = state.incumbent if is_built else None
    restriction = restrictions(LAYER, ARCH, request.constraints, request.budget)[0]
    state.tables[restriction.bank_counts] = build_tables(LAYER, ARCH, lambda: False, restriction.bank_counts)
    search = SubspaceSearch(state, restriction)
    while search.is_open and not state.statistics["programs"]:
        search.step(60.0)
    assert search._any_mapping.has_tried == is_built
    assert not search._any_mapping.has_tried_cheapest
