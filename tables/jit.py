"""The package's one numba decorator."""

from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, TypeVar, cast

import numba

#: The room of kernels about arrays of nodes.
_ARRAY = "array"

F = TypeVar("F", bound=Callable[..., Any])


@cache
def drop_stale_cache(package: Path, kept: Path) -> None:
    """Delete the package's compiled kernels that are older than some source of the package.

    `kept`: the directory in which numba keeps them. Numba compares a kernel with its own source file only, although
    kernels of other files are compiled into it. A kernel of deleted code would build tables with invalid bounds, and
    these tables would be stored under the key of the new code.
    """
    sources = (source for source in package.rglob("*.py") if _concerns(source, kept))
    newest = max(source.stat().st_mtime for source in sources)
    for index in kept.glob("*.nbi"):
        with suppress(OSError):  # another process deletes it too, or the package is read-only
            if index.stat().st_mtime < newest:
                index.unlink()


def _concerns(source: Path, kept: Path) -> bool:
    """Whether kernels that are kept there may be compiled from a source: those of arrays are from nowhere else used."""
    return source.parent.name != _ARRAY or _ARRAY in kept.parts


def njit(function: F) -> F:
    """Compile in nopython mode and cache on disk: compiling takes longer than building most layers' tables."""
    compiled = numba.njit(cache=True)(function)
    if compiled is not function and (kept := compiled.stats.cache_path):  # not if NUMBA_DISABLE_JIT is set
        drop_stale_cache(Path(__file__).parent, Path(kept))
    return cast(F, compiled)
