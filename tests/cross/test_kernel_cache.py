"""Compiled kernels on disk, of both packages that have such."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import tables.kernel_cache
import tracesim.kernel_cache

#: A call of a kernel of `tables.factors`, a source that this imports, and one that it does not.
CALL, IMPORTED, OTHER = "tables.factors.log2_of(8)", "jit.py", "dram.py"

Use = Callable[[Path], tuple[str, set[Path]]]


@pytest.mark.parametrize(
    "name", ["allocation.py", "compiler.py", "kernel_cache.py", "linking.py", "lowering.py", "optimization.py"]
)
def test_both_packages_compile_and_keep_their_kernels_alike(name: str) -> None:
    """The packages import nothing of each other, so each has a copy of the same file."""
    ours, theirs = (
        Path(module.__file__).with_name(name).read_text().replace(f"from {package}.", "from ")
        for module, package in ((tables.kernel_cache, "tables"), (tracesim.kernel_cache, "tracesim"))
    )
    assert ours == theirs


@pytest.fixture
def copied(tmp_path: Path) -> Callable[[str], Path]:
    """Makes a copy of `tables` in a directory of this name, and returns the package."""

    def copy(name: str) -> Path:
        source = Path(tables.kernel_cache.__file__).parent
        package = tmp_path / name / source.name
        shutil.copytree(source, package, ignore=shutil.ignore_patterns("__pycache__"))
        return package

    return copy


@pytest.fixture
def use(tmp_path: Path) -> Use:
    """Calls a kernel of a copy in a process of its own; returns what it prints, and all files of kernels then."""

    def call(package: Path, cache: str | None = None) -> tuple[str, set[Path]]:
        environment = {key: value for key, value in os.environ.items() if key != "NUMBA_CACHE_DIR"}
        environment["XDG_CACHE_HOME"] = cache or str(tmp_path / "cache")
        program = f"import tables.factors; print({CALL})"
        command = [sys.executable, "-W", "error", "-c", program]
        done = subprocess.run(command, cwd=package.parent, env=environment, check=True, capture_output=True, text=True)
        return done.stdout + done.stderr, set(tmp_path.rglob("*.nb[ic]"))

    return call


def test_copies_of_the_same_sources_share_kernels(copied: Callable[[str], Path], use: Use) -> None:
    """What a clone has compiled serves an installation, whenever its files were written."""
    first = copied("clone")
    second = copied("installation")
    os.utime(second / "jit.py", (2e9, 2e9))
    out, kept = use(first)
    assert len(kept) >= 2  # an index and a kernel
    assert use(second) == (out, kept)


def test_a_change_of_what_is_imported_voids_a_kernel(copied: Callable[[str], Path], use: Use) -> None:
    """A kernel is compiled anew if a source changed that its own source imports, and not for any other change."""
    package = copied("clone")
    out, kept = use(package)
    for name, is_void in [(OTHER, False), (IMPORTED, True)]:
        with (package / name).open("a") as file:
            file.write("\n# another version\n")
        found, files = use(package)
        assert found == out
        assert (files > kept) == is_void, name


def test_of_processes_that_start_together_one_compiles(copied: Callable[[str], Path], tmp_path: Path) -> None:
    """The other one waits for the kernel, and reads it."""
    program = f"import tables.factors; {CALL}; print(sum(tables.factors.log2_of.stats.cache_misses.values()))"
    environment = {key: value for key, value in os.environ.items() if key != "NUMBA_CACHE_DIR"}
    environment["XDG_CACHE_HOME"] = str(tmp_path / "cache")
    command, package = [sys.executable, "-c", program], copied("clone")
    started = [
        subprocess.Popen(command, cwd=package.parent, env=environment, stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    assert sorted(process.communicate()[0] for process in started) == ["0\n", "1\n"]


def test_a_kernel_is_compiled_once_for_all_constants(copied: Callable[[str], Path], tmp_path: Path) -> None:
    """It is called with 1 and with a variable; numba would compile it for either. It gets no machine code."""
    program = """
import numpy as np
from tables.bounds.positions import _single_scan_cycles
from tables.dram import Dram, period
_single_scan_cycles(np.zeros(20, np.int64), Dram(1, 1, 1, True, 1, 1, 1, 1, 1, 1, 1, 1))
print(len(period.for_callers().signatures), len(period.signatures))
"""
    assert _run(program, copied("clone").parent, tmp_path / "cache") == "1 0\n"


_CALLER = """
from tables import inner
from tables.jit import njit

@njit
def twice(n):
    return 2 * inner.inverse(n)

print(twice(2), sum(inner.inverse.for_callers().stats.cache_misses.values()))
try:
    twice(0)
except ZeroDivisionError:
    print("raised")
"""


def test_a_called_kernel_is_kept_for_other_callers(copied: Callable[[str], Path], tmp_path: Path) -> None:
    """Another caller of it, in another process, links what was kept: equal results, equal exceptions, no compiling."""
    directory = copied("clone").parent
    (directory / "tables" / "inner.py").write_text(
        "from tables.jit import njit\n@njit\ndef inverse(n):\n    return 12 // n\n"
    )
    for misses, name in ((1, "one"), (0, "other")):
        (directory / "tables" / f"{name}.py").write_text(_CALLER)
        assert _run(f"import tables.{name}", directory, tmp_path / "cache") == f"12 {misses}\nraised\n"


def _run(program: str, directory: Path, cache: Path) -> str:
    """Return what a program prints that keeps its kernels in this cache."""
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(cache)}
    command = [sys.executable, "-c", program]
    return subprocess.run(command, cwd=directory, env=environment, check=True, capture_output=True, text=True).stdout


@pytest.mark.parametrize(("kind", "content"), [("*.nbi", b""), ("*.nbi", b"damaged"), ("*.nbc", b"")])
def test_damaged_files_are_made_anew(kind: str, content: bytes, copied: Callable[[str], Path], use: Use) -> None:
    """A file that was cut, as by a full disk, is as good as none."""
    package = copied("clone")
    out, kept = use(package)
    sizes = {path: path.stat().st_size for path in kept}
    for path in kept:
        if path.match(kind):
            path.write_bytes(content)
    assert use(package) == (out, kept)
    assert use(package) == (out, kept)
    assert all(path.stat().st_size > 0.5 * size for path, size in sizes.items())


def test_without_a_place_to_write_kernels_are_not_kept(copied: Callable[[str], Path], use: Use) -> None:
    """Neither the user's cache nor the package can be written to: the program runs, and says nothing."""
    package = copied("clone")
    out, _ = use(package)
    for path in package.rglob("__pycache__"):
        shutil.rmtree(path)
    (package / "__pycache__").touch()
    shutil.rmtree(package.parent.parent / "cache")
    assert use(package, os.devnull) == (out, set())


def test_the_package_keeps_kernels_if_the_user_has_no_cache(copied: Callable[[str], Path], use: Use) -> None:
    """A user without a home still compiles only once."""
    package = copied("clone")
    out, kept = use(package, "~nobody-of-this-name")
    assert kept
    assert all(path.is_relative_to(package / "__pycache__") for path in kept)
    assert use(package, "~nobody-of-this-name") == (out, kept)
