"""Compiled kernels on disk, by what they were compiled from.

They lie in the user's cache: all copies and installations of one version of the sources share them. Numba's own cache
lies beside the sources, and compares a kernel with its own source only, although kernels of other sources are compiled
into it. (`tables` and `tracesim` import nothing of each other, so each has a copy of this file.)
"""

import hashlib
import os
import re
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import IO, Any

import numba
from numba.core.caching import CompileResultCacheImpl, FunctionCache, _CacheLocator

try:
    import fcntl
except ImportError:  # Windows has none: processes then compile the same kernel at once
    fcntl = None  # type: ignore[assignment]

_PACKAGE = Path(__file__).resolve().parent
#: What a source imports from its own package: a module, and names, which may be modules too.
_IMPORT = re.compile(rf"^from ({_PACKAGE.name}[\w.]*) import (\([^)]*\)|.*)$", re.MULTILINE)
#: So long at most one process waits for another one to compile a kernel.
_LOCKED_SECONDS = 300
#: Kernels of other contents of a source are kept for so long.
_KEPT_SECONDS = 60 * 24 * 3600


def keep(compiled: Any, function: Callable[..., Any], kind: "type[KernelCache] | None" = None) -> None:
    """Keep what numba compiles of a function on disk; if no place can be written to, every process compiles it.

    `compiled`: the function's dispatcher (modified), or the function itself if NUMBA_DISABLE_JIT is set. `kind`: how.
    """
    if compiled is not function:
        with suppress(RuntimeError):  # no directory can be written to
            compiled._cache = (kind or KernelCache)(function)


def user_cache() -> Path:
    """Return the directory for what can be computed again. It need not exist, and perhaps cannot be made."""
    root = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return Path(os.devnull if root.startswith("~") else root, "cpsat-pim")  # a user without a home


@cache
def digest(path: Path) -> str:
    """Return a digest of a source of this package and of all that it imports from this package."""
    return hashlib.sha256(b"".join(source.read_bytes() for source in sorted(sources(path)))).hexdigest()[:24]


def sources(path: Path) -> set[Path]:
    """Return a source and all sources of the package that it imports, directly or not."""
    found, waiting = {path}, [path]
    while waiting:
        new = set(_imported(waiting.pop())) - found
        found |= new
        waiting.extend(new)
    return found


@cache
def _imported(path: Path) -> tuple[Path, ...]:
    """Return the sources of the package that a source names in its imports."""
    text = path.read_text(encoding="utf-8")
    modules = [name for module, names in _IMPORT.findall(text) for name in _modules(module, names)]
    stems = [_PACKAGE.parent.joinpath(*name.split(".")) for name in modules]
    files = [file for stem in stems for file in (stem.with_suffix(".py"), stem / "__init__.py")]
    return tuple(file for file in files if file.is_file())


def _modules(module: str, names: str) -> Iterator[str]:
    """Yield what may be modules in `from module import names`."""
    yield module
    yield from (f"{module}.{name}" for name in re.findall(r"\w+", names))


def _roots() -> list[Path]:
    """Return where kernels may be kept, the best place first."""
    if told := os.environ.get("NUMBA_CACHE_DIR"):
        return [Path(told)]
    return [user_cache() / "kernels", _PACKAGE / "__pycache__"]


class ByContent(_CacheLocator):  # type: ignore[misc]
    """A directory for each version of numba, source, and content of all that the source imports."""

    def __init__(self, function: Callable[..., Any], path: Path, root: Path) -> None:
        self._line, self._stamp = function.__code__.co_firstlineno, digest(path)
        module = ".".join(path.relative_to(_PACKAGE.parent).with_suffix("").parts)
        self._directory = root / numba.__version__ / module / self._stamp

    @classmethod
    def from_function(cls, function: Callable[..., Any], path: str) -> "ByContent | None":
        """Return the first place that can be written to, or None."""
        for root in _roots():
            with suppress(OSError):
                locator = cls(function, Path(path).resolve(), root)
                locator.ensure_cache_path()
                return locator
        return None

    def ensure_cache_path(self) -> None:
        """Make the directory if it is not there; then drop old ones of the same source."""
        if not self._directory.is_dir():
            self._directory.mkdir(parents=True, exist_ok=True)
            for other in self._directory.parent.iterdir():
                if other.stat().st_mtime < time.time() - _KEPT_SECONDS:
                    shutil.rmtree(other, ignore_errors=True)
        super().ensure_cache_path()

    def get_cache_path(self) -> str:
        """Return the directory."""
        return str(self._directory)

    def get_source_stamp(self) -> str:
        """Return the digest of what a kernel is compiled from."""
        return self._stamp

    def get_disambiguator(self) -> str:
        """Return what tells functions of one name in one source apart."""
        return str(self._line)


class KernelFiles(CompileResultCacheImpl):  # type: ignore[misc]
    """Compiled kernels as files of these directories."""

    _locator_classes = (ByContent,)


class KernelCache(FunctionCache):  # type: ignore[misc]
    """Numba's cache of a function, in which a damaged file is as good as none.

    Of processes that need the same kernel at once, one compiles it and the others wait. None waits for itself, as every
    process takes the lock of a caller before that of what it calls, and no kernel calls itself.
    """

    _impl_class = KernelFiles
    #: The open lock file, from the time when a kernel was not found until it is kept.
    _lock: IO[bytes] | None = None

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Return a kernel that was kept, or None; then nobody else compiles it until it is kept."""
        found = self._load(sig, target_context)
        if found is None and self._lock is None:
            self._wait()
            found = self._load(sig, target_context)
            if found is not None:
                self._release()
        return found

    def _load(self, sig: Any, target_context: Any) -> Any:
        """Return a kernel that was kept, or None."""
        try:
            return super().load_overload(sig, target_context)
        except Exception:  # a damaged file may raise anything when it is unpickled
            with suppress(OSError):
                self.flush()
            return None

    def save_overload(self, sig: Any, data: Any) -> None:
        """Keep a kernel, unless the disk is full."""
        with suppress(OSError):
            super().save_overload(sig, data)
        self._release()

    def _wait(self) -> None:
        """Take the function's lock. Where there are no locks, or if it takes too long, go on without."""
        try:
            self._lock = Path(self._cache_path, f"{self._impl.filename_base}.lock").open("ab")  # noqa: SIM115
        except OSError:
            return
        for _ in range(_LOCKED_SECONDS * 20 if fcntl else 0):
            try:
                fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                time.sleep(0.05)
            except OSError:  # no locks on this file system
                break

    def _release(self) -> None:
        """Give the lock back."""
        if self._lock is not None:
            self._lock.close()
            self._lock = None
