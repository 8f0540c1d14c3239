"""ONNX operators beyond the common ones: each is a layer where it multiplies, and what is behind it has its shape."""

from fractions import Fraction

import pytest

from tests.importers.onnx_models import (
    TensorProto,
    defined_by_onnx,
    helper,
    import_network,
    imported,
    integers,
    layer,
    layers,
    node,
    value,
    weight,
)


def vendor(kind, read, name, *more, **attributes):
    """An operator of onnxruntime that writes a tensor of its own name, and `more`; `_` is an input left out."""
    names = ["" if name == "_" else name for name in read.split()]
    return helper.make_node(kind, names, [name, *more], name, domain="com.microsoft", **attributes)


def of_type(kind, name, *dims):
    """A weight or an input with elements of a type."""
    return TensorProto(name=name, data_type=kind, dims=dims, data_location=TensorProto.EXTERNAL)


def macs(network):
    """Multiply-accumulates by name."""
    return {entry.name: entry.count * entry.workload.macs for entry in network.layers}


@pytest.mark.parametrize(
    ("opset", "operators"),
    [
        (21, [node("GroupNormalization", "x c c", "y", num_groups=2)]),
        (13, [node("MeanVarianceNormalization", "x", "y")]),
        (12, [node("GreaterOrEqual", "x c1", "b"), node("Where", "b x c1", "y")]),
        (3, [node("Relu", "x", "r"), node("Add", "r c", "y", broadcast=1, axis=1)]),
        (3, [node("InstanceNormalization", "x c c", "n"), node("Sum", "n x", "y")]),
        (3, [node("Concat", "x x", "j"), helper.make_node("Split", ["j"], ["y", "z"], axis=1, split=[4, 4])]),
        (1, [node("Pad", "x", "e", paddings=[0] * 8), node("Reshape", "e", "y", shape=[0, 4, -1, 3])]),
    ],
)
def test_operators_without_a_rule_of_onnx_keep_their_shape(save, opset, operators):
    """A flattened result of 4 channels of 3 x 3 meets 36 x 2 weights."""
    nodes = [*operators, node("Flatten", "y", "f"), node("MatMul", "f w", "fc")]
    constants = [weight("w", 36, 2), weight("c", 4), weight("c1", 1)]
    assert layers(imported(save(nodes, [value("x", 5, 4, 3, 3)], constants, opset=opset))) == layer(
        "fc", P=5, C=36, K=2
    )


def test_deformable_convolution_samples_its_input_for_each_tap(save):
    """6 x 6 positions times 9 taps of 2 of 4 channels to 3 of 6: 36 x 18 x 3 products in each of 2 groups."""
    nodes = [node("DeformConv", "x w o", "d", pads=[1] * 4, group=2), node("Conv", "d v", "point")]
    file = save(
        nodes, [value("x", 1, 4, 6, 6), value("o", 1, 18, 6, 6)], [weight("w", 6, 2, 3, 3), weight("v", 5, 6, 1, 1)]
    )
    shapes = layer("d", P=6, Q=6, C=18, K=3, G=2) | layer("point", P=6, Q=6, C=6, K=5)
    assert layers(imported(file)) == shapes


@pytest.mark.parametrize(("last", "shape", "columns"), [(0, (2, 6, 7), 7), (1, (2, 7, 6), 6)])
def test_causal_convolution_is_one_per_channel(save, last, shape, columns):
    """Two sequences of 7 positions, 6 channels with 4 taps each; the result is as large as the input."""
    causal = vendor("CausalConvWithState", "x w", "y", "state", channels_last=last, dilation=2)
    file = save(
        [causal, node("MatMul", "y v", "fc")], [value("x", *shape)], [weight("w", 6, 1, 4), weight("v", columns, 3)]
    )
    network = imported(file)
    assert layers(network)["y"].dilation == (2, 1)
    assert macs(network) == {"y": 2 * 7 * 6 * 4, "fc": 2 * 42 * 3}


@pytest.mark.parametrize("kernel", [(5, 4, 3, 3), (5, 3, 3, 4)])
def test_channels_of_the_data_tell_the_order_of_a_kernel(save, kernel):
    """3 x 3 taps on 4 channels, whichever comes first."""
    file = save([vendor("NhwcConv", "x w", "y")], [value("x", 1, 8, 6, 4)], [weight("w", *kernel)])
    assert layers(imported(file)) == layer("y", R=3, S=3, P=4, Q=6, C=4, K=5)


