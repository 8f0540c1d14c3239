"""Cuts hold for all mappings for which they are declared valid: each is in the master problem of its cost with all
cuts.
"""

import itertools
import random
import threading
from collections.abc import Collection, Sequence
from fractions import Fraction

import attrs
import pytest

from cpsat_pim import ConvWorkload, PIMArchitecture
from cpsat_pim.arch.pe_array import PEArray, PhyDim2
from cpsat_pim.base.dims import Dim, Level, Tensor
from cpsat_pim.evaluate.cost import predict
from cpsat_pim.mapper.bounds.spatial_bounds import SpatialBounds
from cpsat_pim.mapper.bounds.stream_bounds import build_tables
from cpsat_pim.mapper.bounds.tile_bounds import TileBounds
from cpsat_pim.mapper.model.master import MasterProblem
from cpsat_pim.mapper.model.variables import CLASSES
from cpsat_pim.mapper.result import Objective
from cpsat_pim.mapper.search import SolveRequest
from cpsat_pim.mapper.search.cuts import CutGenerator
from cpsat_pim.mapper.search.solution import Solution
from cpsat_pim.mapper.search.solve import search_subspaces
from cpsat_pim.mapper.search.solver import solve_master
from cpsat_pim.mapper.search.state import SearchState
from cpsat_pim.mapper.space.restriction import Restriction
from cpsat_pim.mapping import ONE_BANK, Mapping
from cpsat_pim.mapping.check import check_mapping
from cpsat_pim.mapping.constraints import Constraints
from tables.factors import divisors
from tests.cross.test_bounds import (
    DRAWN,
    LAYERS,
    MACHINES,
    arranged,
    contains,
    fix,
    hold_streams,
    in_turns,
    subspace_of,
)
from tests.cross.test_groups import nest, rows, slow_pes
from tests.cross.test_solver_against_enumeration import machine

REQUEST = SolveRequest(objective=Objective.named("energy"))


def interleaved(order: Sequence[Dim]) -> set[Dim]:
    """Return the loops of the innermost class that have loops of other classes inside."""
    innermost = next((d for d in reversed(order) if d is not Dim.G), None)
    of_class = next((dims for dims in CLASSES if innermost in dims), ())
    contiguous = {*itertools.takewhile(lambda d: d in of_class, reversed(order))}
    return {d for d in order if d in of_class} - contiguous


def master_of(state: SearchState, mapping: Mapping, apart: Collection[Dim] = ()) -> MasterProblem:
    """Return the master problem up to a mapping's cost with all decisions fixed to the mapping's.

    `apart`: loops that are interleaved instead of those that are so in the mapping.
    """
    figures, subspace = predict(state.layer, state.arch, mapping).figures, subspace_of(mapping)
    assert subspace is not None
    restriction = Restriction(state.layer, state.arch, state.request.constraints, subspace)
    tiles = TileBounds(
        SpatialBounds(state.layer, state.arch, state.objective, restriction), state.tables[restriction.bank_counts]
    )
    master = MasterProblem(tiles, state.objective.value(figures.latency_cycles, figures.energy_fj))
    fix(master.b, master.v, mapping)
    for m, literals in master.reuse.interleaved.items():
        for d, is_interleaved in literals.items():
            master.b.model.add(is_interleaved == int(d in (apart or interleaved(mapping.order[m]))))
    return master


def solutions_of(master: MasterProblem) -> list[Solution]:
    """Return the solutions that CP-SAT finds, if any."""
    return solve_master(master, REQUEST, threading.Event(), 60, first=True).solutions


def add_cuts_of(state: SearchState, mapping: Mapping, apart: Collection[Dim] = ()) -> None:
    """Add the cuts of all streams that a search adds if this mapping is the solution, with some loops `apart`."""
    master = master_of(state, mapping, apart)
    solution = solutions_of(master)[0]
    cut_pool = state.cut_pool_of(master.spatial_bounds.restriction)
    CutGenerator(solution, state.completions(solution), cut_pool).add_stream_cuts(list(Tensor))


