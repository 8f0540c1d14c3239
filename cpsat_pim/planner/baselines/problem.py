"""What simpler planners are given: the network, the array, the space of plans, and the costs of layers."""

import time
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

from attrs import define, field

from cpsat_pim.mapper.result import Objective
from cpsat_pim.planner.alike import content_of
from cpsat_pim.planner.array import NodeArray, Region
from cpsat_pim.planner.baselines.homes import Homes
from cpsat_pim.planner.baselines.step_costs import Choice, Effort, LayerCosts, StepHomes, with_replicas
from cpsat_pim.planner.evaluate import PlanCost, evaluate_plan
from cpsat_pim.planner.nodes import NodeCosts
from cpsat_pim.planner.partition import Home, Partition
from cpsat_pim.planner.phases import Rates, rates_of
from cpsat_pim.planner.plan import Plan, RegionPlan, check_plan
from cpsat_pim.planner.space import Space
from cpsat_pim.planner.tensors import Graph

#: Regions of a segment, each with its layers.
Segments = Sequence[Sequence[RegionPlan]]


@define(kw_only=True, slots=False, eq=False)
class Problem:
    """A network on an array, and the space that plans are taken from.

    `solves`: node problems that one choice may solve; `time_limit`: seconds until no more are.
    """

    graph: Graph
    array: NodeArray
    space: Space
    objective: Objective
    costs: NodeCosts
    time_limit: float = 600.0
    solves: int = 8
    report: Callable[[str], None] = print
    effort: Effort = field(init=False)
    _alike: dict[Any, LayerCosts] = field(init=False, factory=dict)
    _partitions: dict[Any, list[Partition]] = field(init=False, factory=dict)

    def __attrs_post_init__(self) -> None:
        self.effort = Effort(solves=self.solves, until=time.monotonic() + self.time_limit)

    @cached_property
    def rates(self) -> Rates:
        """Rates of the array."""
        return rates_of(self.array)

    @cached_property
    def homes(self) -> dict[str, list[Home]]:
        """Homes of the space by the stack that names them."""
        whole = self.array.whole
        return {name: self.space.homes(self.graph.home_shape(name), whole) for name in self.graph.homes}

    # Layers

    def layer(self, name: str) -> LayerCosts:
        """Costs of a layer; alike layers share them."""
        task = self.graph.task(name)
        key = content_of(self.graph, task)
        if key not in self._alike:
            self._alike[key] = LayerCosts(
                graph=self.graph,
                task=task,
                rates=self.rates,
                costs=self.costs,
                objective=self.objective,
                is_tied=self.space.is_tied,
            )
        return self._alike[key]

    def partitions(self, name: str, region: Region) -> list[Partition]:
        """Partitions of a layer over a region.

        Raises:
            ValueError: there is none.
        """
        task = self.graph.task(name)
        key = (task.workload.bounds, region)
        if key not in self._partitions:
            self._partitions[key] = list(self.space.partitions(task, region))
        if not self._partitions[key]:
            raise ValueError(f"{name}: no partition over {region.h} x {region.w} nodes fits it")
        return self._partitions[key]

    def step_homes(self, name: str, homes: Homes) -> StepHomes:
        """The homes that a layer reads and writes."""
        task, home_of = self.graph.task(name), self.graph.home_of
        return StepHomes(
            reads=homes[home_of[task.reads.stack]],
            others=homes[home_of[task.others[0].stack]] if task.others else None,
            writes=homes[home_of[task.writes]],
        )

    def cheapest(self, name: str, region: Region, homes: Homes, replicas: int | None = None) -> Choice:
        """The best partition of a layer at given homes; `replicas` is the most that its weights may have."""
        partitions = self.partitions(name, region)
        if replicas is not None:
            partitions = [with_replicas(self.graph.task(name), partition, replicas) for partition in partitions]
        around = self.step_homes(name, homes)
        return self.layer(name).cheapest([(partition, around) for partition in partitions], self.effort)

    def exact(self, name: str, partition: Partition, homes: Homes) -> Choice:
        """A partition of a layer at given homes, its node program solved."""
        return self.layer(name).cheapest([(partition, self.step_homes(name, homes))], self.effort)

    # Plans

    def one_by_one(self) -> list[list[RegionPlan]]:
        """Every layer on the whole array."""
        return [[RegionPlan(region=self.array.whole, layers=(task.name,))] for task in self.graph.tasks]

    def plan(self, choices: dict[str, Choice], homes: Homes, segments: Segments | None = None) -> Plan:
        """The plan of choices and homes, each layer on the whole array unless segments are given."""
        plan = Plan(
            network=self.graph.name,
            batch=self.graph.batch,
            array=self.array,
            segments=tuple(tuple(regions) for regions in segments or self.one_by_one()),
            layers={name: choice.layer_plan for name, choice in choices.items()},
            homes={name: homes[self.graph.home_of[name]] for name in self.graph.stacks},
        )
        problems = check_plan(self.graph, plan)
        assert not problems, problems
        return plan

    def evaluate(self, plan: Plan) -> tuple[PlanCost, int]:
        """Cost of a plan and its objective."""
        cost = evaluate_plan(self.graph, plan)
        return cost, int(self.objective.value(cost.latency_cycles, cost.energy_fj))