def test_quantised_product_without_a_result_scale_is_of_floats(save):
    """What is behind it takes floats."""
    eight = [of_type(TensorProto.UINT8, "z"), of_type(TensorProto.UINT8, "w", 4, 5)]
    inputs = [helper.make_tensor_value_info("x", TensorProto.UINT8, [3, 4])]
    nodes = [vendor("QGemm", "x s z w s z", "y"), node("MatMul", "y v", "fc")]
    assert macs(imported(save(nodes, inputs, [*eight, weight("s"), weight("v", 5, 2)]))) == {"y": 60, "fc": 30}


@pytest.mark.parametrize(
    ("kind", "bits", "width"), [("UINT8", 4, 16), ("UINT8", 8, 32), ("UINT8", 2, 8), ("INT4", 4, 32)]
)
def test_table_of_few_bits_has_several_elements_in_a_byte_unless_its_type_is_as_narrow(save, kind, bits, width):
    """Rows of 32 elements, 6 of them gathered."""
    nodes = [vendor("GatherBlockQuantized", "t i s", "y", bits=bits, block_size=16), node("MatMul", "y v", "fc")]
    table = of_type(getattr(TensorProto, kind), "t", 50, width)
    inputs = [helper.make_tensor_value_info("i", TensorProto.INT64, [2, 3])]
    assert macs(imported(save(nodes, inputs, [table, weight("s", 50, 2), weight("v", 32, 4)]))) == {"fc": 6 * 32 * 4}


def test_keys_in_a_buffer_count_as_far_as_it_is_filled(save):
    """A buffer of 16 keys, of which 7 and 9 are filled: 2 sequences, 8 heads of 4 channels, 9 keys each."""
    names = ["q", "k", "v", "", "", "", "filled"]
    attention = helper.make_node("Attention", names, ["y"], "y", q_num_heads=8, kv_num_heads=2)
    inputs = [value("q", 2, 1, 32), value("k", 2, 16, 8), value("v", 2, 16, 8)]
    counts = macs(imported(save([attention], inputs, [integers("filled", 7, 9)], opset=24)))
    assert counts == {"y.scores": 2 * 8 * 4 * 9, "y.context": 2 * 8 * 9 * 4}


@pytest.mark.parametrize(("rows", "window", "keys"), [(1, 4, 4), (1, 40, 10), (1, -1, 10), (3, 4, 6)])
def test_keys_beyond_the_window_of_every_query_do_not_count(save, rows, window, keys):
    """After 10 - rows earlier keys: the last query sees `window` keys, and each one before it one key further back."""
    read = ["q", "k", "v", "pk", "pv", "", "total"]
    given = {"num_heads": 8, "kv_num_heads": 2, "local_window_size": window}
    attention = helper.make_node("GroupQueryAttention", read, ["y", "nk", "nv"], "y", domain="com.microsoft", **given)
    past = [value("pk", 1, 2, 10 - rows, 4), value("pv", 1, 2, 10 - rows, 4)]
    inputs = [value("q", 1, rows, 32), value("k", 1, rows, 8), value("v", 1, rows, 8), *past]
    scores = node("MatMul", "nk w", "after")
    counts = macs(imported(save([attention, scores], inputs, [integers("total", 10), weight("w", 4, 3)])))
    assert counts == {"y.scores": 8 * rows * 4 * keys, "y.context": 8 * rows * keys * 4, "after": 2 * 10 * 4 * 3}


def test_products_fused_after_a_normalisation_are_a_layer_each(save):
    """Six rows of 32 channels to 16 queries, 8 keys and 8 values; then to two gates of 64, all of 4 bits."""
    read = "x _ n q s _ k s _ v s _"
    nodes = [
        vendor("MatMulNBitsQkv", read, "a", "keys", "values", K=32, Nq=16, Nkv=8, bits=4, block_size=16),
        vendor("MatMulNBitsMlp", "x _ n g s _ u s _", "m", K=32, N=64, bits=4, block_size=16),
        node("MatMul", "m w", "fc"),
        node("MatMul", "keys w8", "last"),
    ]
    blobs = [of_type(TensorProto.UINT8, name, 1) for name in "qkvgu"]
    network = imported(
        save(
            nodes,
            [value("x", 2, 3, 32)],
            [*blobs, weight("n", 32), weight("s", 1), weight("w", 64, 2), weight("w8", 8, 2)],
        )
    )
    outputs = {"a.q": 16, "a.k": 8, "a.v": 8, "m.gate": 64, "m.up": 64}
    assert macs(network) == {name: 6 * 32 * size for name, size in outputs.items()} | {"fc": 6 * 128, "last": 6 * 16}
    assert all(layers(network)[name].weight_bytes == Fraction(1, 2) for name in outputs)


