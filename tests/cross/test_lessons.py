"""Whether what is learnt of one answer holds for all others that it is said of: each must be in a program of its cost
that knows all lessons.
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
from cpsat_pim.mapper.search import Options
from cpsat_pim.mapper.search.cuts import CutGenerator
from cpsat_pim.mapper.search.solution import Solution
from cpsat_pim.mapper.search.solve import search_subspaces
from cpsat_pim.mapper.search.solver import solve_master
from cpsat_pim.mapper.search.state import SearchState
from cpsat_pim.mapper.space.restriction import Restriction
from cpsat_pim.mapping import Mapping
from cpsat_pim.mapping.check import check_mapping
from cpsat_pim.mapping.constraints import Constraints
from tables.factors import divisors
from tests.cross.test_bounds import DRAWN, LAYERS, MACHINES, arranged, contains, fix, hold_streams, part_of
from tests.cross.test_groups import nest, rows, slow_pes
from tests.cross.test_solver_against_enumeration import machine


def interleaved(order: Sequence[Dim]) -> set[Dim]:
    """Loops of the innermost one's class that others lie inside."""
    innermost = next((d for d in reversed(order) if d is not Dim.G), None)
    of_class = next((dims for dims in CLASSES if innermost in dims), ())
    contiguous = {*itertools.takewhile(lambda d: d in of_class, reversed(order))}
    return {d for d in order if d in of_class} - contiguous


def true_program(state: SearchState, mapping: Mapping, apart: Collection[Dim] = ()) -> MasterProblem:
    """A program of all that costs as little as a mapping, left no choice but what is true of it, or loops `apart`."""
    figures, subspace = predict(state.layer, state.arch, mapping).figures, part_of(mapping)
    assert subspace is not None
    restriction = Restriction(state.layer, state.arch, state.options.constraints, subspace)
    tiles = TileBounds(SpatialBounds(state.layer, state.arch, state.objective, restriction), state.tables)
    master = MasterProblem(tiles, state.objective.value(figures.latency_cycles, figures.energy_fj))
    fix(master.b, master.v, mapping)
    for m, literals in master.reuse.interleaved.items():
        for d, is_parted in literals.items():
            master.b.model.add(is_parted == int(d in (apart or interleaved(mapping.order[m]))))
    return master


def answers(master: MasterProblem) -> list[Solution]:
    """What CP-SAT answers, if anything."""
    return solve_master(master, 60, 0, {}, threading.Event(), first=True).solutions


def learn_from(state: SearchState, mapping: Mapping, apart: Collection[Dim] = ()) -> None:
    """What a search learns of all streams, if this mapping is what a program answers, with some loops `apart`."""
    master = true_program(state, mapping, apart)
    solution = answers(master)[0]
    cut_pool = state.cut_pool_of(master.spatial_bounds.restriction)
    CutGenerator(solution, state.completions(solution), cut_pool).add_streams(list(Tensor))


def leaves(state: SearchState, mapping: Mapping) -> bool:
    """Whether what a search has learnt leaves a mapping what is true of it."""
    master = true_program(state, mapping)
    state.cut_pool_of(master.spatial_bounds.restriction).add_to(master)
    hold_streams(master, state.layer, state.arch, mapping)
    return bool(answers(master))


def neighbour(layer: ConvWorkload, arch: PIMArchitecture, mapping: Mapping, rng: random.Random) -> Mapping:
    """A legal mapping much like another: some factors moved to another level, other orders, layouts and blocks."""
    while True:
        temporal = [list(row) for row in mapping.temporal]
        for _ in range(rng.randrange(3)):
            (one, other), d = rng.sample(list(Level), 2), rng.choice(list(Dim))
            factor = rng.choice(divisors(temporal[one][d]))
            temporal[one][d] //= factor
            temporal[other][d] *= factor
        beside = arranged(layer, attrs.evolve(mapping, temporal=temporal), rng)
        if part_of(beside) and not check_mapping(layer, arch, beside):
            return beside


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("name", ["matrix", "strided 1x1"])
def test_lessons_hold_for_mappings_like_those_they_were_learnt_from(
    name: str, machine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A program that knows all that a search has learnt still holds whatever costs as little as its target."""
    layer, arch, objective = LAYERS[name], MACHINES[machine], Objective.named("latency")
    state = SearchState(layer, arch, objective, Options(time_limit=2))
    drafts: list[Mapping] = []
    learn = CutGenerator.add_streams
    monkeypatch.setattr(
        CutGenerator, "add_streams", lambda cuts, which: drafts.append(cuts.draft) or learn(cuts, which)
    )  # type: ignore[func-returns-value]
    search_subspaces(state)
    rng = random.Random(f"{name} {machine}")
    for draft in rng.choices(drafts, k=3 * DRAWN if drafts else 0):
        mapping = neighbour(layer, arch, draft, rng)
        assert contains(
            layer, arch, objective, state.tables, mapping, cut_pool=state.cut_pool_of(Restriction(layer, arch))
        )


def test_loops_that_an_order_holds_outside_are_no_other_ones() -> None:
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
    state = SearchState(layer, arch, Objective.named("energy"), Options(constraints=constraints))
    state.tables = build_tables(layer, arch)
    learn_from(state, once)
    assert leaves(state, twice)


def test_loops_that_an_uneven_tile_holds_outside_are_no_other_ones() -> None:
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
    state = SearchState(layer, arch, Objective.named("energy"), Options())
    state.tables = build_tables(layer, arch)
    learn_from(state, once)
    assert leaves(state, twice)


def test_tiles_are_as_late_only_if_loops_are_parted_alike() -> None:
    """K and P round G fetch W's tiles 64 times, as P round K and Q does; but where Q brings a tile back at once its
    hits hide behind the row that is still to be closed: 336 cycles late, of G round K and P alone 420.
    """
    layer = ConvWorkload(P=2, Q=4, K=4, G=8, weight_bytes=32)
    arch = rows(128, column_bits=256)
    arch = attrs.evolve(
        arch, dram_timings=attrs.evolve(arch.dram_timings, tRC=80), pe_array=PEArray(array_shape=PhyDim2(h=1, w=1))
    )
    state = SearchState(layer, arch, Objective.named("latency"), Options())
    state.tables = build_tables(layer, arch)
    learn_from(state, nest(("Q4", "", "", "K4 P2 G8"), ("IWO", "", "")))
    assert leaves(state, nest(("Q2", "", "", "G8 P2 K4 Q2"), ("IWO", "", "")))


def test_an_answer_that_no_order_allows_tells_nothing_of_others() -> None:
    """G is to be outside C, so C is never parted, whatever a program says: nothing comes back, and the last write-out
    opens its row. Where R is parted, outputs come back, and it finds its row open.
    """
    layer = ConvWorkload(R=2, C=2, G=8, input_bytes=4, output_bytes=2, psum_bytes=2)
    arch = attrs.evolve(rows(8), pe_array=PEArray(array_shape=PhyDim2(h=4, w=1)))
    arch = slow_pes(arch, read_bandwidth_limit=Fraction(1, 256))
    none: list[int | None] = [None] * 8
    constraints = Constraints(temporal=[none, [1] * 8, [1] * 8, none], order=[[], [], [], [Dim.G, Dim.C]])
    state = SearchState(layer, arch, Objective.named("latency"), Options(constraints=constraints))
    state.tables = build_tables(layer, arch)
    learn_from(state, nest(("R2", "", "", "G2 C2"), ("IWO", "IWO", ""), h="G4"), apart=[Dim.C])
    assert leaves(state, nest(("C2", "", "", "R2 G2"), ("IWO", "IWO", ""), h="G4"))
