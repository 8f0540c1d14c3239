"""A plan that was written is read as itself; what is wrong with one is told in a line."""

import json

import pytest
from attrs import evolve

from cpsat_pim.arch import PIMArchitecture
from cpsat_pim.planner.array import NodeArray
from cpsat_pim.planner.evaluate import evaluate_plan
from cpsat_pim.planner.graph import build_graph
from cpsat_pim.planner.partition import Home, Partition
from cpsat_pim.planner.plan import LayerPlan, Plan, RegionPlan, check_plan
from cpsat_pim.planner.plan_file import read_plan
from cpsat_pim.workload import ConvWorkload
from cpsat_pim.workload.network import Network, NetworkNode

NODE = PIMArchitecture()
GRAPH = build_graph(
    Network(
        name="n",
        layers=[
            NetworkNode(name="a", after=["input"], workload=ConvWorkload(P=4, C=2, K=4)),
            NetworkNode(name="b", after=["a"], workload=ConvWorkload(P=4, C=4, K=2)),
        ],
    )
)
ARRAY = NodeArray(rows=1, cols=2, node=NODE)


def plan():
    """Two steps on both nodes."""
    split = Partition(region=ARRAY.whole, w=[("P", 2)], weight_replicas=1)
    layer = LayerPlan(partition=split, node_cycles=10, node_energy_fj=20)
    home = Home(region=ARRAY.whole, w=[("W", 2)], layout="BHWC")
    return Plan(
        network="n",
        array=ARRAY,
        segments=[(RegionPlan(region=ARRAY.whole, layers=[name]),) for name in "ab"],
        layers=dict.fromkeys("ab", layer),
        homes=dict.fromkeys(("input", "a", "b"), home),
    )


def test_written_plan_is_read_as_itself(tmp_path):
    """Through JSON text."""
    path = tmp_path / "plan.json"
    path.write_text(json.dumps(plan().to_dict()))
    assert read_plan(path, GRAPH, NODE) == plan()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda d: d.pop("homes"), "homes: is missing"),
        (lambda d: d["homes"].pop("a"), "homes: a is missing"),
        (lambda d: d["segments"].pop(), "segments: b is missing"),
        (lambda d: d["segments"].reverse(), "segments: b runs before a, which it reads"),
        (
            lambda d: d["layers"]["a"].update(w=[["P", 3]]),
            "layers.a: Partition.w: the factors must multiply to 2 (got 3)",
        ),
        (
            lambda d: d["layers"]["a"].update(weight_replicas=3),
            "layers.a: Partition.weight_replicas: must divide the 2 nodes that share (got 3)",
        ),
        (
            lambda d: d["segments"][0].append({"region": [0, 0, 1, 1], "layers": []}),
            "segments[0]: region [0, 0, 1, 1] must lie in the array, apart from the others",
        ),
        (lambda d: d["homes"]["a"].update(region=[0, 1, 1, 2]), "homes.a: region [0, 1, 1, 2] must lie in the array"),
        (lambda d: d["layers"].update(c=d["layers"]["a"]), "layers: c is not a layer of n"),
        (lambda d: d["homes"].update(c=d["homes"]["a"]), "homes: c is not a tensor of n"),
        (lambda d: d.update(network="other"), "network: must be a plan of n (got 'other')"),
        (lambda d: d["array"].update(rows=0), "array: NodeArray.rows: must be a positive integer (got 0)"),
    ],
)
def test_mistake_in_a_plan_is_one_line(tmp_path, change, message):
    """The file, the place and what was expected."""
    path, data = tmp_path / "plan.json", plan().to_dict()
    change(data)
    path.write_text(json.dumps(data))
    with pytest.raises(ValueError, match=r".") as caught:
        read_plan(path, GRAPH, NODE)
    assert str(caught.value) == f"{path}: {message}"


def test_figures_of_the_file_are_kept_without_a_mapping(tmp_path):
    """Nothing else says what the node program costs."""
    path = tmp_path / "plan.json"
    path.write_text(json.dumps(plan().to_dict()))
    assert read_plan(path, GRAPH, NODE).layers["a"].node_cycles == 10


def test_replicas_that_are_not_said_are_all():
    """As many as nodes that share."""
    assert evolve(plan().layers["a"].partition, weight_replicas=None).replicas == 2


def test_tours_of_a_plan_take_the_place_of_the_default_ones(tmp_path):
    """Four nodes in a row gather weights: the default tour 0 1 2 3 comes back over three links, 0 2 3 1 over one less.

    Hops of the four edges: 1 + 1 + 1 + 3 = 6 against 2 + 1 + 2 + 1 = 6, so flits x hops stay; the busiest link carries
    the same, but the longest edge, 3 or 2 hops, is passed three times: 3 cycles less.
    """
    array = NodeArray(rows=1, cols=4, node=NODE)
    split = Partition(region=array.whole, w=[("P", 4)], weight_replicas=1)
    home = Home(region=array.whole, w=[("W", 4)])
    base = evolve(
        plan(),
        array=array,
        segments=[(RegionPlan(region=array.whole, layers=[name]),) for name in "ab"],
        layers=dict.fromkeys("ab", LayerPlan(partition=split)),
        homes=dict.fromkeys(("input", "a", "b"), home),
    )
    toured = LayerPlan(partition=split, tours={"weights": ((0, 2, 3, 1),)})
    other = evolve(base, layers=base.layers | {"a": toured})
    path = tmp_path / "plan.json"
    path.write_text(json.dumps(other.to_dict()))
    assert read_plan(path, GRAPH, NODE) == other
    costs = [evaluate_plan(GRAPH, each).steps[0].phases[0] for each in (base, other)]
    assert costs[0].flit_hops == costs[1].flit_hops
    assert costs[0].network_cycles - costs[1].network_cycles == 3


def test_tour_of_no_set_is_refused():
    """It must be over the very nodes that share."""
    toured = evolve(plan().layers["a"], tours={"weights": ((0, 0),)})
    problems = check_plan(GRAPH, evolve(plan(), layers=plan().layers | {"a": toured}))
    assert problems == ["layers.a.tours.weights: must be tours of sets that share (got [0, 0])"]
