"""Whether bounds per tiles hold: every legal mapping's own tiles must be found at its exact cost or below."""

import functools
import itertools
import random
from collections.abc import Sequence

import attrs
import numpy as np
import pytest

from cpsat_pim import ConvWorkload, PIMArchitecture
from cpsat_pim.arch.memory import MemoryLevel
from cpsat_pim.arch.pe_array import ComputeUnit, PEArray, PhyDim2
from cpsat_pim.base.dims import Dim, Level, Tensor
from cpsat_pim.evaluate.cost import predict, to_machine
from cpsat_pim.mapper.bounds.spatial_bounds import SpatialBounds
from cpsat_pim.mapper.bounds.stream_bounds import build_tables
from cpsat_pim.mapper.bounds.tile_bounds import TileBounds, TileEnumerations
from cpsat_pim.mapper.result import Objective
from cpsat_pim.mapper.space.parameters import DEFAULTS, SearchParameters
from cpsat_pim.mapper.space.restriction import Restriction
from cpsat_pim.mapper.space.subspace import Subspace
from cpsat_pim.mapping import BANKS, ONE_BANK, BankCounts, Mapping
from cpsat_pim.mapping.check import check_mapping
from cpsat_pim.mapping.constraints import Constraints
from cpsat_pim.study.fuzz.enumeration import every_mapping
from tables.bounds.layer import CLASS_OF, INFINITE_COST
from tables.bounds.outer_state import CASES, NONE_FREE
from tables.bounds.shapes import ShapeTable
from tables.dram import row_miss
from tables.factors import divisors
from tests.cross.test_bounds import MACHINES, draw_mapping, in_turns, restriction_of
from tests.cross.test_groups import nest
from tests.cross.test_solver_against_enumeration import machine, with_dram

#: So small that all of their tiles can be enumerated, up to the cost of the most expensive mapping.
LAYERS = {
    "1x1": ConvWorkload(P=6, Q=3, C=16, K=8),
    "3x3": ConvWorkload(R=3, S=3, P=6, Q=2, C=4, K=4),
    "strided 1x1": ConvWorkload(P=6, Q=2, C=8, K=8, stride=(2, 2)),
    "5x5 stride 2": ConvWorkload(R=5, S=5, P=4, Q=4, C=4, K=4, stride=(2, 2)),
    "matrix": ConvWorkload(C=64, K=55, N=4),
    "wide partial sums": ConvWorkload(C=32, K=64, output_bytes=1, psum_bytes=4),
    "groups": ConvWorkload(R=3, S=3, P=4, Q=4, C=2, K=2, G=4),
}
#: Of which there are more tiles than the least numbers of parameters.
MANY_TILES = ConvWorkload(R=3, S=3, P=6, Q=6, C=4, K=4)
OBJECTIVES = [Objective.named(kind) for kind in ("energy", "blended", "latency")]
#: An array without double buffers whose ports are slow.
SLOW = attrs.evolve(
    PIMArchitecture(),
    hierarchy=(
        attrs.evolve(PIMArchitecture().hierarchy[0], double_buffered=False, entries=64, read_bandwidth_limit=3),
        attrs.evolve(PIMArchitecture().hierarchy[1], double_buffered=False, entries=4096, ports=1),
        *PIMArchitecture().hierarchy[2:],
    ),
)
#: Row buffers that hold no more than a few tiles, of which the array needs many.
SMALL_ROWS = attrs.evolve(
    PIMArchitecture(),
    hierarchy=(
        *PIMArchitecture().hierarchy[:2],
        attrs.evolve(PIMArchitecture().hierarchy[2], row_buffer_size=128, entries=256),
        PIMArchitecture().hierarchy[3],
    ),
)
#: One element of 4 lanes with one slot beside two banks of short rows, as on hbm-pim: the MACs draw most of it.
DRAWN_FROM_ROWS = attrs.evolve(
    SMALL_ROWS,
    shared_data_bus=True,
    spatial_reduction=False,
    node_banks=2,
    pe_array=PEArray(array_shape=PhyDim2(1, 1), compute_unit=ComputeUnit(unit_type="simd", num_macs=4)),
    hierarchy=(
        attrs.evolve(PIMArchitecture().hierarchy[0], double_buffered=False, entries=32),
        attrs.evolve(PIMArchitecture().hierarchy[1], entries=1, stores=(False,) * 3, bypass_defined=True),
        attrs.evolve(SMALL_ROWS.hierarchy[2], row_buffer_size=32, entries=64),
        PIMArchitecture().hierarchy[3],
    ),
)
ALL_MACHINES = {
    **MACHINES, "slow": SLOW, "two banks": with_dram(PIMArchitecture(), num_banks=2), "small rows": SMALL_ROWS,
    "one bank on a bus": PIMArchitecture(node_banks=1, shared_data_bus=True),
    "slow on a bus": attrs.evolve(SLOW, shared_data_bus=True),
    "one slot, drawn": DRAWN_FROM_ROWS,
}  # fmt: skip
DRAWN = 6


