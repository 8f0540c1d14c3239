"""The package's one numba decorator."""

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba

F = TypeVar("F", bound=Callable[..., Any])


def njit(function: F) -> F:
    """Compile without the interpreter, cached on disk: compiling takes longer than most layers' tables."""
    return cast(F, numba.njit(cache=True)(function))
