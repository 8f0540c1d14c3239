"""ONNX files as exporters and optimisers leave them: operators of vendors, recurrent layers, branches, loops."""

import pytest

from tests.importers.onnx_models import (
    TensorProto,
    complaint,
    helper,
    imported,
    integers,
    layer,
    layers,
    node,
    value,
    weight,
)


def test_fused_product_transposes_and_what_is_behind_it_has_its_shape(save):
    """Six heads of 5 x 8 against 7 x 8, then a vendor's activation, then 7 x 4 weights."""
    nodes = [
        helper.make_node("FusedMatMul", ["a", "b"], ["y"], "scores", domain="com.microsoft", transB=1),
        helper.make_node("FastGelu", ["y"], ["g"], "gelu", domain="com.microsoft"),
        node("MatMul", "g w", "z"),
    ]
    file = save(nodes, [value("a", 2, 3, 5, 8), value("b", 2, 3, 7, 8)], [weight("w", 7, 4)])
    assert layers(imported(file)) == layer("scores", P=5, C=8, K=7, G=6) | layer("z", P=5, C=7, K=4, N=6)


@pytest.mark.parametrize(("kind", "gates"), [("LSTM", 4), ("GRU", 3), ("RNN", 1)])
def test_recurrent_layer_is_an_input_part_and_a_part_per_step(save, kind, gates):
    """Five steps of 3 sequences in two directions: 15 rows at once, and 3 rows in each of 5 steps, twice each."""
    recurrent = helper.make_node(kind, ["x", "w", "r"], ["h"], "rnn", hidden_size=8, direction="bidirectional")
    constants = [weight("w", 2, 8 * gates, 12), weight("r", 2, 8 * gates, 8)]
    network = imported(save([recurrent], [value("x", 5, 3, 12)], constants))
    assert [(entry.name, entry.count) for entry in network.layers] == [("rnn.input", 2), ("rnn.recurrent", 10)]
    assert layers(network) == {
        **layer("rnn.input", P=15, C=12, K=8 * gates),
        **layer("rnn.recurrent", P=3, C=8, K=8 * gates),
    }


@pytest.mark.parametrize(("flag", "channels"), [(1, 6), (0, 2)])
def test_branch_that_a_bound_value_takes_is_followed(save, flag, channels):
    """Each branch has a product of its own, and the one behind takes the result of the branch that is taken."""
    graphs = [
        helper.make_graph([node("MatMul", f"x {name}", f"o{name}")], name, [], [value(f"o{name}", 1, size)])
        for name, size in (("then", 6), ("else", 2))
    ]
    branch = helper.make_node("If", ["flag"], ["y"], "if", then_branch=graphs[0], else_branch=graphs[1])
    inputs = [value("x", 1, 8), helper.make_tensor_value_info("flag", TensorProto.BOOL, [])]
    constants = [weight("then", 8, 6), weight("else", 8, 2)]
    file = save([branch], inputs, constants)
    assert [entry.K for entry in layers(imported(file, flag=flag)).values()] == [channels]
    assert complaint(file).startswith("cannot map 1 If (its condition 'flag' is not known, --bind flag=... may tell)")


def loop_body(*nodes, carried):
    """A body whose condition stays as it is."""
    heads = [
        helper.make_tensor_value_info("i", TensorProto.INT64, []),
        helper.make_tensor_value_info("go", TensorProto.BOOL, []),
    ]
    outputs = [helper.make_tensor_value_info("on", TensorProto.BOOL, []), value("done", *carried)]
    return helper.make_graph(
        [node("Identity", "go", "on"), *nodes], "body", [*heads, value("state", *carried)], outputs
    )


def test_loop_of_known_trips_counts_its_layers_so_often(save):
    """Seven trips of 8 x 8 from a constant state: later trips read data, so that all seven are counted."""
    body = loop_body(node("MatMul", "state w", "rec"), node("Add", "rec x", "done"), carried=(1, 8))
    loop = helper.make_node("Loop", ["trips", "", "zero"], ["last"], "loop", body=body)
    constants = [integers("trips", 7), weight("zero", 1, 8), weight("w", 8, 8)]
    network = imported(save([loop], [value("x", 1, 8)], constants))
    assert [(entry.name, entry.count, entry.workload.macs) for entry in network.layers] == [("rec", 7, 64)]


def test_loop_whose_sizes_grow_is_followed_trip_by_trip(save):
    """The state grows from 1 to 3 rows: products of 1, 2 and 3 rows."""
    body = loop_body(node("MatMul", "state w", "rec"), node("Concat", "state x", "done", axis=0), carried=(None, 8))
    loop = helper.make_node("Loop", ["trips", "", "x"], ["last"], "loop", body=body)
    network = imported(save([loop], [value("x", 1, 8)], [integers("trips", 3), weight("w", 8, 8)]))
    assert [entry.workload.P for entry in network.layers] == [1, 2, 3]


@pytest.mark.parametrize("adding", ["ReduceSum", "ReduceMean"])
def test_sum_of_a_product_is_a_layer_and_a_sum_of_squares_is_none(save, adding):
    """6 x 5 results of 8 terms each, added or averaged; the norm of a tensor belongs to a normalisation."""
    nodes = [
        node("Mul", "a w", "terms"),
        node(adding, "terms last", "sum", keepdims=0),
        node("Mul", "sum sum", "squares"),
        node(adding, "squares last", "norm"),
    ]
    file = save(nodes, [value("a", 6, 1, 8)], [weight("w", 1, 5, 8), integers("last", -1)])
    assert layers(imported(file)) == layer("sum", P=6, C=8, K=5)


