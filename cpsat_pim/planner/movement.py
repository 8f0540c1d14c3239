"""Lower bounds on what a step moves and takes, whatever the homes: known before any exchange is counted.

Of a box that a node reads, only what is at home on it does not arrive, and what arrives is written to its DRAM once. Of
what it computed, only that does not leave, and what leaves is read once. Partial sums are all read. A message is from
or to one owner, and a scan of its own, which opens a row and touches at least as many columns as its bytes fill
(docs/array.md, sections 4 to 6). All of this is bounded by the first node of the region alone, whose parts are the
largest: the bound takes as long on large arrays as on small ones.

Over a host the first row bounds the same, as its nodes share a bus. An element that one of them lacks crosses it once.
Each element is at home on one node, so where two nodes of the row read the same box, one of them lacks it.

Bytes: during a step a node has all that it reads and all that it computed, at home on it or staged. Only a sum may be
written in the place of what was read.
"""

import math
from collections.abc import Sequence

import numpy as np
from attrs import frozen

from cpsat_pim.planner.array import HOST
from cpsat_pim.planner.boxes import bounds_of, boxes_of_parts, home_boxes, volumes
from cpsat_pim.planner.eliminate import INFINITE
from cpsat_pim.planner.partition import LAYER_DIMS, Home, Partition, part_indices, part_ranges, part_size
from cpsat_pim.planner.phases import Rates
from cpsat_pim.planner.tensors import Graph, LayerTask, Stack


def most_at_home(stack: Stack, homes: Sequence[Home]) -> int:
    """Return the most elements of a stack that lie on one node, in any of some homes."""
    splits = {(home.h, home.w): home for home in homes}
    return max((int(volumes(home_boxes(stack.shape, home, stack.spread)).max()) for home in splits.values()), default=0)


@frozen(kw_only=True)
class Least:
    """Cycles that the pull, the reduce and the push of a step take at least; bytes on its region's first node."""

    cycles: int
    node_bytes: int

    def cost(self, per_cycle: int, room_bytes: int) -> int:
        """Return what the cycles cost, if the step has room; else more than anything."""
        return per_cycle * self.cycles if self.node_bytes <= room_bytes else INFINITE


def least_of(graph: Graph, task: LayerTask, partition: Partition, rates: Rates, at_home: Sequence[int]) -> Least:
    """Return what a step takes at least.

    `at_home`: the most elements on one node of each stack that is read, in turn, and of the one that is written.
    """
    first = _FirstNode(graph, task, partition, rates)
    *read, written = at_home
    cycles = first.pull(read) + first.reduce() + first.push(written)
    return Least(cycles=cycles, node_bytes=first.node_bytes())


