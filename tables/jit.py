"""The package's one numba decorator."""

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba

from tables.kernel_cache import compile_once, keep

F = TypeVar("F", bound=Callable[..., Any])


def njit(function: F) -> F:
    """Compile in nopython mode and keep on disk: compiling takes longer than building most layers' tables.

    No wrapper for calls from C, which nobody makes: it takes as long to compile as a short kernel.
    """
    compiled = numba.njit(no_cfunc_wrapper=True)(function)
    keep(compiled, function)
    compile_once(compiled, function)
    return cast(F, compiled)
