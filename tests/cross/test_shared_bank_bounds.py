"""Bounds of tensors that share a bank, where rows are short: every mapping is a solution at its exact cost or below.

Rows of a few tiles, outputs that return as wider sums, and tiles that are held while others pass (docs/solver.md, B15
to B19, C13). `test_bounds.contains` also limits each stream to the exact one, so a bound one row too high fails.
"""

import itertools
import random
import threading
from collections.abc import Callable, Iterable, Iterator

import attrs
import numpy as np
import pytest

from cpsat_pim import ConvWorkload, PIMArchitecture
from cpsat_pim.base.dims import Dim, Level
from cpsat_pim.evaluate.cost import predict
from cpsat_pim.mapper.bounds.spatial_bounds import SpatialBounds
from cpsat_pim.mapper.bounds.stream_bounds import build_tables, spilled_outputs, turned_rows
from cpsat_pim.mapper.bounds.tile_bounds import TileBounds
from cpsat_pim.mapper.model.master import MasterProblem
from cpsat_pim.mapper.result import Objective
from cpsat_pim.mapper.search import SolveRequest
from cpsat_pim.mapper.search.held_cut import HeldScans
from cpsat_pim.mapper.search.returns_cut import ReturningTiles
from cpsat_pim.mapper.search.solution import Solution
from cpsat_pim.mapper.search.solver import solve_master
from cpsat_pim.mapping import BANKS, OWN_BANKS, Mapping
from cpsat_pim.mapping.check import check_mapping
from tables.bounds.shapes import ShapeTable
from tests.cross.test_bounds import (
    FEW_TILES,
    contains,
    draw_mapping,
    fix,
    hold_streams,
    in_turns,
    restriction_of,
    subspace_of,
)

WIDE_SUMS = {"psum_bytes": 2}
LAYERS = {
    "matrix": ConvWorkload(C=64, K=48, P=24, **WIDE_SUMS),  # type: ignore[arg-type]
    "batch": ConvWorkload(C=48, K=64, N=16),
    "odd": ConvWorkload(C=45, K=35, P=21),
    "1x1": ConvWorkload(P=8, Q=6, C=32, K=32, **WIDE_SUMS),  # type: ignore[arg-type]
    "3x3": ConvWorkload(R=3, S=3, P=8, Q=8, C=8, K=16, **WIDE_SUMS),  # type: ignore[arg-type]
    "groups": ConvWorkload(P=12, C=12, K=16, G=6, **WIDE_SUMS),  # type: ignore[arg-type]
    "depthwise": ConvWorkload(R=3, S=3, P=8, Q=8, G=24, **WIDE_SUMS),  # type: ignore[arg-type]
}
DRAWN = 2
#: Layers of which cuts are made.
CUT = ["matrix", "groups", *(pytest.param(name, marks=pytest.mark.slow) for name in ("1x1", "3x3"))]


def machine(row_bytes: int, node_banks: int) -> PIMArchitecture:
    """Return the default machine with such rows and so many banks a node."""
    arch = PIMArchitecture(node_banks=node_banks)
    buffer = attrs.evolve(arch.hierarchy[Level.ROW_BUFFER], row_buffer_size=row_bytes)
    return attrs.evolve(arch, hierarchy=(*arch.hierarchy[:2], buffer, arch.hierarchy[3]))


@pytest.mark.parametrize(
    ("name", "row_bytes", "node_banks", "kind"), in_turns(2, LAYERS, [32, 256], [1, 2], ["energy", "latency"])
)
def test_mappings_of_shared_banks_are_solutions_at_their_exact_cost(
    name: str, row_bytes: int, node_banks: int, kind: str
) -> None:
    """No bound exceeds the exact activations, columns or cycles of any stream."""
    layer, arch, objective = LAYERS[name], machine(row_bytes, node_banks), Objective.named(kind)
    rng = random.Random(f"{name} {row_bytes} {node_banks}")
    drawn = (draw_mapping(layer, arch, rng) for _ in itertools.count())
    shared = (mapping for mapping in drawn if mapping.banks != OWN_BANKS)
    for mapping in itertools.islice(shared, DRAWN):
        assert contains(layer, arch, objective, build_tables(layer, arch), mapping)


@pytest.mark.parametrize("row_bytes", [32, 64, 256])
@pytest.mark.parametrize("bounds", [{"K": 6, "P": 8}, {"K": 4, "Q": 3, "P": 5}, {"N": 2, "K": 12, "Q": 2, "P": 2}])
def test_rows_that_passes_turn_to_are_those_of_the_addresses(bounds: dict[str, int], row_bytes: int) -> None:
    """Each box turns once for each of its rows, but one if it may begin in the row in which some box ends."""
    layer, arch = ConvWorkload(C=4, psum_bytes=4, **bounds), machine(row_bytes, 1)
    table = spilled_outputs(layer, arch)
    turned = turned_rows(layer, arch.row_bytes, table)
    for extents, layout, found in zip(table.extents, table.layout, turned, strict=True):
        boxes = [
            sorted(rows)
            for rows in rows_of_boxes(layer, dict(zip(table.dims, extents, strict=True)), layout, row_bytes)
        ]
        may_share = any(last[-1] == first[0] for last, first in itertools.product(boxes, repeat=2))
        distinct = sum(map(len, boxes))
        assert found in (distinct - len(boxes), distinct)
        assert found == distinct - len(boxes) or not may_share