class _FirstNode:
    """The boxes of the first node of a region, and what they cost."""

    def __init__(self, graph: Graph, task: LayerTask, partition: Partition, rates: Rates) -> None:
        self.graph, self.task, self.partition, self.rates = graph, task, partition, rates
        self.sizes = [
            part_size(bound, partition.split(dim)) for dim, bound in zip(LAYER_DIMS, bounds_of(task), strict=True)
        ]
        ranges = np.array([[[0, size] for size in self.sizes]], dtype=np.int64)
        self.boxes = boxes_of_parts(graph, task, ranges)
        self.output = int(volumes(self.boxes.output).sum())

    def pull(self, read: Sequence[int]) -> int:
        """What arrives is written, and each owner's part of a box arrives for itself; what is added is left out."""
        size, scans = 0, 0
        for boxes, width, at_home in zip(self.boxes.read, self._widths, read, strict=False):
            arriving = max(int(volumes(boxes.raw).sum()) - at_home, 0)
            size, scans = size + arriving * width, scans + _parts(arriving, at_home)
        return max(self._scan_cycles(size, scans), self._pull_over_bus(read))

    @property
    def _widths(self) -> list[int]:
        """Bytes of an element of each stack that is read, in turn."""
        return [self.graph.stacks[stack].element_bytes for stack in self.task.read_stacks]

    def _pull_over_bus(self, read: Sequence[int]) -> int:
        """Over a host, the flits of all boxes that the first row reads."""
        if self.rates.array.interconnect != HOST:
            return 0
        size = 0
        for i, (width, at_home) in enumerate(zip(self._widths[: len(self.boxes.read)], read, strict=False)):
            ranges, members = self._read_by_first_row(self.task.shares_of(i))
            boxes = boxes_of_parts(self.graph, self.task, ranges).read[i].raw
            arriving = volumes(boxes).reshape(len(members), -1).sum(axis=1)
            size += _lacking(arriving, members, at_home) * width
        return -(-size // self.rates.array.flit_bytes)

    def _read_by_first_row(self, dims: tuple[str, ...]) -> tuple[np.ndarray, np.ndarray]:
        """Return the ranges of parts of the first row that differ in some dims, and how many nodes have each."""
        partition, at = self.partition, [LAYER_DIMS.index(dim) for dim in dims]
        indices = part_indices((), partition.w, LAYER_DIMS)
        _, first, members = np.unique(indices[:, at], axis=0, return_index=True, return_counts=True)
        splits = tuple(partition.split(dim) for dim in LAYER_DIMS)
        return part_ranges(indices[first], bounds_of(self.task), splits), members

    def reduce(self) -> int:
        """All partial sums are read; over a host all nodes of a row send theirs over its bus."""
        if self.partition.split("C") == 1:
            return 0
        width, array = self.task.workload.psum_bytes, self.rates.array
        cycles = self._scan_cycles(self.output * width, 1)
        if array.interconnect != HOST:
            return cycles
        return max(cycles, -(-self._elements_of_first_row() * width // array.flit_bytes))

    def _elements_of_first_row(self) -> int:
        """Return the elements of all output boxes of the region's first row."""
        found = 1
        for dim, bound, size in zip(LAYER_DIMS, bounds_of(self.task), self.sizes, strict=True):
            parts = math.prod(factor for name, factor in self.partition.w if name == dim)
            found *= parts if dim == "C" else min(bound, parts * size)
        return found

    def push(self, written: int) -> int:
        """What leaves is read, for each new owner for itself."""
        if self.task.pool:
            return 0
        held = self.output
        if (members := self.partition.split("C")) > 1:
            largest = max(size for dim, size in zip(LAYER_DIMS, self.sizes, strict=True) if dim != "C")
            held = held // largest * part_size(largest, members)
        leaving, width = max(held - written, 0), self.task.workload.output_bytes
        cycles = self._scan_cycles(leaving * width, _parts(leaving, written))
        if self.rates.array.interconnect != HOST or members > 1:
            return cycles
        leaving = max(self._elements_of_first_row() - math.prod(factor for _, factor in self.partition.w) * written, 0)
        return max(cycles, -(-leaving * width // self.rates.array.flit_bytes))

    def node_bytes(self) -> int:
        """All that is read, weights among it, and all that is computed unless it becomes a sum."""
        task, layer = self.task, self.task.workload
        found = int(self.boxes.weight_elements[0]) * layer.weight_bytes if task.has_weights else 0
        raw: dict[str, int] = {}  # what is read twice of a stack may lie there once
        for boxes, width, stack in zip(self.boxes.read, self._widths, task.read_stacks, strict=False):
            raw[stack] = max(raw.get(stack, 0), int(volumes(boxes.raw).sum()) * width)
            found += int(volumes(boxes.seen).sum()) * width if boxes.seen is not None else 0
        found += sum(raw.values())
        if self.partition.split("C") > 1:
            return found + self.output * layer.psum_bytes
        return found + (0 if task.finishes else self.output * layer.output_bytes)

    def _scan_cycles(self, size: int, scans: int) -> int:
        """Return the cycles of so many scans of so many bytes: a column and an activation each, or more."""
        rates = self.rates
        columns = max(-(-size // rates.array.node.column_bytes), scans)
        return columns * rates.column_cycles + scans * rates.activation_cycles


def _lacking(arriving: np.ndarray, members: np.ndarray, at_home: int) -> int:
    """Return the elements of boxes that some of so many nodes with each lacks at least: one has `at_home` at most."""
    return int(np.where(members == 1, np.maximum(arriving - at_home, 0), arriving).sum())


def _parts(elements: int, at_home: int) -> int:
    """Return how many owners so many elements have at least, if each owns no more than so many."""
    return -(-elements // at_home) if at_home else 0
