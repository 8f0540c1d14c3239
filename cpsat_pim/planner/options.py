"""The options of one layer: what each of its partitions costs for all homes of what it reads and writes.

Costs of data movement are exact and computed when a partition is looked at; until then only the floor of its node
program is known. The node program's cost is an interval that a solve closes (`cpsat_pim.planner.nodes`).
"""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from attrs import define, evolve, field

from cpsat_pim.base.dims import Tensor
from cpsat_pim.planner.array import Region
from cpsat_pim.planner.eliminate import INFINITE
from cpsat_pim.planner.graph import Graph, LayerTask
from cpsat_pim.planner.measures import measured_pulls, measured_pushes
from cpsat_pim.planner.nodes import FREE_LAYOUTS, Layouts, NodeCost, NodeCosts, NodeProblem, layout_index
from cpsat_pim.planner.partition import Home, Partition
from cpsat_pim.planner.phases import Rates
from cpsat_pim.planner.plan import node_program
from cpsat_pim.planner.ring_tours import better_tours
from cpsat_pim.planner.step import Step
from cpsat_pim.planner.tours import Tours
from cpsat_pim.planner.weighing import FREE_BYTES, Price, Replication, Weighing

#: Indices of the homes that a layer reads (I, and what takes the place of W) and writes.
At = tuple[int, int, int]


@define(kw_only=True, eq=False)
class _Row:
    """One partition: its node problems by layout, their least bound when it was made, and what it moves.

    What it moves is None until it is looked at.
    """

    partition: Partition
    program: tuple[NodeProblem, ...]
    floor: int
    pull: np.ndarray | None = None
    push: np.ndarray | None = None
    reduce: np.ndarray | None = None
    replications: tuple[Replication, ...] = ()


