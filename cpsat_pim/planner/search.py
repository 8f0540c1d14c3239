"""The best plan of the declared space with a lower bound: elimination over homes, node proofs when they are needed.

Every round minimises over the floors of all node problems, which bounds all plans from below, and then solves more
exactly what that optimum uses: partitions whose data movement was not computed, node problems that were not solved.
When it uses neither, its cost is that of a plan, which is optimal.
"""

import time
from collections.abc import Callable
from typing import Any

import numpy as np
from attrs import define, field, frozen

from cpsat_pim.mapper.result import Objective, Status
from cpsat_pim.planner.array import MESH, NodeArray
from cpsat_pim.planner.eliminate import INFINITE, Factor, Optimum, minimize
from cpsat_pim.planner.evaluate import PlanCost, evaluate_plan
from cpsat_pim.planner.fit import Fitting
from cpsat_pim.planner.graph import Graph, LayerTask
from cpsat_pim.planner.nodes import NodeCosts, NodeProblem
from cpsat_pim.planner.options import FREE_BYTES, LayerOptions, Price, Weighing
from cpsat_pim.planner.partition import Home, Partition
from cpsat_pim.planner.phases import rates_of
from cpsat_pim.planner.plan import LayerPlan, Plan, RegionPlan, check_plan
from cpsat_pim.planner.space import Space

#: Receives a line of progress.
Report = Callable[[str], None]


@frozen(kw_only=True)
class SearchLimits:
    """`time_limit`: seconds of the search. `batch`: partitions of a layer whose data movement is computed at a time;
    `refined`: node problems whose bounds the mapper computes at a time.

    Smaller batches compute less, larger ones take fewer rounds.
    """

    time_limit: float = 600.0
    batch: int = 64
    refined: int = 8


@frozen(kw_only=True)
class SolvedPlan:
    """The best plan found, its cost, and a lower bound of all plans of the space, in the objective's integers."""

    status: Status
    space: Space
    objective: Objective
    plan: Plan | None
    cost: PlanCost | None
    value: int | None
    bound: int
    seconds: float
    statistics: dict[str, Any]

    @property
    def gap(self) -> float | None:
        """(value - bound) / value; 0 is a proof."""
        return None if self.value is None else max(0.0, (self.value - self.bound) / self.value)


def ignore(line: str) -> None:
    """Report nothing."""


def solve_plan(
    graph: Graph,
    array: NodeArray,
    space: Space,
    objective: Objective,
    costs: NodeCosts,
    limits: SearchLimits | None = None,
    report: Report = ignore,
) -> SolvedPlan:
    """The best plan of the space.

    Raises:
        ValueError: a layer has no partition that fits, its node programs have no mapping, or the array is no mesh.
    """
    if array.interconnect != MESH:
        raise ValueError(f"array.interconnect: {array.interconnect} cannot be planned for yet, only {MESH}")
    return _Search(graph, array, space, objective, costs, limits or SearchLimits(), report).run()


@define(kw_only=True, eq=False)
class _Found:
    """The best plan so far."""

    value: int = INFINITE
    plan: Plan | None = None
    cost: PlanCost | None = None
    tie: int = field(default=INFINITE)


