"""ONNX files of convolutions: shapes, graph, padding, scales, phases."""

from collections import Counter

import pytest

from tests.importers.onnx_models import TensorProto, helper, imported, layer, layers, node, value, weight


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
    phases = [layer(f"up.phase{at}", R=2, S=2, P=8, Q=8, C=6, K=5) for at in range(4)]
    assert layers(network) == {name: own for phase in phases for name, own in phase.items()}
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