@pytest.mark.parametrize("between", ["Cast", "Identity"])
def test_type_of_the_terms_does_not_matter_to_a_sum_of_products(save, between):
    """Six sums of 8 products."""
    adapted = node(between, "terms", "same", **({"to": TensorProto.DOUBLE} if between == "Cast" else {}))
    nodes = [node("Mul", "a b", "terms"), adapted, node("ReduceSum", "same last", "sum")]
    file = save(nodes, [value("a", 6, 8), value("b", 6, 8)], [integers("last", -1)])
    assert layers(imported(file)) == layer("sum", C=8, G=6)


def test_average_of_a_product_over_all_positions_is_a_layer_unless_one_factor_has_one_position(save):
    """Four channels of 9 positions are 36 products; the gate of a channel contracts nothing."""
    nodes = [
        *(node("Mul", "a b", "terms"), node("GlobalAveragePool", "terms", "mean")),
        *(node("Mul", "a mean", "gated"), node("GlobalAveragePool", "gated", "end")),
    ]
    assert layers(imported(save(nodes, [value("a", 1, 4, 3, 3), value("b", 1, 4, 3, 3)]))) == layer("mean", C=9, G=4)


def test_activation_that_multiplies_a_tensor_with_its_function_is_no_product_of_two(save):
    """x * sigmoid(x) before a pooling, as in a squeeze-and-excitation block; a gate of other data is a product."""
    nodes = [
        *(node("Sigmoid", "x", "s"), node("Mul", "x s", "swish"), node("GlobalAveragePool", "swish", "pooled")),
        *(node("Add", "x pooled", "y"), node("Sigmoid", "b", "gate"), node("Mul", "y gate", "gated")),
        node("ReduceMean", "gated space", "mean"),
    ]
    file = save(nodes, [value("x", 1, 4, 3, 3), value("b", 1, 4, 3, 3)], [integers("space", 2, 3)])
    assert layers(imported(file)) == layer("mean", C=9, G=4)


def test_square_of_what_a_mean_was_taken_from_is_no_product_of_two(save):
    """A variance by hand: the centred tensor is a function of two, and its square still no product of two."""
    nodes = [
        *(node("ReduceMean", "x last", "mean"), node("Sub", "x mean", "centred")),
        *(node("Mul", "centred centred", "square"), node("ReduceMean", "square last", "variance")),
        *(node("Div", "centred variance", "y"), node("MatMul", "y w", "fc")),
    ]
    file = save(nodes, [value("x", 6, 8)], [integers("last", -1), weight("w", 8, 4)])
    assert layers(imported(file)) == layer("fc", P=6, C=8, K=4)


@pytest.mark.parametrize(
    ("operators", "channels"),
    [
        ([vendor("RelativePositionBias", "t three three", "b", max_distance=8), node("Add", "b x", "y")], 3),
        ([vendor("UnfoldTensor", "x", "y", dim=1, size=2, step=3)], 2),
        ([vendor("ExpandDims", "x one", "y")], 3),
        ([vendor("ComplexMul", "x x", "y")], 3),
        ([vendor("ReduceSumInteger", "n", "s", axes=[1], keepdims=0), node("Cast", "s", "y", to=1)], 3),
        ([vendor("GridSample", "x g", "y")], 5),
        ([vendor("RemovePadding", "r l", "p", "o"), vendor("RestorePadding", "p o", "y")], 7),
    ],
)
def test_operators_of_onnxruntime_that_only_move_keep_their_shape(save, operators, channels):
    """The product behind one knows its channels."""
    inputs = [value("x", 1, 6, 3, 3), value("g", 1, 4, 5, 2), value("r", 2, 5, 7)]
    inputs += [helper.make_tensor_value_info("l", TensorProto.INT32, [2])]
    inputs += [helper.make_tensor_value_info("n", TensorProto.INT8, [2, 6, 3])]
    constants = [integers("three", 3), integers("one", 1), weight("t", 32, 6), weight("w", channels, 2)]
    network = imported(save([*operators, node("MatMul", "y w", "fc")], inputs, constants))
    assert [shape.C for shape in layers(network).values()] == [channels]


