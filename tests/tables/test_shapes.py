"""Shape tables and screens bound every mapping: never above what the exact count of any order gives."""

import errno
import math
import os
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from cpsat_pim.cost import access_energies_fj, predict, to_machine, to_nest, to_shape
from cpsat_pim.dims import IRRELEVANT, Dim, Level, Tensor
from tables.jit import drop_stale_cache
from tables.nest import MACS, Nest
from tables.screen import Energies, Sharing, energy_terms, least_energy, needed_elements
from tables.shapes import LayerShape, ShapeTable, build_shape_table, divisors, shape_table
from tables.stream import Dram, StreamCounts, Tempo, block_counts, dram_stream, last_run, period
from tests.cross.cases import Case, cases

DRAM = Dram(64, 16, 1, True, 14, 14, 33, 47, 5, 4, 25, 4)


def row_of(table: ShapeTable, nest: Nest, t: int, layout: int) -> int:
    """Index of the box tile that the global buffer holds under a nest."""
    extents = np.array([nest.extent(1, d) for d in table.dims])
    same = (table.extents == extents).all(axis=1) & (table.layout == layout) & (table.is_strided == 0)
    return int(np.flatnonzero(same)[0])


class Streamed(NamedTuple):
    """A sequential tensor in the global buffer: its row of the table, the exact stream, how often a tile comes."""

    nest: Nest
    dram: Dram
    table: ShapeTable
    row: int
    exact: StreamCounts
    times: int
    scans: int


def streamed(case: Case, t: Tensor) -> Streamed:
    """The case's tensor, whatever stores it there; O is written back as often as it comes, and first only written."""
    stored = [list(row) for row in case.mapping.stored]
    stored[1][t], stored[2][t] = True, False
    nest = to_nest(case.layer, case.mapping, case.arch.spatial_reduction)._replace(stored=stored)
    dram = to_machine(case.arch).dram
    table = build_shape_table(to_shape(case.layer), t, nest.width(t, Level.DRAM), dram)
    times = nest.reuse(t, 1)
    return Streamed(
        nest=nest,
        dram=dram,
        table=table,
        row=row_of(table, nest, t, nest.layout[t]),
        exact=dram_stream(nest, t, dram),
        times=times,
        scans=2 * times - 1 if t is Tensor.O else times,
    )


@settings(max_examples=150)
@given(case=cases(), t=st.sampled_from(Tensor))
def test_columns_are_exact_and_activations_never_above_the_count(case: Case, t: Tensor) -> None:
    """For a sequential tensor in the global buffer, in whatever order its tiles come and however often."""
    nest, dram, table, row, exact, times, scans = streamed(case, t)
    assert exact.columns == scans * table.columns[row]
    bound = int(table.first[row] + (times - 1) * table.more[row])
    assert bound <= exact.activations
    if not dram.is_open:
        assert bound == exact.activations
    if all(nest.temporal[2][d] == 1 for d in Dim):
        assert table.ordered[row] + (times - 1) * table.more[row] <= exact.activations


def boxed(nest: Nest, table: ShapeTable, t: Tensor, level: int) -> int:
    """What the table says that a tensor opens whose scans lie inside the loops of a level's box."""
    extents = [nest.extent(level, d) for d in table.dims]
    same = (table.extents == extents).all(axis=1) & (table.layout == nest.layout[t]) & (table.is_strided == 0)
    row = int(np.flatnonzero(same)[0])
    return int(table.boxed[row] + (nest.reuse(t, level) - 1) * table.boxed_more[row])


@settings(max_examples=300)
@given(case=cases(), t=st.sampled_from(Tensor), banks=st.sampled_from([1, 2, 3, 8]), level=st.sampled_from([1, 2]))
def test_activations_of_a_box_are_never_above_the_count(case: Case, t: Tensor, banks: int, level: int) -> None:
    """Whatever is taken tile by tile from inside a box, in whatever order, with however many rows open at a time."""
    assume(t is not Tensor.I or max(*case.layer.stride, *case.layer.dilation) == 1)
    stored = [list(row) for row in case.mapping.stored]
    for m in range(3):
        stored[m][t] = m == level - 1
    nest = to_nest(case.layer, case.mapping, case.arch.spatial_reduction)._replace(stored=stored)
    dram = to_machine(case.arch).dram._replace(banks=banks)
    table = build_shape_table(to_shape(case.layer), t, nest.width(t, Level.DRAM), dram)
    assert boxed(nest, table, t, level) <= dram_stream(nest, t, dram).activations


