"""Compiled kernels that lie in the cache, of both packages that have such."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

import tables.jit
import tracesim.jit


@pytest.mark.parametrize("drop_stale_cache", [tables.jit.drop_stale_cache, tracesim.jit.drop_stale_cache])
def test_cached_kernels_older_than_any_source_are_dropped(
    drop_stale_cache: Callable[[Path], None], tmp_path: Path
) -> None:
    """A change in one file voids what was compiled from the others."""
    (tmp_path / "__pycache__").mkdir()
    old, new = tmp_path / "__pycache__" / "a.nbi", tmp_path / "__pycache__" / "b.nbi"
    for path, time in [(old, 1000), (tmp_path / "a.py", 500), (tmp_path / "b.py", 2000), (new, 3000)]:
        path.touch()
        os.utime(path, (time, time))
    drop_stale_cache(tmp_path)
    assert (old.exists(), new.exists()) == (False, True)
