"""One machine at the fidelity of a task: cost, its bound, and what each network takes (docs/tuner.md)."""

import math
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from attrs import frozen

from cpsat_pim.mapper.result import Objective
from cpsat_pim.planner.array import NodeArray
from cpsat_pim.planner.nodes import NodeCosts
from cpsat_pim.planner.search import solve_plan
from cpsat_pim.planner.solved import SearchLimits, SolvedPlan
from cpsat_pim.planner.tensors import Graph
from cpsat_pim.study.sweep.versions import current_versions
from cpsat_pim.tuner.objective import Figure
from cpsat_pim.tuner.splits import splits
from cpsat_pim.tuner.task import ANALYTIC, BOUNDS, TuneTask
from tables.bounds.shapes import cache_directory

_LATENCY = "latency"
_FJ_PER_PJ = 1000


class Unplanned(ValueError):
    """A network has no plan on a machine; the message says which, and why."""


@frozen(kw_only=True)
class Evaluation:
    """A machine's cost, and a bound: no plans of its networks cost less. Figures and bounds are by network."""

    cost: float
    bound: float
    area_mm2: float
    figures: tuple[Figure, ...]
    bounds: tuple[Figure, ...]

    def to_dict(self, networks: tuple[str, ...]) -> dict[str, Any]:
        """Convert to plain data."""
        rows = zip(networks, self.figures, self.bounds, strict=True)
        return {
            "cost": self.cost,
            "bound": self.bound,
            "area_mm2": self.area_mm2,
            "networks": [
                {
                    "network": name,
                    "latency_cycles": figure.cycles,
                    "energy_pj": figure.pj,
                    "latency_bound_cycles": bound.cycles,
                    "energy_bound_pj": bound.pj,
                }
                for name, figure, bound in rows
            ],
        }


class Evaluator:
    """Evaluates machines of a task."""

    def __init__(self, task: TuneTask) -> None:
        self.task, self.floors = task, task.floors()
        self.cost = task.cost(self.floors)

    def evaluate(self, values: Mapping[str, float]) -> Evaluation:
        """Evaluate a machine.

        Raises:
            Unplanned: a network has no plan on it, or none was found in time.
        """
        floors = self.floors.of_values(values)
        figures, bounds = floors, floors
        if self.task.fidelity.name != ANALYTIC:
            solved = self._all_planned(self.task.space.array(values))
            figures = tuple(map(_figure, solved))
            bounds = tuple(
                Figure(cycles=max(floor.cycles, plan.bound), pj=floor.pj)
                for floor, plan in zip(floors, solved, strict=True)
            )
        return Evaluation(
            cost=self.cost.value(figures),
            bound=self.cost.value(bounds),
            area_mm2=self.task.space.area_mm2(values),
            figures=figures,
            bounds=bounds,
        )

    def _all_planned(self, array: NodeArray) -> list[SolvedPlan]:
        """Plan all networks; node problems that they have in common are solved once."""
        fidelity, objective = self.task.fidelity, Objective.named(_LATENCY)
        costs = _node_costs(fidelity.name, array, objective, fidelity.node_time)
        try:
            return [self._planned(graph, array, costs) for graph in self.task.graphs]
        finally:
            costs.close()

    def _planned(self, graph: Graph, array: NodeArray, costs: NodeCosts) -> SolvedPlan:
        fidelity = self.task.fidelity
        limits = SearchLimits(time_limit=fidelity.time_limit)
        try:
            solved = solve_plan(graph, array, fidelity.plans, costs.objective, costs, limits)
        except ValueError as error:
            raise Unplanned(f"{graph.name}: {next(iter(str(error).splitlines()), 'no plan')}") from error
        if solved.interrupted:  # Ctrl-C ends the search of a plan with what it has, which is no trial
            raise KeyboardInterrupt
        if solved.cost is None:
            reason = solved.reason or f"no plan was found in {fidelity.time_limit:g} s"
            raise Unplanned(f"{graph.name}: {reason}")
        _check_filled(graph, solved, array.nodes)
        return solved


def _check_filled(graph: Graph, solved: SolvedPlan, nodes: int) -> None:
    """Check that each layer uses as many nodes as its floors suppose: all of them, if any split does.

    Raises:
        Unplanned: the space of plans lacks these splits.
    """
    assert solved.plan is not None
    for task in graph.tasks:
        used = solved.plan.layers[task.name].partition.region.size
        if used < nodes and math.prod(next(splits(task, nodes))) == nodes:
            raise Unplanned(
                f"{graph.name}: {task.name} fills {used} of {nodes} nodes, which no floor bounds: plans need more dims"
            )


def _node_costs(name: str, array: NodeArray, objective: Objective, node_time: float) -> NodeCosts:
    """Return what node programs cost: their lower bounds, or what the mapper finds and `plan` keeps for all runs."""
    if name == BOUNDS:
        from cpsat_pim.planner.baselines.bound_costs import BoundCosts

        return BoundCosts(array.node, objective, time_limit=node_time)
    return NodeCosts(array.node, objective, _node_store(), str(current_versions()), node_time)


def _node_store() -> Path | None:
    """Return the file in which `plan` keeps node problems, or None if it cannot be written."""
    path = cache_directory() / "nodes.sqlite"
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
    return path if os.access(path.parent, os.W_OK) else None


def _figure(solved: SolvedPlan) -> Figure:
    assert solved.cost is not None
    return Figure(cycles=solved.cost.latency_cycles, pj=solved.cost.energy_fj / _FJ_PER_PJ)
