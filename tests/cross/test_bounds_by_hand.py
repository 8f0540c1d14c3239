"""Single mappings, computed by hand, whose cost some bound once exceeded: the master problem contains each of them."""

import attrs

from cpsat_pim import ConvWorkload, PIMArchitecture
from cpsat_pim.arch.pe_array import PEArray, PhyDim2
from cpsat_pim.base.dims import Dim, Level, Tensor
from cpsat_pim.evaluate.cost import predict, to_machine, to_nest
from cpsat_pim.mapper.bounds.spatial_bounds import SpatialBounds
from cpsat_pim.mapper.bounds.stream_bounds import build_tables
from cpsat_pim.mapper.bounds.tile_bounds import TileBounds
from cpsat_pim.mapper.model.master import MasterProblem
from cpsat_pim.mapper.result import Objective
from cpsat_pim.mapper.space.restriction import Restriction
from cpsat_pim.mapper.space.subspace import Subspace
from cpsat_pim.mapping import Mapping
from cpsat_pim.mapping.check import check_mapping
from tables.counts.cost import exact_cost
from tests.cross.test_bounds import contains, has
from tests.cross.test_solver_against_enumeration import with_dram


def test_last_write_out_may_take_less_than_a_row_miss() -> None:
    """No row is closed after it: with a short read latency its only row costs less than a miss between two others."""
    layer, arch = ConvWorkload(G=3), PIMArchitecture(dram_timings={"RL": 1})
    ones, groups = [1] * 8, [1] * 7 + [3]
    mapping = Mapping(
        temporal=[ones, ones, groups, ones],
        spatial=[ones] * 3,
        order=[(), (), (Dim.G,), ()],
        stored=[[False] * 3, [False, False, True], [True] * 3],
        block_h=1,
        block_w=1,
    )
    assert contains(layer, arch, Objective.named("latency"), build_tables(layer, arch), mapping)


def test_first_write_out_closes_no_row_before() -> None:
    """Three write-outs of two rows, and a read latency so short that one just opened costs less than a miss."""
    default = PIMArchitecture(dram_timings={"RL": 7, "tRCDRD": 7, "tRP": 20, "tRAS": 10, "tRTP": 17, "co_w": 32})
    hierarchy = list(default.hierarchy)
    hierarchy[Level.ROW_BUFFER] = attrs.evolve(hierarchy[Level.ROW_BUFFER], row_buffer_size=4)
    arch, layer = attrs.evolve(default, hierarchy=hierarchy), ConvWorkload(N=9, output_bytes=2, psum_bytes=2)
    ones, three = [1] * 8, [1] * 6 + [3, 1]
    mapping = Mapping(
        temporal=[ones, ones, ones, three],
        spatial=[three, ones, ones],
        order=[[], [], [], [Dim.N]],
        stored=[[False] * 3, [False, False, True], [False] * 3],
    )
    assert not check_mapping(layer, arch, mapping)
    assert contains(layer, arch, Objective.named("latency"), build_tables(layer, arch), mapping)


def test_a_first_write_out_may_take_less_than_the_miss_that_replaces_it() -> None:
    """One row miss alone exceeds the latency by the formula; without the row that is not closed before, it does not."""
    default = PIMArchitecture(dram_timings={"RL": 0, "tRCDRD": 14, "tRP": 14, "tRAS": 33, "tRTP": 40})
    single = [attrs.evolve(level, double_buffered=False) for level in default.hierarchy]
    arch, layer = attrs.evolve(default, hierarchy=single), ConvWorkload(N=2)
    ones, batch = [1] * 8, [1] * 6 + [2, 1]
    mapping = Mapping(
        temporal=[ones, ones, ones, batch],
        spatial=[ones] * 3,
        order=[[], [], [], [Dim.N]],
        stored=[[False] * 3, [False, False, True], [False, True, True]],
    )
    machine = to_machine(arch)
    dram, cycles = machine.dram, exact_cost(to_nest(layer, mapping, arch.spatial_reduction), machine).latency_cycles
    assert cycles < arch.dram_activation_latency < cycles - (dram.RL + dram.burst - dram.tRTP - dram.tRP)
    assert contains(layer, arch, Objective.named("latency"), build_tables(layer, arch), mapping)


