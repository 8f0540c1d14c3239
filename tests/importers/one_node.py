"""Imported networks on one node, where their layers are all that is evaluated."""

import itertools
import math

import numpy as np

from cpsat_pim.planner.array import NodeArray
from cpsat_pim.planner.graph import build_graph
from cpsat_pim.planner.partition import Home, Partition
from cpsat_pim.planner.plan import LayerPlan, Plan, RegionPlan
from cpsat_pim.planner.repeats import written_out
from cpsat_pim.planner.simulation import to_records
from cpsat_pim.workload.joins import all_views
from tests.planner.made_up import NODE
from tests.tracesim.array.reference import evaluate

#: The models of `torch_orders` that are evaluated in PyTorch and as ONNX files.
IN_ORDERS = (
    "windowed",
    "shuffled",
    "grid",
    "partial",
    "aggregated",
    "hierarchical",
    "mixed",
    "fused",
    "nested",
    "phased",
    "crossed",
    "queried",
    "einstein",
    "linked",
    "tokens",
)


def on_nodes(network, side=1):
    """The records of a plan on so many nodes a side, which have an equal part of the rows and columns of all tensors
    and layers. On one node the layers are all that is evaluated.
    """
    graph, array = build_graph(network), NodeArray(rows=side, cols=side, node=NODE)
    split = [(("Q", side),), (("P", side),)] if side > 1 else [(), ()]
    where = [(("H", side),), (("W", side),)] if side > 1 else [(), ()]
    partition = Partition(region=array.whole, h=split[0], w=split[1])
    layers = {task.name: LayerPlan(partition=partition, node_cycles=1, node_energy_fj=1) for task in graph.tasks}
    segments = tuple((RegionPlan(region=array.whole, layers=(task.name,)),) for task in graph.tasks)
    homes = dict.fromkeys(graph.stacks, Home(region=array.whole, h=where[0], w=where[1]))
    return to_records(network, graph, Plan(network="n", array=array, segments=segments, layers=layers, homes=homes))


def check_orders(network, weights_of, module, inputs):
    """The network, evaluated on integers, computes what a module of PyTorch does, in whatever order the last output
    lies; it states orders or sums. `weights_of`: int64[1, G, K, C, S, R] by layer of the network written out.
    """
    network = written_out(network)
    tensors = evaluate(on_nodes(network), inputs[0].numpy().astype(np.int64), weights_of(network))
    expected = module(*inputs).detach().numpy()
    made = tensors[len(network.layers)]
    if made.shape != expected.shape:
        made = np.moveaxis(made, 1, 3)
    np.testing.assert_array_equal(made.reshape(expected.shape), expected)
    assert any(layer.adds or layer.input_adds for layer in network.layers) or any(
        view.reorder for layer in network.layers for view in all_views(layer.views)
    )


def of_phases(kernel, name, layer, stride, padding):
    """int64[1, G, K, C, S, R] of a layer that makes phases of a transposed convolution, of its whole kernel [inputs,
    outputs a group, rows, columns]. Output position `first` of an axis, and each that is a stride behind, multiplies
    taps t with elements (first + padding - t) / stride and those behind: the last tap with the first element.

    A layer, `name.phase` and its number, has the same number of neighbouring phases along rows and columns.
    """
    inputs, outputs, *sizes = kernel.shape
    side = math.isqrt(layer.K // outputs)
    number = int(name.partition(".phase")[2] or 0)
    firsts = (range(at * side, (at + 1) * side) for at in divmod(number, stride // side))
    phases = []
    for phase in itertools.product(*firsts):
        rows, columns = (
            [tap for tap in reversed(range(size)) if (first + padding - tap) % stride == 0]
            for first, size in zip(phase, sizes, strict=True)
        )
        own = kernel[:, :, rows][..., columns]
        phases.append(own.reshape(layer.G, inputs // layer.G, outputs, layer.S, layer.R).swapaxes(1, 2))
    return np.concatenate(phases, axis=1)[None]
