"""Every bound of the master problem is valid: a legal mapping is a solution at its exact cost or below.

A master problem contains all mappings that cost at most its trial bound. So with a mapping's own exact cost as the
trial bound, it contains the mapping. If some bound is too high, it is infeasible once its decisions are fixed to the
mapping.
"""

import itertools
import math
import random
import threading
from collections.abc import Iterable
from typing import Any

import attrs
import numpy as np
import pytest
from ortools.sat.python import cp_model

from cpsat_pim import ConvWorkload, PIMArchitecture
from cpsat_pim.arch.reading import read_arch
from cpsat_pim.base.dims import ON_CHIP, Dim, Level, Tensor
from cpsat_pim.evaluate.cost import predict, to_machine, to_nest
from cpsat_pim.mapper.bounds.spatial_bounds import SpatialBounds
from cpsat_pim.mapper.bounds.stream_bounds import build_tables
from cpsat_pim.mapper.bounds.tile_bounds import TileBounds
from cpsat_pim.mapper.model.builder import Builder, Int
from cpsat_pim.mapper.model.master import MasterProblem
from cpsat_pim.mapper.model.variables import CLASSES, Variables
from cpsat_pim.mapper.result import Objective
from cpsat_pim.mapper.search import SolveRequest
from cpsat_pim.mapper.search.cut_pool import CutPool
from cpsat_pim.mapper.search.placement import input_blocks
from cpsat_pim.mapper.search.solver import solve_master
from cpsat_pim.mapper.search.state import SearchState
from cpsat_pim.mapper.search.subspace_search import SubspaceSearch
from cpsat_pim.mapper.search.window_cut import WindowCut
from cpsat_pim.mapper.space.banks import searched_banks
from cpsat_pim.mapper.space.candidates import Candidates
from cpsat_pim.mapper.space.parameters import SearchParameters
from cpsat_pim.mapper.space.restriction import Restriction
from cpsat_pim.mapper.space.subspace import Subspace
from cpsat_pim.mapping import Mapping
from cpsat_pim.mapping.check import check_mapping
from cpsat_pim.mapping.constraints import FREE, Constraints
from tables.bounds.shapes import ShapeTable
from tables.counts.stream import dram_stream
from tables.factors import divisors
from tests.cross.test_solver_against_enumeration import with_dram

LAYERS = {
    "1x1": ConvWorkload(P=14, Q=14, C=64, K=64),
    "3x3": ConvWorkload(R=3, S=3, P=14, Q=14, C=32, K=32),
    "strided 1x1": ConvWorkload(P=14, Q=14, C=32, K=64, stride=(2, 2)),
    "5x5 stride 2": ConvWorkload(R=5, S=5, P=12, Q=12, C=4, K=16, stride=(2, 2)),
    "matrix": ConvWorkload(C=512, K=250, N=4),
    "groups": ConvWorkload(R=3, S=3, P=8, Q=8, C=4, K=4, G=8),
}
MACHINES = {
    "default": PIMArchitecture(),
    "closed pages": PIMArchitecture(page_policy="closed"),
    "one bus, no sharing": PIMArchitecture(shared_data_bus=True, multicast=False, spatial_reduction=False),
    "four banks, no reduction": with_dram(PIMArchitecture(spatial_reduction=False), num_banks=4),
    "one bank of the node": PIMArchitecture(node_banks=1),
    "two banks of the node, no reduction": PIMArchitecture(node_banks=2, spatial_reduction=False),
}
KINDS = ("latency", "energy", "blended")


def in_turns(share: int, *axes: Iterable[object]) -> list[Any]:
    """Return all combinations, of which one in `share` is quick: every pair of values of two axes is among those, if a
    third axis has at least `share` values.
    """
    return [
        pytest.param(*values, marks=[] if sum(indices) % share == 0 else pytest.mark.slow)
        for indices, values in (zip(*found, strict=True) for found in itertools.product(*map(enumerate, axes)))
    ]


