"""A small space and a small task, quick to evaluate."""

import pytest

from cpsat_pim.tuner.space import HardwareSpace
from cpsat_pim.tuner.task import TuneTask
from tests.tuner.small import small_space, small_task


@pytest.fixture
def space() -> HardwareSpace:
    """1,024 machines, of which some are too large."""
    return small_space()


@pytest.fixture
def task(space: HardwareSpace) -> TuneTask:
    """A convolution and a matrix product on them."""
    return small_task(space)
