"""The package's one compiler decorator, and the records its kernels share."""

from collections.abc import Callable
from typing import Any, ParamSpec, TypeAlias, TypeVar, cast

import numba
import numpy as np

from tracesim.compiler import KernelCompiler
from tracesim.kernel_cache import keep
from tracesim.linking import link_only

_Arguments = ParamSpec("_Arguments")
_Result = TypeVar("_Result")

Record: TypeAlias = Any
"""One np.record; its fields are int64, scalars or arrays of a fixed shape, and are named by a `record_type`."""


def kernel(function: Callable[_Arguments, _Result]) -> Callable[_Arguments, _Result]:
    """Compile a function on ints, arrays, records and NamedTuples of them.

    Kept on disk: compiling the walk takes far longer than most walks. No `fastmath` (everything is an integer) and no
    `parallel` (a walk is a sequence). `nogil`: another thread may watch a walk, and stop it. The undecorated function
    stays at `.py_func`.
    """
    compiled = numba.njit(nogil=True, no_cfunc_wrapper=True, pipeline_class=KernelCompiler)(function)
    keep(compiled, function)
    link_only(compiled, function)
    return cast(Callable[_Arguments, _Result], compiled)


def record_type(**shapes: tuple[int, ...]) -> "np.dtype[np.void]":
    """Return the type of a record of int64 fields of these shapes; `()` is a plain number.

    What the walk changes at every step lives in records rather than in NamedTuples of arrays: numba passes a record
    as one pointer, but counts references to every array of a NamedTuple in every call, which took most of the time.
    """
    return np.dtype((np.record, [(name, np.int64, shape) for name, shape in shapes.items()]))


def new_record(kind: "np.dtype[np.void]") -> Record:
    """Return a record of zeros. Only for callers outside kernels: a kernel would free it while still pointing at it."""
    return np.zeros(1, kind)[0]
