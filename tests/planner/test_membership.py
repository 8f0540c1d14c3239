"""Plans to start from that are not in the declared space, which is enumerated."""

import pytest
from attrs import evolve

from cpsat_pim.mapper.result import Objective, Status
from cpsat_pim.planner.array import NodeArray, Region
from cpsat_pim.planner.evaluate import evaluate_plan
from cpsat_pim.planner.graph import build_graph
from cpsat_pim.planner.instance import Instance
from cpsat_pim.planner.membership import reasons_outside
from cpsat_pim.planner.search import solve_plan
from cpsat_pim.planner.space import Space
from cpsat_pim.workload.network import Network
from tests.planner.made_up import NETWORKS, NODE, MadeUpCosts, all_plans, without_mapping
from tests.planner.test_search import FORKED, side_by_side

LATENCY = Objective.named("latency")
COSTS = MadeUpCosts(LATENCY)


def graph_of(layers):
    """The graph of layers."""
    return build_graph(Network(name="n", layers=layers))


def array_of(cols):
    """A row of nodes whose messages are large enough for the network to matter."""
    return NodeArray(rows=1, cols=cols, node=NODE, flit_bytes=2)


def content(plan):
    """What of a plan decides whether it is in a space."""
    return repr([plan.segments, plan.homes, {name: layer.partition for name, layer in plan.layers.items()}])


@pytest.mark.parametrize("name", ["chain", "residual", "concat", "beside", "pyramid", "many"])
@pytest.mark.parametrize(
    ("cols", "large", "small"),
    [
        (2, {"layouts": ("BCHW", "BHWC")}, {"layouts": ("BHWC",)}),
        (4, {"dims": 2}, {"dims": 1}),
        (2, {"home_columns": True}, {"home_columns": False}),
    ],
)
def test_plans_are_in_the_spaces_that_enumerate_them(name, cols, large, small):
    """Of all plans of a space exactly those are in a smaller one that it enumerates, too."""
    graph, array = graph_of(NETWORKS[name]), array_of(cols)
    given = {"dims": 1, "layouts": ("BCHW",), "is_tied": False}
    larger, smaller = (Instance(graph, array, Space(**given | one), LATENCY, COSTS) for one in (large, small))
    inside = {content(plan) for plan in all_plans(graph, array, smaller.space, COSTS)}
    plans = list(all_plans(graph, array, larger.space, COSTS))
    assert len(inside) < len(plans)
    for plan in plans:
        assert not list(reasons_outside(larger, plan))
        assert (content(plan) in inside) == (not list(reasons_outside(smaller, plan)))


HALVES = [(Region(0, 0, 1, 2), ("b1", "b2")), (Region(0, 2, 1, 2), ("side",))]


@pytest.mark.parametrize(("cuts", "is_inside"), [(1, True), (2, True), (3, False), (0, False)])
def test_branches_side_by_side_are_in_spaces_that_are_cut_there(cuts, is_inside):
    """The halves of four nodes begin at multiples of 1 and 2, not of 3; without cuts there are none."""
    graph, array = graph_of(FORKED), array_of(4)
    space = Space(dims=2, layouts=("BCHW",), is_tied=False, cuts=cuts)
    instance = Instance(graph, array, space, LATENCY, COSTS)
    plan = next(side_by_side(graph, array, space, COSTS, HALVES))
    assert (not list(reasons_outside(instance, plan))) == is_inside


def test_order_tours_and_messages_other_than_the_searched_ones_are_outside():
    """A plan of the space, changed in what the search does not vary."""
    graph, array = graph_of(NETWORKS["concat"]), array_of(2)
    instance = Instance(graph, array, Space(dims=1, layouts=("BCHW",), is_tied=False), LATENCY, COSTS)
    plan = next(all_plans(graph, array, instance.space, COSTS))
    first, second, third = plan.segments
    tours = {"reduce": (((0, 0), (0, 1)),)}
    changed = [
        evolve(plan, send_order="listed"),
        evolve(plan, segments=(second, first, third)),
        evolve(plan, layers=plan.layers | {"a": evolve(plan.layers["a"], tours=tours)}),
    ]
    assert not list(reasons_outside(instance, plan))
    assert [len(list(reasons_outside(instance, one))) for one in changed] == [1, 1, 1]


@pytest.mark.parametrize("is_inside", [True, False])
def test_only_plans_of_the_space_are_proven_the_best(monkeypatch, is_inside):
    """The best plan in both layouts costs less than the best in one, so the smaller space proves nothing of it."""
    monkeypatch.setattr("cpsat_pim.planner.instance.LayerPlan", without_mapping)
    graph, array = graph_of(NETWORKS["residual"]), array_of(2)
    small, large = (Space(dims=1, layouts=some, is_tied=True) for some in (("BCHW",), ("BCHW", "BHWC")))
    given, best = (solve_plan(graph, array, space, LATENCY, MadeUpCosts(LATENCY)) for space in (large, small))
    assert given.value < best.value
    space = large if is_inside else small
    solved = solve_plan(graph, array, space, LATENCY, MadeUpCosts(LATENCY), incumbents=[given.plan])
    assert solved.value == given.value == evaluate_plan(graph, solved.plan).latency_cycles
    assert solved.status is (Status.OPTIMAL if is_inside else Status.FEASIBLE)
    assert (solved.outside == "") == is_inside
    assert solved.gap == (0 if is_inside else None)
    assert solved.value <= solved.bound <= (given.value if is_inside else best.value)
