"""What a search looks for: homes and options by layer as a sum of small tables, and plans made of their optima."""

from collections import Counter
from collections.abc import Collection, Iterator
from functools import cached_property
from typing import Any

import numpy as np
from attrs import evolve, frozen

from cpsat_pim.mapper.result import Objective
from cpsat_pim.planner.alike import content_of
from cpsat_pim.planner.array import NodeArray, Region
from cpsat_pim.planner.branches import Leaf, Parallel, find_blocks, members
from cpsat_pim.planner.capacity import Life, least_peak_bytes, lives, most_weight_bytes
from cpsat_pim.planner.eliminate import INFINITE, Factor, Projection, better, check_width, minimize, project
from cpsat_pim.planner.evaluate import PlanCost, evaluate_plan, join_phase
from cpsat_pim.planner.nodes import NodeCosts, NodeProblem
from cpsat_pim.planner.options import At, LayerOptions
from cpsat_pim.planner.partition import Home, Partition
from cpsat_pim.planner.phases import rates_of
from cpsat_pim.planner.plan import LayerPlan, Plan, RegionPlan, check_plan
from cpsat_pim.planner.space import Space
from cpsat_pim.planner.sums import Sum
from cpsat_pim.planner.tensors import Graph, LayerTask
from cpsat_pim.planner.weighing import FREE_BYTES, Price, Weighing

#: Options of a layer and the homes that it reads and writes.
Use = tuple[LayerOptions, At]


@frozen(kw_only=True, eq=False)
class Choice:
    """The least (cost, tie), with the index of each home, and the leaves of blocks whose branches run side by side."""

    cost: int
    tie: int
    values: dict[str, int]
    ways: dict[int, list[Leaf]]
    upper: bool


