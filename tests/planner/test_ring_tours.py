"""Tours from the rings of masks: they are of the same sets, load links less, and are what is simulated."""

import pytest

from cpsat_pim.arch import PIMArchitecture
from cpsat_pim.planner.array import NodeArray, Region
from cpsat_pim.planner.evaluate import evaluate_plan
from cpsat_pim.planner.graph import build_graph
from cpsat_pim.planner.partition import Home, Partition
from cpsat_pim.planner.plan import LayerPlan, Plan, RegionPlan, check_plan
from cpsat_pim.planner.ring_tours import better_tours
from cpsat_pim.planner.simulation import differences, simulate
from cpsat_pim.planner.tours import PULL, SHARES_INPUT, tours_of
from cpsat_pim.workload import ConvWorkload
from cpsat_pim.workload.network import Network, NetworkNode

ARRAY = NodeArray(rows=4, cols=4, node=PIMArchitecture(), flit_bytes=4)
WHOLE = ARRAY.whole


def partition(h, w, region=WHOLE):
    """A partition of a region of the array."""
    return Partition(region=region, h=h, w=w)


@pytest.mark.parametrize(
    ("h", "w"),
    [
        ([("K", 2), ("P", 2)], [("P", 2), ("K", 2)]),  # free digits 10 of rows and 01 of columns
        ([("P", 2), ("K", 2)], [("K", 2), ("P", 2)]),  # free digits 01 and 10
    ],
)
def test_sets_stay_and_the_busiest_link_carries_less(h, w):
    """A tour visits the members of its set, and the plan's pull takes fewer flits over its busiest link."""
    split = partition(h, w)
    tours = better_tours(ARRAY, split, second=())
    default = tours_of(ARRAY, split, SHARES_INPUT)
    assert {frozenset(tour) for tour in tours[PULL]} == {frozenset(tour) for tour in default.tolist()}
    assert _pull_flits(split, tours) < _pull_flits(split, {})


def test_exchanges_without_better_tours_keep_the_default():
    """A free last digit pairs neighbours, and factors that are no power of two have no mask; a host has no tours."""
    assert better_tours(ARRAY, partition([("P", 4)], [("P", 2), ("K", 2)]), second=()) == {}
    three = NodeArray(rows=1, cols=3, node=PIMArchitecture())
    assert better_tours(three, partition([], [("K", 3)], three.whole), second=()) == {}
    host = NodeArray(rows=4, cols=4, node=PIMArchitecture(), interconnect="host")
    assert better_tours(host, partition([("K", 2), ("P", 2)], [("P", 4)]), second=()) == {}


def test_plan_with_better_tours_is_what_is_simulated():
    """On a region away from the corner, with C split, too: pull and reduce have tours of their own."""
    array = NodeArray(rows=5, cols=5, node=PIMArchitecture(), flit_bytes=4)
    region = Region(1, 1, 4, 4)
    split = partition([("K", 2), ("C", 2)], [("C", 2), ("K", 2)], region)
    tours = better_tours(array, split, second=())
    assert set(tours) == {"pull", "reduce"}
    graph, plan = _plan(array, split, tours)
    assert check_plan(graph, plan) == []
    assert differences(graph, evaluate_plan(graph, plan), simulate(_network(), graph, plan)) == []


def _pull_flits(split, tours):
    graph, plan = _plan(ARRAY, split, tours)
    return evaluate_plan(graph, plan).steps[0].phases[1].max_link_flits


def _network():
    layer = ConvWorkload(name="a", P=8, C=4, K=8, psum_bytes=4)
    return Network(name="n", layers=[NetworkNode(name="a", after=["input"], workload=layer)])


def _plan(array, split, tours):
    graph = build_graph(_network())
    home = Home(region=split.region, h=[("C", 4)], w=[("W", 4)])
    plan = Plan(
        network="n",
        array=array,
        segments=[(RegionPlan(region=split.region, layers=["a"]),)],
        layers={"a": LayerPlan(partition=split, tours=tours)},
        homes=dict.fromkeys(graph.stacks, home),
    )
    return graph, plan
