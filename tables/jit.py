"""The package's decorators of numba."""

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba
from numba.extending import register_jitable

from tables.compiler import KernelCompiler
from tables.kernel_cache import keep
from tables.linking import link_only

F = TypeVar("F", bound=Callable[..., Any])


def njit(function: F) -> F:
    """Compile in nopython mode and keep on disk: compiling takes longer than building most layers' tables.

    `nogil`: another thread may watch a kernel, and stop it. No wrapper for calls from C, which nobody makes: compiling
    it takes as long as a short kernel.
    """
    return _compiled(function)


def borrowing_njit(function: F) -> F:
    """Compile a kernel that makes no arrays, and counts no references: its caller keeps the arrays that it is given.

    Counting those of NamedTuples of arrays, and of rows of arrays, took half of the time to enumerate tiles.
    """
    return _compiled(function, _nrt=False)


def _compiled(function: F, **options: Any) -> F:
    """Compile a kernel with some options of numba."""
    compiled = numba.njit(nogil=True, no_cfunc_wrapper=True, pipeline_class=KernelCompiler, **options)(function)
    keep(compiled, function)
    link_only(compiled, function, **options)
    return cast(F, compiled)


def jitable(function: F) -> F:
    """Let kernels call a function that is not compiled where Python calls it."""
    return cast(F, register_jitable(function))
