"""Shape tables bound every mapping: never above what the exact count of any order gives."""

from typing import NamedTuple

import numpy as np
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from cpsat_pim.base.dims import BUFFERS, IRRELEVANT, Dim, Level, Tensor
from cpsat_pim.evaluate.cost import to_machine, to_nest, to_shape
from cpsat_pim.workload import ConvWorkload
from tables.bounds.shapes import ShapeTable, build_shape_table
from tables.counts.stream import ArrayTiming, dram_stream, interruption
from tables.counts.walk import StreamCounts
from tables.dram import Dram, block_address, block_counts, last_run, period
from tables.nest import MACS, Nest
from tests.conftest import SLOW
from tests.cross.cases import Case, cases
from tests.tables.nests import DRAM, build_nest

MATRIX = to_shape(ConvWorkload(C=16, K=16))


def storing(case: Case, t: Tensor, **levels: bool) -> Nest:
    """The case's nest, but for whether these levels store a tensor; O is written back as often as it comes."""
    stored = [list(row) for row in case.mapping.stored]
    for level, is_stored in levels.items():
        stored[Level[level]][t] = is_stored
    return to_nest(case.layer, case.mapping, case.arch.spatial_reduction)._replace(stored=stored)


def build_table(case: Case, nest: Nest, t: Tensor, dram: Dram) -> ShapeTable:
    """The tensor's tiles."""
    return build_shape_table(to_shape(case.layer), t, nest.width(t, Level.DRAM), dram)


def row_of(table: ShapeTable, extents: list[int], layout: int) -> int:
    """Return the row of the box with these extents, one per dim of the table."""
    same = (table.extents == extents).all(axis=1) & (table.layout == layout) & (table.is_strided == 0)
    return int(np.flatnonzero(same)[0])


def row_held(table: ShapeTable, nest: Nest, t: Tensor, level: int) -> int:
    """Return the row of the box that a level holds under a nest."""
    return row_of(table, [nest.extent(level, d) for d in table.dims], nest.layout[t])


class Streamed(NamedTuple):
    """A sequential tensor in the global buffer: its row of the table, its exact stream, the fetches of a tile."""

    nest: Nest
    dram: Dram
    table: ShapeTable
    row: int
    exact: StreamCounts
    times: int
    scans: int


def streamed(case: Case, t: Tensor, banks: int = 1) -> Streamed:
    """Return the case's tensor, stored in the global buffer and not row-aligned. O's first visit only writes."""
    nest = storing(case, t, GLOBAL_BUFFER=True, ROW_BUFFER=False)
    dram = to_machine(case.arch).dram._replace(banks=banks)
    table, times = build_table(case, nest, t, dram), nest.reuse(t, 1)
    return Streamed(
        nest=nest,
        dram=dram,
        table=table,
        row=row_held(table, nest, t, Level.GLOBAL_BUFFER),
        exact=dram_stream(nest, t, dram),
        times=times,
        scans=2 * times - 1 if t is Tensor.O else times,
    )


@settings(max_examples=150)
@given(case=cases(), t=st.sampled_from(Tensor))
def test_columns_are_exact_and_activations_are_bounded(case: Case, t: Tensor) -> None:
    """For a sequential tensor in the global buffer, whatever the order of its tiles and their number of fetches."""
    nest, dram, table, row, exact, times, scans = streamed(case, t)
    assert exact.columns == scans * table.columns[row]
    bound = int(table.first_activations[row] + (times - 1) * table.repeat_activations[row])
    assert bound <= exact.activations
    if not dram.is_open:
        assert bound == exact.activations
    if all(nest.temporal[2][d] == 1 for d in Dim):
        assert table.ordered_activations[row] + (times - 1) * table.repeat_activations[row] <= exact.activations


def box_bound(nest: Nest, table: ShapeTable, t: Tensor, level: int) -> int:
    """Return the table's bound for a tensor whose scans lie inside the loops of a level's box."""
    row = row_held(table, nest, t, level)
    return int(table.box_activations[row] + (nest.reuse(t, level) - 1) * table.box_repeat_activations[row])


@settings(max_examples=300)
@given(case=cases(), t=st.sampled_from(Tensor), banks=st.sampled_from([1, 2, 3, 8]), level=st.sampled_from([1, 2]))
def test_activations_of_a_box_are_bounded(case: Case, t: Tensor, banks: int, level: int) -> None:
    """For any tiles inside a box, in any order, with any number of banks."""
    assume(t is not Tensor.I or max(*case.layer.stride, *case.layer.dilation) == 1)
    nest = storing(case, t, **{m.name: m == level - 1 for m in BUFFERS})
    dram = to_machine(case.arch).dram._replace(banks=banks)
    assert box_bound(nest, build_table(case, nest, t, dram), t, level) <= dram_stream(nest, t, dram).activations