@functools.cache
def stream_tables(layer: ConvWorkload, arch: PIMArchitecture, counts: BankCounts = ONE_BANK) -> list[ShapeTable]:
    """Return the tables of a layer on a machine with so many banks, built once."""
    return build_tables(layer, arch, counts=counts)


def tile_bounds(
    layer: ConvWorkload,
    arch: PIMArchitecture,
    objective: Objective,
    subspace: Subspace,
    parameters: SearchParameters = DEFAULTS,
    mapping: Mapping | None = None,
) -> TileBounds:
    """Return tile bounds that are enabled for any objective, of a mapping's restriction and layouts if one is given."""
    restriction = Restriction(layer, arch, subspace=subspace)
    if mapping is not None:
        restriction = restriction_of(layer, arch, mapping, subspace, Constraints(layout=mapping.layout))
    spatial_bounds = SpatialBounds(layer, arch, objective, restriction)
    tiles = TileBounds(spatial_bounds, stream_tables(layer, arch, restriction.bank_counts), parameters=parameters)
    tiles.tighten()
    return tiles


def bound_of(layer: ConvWorkload, arch: PIMArchitecture, objective: Objective, mapping: Mapping, trial: int) -> int:
    """Return the bound of a mapping's tile in its layouts if it is at most a trial bound, else one more than that.

    No layout makes the bound lower than that of free ones.
    """
    subspace = Subspace.ALIGNED if any(mapping.stored[Level.ROW_BUFFER]) else Subspace.MERGED
    tiles = tile_bounds(layer, arch, objective, subspace, mapping=mapping)
    pes = [mapping.array_factor(d) for d in Dim]
    vector = [*pes, *mapping.spatial[2], *map(int, mapping.stored[Level.PE])]
    found = tiles.enumerate(trial, np.array([vector]), np.array([0]))
    assert found is not None
    same = (found.tiles[:, 9:17] == mapping.extents(Level.GLOBAL_BUFFER)).all(axis=1)
    if any(mapping.stored[Level.PE]):  # else it does not matter which loops are the PEs' own
        same &= (found.tiles[:, 1:9] == mapping.extents(Level.PE)).all(axis=1)
    return int(found.tiles[same, -1].min(initial=trial + 1))


