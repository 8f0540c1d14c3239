"""What a layer costs on its own, for given homes of what it reads and writes, and the partition that costs least.

The data movement is that of `cpsat_pim.planner.step`. Node programs have the costs of `NodeCosts`: intervals, which are
solved only where they decide which partition is best.
"""

import heapq
import math
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from attrs import define, evolve, field, frozen

from cpsat_pim.mapper.result import Objective
from cpsat_pim.planner.additions import addition_of
from cpsat_pim.planner.nodes import FREE_LAYOUTS, NodeCost, NodeCosts, NodeProblem, layout_index
from cpsat_pim.planner.partition import Home, Partition
from cpsat_pim.planner.parts import Parts
from cpsat_pim.planner.phases import PhaseCost, Rates
from cpsat_pim.planner.plan import LayerPlan
from cpsat_pim.planner.step import Step
from cpsat_pim.planner.tensors import Graph, LayerTask

#: (objective, tie-breaker): what the objective leaves out breaks its ties.
Cost = tuple[int, int]

#: How exactly the cost of a partition is known, from the floor of its node program to a solved one.
_FLOOR, _REFINED, _MOVED, _SOLVED = range(4)


@frozen(kw_only=True)
class StepHomes:
    """Homes of the first stack that a layer reads, of all others (None: there are none), and of its output."""

    reads: Home
    others: Home | None = None
    writes: Home


@define(kw_only=True)
class Effort:
    """How many node problems may be solved for one choice, and until when; `cut` counts choices that ended early.

    After that, partitions whose node problem is not solved are passed over. `until`: a time of `time.monotonic`.
    """

    solves: int = 8
    until: float = math.inf
    cut: int = 0

    @property
    def is_over(self) -> bool:
        """Whether the time is up."""
        return time.monotonic() >= self.until


#: Seconds of a solve that begins when the time is nearly up.
_LAST_SECONDS = 2.0

#: A partition and the homes around it.
Option = tuple[Partition, StepHomes]


@frozen(kw_only=True)
class Choice:
    """A partition at some homes, its cost, and its node program."""

    partition: Partition
    homes: StepHomes
    cost: Cost
    node: NodeCost

    @property
    def layer_plan(self) -> LayerPlan:
        """The layer of a plan."""
        return LayerPlan(
            partition=self.partition,
            mapping=self.node.mapping,
            node_cycles=self.node.latency_cycles,
            node_energy_fj=self.node.energy_fj,
        )


@define(kw_only=True, eq=False)
class LayerCosts:
    """Costs of one layer. Phases are remembered, as they are asked for again with other homes of the other tensor."""

    graph: Graph
    task: LayerTask
    rates: Rates
    costs: NodeCosts
    objective: Objective
    is_tied: bool
    _weights: tuple[int, int] = field(init=False)
    _steps: dict[Partition, Step] = field(init=False, factory=dict)
    _phases: dict[Any, Cost] = field(init=False, factory=dict)
    _parts: dict[StepHomes, Parts] = field(init=False, factory=dict)

    @_weights.default
    def _weights_of_objective(self) -> tuple[int, int]:
        return self.objective.weights

    # One partition

    def moved(self, partition: Partition, homes: StepHomes) -> Cost:
        """Cost of all data movement of a step."""
        parts = (
            self._phase(("weights", partition), lambda step: step.weights()),
            self._phase(("pull", partition, homes.reads, homes.others), lambda s: self._pull(s, homes)),
            self._phase(("reduce", partition, homes.writes.layout), lambda s: s.reduce(homes.writes.layout)),
            self.pushed(partition, homes.writes),
        )
        return sum(part[0] for part in parts), sum(part[1] for part in parts)

    def pushed(self, partition: Partition, home: Home) -> Cost:
        """Cost of sending the output to a home."""
        added = addition_of(self.graph, self.task, self.task.finishes)
        return self._phase(("push", partition, home), lambda step: step.push(home, added))

    def _pull(self, step: Step, homes: StepHomes) -> PhaseCost:
        return step.pull(homes.reads, homes.others)

    def _phase(self, key: tuple[Any, ...], phase: Callable[[Step], PhaseCost]) -> Cost:
        known = self._phases.get(key)
        if known is None:
            found = phase(self._step(key[1]))
            known = self._phases[key] = self.weigh(found.cycles, found.energy_fj(self.rates))
        return known

    def _step(self, partition: Partition) -> Step:
        if partition not in self._steps:
            self._steps[partition] = Step(graph=self.graph, task=self.task, partition=partition, rates=self.rates)
        return self._steps[partition]

    def weigh(self, cycles: int, energy_fj: int) -> Cost:
        """The objective of cycles and energy, and what it leaves out."""
        alpha, beta = self._weights
        return alpha * cycles + beta * energy_fj, cycles if beta else energy_fj

    def weight_bytes(self, partition: Partition) -> int:
        """Bytes of weights on the node that holds the most."""
        return int(self._step(partition).weight_chunks().max())

    # Node programs

    def problem(self, partition: Partition, homes: StepHomes) -> NodeProblem:
        """The node problem of a partition, with the layouts of its homes if these are tied."""
        return self._parts_at(homes).programs(partition)[0]

    def least_moved(self, partition: Partition, homes: StepHomes) -> int:
        """The objective of what is moved, at least: known without counting any exchange."""
        return self._weights[0] and self._weights[0] * self._parts_at(homes).least(partition).cycles

    def _parts_at(self, homes: StepHomes) -> Parts:
        if homes not in self._parts:
            layouts = layout_index(homes.reads.layout), layout_index(homes.writes.layout)
            self._parts[homes] = Parts(
                graph=self.graph,
                task=self.task,
                rates=self.rates,
                layouts=[layouts if self.is_tied else FREE_LAYOUTS],
                homes=([homes.reads], [homes.others] if homes.others else [], [homes.writes]),
            )
        return self._parts[homes]

    def own(self, node: NodeCost, partition: Partition) -> Cost:
        """Cost of the node programs of all nodes: exact if solved, else a bound from below."""
        nodes = partition.region.size
        if node.is_solved:
            return self.weigh(node.latency_cycles, nodes * node.energy_fj)
        alpha, beta = self._weights
        return node.least * (nodes if beta and not alpha else 1), 0

    # The best option

    def cheapest(self, options: Iterable[Option], effort: Effort) -> Choice:
        """The option of least cost; of equal ones the first.

        Raises:
            ValueError: no partition has a node program.
        """
        return _Cheapest(self, list(options), effort).find()


