"""How many replicas of a layer's weights its nodes hold: bytes on a node, and the cost of exchanging the rest."""

from collections.abc import Iterator, Sequence

import numpy as np
from attrs import define, evolve, field

from cpsat_pim.planner.partition import Digits, Partition
from cpsat_pim.planner.phases import Rates
from cpsat_pim.planner.step import Step
from cpsat_pim.planner.tensors import Graph, LayerTask
from cpsat_pim.planner.weighing import Price, Replication, Weighing

#: Where weights lie: the digits of a region's sides, those of other dims without a name.
Place = tuple[Digits, Digits]


@define(kw_only=True, eq=False)
class ReplicaTable:
    """The replications of a layer by the place of its weights, which many partitions share, and the best by price.

    `first_node`: the node whose bytes count.
    """

    graph: Graph
    task: LayerTask
    rates: Rates
    weighing: Weighing
    first_node: int = 0
    _replications: dict[Place, tuple[Replication, ...]] = field(init=False, factory=dict)
    _best: dict[tuple[Place, Price], Replication] = field(init=False, factory=dict)

    def best(self, partition: Partition, price: Price) -> Replication:
        """Return the best number of replicas at a price: of all homes, for the exchange does not depend on them."""
        place = self._place(partition)
        if (place, price) not in self._best:
            self._best[place, price] = min(self.all(partition), key=lambda one: one.priced(price))
        return self._best[place, price]

    def all(self, partition: Partition) -> tuple[Replication, ...]:
        """Return every number of replicas, the most first."""
        place = self._place(partition)
        if place not in self._replications:
            self._replications[place] = tuple(self._made(partition))
        return self._replications[place]

    def priced(self, partitions: Sequence[Partition], price: Price) -> np.ndarray:
        """Return (cost, tie) at a price of the best replication of each partition: int64[2, partitions]."""
        pairs = [self.best(partition, price).priced(price) for partition in partitions]
        return np.array(pairs, dtype=np.int64).reshape(-1, 2).T

    def _place(self, partition: Partition) -> Place:
        """Return where weights lie; the same for all partitions if there are none."""
        dims = self.task.weight_dims
        return (_side(partition.h, dims), _side(partition.w, dims)) if self.task.has_weights else ((), ())

    def _made(self, partition: Partition) -> Iterator[Replication]:
        """Yield every number of replicas, the most first."""
        sharing = partition.sharing if self.task.has_weights else 1
        first = Step(graph=self.graph, task=self.task, partition=partition, rates=self.rates)
        for replicas in self.task.replica_counts(sharing):
            split = evolve(partition, weight_replicas=replicas if self.task.has_weights else None)
            step = evolve(first, partition=split)
            cost, tie = self.weighing.of_phase(step.weights())
            held = int(step.weight_chunks()[self.first_node])
            yield Replication(replicas=replicas, cost=int(cost), tie=int(tie), node_bytes=held)


def _side(digits: Digits, dims: tuple[str, ...]) -> Digits:
    """Return the digits of a side, neighbours of dims that weights do not have (`dims`: what they have) as one without
    a name.
    """
    found: list[tuple[str, int]] = []
    for dim, factor in digits:
        name = dim if dim in dims else ""
        if found and not name and not found[-1][0]:
            found[-1] = ("", found[-1][1] * factor)
        else:
            found.append((name, factor))
    return tuple(found)
