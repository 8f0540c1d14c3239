"""The less common operators of onnxruntime, and Fourier transforms."""

import math

import numpy as np
import pytest

from cpsat_pim.importers import import_network
from tests.importers.onnx_models import (
    TensorProto,
    complaint,
    counted,
    helper,
    imported,
    integers,
    layer,
    layers,
    node,
    number,
    value,
    vendor,
    weight,
)

# --- Fourier transforms -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("shape", "length", "given", "macs"),
    [
        ((3, 8, 1), None, {}, 3 * 8 * 16),  # 8 real elements, 8 complex ones
        ((3, 8, 1), None, {"onesided": 1}, 3 * 8 * 10),  # 5 complex ones
        ((3, 8, 2), None, {"inverse": 1}, 3 * 16 * 16),
        ((3, 8, 1), 16, {}, 3 * 8 * 32),  # 8 zeros behind, whose products are none
        ((3, 8, 1), 4, {"onesided": 1}, 3 * 4 * 6),  # 4 elements of 8, 3 complex ones
    ],
)
def test_fourier_transform_is_a_product_with_its_matrix(save, shape, length, given, macs):
    """As many multiplications as the matrix has elements, for each row; what is behind it has its shape."""
    lengths = [] if length is None else [number("length", length)]
    read = ["x", "length" if lengths else "", "axis"]
    nodes = [
        helper.make_node("DFT", read, ["f"], "dft", **given),
        node("Flatten", "f", "rows"),
        node("MatMul", "rows w", "z"),
    ]
    count = length or 8
    width = 2 * (count // 2 + 1 if given.get("onesided") else count)
    file = save(nodes, [value("x", *shape)], [*lengths, number("axis", 1), weight("w", width, 5)])
    assert counted(imported(file)) == {"dft": macs, "z": 3 * width * 5}


def test_short_time_transform_is_a_convolution(save):
    """A window of 16 every 8 elements of 80: 9 places, 9 complex elements each; two sequences."""
    nodes = [node("STFT", "x step window", "f", onesided=1), node("ReduceMax", "f", "m"), node("Flatten", "f", "rows")]
    nodes += [node("MatMul", "rows w", "z")]
    file = save(nodes, [value("x", 2, 80, 1)], [number("step", 8), weight("window", 16), weight("w", 162, 5)])
    network = imported(file)
    assert layers(network)["f"] == layer("f", R=16, P=9, K=18, N=2, stride=(8, 1))["f"]
    assert counted(network)["z"] == 2 * 162 * 5


def test_transforms_of_onnxruntime_lie_along_the_last_axis(save):
    """16 real elements to 9 complex ones and back, in 3 rows."""
    nodes = [
        vendor("Rfft", "x", "f", signal_ndim=1),
        vendor("Irfft", "f", "y", signal_ndim=1),
        node("MatMul", "y w", "z"),
    ]
    file = save(nodes, [value("x", 3, 16)], [weight("w", 16, 5)])
    assert counted(imported(file)) == {"f": 3 * 16 * 18, "y": 3 * 18 * 16, "z": 3 * 16 * 5}


# --- Others -----------------------------------------------------------------------------------------------------------


def test_distances_are_products_of_all_pairs(save):
    """6 and 7 rows of 8 elements."""
    nodes = [vendor("CDist", "a b", "d", metric="euclidean"), node("MatMul", "d w", "z")]
    file = save(nodes, [value("a", 6, 8), value("b", 7, 8)], [weight("w", 7, 5)])
    assert counted(imported(file)) == {"d": 6 * 7 * 8, "z": 6 * 7 * 5}
    file = save([vendor("CDist", "a b", "d", metric="cityblock")], [value("a", 6, 8), value("b", 7, 8)])
    assert complaint(file).startswith("cannot map 1 com.microsoft.CDist (with the distance cityblock): d")


def test_weights_of_four_bits_share_bytes(save):
    """5 rows of 16 channels, 6 outputs: two weights a byte, or one."""
    nodes = [
        vendor("MatMulBlockQuantizedFp4Weight", "x w4 s g", "four"),
        vendor("MatMulBlockQuantizedFp8Weight", "four w8 s8", "eight"),
    ]
    constants = [weight("w4", 6, 8), weight("s", 6, 1), weight("g", 1), weight("w8", 3, 6), weight("s8", 3, 1)]
    network = imported(save(nodes, [value("x", 5, 16)], constants))
    assert counted(network) == {"four": 5 * 16 * 6, "eight": 5 * 6 * 3}
    assert [str(entry.workload.weight_bytes) for entry in network.layers] == ["1/2", "1"]


def test_gates_and_recurrences_count_their_products(save):
    """12 rows with a scalar product of 8 elements each; 5 tokens in 4 heads with a state of 8 x 6, read, corrected and
    written; a gate of 4 heads, 3 rows, 8 x 2 weights.
    """
    engram = vendor("EngramGate", "k q v n n", "e")
    inputs = [*(value(name, 1, 3, 4, 8) for name in "kq"), value("v", 1, 3, 8)]
    assert counted(
        imported(save([engram, node("MatMul", "e w", "z")], inputs, [weight("n", 4, 8), weight("w", 8, 2)]))
    ) == {
        "e": 12 * 8,
        "z": 12 * 8 * 2,
    }
    delta = vendor("GatedDeltaNet", "q k v - g b s", "d")
    inputs = [*(value(name, 5, 2, 8) for name in "qk"), value("v", 5, 4, 6), value("s", 1, 4, 6, 8)]
    inputs += [value(name, 5, 4) for name in "gb"]
    each = 5 * 4 * 8 * 6
    assert counted(imported(save([delta, node("MatMul", "d w", "z")], inputs, [weight("w", 6, 2)]))) == {
        "d.retrieved": each,
        "d.outer": each,
        "d.read_out": each,
        "z": 20 * 6 * 2,
    }
    gate = vendor("GatedRelativePositionBias", "q qb p w b a", "g", num_heads=4)
    weights = [weight("qb", 32), weight("w", 8, 2), weight("b", 2), weight("a", 1, 4, 1, 1), weight("u", 3, 2)]
    file = save([gate, node("MatMul", "g u", "z")], [value("q", 1, 3, 32), value("p", 1, 4, 3, 3)], weights)
    assert counted(imported(file)) == {"g": 4 * 3 * 8 * 2, "z": 12 * 3 * 2}


def test_convolutions_of_characters_and_of_packed_rows(save):
    """6 words of 9 characters, 3 at a time, of 4 elements, 5 filters; 7 rows of 8 channels, 4 taps each."""
    nodes = [vendor("WordConvEmbedding", "x w b c", "e"), node("MatMul", "e v", "z")]
    constants = [weight("w", 5, 1, 3, 4), weight("b", 5), weight("c", 100, 4), weight("v", 5, 2)]
    inputs = [helper.make_tensor_value_info("x", TensorProto.INT32, [2, 3, 9])]
    assert counted(imported(save(nodes, inputs, constants))) == {"e": 6 * 7 * 3 * 4 * 5, "z": 6 * 5 * 2}
    nodes = [vendor("VarlenCausalConvWithState", "x w starts - s", "c"), node("MatMul", "c v", "z")]
    inputs = [value("x", 7, 8), value("starts", 3), value("s", 2, 8, 3)]
    file = save(nodes, inputs, [weight("w", 8, 1, 4), weight("v", 8, 2)])
    assert counted(imported(file)) == {"c": 7 * 8 * 4, "z": 7 * 8 * 2}


def test_padding_that_is_an_input_is_taken(save):
    """4 x 4 inputs, 3 x 3 taps, stride 2: 9 x 9 results, 7 x 7 after one is cut off each side; each input meets each
    tap once, but for those that are cut off.
    """
    nodes = [vendor("ConvTransposeWithDynamicPads", "x w pads", "c", strides=[2, 2], kernel_shape=[3, 3])]
    file = save(nodes, [value("x", 1, 1, 4, 4)], [weight("w", 1, 1, 3, 3), integers("pads", 1, 1, 1, 1)])
    along = sum(0 <= 2 * at + tap - 1 < 7 for at in range(4) for tap in range(3))
    assert sum(counted(imported(file)).values()) == along**2


@pytest.mark.parametrize(
    ("moving", "constants", "shape"),
    [
        (vendor("Pad", "x pads", "m"), [integers("pads", 0, 1, 0, 2)], (3, 11)),
        (vendor("GatherND", "x places", "m"), [integers("places", 0)], (8,)),
        (vendor("GatedAdd", "x x gate", "m"), [weight("gate", 3, 1)], (3, 8)),
        (vendor("QuantizeWithOrder", "x s", "m", order_input=1, order_output=1), [weight("s", 1)], (3, 8)),
    ],
    ids=lambda case: getattr(case, "op_type", None),
)
def test_what_is_behind_an_operator_without_a_product_has_its_shape(save, moving, constants, shape):
    """A product of rows as wide as the result."""
    nodes = [moving, node("Cast", "m", "f", to=TensorProto.FLOAT), node("MatMul", "f w", "z")]
    file = save(nodes, [value("x", 3, 8)], [*constants, weight("w", shape[-1], 5)])
    assert counted(imported(file)) == {"z": int(np.prod(shape)) * 5}


def test_channels_in_blocks_are_counted_as_they_lie(save):
    """12 channels fill blocks of 8, two of them: 6 x 6 places, 3 x 3 taps, 16 channels to 16, of which 10 are kept;
    halved, and 10 x 3 x 3 elements to 5.
    """
    own = {"domain": "com.microsoft.nchwc"}
    nodes = [
        vendor("ReorderInput", "x", "blocks", **own),
        vendor("Conv", "blocks w", "c", kernel_shape=[3, 3], pads=[1, 1, 1, 1], **own),
        vendor("MaxPool", "c", "half", kernel_shape=[2, 2], strides=[2, 2], **own),
        vendor("ReorderOutput", "half", "y", channels=10, **own),
        node("Flatten", "y", "rows"),
        node("MatMul", "rows v", "z"),
    ]
    file = save(nodes, [value("x", 1, 12, 6, 6)], [weight("w", 16, 16, 3, 3), weight("v", 90, 5)])
    assert counted(imported(file)) == {"c": 36 * 9 * 16 * 16, "z": 90 * 5}


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        ("EPContext", "compiled for an accelerator, the file does not tell what it computes"),
        ("GreedySearch", "a search that runs whole models, import its encoder and decoder as files of their own"),
    ],
)
def test_refusal_tells_why_nothing_helps(save, kind, reason):
    """With the reason behind the kind."""
    file = save([vendor(kind, "x", "y")], [value("x", 1, 8)])
    assert complaint(file).startswith(f"cannot map 1 com.microsoft.{kind} ({reason}): y")


