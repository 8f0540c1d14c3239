"""A small space and a small task, quick to evaluate."""

from pathlib import Path

import pytest

from cpsat_pim.tuner.space import HardwareSpace
from cpsat_pim.tuner.task import TuneTask
from tests.tuner.small import FILE, SPACE, small_space, small_task


@pytest.fixture
def space() -> HardwareSpace:
    """1,024 machines, of which some are too large."""
    return small_space()


@pytest.fixture
def task(space: HardwareSpace) -> TuneTask:
    """A convolution and a matrix product on them."""
    return small_task(space)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A plan and its space."""
    (tmp_path / "plan.yaml").write_text(FILE)
    (tmp_path / "net.yaml").write_text("version: 1\nlayers: [{name: a, after: [input], C: 256, K: 512}]\n")
    (tmp_path / "space.yaml").write_text(SPACE)
    return tmp_path