def rows_of_boxes(layer: ConvWorkload, extents: dict[int, int], layout: int, row_bytes: int) -> list[set[int]]:
    """Return the rows of each box of O's sums, from the address of every element: NGKQP or NQPGK, 4 bytes each."""
    axes = [(Dim.N, Dim.K, Dim.Q, Dim.P), (Dim.N, Dim.Q, Dim.P, Dim.K)][layout]
    boxes: dict[tuple[int, ...], set[int]] = {}
    for place, index in enumerate(np.ndindex(*(layer.bounds[d] for d in axes))):
        box = tuple(i // int(extents.get(d, 1)) for i, d in zip(index, axes, strict=True))
        boxes.setdefault(box, set()).add(4 * place // row_bytes)
    return list(boxes.values())


@pytest.mark.parametrize("name", CUT)
def test_cuts_of_held_tiles_hold_for_the_mapping_that_they_are_made_from(name: str) -> None:
    """The MACs draw the weights from the only bank. No cut asks for more rows or cycles than the exact ones (C13)."""

    def held(solution: Solution) -> Iterator[HeldScans]:
        for t, u in solution.master.streams.held:
            if (cut := HeldScans.of(solution, t, u)) is not None:
                yield cut

    cuts_hold(name, held, drawn=True)


@pytest.mark.parametrize("name", CUT)
def test_cuts_of_returning_tiles_hold_for_the_mapping_that_they_are_made_from(name: str) -> None:
    """Outputs come back to the only bank. No cut asks for more rows or cycles than the exact ones (C14)."""
    cuts_hold(name, ReturningTiles.all_of, drawn=False)


@pytest.mark.parametrize("groups", [1, 3])
def test_passes_while_a_tile_is_held_are_not_passes_over_its_box(groups: int) -> None:
    """While a tile of I is held, 12 sums of 4 bytes are passed over by two at a time, twice each. Passes over all 12,
    which lie in two rows of 32 bytes, would return from one row to the other; those over two do so less often.
    """
    layer, arch, objective = (
        ConvWorkload(P=8, C=2, K=12, G=groups, psum_bytes=4),
        machine(32, 1),
        Objective.named("energy"),
    )
    rows = {"buffer": {Dim.C: 2, Dim.K: 2}, "row": {}, "dram": {Dim.P: 8, Dim.G: groups, Dim.K: 6}}
    mapping = Mapping(
        temporal=[[1] * 8, *([row.get(d, 1) for d in Dim] for row in rows.values())],
        spatial=[[1] * 8] * 3,
        order=[[], *([d for d in row if row[d] > 1] for row in rows.values())],
        stored=[(False, False, True), (True, False, False), (False, False, False)],
        layout=(0, 0, 1),
        banks=BANKS["IWO"],
    )
    assert not check_mapping(layer, arch, mapping)
    master, request = (
        master_of(layer, arch, objective, build_tables(layer, arch), mapping),
        SolveRequest(objective=objective),
    )
    hold_streams(master, layer, arch, mapping)
    (solution, *_) = solve_master(master, request, threading.Event(), 600, first=True).solutions
    for cut in ReturningTiles.all_of(solution):
        cut.add_to(master)
    assert solve_master(master, request, threading.Event(), 600, first=True).solutions


def cuts_hold(name: str, cuts: Callable[[Solution], Iterable[HeldScans | ReturningTiles]], drawn: bool) -> None:
    """Add the cuts of random mappings to their master problems; more than three of them ask for rows.

    `drawn`: the MACs take the weights from the DRAM.
    """
    layer, arch, objective = LAYERS[name], machine(64, 1), Objective.named("latency")
    rng, tables, made = random.Random(f"{name} {drawn}"), build_tables(layer, arch), 0
    for _ in range(12):
        mapping = draw_mapping(layer, arch, rng)
        if drawn:
            mapping = attrs.evolve(mapping, stored=[(i, False, o) for i, _, o in mapping.stored])
        if subspace_of(mapping) is None or check_mapping(layer, arch, mapping):
            continue
        master, request = master_of(layer, arch, objective, tables, mapping), SolveRequest(objective=objective)
        for solution in solve_master(master, request, threading.Event(), 600, first=True).solutions[:1]:
            for cut in cuts(solution):
                made += cut.least.activations > 0
                cut.add_to(master)
        hold_streams(master, layer, arch, mapping)
        assert solve_master(master, request, threading.Event(), 600, first=True).solutions
    assert made > 3


def master_of(
    layer: ConvWorkload, arch: PIMArchitecture, objective: Objective, tables: list[ShapeTable], mapping: Mapping
) -> MasterProblem:
    """Return the master problem up to a mapping's cost with its decisions."""
    figures, subspace = predict(layer, arch, mapping).figures, subspace_of(mapping)
    assert subspace is not None
    spatial_bounds = SpatialBounds(layer, arch, objective, restriction_of(layer, arch, mapping, subspace))
    tiles = TileBounds(spatial_bounds, tables, parameters=FEW_TILES)
    master = MasterProblem(tiles, objective.value(figures.latency_cycles, figures.energy_fj))
    fix(master.b, master.v, mapping)
    return master