def quick_of(cases: Iterable[str], turns: list[Any]) -> list[Any]:
    """Return combinations of which only those of some cases are quick, if they were before; the case comes first."""
    return [pytest.param(*p.values, marks=p.marks if p.values[0] in cases else pytest.mark.slow) for p in turns]


COMBINATIONS = in_turns(len(KINDS), LAYERS, MACHINES, KINDS)
#: Few: most of these mappings cost many times the optimum, and as much as too many tiles.
FEW_TILES = SearchParameters(trial_tiles=50_000)
DRAWN = 2
#: CP-SAT's parameters and most work, one after the other, for a master problem with a fixed mapping. Propagation is
#: mostly enough. Where it is not, a search without presolve may branch on figures of streams for half a minute; with
#: presolve, which takes two seconds, it ends without a conflict.
PINNED_SOLVES: tuple[tuple[dict[str, Any], float], ...] = (({}, 0.5), ({"cp_model_presolve": True}, math.inf))
#: Draws after which a test gives up if it needs mappings of some kind. The rarest kind took 20 draws each.
MOST_DRAWS = 1000


def subspace_of(mapping: Mapping) -> Subspace | None:
    """Return the subspace of a mapping; None if master problems have some loop of it at the other outer level."""
    loops = list(zip(mapping.temporal[Level.ROW_BUFFER], mapping.temporal[Level.DRAM], strict=True))
    if any(mapping.stored[Level.ROW_BUFFER]):
        return Subspace.ALIGNED
    if any(min(factors) > 1 for factors in loops):
        return Subspace.SPLIT
    return Subspace.MERGED if all(inner == 1 for inner, _ in loops) else None


def draw_mapping(layer: ConvWorkload, arch: PIMArchitecture, rng: random.Random) -> Mapping:
    """Return a legal mapping that uses some of the array: factors are drawn from the inside out until they fit.

    Uniform draws would not do: most mappings cost so much that their master problem takes minutes.
    """
    while True:
        temporal, spatial = [[1] * 8 for _ in Level], [[1] * 8 for _ in range(3)]
        left, room = list(layer.bounds), [16, 16, 4]
        for side in (2, 0, 1):
            d = rng.randrange(8)
            if all(spatial[other][d] == 1 for other in range(3)):
                spatial[side][d] = rng.choice([n for n in divisors(left[d]) if n <= room[side]])
                left[d] //= spatial[side][d]
        aligned = [rng.random() < 0.3 for _ in Tensor]
        is_split = rng.random() < 0.3
        for d in Dim:
            for m in (0, 1, 2) if any(aligned) or is_split else (0, 1):
                temporal[m][d] = rng.choice(divisors(left[d]))
                left[d] //= temporal[m][d]
            temporal[3][d] = left[d]
        stored = [[rng.random() < 0.6 for _ in Tensor], [rng.random() < 0.6 for _ in Tensor], aligned]
        choices = searched_banks(arch, Constraints(bank_counts=None))
        banks, counts = choices[0] if arch.node_banks is None else rng.choice(choices)
        draft = Mapping(
            temporal=temporal, spatial=spatial, order=[[]] * 4, stored=stored, banks=banks, bank_counts=counts
        )
        mapping = arranged(layer, draft, rng)
        if subspace_of(mapping) and not check_mapping(layer, arch, mapping):
            return mapping


def arranged(layer: ConvWorkload, mapping: Mapping, rng: random.Random) -> Mapping:
    """Return the mapping with random orders, layouts and input block."""
    order = [rng.sample([d for d in Dim if row[d] > 1], sum(n > 1 for n in row)) for row in mapping.temporal]
    layout = [rng.randrange(2) for _ in Tensor]
    mapping = attrs.evolve(mapping, order=order, layout=layout, block_h=0, block_w=0)
    if not mapping.stored[Level.ROW_BUFFER][Tensor.I]:
        return mapping
    block_h, block_w = rng.choice(input_blocks(layer, mapping))
    return attrs.evolve(mapping, block_h=block_h, block_w=block_w)


