"""ONNX files of matrix products: attention, open dims, sums."""

from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from cpsat_pim.importers import import_network
from tests.importers.onnx_models import complaint, imported, integers, layer, layers, node, onnx, value, weight


def attention() -> tuple[list[Any], list[Any]]:
    """One head-wise attention as exporters write it, with shapes computed from shapes: 8 heads of 16 channels."""
    nodes = [node("MatMul", f"x w{name}", name) for name in ("query", "key", "value")]
    nodes += [
        node("Shape", "x", "shape"),
        node("Gather", "shape zero", "batch", axis=0),
        node("Gather", "shape one", "length", axis=0),
        node("Gather", "shape two", "width", axis=0),
        node("Div", "width heads", "channels"),
        node("Concat", "batch length heads channels", "split", axis=0),
        node("Concat", "batch length width", "join", axis=0),
    ]
    for name in ("query", "key", "value"):
        nodes.append(node("Reshape", f"{name} split", f"{name}_heads"))
        order = [0, 2, 3, 1] if name == "key" else [0, 2, 1, 3]
        nodes.append(node("Transpose", f"{name}_heads", f"{name}_turned", perm=order))
    nodes += [
        node("MatMul", "query_turned key_turned", "scores"),
        node("Add", "scores mask", "masked"),
        node("Softmax", "masked", "weights"),
        node("MatMul", "weights value_turned", "context"),
        node("Transpose", "context", "context_turned", perm=[0, 2, 1, 3]),
        node("Reshape", "context_turned join", "joined"),
        node("MatMul", "joined wo", "output"),
        node("Add", "output x", "sum"),
        node("LayerNormalization", "sum c", "norm"),
        node("MatMul", "norm wi", "intermediate"),
    ]
    numbers = [integers("zero", 0), integers("one", 1), integers("two", 2), integers("heads", 8)]
    squares = [weight(f"w{name}", 128, 128) for name in ("query", "key", "value", "o")]
    return nodes, [*numbers, *squares, weight("wi", 128, 512), weight("mask", 1, 1, 1, 1), weight("c", 128)]


def test_attention_of_bound_symbols_has_its_shapes_and_its_graph(save):
    """Three sequences of 32: batches are N of a product with weights, and with the heads G of one of activations."""
    nodes, constants = attention()
    network = imported(save(nodes, [value("x", "batch", "length", 128)], constants), batch=3, length=32)
    square = {"P": 32, "C": 128, "K": 128, "N": 3}
    assert layers(network) == {
        **layer("query", **square),
        **layer("key", **square),
        **layer("value", **square),
        **layer("scores", P=32, C=16, K=32, G=24),
        **layer("context", P=32, C=32, K=16, G=24),
        **layer("output", **square),
        **layer("intermediate", P=32, C=128, K=512, N=3),
    }
    assert {entry.name: entry.after for entry in network.layers if entry.after != ("input",)} == {
        "scores": ("query", "key"),
        "context": ("scores", "value"),
        "output": ("context",),
        "intermediate": ("output", "input"),
    }
    assert [entry.name for entry in network.layers if not entry.weights] == ["scores", "context"]


def test_open_dims_are_named_until_all_are_bound(save):
    """A dim goes by its symbol and by its tensor and axis; what is left open is said, and so is a name that is none."""
    nodes, constants = attention()
    file = save(nodes, [value("x", "batch", None, 128)], constants)
    assert complaint(file) == "has open dims, bind them: --bind batch=... --bind x.1=..."
    assert complaint(file, batch=1) == "has open dims, bind them: --bind x.1=..."
    assert complaint(file, bacth=1) == "no open dim is named 'bacth', there are batch or x.0, x.1"
    assert imported(file, **{"batch": 1, "x.1": 16}) == imported(file, **{"x.0": 1, "x.1": 16})
    closed = save(nodes, [value("x", 1, 16, 128)], constants)
    assert complaint(closed, batch=1) == "no open dim is named 'batch', all sizes are given"


def test_symbol_of_two_inputs_is_asked_for_once(save):
    """What is asked for can be given: one name, one size."""
    file = save([node("MatMul", "x y", "product")], [value("x", "batch", 2, 8), value("y", "batch", 8, 4)])
    assert complaint(file) == "has open dims, bind them: --bind batch=..."
    assert complaint(file, bacth=1) == "no open dim is named 'bacth', there are batch or x.0 or y.0"
    assert imported(file, batch=3) == imported(file, **{"x.0": 3, "y.0": 3})


def test_size_that_does_not_fit_the_graph_is_refused(save):
    """Twelve channels do not multiply weights for eight."""
    file = save([node("MatMul", "x w", "fc")], [value("x", 1, "c")], [weight("w", 8, 4)])
    assert complaint(file, c=12).startswith("fc (MatMul): [ShapeInferenceError] Incompatible dimensions")


def test_einsum_of_two_operands_is_a_product(save):
    """Attention scores without transposition: 2 x 8 heads, 5 rows of 4 channels against 7."""
    file = save(
        [node("Einsum", "q k", "scores", equation="bqhd,bkhd->bhqk")], [value("q", 2, 5, 8, 4), value("k", 2, 7, 8, 4)]
    )
    assert layers(imported(file)) == layer("scores", P=5, C=4, K=7, G=16)


