"""Prediction and simulation of plans: every exact figure, for every plan of the spaces of small networks.

The two share no code: `tables.array` counts in closed form, `tracesim.array` moves what the page says.
"""

import random

import numpy as np
import pytest
from attrs import evolve

from cpsat_pim.arch import PIMArchitecture
from cpsat_pim.planner.array import NodeArray, Region
from cpsat_pim.planner.evaluate import evaluate_plan
from cpsat_pim.planner.graph import build_graph
from cpsat_pim.planner.partition import Home, Partition
from cpsat_pim.planner.plan import LayerPlan, Plan, RegionPlan, check_plan
from cpsat_pim.planner.simulation import differences, simulate, simulated_document, to_records
from cpsat_pim.planner.space import Space, sides
from tests.cross.plan_networks import NETWORKS, layer, made_of
from tracesim.array import simulate_plan

SPACE = Space(dims=2, home_dims=2)
LAYOUTS = ("BCHW", "BHWC", "BCHW[C2]", "BCHW[C3]", "BHWC[C3]")


def draw(chance, graph, array):
    """A random plan: regions for layers and homes, replicas of weights."""

    def region():
        y, x = chance.randrange(array.rows), chance.randrange(array.cols)
        return Region(y, x, chance.randint(1, array.rows - y), chance.randint(1, array.cols - x))

    layers, segments = {}, []
    for task in graph.tasks:
        options = []
        while not options:
            where = array.whole if chance.random() < 0.5 else region()
            options = list(SPACE.partitions(task, where))
        split = chance.choice(options)
        replicas = chance.choice(task.replica_counts(split.sharing))
        split = Partition(region=where, h=split.h, w=split.w, weight_replicas=replicas)
        layers[task.name] = LayerPlan(partition=split, node_cycles=chance.randint(0, 99), node_energy_fj=7)
        segments.append((RegionPlan(region=where, layers=(task.name,)),))
    homes = {}
    for name in graph.homes:
        where = region()
        h, w = (chance.choice(list(sides(size, dict.fromkeys("NCHW", 8), 2))) for size in (where.h, where.w))
        homes[name] = Home(region=where, h=h, w=w, layout=chance.choice(LAYOUTS))
    placed = {name: homes[graph.home_of[name]] for name in graph.stacks}
    return Plan(network="n", array=array, segments=segments, layers=layers, homes=placed)


@pytest.mark.parametrize("interconnect", ["mesh", "host"])
@pytest.mark.parametrize("name", NETWORKS)
def test_prediction_is_what_is_simulated(name, interconnect):
    """Bytes, flits, hops, columns, activations, additions, energy, capacity and the estimate of time."""
    chance, graph = random.Random(name), build_graph(NETWORKS[name])
    for _ in range(20):
        rows, cols = chance.choice([(1, 2), (2, 2), (2, 3), (2, 4)])
        flit_bytes = chance.choice([1, 3, 16])
        array = NodeArray(
            rows=rows, cols=cols, node=PIMArchitecture(), flit_bytes=flit_bytes, interconnect=interconnect
        )
        plan = draw(chance, graph, array)
        assert check_plan(graph, plan) == []
        assert differences(graph, evaluate_plan(graph, plan), simulate(NETWORKS[name], graph, plan)) == [], plan


@pytest.mark.parametrize("name", ["windows", "reordered sums", "summed by readers", "phases"])
def test_prediction_of_a_batch_is_what_is_simulated(name):
    """Three samples at once; those of the batch are the outermost digit of what is reordered."""
    chance, graph = random.Random(name), build_graph(NETWORKS[name], 3)
    for _ in range(5):
        plan = draw(chance, graph, NodeArray(rows=2, cols=2, node=PIMArchitecture(), flit_bytes=3))
        assert differences(graph, evaluate_plan(graph, plan), simulate(NETWORKS[name], graph, plan)) == [], plan


def test_sums_of_branches_side_by_side():
    """Operands on regions of one segment are added at its end; what links and ports carry together bounds its time."""
    graph, network = build_graph(NETWORKS["residual"]), NETWORKS["residual"]
    array = NodeArray(rows=1, cols=2, node=PIMArchitecture(), flit_bytes=1)
    left, right = Region(0, 0, 1, 1), Region(0, 1, 1, 1)
    places = {"a": array.whole, "b": left, "side": right, "c": array.whole}
    splits = {
        name: Partition(region=where, w=[("P", where.w)] if where.w > 1 else []) for name, where in places.items()
    }
    segments = [
        (RegionPlan(region=array.whole, layers=["a"]),),
        (RegionPlan(region=left, layers=["b"]), RegionPlan(region=right, layers=["side"])),
        (RegionPlan(region=array.whole, layers=["c"]),),
    ]
    plan = Plan(
        network="n",
        array=array,
        segments=segments,
        layers={name: LayerPlan(partition=split, node_cycles=10) for name, split in splits.items()},
        homes=dict.fromkeys(graph.stacks, Home(region=array.whole, w=[("W", 2)])),
    )
    assert check_plan(graph, plan) == []
    predicted, simulated = evaluate_plan(graph, plan), simulate(network, graph, plan)
    assert list(predicted.joins) == [1]
    assert differences(graph, predicted, simulated) == []
    document = simulated_document(graph, array, simulated)
    assert keys(document) == {**keys(predicted.to_dict()), "estimated_latency_cycles": {}}
    assert document["joins"]["1"] == predicted.joins[1].to_dict()


def keys(document):
    """The keys of a document at every depth, in lists by position."""
    if isinstance(document, dict):
        return {key: keys(value) for key, value in document.items()}
    return [keys(one) for one in document] if isinstance(document, list) else {}


@pytest.mark.parametrize("interconnect", ["mesh", "host"])
def test_steps_in_which_the_same_happens_are_simulated_once(interconnect):
    """Four equal blocks with a sum, each planned in one of two ways: every figure is that of simulating every step."""
    chance = random.Random(interconnect)
    blocks = []
    for run in range(4):
        read = f"c{run - 1}" if run else "input"
        blocks += [
            layer(f"a{run}", [read], "P4 Q2 C4 K4"),
            layer(f"b{run}", [read], "P4 Q2 C4 K4 R3"),
            layer(f"c{run}", [f"a{run}", f"b{run}"], "P4 Q2 C4 K4", join="add"),
        ]
    network = made_of(*blocks)
    graph = build_graph(network)
    array = NodeArray(rows=2, cols=2, node=PIMArchitecture(), flit_bytes=2, interconnect=interconnect)
    for _ in range(10):
        ways, plan = [draw(chance, graph, array) for _ in range(2)], draw(chance, graph, array)
        layers, homes = dict(plan.layers), dict(plan.homes)
        for run in range(1, 4):
            way = chance.choice(ways)
            for name in "abc":
                layers[f"{name}{run}"] = way.layers[f"{name}1"]
            for name in "abc":
                homes[f"{name}{run}"] = way.homes[f"{'a' if name == 'b' else name}1"]
        regions = {name: one.partition.region for name, one in layers.items()}
        segments = tuple((RegionPlan(region=regions[task.name], layers=(task.name,)),) for task in graph.tasks)
        plan = evolve(plan, layers=layers, homes=homes, segments=segments)
        assert check_plan(graph, plan) == []
        given = to_records(network, graph, plan)
        once, each = (simulate_plan(given, alike_once=alike_once) for alike_once in (True, False))
        for name in once._fields:
            np.testing.assert_array_equal(getattr(once, name), getattr(each, name), name)
