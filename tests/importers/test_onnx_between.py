"""What imported layers state about the tensors between them: joins, pooling, padding, and the size of the input.

The expected fields are those that `docs/array.md`, section 2, gives these networks; each must also be one that `plan`
takes: tensors and layers fit together.
"""

import onnx
import pytest

from cpsat_pim.planner.graph import build_graph
from cpsat_pim.workload.joins import InputSize, Pool
from tests.importers.onnx_models import between, imported, integers, layer, layers, node, value, weight


def test_residual_network_states_sums_and_pools(save):
    """A pool behind the first layer, which all its readers read; a global one behind a sum, which its reader pools."""
    file = save(
        [
            node("Conv", "x w1", "conv1", strides=[2, 2], pads=[3, 3, 3, 3]),  # (32 + 6 - 7) // 2 + 1 = 16
            node("Relu", "conv1", "relu"),
            node("MaxPool", "relu", "pool", kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1]),  # 8
            node("Conv", "pool w2", "conv2", pads=[1, 1, 1, 1]),
            node("Conv", "pool w3", "downsample"),
            node("Add", "conv2 downsample", "sum"),
            node("Conv", "sum w4", "conv3", pads=[1, 1, 1, 1]),
            node("Add", "sum conv3", "sum2"),
            node("GlobalAveragePool", "sum2", "mean"),
            node("Flatten", "mean", "flat"),
            node("Gemm", "flat wf", "fc"),
        ],
        [value("x", 1, 3, 32, 32)],
        [
            *(weight("w1", 16, 3, 7, 7), weight("w2", 24, 16, 3, 3), weight("w3", 24, 16, 1, 1)),
            *(weight("w4", 24, 24, 3, 3), weight("wf", 24, 10)),
        ],
    )
    network = imported(file)
    assert network.input == InputSize(N=1, C=3, H=32, W=32)
    assert between(network) == {
        "conv1": {"pool": Pool(window=(3, 3), stride=(2, 2), pad=(1, 1), size=(8, 8))},
        "conv2": {},
        "downsample": {},
        "conv3": {"join": "add"},
        "fc": {"join": "add", "input_pool": Pool(window=(8, 8), size=(1, 1))},
    }


def test_flattened_tensor_is_read_by_a_convolution_as_large_as_it(save):
    """VGG's first fully connected layer: 4 x 3 positions of 6 channels behind two pools, which are one window."""
    file = save(
        [
            node("Conv", "x w1", "conv", pads=[1, 1, 1, 1]),
            node("MaxPool", "conv", "pool", kernel_shape=[2, 2], strides=[2, 2]),
            node("AveragePool", "pool", "pool2", kernel_shape=[2, 2], strides=[2, 2]),
            node("Flatten", "pool2", "flat"),
            node("Gemm", "flat w2", "fc1", transB=1),
            node("Gemm", "fc1 w3", "fc2", transB=1),
        ],
        [value("x", 1, 3, 16, 12)],
        [weight("w1", 6, 3, 3, 3), weight("w2", 10, 72), weight("w3", 4, 10)],
    )
    network = imported(file)
    fully = layer("fc1", R=3, S=4, C=6, K=10) | layer("fc2", C=10, K=4)
    assert layers(network) == layer("conv", R=3, S=3, P=12, Q=16, C=3, K=6) | fully
    # elements 4 x to 4 x + 3 are in the windows of a pooled element x of the second pool
    pool = Pool(window=(4, 4), stride=(4, 4), size=(3, 4))
    assert between(network) == {"conv": {"pool": pool}, "fc1": {}, "fc2": {}}