@settings(max_examples=150)
@given(case=cases(), t=st.sampled_from(Tensor), banks=st.sampled_from([1, 2, 3, 8]))
def test_steps_open_rows_as_often_as_they_come(case: Case, t: Tensor, banks: int) -> None:
    """What MACs draw straight from DRAM, in free loops too: every step set scanned so often, in whatever order."""
    nest = to_nest(case.layer, case.mapping, case.arch.spatial_reduction)
    assume(t is not Tensor.I or max(*case.layer.stride, *case.layer.dilation, *case.layer.bounds[:2]) == 1)
    assume(all(nest.array(d) == 1 or nest.temporal[0][d] == 1 for d in Dim if d not in IRRELEVANT[t]))
    nest = nest._replace(stored=[[False if u == t else x for u, x in enumerate(row)] for row in nest.stored])
    dram = to_machine(case.arch).dram._replace(banks=banks)
    table = build_shape_table(to_shape(case.layer), t, nest.width(t, Level.DRAM), dram)
    extents = [nest.lanes(d) * nest.array(d) for d in table.dims]
    row = int(np.flatnonzero((table.extents == extents).all(axis=1) & (table.layout == nest.layout[t]))[0])
    assert nest.reuse(t, MACS) * table.each[row] <= dram_stream(nest, t, dram).activations


def test_a_box_of_outputs_that_returns_opens_each_of_its_rows_once() -> None:
    """4 tiles of 32 B lie in two 64 B rows, and there are two such boxes. Each row opens once a pass: 4, twice.

    A returning tile is written right after it was read, and so is the one beside it: nothing opens a row again.
    """
    nest = Nest(
        temporal=((1,) * 8, (1,) * 8, (1, 1, 1, 1, 1, 4, 1, 1), (1, 1, 1, 1, 2, 2, 1, 1)),
        spatial=((1,) * 8, (1,) * 8, (1, 1, 1, 1, 1, 32, 1, 1)),
        order=((), (), (Dim.K,), (Dim.C, Dim.K)),
        stored=((False,) * 3, (True,) * 3, (False,) * 3),
        layout=(0, 0, 0),
        block_h=0,
        block_w=0,
        stride=(1, 1),
        dilation=(1, 1),
        width_bytes=(1, 1, 1, 1),
    )
    table = build_shape_table(LayerShape((1, 1, 1, 1, 2, 256, 1, 1), (1, 1), (1, 1)), Tensor.O, 1, DRAM)
    assert dram_stream(nest, Tensor.O, DRAM).activations == boxed(nest, table, Tensor.O, 2) == 8


@settings(max_examples=150)
@given(case=cases(), t=st.sampled_from(Tensor))
def test_time_columns_never_exceed_the_stream(case: Case, t: Tensor) -> None:
    """Shortest runs and what outlasts them bound the cycles; the first scan's are exact, the last one's a bound."""
    _, dram, table, row, exact, times, scans = streamed(case, t)
    shortest = period(1, dram)
    last = last_run(1, dram) - shortest  # the last run ends with its data
    assert shortest * exact.activations + scans * table.long_cycles[row] + last <= exact.cycles
    if t is not Tensor.O:
        assert table.end_cycles[row] == exact.first_cycles
    elif times == 1:
        assert table.end_cycles[row] <= exact.last_cycles


