"""What depends on the sizes of a partition's parts alone, computed once for all partitions of equal parts.

Many partitions differ only in where their parts lie: ResNet-50 has 28,897 on 16x16 nodes, of 1,531 sizes.
"""

from collections.abc import Sequence
from functools import cached_property
from typing import Any

from attrs import field, frozen

from cpsat_pim.planner.alike import stacks_of
from cpsat_pim.planner.array import HOST
from cpsat_pim.planner.movement import Least, least_of, most_at_home
from cpsat_pim.planner.nodes import Layouts, NodeProblem
from cpsat_pim.planner.partition import LAYER_DIMS, Home, Partition, products
from cpsat_pim.planner.phases import Rates
from cpsat_pim.planner.plan import node_program
from cpsat_pim.planner.tensors import Graph, LayerTask


@frozen(kw_only=True, eq=False, slots=False)
class Parts:
    """Parts of one layer.

    `layouts`: pairs of I and O. `homes`: of the first stack that is read, of all others, and of what is written.
    """

    graph: Graph
    task: LayerTask
    rates: Rates
    layouts: Sequence[Layouts]
    homes: tuple[Sequence[Home], Sequence[Home], Sequence[Home]]
    _programs: dict[Any, tuple[NodeProblem, ...]] = field(init=False, factory=dict)
    _least: dict[Any, Least] = field(init=False, factory=dict)

    def programs(self, partition: Partition) -> tuple[NodeProblem, ...]:
        """Return the node problem of a partition for each pair of layouts."""
        key = _splits(partition)
        if key not in self._programs:
            layer = node_program(self.task, partition)
            self._programs[key] = tuple(NodeProblem(layer=layer, layouts=pair) for pair in self.layouts)
        return self._programs[key]

    def least(self, partition: Partition) -> Least:
        """Return what moving data takes at least, whatever the homes."""
        key = _splits(partition)
        if self.rates.array.interconnect == HOST:  # nodes of a row share a bus, so it matters how rows are split
            key += tuple(products(partition.w)[dim] for dim in LAYER_DIMS)
        if key not in self._least:
            self._least[key] = least_of(self.graph, self.task, partition, self.rates, self._most_at_home)
        return self._least[key]

    @cached_property
    def _most_at_home(self) -> tuple[int, ...]:
        """Return the most elements on one node of each stack that is read, in turn, and of the one that is written."""
        reads, others, writes = self.homes
        placed = [reads, *[others] * len(self.task.others), writes]
        return tuple(map(most_at_home, stacks_of(self.graph, self.task), placed))


def _splits(partition: Partition) -> tuple[int, ...]:
    found = products(partition.h + partition.w)
    return tuple(found[dim] for dim in LAYER_DIMS)
