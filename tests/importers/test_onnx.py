"""ONNX files: shapes, topology, open dims, what cannot be mapped, and files that are none."""

from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from cpsat_pim.importers import import_network
from cpsat_pim.workload import ConvWorkload
from cpsat_pim.workload.network import Network, read_network

onnx = pytest.importorskip("onnx", reason="needs the extra: pip install 'cpsat-pim[onnx]'")
from onnx import TensorProto, helper  # noqa: E402 - not before onnx is known to be there

Save = Callable[..., str]


def value(name: str, *dims: int | str | None) -> Any:
    """A float tensor's name and dims."""
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, dims)


def weight(name: str, *dims: int) -> Any:
    """A weight as large as it says, whose data are in a file that is not there."""
    tensor = TensorProto(name=name, data_type=TensorProto.FLOAT, dims=dims, data_location=TensorProto.EXTERNAL)
    tensor.external_data.add(key="location", value="no-such-file.bin")
    return tensor


def integers(name: str, *numbers: int) -> Any:
    """A small constant of which the file has the value."""
    return helper.make_tensor(name, TensorProto.INT64, [len(numbers)], numbers)


@pytest.fixture
def save(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Save:
    """Write `net.onnx` in a directory of its own and return its name."""
    monkeypatch.chdir(tmp_path)

    def save_file(nodes: Sequence[Any], inputs: Sequence[Any], constants: Sequence[Any] = (), **more: Any) -> str:
        opsets = [helper.make_opsetid("", more.pop("opset", 20)), helper.make_opsetid("custom", 1)]
        functions = more.pop("functions", [])
        outputs = [helper.make_empty_tensor_value_info(nodes[-1].output[0])]
        graph = helper.make_graph(nodes, "net", inputs, outputs, constants, **more)
        model = helper.make_model(graph, opset_imports=opsets, functions=functions)
        Path("net.onnx").write_bytes(model.SerializeToString())
        return "net.onnx"

    return save_file


def node(kind: str, read: str, name: str, **attributes: Any) -> Any:
    """An operator that writes a tensor of its own name; `read` are names separated by spaces."""
    return helper.make_node(kind, read.split(), [name], name, **attributes)


def layers(network: Network) -> dict[str, ConvWorkload]:
    """Shapes by name."""
    return {layer.name: layer.workload for layer in network.layers}


def layer(name: str, **bounds: Any) -> dict[str, ConvWorkload]:
    """One entry of `layers`."""
    return {name: ConvWorkload(name=name, **bounds)}


def imported(file: str, **bind: int) -> Network:
    """The network of a file without operators that cannot be mapped."""
    return import_network(file, bind).network


def complaint(file: str, **bind: int) -> str:
    """The message of the ValueError that an import raises, without the file's name; it is one line."""
    with pytest.raises(ValueError, match=r".") as caught:
        import_network(file, bind)
    prefix, _, message = str(caught.value).partition(": ")
    assert prefix == file
    assert "\n" not in message
    return message


# --- Convolutions ----------------------------------------------------------------------------------------------------


def test_residual_block_has_its_shapes_and_its_graph(save):
    """Two 3x3 convolutions beside a 1x1, all of stride 2 in total, summed and classified; weights need no data."""
    file = save(
        [
            node("Conv", "x w1", "conv1", strides=[2, 2], pads=[1, 1, 1, 1]),  # (56 + 2 - 3) // 2 + 1 = 28
            node("Relu", "conv1", "relu1"),
            node("Conv", "relu1 w2", "conv2", pads=[1, 1, 1, 1]),
            node("BatchNormalization", "conv2 c c c c", "bn2"),
            node("Conv", "x w3", "downsample", strides=[2, 2]),  # (56 - 1) // 2 + 1 = 28
            node("Add", "bn2 downsample", "sum"),
            node("Conv", "sum w2", "conv3", pads=[1, 1, 1, 1]),
            node("Add", "conv3 sum", "sum2"),
            node("GlobalAveragePool", "sum2", "pool"),
            node("Flatten", "pool", "flat"),
            node("Gemm", "flat wf bf", "fc", transB=1),
        ],
        [value("x", 1, 64, 56, 56)],
        [
            *(weight("w1", 128, 64, 3, 3), weight("w2", 128, 128, 3, 3), weight("w3", 128, 64, 1, 1)),
            *(weight("c", 128), weight("wf", 10, 128), weight("bf", 10)),
        ],
    )
    network = imported(file)
    assert layers(network) == {
        **layer("conv1", R=3, S=3, P=28, Q=28, C=64, K=128, stride=(2, 2)),
        **layer("conv2", R=3, S=3, P=28, Q=28, C=128, K=128),
        **layer("downsample", P=28, Q=28, C=64, K=128, stride=(2, 2)),
        **layer("conv3", R=3, S=3, P=28, Q=28, C=128, K=128),
        **layer("fc", C=128, K=10),
    }
    assert {entry.name: entry.after for entry in network.layers} == {
        "conv1": ("input",),
        "conv2": ("conv1",),
        "downsample": ("input",),
        "conv3": ("conv2", "downsample"),
        "fc": ("conv3", "conv2"),  # the shortcut is the sum that conv2 ends, as in the packaged networks
    }
    assert all(entry.weights for entry in network.layers)
    assert network.name == "net"


def test_grouped_dilated_and_strided_convolutions_keep_width_and_height_apart(save):
    """ONNX has the height first; groups divide the channels, a depthwise convolution has one each."""
    file = save(
        [
            # height (20 - (3-1)*2 - 1) // 1 + 1 = 16, width (40 - (5-1)*1 - 1) // 2 + 1 = 18
            node("Conv", "x w1", "grouped", group=4, dilations=[2, 1], strides=[1, 2]),
            node("Conv", "grouped w2", "depthwise", group=16, pads=[1, 0, 1, 0]),  # height 16, width 18 - 3 + 1
        ],
        [value("x", 2, 8, 20, 40)],
        [weight("w1", 16, 2, 3, 5), weight("w2", 16, 1, 3, 3)],
    )
    assert layers(imported(file)) == {
        **layer("grouped", R=5, S=3, P=18, Q=16, C=2, K=4, N=2, G=4, stride=(2, 1), dilation=(1, 2)),
        **layer("depthwise", R=3, S=3, P=16, Q=16, N=2, G=16),
    }


@pytest.mark.parametrize(("pad", "extent"), [("SAME_UPPER", 5), ("SAME_LOWER", 5), ("VALID", 4)])
def test_automatic_padding_gives_the_extent(save, pad, extent):
    """Ten elements, stride 2: SAME is ceil(10 / 2), VALID is ceil((10 - 4 + 1) / 2)."""
    file = save(
        [node("Conv", "x w", "conv", strides=[2], auto_pad=pad)], [value("x", 1, 3, 10)], [weight("w", 8, 3, 4)]
    )
    assert layers(imported(file)) == layer("conv", R=4, P=extent, C=3, K=8, stride=(2, 1))


def test_integer_convolutions_and_products_find_their_weights_behind_the_scales(save):
    """The weights of a QLinearConv are its fourth input; those of a dequantised one come through the operator."""
    scales = [
        helper.make_tensor("s", TensorProto.FLOAT, [], [1.0]),
        helper.make_tensor("z", TensorProto.UINT8, [], [0]),
    ]
    quantised = [
        TensorProto(name=f"q{i}", data_type=TensorProto.UINT8, dims=d) for i, d in enumerate([(8, 3, 1, 1), (10, 8)])
    ]
    file = save(
        [
            node("QuantizeLinear", "x s z", "xq"),
            node("QLinearConv", "xq s z q0 s z s z", "conv"),
            node("DequantizeLinear", "conv s z", "back"),
            node("GlobalAveragePool", "back", "pool"),
            node("Flatten", "pool", "flat"),
            node("DequantizeLinear", "q1 s z", "w"),
            node("Gemm", "flat w", "fc", transB=1),
        ],
        [value("x", 1, 3, 4, 4)],
        [*scales, *quantised],
    )
    assert layers(imported(file)) == layer("conv", P=4, Q=4, C=3, K=8) | layer("fc", C=8, K=10)
    assert all(entry.weights for entry in imported(file).layers)


@pytest.mark.parametrize(
    "attributes",
    [{"pads": [1, 1, 1, 1]}, {"auto_pad": "SAME_UPPER"}, {"output_shape": [16, 16]}],
)
def test_transposed_convolution_is_its_phases_however_it_is_padded(save, attributes):
    """Doubling 8x8 with a 4x4 kernel: each of four phases has 2x2 taps and 8x8 positions, all weights used once."""
    file = save(
        [node("ConvTranspose", "x w", "up", strides=[2, 2], **attributes)],
        [value("x", 1, 6, 8, 8)],
        [weight("w", 6, 5, 4, 4)],
    )
    network = imported(file)
    assert layers(network) == layer("up", R=2, S=2, P=8, Q=8, C=6, K=5)
    assert network.layers[0].count == 4
    assert network.total_weights == 6 * 5 * 4 * 4


def test_transposed_convolution_of_unlike_phases_is_several_layers(save):
    """A kernel of 3 and stride 2 to 15 of 8: unpadded 17, one cut off each end, so odd positions lead with two taps."""
    file = save(
        [node("ConvTranspose", "x w", "up", strides=[2], pads=[1, 1]), node("Conv", "up v", "conv")],
        [value("x", 1, 6, 8)],
        [weight("w", 6, 5, 3), weight("v", 2, 5, 1)],
    )
    network = imported(file)
    # Even positions 0..14 (8 of them) meet tap 1 alone; odd ones 1..13 (7) meet taps 0 and 2.
    assert Counter((x.R, x.P) for x in layers(network).values()) == Counter([(1, 8), (2, 7), (1, 15)])
    assert set(network.layers[-1].after) == {"up.phase0", "up.phase1"}


# --- Matrix products -------------------------------------------------------------------------------------------------


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


# --- Files -----------------------------------------------------------------------------------------------------------


def test_local_functions_are_expanded(save):
    """A function of the file is the operators in it."""
    body = [helper.make_node("MatMul", ["a", "b"], ["c"]), helper.make_node("Relu", ["c"], ["d"])]
    function = helper.make_function("custom", "Dense", ["a", "b"], ["d"], body, [helper.make_opsetid("", 20)])
    nodes = [node("Dense", "x w", "first", domain="custom"), node("MatMul", "first w", "second")]
    network = imported(save(nodes, [value("x", 3, 8)], [weight("w", 8, 8)], functions=[function]))
    assert [entry.workload.macs for entry in network.layers] == [3 * 8 * 8] * 2
    assert network.layers[1].after == (network.layers[0].name,)


def test_weights_that_only_have_a_type_are_enough(save):
    """A file from which the weights were stripped gives their shapes among its value infos."""
    nodes = [node("Conv", "x w", "conv")]
    file = save(nodes, [value("x", 1, 3, 8, 8)], value_info=[value("w", 4, 3, 3, 3)])
    assert layers(imported(file)) == layer("conv", R=3, S=3, P=6, Q=6, C=3, K=4)
    assert complaint(save(nodes, [value("x", 1, 3, 8, 8)])) == "conv (Conv): reads 'w', which nothing defines"


def test_weights_may_stand_among_the_inputs(save):
    """Older files list every weight as an input, too."""
    file = save([node("MatMul", "x w", "fc")], [value("x", 3, 8), value("w", 8, 4)], [weight("w", 8, 4)])
    assert imported(file).layers[0].weights


def test_nodes_are_taken_in_an_order_that_computes(save):
    """A file that lists a node before what it reads has the same network."""
    nodes = [node("MatMul", "x w", "a"), node("Relu", "a", "b"), node("MatMul", "b w", "c")]
    data = [value("x", 3, 8)], [weight("w", 8, 8)]
    ordered = imported(save(nodes, *data))
    assert imported(save([nodes[2], nodes[0], nodes[1]], *data)) == ordered


def test_cycle_is_named(save):
    """In reading order; a node that reads itself is one, too."""
    x, w = [value("x", 3, 8)], [weight("w", 8, 8)]
    cycle = save([node("Add", "x c", "a"), node("MatMul", "a w", "b"), node("Relu", "b", "c")], x, w)
    cycles = ("a -> b -> c -> a", "b -> c -> a -> b", "c -> a -> b -> c")
    assert complaint(cycle) in {f"the graph has a cycle: {names}" for names in cycles}
    assert complaint(save([node("Add", "x a", "a")], x)) == "the graph has a cycle: a -> a"


def test_tensor_that_two_nodes_write_is_refused(save):
    """It has no one shape."""
    nodes = [helper.make_node("Relu", ["x"], ["y"], "a"), helper.make_node("Relu", ["x"], ["y"], "b")]
    assert complaint(save(nodes, [value("x", 3)])) == "a and b both write 'y'"


def test_file_cut_anywhere_is_no_onnx_file(save):
    """Whatever is missing at its end, no shorter file passes for a network."""
    nodes = [node("Conv", "x w", "conv"), node("Relu", "conv", "relu")]
    whole = Path(save(nodes, [value("x", 1, 3, 8, 8)], [weight("w", 4, 3, 3, 3)])).read_bytes()
    assert imported("net.onnx").total_macs == 36 * 9 * 12
    custom = helper.make_opsetid("custom", 1).ByteSize() + 2  # the last field, of which nothing here makes use
    for length in {*range(len(whole))} - {len(whole) - custom}:
        Path("cut.onnx").write_bytes(whole[:length])
        assert complaint("cut.onnx").startswith("is not an ONNX file, or is truncated")


@pytest.mark.parametrize("content", [b"", b"# a text\n", b"\x00" * 100, b"\xff" * 100])
def test_other_file_is_no_onnx_file(tmp_path, monkeypatch, content):
    """Empty files, texts and noise."""
    monkeypatch.chdir(tmp_path)
    Path("net.onnx").write_bytes(content)
    assert complaint("net.onnx").startswith("is not an ONNX file, or is truncated")


def test_missing_file_and_directory_are_told(tmp_path, monkeypatch):
    """As the system tells it."""
    monkeypatch.chdir(tmp_path)
    Path("dir.onnx").mkdir()
    assert complaint("net.onnx") == "cannot be read: No such file or directory"
    assert complaint("dir.onnx") == "cannot be read: Is a directory"


# --- What cannot be mapped -------------------------------------------------------------------------------------------


def unsupported(save: Save) -> str:
    """A file with a product between operators that are no layers, and one that nobody knows."""
    return save(
        [
            helper.make_node("LSTM", ["x", "w", "r"], ["h", "last"], "rnn", hidden_size=8),
            node("Squeeze", "h one", "rows"),
            node("MatMul", "rows v", "fc"),
            node("Det", "m", "d1"),
            node("Det", "m", "d2"),
            node("Add", "fc d1", "sum"),
            node("Magic", "sum d2", "magic", domain="custom"),
            node("MatMul", "magic v", "lost"),
        ],
        [value("x", 5, 3, 4), value("m", 2, 2)],
        [weight("w", 1, 32, 4), weight("r", 1, 32, 8), weight("v", 8, 8), integers("one", 1)],
    )


def test_every_operator_that_cannot_be_mapped_is_named(save):
    """All of them, with how often each occurs, and a product whose shape is not known behind one."""
    assert complaint(unsupported(save)) == (
        "cannot map 1 LSTM: rnn; 2 Det: d1, d2; 1 custom.Magic: magic; 1 MatMul (of unknown shape): lost "
        "(--unsupported skip goes on without)"
    )


def test_skipping_goes_on_without_them_and_tells(save):
    """The product behind the LSTM knows its shape, 5 x 3 rows, and where its data come from."""
    result = import_network(unsupported(save), skip_unsupported=True)
    assert layers(result.network) == layer("fc", P=3, C=8, K=8, N=5)
    assert result.network.layers[0].after == ("input",)
    assert result.summary[:2] == ["1 LSTM: rnn", "2 Det: d1, d2"]


def test_branches_are_left_out_with_what_they_read(save):
    """An If hides what it computes; what it takes from outside comes before what reads its result."""
    branch = helper.make_graph([node("Relu", "a", "inner")], "branch", [], [value("inner", 3, 8)])
    file = save(
        [
            node("MatMul", "x w", "a"),
            helper.make_node("If", ["flag"], ["b"], "if", then_branch=branch, else_branch=branch),
            node("MatMul", "b w", "c"),
        ],
        [value("x", 3, 8), helper.make_tensor_value_info("flag", TensorProto.BOOL, [])],
        [weight("w", 8, 8)],
        value_info=[value("b", 3, 8)],
    )
    result = import_network(file, skip_unsupported=True)
    assert result.summary == ["1 If: if"]
    assert set(result.network.layers[1].after) == {"a", "input"}


def test_network_without_products_is_refused(save):
    """There is nothing to map."""
    assert complaint(save([node("Relu", "x", "y")], [value("x", 3)])) == "holds no convolution or matrix product"


def test_layer_too_large_is_named(save):
    """As the layer's own rule says it."""
    file = save([node("MatMul", "x w", "fc")], [value("x", 2**30, 2**31)], [weight("w", 2**31, 2**30)])
    assert complaint(file).startswith("fc (MatMul): ConvWorkload: the product of the bounds must stay below 2^62")


# --- Models that come with onnx --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("file", "name", "dims"),
    [
        ("light_resnet50", "resnet50", "RSPQCKNG"),
        ("light_inception_v1", "googlenet", "RSCKNG"),  # its poolings round down, so its extents are smaller
    ],
)
def test_published_models_have_the_layers_of_the_packaged_networks(file, name, dims):
    """The layers of the model zoo's files, and how many each comes after, are those written down from the papers."""
    path = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light" / f"{file}.onnx"
    if not path.exists():
        pytest.skip("this onnx comes without its test models")
    ours, packaged = (
        Counter((*(getattr(x.workload, dim) for dim in dims), x.workload.stride, len(x.after)) for x in network.layers)
        for network in (import_network(str(path)).network, read_network(name))
    )
    assert ours == packaged