@pytest.mark.parametrize(("kind", "width"), [("INT4", Fraction(1, 2)), ("UINT4", Fraction(1, 2)), ("INT8", 1)])
def test_weights_that_are_dequantised_keep_their_width_below_a_byte(save, kind, width):
    """As many rows of 8 as there are outputs, in blocks of 4 with a scale each, turned."""
    nodes = [
        node("DequantizeLinear", "q s", "d", axis=1, block_size=4),
        node("Transpose", "d", "t"),
        node("MatMul", "x t", "fc"),
    ]
    stored = of_type(getattr(TensorProto, kind), "q", 5, 8)
    network = imported(save(nodes, [value("x", 3, 8)], [stored, weight("s", 5, 2)], opset=21))
    assert layers(network) == layer("fc", P=3, C=8, K=5, weight_bytes=width)


def test_grid_of_a_transformation_is_a_product_with_the_coordinates_of_its_points(save):
    """Two images of 5 by 7 points: 2 rows of a transformation, 3 coordinates, 35 points each."""
    path = save(
        [node("AffineGrid", "t size", "grid"), node("GridSample", "x grid", "y"), node("Conv", "y w", "z")],
        [value("t", 2, 2, 3), value("x", 2, 3, 8, 10)],
        [integers("size", 2, 3, 5, 7), weight("w", 4, 3, 1, 1)],
    )
    found = layers(import_network(path).network)
    assert found == {**layer("grid", P=2, C=3, K=35, N=2), **layer("z", P=7, Q=5, C=3, K=4, N=2)}


@defined_by_onnx("LinearAttention")
@pytest.mark.parametrize(("domain", "opset"), [("", 27), ("com.microsoft", 21)])
def test_operator_that_onnx_defines_by_others_is_followed_through_these(save, domain, opset):
    """Linear attention with a gated delta rule, 5 steps, 4 query heads on 2 others, keys of 8 and values of 6 channels:
    in each step what a key finds in the state, the update, and what the queries read.
    """
    heads = {"q_num_heads": 4, "kv_num_heads": 2, "update_rule": "gated_delta"}
    mixed = helper.make_node(
        "LinearAttention", ["q", "k", "v", "", "decay", "beta"], ["y", "state"], "mix", domain=domain, **heads
    )
    path = save(
        [node("MatMul", "x w", "q"), mixed, node("MatMul", "y u", "z")],
        [
            value("x", 1, 5, 32),
            value("k", 1, 5, 16),
            value("v", 1, 5, 12),
            value("decay", 1, 5, 2),
            value("beta", 1, 5, 2),
        ],
        [weight("w", 32, 32), weight("u", 24, 3)],
        opset=opset,
        opsets={"com.microsoft": 1},
    )
    network = import_network(path).network
    assert layers(network) == {
        **layer("q", P=5, C=32, K=32),
        **layer("mix.Retrieved", G=2, P=6, C=8),
        **layer("mix.Outer", G=2, P=8, K=6),
        **layer("mix.ReadOut", G=4, C=8, K=6),
        **layer("z", P=5, C=24, K=3),
    }
    assert [step.count for step in network.layers] == [1, 5, 5, 5, 1]


@defined_by_onnx("FlexAttention", "ai.onnx.preview")
def test_attention_whose_scores_a_graph_modifies_is_scores_and_context(save):
    """2 heads of 4 rows on 6 keys of 8 channels, values of 5."""
    path = save(
        [node("FlexAttention", "q k v", "y", domain="ai.onnx.preview")],
        [value("q", 1, 2, 4, 8), value("k", 1, 2, 6, 8), value("v", 1, 2, 6, 5)],
        opset=25, opsets={"ai.onnx.preview": 1},
    )  # fmt: skip
    found = layers(import_network(path).network)
    assert sorted((shape.G, shape.P, shape.C, shape.K) for shape in found.values()) == [(2, 4, 6, 5), (2, 4, 8, 6)]
