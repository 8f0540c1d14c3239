"""Files that commands are given."""

from pathlib import Path

import pytest

from tests.cli.commands import CHIP, NETWORK, map_tiny


@pytest.fixture(autouse=True)
def without_progress_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    """No line of progress comes between messages, however slow the machine is."""
    monkeypatch.setattr("cpsat_pim.report.progress._FIRST_SECONDS", 1e6)


@pytest.fixture
def pair(tmp_path: Path) -> str:
    """A network of two different layers, of which one occurs twice under two names and the other runs twice."""
    path = tmp_path / "pair.yaml"
    path.write_text(NETWORK)
    return str(path)


@pytest.fixture(scope="session")
def map_result(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """What `map --json` wrote, once for all tests."""
    path = tmp_path_factory.mktemp("map") / "m.json"
    assert map_tiny("--json", str(path)) == 0
    return path.read_bytes()


@pytest.fixture
def mapped(tmp_path: Path, map_result: bytes) -> Path:
    """A file that `map --json` wrote."""
    path = tmp_path / "m.json"
    path.write_bytes(map_result)
    return path


@pytest.fixture
def chip(tmp_path: Path) -> str:
    """A machine with few mappings."""
    path = tmp_path / "chip.yaml"
    path.write_text(CHIP)
    return str(path)
