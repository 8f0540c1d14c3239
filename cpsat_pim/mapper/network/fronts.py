"""The proven Pareto fronts of a network's layers, equal layers solved once."""

import threading
import time
from collections.abc import Callable

from attrs import frozen

from cpsat_pim.arch import PIMArchitecture
from cpsat_pim.base.interrupts import interrupt_stops
from cpsat_pim.mapper.network.front_points import Front, Point
from cpsat_pim.mapper.network.pareto import FrontRequest, LayerSolves, front
from cpsat_pim.mapping.widths import on_machine
from cpsat_pim.workload.network import Network, NetworkNode


@frozen(kw_only=True)
class LayerFront:
    """The front of a layer of a network."""

    node: NetworkNode
    front: Front

    @property
    def points(self) -> tuple[tuple[str, Point], ...]:
        """The points and their names: that of the layer with a number from 1."""
        return tuple((f"{self.node.name}.{i}", point) for i, point in enumerate(self.front.points, 1))


@frozen(kw_only=True)
class NetworkFronts:
    """The fronts of a network's layers, in its order; those not begun are absent."""

    network: str
    arch: PIMArchitecture
    layers: tuple[LayerFront, ...]
    seconds: float
    interrupted: bool
    with_activations: bool = False


def network_fronts(
    network: Network,
    arch: PIMArchitecture,
    request: FrontRequest,
    stop: threading.Event | None = None,
    on_front: Callable[[NetworkFronts], None] | None = None,
) -> NetworkFronts:
    """Return the front of each layer, equal ones found once.

    `stop`, or Ctrl-C, ends it with what was found. `on_front` receives the fronts so far whenever there is another one,
    as if the run had ended there.

    Raises:
        Disagreement: a mapping is illegal, or some exact figure was predicted wrongly.
    """
    started, stop, network = time.monotonic(), stop or threading.Event(), on_machine(network, arch)
    found: dict[str, Front] = {}

    def fronts_so_far(interrupted: bool) -> NetworkFronts:
        nodes = (node for node in network.layers if node.workload.shape_key in found)
        return NetworkFronts(
            network=network.name,
            arch=arch,
            layers=tuple(LayerFront(node=node, front=found[node.workload.shape_key]) for node in nodes),
            seconds=time.monotonic() - started,
            interrupted=interrupted,
            with_activations=request.with_activations,
        )

    with interrupt_stops(stop):
        for layer in (node.workload for node in network.layers):
            if layer.shape_key not in found and not stop.is_set():
                solve = LayerSolves(layer, arch, request, stop)
                found[layer.shape_key] = front(solve, request.step, request.with_activations, solve.is_over)
                if on_front:
                    on_front(fronts_so_far(interrupted=True))
    return fronts_so_far(stop.is_set())