@pytest.mark.parametrize(("reduces", "scans"), [(True, 1), (False, 2)])
def test_copies_that_the_dram_adds_are_read_back_in_each_step(reduces: bool, scans: int) -> None:
    """Four lanes make four partial sums of one output in each of 144 steps, and nothing stores outputs on chip. If the
    lanes are not added up, a step reads the output before it writes it: two columns, each in a scan of its own.
    """
    layer, hierarchy = ConvWorkload(P=6, Q=3, C=4, K=8), PIMArchitecture().hierarchy
    buffers = [attrs.evolve(level, stores=(True, True, False)) for level in hierarchy[:-1]]
    arch = PIMArchitecture(spatial_reduction=reduces, hierarchy=(*buffers, hierarchy[-1]))
    rows = [[1] * 8 for _ in range(7)]
    rows[Level.DRAM][Dim.P], rows[Level.DRAM][Dim.Q], rows[Level.DRAM][Dim.K], rows[-1][Dim.C] = 6, 3, 8, 4
    mapping = Mapping(
        temporal=rows[:4], spatial=rows[4:], order=[[], [], [], [Dim.P, Dim.Q, Dim.K]], stored=[[False] * 3] * 3
    )
    figures, objective = predict(layer, arch, mapping).figures, Objective.named("latency")
    assert figures.column_accesses[Tensor.O] == scans * 144
    bound = bound_of(layer, arch, objective, mapping, objective.value(figures.latency_cycles, 0))
    assert objective.value(scans * 144 * to_machine(arch).dram.tCCD, 0) <= bound
    assert bound <= objective.value(figures.latency_cycles, 0)


@pytest.mark.parametrize(
    ("name", "machine", "kind"), in_turns(len(OBJECTIVES), LAYERS, ALL_MACHINES, [o.kind for o in OBJECTIVES])
)
def test_tiles_cost_no_less_than_their_bound(name: str, machine: str, kind: str) -> None:
    """Of any legal mapping, row-aligned or not, in whatever order, with whatever loops outside the global buffer."""
    layer, arch, rng = LAYERS[name], ALL_MACHINES[machine], random.Random(f"{name} {machine} {kind}")
    objective = Objective.named(kind)
    for _ in range(DRAWN):
        mapping = draw_mapping(layer, arch, rng)
        figures = predict(layer, arch, mapping).figures
        value = objective.value(figures.latency_cycles, figures.energy_fj)
        assert bound_of(layer, arch, objective, mapping, value) <= value


@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.parametrize("machine", [name for name, arch in ALL_MACHINES.items() if arch.shared_data_bus])
def test_tiles_over_a_bus_cost_no_less_than_their_bound(name: str, machine: str) -> None:
    """Of mappings whose tensors are all stored on chip, so that loads wait for each other (docs/solver.md, B21)."""
    layer, arch, rng = LAYERS[name], ALL_MACHINES[machine], random.Random(f"{name} {machine}")
    for _ in range(DRAWN):
        drawn = draw_mapping(layer, arch, rng)
        mapping = attrs.evolve(drawn, stored=[drawn.stored[0], [True] * 3, [False] * 3], block_h=0, block_w=0)
        if not check_mapping(layer, arch, mapping):
            cycles = predict(layer, arch, mapping).figures.latency_cycles
            assert bound_of(layer, arch, Objective.named("latency"), mapping, cycles) <= cycles


@pytest.mark.parametrize("objective", OBJECTIVES, ids=lambda o: o.kind)
def test_waits_for_partial_sums_are_not_added_to_streams_of_operands(objective: Objective) -> None:
    """Weights that take most of the time while outputs return once from DRAM: both waits may coincide, by the formula.

    16 x 8 PEs with 16 channels each sum up half of 512 channels of 8 outputs, then those of the next 8 outputs.
    """
    layer, arch = ConvWorkload(C=512, K=64), MACHINES["default"]
    mapping = nest(("C16", "", "", "C2 K8"), ("IWO", "", ""), h="C16")
    width = [8 if d is Dim.K else 1 for d in Dim]
    mapping = attrs.evolve(mapping, spatial=(mapping.spatial[0], width, [1] * 8))
    figures = predict(layer, arch, mapping).figures
    value = objective.value(figures.latency_cycles, figures.energy_fj)
    assert bound_of(layer, arch, objective, mapping, value) <= value