def test_tiles_are_late_by_what_the_array_does_not_hide() -> None:
    """64 weights in 16 B tiles of one column, four a 64 B row, the first of the four with an activation.

    Its run of 4 columns takes max(47, 14 + 3 * 4 + 5 + 14) = 47 cycles (DRAM above has tRC 47, tRAS 33), so of the 16
    scans of 256 B each row's first adds 47 less the 3 hits, each of 4: 35. The very first scan overlaps nothing. With
    10 cycles a tile 3 are late by 25 each, and none is steadily late; with 2 cycles a tile every hit is late by 2
    (12 of them) and the three others by 33, of which 2 would be left if all were as quick as a hit.
    """
    nest = Nest(
        temporal=((1,) * 8, (1,) * 8, (1,) * 8, (1, 1, 1, 1, 16, 1, 1, 1)),
        spatial=((1,) * 8, (1,) * 8, (1, 1, 1, 1, 16, 1, 1, 1)),
        order=((), (), (), (Dim.C,)),
        stored=((False,) * 3, (True,) * 3, (False,) * 3),
        layout=(0, 0, 0),
        block_h=0,
        block_w=0,
        stride=(1, 1),
        dilation=(1, 1),
        width_bytes=(1, 1, 1, 1),
    )
    for cycles, late, steady in ((10, 3 * 25, 0), (2, 12 * 2 + 3 * 33, 15 * 2)):
        counts = dram_stream(nest, Tensor.W, DRAM, Tempo(16 * cycles, (True, True, False)))
        assert (counts.late_cycles, counts.steady_cycles) == (late, steady)


@settings(max_examples=150)
@given(case=cases())
def test_screen_never_exceeds_the_energy(case: Case) -> None:
    """The least energy of a spatial vector and stored set is at most that of any mapping with them."""
    layer, arch, mapping = case.layer, case.arch, case.mapping
    pes, lanes = [mapping.array_factor(d) for d in Dim], list(mapping.spatial[2])
    vectors = np.array([pes + lanes], np.int64)
    energies = Energies(access_energies_fj(arch), Sharing(arch.multicast, arch.spatial_reduction))
    figures = predict(layer, arch, mapping).figures
    for t in Tensor:
        stored = (mapping.stored[0][t], mapping.stored[1][t], mapping.stored[2][t])
        spent = sum(
            count * energies.access_fj[m][way] for m in Level for way, count in enumerate(figures.accesses[m][t])
        )
        assert least_energy(to_shape(layer), t, stored, energies, vectors)[0] <= spent


def test_streaming_a_packed_tensor_opens_each_row_once() -> None:
    """256 B of weights in 64 B rows, tiles of 16 B in layout order: 4 rows; bound and best order agree."""
    table = build_shape_table(LayerShape((1, 1, 1, 1, 16, 16, 1, 1), (1, 1), (1, 1)), 1, 1, DRAM)
    row = np.flatnonzero((table.extents == [16, 1]).all(axis=1) & (table.layout == 0))[0]
    assert table.dims == (4, 5)
    assert (table.first[row], table.ordered[row], table.columns[row]) == (4, 4, 16)


def test_tiles_across_rows_open_a_row_each() -> None:
    """Tiles of one column of the K x C matrix (16 K apart 16 B): each touches all 4 rows; 16 tiles open 64, none saved.

    A scan ends in row 3 and the next starts in row 0. With closed pages it is the same.
    """
    for is_open in (True, False):
        shape = LayerShape((1, 1, 1, 1, 16, 16, 1, 1), (1, 1), (1, 1))
        table = build_shape_table(shape, 1, 1, DRAM._replace(is_open=is_open))
        row = np.flatnonzero((table.extents == [1, 16]).all(axis=1) & (table.layout == 0))[0]
        assert table.first[row] == 64


def test_blocks_are_packed_whole_into_rows() -> None:
    """Blocks of 24 B, two in a 64 B row: 5 blocks fill 3 rows; columns of 16 B: 2 at offset 0, and 24..47 touches 2."""
    assert block_counts(5, 24, DRAM) == (3 * 2 + 2 * 2, 3)


def test_needed_elements_skip_what_the_stride_skips() -> None:
    """1x1 filters with stride 2 on 4 outputs use 4 of 7 positions."""
    assert needed_elements(LayerShape((1, 1, 4, 1, 3, 1, 1, 1), (2, 1), (1, 1)), 0) == 12


