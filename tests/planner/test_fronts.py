"""Latency times energy and fronts against enumeration of all plans of small spaces, with made-up node costs."""

import pytest

from cpsat_pim.mapper.result import Objective, Status
from cpsat_pim.planner.array import NodeArray
from cpsat_pim.planner.evaluate import evaluate_plan
from cpsat_pim.planner.fronts import PlanRequest, solve_front, solve_product, solve_weighted
from cpsat_pim.planner.graph import build_graph
from cpsat_pim.planner.solved import SearchLimits
from cpsat_pim.planner.space import Space
from cpsat_pim.workload.network import Network
from tests.planner.made_up import NETWORKS, NODE, MadeUpCosts, all_plans, without_mapping

SPACE = Space(dims=1, layouts=("BCHW",), is_tied=False)


@pytest.fixture
def made_up(monkeypatch):
    """Make requests of small networks on two nodes, and all their points (latency, energy)."""
    monkeypatch.setattr("cpsat_pim.planner.instance.LayerPlan", without_mapping)

    def make(name):
        graph = build_graph(Network(name="n", layers=NETWORKS[name]))
        array = NodeArray(rows=1, cols=2, node=NODE, flit_bytes=2)
        limits = SearchLimits(batch=2)
        request = PlanRequest(graph=graph, array=array, space=SPACE, make_costs=MadeUpCosts, limits=limits)
        plans = all_plans(graph, array, SPACE, MadeUpCosts(Objective.named("latency")))
        costs = (evaluate_plan(graph, plan) for plan in plans)
        return request, {(cost.latency_cycles, cost.energy_fj) for cost in costs}

    return make


@pytest.mark.parametrize("name", ["chain", "residual"])
def test_product_is_that_of_enumeration(made_up, name):
    """No plan has a smaller product, and that is proven."""
    request, points = made_up(name)
    solved = solve_product(request)
    assert solved.status is Status.OPTIMAL
    assert solved.value == solved.bound == min(latency * energy for latency, energy in points)
    assert solved.value == solved.cost.latency_cycles * solved.cost.energy_fj


@pytest.mark.parametrize("weights", [(1, 1), (0.001, 5), (2, 0.25)])
def test_weighted_sum_is_that_of_enumeration(made_up, weights):
    """Energy counts on both nodes, cycles once."""
    request, points = made_up("chain")
    objective = Objective.named("blended", *weights)
    solved = solve_weighted(request, objective)
    assert solved.status is Status.OPTIMAL
    assert solved.value == solved.bound == min(objective.value(*point) for point in points)


def test_front_ends_at_least_latency_and_energy(made_up):
    """No plan is better in both than one of the front, whose ends are the best ones."""
    request, points = made_up("chain")
    front = [(one.cost.latency_cycles, one.cost.energy_fj) for one in solve_front(request, 5)]
    assert front[0] == min(points)
    assert front[-1][1] == min(energy for _, energy in points)
    for latency, energy in front:
        assert not any(a <= latency and b <= energy and (a, b) != (latency, energy) for a, b in points)
    assert front == sorted(front)
