"""Fewer replicas of weights until a plan fits its nodes (NicePIM, section VIII-D)."""

import numpy as np
from attrs import evolve

from cpsat_pim.base.dims import Tensor
from cpsat_pim.planner.baselines.problem import Problem
from cpsat_pim.planner.evaluate import PlanCost
from cpsat_pim.planner.plan import Plan
from cpsat_pim.planner.step import Step


class NoRoom(ValueError):
    """Even with one replica of all weights a plan does not fit; the message names the least capacity that it needs."""


def fitted(problem: Problem, plan: Plan) -> tuple[Plan, PlanCost, int]:
    """The plan with as many replicas as fit, its cost and its objective.

    "The WR of each layer is initially set to the maximum value and if the DRAM capacity is not enough, we iteratively
    reduce the WR value from the layers with the largest number of weights until the DRAM capacity constraint is met."

    Raises:
        NoRoom: it does not fit with one replica of every weight.
    """
    order = sorted(
        (task for task in problem.graph.tasks if task.has_weights),
        key=lambda task: -task.workload.elements(Tensor.W),
    )
    cost, value = problem.evaluate(plan)
    for task in order:
        while cost.peak_bytes > problem.array.capacity_bytes and plan.layers[task.name].partition.replicas > 1:
            excess = cost.peak_bytes - problem.array.capacity_bytes
            plan = _reduced(problem, plan, task.name, excess)
            cost, value = problem.evaluate(plan)
    if cost.peak_bytes > problem.array.capacity_bytes:
        raise NoRoom(
            f"capacity: {problem.array.capacity_bytes} bytes a node are too few: with one replica of all weights this"
            f" plan needs {cost.peak_bytes}"
        )
    return plan, cost, value


def _reduced(problem: Problem, plan: Plan, name: str, excess_bytes: int) -> Plan:
    """The plan with fewer replicas of one layer: as few as free the excess on every node, one if none do."""
    layer = plan.layers[name]
    held = _weight_bytes(problem, plan, name, layer.partition.replicas)
    replicas = layer.partition.replicas
    counts = problem.graph.task(name).replica_counts(layer.partition.sharing)
    for replicas in (n for n in counts if n < layer.partition.replicas):
        if int((held - _weight_bytes(problem, plan, name, replicas)).min()) >= excess_bytes:
            break
    partition = evolve(layer.partition, weight_replicas=replicas)
    return evolve(plan, layers={**plan.layers, name: evolve(layer, partition=partition)})


def _weight_bytes(problem: Problem, plan: Plan, name: str, replicas: int) -> np.ndarray:
    """Bytes of a layer's weights on each node."""
    partition = evolve(plan.layers[name].partition, weight_replicas=replicas)
    step = Step(graph=problem.graph, task=problem.graph.task(name), partition=partition, rates=problem.rates)
    return step.weight_chunks()