@given(st.integers(1, 5000))
def test_divisors_are_all_and_sorted(n: int) -> None:
    """Against trial division."""
    assert divisors(n) == [d for d in range(1, n + 1) if n % d == 0]


def test_table_is_read_back_and_never_stale(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A second build reads the file; another width, machine or broken file builds anew."""
    monkeypatch.setenv("CPSAT_PIM_CACHE", str(tmp_path))
    shape = LayerShape((1, 1, 4, 4, 4, 4, 1, 1), (1, 1), (1, 1))
    built = shape_table(shape, 1, 1, DRAM)
    assert len(list(tmp_path.glob("*.npz"))) == 1
    again = shape_table(shape, 1, 1, DRAM)
    assert all(np.array_equal(a, b) for a, b in zip(built[1:], again[1:], strict=True))
    shape_table(shape, 1, 2, DRAM)
    shape_table(shape, 1, 1, DRAM._replace(row_bytes=32))
    files = list(tmp_path.glob("*.npz"))
    assert len(files) == 3
    whole = {file: file.read_bytes() for file in files}
    for damage in (lambda data: b"not a table", lambda data: b"", lambda data: data[:-99], lambda data: data[:99]):
        for file, data in whole.items():
            file.write_bytes(damage(data))
        repaired = shape_table(shape, 1, 1, DRAM)
        assert np.array_equal(repaired.first, built.first)


def test_full_disk_costs_only_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The table is built, and no part of a file is left behind."""
    monkeypatch.setenv("CPSAT_PIM_CACHE", str(tmp_path))

    def full(*arguments: object, **tables: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(np, "savez", full)
    shape = LayerShape((1, 1, 2, 2, 2, 2, 1, 1), (1, 1), (1, 1))
    assert shape_table(shape, 1, 1, DRAM).dims
    assert [*tmp_path.iterdir()] == []


def test_cached_kernels_older_than_any_source_are_dropped(tmp_path: Path) -> None:
    """A change in one file voids what was compiled from the others."""
    (tmp_path / "__pycache__").mkdir()
    old, new = tmp_path / "__pycache__" / "a.nbi", tmp_path / "__pycache__" / "b.nbi"
    for path, time in [(old, 1000), (tmp_path / "a.py", 500), (tmp_path / "b.py", 2000), (new, 3000)]:
        path.touch()
        os.utime(path, (time, time))
    drop_stale_cache(tmp_path)
    assert (old.exists(), new.exists()) == (False, True)


@settings(max_examples=100)
@given(case=cases())
def test_energy_terms_are_the_counted_accesses(case: Case) -> None:
    """The model's coefficients times the mapping's quantities give the exact energy of weights and outputs."""
    layer, arch, mapping = case.layer, case.arch, case.mapping
    nest = to_nest(layer, mapping, arch.spatial_reduction)
    assume(not nest.rereads_copies())
    energies = Energies(access_energies_fj(arch), Sharing(arch.multicast, arch.spatial_reduction))
    figures = predict(layer, arch, mapping).figures
    for t in (Tensor.W, Tensor.O):
        stored = (mapping.stored[0][t], mapping.stored[1][t], mapping.stored[2][t])
        own, size = IRRELEVANT[t], layer.elements(t)
        copies = math.prod(nest.array(d) for d in own)
        quantities = {f"moved{c}": size * nest.reuse(t, c) for c in range(3)}
        quantities |= {"uses": size * nest.reuse(t, MACS), "macs": layer.macs, "one": size, "holders": size * copies}
        quantities |= {"fills": size * nest.reuse(t, 0) * copies, "held": size * nest.reuse(t, 0) * copies}
        quantities["sums"] = size * nest.reuse(t, MACS) * copies
        modelled = sum(c * quantities[q] for q, c in energy_terms(t, stored, energies).items())
        spent = sum(n * energies.access_fj[m][way] for m in Level for way, n in enumerate(figures.accesses[m][t]))
        assert modelled == spent
