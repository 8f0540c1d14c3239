"""Packages in the environment: optional ones, and one that has the name of a part of this one."""

from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any


class MissingExtra(ValueError):
    """An optional package is not installed; the message is one line that says how to install it."""


def import_extra(module: str, extra: str) -> Any:
    """Import a module of an optional package, or a module of ours that needs one.

    Raises:
        MissingExtra: the package is not installed, or it cannot be imported.
    """
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        raise MissingExtra(f"{error.name} is not installed: pip install 'cpsat-pim[{extra}]'") from error
    except (ImportError, OSError) as error:  # an incompatible version, or a shared library that is missing
        reason = next(iter(str(error).splitlines()), "")
        raise MissingExtra(f"{module} cannot be imported ({reason}): pip install 'cpsat-pim[{extra}]'") from error


class ForeignTables(ImportError):
    """Another package is imported as `tables`; the message is one line that says what to do."""


@cache
def check_tables() -> None:
    """Check that the import name `tables` is the part of this package, without importing it: PyTables has it, too.

    Raises:
        ForeignTables: it is not, or files of both lie in one folder, because both were installed.
    """
    spec = find_spec("tables")
    folder = Path(spec.origin).parent if spec and spec.origin else None
    is_own = folder is not None and (folder / "counts").is_dir() and not any(folder.glob("hdf5extension*"))
    if not is_own:
        where = f"{folder} holds" if folder else "there is"
        other = "another package of that name, such as PyTables" if folder else "none"
        raise ForeignTables(
            f"the part of cpsat-pim that is imported as `tables` is missing: {where} {other}; make "
            "an environment of its own (python -m venv .venv), and install cpsat-pim there"
        )
