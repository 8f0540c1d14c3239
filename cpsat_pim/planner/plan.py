"""A plan: where each layer runs, how it is split, and where each tensor lies (docs/array.md, section 8)."""

from collections.abc import Iterator
from typing import Any

from attrs import evolve, field, frozen

from cpsat_pim.base.validate import as_tuple, is_a, not_negative, one_of, or_none
from cpsat_pim.mapping.mapping import Mapping
from cpsat_pim.planner.array import NodeArray, Region
from cpsat_pim.planner.boxes import bounds_of
from cpsat_pim.planner.partition import LAYER_DIMS, Home, Partition, part_size
from cpsat_pim.planner.sums import Sum
from cpsat_pim.planner.tensors import Graph, LayerTask
from cpsat_pim.planner.tours import EXCHANGES, Tours, exchange_tours, replaced
from cpsat_pim.workload import ConvWorkload

ROUND_ROBIN, LISTED = "round-robin", "listed"


@frozen(kw_only=True)
class LayerPlan:
    """A layer's partition, the mapping of its node program, and the simulated figures of that mapping on one node.

    `tours`: by exchange, those that take the place of the default ones.

    Raises:
        ValueError: a figure is negative.
    """

    partition: Partition = field(validator=is_a(Partition))
    tours: Tours = field(factory=dict)
    mapping: Mapping | None = field(default=None, validator=or_none(is_a(Mapping)))
    node_cycles: int = field(default=0, validator=not_negative)
    node_energy_fj: int = field(default=0, validator=not_negative)

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        return self.partition.to_dict() | {
            "tours": {exchange: [list(tour) for tour in tours] for exchange, tours in self.tours.items()},
            "mapping": self.mapping and self.mapping.to_dict(),
            "node_cycles": self.node_cycles,
            "node_energy_fj": self.node_energy_fj,
        }


@frozen(kw_only=True)
class RegionPlan:
    """Layers that run on a region, one after the other."""

    region: Region = field(validator=is_a(Region))
    layers: tuple[str, ...] = field(converter=as_tuple)


@frozen(kw_only=True)
class Plan:
    """A whole network on an array: segments one after the other, each of regions side by side.

    `homes` by stack. `check_plan` says what is wrong with it for a network.
    """

    network: str
    batch: int = 1
    array: NodeArray = field(validator=is_a(NodeArray))
    segments: tuple[tuple[RegionPlan, ...], ...] = field(converter=as_tuple)
    layers: dict[str, LayerPlan]
    homes: dict[str, Home]
    send_order: str = field(default=ROUND_ROBIN, validator=one_of(ROUND_ROBIN, LISTED))

    @property
    def steps(self) -> Iterator[tuple[int, int, str]]:
        """(segment, region, layer) in order."""
        for s, regions in enumerate(self.segments):
            for r, region in enumerate(regions):
                for name in region.layers:
                    yield s, r, name

    def to_dict(self) -> dict[str, Any]:
        """Plain data, as `--replay` reads it."""
        return {
            "version": 1,
            "network": self.network,
            "batch": self.batch,
            "array": self.array.to_dict(),
            "segments": [
                [{"region": one.region.to_list(), "layers": list(one.layers)} for one in regions]
                for regions in self.segments
            ],
            "layers": {name: layer.to_dict() for name, layer in self.layers.items()},
            "homes": {name: home.to_dict() for name, home in self.homes.items()},
            "send_order": self.send_order,
        }


def node_program(task: LayerTask, partition: Partition) -> ConvWorkload:
    """The layer that every node of the region runs: ceil-sized parts, partial sums written where C is split.

    Samples that have weights of their own are groups there.
    """
    layer = task.workload
    sizes: Any = {
        dim: part_size(bound, partition.split(dim)) for dim, bound in zip(LAYER_DIMS, bounds_of(task), strict=True)
    }
    width = layer.psum_bytes if partition.split("C") > 1 else layer.output_bytes
    if task.has_sample_weights:
        sizes |= {"N": 1, "G": sizes["N"] * sizes["G"]}
    return evolve(layer, **sizes, output_bytes=width)


def check_plan(graph: Graph, plan: Plan) -> list[str]:
    """One line per rule that a plan breaks; none if it is one of the network. One of another network breaks one."""
    if plan.network != graph.name:
        return [f"network: must be a plan of {graph.name} (got {plan.network!r})"]
    return [*_segment_problems(graph, plan), *_layer_problems(graph, plan), *_home_problems(graph, plan)]


def _segment_problems(graph: Graph, plan: Plan) -> Iterator[str]:
    """Every layer runs once, regions lie side by side, and what a layer reads was written before."""
    names = [name for _, _, name in plan.steps]
    for name in sorted({task.name for task in graph.tasks} - set(names)):
        yield f"segments: {name} is missing"
    for name in sorted({name for name in names if names.count(name) > 1 or not _is_known(graph, name)}):
        yield f"segments: {name} is not a layer of {graph.name}, or named twice"
    for s, regions in enumerate(plan.segments):
        for i, one in enumerate(regions):
            if not _is_inside(one.region, plan.array) or any(
                one.region.overlaps(other.region) for other in regions[:i]
            ):
                yield f"segments[{s}]: region {one.region.to_list()} must lie in the array, apart from the others"
    yield from _order_problems(graph, plan)


