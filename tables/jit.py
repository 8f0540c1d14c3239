"""The package's one numba decorator."""

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba

from tables.kernel_cache import keep

F = TypeVar("F", bound=Callable[..., Any])


def njit(function: F) -> F:
    """Compile in nopython mode and keep on disk: compiling takes longer than building most layers' tables."""
    compiled = numba.njit(function)
    keep(compiled, function)
    return cast(F, compiled)