def admits(state: SearchState, mapping: Mapping) -> bool:
    """Return whether a mapping keeps all cuts of a search, with streams no longer than its own."""
    master = master_of(state, mapping)
    state.cut_pool_of(master.spatial_bounds.restriction).add_to(master)
    hold_streams(master, state.layer, state.arch, mapping)
    return bool(solutions_of(master))


def neighbour(layer: ConvWorkload, arch: PIMArchitecture, mapping: Mapping, rng: random.Random) -> Mapping:
    """Return a legal mapping like another one, with some factors at other levels, other orders, layouts and blocks."""
    while True:
        temporal = [list(row) for row in mapping.temporal]
        for _ in range(rng.randrange(3)):
            (one, other), d = rng.sample(list(Level), 2), rng.choice(list(Dim))
            factor = rng.choice(divisors(temporal[one][d]))
            temporal[one][d] //= factor
            temporal[other][d] *= factor
        beside = arranged(layer, attrs.evolve(mapping, temporal=temporal), rng)
        if subspace_of(beside) and not check_mapping(layer, arch, beside):
            return beside


@pytest.mark.parametrize(("name", "machine"), in_turns(2, ["matrix", "strided 1x1"], MACHINES))
def test_cuts_hold_for_mappings_like_those_they_were_made_from(
    name: str, machine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With all cuts of a search, a master problem still contains every mapping that costs at most its trial bound."""
    layer, arch, objective = LAYERS[name], MACHINES[machine], Objective.named("latency")
    state = SearchState(layer, arch, SolveRequest(objective=objective, time_limit=2))
    drafts: list[Mapping] = []
    add_cuts = CutGenerator.add_stream_cuts
    monkeypatch.setattr(
        CutGenerator, "add_stream_cuts", lambda cuts, which: drafts.append(cuts.draft) or add_cuts(cuts, which)
    )  # type: ignore[func-returns-value]
    search_subspaces(state)
    rng = random.Random(f"{name} {machine}")
    for draft in rng.choices(drafts, k=3 * DRAWN if drafts else 0):
        mapping = neighbour(layer, arch, draft, rng)
        assert contains(
            layer,
            arch,
            objective,
            state.tables[ONE_BANK],
            mapping,
            cut_pool=state.cut_pool_of(Restriction(layer, arch)),
        )


def test_a_cut_is_not_valid_for_other_loops_that_an_order_holds_outside() -> None:
    """Both P and Q are held round C and K: P 4 goes over the two rows of W, one per C, four times, P 2 round C 2 round
    Q 2 twice. W is fetched as often in both.
    """
    order = [Dim.P, Dim.C, Dim.Q, Dim.K, Dim.N]
    layer = ConvWorkload(P=4, Q=2, C=2, K=2, N=2, stride=(2, 1), weight_bytes=32)
    arch, constraints = (
        machine("", "IWO!", ""),
        Constraints(
            temporal=[[None] * 8, [None] * 8, [1] * 8, [None] * 8], order=[[], [], [], order], layout=[None, 1, None]
        ),
    )
    levels = list(arch.hierarchy)
    levels[Level.GLOBAL_BUFFER] = attrs.evolve(levels[Level.GLOBAL_BUFFER], entries=80)
    levels[Level.ROW_BUFFER] = attrs.evolve(levels[Level.ROW_BUFFER], row_buffer_size=64)
    arch = attrs.evolve(arch, hierarchy=levels, dram_timings={"co_w": 256})
    once, twice = (
        nest(("", inside, "", outside), ("", "IWO", ""), layout=(0, 1, 0))
        for inside, outside in (("Q2", "P4 C2 K2 N2"), ("P2", "P2 C2 Q2 K2 N2"))
    )
    opened = [predict(layer, arch, mapping).figures.row_activations[Tensor.W] for mapping in (once, twice)]
    assert opened == [8, 4]
    state = SearchState(layer, arch, SolveRequest(objective=Objective.named("energy"), constraints=constraints))
    state.tables[ONE_BANK] = build_tables(layer, arch)
    add_cuts_of(state, once)
    assert admits(state, twice)


def test_a_cut_is_not_valid_for_other_loops_that_an_uneven_tile_holds_outside() -> None:
    """P lies outside the tiles of I, and P, C and Q outside those of O: as if an order held them."""
    layer = ConvWorkload(P=4, Q=4, C=2, K=2, N=2)
    arch = machine("W", "IO", "", uneven_residency=True)
    levels = list(arch.hierarchy)
    levels[Level.PE] = attrs.evolve(levels[Level.PE], entries=64)
    levels[Level.GLOBAL_BUFFER] = attrs.evolve(levels[Level.GLOBAL_BUFFER], entries=256)
    levels[Level.ROW_BUFFER] = attrs.evolve(levels[Level.ROW_BUFFER], row_buffer_size=4)
    layer, arch = attrs.evolve(layer, weight_bytes=2), attrs.evolve(arch, hierarchy=levels)
    once, twice = (
        nest((inside, outside, "", ""), ("W", "IO", ""), layout=(0, 1, 0), outside=((0, 0, 0), (1, 0, 3)))
        for inside, outside in (("Q2", "P4 C2 Q2 K2 N2"), ("P2", "P2 C2 Q4 K2 N2"))
    )
    opened = [predict(layer, arch, mapping).figures.row_activations[Tensor.W] for mapping in (once, twice)]
    assert opened == [8, 4]
    state = SearchState(layer, arch, SolveRequest(objective=Objective.named("energy")))
    state.tables[ONE_BANK] = build_tables(layer, arch)
    add_cuts_of(state, once)
    assert admits(state, twice)


def test_a_cut_on_stalls_is_valid_only_for_loops_interleaved_alike() -> None:
    """K and P round G fetch W's tiles 64 times, as P round K and Q does; but where Q brings a tile back at once its
    hits hide behind the row that is still to be closed: a stall of 336 cycles; with G round K and P alone, of 420.
    """
    layer = ConvWorkload(P=2, Q=4, K=4, G=8, weight_bytes=32)
    arch = rows(128, column_bits=256)
    arch = attrs.evolve(
        arch, dram_timings=attrs.evolve(arch.dram_timings, tRC=80), pe_array=PEArray(array_shape=PhyDim2(h=1, w=1))
    )
    state = SearchState(layer, arch, SolveRequest(objective=Objective.named("latency")))
    state.tables[ONE_BANK] = build_tables(layer, arch)
    add_cuts_of(state, nest(("Q4", "", "", "K4 P2 G8"), ("IWO", "", "")))
    assert admits(state, nest(("Q2", "", "", "G8 P2 K4 Q2"), ("IWO", "", "")))


def test_a_solution_that_no_order_allows_gives_no_cut_on_others() -> None:
    """G is to be outside C, so C is never interleaved, whatever a solution says: nothing comes back, and the last
    write-out opens its row. If R is interleaved, outputs come back, and the last write-out finds its row open.
    """
    layer = ConvWorkload(R=2, C=2, G=8, input_bytes=4, output_bytes=2, psum_bytes=2)
    arch = attrs.evolve(rows(8), pe_array=PEArray(array_shape=PhyDim2(h=4, w=1)))
    arch = slow_pes(arch, read_bandwidth_limit=Fraction(1, 256))
    none: list[int | None] = [None] * 8
    constraints = Constraints(temporal=[none, [1] * 8, [1] * 8, none], order=[[], [], [], [Dim.G, Dim.C]])
    state = SearchState(layer, arch, SolveRequest(objective=Objective.named("latency"), constraints=constraints))
    state.tables[ONE_BANK] = build_tables(layer, arch)
    add_cuts_of(state, nest(("R2", "", "", "G2 C2"), ("IWO", "IWO", ""), h="G4"), apart=[Dim.C])
    assert admits(state, nest(("C2", "", "", "R2 G2"), ("IWO", "IWO", ""), h="G4"))