def test_a_scan_that_opens_a_row_may_take_fewer_columns_than_others() -> None:
    """Tiles of 4 pixels and 3 of 12 channels lie in 4, 8, 8 and 4 columns of 4 B, and the first of each four opens a
    row of 48 B: the steps hide more of that one than of a tile of 6.
    """
    default = PIMArchitecture(dram_timings={"co_w": 32}, pe_array=PEArray(array_shape=PhyDim2(h=1, w=1)))
    hierarchy = list(default.hierarchy)
    hierarchy[Level.ROW_BUFFER] = attrs.evolve(hierarchy[Level.ROW_BUFFER], row_buffer_size=48)
    layer, arch, ones = ConvWorkload(P=80, C=12, K=3), attrs.evolve(default, hierarchy=hierarchy), [1] * 8
    mapping = Mapping(
        temporal=[[1, 1, 4, 1, 3, 3, 1, 1], ones, ones, [1, 1, 20, 1, 4, 1, 1, 1]],
        spatial=[ones] * 3,
        order=[(Dim.P, Dim.C, Dim.K), (), (), (Dim.P, Dim.C)],
        stored=[[True] * 3, [False] * 3, [False] * 3],
        layout=(1, 1, 1),
    )
    assert contains(layer, arch, Objective.named("latency"), build_tables(layer, arch), mapping)


def test_a_tile_that_was_read_back_leaves_a_row_open_in_each_bank() -> None:
    """It fills a row of all four banks; no other tile ends in these rows, but it was itself read a moment before."""
    layer, arch = ConvWorkload(C=2, K=8192), with_dram(PIMArchitecture(), num_banks=4)
    temporal, spatial = [[1] * 8 for _ in Level], [[1] * 8 for _ in range(3)]
    spatial[0][Dim.K], temporal[1][Dim.K], temporal[3][Dim.K], temporal[3][Dim.C] = 16, 256, 2, 2
    mapping = Mapping(
        temporal=temporal,
        spatial=spatial,
        order=[(), (Dim.K,), (), (Dim.C, Dim.K)],
        stored=[[False] * 3, [False, False, True], [False] * 3],
    )
    assert contains(layer, arch, Objective.named("latency"), build_tables(layer, arch), mapping)


def test_outputs_of_which_there_are_no_copies_do_not_come_back() -> None:
    """What MACs add up in DRAM is read back if there are copies; with a short read latency that takes longer."""
    arch = PIMArchitecture(spatial_reduction=False, page_policy="closed", dram_timings={"RL": 11})
    ones, nothing = [1] * 8, [[False] * 3] * 3
    mapping = Mapping(temporal=[ones] * 4, spatial=[ones] * 3, order=[()] * 4, stored=nothing)
    layer = ConvWorkload()
    assert contains(layer, arch, Objective.named("latency"), build_tables(layer, arch), mapping)


def test_partial_sums_lie_in_other_rows_than_outputs() -> None:
    """Three of them lie in a row of each of three banks, while outputs of half the width would share two banks."""
    layer = ConvWorkload(R=4, Q=7, N=9, output_bytes=2, psum_bytes=4)
    buffer = attrs.evolve(PIMArchitecture().hierarchy[Level.ROW_BUFFER], row_buffer_size=4)
    hierarchy = (*PIMArchitecture().hierarchy[:2], buffer, PIMArchitecture().hierarchy[3])
    arch = with_dram(PIMArchitecture(hierarchy=hierarchy, dram_timings={"co_w": 32}), num_banks=3)
    temporal = [[1] * 8 for _ in Level]
    temporal[1][Dim.N], temporal[3] = 3, [4, 1, 1, 7, 1, 1, 3, 1]
    mapping = Mapping(
        temporal=temporal,
        spatial=[[1] * 8] * 3,
        order=[(), (Dim.N,), (), (Dim.N, Dim.Q, Dim.R)],
        stored=[[False] * 3, [True, False, False], [False] * 3],
    )
    assert contains(layer, arch, Objective.named("energy"), build_tables(layer, arch), mapping)