def fix(b: Builder, v: Variables, mapping: Mapping) -> None:
    """Fix factors, stored sets, innermost classes and uneven tiles to those of a mapping."""

    def equal(x: Int, value: int) -> None:
        if isinstance(x, int):
            assert x == value
        else:
            b.model.add(x == value)

    for d in Dim:
        for m in Level:
            equal(v.temporal[m][d], mapping.temporal[m][d])
        equal(v.pes[d], mapping.array_factor(d))
        equal(v.lanes[d], mapping.spatial[2][d])
    for t in Tensor:
        b.model.add(v.is_stored_set[t][tuple(mapping.stored[m][t] for m in range(3))] == 1)
    for m, literals in v.innermost.items():
        inner = [c for c in range(3) if mapping.order[m] and mapping.order[m][-1] in CLASSES[c]]
        if inner and not isinstance(literals[0], bool):
            b.model.add(literals[inner[0]] == 1)
    for m, t, d in itertools.product(ON_CHIP, Tensor, Dim):
        equal(b.flag(v.residency.outside[m][t][d]), int(d in mapping.order[m][: mapping.outside[m][t]]))


def contains(
    layer: ConvWorkload,
    arch: PIMArchitecture,
    objective: Objective,
    tables: list[ShapeTable],
    mapping: Mapping,
    constraints: Constraints = FREE,
    cut_pool: CutPool | None = None,
) -> bool:
    """Return whether the master problems up to a mapping's cost contain it, with streams no longer than its own.

    Also the one of its tile alone and, for split loops, the one that relaxes the split.
    """
    figures = predict(layer, arch, mapping).figures
    value = objective.value(figures.latency_cycles, figures.energy_fj)
    subspace = subspace_of(mapping)
    assert subspace is not None
    restriction = restriction_of(layer, arch, mapping, subspace, constraints)
    spatial_bounds = SpatialBounds(layer, arch, objective, restriction)
    tiles = TileBounds(spatial_bounds, tables, parameters=FEW_TILES)
    master = MasterProblem(tiles, value)
    if cut_pool is not None:
        cut_pool.add_to(master)
    hold_streams(master, layer, arch, mapping)
    few = MasterProblem(
        tiles, value, inner_extents=mapping.extents(Level.GLOBAL_BUFFER), candidates=candidates_of(mapping, arch)
    )
    if subspace is Subspace.SPLIT:
        relaxed = MasterProblem(tiles, value, any_split=True)
        if not has(relaxed, merged_loops(mapping)):
            return False
    return has(master, mapping) and has(few, mapping)


def restriction_of(
    layer: ConvWorkload, arch: PIMArchitecture, mapping: Mapping, subspace: Subspace, constraints: Constraints = FREE
) -> Restriction:
    """Return the restriction that holds a mapping: its tensors share a bank, and its loops fetch one of them most."""
    nest = to_nest(layer, mapping, arch.spatial_reduction)
    loops = {t: len(nest.fetch_loops(t, nest.consumers(t)[0])) for t in Tensor if nest.sharing(t)}
    fixed = attrs.evolve(constraints, banks=mapping.banks, bank_counts=mapping.bank_counts)
    return Restriction(layer, arch, fixed, subspace, most_fetched=max(loops, key=lambda t: loops[t], default=None))


def candidates_of(mapping: Mapping, arch: PIMArchitecture) -> Candidates:
    """Return a mapping's spatial mapping as the only candidate and, without uneven residency, its tile."""
    pes, lanes = [mapping.array_factor(d) for d in Dim], mapping.spatial[2]
    tile = [0, *mapping.extents(Level.PE), *mapping.extents(Level.GLOBAL_BUFFER), 0]
    vector = [*pes, *lanes, *map(int, mapping.stored[Level.PE])]
    return Candidates(np.array([vector]), np.array([0]), None if arch.uneven_residency else np.array([tile]))


