"""The phases of one step: boxes of its nodes in, costs of its phases out (docs/array.md, section 5)."""

from collections.abc import Iterator
from functools import cached_property
from itertools import chain, repeat

import numpy as np
from attrs import field, frozen

from cpsat_pim.planner.additions import NOTHING, Addition, add_operands
from cpsat_pim.planner.array import NodeArray
from cpsat_pim.planner.boxes import PartBoxes, added_boxes, part_boxes, pooled_boxes, volumes
from cpsat_pim.planner.boxes import output_boxes as boxes_of_output
from cpsat_pim.planner.home_tables import one_home
from cpsat_pim.planner.partition import LAYER_DIMS, Home, Partition, layout_code, part_size
from cpsat_pim.planner.phases import PhaseCost, Rates, Work
from cpsat_pim.planner.tensors import Graph, LayerTask, Stack
from cpsat_pim.planner.tours import (
    PULL,
    PULL_W,
    REDUCE,
    SHARES_INPUT,
    SHARES_OUTPUT,
    WEIGHTS,
    Tours,
    node_numbers,
    replaced,
    tours_of,
    weight_groups,
)
from cpsat_pim.planner.views import ReadBoxes, viewed
from tables.array.pull import gather_weights, pull
from tables.array.push import Viewed, push, reduce_scatter, review

#: Dims that a reduced part may be cut along, the first of the largest first.
_CHUNK_DIMS = ("K", "Q", "P", "N", "G")


@frozen(kw_only=True, eq=False)
class Pull:
    """What the nodes of a step pull of a stack: boxes, along which tours, and what they make of them."""

    stack: Stack
    boxes: ReadBoxes
    tours: np.ndarray
    viewed: Viewed