class _Cheapest:
    """Best-first search: the option with the least bound is looked at more closely until it is solved."""

    def __init__(self, layer: LayerCosts, options: Sequence[Option], effort: Effort) -> None:
        self.layer, self.options, self.effort = layer, options, effort
        self.problems = [layer.problem(*option) for option in options]
        self.solves_left, self.passed_over = effort.solves, list[int]()
        self.heap: list[tuple[Cost, int, int]] = []
        for at in range(len(options)):
            self._put(at, _FLOOR)

    def find(self) -> Choice:
        """Look closer at the least bound until it is exact."""
        while self.heap:
            cost, stage, at = heapq.heappop(self.heap)
            if stage == _SOLVED:
                return self._choice(at, cost)
            self._look_closer(stage, at)
        return self._first_passed_over()

    def _put(self, at: int, stage: int) -> None:
        """Enter an option with what is known at a stage; not if its node problem has no mapping."""
        node = self.layer.costs.cost(self.problems[at])
        if node is None:
            return
        option = self.options[at]
        own = self.layer.own(node, option[0])
        moved = self.layer.moved(*option) if stage >= _MOVED else (self.layer.least_moved(*option), 0)
        cost = own[0] + moved[0], own[1] + moved[1]
        if stage >= _MOVED and node.is_solved:
            stage = _SOLVED
        heapq.heappush(self.heap, (cost, stage, at))

    def _look_closer(self, stage: int, at: int) -> None:
        """Move an option to the next stage."""
        if self.effort.is_over or (stage == _MOVED and self.solves_left <= 0):
            if stage < _MOVED and self._is_solved(at):
                self._put(at, _MOVED)
            else:
                self.passed_over.append(at)
        elif stage == _FLOOR:
            self.layer.costs.refine(self.problems[at])
            self._put(at, _REFINED)
        elif stage == _REFINED:
            self._put(at, _MOVED)
        else:
            self._solve(at)

    def _is_solved(self, at: int) -> bool:
        node = self.layer.costs.cost(self.problems[at])
        return node is not None and node.is_solved

    def _solve(self, at: int) -> None:
        self.solves_left -= 1
        until = max(self.effort.until, time.monotonic() + _LAST_SECONDS)
        self.layer.costs.solve(self.problems[at], until=until)
        self._put(at, _MOVED)

    def _construct(self, at: int) -> None:
        self.layer.costs.construct([self.problems[at]])
        self._put(at, _MOVED)

    def _first_passed_over(self) -> Choice:
        """Nothing is solved: take what was passed over first and gets a mapping: by a solve, or, where the time is up,
        one that is built without a search; only if none can be built, by a solve of at most `_LAST_SECONDS`.
        """
        for attempt in (self._construct, self._solve) if self.effort.is_over else (self._solve,):
            for at in self.passed_over:
                attempt(at)
                if self.heap and self.heap[0][1] == _SOLVED:
                    cost, _, at = heapq.heappop(self.heap)
                    return self._choice(at, cost)
        raise ValueError(f"{self.layer.task.name}: no part of it has a mapping on {self.layer.costs.arch.name}")

    def _choice(self, at: int, cost: Cost) -> Choice:
        self.effort.cut += bool(self.passed_over)
        node = self.layer.costs.cost(self.problems[at])
        assert node is not None
        partition, homes = self.options[at]
        return Choice(partition=partition, homes=homes, cost=cost, node=node)


def with_replicas(task: LayerTask, partition: Partition, replicas: int) -> Partition:
    """The partition with the most replicas of its weights that are no more than `replicas`, else the fewest."""
    counts = task.replica_counts(partition.sharing)
    return evolve(partition, weight_replicas=next((n for n in counts if n <= replicas), counts[-1]))
