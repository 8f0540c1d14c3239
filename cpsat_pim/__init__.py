"""Provably optimal mappings of neural-network layers onto DRAM processing-in-memory accelerators.

    from cpsat_pim import Objective, SolveRequest, read_arch, read_network, solve_network

    request = SolveRequest(objective=Objective.named("energy"))
    solved = solve_network(read_network("resnet50"), read_arch("hbm-pim"), request)
    solved.to_frame()

The public names are imported when they are first used: the solver and the compiler take a second to load.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from cpsat_pim.base.extras import check_tables

if TYPE_CHECKING:
    from cpsat_pim.arch import PIMArchitecture
    from cpsat_pim.arch.reading import read_arch
    from cpsat_pim.evaluate.cost import predict
    from cpsat_pim.evaluate.verify import simulate
    from cpsat_pim.importers import import_network
    from cpsat_pim.mapper.network.optimizer import PIMOptimizer
    from cpsat_pim.mapper.network.run import solve_network
    from cpsat_pim.mapper.network.verified import solve_and_verify as solve_layer
    from cpsat_pim.mapper.result import Objective, SolvedLayer, SolvedNetwork, Status
    from cpsat_pim.mapper.search import SolveRequest
    from cpsat_pim.mapping import Mapping
    from cpsat_pim.mapping.check import check_mapping
    from cpsat_pim.mapping.constraints import read_constraints
    from cpsat_pim.mapping.loop_nest import format_nest
    from cpsat_pim.workload import ConvWorkload
    from cpsat_pim.workload.network import Network, read_network

#: Each public name, and where it lives: a module, or a module and another name.
_HOMES = {
    "ConvWorkload": "cpsat_pim.workload",
    "Mapping": "cpsat_pim.mapping",
    "Network": "cpsat_pim.workload.network",
    "Objective": "cpsat_pim.mapper.result",
    "PIMArchitecture": "cpsat_pim.arch",
    "PIMOptimizer": "cpsat_pim.mapper.network.optimizer",
    "SolveRequest": "cpsat_pim.mapper.search",
    "SolvedLayer": "cpsat_pim.mapper.result",
    "SolvedNetwork": "cpsat_pim.mapper.result",
    "Status": "cpsat_pim.mapper.result",
    "check_mapping": "cpsat_pim.mapping.check",
    "format_nest": "cpsat_pim.mapping.loop_nest",
    "import_network": "cpsat_pim.importers",
    "predict": "cpsat_pim.evaluate.cost",
    "read_arch": "cpsat_pim.arch.reading",
    "read_constraints": "cpsat_pim.mapping.constraints",
    "read_network": "cpsat_pim.workload.network",
    "simulate": "cpsat_pim.evaluate.verify",
    "solve_layer": "cpsat_pim.mapper.network.verified:solve_and_verify",
    "solve_network": "cpsat_pim.mapper.network.run",
}

__all__ = [
    "ConvWorkload",
    "Mapping",
    "Network",
    "Objective",
    "PIMArchitecture",
    "PIMOptimizer",
    "SolveRequest",
    "SolvedLayer",
    "SolvedNetwork",
    "Status",
    "check_mapping",
    "format_nest",
    "import_network",
    "predict",
    "read_arch",
    "read_constraints",
    "read_network",
    "simulate",
    "solve_layer",
    "solve_network",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    check_tables()
    module, _, other = _HOMES[name].partition(":")
    return getattr(import_module(module), other or name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