@settings(max_examples=150)
@given(case=cases(), t=st.sampled_from(Tensor), banks=st.sampled_from([1, 2, 3, 8]))
def test_activations_of_step_sets_are_bounded(case: Case, t: Tensor, banks: int) -> None:
    """Where MACs draw from DRAM, every step set is scanned in each iteration, of free loops, too."""
    nest = storing(case, t, **{m.name: False for m in BUFFERS})
    assume(t is not Tensor.I or max(*case.layer.stride, *case.layer.dilation, *case.layer.bounds[:2]) == 1)
    assume(all(nest.array(d) == 1 or nest.temporal[0][d] == 1 for d in Dim if d not in IRRELEVANT[t]))
    dram = to_machine(case.arch).dram._replace(banks=banks)
    table = build_table(case, nest, t, dram)
    row = row_of(table, [nest.lanes(d) * nest.array(d) for d in table.dims], nest.layout[t])
    assert nest.reuse(t, MACS) * table.rescan_activations[row] <= dram_stream(nest, t, dram).activations


def test_a_box_of_outputs_that_returns_opens_each_of_its_rows_once() -> None:
    """4 tiles of 32 B lie in two 64 B rows, and there are two such boxes. Each row opens once a pass: 4, twice.

    A returning tile is written right after it was read, and so is the one beside it: nothing opens a row again.
    """
    nest = build_nest("3C2 3K2 2K4 LK32")
    table = build_shape_table(to_shape(ConvWorkload(C=2, K=256)), Tensor.O, 1, DRAM)
    assert dram_stream(nest, Tensor.O, DRAM).activations == box_bound(nest, table, Tensor.O, 2) == 8


@settings(max_examples=300)
@given(case=cases(), t=st.sampled_from(Tensor), banks=st.sampled_from([1, 2, 3, 8]))
def test_cycles_are_bounded(case: Case, t: Tensor, banks: int) -> None:
    """Runs and their lengths bound the cycles; those of the first scan are exact, those of the last one a bound."""
    _, dram, table, row, exact, times, scans = streamed(case, t, banks)
    shortest = period(1, dram)
    columns = int(table.last_columns[row]) if t is Tensor.O else 1
    last = last_run(columns, dram) - period(columns, dram)  # the last run ends with its data
    assert shortest * exact.activations + scans * table.long_run_cycles[row] + last <= exact.cycles
    if t is not Tensor.O:
        assert table.end_cycles[row] == exact.first_cycles
    elif times == 1:
        assert table.end_cycles[row] <= exact.last_cycles
    else:
        assert table.rewrite_cycles[row] <= exact.last_cycles


@settings(max_examples=100)
@given(st.sampled_from([1, 2, 3, 8]), *[st.integers(1, most) for most in (3, 3, 9, 6)])
def test_a_tile_that_was_just_read_back_finds_rows_open(banks: int, k: int, p: int, tile_k: int, tile_p: int) -> None:
    """Outputs of two passes over C: without runs shorter than tRAS and tRC allow, the last write-out is exact."""
    nest = build_nest(f"3C2 3K{k} 3P{p} 1K{tile_k} 1P{tile_p} LK16")
    assume(k * p > 1)
    layer, dram = ConvWorkload(C=2, K=16 * k * tile_k, P=p * tile_p), DRAM._replace(banks=banks, tRAS=1, tRC=1)
    table = build_shape_table(to_shape(layer), Tensor.O, 1, dram)
    row = row_held(table, nest, Tensor.O, Level.GLOBAL_BUFFER)
    assert table.rewrite_cycles[row] == dram_stream(nest, Tensor.O, dram).last_cycles


def test_last_write_out_opens_a_row_that_no_other_tile_is_in() -> None:
    """256 outputs in 64 B rows. Of tiles of 64 B the last one has a row of its own: a miss of 14 - 4 + 5 + 14 = 29
    cycles and 4 columns of 4. Of tiles of 32 B the one before may have left its row open: 2 columns.
    """
    table = build_shape_table(to_shape(ConvWorkload(K=256)), Tensor.O, 1, DRAM)
    assert [table.end_cycles[row_of(table, [k], 0)] for k in (64, 32)] == [29 + 16, 8]


@settings(max_examples=300, suppress_health_check=[*SLOW, HealthCheck.filter_too_much])  # one of ten cases is such
@given(case=cases())
def test_an_interrupted_last_write_out_is_bounded(case: Case) -> None:
    """If another tensor of the bank is fetched by loops inside those that fetch O, O's last rows are opened anew."""
    nest = storing(case, Tensor.O, GLOBAL_BUFFER=True, ROW_BUFFER=False)
    nest = nest._replace(part=[0, 0, 0], bank_counts=(1, 1, 1))
    dram = to_machine(case.arch).dram._replace(banks=1)
    assume(interruption(nest, Tensor.O).always and nest.reuse(Tensor.O, 1) == 1)
    table = build_table(case, nest, Tensor.O, dram)
    row = row_held(table, nest, Tensor.O, Level.GLOBAL_BUFFER)
    assert table.end_cycles[row] <= table.closed_end_cycles[row] <= dram_stream(nest, Tensor.O, dram).last_cycles


