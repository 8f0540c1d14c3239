"""A folder of their own for the files of models."""

from collections.abc import Callable
from pathlib import Path

import pytest


@pytest.fixture
def save(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    """Write `net.onnx` in a directory of its own and return its name."""
    from tests.importers.onnx_models import save_file  # not before onnx is known to be there

    monkeypatch.chdir(tmp_path)
    return save_file
