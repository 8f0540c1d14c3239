"""Progress in lines, where stderr is no terminal."""

import io
import time

import pytest

from cpsat_pim.mapper.search import Progress
from cpsat_pim.report.progress import LiveProgress


def test_time_left_is_of_the_layers_not_of_compiling(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kernels are compiled for 90 s; 10 s later one layer of four is proven, so three more take 30 s."""
    now = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    progress = LiveProgress("energy", 4, io.StringIO())
    now[0] = 60.0
    assert "no layer begun" in progress._line()
    now[0] = 92.0
    progress.report(Progress(layer="a", incumbent=7, bound=7, seconds=2.0))
    now[0] = 100.0
    assert "1 of 4 layers begun, 1 proven, about 30 s left; a: " in progress._line()
    assert progress._line().startswith("100 s: ")
