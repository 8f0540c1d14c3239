"""The package's one numba decorator."""

from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, TypeVar, cast

import numba

F = TypeVar("F", bound=Callable[..., Any])


@cache
def drop_stale_cache(package: Path, kept: Path) -> None:
    """Delete the package's compiled kernels that are older than any of its sources, from where numba keeps them.

    Numba looks at a kernel's own file only. Kernels of other files are compiled into it, and a table built by what is
    no longer there would bound mappings wrongly, and be kept under the key of the new code.
    """
    newest = max(source.stat().st_mtime for source in package.rglob("*.py"))
    for index in kept.glob("*.nbi"):
        with suppress(OSError):  # another process is at it as well, or nobody may change the package
            if index.stat().st_mtime < newest:
                index.unlink()


def njit(function: F) -> F:
    """Compile without the interpreter, cached on disk: compiling takes longer than most layers' tables."""
    compiled = numba.njit(cache=True)(function)
    if compiled is not function and (kept := compiled.stats.cache_path):  # numba may be told to compile nothing
        drop_stale_cache(Path(__file__).parent, Path(kept))
    return cast(F, compiled)