class _Search:
    """Rounds of elimination and closer looks."""

    def __init__(
        self,
        graph: Graph,
        array: NodeArray,
        space: Space,
        objective: Objective,
        costs: NodeCosts,
        limits: SearchLimits,
        report: Report,
    ) -> None:
        self.graph, self.array, self.space, self.objective = graph, array, space, objective
        self.costs, self.limits, self.report = costs, limits, report
        self.rates = rates_of(array)
        self.weighing = Weighing(objective=objective, rates=self.rates)
        self.started = time.monotonic()
        self.homes = self._homes()
        self.options = self._options()
        self.bound, self.found = 0, _Found()
        self.rounds, self.width, self.progress = 0, 0, 0

    @property
    def is_over(self) -> bool:
        """Whether the time is up."""
        return time.monotonic() - self.started >= self.limits.time_limit

    # What is searched

    def _homes(self) -> dict[str, list[Home]]:
        """Homes of every stack that has one of its own."""
        whole = self.array.whole
        return {name: self.space.homes(self.graph.stacks[name].shape, whole) for name in self.graph.homes}

    def _options(self) -> dict[str, LayerOptions]:
        """Options by layer; alike layers share them."""
        shared: dict[Any, LayerOptions] = {}
        for task in self.graph.tasks:
            key = self._content(task)
            if key not in shared:
                shared[key] = self._options_of(task)
                self.report(f"{task.name}: {len(shared[key].rows)} partitions")
        return {task.name: shared[self._content(task)] for task in self.graph.tasks}

    def _content(self, task: LayerTask) -> tuple[Any, ...]:
        """What the options of a layer depend on, without names."""
        stacks = [self.graph.stacks[stack] for stack in (task.reads.stack, *self._second(task), task.writes)]
        readings = (task.reads.channels, task.reads_weights and task.reads_weights.channels)
        shapes = tuple((stack.shape, stack.element_bytes) for stack in stacks)
        added = tuple(len(one.operands) for one in task.finishes)
        rest = (task.weight_rows, task.pad, task.pool, task.input_pool, task.offset, added)
        return (task.workload.shape_key, shapes, readings, rest)

    def _second(self, task: LayerTask) -> list[str]:
        return [task.reads_weights.stack] if task.reads_weights else []

    def _options_of(self, task: LayerTask) -> LayerOptions:
        partitions = list(self.space.partitions(task, self.array.whole))
        if not partitions:
            raise ValueError(f"{task.name}: no partition over {self.array.rows} x {self.array.cols} nodes fits it")
        second = self._second(task)
        options = LayerOptions(
            graph=self.graph,
            task=task,
            rates=self.rates,
            costs=self.costs,
            weighing=self.weighing,
            is_tied=self.space.is_tied,
            reads=self._homes_of(task.reads.stack),
            reads_weights=self._homes_of(second[0]) if second else [],
            writes=self._homes_of(task.writes),
            partitions=partitions,
        )
        if not options.rows:
            raise ValueError(f"{task.name}: no part of it has a mapping on {self.array.node.name}")
        return options

    def _homes_of(self, stack: str) -> list[Home]:
        return self.homes[self.graph.home_of[stack]]

    # Rounds

    def run(self) -> SolvedPlan:
        """Until a plan costs no more than the bound, or the time is up."""
        distinct = {id(options): options for options in self.options.values()}
        for options in distinct.values():
            options.look_at(self.limits.batch)
        while not self.is_over and self.found.value > self.bound:
            lower = self._minimize(upper=False)
            self.bound = max(self.bound, lower.cost)
            if not self._round(lower):
                self._keep_best()
                if self.progress == 0:
                    break
        if self.found.cost is not None and self.found.cost.peak_bytes > self.array.capacity_bytes:
            self._fit()
        return self._answer()

    def _round(self, lower: Optimum, price: Price = FREE_BYTES) -> int:
        """Solve the node problems that an optimum uses; return how many layers have no mapping yet."""
        self.rounds += 1
        refined, solved = self._refine(lower, price)
        self.report(
            f"round {self.rounds}: bound {self.bound}, best {self.found.value if self.found.plan else '-'},"
            f" {refined} layers refined, {solved} node problems solved"
        )
        self.progress = refined + solved
        return refined

    def _fit(self) -> None:
        """Give bytes a price, as the best plan of all does not fit; node problems that this uses are solved as well.

        The bound of all plans stays one of those that fit.
        """
        self.report(f"the best plan takes more than the {self.array.capacity_bytes} bytes of a node: bytes get a price")
        self.found = _Found()
        while True:
            fitting = Fitting(self._minimize, self._plan, self._value, self.array.capacity_bytes, self.array.nodes)
            fit = fitting.run()
            self.bound = max(self.bound, fit.bound)
            if fit.value < self.found.value:
                self.found = _Found(value=fit.value, plan=fit.plan, cost=fit.cost)
            if self.is_over or self.found.value <= self.bound:
                return
            price = fit.price or fitting.highest_price
            self._round(fitting.raise_bound(price), price)
            if self.progress == 0:
                return

    def _minimize(self, upper: bool, price: Price = FREE_BYTES) -> Optimum:
        """The optimum over floors, or over solved node problems alone, at a price of bytes."""
        tables: dict[int, np.ndarray] = {}
        factors = []
        for task in self.graph.tasks:
            options = self.options[task.name]
            if id(options) not in tables:
                tables[id(options)] = options.table(upper, price)
            factors.append(self._factor(task, tables[id(options)]))
        optimum = minimize(factors, {name: len(homes) for name, homes in self.homes.items()})
        self.width = max(self.width, optimum.width)
        return optimum

    def _factor(self, task: LayerTask, table: np.ndarray) -> Factor:
        """A layer's table over the homes that it depends on; a home that it reads and writes is one variable."""
        names = [self.graph.home_of[stack] for stack in (task.reads.stack, *self._second(task), task.writes)]
        cost, tie = (table[i] if self._second(task) else table[i][:, 0, :] for i in (0, 1))
        for i in range(len(names) - 1, 0, -1):
            if names[i] in names[:i]:
                at = names.index(names[i])
                cost, tie = (np.moveaxis(np.diagonal(t, axis1=at, axis2=i), -1, at) for t in (cost, tie))
                del names[i]
        return Factor(variables=tuple(names), cost=cost, tie=tie)

    def _at(self, task: LayerTask, values: dict[str, int]) -> tuple[int, int, int]:
        """Indices of the homes that a layer reads and writes."""
        home = self.graph.home_of
        second = self._second(task)
        return values[home[task.reads.stack]], values[home[second[0]]] if second else 0, values[home[task.writes]]

    def _refine(self, lower: Optimum, price: Price = FREE_BYTES) -> tuple[int, int]:
        """Look at more partitions where the optimum uses ones that were not, and refine plain bounds that it uses.

        If it uses neither, solve the node problems that it uses.
        """
        uses = {(id(o := self.options[t.name]), self._at(t, lower.values)): o for t in self.graph.tasks}
        best = {key: options.best(key[1], price=price) for key, options in uses.items()}
        unseen = {key[0]: uses[key] for key, found in best.items() if found is None}
        for options in unseen.values():
            options.look_at(self.limits.batch)
        plain = {key: options for key, options in uses.items() if best[key] and not self._is_refined(best[key])}
        for key, options in plain.items():
            options.refine(key[1], self.limits.refined, price)
        if unseen or plain:
            return len(unseen) + len(plain), 0
        problems = dict.fromkeys(found[1] for found in best.values() if found)
        return 0, self._solve(list(problems))

    def _is_refined(self, found: tuple[Partition, NodeProblem] | None) -> bool:
        known = None if found is None else self.costs.cost(found[1])
        return known is not None and known.is_refined

    def _solve(self, problems: list[NodeProblem]) -> int:
        """Solve node problems that were not, or, if there is none, the one with the widest gap again; how many."""
        known = [(problem, cost) for problem in problems if (cost := self.costs.cost(problem)) is not None]
        unsolved = [problem for problem, cost in known if not cost.is_solved]
        if not unsolved:
            unproven = [(cost.gap, i, problem) for i, (problem, cost) in enumerate(known) if not cost.is_proven]
            unsolved = [max(unproven)[2]] if unproven else []
        solved = 0
        for problem in unsolved:
            if self.is_over:
                break
            self.costs.solve(problem)
            solved += 1
            self.report(f"{problem.layer.name}: node problem {solved} of {len(unsolved)} solved")
        return solved

    def _keep_best(self) -> None:
        """The best plan of solved node problems, if it is better than what is known."""
        upper = self._minimize(upper=True)
        if upper.cost >= INFINITE or (upper.cost, upper.tie) >= (self.found.value, self.found.tie):
            return
        plan = self._plan(upper)
        cost, value = self._value(plan)
        assert value == upper.cost, (value, upper.cost)  # the plan recosts itself by another way than the tables
        self.found = _Found(value=value, plan=plan, cost=cost, tie=upper.tie)

    def _value(self, plan: Plan) -> tuple[PlanCost, int]:
        """A plan's cost and its objective, by the way of `evaluate_plan`, which shares no table with the search."""
        problems = check_plan(self.graph, plan)
        assert not problems, problems
        cost = evaluate_plan(self.graph, plan)
        return cost, int(self.objective.value(cost.latency_cycles, cost.energy_fj))

    def _plan(self, upper: Optimum, price: Price = FREE_BYTES) -> Plan:
        layers = {}
        for task in self.graph.tasks:
            found = self.options[task.name].best(self._at(task, upper.values), upper=True, price=price)
            assert found is not None
            node = self.costs.cost(found[1])
            assert node is not None
            layers[task.name] = LayerPlan(
                partition=found[0],
                mapping=node.mapping,
                node_cycles=node.latency_cycles,
                node_energy_fj=node.energy_fj,
            )
        homes = {
            name: self.homes[self.graph.home_of[name]][upper.values[self.graph.home_of[name]]]
            for name in self.graph.stacks
        }
        segments = tuple((RegionPlan(region=self.array.whole, layers=(task.name,)),) for task in self.graph.tasks)
        return Plan(network=self.graph.name, array=self.array, segments=segments, layers=layers, homes=homes)

    def _answer(self) -> SolvedPlan:
        found = self.found
        is_proven = found.plan is not None and found.value <= self.bound
        status = Status.OPTIMAL if is_proven else Status.FEASIBLE if found.plan else Status.UNKNOWN
        distinct = {id(options): options for options in self.options.values()}.values()
        return SolvedPlan(
            status=status,
            space=self.space,
            objective=self.objective,
            plan=found.plan,
            cost=found.cost,
            value=found.value if found.plan else None,
            bound=min(self.bound, found.value),
            seconds=time.monotonic() - self.started,
            statistics={
                "rounds": self.rounds,
                "partitions": sum(len(options.rows) for options in distinct),
                "partitions_computed": sum(options.seen for options in distinct),
                "node_problems": self.costs.known,
                "node_solves": self.costs.solves,
                "node_reused": self.costs.reused,
                "largest_table": self.width,
            },
        )
