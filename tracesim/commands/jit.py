"""The folder's one compiler decorator."""

from collections.abc import Callable
from pathlib import Path
from typing import ParamSpec, TypeVar, cast

import numba

from tracesim.jit import drop_stale_cache

_Arguments = ParamSpec("_Arguments")
_Result = TypeVar("_Result")


def kernel(function: Callable[_Arguments, _Result]) -> Callable[_Arguments, _Result]:
    """Compile a function on ints and arrays, as `tracesim.jit.kernel` does for the files of its own folder.

    `cache`: compiling takes longer than most simulations. The undecorated function stays at `.py_func`.
    """
    compiled = numba.njit(cache=True)(function)
    if compiled is not function and (kept := compiled.stats.cache_path):  # not if NUMBA_DISABLE_JIT is set
        drop_stale_cache(Path(__file__).parent, Path(kept))
    return cast(Callable[_Arguments, _Result], compiled)
