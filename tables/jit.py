"""The package's one numba decorator."""

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar, cast

import numba

F = TypeVar("F", bound=Callable[..., Any])


def drop_stale_cache(package: Path) -> None:
    """Delete the package's compiled kernels that are older than any of its sources.

    Numba looks at a kernel's own file only. Kernels of other files are compiled into it, and a table built by what is
    no longer there would bound mappings wrongly, and be kept under the key of the new code.
    """
    newest = max(source.stat().st_mtime for source in package.glob("*.py"))
    for index in (package / "__pycache__").glob("*.nbi"):
        with suppress(OSError):  # another process is at it as well, or nobody may change the package
            if index.stat().st_mtime < newest:
                index.unlink()


drop_stale_cache(Path(__file__).parent)


def njit(function: F) -> F:
    """Compile without the interpreter, cached on disk: compiling takes longer than most layers' tables."""
    return cast(F, numba.njit(cache=True)(function))
