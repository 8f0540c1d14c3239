"""Imported networks on one node, where their layers are all that is evaluated."""

import numpy as np

from cpsat_pim.planner.array import NodeArray
from cpsat_pim.planner.graph import build_graph
from cpsat_pim.planner.partition import Home, Partition
from cpsat_pim.planner.plan import LayerPlan, Plan, RegionPlan
from cpsat_pim.planner.repeats import written_out
from cpsat_pim.planner.simulation import to_records
from tests.planner.made_up import NODE
from tests.tracesim.array.reference import evaluate


def on_one_node(network):
    """The records of a plan on one node: the layers are all that is evaluated."""
    graph, array = build_graph(network), NodeArray(rows=1, cols=1, node=NODE)
    layers = {
        task.name: LayerPlan(partition=Partition(region=array.whole), node_cycles=1, node_energy_fj=1)
        for task in graph.tasks
    }
    segments = tuple((RegionPlan(region=array.whole, layers=(task.name,)),) for task in graph.tasks)
    homes = dict.fromkeys(graph.stacks, Home(region=array.whole))
    return to_records(network, graph, Plan(network="n", array=array, segments=segments, layers=layers, homes=homes))


def check_orders(network, weights_of, module, inputs):
    """The network, evaluated on integers, computes what a module of PyTorch does, in whatever order the last output
    lies; it states orders or sums. `weights_of`: int64[1, G, K, C, S, R] by layer of the network written out.
    """
    network = written_out(network)
    tensors = evaluate(on_one_node(network), inputs[0].numpy().astype(np.int64), weights_of(network))
    expected = module(*inputs).detach().numpy()
    made = tensors[len(network.layers)]
    if made.shape != expected.shape:
        made = np.moveaxis(made, 1, 3)
    np.testing.assert_array_equal(made.reshape(expected.shape), expected)
    assert any(layer.adds or layer.input_adds for layer in network.layers) or any(
        view.reorder for layer in network.layers for view in (layer.views or {}).values()
    )
