"""Why a plan costs what it does: where its time goes, what moves and whether it must, and what capacity is worth.

Everything is computed from one plan and its cost; no search is run.
"""

from collections.abc import Iterator

import numpy as np
from attrs import evolve, frozen

from cpsat_pim.planner.array import MESH, NodeArray
from cpsat_pim.planner.evaluate import PlanCost, StepCost
from cpsat_pim.planner.partition import Home, Partition
from cpsat_pim.planner.phases import PhaseCost, Rates
from cpsat_pim.planner.plan import Plan
from cpsat_pim.planner.space import Space
from cpsat_pim.planner.step import Step
from cpsat_pim.planner.tensors import Graph, LayerTask
from tables.array.counts import EJECT, INJECT

MIB = 2**20
#: Phases in which nodes pass data on along tours.
EXCHANGES_ALONG_TOURS = ("weights", "pull", "reduce")
_WAYS = ((0, 1), (0, -1), (1, 0), (-1, 0))


@frozen(kw_only=True)
class TimeShare:
    """Cycles of all steps by what they wait for: node programs, the network, or DRAM."""

    node: int
    network: int
    dram: int


@frozen(kw_only=True)
class BusyLink:
    """The link with the most flits of any phase: its two nodes, and how long that phase takes."""

    layer: str
    phase: str
    source: int
    target: int
    flits: int
    phase_cycles: int


@frozen(kw_only=True)
class TourShare:
    """Cycles of exchanges along tours, and how many of them other tours could save at most, at the same partitions.

    Whatever the tours, a node receives the same chunks over its port and reads and writes as much DRAM.
    """

    cycles: int
    most_saved: int


@frozen(kw_only=True)
class Movement:
    """A tensor that moves: cycles to send it home and to fetch it from there, and the least of any home of the space.

    The partitions of the layers around it are kept. Where `least_cycles` is not 0, they force a move.
    """

    tensor: str
    push_cycles: int
    pull_cycles: int
    least_cycles: int

    @property
    def cycles(self) -> int:
        """Both ways."""
        return self.push_cycles + self.pull_cycles


@frozen(kw_only=True)
class Capacity:
    """The fullest node, and what a MiB more or less is worth there.

    `gain`: cycles that more replicas of one layer's weights would save, a MiB of the fullest of its nodes; 0 if all
    layers have as many as they can use. `loss`: the fewest cycles that it would cost to free a MiB so; None if no layer
    has a replica to spare.
    """

    peak_bytes: int
    capacity_bytes: int
    gain: float
    gain_layer: str
    loss: float | None
    loss_layer: str


@frozen(kw_only=True)
class Explanation:
    """All that is said of a plan."""

    time: TimeShare
    link: BusyLink | None
    tours: TourShare
    movements: tuple[Movement, ...]
    capacity: Capacity


def explain_plan(graph: Graph, plan: Plan, cost: PlanCost, space: Space) -> Explanation:
    """Explain a plan; `space` has the homes that tensors might have instead."""
    return Explanation(
        time=_time(cost),
        link=_busiest_link(plan.array, cost),
        tours=tour_share(plan.array, cost),
        movements=tuple(sorted(_movements(graph, plan, cost, space), key=lambda one: -one.cycles)),
        capacity=_capacity(graph, plan, cost),
    )


def _time(cost: PlanCost) -> TimeShare:
    """A phase counts as what ends later, network or DRAM."""
    by_network = [phase.network_cycles > phase.dram_cycles for phase in cost.phases]
    cycles = [phase.cycles for phase in cost.phases]
    network = sum(c for c, is_network in zip(cycles, by_network, strict=True) if is_network)
    return TimeShare(node=sum(step.node_cycles for step in cost.steps), network=network, dram=sum(cycles) - network)


