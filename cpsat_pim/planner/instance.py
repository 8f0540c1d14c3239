"""What a search looks for: homes and options by layer as a sum of small tables, and plans made of their optima."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from cpsat_pim.mapper.result import Objective
from cpsat_pim.planner.array import NodeArray
from cpsat_pim.planner.eliminate import Factor, Optimum, minimize
from cpsat_pim.planner.evaluate import PlanCost, evaluate_plan
from cpsat_pim.planner.graph import Graph, LayerTask
from cpsat_pim.planner.nodes import NodeCosts
from cpsat_pim.planner.options import FREE_BYTES, At, LayerOptions, Price, Weighing
from cpsat_pim.planner.partition import Home
from cpsat_pim.planner.phases import rates_of
from cpsat_pim.planner.plan import LayerPlan, Plan, RegionPlan, check_plan
from cpsat_pim.planner.space import Space

#: Options of a layer and the homes that it reads and writes.
Use = tuple[LayerOptions, At]


class Instance:
    """The plans of a space: a home for each stack, and the options of each layer; alike layers share them.

    Raises:
        ValueError: a layer has no partition that fits, or its node programs have no mapping.
    """

    def __init__(self, graph: Graph, array: NodeArray, space: Space, objective: Objective, costs: NodeCosts) -> None:
        self.graph, self.array, self.space, self.objective, self.costs = graph, array, space, objective, costs
        self.rates = rates_of(array)
        self.weighing = Weighing(objective=objective, rates=self.rates)
        self.homes = {name: space.homes(graph.stacks[name].shape, array.whole) for name in graph.homes}
        self.options = self._options()
        self.width = 0

    @property
    def distinct(self) -> list[LayerOptions]:
        """Options of layers that differ."""
        return list({id(options): options for options in self.options.values()}.values())

    # --- Options -----------------------------------------------------------------------------------------------------

    def _options(self) -> dict[str, LayerOptions]:
        shared: dict[Any, LayerOptions] = {}
        for task in self.graph.tasks:
            key = self._content(task)
            if key not in shared:
                shared[key] = self._options_of(task)
        return {task.name: shared[self._content(task)] for task in self.graph.tasks}

    def _content(self, task: LayerTask) -> tuple[Any, ...]:
        """Return what the options of a layer depend on, without names."""
        stacks = [self.graph.stacks[stack] for stack in (task.reads.stack, *_second(task), task.writes)]
        readings = (task.reads.channels, task.reads_weights and task.reads_weights.channels)
        shapes = tuple((stack.shape, stack.element_bytes) for stack in stacks)
        added = tuple(len(one.operands) for one in task.finishes)
        rest = (task.weight_rows, task.pad, task.pool, task.input_pool, task.offset, added)
        return (task.workload.shape_key, shapes, readings, rest)

    def _options_of(self, task: LayerTask) -> LayerOptions:
        partitions = list(self.space.partitions(task, self.array.whole))
        if not partitions:
            raise ValueError(f"{task.name}: no partition over {self.array.rows} x {self.array.cols} nodes fits it")
        second = _second(task)
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

    # --- Tables ------------------------------------------------------------------------------------------------------

    def minimize(self, upper: bool, price: Price = FREE_BYTES) -> Optimum:
        """Return the optimum over lower bounds, or over solved node problems alone, at a price of bytes."""
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
        """Return a layer's table over the homes that it depends on; one that it reads and writes is one variable."""
        names = [self.graph.home_of[stack] for stack in (task.reads.stack, *_second(task), task.writes)]
        cost, tie = (table[i] if _second(task) else table[i][:, 0, :] for i in (0, 1))
        for i in range(len(names) - 1, 0, -1):
            if names[i] in names[:i]:
                at = names.index(names[i])
                cost, tie = (np.moveaxis(np.diagonal(t, axis1=at, axis2=i), -1, at) for t in (cost, tie))
                del names[i]
        return Factor(variables=tuple(names), cost=cost, tie=tie)

    def uses(self, optimum: Optimum) -> list[Use]:
        """Return the options that an optimum uses, at its homes, each once."""
        found = {}
        for task in self.graph.tasks:
            options, at = self.options[task.name], self._at(task, optimum.values)
            found[id(options), at] = (options, at)
        return list(found.values())

    def _at(self, task: LayerTask, values: dict[str, int]) -> At:
        """Return the indices of the homes that a layer reads and writes."""
        home, second = self.graph.home_of, _second(task)
        return values[home[task.reads.stack]], values[home[second[0]]] if second else 0, values[home[task.writes]]

    # --- Plans -------------------------------------------------------------------------------------------------------

    def plan(self, upper: Optimum, price: Price = FREE_BYTES) -> Plan:
        """Return the plan of an optimum over solved node problems."""
        layers = {name: layer for name, layer in self._layers(upper, price)}
        homes = {
            name: self.homes[self.graph.home_of[name]][upper.values[self.graph.home_of[name]]]
            for name in self.graph.stacks
        }
        segments = tuple((RegionPlan(region=self.array.whole, layers=(task.name,)),) for task in self.graph.tasks)
        return Plan(network=self.graph.name, array=self.array, segments=segments, layers=layers, homes=homes)

    def _layers(self, upper: Optimum, price: Price) -> Iterator[tuple[str, LayerPlan]]:
        for task in self.graph.tasks:
            found = self.options[task.name].best(self._at(task, upper.values), upper=True, price=price)
            assert found is not None
            node = self.costs.cost(found[1])
            assert node is not None
            yield (
                task.name,
                LayerPlan(
                    partition=found[0],
                    mapping=node.mapping,
                    node_cycles=node.latency_cycles,
                    node_energy_fj=node.energy_fj,
                ),
            )

    def value(self, plan: Plan) -> tuple[PlanCost, int]:
        """Return a plan's cost and its objective by way of `evaluate_plan`, which shares no table with the search."""
        problems = check_plan(self.graph, plan)
        assert not problems, problems
        cost = evaluate_plan(self.graph, plan)
        return cost, int(self.objective.value(cost.latency_cycles, cost.energy_fj))


def _second(task: LayerTask) -> list[str]:
    """Return the stack that takes the place of the weights, if one does."""
    return [task.reads_weights.stack] if task.reads_weights else []
