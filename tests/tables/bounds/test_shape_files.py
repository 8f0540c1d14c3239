"""Shape tables as files: read back, built anew if stale or broken, done without where the disk is full."""

import errno
from pathlib import Path

import numpy as np
import pytest
from attrs import evolve

import tables
from cpsat_pim.evaluate.cost import to_shape
from cpsat_pim.workload import ConvWorkload
from tables.bounds import shapes
from tables.bounds.shapes import shape_table
from tables.kernel_cache import sources
from tests.tables.nests import DRAM


def test_table_is_read_back_and_never_stale(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A second build reads the file; another width, machine or broken file builds anew."""
    monkeypatch.setenv("CPSAT_PIM_CACHE", str(tmp_path))
    shape = to_shape(ConvWorkload(P=4, Q=4, C=4, K=4))
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
        assert np.array_equal(repaired.first_activations, built.first_activations)


@pytest.mark.parametrize("t", range(3))
def test_layers_that_differ_in_other_dims_share_a_file(t: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Dims that a tensor does not have, and strides of inputs, have no part in its table: it is that built from the
    layer as it is.
    """
    monkeypatch.setenv("CPSAT_PIM_CACHE", str(tmp_path))
    one = ConvWorkload(P=6, Q=4, C=4, K=8, R=3, S=2, N=2, G=2, stride=2)
    others = (evolve(one, K=5), evolve(one, P=3, Q=5, N=1, stride=1), evolve(one, R=1, C=6, S=3, stride=1))
    table = shape_table(to_shape(one), t, 2, DRAM)
    for layer in (one, others[t]):
        built = shapes.build_shape_table(to_shape(layer), t, 2, DRAM)
        assert shape_table(to_shape(layer), t, 2, DRAM).dims == built.dims
        assert all(np.array_equal(a, b) for a, b in zip(table[1:], built[1:], strict=True))
    assert len(list(tmp_path.glob("*.npz"))) == 1
    shape_table(to_shape(evolve(one, G=1)), t, 2, DRAM)
    assert len(list(tmp_path.glob("*.npz"))) == 2


def test_building_ends_with_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """The time is looked at between groups of tiles, however small, and groups change nothing."""
    shape = to_shape(ConvWorkload(P=6, R=3, C=4, K=4))
    whole = shapes.build_shape_table(shape, 0, 1, DRAM)
    monkeypatch.setattr(shapes, "_TILES_AT_ONCE", 5)
    monkeypatch.setattr(shapes, "_recent", {})
    looks: list[int] = []
    parts = shapes.build_shape_table(shape, 0, 1, DRAM, lambda: len(looks) > 99 or bool(looks.append(0)))
    assert all(np.array_equal(a, b) for a, b in zip(whole, parts, strict=True))
    assert len(looks) == 2 * -(-len(whole.extents) // 2 // 5)  # two layouts
    monkeypatch.setattr(shapes, "_recent", {})
    with pytest.raises(shapes.OutOfTime):
        shapes.build_shape_table(shape, 0, 1, DRAM, lambda: True)


def test_tensors_alike_are_counted_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The outputs of a layer as the next one's inputs; not another width, nor other tiles of as many bytes."""
    counted: list[int] = []
    count = shapes.count_tiles
    monkeypatch.setattr(shapes, "_recent", {})
    monkeypatch.setattr(shapes, "count_tiles", lambda *of: (counted.append(len(of[0])), count(*of))[1])
    before = to_shape(ConvWorkload(P=6, Q=4, C=2, K=4))
    after = to_shape(ConvWorkload(P=6, Q=4, C=4, K=3))
    outputs = shapes.build_shape_table(before, 2, 1, DRAM)
    assert len(counted) == 2  # two layouts
    inputs = shapes.build_shape_table(after, 0, 1, DRAM)
    assert len(counted) == 2
    assert np.array_equal(inputs.columns, outputs.columns)
    shapes.build_shape_table(after, 0, 2, DRAM)
    shapes.build_shape_table(to_shape(ConvWorkload(P=4, Q=6, C=4, K=3)), 0, 1, DRAM)
    assert len(counted) == 6


def test_key_depends_on_the_sources_of_several_folders() -> None:
    """Tables are built by kernels of several folders of the package; a change in any of them voids the files."""
    read = {path.relative_to(Path(tables.__file__).parent).as_posix() for path in sources(Path(shapes.__file__))}
    assert {"bounds/shapes.py", "bounds/positions.py", "counts/scans.py", "dram.py", "nest.py"} <= read
    assert "array/table.py" not in read


def test_full_disk_costs_only_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The table is built, and no part of a file is left behind."""
    monkeypatch.setenv("CPSAT_PIM_CACHE", str(tmp_path))

    def full(*arguments: object, **columns: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(np, "savez", full)
    shape = to_shape(ConvWorkload(P=2, Q=2, C=2, K=2))
    assert shape_table(shape, 1, 1, DRAM).dims
    assert [*tmp_path.iterdir()] == []
