"""Provably optimal mappings of neural-network layers onto DRAM processing-in-memory accelerators.

The public names are imported when they are first used: the solver and the compiler take a second to load.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cpsat_pim.arch import PIMArchitecture
    from cpsat_pim.mapper.network.optimizer import PIMOptimizer
    from cpsat_pim.workload import ConvWorkload

__all__ = ["ConvWorkload", "PIMArchitecture", "PIMOptimizer"]

_HOMES = {
    "ConvWorkload": "cpsat_pim.workload",
    "PIMArchitecture": "cpsat_pim.arch",
    "PIMOptimizer": "cpsat_pim.mapper.network.optimizer",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
