"""What is read of a program's answers."""

import threading

import pytest

from cpsat_pim import ConvWorkload, PIMArchitecture
from cpsat_pim.base.dims import Level, Tensor
from cpsat_pim.mapper.bounds.spatial_bounds import Screen
from cpsat_pim.mapper.bounds.stream_bounds import build_tables
from cpsat_pim.mapper.bounds.tile_bounds import TileScreen
from cpsat_pim.mapper.model.master import Program
from cpsat_pim.mapper.result import Objective
from cpsat_pim.mapper.search.solver import ask
from cpsat_pim.mapper.space.restriction import Freedom
from cpsat_pim.mapper.space.subspace import Part


@pytest.mark.parametrize("part", [Part.MERGED, Part.ALIGNED])
def test_literals_are_read_as_the_mapping_has_them(part: Part) -> None:
    """A tensor's scans are boxes unless the row buffer takes it; a negated literal is the contrary."""
    layer, arch, objective = ConvWorkload(P=14, Q=14, C=64, K=64), PIMArchitecture(), Objective.named("latency")
    screen = Screen(layer, arch, objective, Freedom(layer, arch, part=part))
    assert screen.least is not None
    program = Program(TileScreen(screen, build_tables(layer, arch)), 2 * screen.least)
    solutions = ask(program, 30, 0, {}, threading.Event(), first=True).solutions
    assert solutions
    for solution in solutions:
        for t in (Tensor.I, Tensor.W):
            is_box = program.streams.scans[t].is_box
            is_aligned = solution.stored[t][Level.ROW_BUFFER]
            assert bool(solution.value(is_box)) is not is_aligned
            assert bool(solution.value(program.b.negated(is_box))) is is_aligned
        if part is Part.ALIGNED:
            assert any(of[Level.ROW_BUFFER] for of in solution.stored)