def hold_streams(master: MasterProblem, layer: ConvWorkload, arch: PIMArchitecture, mapping: Mapping) -> None:
    """Limit every figure of each stream to that of the mapping's own stream."""
    nest, dram, streams = to_nest(layer, mapping, arch.spatial_reduction), to_machine(arch).dram, master.streams
    for t in Tensor:
        exact = dram_stream(nest, t, dram)
        master.b.model.add(streams.activations[t] <= exact.activations)
        if streams.timed:
            master.b.model.add(streams.columns[t] <= exact.columns)
            master.b.model.add(streams.cycles[t] <= exact.cycles)
            master.b.imply([], streams.closed_cycles[t] <= exact.closed_cycles)
            master.b.model.add(streams.end_cycles[t] <= (exact.last_cycles if t is Tensor.O else exact.first_cycles))


def merged_loops(mapping: Mapping) -> Mapping:
    """Return a mapping of split loops as the relaxation over all splits represents it."""
    inner, outer = mapping.temporal[2:]
    order = (*mapping.order[Level.DRAM], *mapping.order[Level.ROW_BUFFER])
    last_of_each = [d for i, d in enumerate(order) if d not in order[i + 1 :]]
    merged = tuple(m * n for m, n in zip(inner, outer, strict=True))
    return attrs.evolve(
        mapping, temporal=(*mapping.temporal[:2], (1,) * 8, merged), order=(*mapping.order[:2], (), last_of_each)
    )


def has(master: MasterProblem, mapping: Mapping) -> bool:
    """Return whether a master problem contains a mapping."""
    fix(master.b, master.v, mapping)
    for parameters, work in PINNED_SOLVES:
        request = SolveRequest(objective=master.objective, cp_sat_parameters=parameters)
        reply = solve_master(master, request, threading.Event(), 60, first=True, work=work)
        if reply.status != cp_model.UNKNOWN:
            break
    assert reply.status != cp_model.UNKNOWN
    return reply.status in (cp_model.OPTIMAL, cp_model.FEASIBLE)


@pytest.mark.parametrize(("name", "machine", "kind"), COMBINATIONS)
def test_master_problem_contains_every_mapping_at_its_exact_cost(name: str, machine: str, kind: str) -> None:
    """No bound exceeds the exact cost of any mapping."""
    layer, arch, objective = LAYERS[name], MACHINES[machine], Objective.named(kind)
    rng = random.Random(f"{name} {machine} {kind}")
    tables = build_tables(layer, arch)
    for _ in range(DRAWN):
        assert contains(layer, arch, objective, tables, draw_mapping(layer, arch, rng))


@pytest.mark.parametrize(
    ("name", "node_banks", "kind"), in_turns(2, ["3x3", "matrix", "groups"], [4, 16], ["latency", "energy"])
)
def test_master_problem_contains_every_mapping_with_several_banks(name: str, node_banks: int, kind: str) -> None:
    """Each tensor is bounded with its own number of banks, in layouts of small rows."""
    layer, arch = LAYERS[name], attrs.evolve(MACHINES["default"], node_banks=node_banks)
    row_buffer = attrs.evolve(arch.hierarchy[Level.ROW_BUFFER], row_buffer_size=64)
    arch = attrs.evolve(arch, hierarchy=(*arch.hierarchy[:2], row_buffer, arch.hierarchy[Level.DRAM]))
    rng = random.Random(f"{name} {node_banks} {kind}")
    for _ in range(DRAWN):
        mapping = draw_mapping(layer, arch, rng)
        tables = build_tables(layer, arch, counts=mapping.bank_counts)
        assert contains(layer, arch, Objective.named(kind), tables, mapping)