def tour_share(array: NodeArray, cost: PlanCost) -> TourShare:
    """Compare the exchanges along tours with what DRAM and ports take; over a host nothing is toured."""
    if array.interconnect != MESH:
        return TourShare(cycles=0, most_saved=0)
    toured = [phase for step in cost.steps for phase in step.phases if phase.name in EXCHANGES_ALONG_TOURS]
    least = [max(one.dram_cycles, -(-int(one.loads[:, EJECT].max()) // array.local_port_flits)) for one in toured]
    cycles = [phase.cycles for phase in toured]
    return TourShare(cycles=sum(cycles), most_saved=sum(map(max, zip(cycles, least, strict=True))) - sum(least))


def _busiest_link(array: NodeArray, cost: PlanCost) -> BusyLink | None:
    """None if nothing crosses a link."""
    phases = [(phase.max_link_flits, step, phase) for step in cost.steps for phase in step.phases]
    flits, step, phase = max(phases, key=lambda one: one[0])
    return _link(array, step, phase) if flits else None


def _link(array: NodeArray, step: StepCost, phase: PhaseCost) -> BusyLink:
    node, way = np.unravel_index(int(phase.loads[:, :INJECT].argmax()), phase.loads[:, :INJECT].shape)
    down, right = _WAYS[int(way)]
    return BusyLink(
        layer=step.layer,
        phase=phase.name,
        source=int(node),
        target=int(node) + down * array.cols + right,
        flits=phase.max_link_flits,
        phase_cycles=phase.cycles,
    )


# Movements


def _movements(graph: Graph, plan: Plan, cost: PlanCost, space: Space) -> Iterator[Movement]:
    """Of every tensor with a home of its own that moves at all."""
    steps = {name: _step(graph, plan, cost.rates, name) for _, _, name in plan.steps}
    homes = space.homes_of(graph, plan.array)
    for name in graph.homes:
        writers = [task for task in graph.tasks if graph.home_of[task.writes] == name]
        readers = [task for task in graph.tasks if graph.home_of[task.reads.stack] == name]
        push, pull = _moved(steps, writers, readers, plan, plan.homes[name])
        if push + pull:
            least = min(sum(_moved(steps, writers, readers, plan, home)) for home in [*homes[name], plan.homes[name]])
            yield Movement(tensor=name, push_cycles=push, pull_cycles=pull, least_cycles=least)


def _moved(
    steps: dict[str, Step], writers: list[LayerTask], readers: list[LayerTask], plan: Plan, home: Home
) -> tuple[int, int]:
    """Cycles of sending to a home and of fetching from there; a push that only writes its own node's DRAM is none."""
    push = sum(phase.cycles for task in writers if (phase := steps[task.name].push(home)).flits)
    pull = 0
    for task in readers:
        second = plan.homes[task.others[0].stack] if task.others else None
        phase = steps[task.name].pull(home, second)
        pull += phase.cycles if phase.flits else 0
    return push, pull


def _step(graph: Graph, plan: Plan, rates: Rates, name: str, partition: Partition | None = None) -> Step:
    layer = plan.layers[name]
    tours = layer.tours if partition is None else {}
    split = partition or layer.partition
    return Step(graph=graph, task=graph.task(name), partition=split, rates=rates, tours=tours)


# Capacity


def _capacity(graph: Graph, plan: Plan, cost: PlanCost) -> Capacity:
    """Prices from the next larger and the next smaller number of replicas of every layer."""
    gains, losses = [(0.0, "")], list[tuple[float, str]]()
    for task in graph.tasks:
        partition = plan.layers[task.name].partition
        if not task.has_weights:
            continue
        numbers = task.replica_counts(partition.sharing)[::-1]
        at = numbers.index(partition.replicas)
        if at + 1 < len(numbers):
            gains.append((_price(graph, plan, cost.rates, task, numbers[at], numbers[at + 1]), task.name))
        if at > 0:
            losses.append((_price(graph, plan, cost.rates, task, numbers[at - 1], numbers[at]), task.name))
    gain, loss = max(gains), min(losses, default=None)
    return Capacity(
        peak_bytes=cost.peak_bytes,
        capacity_bytes=plan.array.capacity_bytes,
        gain=gain[0],
        gain_layer=gain[1],
        loss=loss[0] if loss else None,
        loss_layer=loss[1] if loss else "",
    )


def _price(graph: Graph, plan: Plan, rates: Rates, task: LayerTask, fewer: int, more: int) -> float:
    """Cycles saved by more replicas of a layer's weights, a MiB on the node that holds most of them."""
    cycles, held = [], []
    for replicas in (fewer, more):
        partition = evolve(plan.layers[task.name].partition, weight_replicas=replicas)
        step = _step(graph, plan, rates, task.name, partition)
        cycles.append(step.weights().cycles)
        held.append(int(step.weight_chunks().max()))
    return (cycles[0] - cycles[1]) * MIB / max(1, held[1] - held[0])