def _is_inside(region: Region, array: NodeArray) -> bool:
    return region.y + region.h <= array.rows and region.x + region.w <= array.cols


def _sum_problems(graph: Graph, places: dict[str, tuple[int, int, int]]) -> Iterator[str]:
    """The operand that is last in the file is computed in the last of the operands' segments."""
    for one in graph.sums:
        segments = {o: places[o][0] for o in one.operands if o in places}
        if segments and segments[one.finished_by] < max(segments.values()):
            yield f"segments: {one.finished_by} must not run before the other operands of {one.first}"


def _is_known(graph: Graph, name: str) -> bool:
    return any(task.name == name for task in graph.tasks)


def _order_problems(graph: Graph, plan: Plan) -> Iterator[str]:
    """Writers of what a layer reads come in an earlier segment, or earlier in the same region."""
    places = {name: (s, r, i) for i, (s, r, name) in enumerate(plan.steps)}
    if len(places) == len(graph.tasks):
        yield from _sum_problems(graph, places)
    for task in graph.tasks:
        for writer in (other.name for other in graph.tasks if is_read_from(task, other.writes, channels_of(other))):
            if task.name not in places or writer not in places:
                continue
            (s, r, i), (s0, r0, i0) = places[task.name], places[writer]
            if not (s0 < s or ((s0, r0) == (s, r) and i0 < i)):
                yield f"segments: {task.name} runs before {writer}, which it reads"


def channels_of(task: LayerTask) -> tuple[int, int]:
    """The channels of its stack that a layer writes."""
    return task.offset, task.offset + task.workload.G * task.workload.K


def is_joined(plan: Plan, one: Sum) -> bool:
    """Whether operands of a sum are computed in several regions of its last segment, so that it waits for its end."""
    places = {name: (s, r) for s, r, name in plan.steps}
    last = places[one.finished_by]
    return any(places[o][0] == last[0] and places[o] != last for o in one.operands if o in places)


def is_read_from(task: LayerTask, stack: str, channels: tuple[int, int]) -> bool:
    """Whether a layer reads some of these channels of a stack."""
    return any(
        reading.stack == stack and any(a < channels[1] and channels[0] < b for a, b in reading.channels)
        for reading in task.readings
    )


def _layer_problems(graph: Graph, plan: Plan) -> Iterator[str]:
    for name in sorted({*plan.layers} - {task.name for task in graph.tasks}):
        yield f"layers: {name} is not a layer of {graph.name}"
    regions = {name: plan.segments[s][r].region for s, r, name in plan.steps}
    for task in graph.tasks:
        layer = plan.layers.get(task.name)
        if layer is None:
            yield f"layers: {task.name} is missing"
            continue
        if task.name in regions and layer.partition.region != regions[task.name]:
            yield f"layers.{task.name}: must be split over its segment's region"
        yield from _tour_problems(task, plan.array, layer)
        if task.has_sample_weights and layer.partition.replicas < layer.partition.sharing:
            yield f"layers.{task.name}: weight_replicas: must be {layer.partition.sharing}, as samples have their own W"
        for dim, bound in zip(LAYER_DIMS, bounds_of(task), strict=True):
            if layer.partition.split(dim) > bound:
                yield f"layers.{task.name}: {dim} is split by {layer.partition.split(dim)}, but is {bound}"


def _tour_problems(task: LayerTask, array: NodeArray, layer: LayerPlan) -> Iterator[str]:
    """Tours are of sets that share in their exchange."""
    for exchange, tours in layer.tours.items():
        if exchange not in EXCHANGES:
            yield f"layers.{task.name}.tours: must be of {', '.join(EXCHANGES)} (got {exchange!r})"
            continue
        try:
            replaced(exchange_tours(array, layer.partition, exchange, task.weight_dims), tours)
        except ValueError as error:
            yield f"layers.{task.name}.tours.{exchange}: {error}"


def _home_problems(graph: Graph, plan: Plan) -> Iterator[str]:
    for name in sorted({*plan.homes} - {*graph.stacks}):
        yield f"homes: {name} is not a tensor of {graph.name}"
    for name, home in plan.homes.items():
        if not _is_inside(home.region, plan.array):
            yield f"homes.{name}: region {home.region.to_list()} must lie in the array"
    for name in graph.stacks:
        if name not in plan.homes:
            yield f"homes: {name} is missing"
        elif plan.homes[name] != plan.homes.get(graph.home_of[name]):
            yield f"homes: {name} and {graph.home_of[name]} are added or read together, so they must have one home"