def test_partial_sums_that_never_come_back_take_no_time() -> None:
    """Four copies of two bytes leave the array for a buffer that gives a byte in 100 cycles: reading them would take
    800.
    """
    default = PIMArchitecture().hierarchy
    slow = attrs.evolve(default[Level.GLOBAL_BUFFER], read_bandwidth_limit=0.01, double_buffered=False)
    arch = PIMArchitecture(hierarchy=(default[0], slow, *default[2:]), spatial_reduction=False)
    layer, ones = ConvWorkload(R=2, S=2, psum_bytes=2), [1] * 8
    mapping = Mapping(
        temporal=[ones] * 4,
        spatial=[[1, 2, *ones[2:]], [2, *ones[1:]], ones],
        order=[()] * 4,
        stored=[[True] * 3, [False, False, True], [False] * 3],
    )
    assert predict(layer, arch, mapping).figures.latency_cycles < 400
    assert contains(layer, arch, Objective.named("latency"), build_tables(layer, arch), mapping)


def test_rows_that_cost_no_time_may_be_opened_often() -> None:
    """Tiles of 32 x 32 of a matrix in rows of 16 KiB open two rows each, 2048 in all, with nothing to pay for it: the
    mapping takes hardly more cycles than its columns.
    """
    arch = PIMArchitecture().without_row_activation()
    pes, buffer, rows, dram = arch.hierarchy
    arch = attrs.evolve(
        arch,
        hierarchy=(
            attrs.evolve(pes, stores=(False,) * 3, bypass_defined=True),
            attrs.evolve(buffer, entries=2**21, bypass_defined=True),
            attrs.evolve(rows, row_buffer_size=2**14, stores=(False,) * 3, bypass_defined=True),
            dram,
        ),
        pe_array=PEArray(array_shape=PhyDim2(h=32, w=32)),
    )
    layer, none = ConvWorkload(C=1024, K=1024), (1,) * 8
    outside, over_h, over_w = list(none), list(none), list(none)
    outside[Dim.C] = outside[Dim.K] = over_h[Dim.K] = over_w[Dim.C] = 32
    mapping = Mapping(
        temporal=(none, none, none, outside),
        spatial=(over_h, over_w, none),
        order=((), (), (), (Dim.K, Dim.C)),
        stored=((False,) * 3, (True,) * 3, (False,) * 3),
    )
    figures, latency = predict(layer, arch, mapping).figures, Objective.named("latency")
    assert figures.row_activations[Tensor.W] == 2048
    tiles = TileBounds(
        SpatialBounds(layer, arch, latency, Restriction(layer, arch, subspace=Subspace.MERGED)),
        build_tables(layer, arch),
    )
    for spare in (0, 127):
        assert has(MasterProblem(tiles, figures.latency_cycles + spare), mapping)


def test_blocks_of_input_need_no_scan_of_spans() -> None:
    """Blocks of 16 x 1 x 32, each a row of 512 B, take 64 columns and 4 rows; single positions would take 64 and 7 at
    least, spans, which bring in the rows of I between two positions, 112 and 7: 661 cycles. A master problem of all
    that takes fewer holds the blocks, for which no spans are wanted.
    """
    closed = PIMArchitecture(page_policy="closed")
    pes, buffer, rows, dram = closed.hierarchy
    unlimited = {"read_bandwidth_limit": None, "write_bandwidth_limit": None}
    buffer, rows = attrs.evolve(buffer, **unlimited), attrs.evolve(rows, row_buffer_size=512, **unlimited)
    arch = attrs.evolve(closed, hierarchy=(pes, buffer, rows, dram))
    layer, none = ConvWorkload(P=4, Q=16, C=32, stride=(2, 1)), (1,) * 8
    mapping = Mapping(
        temporal=([1, 1, 1, 1, 2, 1, 1, 1], none, none, [1, 1, 4, 1, 1, 1, 1, 1]),
        spatial=([1, 1, 1, 16, 1, 1, 1, 1], [1, 1, 1, 1, 16, 1, 1, 1], none),
        order=((Dim.C,), (), (), (Dim.P,)),
        stored=((True,) * 3, (False,) * 3, (True, False, False)),
        block_h=16,
        block_w=1,
    )
    figures, latency = predict(layer, arch, mapping).figures, Objective.named("latency")
    assert figures.latency_cycles < 480
    tiles = TileBounds(
        SpatialBounds(layer, arch, latency, Restriction(layer, arch, subspace=Subspace.ALIGNED)),
        build_tables(layer, arch),
    )
    for trial_bound in (figures.latency_cycles, 480, 600, 700):
        assert has(MasterProblem(tiles, trial_bound), mapping)
