"""The staged problem of a network against the evaluation of its plans, which shares no table with it."""

from itertools import product

import numpy as np
import pytest

from cpsat_pim.mapper.result import Objective
from cpsat_pim.planner.array import NodeArray
from cpsat_pim.planner.eliminate import Factor
from cpsat_pim.planner.evaluate import evaluate_plan
from cpsat_pim.planner.graph import build_graph
from cpsat_pim.planner.instance import Instance
from cpsat_pim.planner.labels.reduced import ReducedProblem, min_marginals
from cpsat_pim.planner.labels.setting import set_labels
from cpsat_pim.planner.labels.usage import Spot, Usage
from cpsat_pim.planner.space import Space
from cpsat_pim.planner.weighing import Price
from cpsat_pim.workload.network import Network
from tests.planner.made_up import NETWORKS, NODE, MadeUpCosts, layer, without_mapping

LATENCY = Objective.named("latency")


@pytest.mark.parametrize("name", ["chain", "residual", "concat", "product", "beside", "pyramid"])
@pytest.mark.parametrize("tight", [0.5, 0.8, 1.0])
def test_bytes_and_cost_of_a_path_are_those_of_its_plan(monkeypatch, name, tight):
    """With every node at every step as a resource, the cheapest path uses what the plan holds, to the byte."""
    monkeypatch.setattr("cpsat_pim.planner.instance.LayerPlan", without_mapping)
    graph, array = (
        build_graph(Network(name="n", layers=NETWORKS[name])),
        NodeArray(rows=1, cols=2, node=NODE, flit_bytes=2),
    )
    costs = MadeUpCosts(LATENCY)
    instance = Instance(graph, array, Space(dims=1, layouts=("BCHW",), is_tied=False), LATENCY, costs)
    for options in instance.distinct:
        options.look_at(len(options.rows))
        costs.solve_all([problem for row in options.rows for problem in row.program])
    reduced = ReducedProblem(instance, Price(scale=4, per_byte=1), 10**6)
    spots = [Spot(node=node, step=step) for node in range(2) for step in range(len(graph.tasks))]
    problem = reduced.staged(spots, Usage(instance=instance))
    found = set_labels(problem, [], 10**6)
    loose = np.array(found.path.usage)
    problem.capacity[:] = np.maximum(1, loose * tight)
    tighter = set_labels(problem, [], 10**6)
    for path in filter(None, (found.path, tighter.path)):
        cost = evaluate_plan(graph, reduced.plan(path))
        assert cost.latency_cycles == path.cost
        assert {spot: int(cost.used_bytes[spot.step, spot.node]) for spot in spots} == dict(
            zip(spots, path.usage, strict=True)
        )


def test_min_marginal_is_the_least_sum_with_an_entry():
    """Enumeration of three tables over three homes gives the same for each entry."""
    rng, sizes = np.random.default_rng(7), {"a": 2, "b": 3, "c": 2}
    scopes = (("a", "b"), ("b", "c"), ("a", "c"))
    factors = [
        Factor(variables=names, cost=(cost := rng.integers(0, 50, [sizes[n] for n in names])), tie=np.zeros_like(cost))
        for names in scopes
    ]
    every = [dict(zip(sizes, values, strict=True)) for values in product(*map(range, sizes.values()))]
    sums = [sum(int(one.cost[tuple(homes[n] for n in one.variables)]) for one in factors) for homes in every]
    for factor, marginal in zip(factors, min_marginals(factors, sizes), strict=True):
        for entry in np.ndindex(factor.cost.shape):
            at = dict(zip(factor.variables, entry, strict=True))
            assert marginal[entry] == min(s for s, h in zip(sums, every, strict=True) if at.items() <= h.items())


def test_weights_are_those_of_a_row_wherever_it_is_sorted():
    """Looking at the last row first moves all others back by one; what was counted before moves with them.

    Of 3 x 4 weights, a node holds 6 where P or C is split by 2, but 2 x 4 where K is.
    """
    graph = build_graph(Network(name="n", layers=[layer("a", ["input"], P=4, C=4, K=3)]))
    array = NodeArray(rows=1, cols=2, node=NODE, flit_bytes=2)
    instance = Instance(graph, array, Space(dims=1, layouts=("BCHW",), is_tied=False), LATENCY, MadeUpCosts(LATENCY))
    options, known = instance.distinct[0], Usage(instance=instance)
    before = [known.weights(options, row, 1, 0) for row in range(len(options.rows))]
    options.look_at(1, first={len(options.rows) - 1})
    after = [known.weights(options, row, 1, 0) for row in range(len(options.rows))]
    fresh = Usage(instance=instance)
    assert after == [fresh.weights(options, row, 1, 0) for row in range(len(options.rows))]
    assert (sorted(after), after != before) == ([6, 6, 8], True)
