"""Compiled kernels that lie in the cache, of both packages that have such."""

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from types import ModuleType

import pytest

import tables.jit
import tracesim.jit


@pytest.mark.parametrize("jit", [tables.jit, tracesim.jit])
def test_cached_kernels_older_than_any_source_are_dropped(jit: ModuleType, tmp_path: Path) -> None:
    """A change in one file, of any folder of the package, voids what was compiled from the others."""
    package, kept = tmp_path / "package", tmp_path / "kept"
    (package / "folder").mkdir(parents=True)
    kept.mkdir()
    old, new = kept / "a.nbi", kept / "b.nbi"
    for path, when in [(old, 1000), (package / "a.py", 500), (package / "folder" / "b.py", 2000), (new, 3000)]:
        path.touch()
        os.utime(path, (when, when))
    jit.drop_stale_cache(package, kept)
    assert (old.exists(), new.exists()) == (False, True)


@pytest.mark.parametrize("is_elsewhere", [False, True])
@pytest.mark.parametrize(
    ("jit", "module", "call"),
    [
        (tables.jit, "tables.factors", "log2_of(8)"),
        (tracesim.jit, "tracesim.bank", "run_period(numpy.ones(8, numpy.int64), 3)"),
    ],
)
def test_a_new_source_voids_kernels_wherever_they_are_kept(
    jit: ModuleType, module: str, call: str, is_elsewhere: bool, tmp_path: Path
) -> None:
    """Numba keeps them beside the sources, or where the environment says."""
    package = tmp_path / module.split(".")[0]
    shutil.copytree(Path(str(jit.__file__)).parent, package, ignore=shutil.ignore_patterns("__pycache__"))
    environment = {key: value for key, value in os.environ.items() if key != "NUMBA_CACHE_DIR"}
    if is_elsewhere:
        environment["NUMBA_CACHE_DIR"] = str(tmp_path / "elsewhere")

    def kept_after(use: str) -> int:
        master = f"import numpy, {module}; {use}"
        subprocess.run([sys.executable, "-c", master], cwd=tmp_path, env=environment, check=True)
        return len(list(tmp_path.rglob("*.nbi")))

    assert [kept_after(f"{module}.{call}"), kept_after("")] == [1, 1]
    later = time.time() + 10
    os.utime(package / "jit.py", (later, later))
    assert kept_after("") == 0