def test_module_of_branches_states_its_concatenation(save):
    """One branch pools what all read, so it does so itself; the concatenation is pooled as a whole, by its members."""
    file = save(
        [
            node("Conv", "x w1", "stem"),
            node("Conv", "stem w1", "a"),
            node("Conv", "stem w3", "b", pads=[1, 1, 1, 1]),
            node("MaxPool", "stem", "pool", kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
            node("Conv", "pool w1", "c"),
            node("Concat", "a b c", "joined", axis=1),
            node("MaxPool", "joined", "pooled", kernel_shape=[3, 3], strides=[2, 2], ceil_mode=1),  # 8 -> 4
            node("Conv", "pooled w4", "d"),
            node("Conv", "pooled w4", "e"),
        ],
        [value("x", 1, 4, 8, 8)],
        [weight("w1", 4, 4, 1, 1), weight("w3", 4, 4, 3, 3), weight("w4", 5, 12, 1, 1)],
    )
    behind = Pool(window=(3, 3), stride=(2, 2), size=(4, 4))
    assert between(imported(file)) == {
        "stem": {},
        "a": {"pool": behind},
        "b": {"pool": behind},
        "c": {"pool": behind, "input_pool": Pool(window=(3, 3), pad=(1, 1), size=(8, 8))},
        "d": {"join": "concat"},
        "e": {"join": "concat"},
    }


def test_gate_of_channels_is_an_operand_behind_what_it_is_multiplied_onto(save):
    """Squeeze and excitation in a residual block: the next sum names the product by what the gate is for."""
    file = save(
        [
            node("Conv", "x w1", "wide"),
            node("HardSwish", "wide", "act"),
            node("GlobalAveragePool", "act", "mean"),
            node("Conv", "mean w2", "squeeze"),
            node("Relu", "squeeze", "relu"),
            node("Conv", "relu w3", "excite"),
            node("HardSigmoid", "excite", "gate"),
            node("Mul", "gate act", "scaled"),
            node("Add", "scaled x2", "sum"),
            node("Conv", "x w1", "x2"),
            node("Conv", "sum w1b", "next"),
            node("Add", "next sum", "sum2"),
            node("Conv", "sum2 w1b", "last"),
        ],
        [value("x", 1, 3, 6, 6)],
        [weight("w1", 8, 3, 1, 1), weight("w2", 2, 8, 1, 1), weight("w3", 8, 2, 1, 1), weight("w1b", 8, 8, 1, 1)],
    )
    network = imported(file)
    after = {one.name: one.after for one in network.layers}
    assert after["next"] == ("wide", "excite", "x2")
    assert after["last"] == ("next", "wide")
    assert between(network) == {
        "wide": {},
        "x2": {},
        "squeeze": {"input_pool": Pool(window=(6, 6), size=(1, 1))},
        "excite": {},
        "next": {"join": "add", "pad": (0, 0)},
        "last": {"join": "add"},
    }


def test_sum_whose_first_operand_is_read_alone_later_is_not_planned(save):
    """A plan would read the sum a + b in place of b, which `late` reads; read before the sum is made, b is itself."""
    made = [node("Conv", "x w", "a"), node("Conv", "a w", "b"), node("Add", "a b", "sum"), node("Conv", "sum w", "c")]
    late = [node("Conv", "b w", "late"), node("Add", "c late", "all"), node("Conv", "all w", "end")]
    given = [value("x", 1, 4, 6, 6)], [weight("w", 4, 4, 1, 1)]
    network = imported(save(made + late, *given))
    assert {one.name: one.after for one in network.layers}["c"] == ("b", "a")
    with pytest.raises(ValueError, match="c: join: must be concat or add, as it comes after 2 layers"):
        build_graph(network)
    assert between(imported(save(made, *given)))["c"] == {"join": "add"}


def test_product_with_a_gate_is_pooled_by_its_reader(save):
    """The last block of a network with gates: its mean names the product by what the gate is for, too."""
    file = save(
        [
            node("Conv", "x w1", "wide"),
            node("GlobalAveragePool", "wide", "mean"),
            node("Conv", "mean w2", "gate"),
            node("Mul", "wide gate", "scaled"),
            node("GlobalAveragePool", "scaled", "mean2"),
            node("Conv", "mean2 w2", "head"),
        ],
        [value("x", 1, 3, 6, 6)],
        [weight("w1", 8, 3, 1, 1), weight("w2", 8, 8, 1, 1)],
    )
    network, whole = imported(file), Pool(window=(6, 6), size=(1, 1))
    assert network.layers[-1].after == ("wide", "gate")
    assert between(network) == {"wide": {}, "gate": {"input_pool": whole}, "head": {"join": "add", "input_pool": whole}}


def test_operands_of_which_only_some_are_pooled_pool_their_outputs(save):
    """ResNet-18's first block adds to what the stem's pool leaves; DenseNet concatenates with it, and pools it all."""
    pooled = Pool(window=(2, 2), stride=(2, 2), size=(4, 4))
    stem = [node("Conv", "x w1", "stem"), node("MaxPool", "stem", "pool", kernel_shape=[2, 2], strides=[2, 2])]
    read = [node("Conv", "pool w2", "a"), node("GlobalAveragePool", "both", "mean"), node("Conv", "mean w3", "b")]
    constants = [weight("w1", 6, 3, 1, 1), weight("w2", 6, 6, 1, 1)]
    whole = Pool(window=(4, 4), size=(1, 1))
    for join, nodes, channels in (
        ("add", [node("Add", "a pool", "both")], 6),
        ("concat", [node("Concat", "a pool", "both", axis=1)], 12),
    ):
        file = save([*stem, *nodes, *read], [value("x", 1, 3, 8, 8)], [*constants, weight("w3", 5, channels, 1, 1)])
        assert between(imported(file)) == {
            "stem": {"pool": pooled},
            "a": {},
            "b": {"join": join, "input_pool": whole},
        }


@pytest.mark.parametrize("is_split", [True, False])
def test_queries_keys_and_values_of_one_product_are_channels_of_it(save, is_split):
    """Two heads of 4 channels: split as thirds (GPT-2), or reshaped to [3, heads, channels] and picked out (ViT)."""
    if is_split:
        nodes = [node("Split", "qkv", "q3", axis=2, num_outputs=3)]
        nodes[0].output[:] = ["q3", "k3", "v3"]
        for name in "qkv":
            nodes += [
                node("Reshape", f"{name}3 heads", f"{name}r"),
                node("Transpose", f"{name}r", name, perm=[0, 2, 1, 3]),
            ]
    else:
        nodes = [node("Reshape", "qkv thirds", "r"), node("Transpose", "r", "t", perm=[2, 0, 3, 1, 4])]
        nodes += [node("Gather", f"t i{at}", name, axis=0) for at, name in enumerate("qkv")]
    file = save(
        [
            node("MatMul", "x w", "qkv"),
            *nodes,
            node("Transpose", "k", "kt", perm=[0, 1, 3, 2]),
            node("MatMul", "q kt", "scores"),
            node("Softmax", "scores", "weights", axis=-1),
            node("MatMul", "weights v", "context"),
            node("Transpose", "context", "back", perm=[0, 2, 1, 3]),
            node("Reshape", "back rows", "flat"),
            node("MatMul", "flat wo", "out"),
        ],
        [value("x", 1, 5, 6)],
        [
            *(weight("w", 6, 24), weight("wo", 8, 8), integers("heads", 1, 5, 2, 4), integers("rows", 1, 5, 8)),
            *(integers("thirds", 1, 5, 3, 2, 4), *(onnx.helper.make_tensor(f"i{at}", 7, [], [at]) for at in range(3))),
        ],
    )
    network = imported(file)
    assert {one.name: one.after for one in network.layers}["scores"] == ("qkv", "qkv")
    assert between(network) == {
        "qkv": {},
        "scores": {"channels": ((0, 8),), "weight_channels": ((8, 16),)},
        "context": {"weight_channels": ((16, 24),)},
        "out": {},
    }


def test_shuffled_and_split_channels_are_those_of_their_layers(save):
    """ShuffleNetV2: of two interleaved branches of 4 channels, the second half goes on; the first waits for the next
    concatenation. The order of channels does not matter to a layer with weights and without groups.
    """
    split = node("Split", "flat", "first", axis=1, num_outputs=2)
    split.output[:] = ["first", "second"]
    file = save(
        [
            node("Conv", "x w1", "a"),
            node("Conv", "x w1", "b"),
            node("Concat", "a b", "both", axis=1),
            node("Reshape", "both pairs", "wide"),
            node("Transpose", "wide", "turned", perm=[0, 2, 1, 3, 4]),
            node("Reshape", "turned eight", "flat"),
            split,
            node("Conv", "second w2", "c"),
            node("Concat", "first c", "next", axis=1),
            node("Conv", "next w3", "d"),
        ],
        [value("x", 1, 3, 2, 2)],
        [
            *(weight("w1", 4, 3, 1, 1), weight("w2", 4, 4, 1, 1), weight("w3", 2, 8, 1, 1)),
            *(integers("pairs", 1, 2, 4, 2, 2), integers("eight", 1, 8, 2, 2)),
        ],
    )
    # interleaved: a0 b0 a1 b1 a2 b2 a3 b3, so the first half is a0 b0 a1 b1: channels 0, 4, 1, 5 of a and b
    assert between(imported(file)) == {
        "a": {},
        "b": {},
        "c": {"join": "concat", "channels": ((2, 4), (6, 8))},
        "d": {"join": "concat", "channels": ((0, 2), (4, 6), (8, 12))},
    }


@pytest.mark.parametrize(
    ("how", "pad"),
    [
        ({"auto_pad": "SAME_UPPER"}, (0, 0)),  # 7 - 6 = 1 zero, behind
        ({"auto_pad": "SAME_LOWER"}, None),  # in front, as is half of 1, rounded up
        ({"pads": [0, 0, 1, 1]}, (0, 0)),
        ({"pads": [1, 0, 0, 1]}, (0, 1)),
    ],
)
def test_zeros_in_front_are_stated_where_they_are_not_half(save, how, pad):
    """A kernel of 3 with stride 2 over 6 positions makes 3 of 7."""
    file = save(
        [node("Conv", "x w", "conv", strides=[2, 2], **how)], [value("x", 1, 2, 6, 6)], [weight("w", 4, 2, 3, 3)]
    )
    assert between(imported(file)) == {"conv": {} if pad is None else {"pad": pad}}


@pytest.mark.parametrize(("pads", "pad"), [((0, 0, 0, 0, 0, 0, 1, 1), (0, 0)), ((0, 0, 2, 1, 0, 0, 0, 0), (1, 2))])
def test_padding_before_a_layer_is_the_layers(save, pads, pad):
    """An operator of its own pads behind, or by two rows and a column in front."""
    nodes = [node("Conv", "x w1", "first"), node("Pad", "first pads", "padded"), node("Conv", "padded w2", "conv")]
    constants = [weight("w1", 4, 2, 1, 1), weight("w2", 4, 4, 3, 3), integers("pads", *pads)]
    network = imported(save(nodes, [value("x", 1, 2, 9, 9)], constants))
    assert between(network) == {"first": {}, "conv": {"pad": pad}}


def test_padding_of_named_axes_is_the_layers(save):
    """One column behind, and two rows in front: `pads` has these axes alone."""
    nodes = [
        node("Conv", "x w1", "first"),
        node("Pad", "first pads none axes", "padded"),
        node("Conv", "padded w2", "conv"),
    ]
    nodes[1].input[2] = ""
    constants = [weight("w1", 4, 2, 1, 1), weight("w2", 4, 4, 3, 3)]
    constants += [integers("pads", 0, 2, 1, 0), integers("axes", -1, 2)]
    network = imported(save(nodes, [value("x", 1, 2, 9, 9)], constants))
    assert between(network) == {"first": {}, "conv": {"pad": (0, 2)}}
