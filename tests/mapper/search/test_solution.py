"""What is read of a solution of a master problem."""

import threading

import pytest

from cpsat_pim import ConvWorkload, PIMArchitecture
from cpsat_pim.base.dims import Level, Tensor
from cpsat_pim.mapper.bounds.spatial_bounds import SpatialBounds
from cpsat_pim.mapper.bounds.stream_bounds import build_tables
from cpsat_pim.mapper.bounds.tile_bounds import TileBounds
from cpsat_pim.mapper.model.master import MasterProblem
from cpsat_pim.mapper.result import Objective
from cpsat_pim.mapper.search import SolveRequest
from cpsat_pim.mapper.search.solver import solve_master
from cpsat_pim.mapper.space.restriction import Restriction
from cpsat_pim.mapper.space.subspace import Subspace


@pytest.mark.parametrize("subspace", [Subspace.MERGED, Subspace.ALIGNED])
def test_literals_are_read_as_the_mapping_has_them(subspace: Subspace) -> None:
    """A tensor's scans are boxes unless the row buffer takes it; a negated literal is the contrary."""
    layer, arch, objective = ConvWorkload(P=14, Q=14, C=64, K=64), PIMArchitecture(), Objective.named("latency")
    spatial_bounds = SpatialBounds(layer, arch, objective, Restriction(layer, arch, subspace=subspace))
    assert spatial_bounds.lower_bound is not None
    master = MasterProblem(TileBounds(spatial_bounds, build_tables(layer, arch)), 2 * spatial_bounds.lower_bound)
    solutions = solve_master(
        master, SolveRequest(objective=Objective.named("latency")), threading.Event(), 30, first=True
    ).solutions
    assert solutions
    for solution in solutions:
        for t in (Tensor.I, Tensor.W):
            is_box = master.streams.scans[t].is_box
            is_aligned = solution.stored[t][Level.ROW_BUFFER]
            assert bool(solution.value(is_box)) is not is_aligned
            assert bool(solution.value(master.b.negated(is_box))) is is_aligned
        if subspace is Subspace.ALIGNED:
            assert any(of[Level.ROW_BUFFER] for of in solution.stored)