def test_work_on_one_tile_hides_the_load_of_weights_behind_it() -> None:
    """Two tiles of weights, each used by 16 tiles of inputs, of two columns, and of outputs, of one. The second one's
    load is hidden by the work on one of these 32, less their own loads, each of which opens a row; the first one's not
    at all, nor the first row and two columns of inputs.
    """
    layer, arch = ConvWorkload(P=16, C=64, K=64), ALL_MACHINES["one bank on a bus"]
    drawn, width = nest(("", "C8 K16", "", "K2 P16"), ("", "IWO", ""), h="C8"), [2 if d is Dim.K else 1 for d in Dim]
    mapping = attrs.evolve(drawn, spatial=(drawn.spatial[0], width, [1] * 8), banks=BANKS["IWO"], layout=(1, 1, 1))
    figures, dram, steps = predict(layer, arch, mapping).figures, to_machine(arch).dram, 16 * 8 * 32
    bound = bound_of(layer, arch, Objective.named("latency"), mapping, figures.latency_cycles)
    loads, hidden = dram.tCCD * figures.column_accesses[Tensor.W], steps // 32 - 3 * dram.tCCD - 2 * row_miss(dram)
    assert hidden > 0
    assert steps + loads - hidden + dram.tRCD <= bound <= figures.latency_cycles


def test_sweeps_over_weights_open_their_rows_for_each_output_that_is_kept() -> None:
    """Two iterations of 4 lanes make 8 channels of one of 4 positions. All 64 loops of C keep the 8 sums, and the MACs
    draw weights of 8 B in each, from rows of 32 B: 64 * 8 / 32 = 16 rows for each of 4 positions, and a column for each
    of 4 * 64 * 2 steps. Of fewer than 16 parts each fills more than a row; from 16 parts on the sums leave and return
    15 times at least, which takes more columns than 64 rows take time.
    """
    layer = ConvWorkload(P=4, C=64, K=8)
    arch = attrs.evolve(DRAWN_FROM_ROWS, node_banks=3)
    rows = [[1] * 8 for _ in range(7)]
    rows[Level.PE][Dim.K], rows[Level.DRAM][Dim.P], rows[Level.DRAM][Dim.C], rows[-1][Dim.K] = 2, 4, 64, 4
    mapping = Mapping(
        temporal=rows[:4],
        spatial=rows[4:],
        order=[[Dim.K], [], [], [Dim.P, Dim.C]],
        stored=[[True, False, True], [False] * 3, [False] * 3],
        layout=(1, 1, 1),
    )
    assert not check_mapping(layer, arch, mapping)
    figures, dram = predict(layer, arch, mapping).figures, to_machine(arch).dram
    assert (figures.row_activations[Tensor.W], figures.column_accesses[Tensor.W]) == (64, 512)
    bound = bound_of(layer, arch, Objective.named("latency"), mapping, figures.latency_cycles)
    assert dram.tCCD * 512 + row_miss(dram) * 64 <= bound <= figures.latency_cycles


@pytest.mark.parametrize(
    ("layer", "entries"), in_turns(2, [ConvWorkload(R=3, P=3, K=2), ConvWorkload(R=3, P=3, C=2)], [8, 12])
)
def test_no_loops_outside_a_row_aligned_tile_cost_less_than_its_bound(layer: ConvWorkload, entries: int) -> None:
    """All ways to have the loops outside a tile of single elements in the row buffer, where little fits, and DRAM."""
    toy = machine("", "IWO", "IWO")
    row_buffer = attrs.evolve(toy.hierarchy[Level.ROW_BUFFER], entries=entries)
    arch = attrs.evolve(toy, hierarchy=(*toy.hierarchy[:2], row_buffer, toy.hierarchy[3]))
    ones, free = (1,) * 8, (None,) * 8
    inside = Constraints(temporal=(ones, ones, free, free), spatial=(ones,) * 3, layout=(0, 0, 0))
    mappings = [m for m in every_mapping(layer, arch, inside) if any(m.stored[Level.ROW_BUFFER])]
    figures = [predict(layer, arch, mapping).figures for mapping in mappings]
    for objective in OBJECTIVES:
        values = [objective.value(one.latency_cycles, one.energy_fj) for one in figures]
        least = min(values)
        bound = bound_of(layer, arch, objective, mappings[values.index(least)], least)
        assert bound == least if objective.kind == "energy" else bound <= least  # with time there is what overlaps


