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
from cpsat_pim.mapper.bounds.spatial_bounds import Screen
from cpsat_pim.mapper.bounds.stream_bounds import build_tables
from cpsat_pim.mapper.bounds.tile_bounds import TileScreen
from cpsat_pim.mapper.model.master import Program
from cpsat_pim.mapper.model.variables import CLASSES
from cpsat_pim.mapper.result import Objective
from cpsat_pim.mapper.search import Options
from cpsat_pim.mapper.search.cuts import Cuts
from cpsat_pim.mapper.search.solution import Solution
from cpsat_pim.mapper.search.solve import climb_parts
from cpsat_pim.mapper.search.solver import ask
from cpsat_pim.mapper.search.state import Search
from cpsat_pim.mapper.space.restriction import Freedom
from cpsat_pim.mapping import Mapping
from cpsat_pim.mapping.check import check_mapping
from cpsat_pim.mapping.constraints import Constraints
from tables.factors import divisors
from tests.cross.test_bounds import DRAWN, LAYERS, MACHINES, arranged, contains, fix, hold_streams, part_of
from tests.cross.test_groups import nest, rows, slow_pes
from tests.cross.test_solver_against_enumeration import machine


def parted(order: Sequence[Dim]) -> set[Dim]:
    """Loops of the innermost one's class that others lie inside."""
    innermost = next((d for d in reversed(order) if d is not Dim.G), None)
    of_class = next((dims for dims in CLASSES if innermost in dims), ())
    gathered = {*itertools.takewhile(lambda d: d in of_class, reversed(order))}
    return {d for d in order if d in of_class} - gathered


def true_program(search: Search, mapping: Mapping, apart: Collection[Dim] = ()) -> Program:
    """A program of all that costs as little as a mapping, left no choice but what is true of it, or loops `apart`."""
    figures, part = predict(search.layer, search.arch, mapping).figures, part_of(mapping)
    assert part is not None
    freedom = Freedom(search.layer, search.arch, search.options.constraints, part)
    tiles = TileScreen(Screen(search.layer, search.arch, search.objective, freedom), search.tables)
    program = Program(tiles, search.objective.value(figures.latency_cycles, figures.energy_fj))
    fix(program.b, program.v, mapping)
    for m, literals in program.reuse.parted.items():
        for d, is_parted in literals.items():
            program.b.model.add(is_parted == int(d in (apart or parted(mapping.order[m]))))
    return program


def answers(program: Program) -> list[Solution]:
    """What CP-SAT answers, if anything."""
    return ask(program, 60, 0, {}, threading.Event(), first=True).solutions


def learn_from(search: Search, mapping: Mapping, apart: Collection[Dim] = ()) -> None:
    """What a search learns of all streams, if this mapping is what a program answers, with some loops `apart`."""
    program = true_program(search, mapping, apart)
    solution = answers(program)[0]
    lessons = search.lessons_of(program.screen.freedom)
    Cuts(solution, search.completions(solution), lessons).add_streams(list(Tensor))


def leaves(search: Search, mapping: Mapping) -> bool:
    """Whether what a search has learnt leaves a mapping what is true of it."""
    program = true_program(search, mapping)
    search.lessons_of(program.screen.freedom).teach(program)
    hold_streams(program, search.layer, search.arch, mapping)
    return bool(answers(program))


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
    search = Search(layer, arch, objective, Options(time_limit=2))
    drafts: list[Mapping] = []
    learn = Cuts.add_streams
    monkeypatch.setattr(Cuts, "add_streams", lambda cuts, which: drafts.append(cuts.draft) or learn(cuts, which))  # type: ignore[func-returns-value]
    climb_parts(search)
    rng = random.Random(f"{name} {machine}")
    for draft in rng.choices(drafts, k=3 * DRAWN if drafts else 0):
        mapping = neighbour(layer, arch, draft, rng)
        assert contains(layer, arch, objective, search.tables, mapping, lessons=search.lessons_of(Freedom(layer, arch)))


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
    search = Search(layer, arch, Objective.named("energy"), Options(constraints=constraints))
    search.tables = build_tables(layer, arch)
    learn_from(search, once)
    assert leaves(search, twice)


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
    search = Search(layer, arch, Objective.named("energy"), Options())
    search.tables = build_tables(layer, arch)
    learn_from(search, once)
    assert leaves(search, twice)


def test_tiles_are_as_late_only_if_loops_are_parted_alike() -> None:
    """K and P round G fetch W's tiles 64 times, as P round K and Q does; but where Q brings a tile back at once its
    hits hide behind the row that is still to be closed: 336 cycles late, of G round K and P alone 420.
    """
    layer = ConvWorkload(P=2, Q=4, K=4, G=8, weight_bytes=32)
    arch = rows(128, column_bits=256)
    arch = attrs.evolve(
        arch, dram_timings=attrs.evolve(arch.dram_timings, tRC=80), pe_array=PEArray(array_shape=PhyDim2(h=1, w=1))
    )
    search = Search(layer, arch, Objective.named("latency"), Options())
    search.tables = build_tables(layer, arch)
    learn_from(search, nest(("Q4", "", "", "K4 P2 G8"), ("IWO", "", "")))
    assert leaves(search, nest(("Q2", "", "", "G8 P2 K4 Q2"), ("IWO", "", "")))


def test_an_answer_that_no_order_allows_tells_nothing_of_others() -> None:
    """G is to be outside C, so C is never parted, whatever a program says: nothing comes back, and the last write-out
    opens its row. Where R is parted, outputs come back, and it finds its row open.
    """
    layer = ConvWorkload(R=2, C=2, G=8, input_bytes=4, output_bytes=2, psum_bytes=2)
    arch = attrs.evolve(rows(8), pe_array=PEArray(array_shape=PhyDim2(h=4, w=1)))
    arch = slow_pes(arch, read_bandwidth_limit=Fraction(1, 256))
    none: list[int | None] = [None] * 8
    constraints = Constraints(temporal=[none, [1] * 8, [1] * 8, none], order=[[], [], [], [Dim.G, Dim.C]])
    search = Search(layer, arch, Objective.named("latency"), Options(constraints=constraints))
    search.tables = build_tables(layer, arch)
    learn_from(search, nest(("R2", "", "", "G2 C2"), ("IWO", "IWO", ""), h="G4"), apart=[Dim.C])
    assert leaves(search, nest(("C2", "", "", "R2 G2"), ("IWO", "IWO", ""), h="G4"))
