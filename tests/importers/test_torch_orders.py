"""Imported networks that count elements along other axes, evaluated on integers, against what PyTorch computes."""

from functools import partial
from pathlib import Path

import numpy as np
import pytest

from cpsat_pim.importers import import_network
from cpsat_pim.planner.graph import build_graph
from cpsat_pim.planner.repeats import written_out
from cpsat_pim.workload.joins import View
from cpsat_pim.workload.reorders import Reorder
from tests.importers.one_node import IN_ORDERS, check_orders, of_phases, on_nodes
from tracesim.array.execute import execute_plan

torch = pytest.importorskip("torch", reason="needs the extra: pip install 'cpsat-pim[torch]'")

MODELS = "torch_orders"


@pytest.fixture(autouse=True)
def in_this_directory(monkeypatch: pytest.MonkeyPatch) -> None:
    """The models are looked for in the working directory."""
    monkeypatch.chdir(Path(__file__).parent)
    monkeypatch.syspath_prepend(Path(__file__).parent)


def weights_of(module, network):
    """int64[1, G, K, C, S, R] by layer: a parameter of its name, if it has one."""
    found, modules, constants = {}, dict(module.named_modules()), dict(module.named_parameters())
    for number, node in enumerate(network.layers):
        if node.weights:
            layer, name = node.workload, node.name.partition(".phase")[0]
            own, values = modules.get(name), constants[name if name in constants else f"{name}.weight"]
            values = values.detach().numpy().astype(np.int64)
            if isinstance(own, torch.nn.ConvTranspose2d):
                found[number] = of_phases(values, node.name, layer, own.stride[0], own.padding[0])
            else:
                found[number] = values.reshape(1, layer.G, layer.K, layer.C, layer.S, layer.R)
    return found


@pytest.mark.parametrize("name", IN_ORDERS)
def test_imported_orders_compute_what_the_model_does(name):
    """Windows that are rolled, merged patches, shuffled pixels, sums of halves, sums side by side or that readers make,
    sums of what lies in two orders, transposed convolutions and sums of these, attention between channels, of constant
    queries or in Einstein sums: the last output, in whatever order it lies.
    """
    models = __import__(MODELS)
    module, inputs = getattr(models, name)()
    check_orders(import_network(f"{MODELS}:{name}", {}).network, partial(weights_of, module), module, inputs)


def test_constant_queries_are_read_alike_in_one_operator():
    """Shapes, channels and views of all layers, whatever they are called."""
    told = [
        [
            (layer.workload.bounds, layer.channels, layer.weight_channels, [*(layer.views or {}).values()])
            for layer in import_network(f"{MODELS}:queried", {"is_one": is_one}).network.layers
        ]
        for is_one in (0, 1)
    ]
    assert told[0] == told[1]
    assert any(views for *_, views in told[0])


def test_unet_on_four_nodes_computes_what_the_model_does():
    """Element by element: each node pulls the pixels that it reads of the transposed convolutions and the skips."""
    module, inputs = __import__(MODELS).unet()
    network = written_out(import_network(f"{MODELS}:unet", {}).network)
    outcome = execute_plan(on_nodes(network, 2), inputs[0].numpy().astype(np.int64), weights_of(module, network))
    np.testing.assert_array_equal(outcome.outputs[len(network.layers)], module(*inputs).detach().numpy())


def test_attention_in_windows_says_which_pixels_it_reads():
    """qkv has a sample for each row of 2 pixels in a window: 2 x 2 windows of 2 rows. Scores have 4 windows of 2 heads
    as groups; a token's row is a sample, its column a column.
    """
    network = import_network(f"{MODELS}:local", {}).network
    first, qkv, scores, context = network.layers
    build_graph(written_out(network))
    rows = Reorder(N=[["H", 2, 2], ["W", 2, 2], ["H", 2, 1]], C=[["C", 4, 1]], W=[["W", 2, 1]])
    tokens = Reorder(C=[["N", 4, 2], ["C", 4, 1]], W=[["N", 2, 1], ["W", 2, 1]])
    assert (qkv.workload.N, qkv.workload.P, qkv.views) == (8, 2, {first.name: View(reorder=rows)})
    assert (scores.workload.G, scores.views) == (8, {qkv.name: View(reorder=tokens)})
    assert (scores.channels, scores.weight_channels) == (((0, 4),), ((4, 8),))
    assert (context.channels, context.weight_channels) == (None, ((8, 12),))
    assert context.views == {qkv.name: View(reorder=tokens)}
