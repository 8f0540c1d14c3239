"""The environment: what a package that is imported as `tables`, too, is told."""

import sys
from pathlib import Path

import pytest

import cpsat_pim
from cpsat_pim.base.extras import ForeignTables, check_tables
from cpsat_pim.cli import main


@pytest.fixture
def foreign(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with PyTables' files, first on the path."""
    (tmp_path / "tables").mkdir()
    (tmp_path / "tables" / "__init__.py").write_text("raise RuntimeError('PyTables loads HDF5')\n")
    (tmp_path / "tables" / "hdf5extension.cpython-311-x86_64-linux-gnu.so").touch()
    for name in [name for name in sys.modules if name == "tables"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.syspath_prepend(str(tmp_path))
    check_tables.cache_clear()
    return tmp_path


def test_own_tables_are_accepted() -> None:
    """Nothing is raised where only this package has the name."""
    check_tables()


@pytest.mark.parametrize("mixed", [False, True])
def test_foreign_tables_are_one_line_at_once(mixed: bool, foreign: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """PyTables alone, or installed over ours so that files of both lie in one folder: every command says so."""
    if mixed:
        (foreign / "tables" / "counts").mkdir()
    with pytest.raises(ForeignTables, match="environment of its own"):
        check_tables()
    with pytest.raises(ForeignTables, match="PyTables"):
        _ = cpsat_pim.read_network
    assert main(["archs"]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("cpsat_pim: error: the part of cpsat-pim that is imported as `tables` is missing: ")
    assert str(foreign / "tables") in err
    assert err.count("\n") == 1
