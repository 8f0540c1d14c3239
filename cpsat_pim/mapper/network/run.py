"""Solve and verify the layers of a network: equal ones once, longest first, here or in worker processes."""

import time
from collections.abc import Callable, Sequence

import attrs
from attrs import field, frozen

from cpsat_pim.arch import PIMArchitecture
from cpsat_pim.base.validate import is_a
from cpsat_pim.mapper.network.tasks import Execution, Results, Task, run_tasks
from cpsat_pim.mapper.network.verified import solve_and_verify
from cpsat_pim.mapper.result import NetworkLayer, SolvedLayer, SolvedNetwork
from cpsat_pim.mapper.search import SolveRequest
from cpsat_pim.mapping import Mapping
from cpsat_pim.mapping.constraints import NetworkConstraints
from cpsat_pim.mapping.widths import on_machine
from cpsat_pim.workload.network import Network, NetworkNode

__all__ = ["Execution", "NetworkRequest", "WorkersDied", "as_layer", "solve_and_verify", "solve_network"]


@frozen(kw_only=True)
class NetworkRequest:
    """What the solves of a network's layers are asked: all of them what `each` says, except that `constraints` are by
    layer, and that `starts` are the legal mappings that some layers start from, by name.
    """

    each: SolveRequest = field(validator=is_a(SolveRequest))
    constraints: NetworkConstraints = field(validator=is_a(NetworkConstraints))
    starts: dict[str, Mapping] = field(factory=dict)

    @constraints.default
    def _everywhere(self) -> NetworkConstraints:
        return NetworkConstraints(everywhere=self.each.constraints)

    @classmethod
    def whole(cls, request: "SolveRequest | NetworkRequest") -> "NetworkRequest":
        """Return the request of a network whose layers are all asked the same, unless it is one already."""
        return request if isinstance(request, NetworkRequest) else cls(each=request)

    def key(self, node: NetworkNode) -> str:
        """Return the key that layers have in common which are solved once: shape and constraints."""
        return self.constraints.key(node.name, node.workload)

    def of(self, node: NetworkNode, start: Mapping | None = None) -> SolveRequest:
        """Return what the solve of one layer is asked, from a mapping to start from."""
        return attrs.evolve(self.each, constraints=self.constraints.of(node.name), start=start or self.each.start)

    def starts_by_key(self, nodes: Sequence[NetworkNode]) -> dict[str, Mapping]:
        """Return the mappings to start from by the keys of layers: of equal ones the first that there is."""
        return {self.key(node): self.starts[node.name] for node in reversed(nodes) if node.name in self.starts}


class WorkersDied(Exception):
    """A worker process was killed, and with it all that was not solved yet; `solved` is what was."""

    def __init__(self, solved: SolvedNetwork, lost: list[str]) -> None:
        super().__init__(f"a worker process was killed: no answer for {', '.join(lost)}")
        self.solved = solved


def solve_network(
    network: Network,
    arch: PIMArchitecture,
    request: SolveRequest | NetworkRequest,
    execution: Execution | None = None,
    on_solved: Callable[[SolvedNetwork], None] | None = None,
) -> SolvedNetwork:
    """Solve every layer of a network, equal ones once, longest first. A network without bytes per element has those of
    the machine's words.

    A stop, or Ctrl-C, ends the solves that are running with what they have; layers that were not begun are then absent.
    `on_solved` receives all layers solved so far whenever there are more, as if the run had ended there.

    Raises:
        ValueError: a mapping to start from breaks a constraint.
        Disagreement: a mapping is illegal, or some exact figure was predicted wrongly.
        WorkersDied: a worker process was killed.
    """
    network = on_machine(network, arch)
    started, nodes = time.monotonic(), network.layers
    asked, execution = NetworkRequest.whole(request), execution or Execution()
    tasks = _tasks(nodes, arch, asked)

    def solved_with(results: Results, interrupted: bool) -> SolvedNetwork:
        return SolvedNetwork(
            network=network.name,
            arch=arch,
            objective=asked.each.objective,
            layers=tuple(as_layer(node, solved) for node in nodes if (solved := results.get(asked.key(node)))),
            seconds=time.monotonic() - started,
            interrupted=interrupted,
        )

    def on_results(results: Results) -> None:
        if on_solved and len(results) < len(tasks):
            on_solved(solved_with(results, interrupted=True))

    results = run_tasks(tasks, execution, on_results)
    lost = [node.name for node in nodes if results.get(asked.key(node), ...) is None]
    solved = solved_with(results, execution.stop.is_set() or bool(lost))
    if lost:
        raise WorkersDied(solved, lost)
    return solved


def _tasks(nodes: Sequence[NetworkNode], arch: PIMArchitecture, asked: NetworkRequest) -> list[Task]:
    """Return one task for all equal layers, of the first of them, the longest first."""
    first = {asked.key(node): node for node in reversed(nodes)}
    starts = asked.starts_by_key(nodes)
    tasks = [
        Task(key=key, layer=node.workload, arch=arch, request=asked.of(node, starts.get(key)))
        for key, node in reversed(first.items())
    ]
    return sorted(tasks, key=lambda task: -task.layer.macs)


def as_layer(node: NetworkNode, solved: SolvedLayer) -> NetworkLayer:
    """Return a node's own result: that of an equal layer, under the node's name."""
    own = attrs.evolve(solved, workload=attrs.evolve(solved.workload, name=node.workload.name))
    return NetworkLayer(name=node.name, count=node.count, after=node.after, solved=own)
