"""Which tiles are enumerated where only latency counts: few expected ones, and those that keep a budget of energy."""

import numpy as np
import pytest

from cpsat_pim import ConvWorkload, PIMArchitecture
from cpsat_pim.base.dims import Level
from cpsat_pim.mapper.bounds.spatial_bounds import SpatialBounds
from cpsat_pim.mapper.bounds.stream_bounds import build_tables
from cpsat_pim.mapper.bounds.tile_bounds import TileBounds, TileEnumerations
from cpsat_pim.mapper.result import Objective
from cpsat_pim.mapper.search import SolveRequest, solve_layer
from cpsat_pim.mapper.space.candidates import COST, INSIDE_BUFFER, INSIDE_PE
from cpsat_pim.mapper.space.parameters import SearchParameters
from cpsat_pim.mapper.space.restriction import Restriction
from cpsat_pim.mapper.space.subspace import Subspace
from cpsat_pim.mapping.constraints import Constraints


def test_tiles_within_a_budget_are_few_and_hold_the_mapping_that_needs_all_of_it() -> None:
    """The budget is the least energy. For latency alone too many tiles are expected; within it all are enumerated, that
    of the optimum among them, and no bound on the latency exceeds the optimum's.
    """
    layer, arch = ConvWorkload(R=3, S=3, P=8, Q=8, C=16, K=16), PIMArchitecture()
    request = SolveRequest(objective=Objective.named("energy"), then=None, time_limit=100)
    solved = solve_layer(layer, arch, request)
    assert solved.mapping is not None
    assert solved.cost is not None
    assert solved.latency is not None
    budget, tables, held = request.budget.with_most("energy", solved.cost), build_tables(layer, arch), []
    for subspace in Subspace:
        restriction = Restriction(layer, arch, Constraints(), subspace, budget)
        latency = SpatialBounds(layer, arch, Objective.named("latency"), restriction)
        tiles = TileBounds(latency, tables, parameters=SearchParameters(tiles_latency=1))
        assert tiles.candidates(solved.latency).tiles is None
        tiles.keep_energy_budget(TileEnumerations())
        found = tiles.candidates(solved.latency).tiles
        if not len(tiles.candidates(solved.latency).vectors):
            continue  # no spatial mapping of the subspace keeps the budget
        assert found is not None
        assert found[:, COST].max(initial=0) <= solved.latency
        extents = [solved.mapping.extents(Level.PE), solved.mapping.extents(Level.GLOBAL_BUFFER)]
        held.append((found[:, INSIDE_PE.start : INSIDE_BUFFER.stop] == np.ravel(extents)).all(axis=1).any())
    assert any(held)


@pytest.mark.parametrize("subspace", Subspace, ids=lambda subspace: subspace.name)
def test_tiles_are_enumerated_for_latency_where_few_are_expected(subspace: Subspace) -> None:
    """All factors of C and K are 4 * 4 = 16, so 16 times the spatial mappings may be listed, but none if a tensor is
    row-aligned. One fewer may not.
    """
    layer, arch = ConvWorkload(R=3, S=3, C=8, K=8), PIMArchitecture()
    spatial_bounds = SpatialBounds(layer, arch, Objective.named("latency"), Restriction(layer, arch, subspace=subspace))
    assert spatial_bounds.lower_bound is not None
    step = SearchParameters().tile_steps[0]
    expected = 16 * len(spatial_bounds.candidates(int(spatial_bounds.lower_bound * (1 + step)))[0])
    for most, is_few in ((expected, True), (expected - 1, False)):
        tiles = TileBounds(
            spatial_bounds, build_tables(layer, arch), parameters=SearchParameters(tiles_latency=most, busy_tiles=0.0)
        )
        listed = tiles.candidates(2 * spatial_bounds.lower_bound).tiles
        assert tiles.is_enabled == (is_few and not subspace.is_aligned)
        assert tiles.is_enabled or listed is None
