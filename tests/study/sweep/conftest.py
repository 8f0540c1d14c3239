"""Plans of tiny layers, which no test here gives to the solver unless it says so."""

from collections.abc import Callable
from pathlib import Path

import pytest

WritePlan = Callable[..., Path]


@pytest.fixture(autouse=True)
def without_progress_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    """No line of progress comes between messages, however slow the machine is."""
    monkeypatch.setattr("cpsat_pim.report.progress._FIRST_SECONDS", 1e6)


@pytest.fixture(autouse=True)
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the stand-ins for the solver note their calls; other processes find their module."""
    monkeypatch.setenv("SWEEP_LOG", str(tmp_path / "calls.log"))
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[3]))
    return tmp_path / "calls.log"


@pytest.fixture
def write_plan(tmp_path: Path) -> WritePlan:
    """Writes a plan of one layer for each number of output channels, or of any text."""

    def write(*channels: int, name: str = "plan", text: str | None = None) -> Path:
        path = tmp_path / f"{name}.yaml"
        layers = "".join(f'- {{network: "K={k}"}}\n' for k in channels)
        path.write_text("version: 1\n" + (text if text is not None else f"list:\n{layers}"))
        return path

    return write
