"""Optional packages: what needs one says in a line how to install it."""

from importlib import import_module
from typing import Any


class MissingExtra(ValueError):
    """An optional package is not installed; the message is one line."""


def import_extra(module: str, extra: str) -> Any:
    """A module of an optional package, or one of ours that imports it.

    Raises:
        MissingExtra: the package is not installed, or not one that can be imported.
    """
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        raise MissingExtra(f"{error.name} is not installed: pip install 'cpsat-pim[{extra}]'") from error
    except (ImportError, OSError) as error:  # another version, or a library of it that is not there
        reason = next(iter(str(error).splitlines()), "")
        raise MissingExtra(f"{module} cannot be imported ({reason}): pip install 'cpsat-pim[{extra}]'") from error
