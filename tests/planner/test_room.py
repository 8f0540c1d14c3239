"""Options that no plan has room for, against all plans of small spaces."""

import pytest
from attrs import evolve

from cpsat_pim.mapper.result import Objective
from cpsat_pim.planner.array import NodeArray
from cpsat_pim.planner.eliminate import INFINITE
from cpsat_pim.planner.evaluate import evaluate_plan
from cpsat_pim.planner.graph import build_graph
from cpsat_pim.planner.instance import Instance
from cpsat_pim.planner.room import limit_steps
from cpsat_pim.planner.space import Space
from cpsat_pim.workload.network import Network
from tests.planner.made_up import NETWORKS, NODE, MadeUpCosts, all_plans

LATENCY = Objective.named("latency")


def smallest(graph, plan):
    """A plan with each weight stored once: no number of replicas takes fewer bytes."""
    tasks = {task.name: task for task in graph.tasks}
    layers = {
        name: evolve(one, partition=evolve(one.partition, weight_replicas=1)) if tasks[name].has_weights else one
        for name, one in plan.layers.items()
    }
    return evolve(plan, layers=layers)


@pytest.mark.parametrize(
    "name",
    ["chain", "pooled", "residual", "product", "beside", "pyramid", "summed by readers", "many", "again", "shared"],
)
def test_options_that_are_left_out_are_in_no_plan_that_fits(name):
    """At each capacity that some plan just takes, all partitions of plans that fit are kept; without any room, none."""
    graph = build_graph(Network(name="n", layers=NETWORKS[name]))
    array = NodeArray(rows=1, cols=2, node=NODE, flit_bytes=2)
    space, costs = Space(dims=1, layouts=("BCHW",), is_tied=False), MadeUpCosts(LATENCY)
    plans = [smallest(graph, plan) for plan in all_plans(graph, array, space, costs)]
    fitting = [(evaluate_plan(graph, plan).peak_bytes, plan) for plan in plans]
    for capacity in {0, *(peak for peak, _ in fitting)}:
        instance = Instance(graph, array, space, LATENCY, costs)
        limit_steps(instance, capacity)
        for layer, options in instance.options.items():
            options.look_at(0)  # bounds without looking at any
            kept = {splits(row.partition) for row in options.rows if row.floor < INFINITE}
            used = {splits(plan.layers[layer].partition) for peak, plan in fitting if peak <= capacity}
            assert used <= kept
            assert capacity or not kept


def splits(partition):
    """A partition whatever its replicas."""
    return partition.h, partition.w
