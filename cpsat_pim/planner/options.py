"""The options of one layer: what each of its partitions costs for all homes of what it reads and writes.

Costs of data movement are exact and computed when a partition is looked at; until then only the floor of its node
program is known. The node program's cost is an interval that a solve closes (`cpsat_pim.planner.nodes`).
"""

from collections.abc import Callable, Collection, Sequence
from typing import Any

import numpy as np
from attrs import define, evolve, field

from cpsat_pim.planner.array import Region
from cpsat_pim.planner.eliminate import INFINITE
from cpsat_pim.planner.layout_pairs import layout_pairs, pair_indices
from cpsat_pim.planner.measures import measured_pulls, measured_pushes
from cpsat_pim.planner.movement import Least
from cpsat_pim.planner.nodes import Layouts, NodeCosts, NodeProblem
from cpsat_pim.planner.partition import Home, Partition
from cpsat_pim.planner.parts import Parts
from cpsat_pim.planner.phases import Rates
from cpsat_pim.planner.replicas import ReplicaTable
from cpsat_pim.planner.ring_tours import better_tours
from cpsat_pim.planner.step import Step
from cpsat_pim.planner.tensors import Graph, LayerTask
from cpsat_pim.planner.tours import Tours
from cpsat_pim.planner.weighing import FREE_BYTES, NodeShare, Price, Replication, Weighing
from tables.array.least import least_of_rows

#: Indices of the homes that a layer reads (I, and what takes the place of W) and writes.
At = tuple[int, int, int]

_NOTHING: Any = object()  # a cost that was not taken over yet


@define(kw_only=True, eq=False)
class _Row:
    """One partition: its node problems by layout, the least that it costs with what it moves, and what it moves."""

    partition: Partition
    program: tuple[NodeProblem, ...]
    floor: int
    least: Least | None = None


