"""ONNX files that count elements along other axes, evaluated on integers, against what PyTorch computes.

The files are those that PyTorch exports of the modules of `torch_orders`, whose rolls are slices that are joined again.
"""

from functools import partial
from pathlib import Path

import numpy as np
import onnx
import pytest

from cpsat_pim.importers import import_network
from cpsat_pim.planner.graph import build_graph
from cpsat_pim.workload.joins import View
from cpsat_pim.workload.reorders import Reorder
from tests.importers.one_node import IN_ORDERS, check_orders, of_phases
from tests.importers.onnx_models import imported, node, value, weight


def weights_of(file, network):
    """int64[1, G, K, C, S, R] by layer: the constant that the operator of its name reads; of a product transposed."""
    graph = onnx.load(file).graph
    constants = {one.name: onnx.numpy_helper.to_array(one) for one in graph.initializer}
    found = {}
    for number, layer in enumerate(network.layers):
        if layer.weights:
            (operator,) = (one for one in graph.node if one.name == layer.name.partition(".phase")[0])
            values = next(constants[name] for name in operator.input if name in constants)
            values = values.T if operator.op_type == "MatMul" and operator.input[0] not in constants else values
            shape = layer.workload
            if operator.op_type == "ConvTranspose":
                given = {one.name: onnx.helper.get_attribute_value(one) for one in operator.attribute}
                kernel = values.astype(np.int64)
                found[number] = of_phases(kernel, layer.name, shape, given["strides"][0], given["pads"][0])
                continue
            sizes = (1, shape.G, shape.K, shape.C, shape.S, shape.R)
            found[number] = values.astype(np.int64).reshape(sizes)
    return found


@pytest.mark.parametrize("name", IN_ORDERS)
@pytest.mark.filterwarnings("ignore")
def test_exported_orders_compute_what_the_model_does(tmp_path, monkeypatch, name):
    """Windows that are rolled, merged patches, shuffled pixels, sums of halves, sums side by side or that readers make,
    sums of what lies in two orders, transposed convolutions and sums of these, attention between channels, of constant
    queries or in Einstein sums: the last output, in whatever order it lies.
    """
    torch = pytest.importorskip("torch", reason="needs the extra: pip install 'cpsat-pim[torch]'")
    monkeypatch.syspath_prepend(Path(__file__).parent)
    module, inputs = getattr(__import__("torch_orders"), name)()
    file = str(tmp_path / "model.onnx")
    torch.onnx.export(module, inputs, file, dynamo=False)
    check_orders(import_network(file, {}).network, partial(weights_of, file), module, inputs)


@pytest.mark.parametrize(
    ("kind", "given", "axes"),
    [
        # Depth to space: channel (row, column, c) of 2 x 2 x 2 in DCR, (c, row, column) in CRD.
        (
            "DepthToSpace",
            {"mode": "DCR"},
            {"C": [["C", 2, 1]], "H": [["H", 3, 1], ["C", 2, 4]], "W": [["W", 4, 1], ["C", 2, 2]]},
        ),
        (
            "DepthToSpace",
            {"mode": "CRD"},
            {"C": [["C", 2, 4]], "H": [["H", 3, 1], ["C", 2, 2]], "W": [["W", 4, 1], ["C", 2, 1]]},
        ),
    ],
)
def test_channels_that_become_pixels_are_a_view(save, kind, given, axes):
    """The two orders that ONNX defines, of 8 channels of 3 x 4."""
    file = save(
        [
            node("Conv", "x w1", "first"),
            node(kind, "first", "moved", blocksize=2, **given),
            node("Conv", "moved w2", "last", pads=[1, 1, 1, 1]),
        ],
        [value("x", 1, 2, 3, 4)],
        [weight("w1", 8, 2, 1, 1), weight("w2", 5, 2, 3, 3)],
    )
    network = imported(file)
    assert network.layers[1].views == {"first": View(reorder=Reorder(**axes))}
    build_graph(network)


def test_pixels_that_become_channels_are_a_view(save):
    """Space to depth of 2 channels of 6 x 8: channel (row, column, c) of 2 x 2 x 2."""
    file = save(
        [
            node("Conv", "x w1", "first"),
            node("SpaceToDepth", "first", "moved", blocksize=2),
            node("Conv", "moved w2", "last"),
        ],
        [value("x", 1, 3, 6, 8)],
        [weight("w1", 2, 3, 1, 1), weight("w2", 5, 8, 1, 1)],
    )
    network = imported(file)
    axes = {"C": [["H", 2, 1], ["W", 2, 1], ["C", 2, 1]], "H": [["H", 3, 2]], "W": [["W", 4, 2]]}
    assert network.layers[1].views == {"first": View(reorder=Reorder(**axes))}
    build_graph(network)
