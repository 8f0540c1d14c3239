"""The folder's one numba decorator."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar, cast

import numba

from tables.jit import drop_stale_cache

F = TypeVar("F", bound=Callable[..., Any])


def njit(function: F) -> F:
    """Compile without the interpreter, cached on disk, as `tables.jit.njit` does for the files of its own folder."""
    compiled = numba.njit(cache=True)(function)
    if compiled is not function and (kept := compiled.stats.cache_path):  # not if NUMBA_DISABLE_JIT is set
        drop_stale_cache(Path(__file__).parent, Path(kept))
    return cast(F, compiled)