def test_gate_over_channels_before_a_pooling_is_no_layer(save):
    """The gate of a squeeze-and-excitation block has no axis that the mean adds along."""
    nodes = [
        node("Mul", "a gate", "gated"),
        node("ReduceMean", "gated space", "mean", keepdims=0),
        node("MatMul", "mean w", "fc"),
    ]
    inputs = [value("a", 1, 8, 6, 6), value("gate", 1, 8, 1, 1)]
    assert layers(imported(save(nodes, inputs, [weight("w", 8, 4), integers("space", 2, 3)]))) == layer("fc", C=8, K=4)


def test_attention_over_packed_sequences_counts_each_sequence_at_its_full_length(save):
    """Two sequences of up to 3 rows in 2 heads of 4 channels, stored as 6 rows; what is behind it has its shape."""
    read = ["q", "k", "v", "", "offsets", "lengths"]
    nodes = [
        helper.make_node("PackedMultiHeadAttention", read, ["a"], "a", domain="com.microsoft", num_heads=2),
        node("MatMul", "a w", "fc"),
    ]
    rows = [value(name, 6, 8) for name in "qkv"]
    file = save(nodes, [*rows, value("offsets", 2, 3), value("lengths", 3)], [weight("w", 8, 5)])
    assert [(entry.name, entry.workload.macs) for entry in imported(file).layers] == [
        ("a.scores", 2 * 2 * 3 * 4 * 3),
        ("a.context", 2 * 2 * 3 * 3 * 4),
        ("fc", 6 * 8 * 5),
    ]


def test_loop_whose_trips_are_bound_counts_them(save):
    """Trips that an operator computes from data, bound by the tensor's name: five products of 8 x 8."""
    body = loop_body(node("MatMul", "state w", "rec"), node("Add", "rec x", "done"), carried=(1, 8))
    loop = helper.make_node("Loop", ["trips", "", "x"], ["last"], "loop", body=body)
    nodes = [node("ReduceMax", "x", "most", keepdims=0), node("Cast", "most", "trips", to=TensorProto.INT64), loop]
    file = save(nodes, [value("x", 1, 8)], [weight("w", 8, 8)])
    assert [(entry.name, entry.count) for entry in imported(file, trips=5).layers] == [("rec", 5)]
    assert complaint(file).startswith(
        "cannot map 1 Loop (its number of trips 'trips' is not known, --bind trips=... may tell): loop"
    )
    assert complaint(file, tripz=5) == "no open dim is named 'tripz', there are trips, loop"


def test_loop_that_data_end_is_bound_by_its_name(save):
    """Its condition is computed in each trip, so that only its own name can tell how often it runs."""
    heads = [
        helper.make_tensor_value_info("i", TensorProto.INT64, []),
        helper.make_tensor_value_info("go", TensorProto.BOOL, []),
    ]
    nodes = [
        node("MatMul", "state w", "done"),
        node("ReduceMax", "done", "most", keepdims=0),
        node("Cast", "most", "on", to=TensorProto.BOOL),
    ]
    outputs = [helper.make_tensor_value_info("on", TensorProto.BOOL, []), value("done", 1, 8)]
    body = helper.make_graph(nodes, "body", [*heads, value("state", 1, 8)], outputs)
    loop = helper.make_node("Loop", ["", "", "x"], ["last"], "decode", body=body)
    file = save([loop], [value("x", 1, 8)], [weight("w", 8, 8)])
    assert [(entry.name, entry.count) for entry in imported(file, decode=12).layers] == [("done", 12)]
    assert complaint(file).startswith(
        "cannot map 1 Loop (whether it goes on depends on the data, --bind decode=... may tell): decode"
    )


def test_branch_whose_condition_data_decide_is_bound_by_that_tensor(save):
    """The second branch has twice the outputs."""
    graphs = [
        helper.make_graph([node("MatMul", f"x {name}", f"o{name}")], name, [], [value(f"o{name}", 1, size)])
        for name, size in (("then", 6), ("else", 12))
    ]
    nodes = [
        node("ReduceMax", "x", "most", keepdims=0),
        node("Cast", "most", "flag", to=TensorProto.BOOL),
        helper.make_node("If", ["flag"], ["y"], "if", then_branch=graphs[0], else_branch=graphs[1]),
    ]
    file = save(nodes, [value("x", 1, 8)], [weight("then", 8, 6), weight("else", 8, 12)])
    assert [entry.K for entry in layers(imported(file, flag=0)).values()] == [12]


def test_scan_with_a_batch_runs_its_body_for_each_step_of_each_sequence(save):
    """Scan of operator set 8: 3 sequences of 5 steps, a product of 8 x 8 each; what is behind it has its shape."""
    body = helper.make_graph(
        [node("MatMul", "state w", "rec"), node("Add", "rec part", "done"), node("Identity", "done", "out")],
        "body",
        [value("state", 8), value("part", 8)],
        [value("done", 8), value("out", 8)],
    )
    scan = helper.make_node("Scan", ["", "first", "x"], ["last", "all"], "scan", body=body, num_scan_inputs=1)
    nodes = [scan, node("MatMul", "all v", "fc")]
    file = save(nodes, [value("first", 3, 8), value("x", 3, 5, 8)], [weight("w", 8, 8), weight("v", 8, 2)], opset=8)
    assert {entry.name: entry.count * entry.workload.macs for entry in imported(file).layers} == {
        "rec": 15 * 64,
        "fc": 15 * 8 * 2,
    }