@define(kw_only=True, eq=False)
class LayerOptions:
    """All partitions of a layer, as rows; `reads`, `others`, `writes` are the homes that are looked at.

    Rows that were looked at, `seen` of them, come first; what they move is in arrays. Of the others those are left out
    whose step takes more than `room_bytes` on its region's first node. Bytes have a price on `first_node`.
    """

    graph: Graph
    task: LayerTask
    rates: Rates
    costs: NodeCosts
    weighing: Weighing
    is_tied: bool
    reads: Sequence[Home]
    others: Sequence[Home]
    writes: Sequence[Home]
    partitions: Sequence[Partition]
    first_node: int = 0
    room_bytes: int = INFINITE
    rows: list[_Row] = field(init=False)
    seen: int = 0
    #: Whether rows that were not looked at are left out, and node programs cost what they may rather than their bounds.
    is_likely: bool = False
    #: What rows pull, int64[2, rows, homes read, homes of W or 1], and add and push, int64[2, rows, homes written].
    _pull: np.ndarray = field(init=False)
    _push: np.ndarray = field(init=False)
    #: Costs of node programs by lower bound, upper bound, and what they may cost: int64[3, 2, rows, pairs of layouts];
    #: and what they were made of.
    _own: np.ndarray = field(init=False)
    _made_of: list[list[Any]] = field(init=False)
    #: Layouts of I and O that occur among the homes; the pair of two homes: int64[homes read, homes written].
    layout_pairs: list[Layouts] = field(init=False)
    _pair_of: np.ndarray = field(init=False)
    _replicas: ReplicaTable = field(init=False)
    _parts: Parts = field(init=False)
    #: The last tables, and bounds of rows that were not looked at, by what they were asked for.
    _tables: dict[tuple[bool, Price], np.ndarray] = field(init=False, factory=dict)
    _floors: dict[Price, np.ndarray] = field(init=False, factory=dict)

    def __attrs_post_init__(self) -> None:
        homes = self.reads, self.others, self.writes
        self.layout_pairs = layout_pairs(self.reads, self.writes, self.is_tied)
        self._parts = Parts(graph=self.graph, task=self.task, rates=self.rates, layouts=self.layout_pairs, homes=homes)
        self.rows = [_Row(partition=one, program=self._parts.programs(one), floor=0) for one in self.partitions]
        self._order((), FREE_BYTES)
        self.rows = [row for row in self.rows if row.floor < INFINITE]
        count, pairs, weighing = len(self.rows), len(self.layout_pairs), self.weighing
        self._pull = np.empty((2, count, len(self.reads), max(1, len(self.others))), dtype=np.int64)
        self._push = np.empty((2, count, len(self.writes)), dtype=np.int64)
        self._own = np.empty((3, 2, count, pairs), dtype=np.int64)
        self._made_of = [[_NOTHING] * pairs for _ in self.rows]
        self._pair_of = pair_indices(self.layout_pairs, self.reads, self.writes)
        self._replicas = ReplicaTable(
            graph=self.graph, task=self.task, rates=self.rates, weighing=weighing, first_node=self.first_node
        )

    @property
    def region(self) -> Region:
        """Where all partitions lie."""
        return self.partitions[0].region

    def _floor(self, problems: tuple[NodeProblem, ...], upper: bool = False) -> int:
        """The least that a partition's node program costs; with `upper` of those that are solved."""
        costs = [cost for cost in map(self.costs.cost, problems) if cost]
        return min((self.share.own(cost, upper)[0] for cost in costs), default=INFINITE)

    @property
    def share(self) -> NodeShare:
        """How the cost of a node program counts in a plan's."""
        scale = self.costs.objective.scale
        return NodeShare(weighing=self.weighing, nodes=self.region.size, node_scale=scale)

    @property
    def least_floor(self) -> int:
        """No partition's node programs cost less, as far as is known by now."""
        return min((self._floor(row.program) for row in self.rows), default=INFINITE)

    def floors(self, price: Price) -> np.ndarray:
        """Return what each row that was not looked at costs at least at a price of bytes: int64[rows].

        What the exchange of weights costs, and the bytes that are held, do not depend on homes.
        """
        if price not in self._floors:
            self._floors[price] = self._priced_floors(price)
        return self._floors[price]

    def _priced_floors(self, price: Price) -> np.ndarray:
        rest = [] if self.is_likely else self.rows[self.seen :]
        floors = np.array([row.floor for row in rest], dtype=np.int64)
        if price.per_byte:
            held = self._replicas.priced([row.partition for row in rest], price)
            floors = np.minimum(price.scale * np.minimum(floors, INFINITE // price.scale) + held[0], INFINITE)
        return floors

    def suppose(self, is_likely: bool) -> None:
        """Take what node programs may cost for lower bounds, and leave rows out that were not looked at; or undo it."""
        self.is_likely = is_likely
        self._forget()

    def limit(self, room_bytes: int) -> None:
        """Change the room of a step, for rows that were not looked at."""
        self.room_bytes = room_bytes
        self._order((), FREE_BYTES)

    def look_at(
        self,
        count: int,
        is_over: Callable[[], bool] = lambda: False,
        price: Price = FREE_BYTES,
        first: Collection[int] = (),
    ) -> None:
        """Compute what so many rows move: some first, then those of the least bounds; fewer if the search is over.

        Their node programs' bounds are refined before: that takes less time, and counts for all rows of equal parts.
        """
        ahead = {id(self.rows[i]) for i in first}
        self._bound_moves(is_over)
        self._order(ahead, price)
        while not is_over() and (plain := self._plain(self.rows[self.seen : self.seen + count])):
            for problem in plain:
                if not is_over():
                    self.costs.raise_bound(problem)
            self._order(ahead, price)
        for i in range(self.seen, min(len(self.rows), self.seen + count)):
            if is_over() or self.rows[i].floor >= INFINITE:
                break
            self._compute(i)
            self.seen = i + 1
        self._forget()

    def look_at_solved(self, count: int, is_over: Callable[[], bool]) -> None:
        """Compute what so many rows move whose node programs have mappings: those that can cost least."""
        self._bound_moves(is_over)
        costs = [self._floor(row.program, upper=True) + self._moved(row) for row in self.rows]
        order = sorted(range(self.seen, len(self.rows)), key=lambda i: costs[i])
        chosen = [i for i in order[:count] if costs[i] < INFINITE]
        self.look_at(len(chosen), is_over, first=chosen)

    def _order(self, ahead: Collection[int], price: Price) -> None:
        """Set the bounds of rows that were not looked at by what is known now, and sort them: some first, by `id`."""
        rest = self.rows[self.seen :]
        own = {id(row.program): self._floor(row.program) for row in {id(row.program): row for row in rest}.values()}
        for row in rest:
            row.floor = min(INFINITE, own[id(row.program)] + self._moved(row))
        self._forget()
        floors = self.floors(price)
        order = sorted(range(len(rest)), key=lambda i: (id(rest[i]) not in ahead, int(floors[i])))
        self.rows[self.seen :] = [rest[i] for i in order]
        self._floors.clear()

    def _bound_moves(self, is_over: Callable[[], bool]) -> None:
        """Bound what rows move that were not looked at."""
        for row in self.rows[self.seen :]:
            if row.least is None and not is_over():
                row.least = self._parts.least(row.partition)

    def _moved(self, row: _Row) -> int:
        """Return the least that moving costs a row."""
        return row.least.cost(self.weighing.objective.weights[0], self.room_bytes) if row.least else 0

    def _plain(self, rows: Sequence[_Row]) -> list[NodeProblem]:
        """Return the node problems of some rows whose bounds were not refined."""
        problems = dict.fromkeys(problem for row in rows for problem in row.program)
        return [one for one in problems if (known := self.costs.cost(one)) is not None and not known.is_spatial]

    def _forget(self) -> None:
        """Drop tables and floors, which a change of rows makes invalid."""
        self._tables.clear()
        self._floors.clear()

    def _step(self, partition: Partition) -> Step:
        tours = self.tours(partition)
        return Step(graph=self.graph, task=self.task, partition=partition, rates=self.rates, tours=tours)

    def _compute(self, i: int) -> None:
        step = self._step(self.rows[i].partition)
        self._pull[:, i] = self.weighing.of_measures(measured_pulls(step, self.reads, self.others))
        self._push[:, i] = self.weighing.of_measures(measured_pushes(step, self.writes))
        if step.is_reduced:
            layouts = {home.layout for home in self.writes}
            reduced = {layout: self.weighing.of_phase(step.reduce(layout)) for layout in layouts}
            self._push[:, i] += np.stack([reduced[home.layout] for home in self.writes], axis=-1)

    def tours(self, partition: Partition) -> Tours:
        """Return the tours that take the place of the default ones."""
        return better_tours(self.rates.array, partition, () if self.task.has_weights else self.task.weight_dims)

    def table(self, upper: bool = False, price: Price = FREE_BYTES) -> np.ndarray:
        """Least (cost, tie) for all homes: int64[2, homes read, homes of W or 1, homes written].

        The least over all partitions that were looked at, and over the floors of the others; with `upper` over those
        alone whose node problem is solved.
        """
        self._update()
        if (upper, price) not in self._tables:
            self._tables[upper, price] = self._table(upper, price)
        return self._tables[upper, price]

    def _update(self) -> None:
        """Take over what has become known of the node problems of the rows that were looked at."""
        share = self.share
        for i, row in enumerate(self.rows[: self.seen]):
            made_of = self._made_of[i]
            for j, problem in enumerate(row.program):
                cost = self.costs.cost(problem)
                if cost is not made_of[j] and cost != made_of[j]:
                    self._own[:, :, i, j] = share.own(cost), share.own(cost, upper=True), share.likely(cost)
                    made_of[j] = cost
                    self._tables.clear()

    def _view(self, upper: bool) -> int:
        """Return which costs of node programs count."""
        return 1 if upper else 2 if self.is_likely else 0

    def _table(self, upper: bool, price: Price) -> np.ndarray:
        least = np.full((2, *self._pull.shape[2:], len(self.writes)), INFINITE, dtype=np.int64)
        if not upper:
            least[0], least[1] = self._unseen(price), 0
        s = self.seen
        moved = self._pull[:, :s], self._push[:, :s]
        least_of_rows(self._own[self._view(upper), :, :s], *moved, self._pair_of, self._held(price), price.scale, least)
        return least

    def _unseen(self, price: Price) -> int:
        """No row that was not looked at costs less."""
        return int(self.floors(price).min(initial=INFINITE))

    def costs_of(self, reads: np.ndarray, others: np.ndarray, writes: np.ndarray) -> np.ndarray:
        """Return lower bounds of all rows that were looked at, at given homes: int64[rows, homes]; without replicas."""
        self._update()
        s = self.seen
        own = self._own[0, 0, :s][:, self._pair_of[reads, writes]]
        moved = self._pull[0, :s][:, reads, others] + self._push[0, :s][:, writes]
        found: np.ndarray = np.minimum(own + moved, INFINITE)
        return found

    def replications(self, row: int) -> tuple[Replication, ...]:
        """Return all numbers of replicas of a row."""
        return self._replicas.all(self.rows[row].partition)

    def step(self, row: int, replicas: int) -> Step:
        """Return the step of a row with so many replicas of weights."""
        return self._step(self._with_replicas(self.rows[row].partition, replicas))

    def option(self, row: int, replicas: int, at: At) -> tuple[Partition, NodeProblem]:
        """Return a row's partition with so many replicas of weights, and its node problem at these homes."""
        return self._with_replicas(self.rows[row].partition, replicas), self.problem(row, at)

    def _with_replicas(self, partition: Partition, replicas: int) -> Partition:
        return evolve(partition, weight_replicas=replicas) if self.task.has_weights else partition

    def _held(self, price: Price) -> np.ndarray:
        """(cost, tie) of the weights that each row holds at a price of bytes: int64[2, rows that were looked at]."""
        if not price.per_byte:
            return np.zeros((2, self.seen), dtype=np.int64)
        return self._replicas.priced([row.partition for row in self.rows[: self.seen]], price)

    def costs_at(self, at: At, upper: bool, price: Price) -> tuple[np.ndarray, np.ndarray]:
        """Return cost and tie of every row that was looked at, at these homes."""
        self._update()
        node, rest = self._own[self._view(upper), :, : self.seen, self._pair_of[at[0], at[2]]]
        moved, held = self._moved_at(at), self._held(price)
        cost = np.minimum(price.scale * (np.minimum(node, INFINITE // price.scale) + moved[0]) + held[0], INFINITE)
        return np.where(node >= INFINITE, INFINITE, cost), np.minimum(rest + moved[1] + held[1], INFINITE)

    def likely_at(self, at: At) -> np.ndarray:
        """Return what every row that was looked at may cost at these homes, without replicas: int64[rows]."""
        self._update()
        found: np.ndarray = self._own[2, 0, : self.seen, self._pair_of[at[0], at[2]]] + self._moved_at(at)[0]
        return found

    def _moved_at(self, at: At) -> np.ndarray:
        """Return (cost, tie) of what every row that was looked at moves, at these homes: int64[2, rows]."""
        reads, others, writes = at
        found: np.ndarray = self._pull[:, : self.seen, reads, others] + self._push[:, : self.seen, writes]
        return found

    def programs_below(self, at: At, cost: int) -> np.ndarray:
        """Return of every row that was looked at what its node program costs, at least, if the row costs as much at
        these homes: int64[rows].
        """
        found: np.ndarray = -((self._moved_at(at)[0] - cost) // self.share.factor)
        return found

    def best(self, at: At, upper: bool = False, price: Price = FREE_BYTES) -> tuple[Partition, NodeProblem] | None:
        """The best partition at these homes and its node problem; None if that is one that was not looked at."""
        cost, tie = self.costs_at(at, upper, price)
        if not len(cost):
            return None
        i = int(np.lexsort((tie, cost))[0])
        if cost[i] >= INFINITE or (not upper and (int(cost[i]), int(tie[i])) > (self._unseen(price), 0)):
            return None
        partition = self.rows[i].partition
        if price.per_byte and self.task.has_weights:
            partition = self._with_replicas(partition, self._replicas.best(partition, price).replicas)
        return partition, self.problem(i, at)

    def problem(self, row: int, at: At) -> NodeProblem:
        """Return the node problem of a row at these homes."""
        return self.rows[row].program[int(self._pair_of[at[0], at[2]])]