def test_experts_with_weights_of_eight_bits_have_all_of_them(save):
    """4 rows of 8 channels to 2 experts of 6 units: a type of 8 bits is not packed, whatever the node's default is."""
    kept = [
        TensorProto(name=name, data_type=TensorProto.FLOAT8E4M3FN, dims=dims, data_location=TensorProto.EXTERNAL)
        for name, dims in (("w1", (2, 6, 8)), ("w2", (2, 8, 6)))
    ]
    nodes = [vendor("QMoE", "x p w1 s - w2 s -", "m", k=1, quant_type="fp8"), node("MatMul", "m v", "z")]
    file = save(nodes, [value("x", 4, 8), value("p", 4, 2)], [*kept, weight("s", 2), weight("v", 8, 5)])
    assert counted(imported(file)) == {"m.fc1": 4 * 8 * 6, "m.fc2": 4 * 6 * 8, "z": 4 * 8 * 5}


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_transforms_of_several_axes_lie_one_behind_the_other(save, rank):
    """Of 4 x 6 x 8 real elements in 3 rows: the last axis to 5 complex elements, then each other axis of as many
    complex ones; back the other way round.
    """
    sizes = (4, 6, 8)[3 - rank :]
    nodes = [vendor("Rfft", "x", "f", signal_ndim=rank), vendor("Irfft", "f", "y", signal_ndim=rank)]
    macs = counted(imported(save([*nodes, node("MatMul", "y w", "z")], [value("x", 3, *sizes)], [weight("w", 8, 5)])))
    lines = math.prod(sizes) // 8
    once = 3 * (lines * 8 * 10 + sum(lines * 5 // size * (2 * size) ** 2 for size in sizes[:-1]))
    assert macs.pop("z") == 3 * lines * 8 * 5
    assert sum(macs.values()) == 2 * once
    assert len(macs) == 2 * rank


# --- Recurrent layers with attention ----------------------------------------------------------------------------------


@pytest.mark.parametrize("directions", [1, 2])
@pytest.mark.parametrize("attention", [None, 8])
def test_recurrent_attention_counts_each_step(save, directions, attention):
    """5 steps of 2 rows, 6 channels and 4 units, over a memory of 7 steps and 3 channels in 5 channels of attention;
    each step also reads the attention of the step before, 8 channels of its own layer or the 3 of the memory.
    """
    read = "x w r - - - - - qw mw v m lengths" + (" aw" if attention else "")
    lstm = vendor("AttnLSTM", read, "y", hidden_size=4, direction="bidirectional" if directions == 2 else "forward")
    state = attention or 3
    shapes = {"w": (16, 6 + state), "r": (16, 4), "qw": (4, 5), "mw": (3, 5), "v": (5,), "aw": (7, 8)}
    constants = [weight(name, directions, *shape) for name, shape in shapes.items()]
    inputs = [value("x", 5, 2, 6), value("m", 2, 7, 3), value("lengths", 2)]
    network = imported(save([lstm, node("MatMul", "y u", "fc")], inputs, [*constants, weight("u", 4, 9)]))
    macs = {
        "y.keys": 2 * 7 * 3 * 5,
        "y.input": 5 * 2 * 6 * 16,
        "y.recurrent": 5 * 2 * (state + 4) * 16,
        "y.query": 5 * 2 * 4 * 5,
        "y.alignment": 5 * 2 * 7 * 5,
        "y.context": 5 * 2 * 7 * 3,
        **({"y.attention": 5 * 2 * (4 + 3) * 8} if attention else {}),
    }
    expected = {name: directions * count for name, count in macs.items()}
    assert counted(network) == expected | {"fc": 5 * directions * 2 * 4 * 9}
    assert not next(layer for layer in network.layers if layer.name == "y.context").weights


@pytest.mark.parametrize("opset", [1, 20])
def test_recurrent_layers_of_any_operator_set_have_as_many_results_as_units(save, opset):
    """3 gates of 4 units: a product behind the layer reads 4 channels, in 5 steps of 2 rows."""
    gru = node("GRU", "x w r", "y", hidden_size=4)
    constants = [weight("w", 1, 12, 6), weight("r", 1, 12, 4), weight("u", 4, 9)]
    network = imported(save([gru, node("MatMul", "y u", "fc")], [value("x", 5, 2, 6)], constants, opset=opset))
    assert counted(network) == {"y.input": 10 * 6 * 12, "y.recurrent": 10 * 4 * 12, "fc": 10 * 4 * 9}


# --- Matrices ---------------------------------------------------------------------------------------------------------


def eliminated(size, inverse):
    """Multiply-accumulates of an elimination, by doing it: rows below each pivot, or of an inverse all other rows,
    where the columns that are already known take none.
    """
    count = 0
    for pivot in range(size):
        for _ in range(size - 1) if inverse else range(pivot + 1, size):
            count += size if inverse else size - pivot - 1
    return count


@pytest.mark.parametrize(("kind", "inverse"), [("Inverse", True), ("Det", False)])
def test_elimination_is_told_with_its_share(save, kind, inverse):
    """3 matrices of 4 x 4: no product, but known work."""
    operator = vendor(kind, "m", "d") if inverse else node(kind, "m", "d")
    file = save([operator, node("MatMul", "x w", "z")], [value("m", 3, 4, 4), value("x", 6, 7)], [weight("w", 7, 5)])
    name = operator.domain + "." * inverse + kind
    assert complaint(file).startswith(f"cannot map 1 {name} (elimination on matrices, no product): d")
    (skipped,) = import_network(file, skip_unsupported=True).skipped
    assert skipped.macs == 3 * eliminated(4, inverse)