def test_ports_share_an_odd_number_of_bytes() -> None:
    """105 bytes over two ports at 0.001 a cycle take 52,500 cycles: no port has to pass 53 of them."""
    toy = machine("", "IWO!", "")
    slow = attrs.evolve(toy.hierarchy[Level.GLOBAL_BUFFER], entries=128, ports=2, read_bandwidth_limit=0.001)
    arch, layer = attrs.evolve(toy, hierarchy=(toy.hierarchy[0], slow, *toy.hierarchy[2:])), ConvWorkload(C=5, K=7)
    for mapping in every_mapping(layer, arch):
        cycles = predict(layer, arch, mapping).figures.latency_cycles
        assert bound_of(layer, arch, Objective.named("latency"), mapping, cycles) <= cycles


@pytest.mark.parametrize("objective", OBJECTIVES, ids=lambda o: o.kind)
@pytest.mark.parametrize("subspace", [Subspace.MERGED, Subspace.ALIGNED], ids=lambda subspace: subspace.name)
@pytest.mark.parametrize("name", ["1x1", "3x3", "matrix", "groups"])
def test_pruned_tiles_cost_more(name: str, subspace: Subspace, objective: Objective) -> None:
    """With a falling trial bound that prunes sets of tiles, the least bound is that of an enumeration without one."""
    tiles = tile_bounds(LAYERS[name], MACHINES["default"], objective, subspace)
    assert tiles.spatial_bounds.lower_bound is not None
    far = 20 * tiles.spatial_bounds.lower_bound
    vectors, values = tiles.spatial_bounds.candidates(far)
    some = random.Random(name).sample(range(len(vectors)), 12)
    falling = tiles.enumerate(far, vectors[some], values[some], margin=8)
    whole = tiles.enumerate(INFINITE_COST, vectors[some], values[some])
    assert falling is not None
    assert whole is not None
    assert len(falling.tiles) < len(whole.tiles)
    assert falling.lower_bounds.min() == whole.lower_bounds.min() == whole.tiles[:, -1].min()


@pytest.mark.parametrize("objective", OBJECTIVES, ids=lambda o: o.kind)
@pytest.mark.parametrize("subspace", [Subspace.MERGED, Subspace.ALIGNED], ids=lambda subspace: subspace.name)
@pytest.mark.parametrize("name", ["1x1", "3x3", "5x5 stride 2", "groups"])
def test_no_tile_up_to_a_trial_bound_is_pruned(name: str, subspace: Subspace, objective: Objective) -> None:
    """Tiles up to several trial bounds are those of an enumeration that prunes none, with the same bounds."""
    tiles = tile_bounds(LAYERS[name], MACHINES["default"], objective, subspace)
    vectors, values = tiles.spatial_bounds.candidates(INFINITE_COST)
    some = random.Random(name).sample(range(len(vectors)), 12)
    whole = tiles.enumerate(INFINITE_COST, vectors[some], values[some])
    assert whole is not None
    for share in (0.01, 0.1, 0.5):
        trial = int(np.quantile(whole.tiles[:, -1], share))
        again = tile_bounds(LAYERS[name], MACHINES["default"], objective, subspace)
        found = again.enumerate(trial, vectors[some], values[some])
        assert found is not None
        assert sorted(found.tiles.tolist()) == sorted(whole.tiles[whole.tiles[:, -1] <= trial].tolist())


