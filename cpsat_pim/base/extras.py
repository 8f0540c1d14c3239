"""Optional packages: import one, or say in one line how to install it."""

from importlib import import_module
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