@pytest.mark.parametrize("packed", [True, False])
def test_attention_operator_is_two_products(save, packed):
    """Six query heads on two of keys, 5 rows against 7; heads are an axis, or side by side in rows of 6*4 and 2*4."""
    if onnx.defs.onnx_opset_version() < 23:
        pytest.skip("this onnx has no Attention operator")
    query, key = ((1, 5, 24), (1, 7, 8)) if packed else ((1, 6, 5, 4), (1, 2, 7, 4))
    heads = {"q_num_heads": 6, "kv_num_heads": 2} if packed else {}
    nodes = [node("Attention", "q k v", "attention", **heads)]
    file = save(nodes, [value("q", *query), value("k", *key), value("v", *key)], opset=23)
    assert layers(imported(file)) == {
        **layer("attention.scores", P=5, C=4, K=7, N=3, G=2),
        **layer("attention.context", P=5, C=7, K=4, N=3, G=2),
    }


def test_bias_of_activations_is_part_of_the_sum(save):
    """A Gemm that adds a convolution's result comes together with it."""
    file = save(
        [
            node("MatMul", "x w", "a"),
            node("Gemm", "x w a", "b", transA=0),
            node("MatMul", "b w", "c"),
        ],
        [value("x", 3, 8)],
        [weight("w", 8, 8)],
    )
    assert {entry.name: set(entry.after) for entry in imported(file).layers} == {
        "a": {"input"},
        "b": {"input"},
        "c": {"a", "b"},
    }


def test_packed_weights_have_the_width_of_their_bits(save):
    """64 x 32 weights of 4 bits, two to a byte; of 3 bits, which no column holds whole, their width stays open."""
    for bits, width in ((4, {"weight": Fraction(1, 2)}), (2, {"weight": Fraction(1, 4)}), (3, {})):
        packed = onnx.helper.make_node(
            "MatMulNBits", ["x", "w", "s"], ["y"], "up", domain="com.microsoft", K=64, N=32, bits=bits, block_size=32
        )
        constants = [weight("w", 32, 2, 4 * bits), weight("s", 64)]
        (up,) = imported(save([packed], [value("x", 3, 64)], constants)).layers
        assert (up.workload.P, up.workload.C, up.workload.K, up.bytes) == (3, 64, 32, width)


_EXPERTS = {
    "MoE": (("x", "r", "w1", "", "w2", "", "w3"), 8),
    "QMoE": (("x", "r", "w1", "s", "", "w2", "s", "", "w3"), 4),
}


@pytest.mark.parametrize("kind", _EXPERTS)
def test_experts_are_groups_of_equally_many_rows(save, kind):
    """Six rows of 8 channels, each taken by 2 of 4 experts of 16 units: 3 rows each; QMoE has two weights a byte."""
    read, bits = _EXPERTS[kind]
    constants = [weight(name, 4, 128 * bits // 64, 8) for name in ("w1", "w2", "w3")]
    experts = onnx.helper.make_node(kind, read, ["y"], "moe", domain="com.microsoft", k=2)
    file = save([experts], [value("x", 2, 3, 8), value("r", 6, 4)], [*constants, weight("s", 4, 16)])
    width = Fraction(bits, 8)
    assert layers(imported(file)) == {
        **layer("moe.fc1", P=3, C=8, K=16, G=4, weight_bytes=width),
        **layer("moe.fc3", P=3, C=8, K=16, G=4, weight_bytes=width),
        **layer("moe.fc2", P=3, C=16, K=8, G=4, weight_bytes=width),
    }


def test_experts_that_rows_do_not_divide_share_them_as_evenly_as_possible(save):
    """Six rows for 4 experts: two take 2 rows, two take 1. One row for two experts of four leaves two without."""
    experts = onnx.helper.make_node("MoE", ["x", "r", "w1", "", "w2"], ["y"], "moe", domain="com.microsoft")
    constants = [weight("w1", 4, 8, 16), weight("w2", 4, 16, 8)]
    uneven = imported(save([experts], [value("x", 6, 8), value("r", 6, 4)], constants))
    assert [(entry.name, entry.workload.P, entry.workload.G) for entry in uneven.layers] == [
        ("moe.fc1", 2, 2),
        ("moe.fc1.fewer", 1, 2),
        ("moe.fc2", 2, 2),
        ("moe.fc2.fewer", 1, 2),
    ]
    assert uneven.total_macs == 2 * 6 * 8 * 16
    experts.attribute.append(onnx.helper.make_attribute("k", 2))
    decoding = imported(save([experts], [value("x", 1, 8), value("r", 1, 4)], constants))
    assert [(entry.name, entry.workload.P, entry.workload.G) for entry in decoding.layers] == [
        ("moe.fc1", 1, 2),
        ("moe.fc2", 1, 2),
    ]


def test_model_may_be_given_as_a_path(save):
    """A path is as good as its text."""
    file = save([node("MatMul", "x w", "fc")], [value("x", 1, 8)], [weight("w", 8, 4)])
    assert import_network(Path(file)) == import_network(file)