@pytest.mark.parametrize("shares", [False, True])
@pytest.mark.parametrize("name", ["1x1", "3x3", "matrix"])
def test_moves_into_one_slot_are_bounded(name: str, shares: bool) -> None:
    """As above, for the latency where the array waits for each move on chip."""
    layer, arch = LAYERS[name], PIMArchitecture(multicast=shares, spatial_reduction=shares)
    single = [attrs.evolve(memory, double_buffered=False) for memory in arch.hierarchy]
    arch = attrs.evolve(arch, hierarchy=single)
    rng, tables = random.Random(f"{name} {shares}"), build_tables(layer, arch)
    for _ in range(DRAWN):
        assert contains(layer, arch, Objective.named("latency"), tables, draw_mapping(layer, arch, rng))


@pytest.mark.parametrize("preset", ["gddr6-aim", "attacc"])
@pytest.mark.parametrize("name", ["3x3", "matrix"])
def test_streams_of_a_bank_on_a_shared_bus_are_bounded(name: str, preset: str) -> None:
    """Of the streams of a bank, all but the last end with their row closed, also where the bus adds up all banks."""
    layer, arch, objective = LAYERS[name], read_arch(preset), Objective.named("latency")
    mapping = draw_mapping(layer, arch, random.Random(f"{name} {preset} 0"))
    assert contains(layer, arch, objective, build_tables(layer, arch), mapping)


@pytest.mark.parametrize(
    ("name", "machine", "channels_innermost"),
    in_turns(2, ["3x3", "5x5 stride 2", "groups"], ["default", "closed pages"], [False, True]),
)
def test_rows_of_windows_hold_for_every_row_aligned_input(name: str, machine: str, channels_innermost: bool) -> None:
    """The bounds hold for any loops of the DRAM, and with those of C inside all others."""
    layer, arch, objective = LAYERS[name], MACHINES[machine], Objective.named("blended")
    rng = random.Random(f"{name} {machine} {channels_innermost}")
    cut_pool = CutPool(lambda: False)
    cut_pool.cuts.append(WindowCut.of(Restriction(layer, arch)))
    drawn = (draw_mapping(layer, arch, rng) for _ in range(MOST_DRAWS))
    aligned = (mapping for mapping in drawn if mapping.stored[Level.ROW_BUFFER][Tensor.I])
    wanted = (mapping for mapping in aligned if not channels_innermost or Dim.C in mapping.order[Level.DRAM])
    mappings = list(itertools.islice(wanted, DRAWN))
    assert len(mappings) == DRAWN
    for mapping in mappings:
        inner, outer = mapping.order[: Level.DRAM], mapping.order[Level.DRAM]
        order = sorted(outer, key=lambda d: d is Dim.C) if channels_innermost else outer
        ordered = attrs.evolve(mapping, order=(*inner, order))
        assert contains(layer, arch, objective, build_tables(layer, arch), ordered, cut_pool=cut_pool)


@pytest.mark.parametrize(("name", "machine", "kind"), COMBINATIONS)
def test_stream_limits_admit_the_streams_of_every_mapping(name: str, machine: str, kind: str) -> None:
    """The limits of a search admit mappings of all subspaces, as these share counted streams and cuts."""
    layer, arch, objective = LAYERS[name], MACHINES[machine], Objective.named(kind)
    state = SearchState(layer, arch, SolveRequest(objective=objective))
    subspace_searches = [SubspaceSearch(state, Restriction(layer, arch, subspace=subspace)) for subspace in Subspace]
    rng = random.Random(f"{name} {machine} {kind}")
    for _ in range(DRAWN):
        mapping = draw_mapping(layer, arch, rng)
        figures = predict(layer, arch, mapping).figures
        value = objective.value(figures.latency_cycles, figures.energy_fj)
        nest, dram = to_nest(layer, mapping, arch.spatial_reduction), to_machine(arch).dram
        limits = state.stream_limits(value)
        for t in Tensor:
            assert limits[t].admits(dram_stream(nest, t, dram))
        for subspace_search in subspace_searches:
            assert all(np.greater_equal(limits, subspace_search.spatial_bounds.stream_limits(value)).ravel())