@define(kw_only=True, eq=False)
class LayerOptions:
    """All partitions of a layer; `reads`, `reads_weights`, `writes` are the homes that are looked at."""

    graph: Graph
    task: LayerTask
    rates: Rates
    costs: NodeCosts
    weighing: Weighing
    is_tied: bool
    reads: Sequence[Home]
    reads_weights: Sequence[Home]
    writes: Sequence[Home]
    partitions: Sequence[Partition]
    rows: list[_Row] = field(init=False)
    #: The last tables by what they were asked for, with the bounds of node problems that they were made of.
    _tables: dict[tuple[bool, Price], tuple[Any, np.ndarray]] = field(init=False, factory=dict)
    #: Rows that are looked at come first.
    seen: int = 0

    def __attrs_post_init__(self) -> None:
        rows = [self._row(partition) for partition in self.partitions]
        self.rows = sorted((row for row in rows if row.floor < INFINITE), key=lambda row: row.floor)

    @property
    def region(self) -> Region:
        """Where all partitions lie."""
        return self.partitions[0].region

    def _row(self, partition: Partition) -> _Row:
        problems = self._problems(partition)
        return _Row(partition=partition, program=problems, floor=self._floor(problems))

    def _problems(self, partition: Partition) -> tuple[NodeProblem, ...]:
        """Node problems by layout of I and of O, or the one whose layouts are free."""
        layer = node_program(self.task, partition)
        return tuple(NodeProblem(layer=layer, layouts=pair) for pair in self.layout_pairs)

    @property
    def layout_pairs(self) -> list[Layouts]:
        """Layouts of I and O that occur among the homes."""
        if not self.is_tied:
            return [FREE_LAYOUTS]
        return [(a, b) for a in _layouts(self.reads) for b in _layouts(self.writes)]

    @property
    def written_layouts(self) -> list[str]:
        """Layouts of homes that are written."""
        return list(dict.fromkeys(home.layout for home in self.writes))

    def _floor(self, problems: tuple[NodeProblem, ...]) -> int:
        """The least that a partition's node program costs, in whatever layouts."""
        return min((self.own(cost)[0] for cost in map(self.costs.cost, problems) if cost), default=INFINITE)

    def own(self, cost: NodeCost | None, upper: bool = False) -> tuple[int, int]:
        """(cost, tie) of a node program on all nodes: its floor, or its value."""
        if cost is None or (upper and not cost.is_solved):
            return INFINITE, INFINITE
        nodes, factor = self.region.size, self.node_factor
        if not cost.is_solved:
            return cost.least * factor, 0
        pair = self.weighing.weigh(cost.latency_cycles, nodes * cost.energy_fj)
        if upper or cost.is_proven:
            is_energy = upper or self.weighing.objective.weights[1] > 0
            return int(pair[0]), int(pair[1]) if is_energy else nodes * cost.least_energy_fj
        return int(pair[0]) - cost.gap * factor, 0

    @property
    def node_factor(self) -> int:
        """The objective's integers for one of the node problems': energy counts on every node, cycles once.

        Where both count, the node problems' objective weighs energy as often as there are nodes already, and only its
        unit may be larger.
        """
        alpha, beta = self.weighing.objective.weights
        if alpha and beta:
            return self.weighing.objective.scale // self.costs.objective.scale
        return self.region.size if beta else 1

    # Rows

    @property
    def least_floor(self) -> int:
        """No partition's node programs cost less, as far as is known by now."""
        known = (self.own(self.costs.cost(problem))[0] for row in self.rows for problem in row.program)
        return min(known, default=INFINITE)

    @property
    def unseen_floor(self) -> int:
        """No row that was not looked at costs less: rows are in the order of what was known of them at first."""
        return self.rows[self.seen].floor if self.seen < len(self.rows) else INFINITE

    def look_at(self, count: int) -> None:
        """Compute what the next rows move."""
        for row in self.rows[self.seen : self.seen + count]:
            self._compute(row)
        self.seen = min(len(self.rows), self.seen + count)

    def _compute(self, row: _Row) -> None:
        step = Step(
            graph=self.graph,
            task=self.task,
            partition=row.partition,
            rates=self.rates,
            tours=self.tours(row.partition),
        )
        row.pull = self.weighing.of_measures(measured_pulls(step, self.reads, self.reads_weights))
        row.push = self.weighing.of_measures(measured_pushes(step, self.writes))
        of_layouts = [self.weighing.of_phase(step.reduce(layout)) for layout in self.written_layouts]
        row.reduce = np.stack(of_layouts, axis=-1)

    def tours(self, partition: Partition) -> Tours:
        """Return the tours that take the place of the default ones."""
        return better_tours(self.rates.array, partition, self.task.reads_weights is not None)

    # Tables

    def table(self, upper: bool = False, price: Price = FREE_BYTES) -> np.ndarray:
        """Least (cost, tie) for all homes: int64[2, homes read, homes of W or 1, homes written].

        The least over all partitions that were looked at, and over the floors of the others; with `upper` over those
        alone whose node problem is solved.
        """
        made_of = [[self.own(self.costs.cost(p), upper) for p in row.program] for _, row in self._seen_rows]
        known = self._tables.get((upper, price))
        if known is None or known[0] != made_of:
            known = self._tables[upper, price] = (made_of, self._table(upper, price))
        return known[1]

    def _table(self, upper: bool, price: Price) -> np.ndarray:
        shape = (2, len(self.reads), max(1, len(self.reads_weights)), len(self.writes))
        least = np.full(shape, INFINITE, dtype=np.int64)
        if not upper:
            least[0], least[1] = self._unseen(price), 0
        for row in self.rows[: self.seen]:
            whole = self._row_table(row, upper, price)
            better = (whole[0] < least[0]) | ((whole[0] == least[0]) & (whole[1] < least[1]))
            least = np.where(better, whole, least)
        return least

    def _unseen(self, price: Price) -> int:
        """No row that was not looked at costs less; its nodes hold the weights once at least."""
        floor, layer = self.unseen_floor, self.task.workload
        if floor >= INFINITE:
            return INFINITE
        once = layer.elements(Tensor.W) * layer.weight_bytes if self.task.has_weights else 0
        return price.scale * floor + price.per_byte * once

    def _row_table(self, row: _Row, upper: bool, price: Price) -> np.ndarray:
        """(cost, tie) of one partition for all homes."""
        assert row.pull is not None
        assert row.push is not None
        assert row.reduce is not None
        own = self._own_table(row, upper)
        reduced = row.reduce[:, [self.written_layouts.index(home.layout) for home in self.writes]]
        moved = row.pull[:, :, :, None] + (row.push + reduced)[:, None, None, :]
        whole = moved + own[:, :, None, :]
        if price.per_byte:
            cost, tie = self.replication(row, price).priced(price)
            priced = np.stack([whole[0] * price.scale + cost, whole[1] + tie])
            whole = np.where(whole[0] >= INFINITE, INFINITE, priced)
        least: np.ndarray = np.minimum(whole, INFINITE)
        return least

    def replication(self, row: _Row, price: Price) -> Replication:
        """The best number of replicas at a price of bytes: of all homes, for the exchange does not depend on them."""
        if not row.replications:
            row.replications = tuple(self._replications(row.partition))
        return min(row.replications, key=lambda one: one.priced(price))

    def _replications(self, partition: Partition) -> Iterator[Replication]:
        """Every number of replicas, the most first."""
        sharing = partition.sharing if self.task.has_weights else 1
        for replicas in (n for n in range(sharing, 0, -1) if sharing % n == 0):
            split = evolve(partition, weight_replicas=replicas if self.task.has_weights else None)
            step = Step(graph=self.graph, task=self.task, partition=split, rates=self.rates)
            cost, tie = self.weighing.of_phase(step.weights())
            held = int(step.weight_chunks().sum())
            yield Replication(replicas=replicas, cost=int(cost), tie=int(tie), total_bytes=held)

    def _own_table(self, row: _Row, upper: bool) -> np.ndarray:
        """(cost, tie) of the node program by homes read and written: int64[2, reads, writes]."""
        pairs = {
            pair: self.own(self.costs.cost(problem), upper)
            for pair, problem in zip(self.layout_pairs, row.program, strict=True)
        }
        if not self.is_tied:
            return np.array(pairs[None, None], dtype=np.int64)[:, None, None]
        read, written = ([layout_index(home.layout) for home in homes] for homes in (self.reads, self.writes))
        return np.array([[[pairs[a, b][i] for b in written] for a in read] for i in (0, 1)], dtype=np.int64)

    def best(self, at: At, upper: bool = False, price: Price = FREE_BYTES) -> tuple[Partition, NodeProblem] | None:
        """The best partition at these homes and its node problem; None if that is one that was not looked at."""
        found, least = None, (INFINITE, INFINITE) if upper else (self._unseen(price), 0)
        for cost, i in self._costs_at(at, upper, price):
            if cost <= least and cost[0] < INFINITE:
                found, least = self.rows[i], cost
        if found is None:
            return None
        partition = found.partition
        if price.per_byte and self.task.has_weights:
            partition = evolve(partition, weight_replicas=self.replication(found, price).replicas)
        return partition, self._problem(found, at)

    def refine(self, at: At, count: int, price: Price = FREE_BYTES) -> int:
        """Refine the bounds of the node problems of the best rows at these homes that have plain ones; how many."""
        refined = 0
        for _, i in sorted(self._costs_at(at, False, price)):
            problem = self._problem(self.rows[i], at)
            known = self.costs.cost(problem)
            if known is not None and not known.is_refined:
                self.costs.refine(problem)
                refined += 1
            if refined == count:
                break
        return refined

    def _costs_at(self, at: At, upper: bool, price: Price) -> Iterator[tuple[tuple[int, int], int]]:
        """Yield (cost, tie) of every row that was looked at, at these homes, and its number."""
        reads, reads_weights, writes = at
        layout, pair = self.written_layouts.index(self.writes[writes].layout), self._pair(at)
        for i, row in self._seen_rows:
            assert row.pull is not None
            assert row.push is not None
            assert row.reduce is not None
            cost, tie = self.own(self.costs.cost(row.program[pair]), upper)
            moved = row.pull[:, reads, reads_weights] + row.push[:, writes] + row.reduce[:, layout]
            if cost < INFINITE and price.per_byte:
                priced = self.replication(row, price).priced(price)
                cost, tie = (cost + int(moved[0])) * price.scale + priced[0], tie + int(moved[1]) + priced[1]
            elif cost < INFINITE:
                cost, tie = cost + int(moved[0]), tie + int(moved[1])
            yield (min(cost, INFINITE), min(tie, INFINITE)), i

    @property
    def _seen_rows(self) -> Iterator[tuple[int, _Row]]:
        return enumerate(self.rows[: self.seen])

    def _problem(self, row: _Row, at: At) -> NodeProblem:
        return row.program[self._pair(at)]

    def _pair(self, at: At) -> int:
        """Return which of a row's node problems is that of the layouts of these homes."""
        if not self.is_tied:
            return 0
        pair = layout_index(self.reads[at[0]].layout), layout_index(self.writes[at[2]].layout)
        return self.layout_pairs.index(pair)


def _layouts(homes: Sequence[Home]) -> list[int | None]:
    return list(dict.fromkeys(layout_index(home.layout) for home in homes))