class Instance:
    """The plans of a space: a home for each stack, and the options of each layer; alike layers share them.

    Raises:
        ValueError: the node programs of a layer have no mapping, or are padded otherwise than the space says.
    """

    def __init__(self, graph: Graph, array: NodeArray, space: Space, objective: Objective, costs: NodeCosts) -> None:
        if costs.padding != space.padding:
            raise ValueError(
                f"Space.padding: must be that of the node costs, {costs.padding:g} (got {space.padding:g})"
            )
        self.graph, self.array, self.objective, self.costs = graph, array, objective, costs
        self.space = evolve(space, cuts=0) if objective.weights[1] else space  # branches side by side save time only
        self.rates = rates_of(array)
        self.weighing = Weighing(objective=objective, rates=self.rates)
        self.free = space.constraints.free_region(array)
        self.homes = space.homes_of(graph, array)
        self.sizes = {name: len(homes) for name, homes in self.homes.items()}
        if not self.space.cuts:  # branches side by side hide some of the homes
            check_width([self.roles(task) for task in graph.tasks], self.sizes)
        self.options = self._options()
        self.parallels = list(self._parallels())
        self.width = 0

    @property
    def distinct(self) -> list[LayerOptions]:
        """Options of layers that differ."""
        of_branches = [options for parallel in self.parallels for options in parallel.options]
        return list({id(options): options for options in [*self.options.values(), *of_branches]}.values())

    @cached_property
    def least_peak_bytes(self) -> int:
        """Some node of every plan holds at least so many bytes at some step."""
        return least_peak_bytes(self.graph, self.nodes)

    @property
    def nodes(self) -> int:
        """Nodes that a plan may use."""
        return self.space.constraints.free_nodes(self.array)

    @property
    def first_node(self) -> int:
        """The first node of the region that layers run on, which has the largest of all parts there."""
        return self.free.y * self.array.cols + self.free.x

    @cached_property
    def lives(self) -> dict[str, list[Life]]:
        """When tensors live, by the home that they share, if layers run one after the other."""
        return lives(self.graph)

    @cached_property
    def most_weight_bytes(self) -> int:
        """The first node has room for so many bytes of weights, if layers run one after the other."""
        return most_weight_bytes(self.graph, self.array, self.homes, self.first_node)

    # --- Options -----------------------------------------------------------------------------------------------------

    def _options(self) -> dict[str, LayerOptions]:
        shared: dict[Any, LayerOptions] = {}
        for task in self.graph.tasks:
            key = self._content(task)
            if key not in shared:
                shared[key] = self._options_of(task)
        return {task.name: shared[self._content(task)] for task in self.graph.tasks}

    def _content(self, task: LayerTask) -> Any:
        """Return what the options of a layer depend on: its content, and what is fixed of it and its homes."""
        fixed, graph = self.space.constraints, self.graph
        homes = tuple(fixed.of_home(graph, name) for name in self.roles(task)) if fixed.homes else ()
        return content_of(graph, task), fixed.of_layer(task.name), homes

    def _options_of(
        self, task: LayerTask, region: Region | None = None, homes: dict[str, list[Home]] | None = None
    ) -> LayerOptions:
        """Return the options of a layer on a region, the whole array if none is given, with some homes on it."""
        where = region or self.space.region_of(task, self.free)
        partitions = list(self.space.partitions(task, where))
        placed = self.homes | (homes or {})
        reads, *others, writes = (placed[self.graph.home_of[name]] for name in _stacks(task))
        return LayerOptions(
            graph=self.graph,
            task=task,
            rates=self.rates,
            costs=self.costs,
            weighing=self.weighing,
            is_tied=self.space.is_tied,
            reads=reads,
            others=others[0] if others else [],
            writes=writes,
            partitions=partitions,
            first_node=self.first_node,
        )

    # --- Branches side by side ---------------------------------------------------------------------------------------

    def _parallels(self) -> Iterator[Parallel]:
        """Yield the blocks whose branches may run side by side; only time is shorter then."""
        if not self.space.cuts or self.objective.weights[1]:
            return
        tasks = {task.name: task for task in self.graph.tasks}
        for block in find_blocks(self.graph):
            late = set(block.joined)
            yield Parallel(
                block=block,
                tasks={name: evolve(task, finishes=tuple(s for s in task.finishes if s not in late))
                       for name, task in tasks.items()},
                whole=self.array.whole,
                step=self.space.cuts,
                sizes=self.sizes,
                joins=[self._join(one) for one in block.joined],
                macs_per_cycle=self.array.node.pe_array.macs_per_cycle,
                make_options=self._options_of,
                inner_homes=lambda name, region: self.space.homes(self.graph.home_shape(name), region),
                factor=self._factor,
                locate=self._at,
            )  # fmt: skip

    def _join(self, one: Sum) -> Factor:
        """Return what making a sum at the end of a segment costs, by its home."""
        name = self.graph.home_of[self.graph.stack_of[one.first]]
        phases = [join_phase(self.graph, self.rates, [(one, home)]) for home in self.homes[name]]
        cost, tie = np.stack([self.weighing.of_phase(phase) for phase in phases], axis=-1)
        return Factor(variables=(name,), cost=cost, tie=tie)

    # --- Tables ------------------------------------------------------------------------------------------------------

    def minimize(self, upper: bool, price: Price = FREE_BYTES) -> Choice:
        """Return the optimum over lower bounds, or over solved node problems alone, at a price of bytes.

        Where few layouts are allowed, it is the least over all choices of so many; if these are too many, over all
        layouts, which is a bound.
        """
        choices = self.space.constraints.choices_of_layouts(self.space.layouts)
        found = [self._minimize(upper, price, layouts) for layouts in choices]
        return min(found, key=lambda one: (one.cost, one.tie))

    def _minimize(self, upper: bool, price: Price, layouts: Collection[str] | None) -> Choice:
        distinct = {id(options): options for options in self.options.values()}
        tables = {key: options.table(upper, price) for key, options in distinct.items()}
        factors = {task.name: self._factor(task, tables[id(self.options[task.name])]) for task in self.graph.tasks}
        serial = [self._serial(parallel, factors) for parallel in self.parallels]
        at_once = [
            self._at_once(parallel, upper, price, int(one.factor.cost.max()))
            for parallel, one in zip(self.parallels, serial, strict=True)
        ]
        hidden = {name for parallel in self.parallels for name in parallel.block.layers}
        left = [factor for name, factor in factors.items() if name not in hidden]
        left += [better(one.factor, other) for one, other in zip(serial, at_once, strict=True)]
        left += [] if layouts is None else [self._only(name, layouts) for name in self.homes]
        inner = {name for parallel in self.parallels for names in parallel.block.inner for name in names}
        optimum = minimize(left, {name: size for name, size in self.sizes.items() if name not in inner})
        self.width = max(self.width, optimum.width)
        values, ways = dict(optimum.values), {}
        for i, parallel in enumerate(self.parallels):
            at = tuple(values[name] for name in parallel.block.outer)
            if _pair(at_once[i], at) < _pair(serial[i].factor, at):
                ways[i] = parallel.leaves(values, upper)
            else:
                values |= serial[i].values(values)
        return Choice(cost=optimum.cost, tie=optimum.tie, values=values, ways=ways, upper=upper)

    def _only(self, name: str, layouts: Collection[str]) -> Factor:
        """Return a table that bars homes of other layouts."""
        cost = np.array([0 if home.layout in layouts else INFINITE for home in self.homes[name]], dtype=np.int64)
        return Factor(variables=(name,), cost=cost, tie=np.zeros_like(cost))

    def _serial(self, parallel: Parallel, factors: dict[str, Factor]) -> Projection:
        """Return what a block costs on the whole array, one layer after the other."""
        own = [factors[name] for name in parallel.block.layers]
        inner = {name: self.sizes[name] for names in parallel.block.inner for name in names}
        return project(own, inner | {name: self.sizes[name] for name in parallel.block.outer}, parallel.block.outer)

    def _at_once(self, parallel: Parallel, upper: bool, price: Price, ceiling: int) -> Factor:
        """Return what a block costs with branches side by side; at a price of bytes, a bound without the bytes."""
        if not price.per_byte:
            return parallel.table(upper, ceiling)
        found = parallel.table(False, INFINITE)
        cost = np.full_like(found.cost, INFINITE) if upper else np.minimum(found.cost * price.scale, INFINITE)
        return Factor(variables=found.variables, cost=cost, tie=np.zeros_like(found.tie))

    def _factor(self, task: LayerTask, table: np.ndarray) -> Factor:
        """Return a layer's table over the homes that it depends on; one that it reads and writes is one variable."""
        names = self.roles(task)
        cost, tie = (table[i] if task.others else table[i][:, 0, :] for i in (0, 1))
        for i in range(len(names) - 1, 0, -1):
            if names[i] in names[:i]:
                at = names.index(names[i])
                cost, tie = (np.moveaxis(np.diagonal(t, axis1=at, axis2=i), -1, at) for t in (cost, tie))
                del names[i]
        return Factor(variables=tuple(names), cost=cost, tie=tie)

    def uses(self, choice: Choice) -> Counter[Use]:
        """Return the options that an optimum uses, at its homes, and how many layers use them."""
        return Counter((options, at) for _, options, at in self._used(choice))

    def _used(self, choice: Choice) -> Iterator[tuple[str, LayerOptions, At]]:
        at_once = {name for i in choice.ways for name in self.parallels[i].block.layers}
        for task in self.graph.tasks:
            if task.name not in at_once:
                yield task.name, self.options[task.name], self._at(task, choice.values)
        for i, leaves in choice.ways.items():
            yield from self.parallels[i].uses(leaves, choice.values, choice.upper)

    def missing(self, choice: Choice) -> Iterator[tuple[Parallel, int, Region]]:
        """Yield branches on rectangles that an optimum uses, and whose costs were not computed."""
        for i, leaves in choice.ways.items():
            for number, region in self.parallels[i].missing(leaves):
                yield self.parallels[i], number, region

    def factors(self, price: Price) -> list[Factor]:
        """Return the table of every layer over lower bounds, in order."""
        return [self._factor(task, self.options[task.name].table(False, price)) for task in self.graph.tasks]

    def roles(self, task: LayerTask) -> list[str]:
        """Return the homes that a layer reads (of the first stack, and of all others) and writes."""
        return [self.graph.home_of[name] for name in _stacks(task)]

    def _at(self, task: LayerTask, values: dict[str, int]) -> At:
        """Return the indices of the homes that a layer reads and writes."""
        reads, *others, writes = (values[self.graph.home_of[name]] for name in _stacks(task))
        return reads, others[0] if others else 0, writes

    # --- Plans -------------------------------------------------------------------------------------------------------

    def plan(self, choice: Choice, price: Price = FREE_BYTES) -> Plan:
        """Return the plan of an optimum over solved node problems."""
        layers = {name: self._best_layer(options, at, price) for name, options, at in self._used(choice)}
        homes = {name: self.homes[name][value] for name, value in choice.values.items()}
        for i, leaves in choice.ways.items():
            homes |= self.parallels[i].homes(leaves, choice.values, choice.upper)
        return self.assembled(layers, homes, tuple(self._segments(choice)))

    def assembled(
        self,
        layers: dict[str, LayerPlan],
        homes: dict[str, Home],
        segments: tuple[tuple[RegionPlan, ...], ...] | None = None,
    ) -> Plan:
        """Return the plan of layers and homes; without segments, layers run one after the other."""
        serial = [(RegionPlan(region=self.options[t.name].region, layers=(t.name,)),) for t in self.graph.tasks]
        return Plan(
            network=self.graph.name,
            batch=self.graph.batch,
            array=self.array,
            segments=serial if segments is None else segments,
            layers={task.name: layers[task.name] for task in self.graph.tasks},
            homes={name: homes[self.graph.home_of[name]] for name in self.graph.stacks},
        )

    def _best_layer(self, options: LayerOptions, at: At, price: Price) -> LayerPlan:
        found = options.best(at, upper=True, price=price)
        assert found is not None
        return self.layer(options, *found)

    def layer(self, options: LayerOptions, partition: Partition, problem: NodeProblem) -> LayerPlan:
        """Return a layer of a plan, whose node problem is solved."""
        node = self.costs.cost(problem)
        assert node is not None
        return LayerPlan(
            partition=partition,
            tours=options.tours(partition),
            mapping=node.mapping,
            node_cycles=node.latency_cycles,
            node_energy_fj=node.energy_fj,
        )

    def _segments(self, choice: Choice) -> Iterator[tuple[RegionPlan, ...]]:
        """Yield a segment for each layer, and one for each block whose branches run side by side."""
        block_of = {name: i for i in choice.ways for name in self.parallels[i].block.layers}
        order, done = [task.name for task in self.graph.tasks], set()
        for name in order:
            if name not in block_of:
                yield (RegionPlan(region=self.options[name].region, layers=(name,)),)
            elif block_of[name] not in done:
                done.add(block_of[name])
                branches = self.parallels[block_of[name]].block.branches
                yield tuple(
                    RegionPlan(
                        region=leaf.region,
                        layers=sorted((n for b in members(leaf.mask) for n in branches[b]), key=order.index),
                    )
                    for leaf in choice.ways[block_of[name]]
                )

    def value(self, plan: Plan) -> tuple[PlanCost, int]:
        """Return a plan's cost and its objective by way of `evaluate_plan`, which shares no table with the search."""
        problems = check_plan(self.graph, plan)
        assert not problems, problems
        cost = evaluate_plan(self.graph, plan)
        return cost, int(self.objective.value(cost.latency_cycles, cost.energy_fj))


def _stacks(task: LayerTask) -> list[str]:
    """Return stacks by which homes a layer reads (that of the first, and of all others) and writes."""
    return [*task.read_stacks[:2], task.writes]


def _pair(factor: Factor, at: tuple[int, ...]) -> tuple[int, int]:
    return int(factor.cost[at]), int(factor.tie[at])