@pytest.mark.parametrize("name", ["1x1", "3x3", "groups"])
def test_scans_of_open_extents_are_the_least_of_all_multiples(name: str) -> None:
    """Of a few boxes, against a walk over all boxes of the tensor: closed extents are equal, open ones multiples."""
    layer = LAYERS[name]
    tiles = tile_bounds(layer, MACHINES["default"], OBJECTIVES[0], Subspace.MERGED)
    costs, choices, drawn = tiles.figures.fixed, [divisors(n) for n in layer.bounds], random.Random(name)
    strides, level = costs.layer["strides"][0], costs.layer["open_level"][0]
    assert (costs.open_boxes[0] == costs.boxes).all()
    for _ in range(200):
        t, opened, small = drawn.randrange(3), drawn.randrange(9), [drawn.choice(of) for of in choices]

        def place(extents: Sequence[int], t: int = t) -> int:
            return sum(choices[d].index(n) * strides[t, d] for d, n in enumerate(extents))

        larger = [
            [m for m in of if m % n == 0] if d < opened else [n]
            for d, (of, n) in enumerate(zip(choices, small, strict=True))
        ]
        least = np.min([costs.boxes[t, place(e)] for e in itertools.product(*larger)], axis=0)
        assert (costs.open_boxes[level[opened], t, place(small)] == least).all()


@pytest.mark.parametrize("subspace", [Subspace.MERGED, Subspace.ALIGNED], ids=lambda subspace: subspace.name)
@pytest.mark.parametrize("few", [SearchParameters(hard_tiles=1000), SearchParameters(kept_tiles=100)])
def test_too_many_tiles_are_known_as_far_as_they_were_enumerated(subspace: Subspace, few: SearchParameters) -> None:
    """All tiles below the bound of the next vector are known; a trial bound for which they are is no higher than it."""
    layer, arch = MANY_TILES, MACHINES["default"]
    whole, some = (tile_bounds(layer, arch, OBJECTIVES[0], subspace, of) for of in (DEFAULTS, few))
    assert whole.spatial_bounds.lower_bound is not None
    far = whole.spatial_bounds.lower_bound * 11 // 10
    assert (every := whole.candidates(far).tiles) is not None
    assert some.candidates(far).tiles is None
    reached = some.trial_bound_beyond(whole.spatial_bounds.lower_bound, INFINITE_COST)
    assert reached is not None
    assert whole.spatial_bounds.lower_bound < reached < far
    known = some.candidates(reached).tiles
    assert known is not None
    assert 0 < len(known) == (every[:, -1] <= reached).sum()
    assert some.lower_bound(far) == known[:, -1].min()


def test_nothing_is_bounded_after_more_tiles_than_are_kept() -> None:
    """Of one spatial mapping with thousands of tiles, as many as are kept and those of one set more."""
    layer, arch = MANY_TILES, MACHINES["default"]
    spatial_bounds = SpatialBounds(layer, arch, OBJECTIVES[0], Restriction(layer, arch))
    counts: dict[int, int] = {}
    for kept in (20, 100_000):
        bounded: list[int] = []
        tiles = TileBounds(
            spatial_bounds,
            stream_tables(layer, arch),
            on_enumerated=bounded.append,
            parameters=SearchParameters(kept_tiles=kept),
        )
        vectors, values = spatial_bounds.candidates(INFINITE_COST)
        tiles.enumerate(INFINITE_COST, vectors[:1], values[:1])
        counts[kept] = sum(bounded)
    assert 20 < counts[20] < counts[100_000] / 4


def test_an_enumeration_that_is_stopped_claims_no_more_than_it_has_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """The time is up at its first tile: no vector is done, so it is known what the first one costs at least."""
    spatial_bounds = tile_bounds(MANY_TILES, PIMArchitecture(), OBJECTIVES[0], Subspace.MERGED).spatial_bounds
    counted: list[int] = []
    tiles = TileBounds(spatial_bounds, stream_tables(MANY_TILES, PIMArchitecture()), on_enumerated=counted.append)
    monkeypatch.setattr("cpsat_pim.mapper.bounds.tile_bounds.call_watched", lambda call, _: call(np.ones(1, np.int64)))
    trial = 2 * (spatial_bounds.lower_bound or 0)
    vectors, bounds = spatial_bounds.candidates(trial)
    assert tiles.enumerate(trial, vectors, bounds) is None
    known = tiles._enumerations.known
    assert known is not None
    assert (known.trial_bound, len(known.tiles)) == (bounds.min() - 1, 0)
    assert len(vectors) > 1
    assert sum(counted) < 1000