def test_array_stalls_for_what_it_does_not_hide() -> None:
    """64 weights in 16 B tiles of one column, four a 64 B row, the first of the four with an activation.

    Its run of 4 columns takes max(47, 14 + 3 * 4 + 5 + 14) = 47 cycles (DRAM above has tRC 47, tRAS 33), so of the 16
    scans of 256 B each row's first adds 47 less the 3 hits, each of 4: 35. The very first scan overlaps nothing. With
    10 cycles a tile the array stalls for 3 of them, by 25 each, and not at all if all were as quick as a hit. With 2
    cycles a tile it stalls by 2 for each of 12 hits and by 33 for the three others; by 15 * 2 if all were hits.
    """
    nest = build_nest("3C16 LC16")
    for cycles, stall, steady in ((10, 3 * 25, 0), (2, 12 * 2 + 3 * 33, 15 * 2)):
        counts = dram_stream(nest, Tensor.W, DRAM, ArrayTiming(16 * cycles, (True, True, False)))
        assert (counts.stall_cycles, counts.steady_stall_cycles) == (stall, steady)


def test_streaming_a_packed_tensor_opens_each_row_once() -> None:
    """256 B of weights in 64 B rows, tiles of 16 B in layout order: 4 rows; bound and best order agree."""
    table = build_shape_table(MATRIX, 1, 1, DRAM)
    row = row_of(table, [16, 1], 0)
    assert table.dims == (4, 5)
    assert (table.first_activations[row], table.ordered_activations[row], table.columns[row]) == (4, 4, 16)


def test_tiles_across_rows_open_a_row_each() -> None:
    """Tiles of one column of the K x C matrix (16 K apart 16 B): each touches all 4 rows; 16 tiles open 64, none saved.

    A scan ends in row 3 and the next starts in row 0. With closed pages it is the same.
    """
    for is_open in (True, False):
        table = build_shape_table(MATRIX, 1, 1, DRAM._replace(is_open=is_open))
        assert table.first_activations[row_of(table, [1, 16], 0)] == 64


def test_blocks_are_packed_whole_into_rows() -> None:
    """Blocks of 24 B, two in a 64 B row: 5 blocks fill 3 rows; columns of 16 B: 2 at offset 0, and 24..47 touches 2."""
    assert block_counts(5, 24, DRAM) == (3 * 2 + 2 * 2, 3)


@given(st.integers(1, 60), st.integers(1, 200), st.sampled_from([(64, 16), (48, 12), (32, 32), (40, 4)]))
def test_blocks_take_the_columns_and_rows_of_their_bytes(blocks: int, block_bytes: int, sizes: tuple[int, int]) -> None:
    """Counted byte by byte, each block from its address on."""
    dram = DRAM._replace(row_bytes=sizes[0], column_bytes=sizes[1])
    addresses = [range(start := block_address(b, block_bytes, dram), start + block_bytes) for b in range(blocks)]
    columns = sum(len({byte // dram.column_bytes for byte in block}) for block in addresses)
    rows = {byte // dram.row_bytes for block in addresses for byte in block}
    assert block_counts(blocks, block_bytes, dram) == (columns, len(rows))


def test_scans_of_several_segments_take_as_few_columns_as_they_can() -> None:
    """80 pixels of 12 channels, tiles of 4 pixels and 3 channels: 4 segments of 3 B, 12 B apart, in columns of 4 B.

    Those from channels 0 and 9 on lie in one column each, those from 3 and 6 on in two: 4, 8, 8 and 4 columns a tile,
    24 for each 4 pixels, 20 times.
    """
    layer, dram = ConvWorkload(P=80, C=12), DRAM._replace(column_bytes=4, row_bytes=48)
    table = build_shape_table(to_shape(layer), Tensor.I, 1, dram)
    row = row_of(table, [4, 3], 1)
    assert (table.columns[row], table.min_scan_columns[row], table.min_scan_rows[row]) == (20 * 24, 4, 1)


@settings(max_examples=150)
@given(*[st.integers(1, most) for most in (4, 4, 5, 5)], st.sampled_from([1, 2, 4]), st.integers(0, 1))
def test_fewest_columns_and_rows_are_those_of_some_scan(
    tiles_c: int, tiles_k: int, tile_c: int, tile_k: int, width: int, layout: int
) -> None:
    """For weights, by enumerating the bytes of each tile."""
    layer, dram = ConvWorkload(C=tiles_c * tile_c, K=tiles_k * tile_k), DRAM._replace(column_bytes=4, row_bytes=32)
    table = build_shape_table(to_shape(layer), Tensor.W, width, dram)
    index = np.arange(layer.C * layer.K).reshape((layer.K, layer.C) if layout == 0 else (layer.C, layer.K))
    placed = index if layout == 0 else index.T  # by K, C: GKCSR has C innermost, SRCGK K
    taken = [
        {int(i) * width for i in placed[k : k + tile_k, c : c + tile_c].flat}
        for k in range(0, layer.K, tile_k)
        for c in range(0, layer.C, tile_c)
    ]
    extents = [e for e, bound in ((tile_c, layer.C), (tile_k, layer.K)) if bound > 1]
    row = row_of(table, extents, layout)
    assert table.min_scan_columns[row] == min(len({at // 4 for at in scan}) for scan in taken)
    assert table.min_scan_rows[row] == min(len({at // 32 for at in scan}) for scan in taken)
