"""A network under one shared choice."""

import math
import time
from collections.abc import Sequence

from cpsat_pim.arch import PIMArchitecture
from cpsat_pim.base.interrupts import interrupt_stops
from cpsat_pim.mapper.network.run import NetworkRequest, WorkersDied, as_layer
from cpsat_pim.mapper.network.shared.decisions import Decision, constrained, decisions_of
from cpsat_pim.mapper.network.shared.layer import SharedLayer
from cpsat_pim.mapper.network.shared.search import SharedSearch
from cpsat_pim.mapper.network.shared.solving import Solving
from cpsat_pim.mapper.network.tasks import Execution
from cpsat_pim.mapper.result import SharedChoice, SolvedNetwork
from cpsat_pim.mapper.search import SolveRequest
from cpsat_pim.mapping.constraints import FREE
from cpsat_pim.mapping.widths import on_machine
from cpsat_pim.workload.network import Network, NetworkNode


def solve_shared(
    network: Network,
    arch: PIMArchitecture,
    request: SolveRequest | NetworkRequest,
    share: Sequence[str],
    total_time: float = math.inf,
    execution: Execution | None = None,
) -> SolvedNetwork:
    """Solve every layer of a network under the shared choice of least sum.

    `share` names what is shared: `bypass`, what each level stores; `layout`, axis orders in DRAM and which tensors are
    row-aligned. The request's `time_limit` is of one solve, `total_time` of all, in seconds. A stop, or Ctrl-C, ends
    the search with what it has.

    Raises:
        ValueError: `share` names nothing, or something unknown; `total_time` is below 0; and see `solve_network`.
        Disagreement, WorkersDied: see `solve_network`.
    """
    started, network = time.monotonic(), on_machine(network, arch)
    if not total_time >= 0:
        raise ValueError(f"total_time: must be a number of at least 0 (got {total_time})")
    asked = NetworkRequest.whole(request)
    layers = _layers(network.layers, arch, asked, decisions_of(share))
    solving = Solving(request=asked.each, end=started + total_time, execution=execution or Execution())
    search = SharedSearch([*layers.values()], solving, solving.is_over, solving.execution.jobs)
    with interrupt_stops(solving.execution.stop):
        search.run()
    results = {key: search.result(layer) for key, layer in layers.items() if layer.results}
    known = [(node, results.get(asked.key(node))) for node in network.layers]
    solved = SolvedNetwork(
        network=network.name,
        arch=arch,
        objective=asked.each.objective,
        layers=tuple(as_layer(node, result) for node, result in known if result),
        seconds=time.monotonic() - started,
        interrupted=solving.execution.stop.is_set() or bool(solving.lost),
        shared=_shared(search, share),
    )
    if solving.lost:
        raise WorkersDied(solved, solving.lost)
    return solved


def _layers(
    nodes: Sequence[NetworkNode], arch: PIMArchitecture, asked: NetworkRequest, decisions: Sequence[Decision]
) -> dict[str, SharedLayer]:
    """Return one layer for all equal ones under equal constraints, from the first mapping that one of them has."""
    layers: dict[str, SharedLayer] = {}
    starts = asked.starts_by_key(nodes)
    for node in nodes:
        key = asked.key(node)
        if key not in layers:
            layers[key] = SharedLayer(node.workload, arch, decisions, asked.of(node, starts.get(key)))
        layers[key].count += node.count
    return layers


def _shared(search: SharedSearch, share: Sequence[str]) -> SharedChoice:
    """Return the outcome of the search, in the objective's reported unit."""
    first = search.layers[0]

    def reported(value: int | None) -> int | float | None:
        return None if value is None else first.objective.reported(value)

    return SharedChoice(
        share=tuple(share),
        choice=None if search.choice is None else constrained(FREE, first.decisions, search.choice),
        status=search.status,
        objective_value=reported(search.total),
        bound=reported(search.bound),
        free=reported(search.sum_of_best(search.free)),
        solves=sum(len(layer.results) for layer in search.layers),
    )