def test_too_many_tiles_are_enumerated_once_by_subspaces_that_share_them() -> None:
    """The second subspace knows from the first that there are too many."""
    few, shared = SearchParameters(trial_tiles=1000), TileEnumerations()
    layer, arch = MANY_TILES, MACHINES["default"]
    seen: list[list[int]] = [[], []]
    for counts, subspace in zip(seen, (Subspace.MERGED, Subspace.SPLIT), strict=True):
        spatial_bounds = SpatialBounds(layer, arch, OBJECTIVES[0], Restriction(layer, arch, subspace=subspace))
        tiles = TileBounds(spatial_bounds, stream_tables(layer, arch), shared, counts.append, parameters=few)
        assert spatial_bounds.lower_bound is not None
        far = 2 * spatial_bounds.lower_bound
        assert tiles.enumerate(far, *spatial_bounds.candidates(far)) is None
    assert sum(seen[0]) > 1000
    assert not seen[1]


@pytest.mark.parametrize("machine", ["default", "small rows", "two banks"])
@pytest.mark.parametrize("name", LAYERS)
def test_bounds_of_dram_loops_rise_with_the_extents_inside_them(name: str, machine: str) -> None:
    """A bound for a tile holds for all extents that are multiples of its own: it is no higher than theirs."""
    tiles = tile_bounds(LAYERS[name], ALL_MACHINES[machine], OBJECTIVES[0], Subspace.ALIGNED)
    outer, of = tiles.dram_loops, divisors_of(LAYERS[name])
    grid = [len(found) for found in of]
    for case in range(CASES):
        for d in range(8) if case == NONE_FREE else (d for d in range(8) if CLASS_OF[d] == case):
            for figures in (outer.cycles[case], outer.linked[case], outer.fj[case], outer.rows[case]):
                along = np.moveaxis(figures.reshape(-1, *grid), d + 1, 0)
                for one, more in itertools.combinations(range(grid[d]), 2):
                    if of[d][more] % of[d][one] == 0:
                        assert (along[one] <= along[more]).all()


def divisors_of(layer: ConvWorkload) -> list[list[int]]:
    """The divisors of each bound."""
    return [[n for n in range(1, bound + 1) if bound % n == 0] for bound in layer.bounds]


def test_tiles_whose_rows_cost_almost_the_largest_energy_are_found() -> None:
    """240 rows of 3 J: each of 64 steps opens one of each tensor, but for 16 partial sums that are not read before. A
    bound of 192 is more than 2^58 fJ, the mapping still less than 2^60.
    """
    none = MemoryLevel(name="none", entries=64, stores=(False,) * 3, bypass_defined=True, row_buffer_size=16)
    arch = PIMArchitecture(
        hierarchy=(none, none, none, MemoryLevel(name="DRAM", entries=2**20, double_buffered=False)),
        pe_array=PEArray(array_shape=PhyDim2(h=1, w=1)),
        page_policy="closed",
        dram_timings={"co_w": 32},
        activation_energy=3e9,
    )
    layer = ConvWorkload(P=4, C=4, K=4)
    mapping = nest(("", "", "", "P4 K4 C4"), ("", "", ""))
    figures = predict(layer, arch, mapping).figures
    assert 240 * 3 * 10**15 <= figures.energy_fj < 241 * 3 * 10**15
    for objective in (Objective.named("energy"), Objective.named("latency")):
        value = objective.value(figures.latency_cycles, figures.energy_fj)
        assert bound_of(layer, arch, objective, mapping, value) <= value
