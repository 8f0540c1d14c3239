"""Hypothesis profiles: in CI fewer examples, the same every time. Kernels, once. A fixture of tests that read files."""

import multiprocessing
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from cpsat_pim.mapper.network.compile import compile_kernels

SLOW = [HealthCheck.too_slow, HealthCheck.data_too_large]

settings.register_profile("default", deadline=None, suppress_health_check=SLOW)
settings.register_profile("ci", deadline=None, derandomize=True, max_examples=50, suppress_health_check=SLOW)
settings.load_profile("ci" if os.environ.get("CI") else "default")


def pytest_sessionstart() -> None:
    """Of workers that start together each compiles its share of the kernels, before collecting tests compiles any."""
    if worker := os.environ.get("PYTEST_XDIST_WORKER"):
        multiprocessing.current_process().name = worker.replace("gw", "gw-")
        compile_kernels()


FileWriter = Callable[[str], Callable[[str | bytes], str]]


@pytest.fixture
def file_writer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FileWriter:
    """Makes what writes a file of one name, and returns the name, in a directory that becomes the current one."""
    monkeypatch.chdir(tmp_path)

    def writer(name: str) -> Callable[[str | bytes], str]:
        def write(text: str | bytes) -> str:
            Path(name).write_bytes(text if isinstance(text, bytes) else text.encode())
            return name

        return write

    return writer