@frozen(kw_only=True, eq=False)
class Step:
    """A layer split over a region: its boxes and tours, whatever the homes."""

    graph: Graph
    task: LayerTask
    partition: Partition
    rates: Rates
    tours: Tours = field(factory=dict)
    #: They do not depend on replicas and tours.
    boxes: PartBoxes = field()

    @boxes.default
    def _boxes(self) -> PartBoxes:
        return part_boxes(self.graph, self.task, self.partition)

    @cached_property
    def held(self) -> np.ndarray:
        """What each node holds of the output before it is pushed: int64[nodes, boxes, 8]."""
        return self._chunks() if self.is_reduced else self.boxes.output

    @property
    def array(self) -> NodeArray:
        """The array."""
        return self.rates.array

    @property
    def numbers(self) -> np.ndarray:
        """The region's nodes, row by row."""
        return node_numbers(self.array.cols, self.partition.region)

    @property
    def is_reduced(self) -> bool:
        """Whether C is split."""
        return self.partition.split("C") > 1

    @cached_property
    def pulls(self) -> tuple[Pull, ...]:
        """What the nodes pull, in the order of the layer's readings."""
        graph, task = self.graph, self.task
        read = (*self.boxes.read, *(added_boxes(graph, task, reading, self.held) for reading in task.adds))
        return tuple(
            Pull(
                stack=graph.stacks[reading.stack],
                boxes=boxes,
                tours=tours,
                viewed=viewed(reading.view, boxes, is_added),
            )
            for reading, boxes, (tours, is_added) in zip(task.readings, read, self._tours_of_readings(), strict=True)
        )

    def _tours_of_readings(self) -> Iterator[tuple[np.ndarray, bool]]:
        """The tours of each reading, of nodes that need the same, and whether it is added; what is added to the output,
        each node pulls for itself.
        """
        task = self.task
        tours = self.tours_of(PULL, SHARES_INPUT)
        yield from ((tours, reading.is_added) for reading in (task.reads, *task.beside))
        if task.reads_weights:
            yield self.tours_of(PULL_W, task.weight_dims), False
        yield from repeat((tours_of(self.array, self.partition, LAYER_DIMS), True), len(task.adds))

    # Phases

    def weights(self) -> PhaseCost:
        """All-gather of weights that no node holds whole."""
        work, partition = Work(self.array), self.partition
        if self.task.has_weights and partition.replicas < partition.sharing:
            groups = self._weight_groups
            elements = self.of_nodes(self.boxes.weight_elements)[groups[:, 0]]
            width = self.task.workload.weight_bytes
            gather_weights(self.rates.grid, groups, elements, width, work.loads, work.dram, work.totals, work.received)
        return work.cost("weights", self.rates)

    def pull(self, home: Home, other_home: Home | None = None) -> PhaseCost:
        """Input boxes from their home, and those of what is read besides from the one home of all others."""
        work, grid = Work(self.array), self.rates.grid
        for one, place in zip(self.pulls, chain([home], repeat(other_home)), strict=False):
            assert place is not None
            homes, width = one_home(self.array.cols, one.stack.extent, place), one.stack.element_bytes
            counters = (work.loads, work.dram, work.totals)
            pull(grid, one.tours, self.needed(one), homes, 0, width, *counters, work.received)
            review(grid, self.numbers, one.viewed, layout_code(place.layout), width, work.dram, work.totals)
        return work.cost("pull", self.rates)

    def needed(self, one: Pull) -> np.ndarray:
        """The boxes that the nodes of each tour need: int64[tours, boxes, 8]."""
        boxes: np.ndarray = self.of_nodes(one.boxes.raw)[one.tours[:, 0]]
        return boxes

    def reduce(self, layout: str) -> PhaseCost:
        """Add partial sums, where C is split; they lie in the layout of the output's home."""
        work = Work(self.array)
        if self.is_reduced:
            tours, layer = self.tours_of(REDUCE, SHARES_OUTPUT), self.task.workload
            boxes, chunks = self.of_nodes(self.boxes.output)[tours[:, 0]], self.of_nodes(self.held)[tours]
            widths = (layer.psum_bytes, layer.output_bytes)
            counters = (work.loads, work.dram, work.totals)
            reduce_scatter(self.rates.grid, tours, boxes, chunks, layout_code(layout), *widths, *counters)
        return work.cost("reduce", self.rates)

    def push(self, home: Home, added: Addition = NOTHING) -> PhaseCost:
        """Outputs to their home, where other operands are added to them."""
        work, held = Work(self.array), self.held
        pooled = pooled_boxes(held, self.task.pool) if self.task.pool else held
        homes = one_home(self.array.cols, self.graph.stacks[self.task.writes].extent, home)
        at_home, width = np.zeros(len(held), dtype=np.int64), self.task.workload.output_bytes
        push(
            self.rates.grid,
            self.numbers,
            held,
            pooled,
            self.task.pool is not None,
            homes,
            0,
            width,
            work.loads,
            work.dram,
            work.totals,
            at_home,
        )
        if added.additions:
            add_operands(work, self.rates, added, home, width)
        work.received = self.of_nodes(at_home)  # here: elements that stay
        return work.cost("push", self.rates)

    def tours_of(self, exchange: str, dims: tuple[str, ...]) -> np.ndarray:
        """Tours of the sets that agree in some dims: the plan's, else the default ones."""
        return replaced(tours_of(self.array, self.partition, dims), self.tours.get(exchange, ()))

    @property
    def _weight_groups(self) -> np.ndarray:
        """Tours of the groups that hold one copy of the weights."""
        return replaced(weight_groups(self.array, self.partition), self.tours.get(WEIGHTS, ()))

    # What nodes hold

    def _chunks(self) -> np.ndarray:
        """Of each node's part the chunk that it ends with."""
        tours = self.tours_of(REDUCE, SHARES_OUTPUT)
        bounds = dict(zip(LAYER_DIMS, self._bounds(), strict=True))
        sizes = {dim: part_size(bounds[dim], self.partition.split(dim)) for dim in _CHUNK_DIMS}
        dim = max(_CHUNK_DIMS, key=lambda d: sizes[d])
        chunk, at = part_size(sizes[dim], tours.shape[1]), LAYER_DIMS.index(dim)
        place = np.zeros(self.array.nodes, dtype=np.int64)
        place[tours] = np.arange(tours.shape[1])
        ranges, own = self.boxes.ranges.copy(), place[self.numbers]
        start, stop = self.boxes.ranges[:, at, 0], self.boxes.ranges[:, at, 1]
        ranges[:, at, 0] = np.minimum(start + own * chunk, stop)
        ranges[:, at, 1] = np.minimum(start + (own + 1) * chunk, stop)
        return boxes_of_output(self.task, ranges)

    def _bounds(self) -> tuple[int, ...]:
        layer = self.task.workload
        return (layer.N, layer.P, layer.Q, layer.K, layer.C, layer.G)

    def of_nodes(self, values: np.ndarray) -> np.ndarray:
        """Values of the region's nodes, by node number; zeros elsewhere."""
        everywhere = np.zeros((self.array.nodes, *values.shape[1:]), dtype=values.dtype)
        everywhere[self.numbers] = values
        return everywhere

    # Capacity

    def staging(self, pulled: PhaseCost, weights_phase: PhaseCost, pushed: PhaseCost) -> np.ndarray:
        """Bytes that each node of the array needs besides weights and homes during the step: int64[nodes]."""
        layer, boxes = self.task.workload, self.boxes
        whole = volumes(boxes.output).sum(axis=-1)
        stay = pushed.received[self.numbers]
        if self.is_reduced:
            own = whole * layer.psum_bytes + (volumes(self.held).sum(axis=-1) - self._stays(stay)) * layer.output_bytes
        else:
            own = (whole - self._stays(stay)) * layer.output_bytes
        for one in self.pulls:
            if one.boxes.seen is not None:
                own = own + volumes(one.boxes.seen).sum(axis=-1) * one.stack.element_bytes
        staged: np.ndarray = pulled.received + weights_phase.received + self.of_nodes(own)
        return staged

    def _stays(self, stay: np.ndarray) -> np.ndarray:
        """Elements at home on their node; none of an output that is pooled."""
        return np.zeros_like(stay) if self.task.pool else stay

    def weight_chunks(self) -> np.ndarray:
        """Bytes of weights that each node of the array holds all through: int64[nodes]."""
        if not self.task.has_weights:
            return np.zeros(self.array.nodes, dtype=np.int64)
        groups = self._weight_groups
        elements = self.of_nodes(self.boxes.weight_elements)[groups[:, 0]][:, None]
        chunk = -(-elements // groups.shape[1])
        place = np.arange(groups.shape[1])[None, :]
        held = np.minimum((place + 1) * chunk, elements) - np.minimum(place * chunk, elements)
        found = np.zeros(self.array.nodes, dtype=np.int64)
        found[groups] = held * self.task.workload.weight_bytes
        return found
