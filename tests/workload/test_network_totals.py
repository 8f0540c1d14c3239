"""The network files against published totals and against their own graphs."""

import itertools
import math
from pathlib import Path

import pytest
import yaml

from cpsat_pim.workload.network import read_network

NETWORKS = Path(__file__).parents[2] / "cpsat_pim" / "workload" / "networks"
DIMS = "RSPQCKNG"
KEYS = {"name", *DIMS, "stride", "dilation", "after", "count", "weights", "join", "pool", "input_pool"}
# Convolutions and matrix products of each definition (see the `Source` line of its file).
LAYER_COUNTS = {
    "alexnet": 5 + 3,
    "bert-base": 12 * 8 + 1,  # query, key, value, scores, context, output projection, 2 feed-forward; the pooler
    "darknet53": 1 + 5 + 2 * (1 + 2 + 8 + 8 + 4) + 1,  # stem, down-samplings, two per residual block, classifier
    "googlenet": 3 + 9 * 6 + 1,
    "mobilenetv2": 1 + 2 + 16 * 3 + 1 + 1,  # stem, bottleneck without expansion, 16 with, last 1x1, classifier
    "resnet50": 1 + 3 * (3 + 4 + 6 + 3) + 4 + 1,  # stem, three per block, projections, classifier
    "resnet152": 1 + 3 * (3 + 8 + 36 + 3) + 4 + 1,
    "vgg16": 13 + 3,
}
CONCATENATING = {"googlenet"}  # elsewhere several predecessors are the operands of an add

# With parameters; see test_language_models.py.
PARAMETRISED = {"gpt3-13b", "llama-7b", "llama-33b", "vit-l"}

each_network = pytest.mark.parametrize("network", LAYER_COUNTS)


def read_layers(network):
    """Return the layer mappings of a network file, in execution order."""
    return yaml.safe_load((NETWORKS / f"{network}.yaml").read_text())["layers"]


def bound(layer, dim):
    """Return a loop bound; an absent one is 1."""
    return layer.get(dim, 1)


def macs(layers):
    """Return the multiply-accumulates of some layers."""
    return sum(math.prod(bound(layer, dim) for dim in DIMS) * layer.get("count", 1) for layer in layers)


def second_operand_elems(layer):
    """Return the elements of W, or of the activations in its place."""
    return math.prod(bound(layer, dim) for dim in "RSCKG")


def weights(layers):
    """Return the weights of some layers, without biases and norms."""
    return sum(second_operand_elems(layer) * layer.get("count", 1) for layer in layers if layer.get("weights", True))


def out_channels(layer):
    """Return the output channels of all groups."""
    return bound(layer, "G") * bound(layer, "K")


def in_channels(layer):
    """Return the input channels of all groups."""
    return bound(layer, "G") * bound(layer, "C")


def shape(layer):
    """Return all that makes two layers equal to a mapper."""
    return (*(bound(layer, dim) for dim in DIMS), *layer.get("stride", [1, 1]), *layer.get("dilation", [1, 1]))


def predecessors(layer, layers):
    """Return the layers that a layer comes after, without the network's input."""
    by_name = {other["name"]: other for other in layers}
    return [by_name[name] for name in layer["after"] if name != "input"]


def is_fully_connected(layer):
    """Return whether a layer of a CNN belongs to its classifier."""
    return layer["name"].startswith("fc")


# --- Totals ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("network", "published", "tolerance"),
    [
        # torchvision's model tables (`_ops` of the weights, in units of 10^9; what they call FLOPs are MACs).
        ("resnet50", 4.089e9, 0.0005e9),
        ("resnet152", 11.514e9, 0.0005e9),
        ("vgg16", 15.47e9, 0.005e9),
        ("mobilenetv2", 0.301e9, 0.0005e9),
        # Sandler et al., CVPR 2018, table 4: "300M" multiply-adds; 300.8M here, so the paper cut rather than rounded.
        ("mobilenetv2", 300e6, 1e6),
        # Sze et al., Proc. IEEE 105(12), 2017, table II.
        ("alexnet", 724e6, 0.5e6),
        ("vgg16", 15.5e9, 0.05e9),
        # https://pjreddie.com/darknet/imagenet: 18.57 Bn operations, two per MAC. (YOLOv3, table 2, has 18.7 for the
        # same network, 0.7% more, and does not say what it counts.)
        ("darknet53", 18.57e9 / 2, 0.005e9 / 2),
        # Model card of timm/darknet53.c2ns_in1k (256 x 256).
        ("darknet53", 9.3e9, 0.05e9),
        # Table 1 of the paper adds up to 34+360+128+304+73+88+100+119+170+54+71+1 = 1502M. Its conv1 is wrong: 7*7*3*64
        # weights at 112*112 positions are 118M, not 34M; its 5a row has 54M for filters that give 51.1M (see below).
        # 1502 - 34 + 118 - 54 + 51.1 = 1583.1M, each of twelve rows rounded by at most 1M.
        ("googlenet", 1583.1e6, 12e6),
        # README of github.com/cli99/flops-profiler: BERT-base, batch 1, sequence length 128.
        ("bert-base", 11.17e9, 0.005e9),
    ],
)
def test_macs_match_the_published_figure(network, published, tolerance):
    """A network's MACs are the published ones up to the rounding of the publication."""
    assert read_network(network).total_macs == pytest.approx(published, rel=0, abs=tolerance)


@pytest.mark.parametrize(
    ("network", "extra_per_conv_channel", "published", "tolerance"),
    [
        # torchvision's `num_params`. Convolutions without bias, a batch norm (scale, shift) behind each.
        ("resnet50", 2, 25_557_032, 0),  # 25,502,912 weights + 2*26,560 + 1,000
        ("resnet152", 2, 60_192_808, 0),  # 60,040,384 + 2*75,712 + 1,000
        ("mobilenetv2", 2, 3_504_872, 0),  # 3,469,760 + 2*17,056 + 1,000
        # torchvision's `num_params`. A bias in each layer, no batch norm.
        ("vgg16", 1, 138_357_544, 0),  # 138,344,128 + 13,416
        # bvlc_alexnet (Caffe; "60 million" in the paper), a bias in each layer.
        ("alexnet", 1, 60_965_224, 0),  # 60,954,656 + 10,568
        # bvlc_googlenet (Caffe) without its auxiliary heads, a bias in each layer.
        ("googlenet", 1, 6_998_552, 0),  # 6,990,272 + 8,280
        # Model card of timm/darknet53.c2ns_in1k. Batch norms, a bias in the classifier.
        ("darknet53", 2, 41.6e6, 0.05e6),  # 41,573,216 + 2*17,856 + 1,000 = 41,609,928
    ],
)
def test_weights_plus_biases_and_norms_match_the_published_parameters(
    network, extra_per_conv_channel, published, tolerance
):
    """A network's weights, with the biases and batch norms that the files leave out, are the published parameters."""
    layers = read_layers(network)
    extras = sum(out_channels(x) * (1 if is_fully_connected(x) else extra_per_conv_channel) for x in layers)
    assert abs(read_network(network).total_weights + extras - published) <= tolerance


@pytest.mark.parametrize(
    ("network", "conv_macs", "conv_weights", "fc_weights"),
    [
        # Convolutions: Chen et al., ISSCC 2016 ("2.3 million weights and 666 million MACs per 227 x 227 image", "14.7
        # million weights and 15.3 billion MACs per 224 x 224 image"). Fully connected: Sze et al. 2017, table II.
        ("alexnet", (666e6, 0.5e6), (2.3e6, 0.05e6), (58.6e6, 0.05e6)),
        ("vgg16", (15.3e9, 0.05e9), (14.7e6, 0.05e6), (124e6, 0.5e6)),
    ],
)
def test_convolutions_and_classifier_match_the_published_split(network, conv_macs, conv_weights, fc_weights):
    """Where convolutions and fully connected layers are published apart, each part matches."""
    layers = read_layers(network)
    convs = [layer for layer in layers if not is_fully_connected(layer)]
    fcs = [layer for layer in layers if is_fully_connected(layer)]
    assert macs(convs) == pytest.approx(conv_macs[0], rel=0, abs=conv_macs[1])
    assert weights(convs) == pytest.approx(conv_weights[0], rel=0, abs=conv_weights[1])
    assert weights(fcs) == pytest.approx(fc_weights[0], rel=0, abs=fc_weights[1])
    assert macs(fcs) == weights(fcs)  # one row: each weight is used once


@pytest.mark.parametrize(
    ("prefix", "published_macs"),
    [
        ("conv2", 360e6),
        ("inception3a", 128e6),
        ("inception3b", 304e6),
        ("inception4a", 73e6),
        ("inception4b", 88e6),
        ("inception4c", 100e6),
        ("inception4d", 119e6),
        ("inception4e", 170e6),
        # Row 5a says 54M; its own filters give (832*(256 + 160 + 32 + 128) + 9*160*320 + 25*32*128) * 49 = 51.1M.
        ("inception5a", 51.1e6),
        ("inception5b", 71e6),
        ("fc", 1e6),
    ],
)
def test_googlenet_modules_match_the_rows_of_table_1(prefix, published_macs):
    """Each module has the operations of its row (Szegedy et al., CVPR 2015, table 1; some are cut, not rounded)."""
    module = [layer for layer in read_layers("googlenet") if layer["name"].startswith(prefix)]
    assert macs(module) == pytest.approx(published_macs, rel=0, abs=1e6)


def test_googlenet_with_3x3_for_5x5_is_torchvisions():
    """With torchvision's 3x3 in place of 5x5 (pytorch/vision#906), the totals are torchvision's: 1.498 G, 6,624,904."""
    layers = [layer | {"R": 3, "S": 3} if layer.get("R") == 5 else layer for layer in read_layers("googlenet")]
    assert macs(layers) == pytest.approx(1.498e9, rel=0, abs=0.0005e9)
    # Batch norms (2 per channel) behind the convolutions, a bias in the classifier: 8,280 - 1,000 channels.
    assert weights(layers) + 2 * 7_280 + 1_000 == 6_624_904


def test_bert_parts_match_the_published_figures():
    """Linear layers and products of activations are each the published ones (flops-profiler README, length 128)."""
    layers = read_layers("bert-base")
    products = [layer for layer in layers if not layer.get("weights", True)]
    assert macs(products) == pytest.approx(301.99e6, rel=0, abs=0.005e6)
    assert macs(layers) - macs(products) == pytest.approx(10.87e9, rel=0, abs=0.005e9)
    # Per encoder layer 4*768^2 + 2*768*3072 = 7,077,888 weights; with biases (4*768 + 3072 + 768 = 6,912) and two layer
    # norms (4*768 = 3,072) 7,087,872, twelve of which are the published 85.05M.
    encoder = [layer for layer in layers if layer["name"] != "pooler"]
    assert weights(encoder) + 12 * (6_912 + 3_072) == pytest.approx(85.05e6, rel=0, abs=0.005e6)
    # bert-base-uncased has 109,482,240 parameters, 23,837,184 of them in the embeddings (30,522 + 512 + 2 rows and a
    # layer norm of 2, times 768); the pooler has a bias of 768.
    assert weights(layers) + 12 * (6_912 + 3_072) + 768 == 109_482_240 - 23_837_184


# --- Layers ---------------------------------------------------------------------------------------------------------


def test_every_file_has_a_layer_count():
    """The directory holds the networks tested here and nothing else."""
    assert {path.name for path in NETWORKS.iterdir()} == {f"{name}.yaml" for name in LAYER_COUNTS.keys() | PARAMETRISED}


@each_network
def test_file_states_its_version_name_and_source(network):
    """A file is of version 1, is named like its network and cites its source in its leading comment."""
    text = (NETWORKS / f"{network}.yaml").read_text()
    data = yaml.safe_load(text)
    assert set(data) == {"version", "name", "input", "layers"}
    assert (data["version"], data["name"]) == (1, network)
    assert "Source: " in text.partition("version:")[0]


@each_network
def test_every_layer_has_its_own_line(network):
    """A file has one line per layer of the definition."""
    lines = (NETWORKS / f"{network}.yaml").read_text().splitlines()
    assert sum(line.startswith("- {") for line in lines) == len(read_layers(network)) == LAYER_COUNTS[network]


@each_network
def test_layers_have_known_keys_and_positive_integers(network):
    """A layer has no key but the format's; bounds, strides and counts are positive integers."""
    for layer in read_layers(network):
        assert set(layer) <= KEYS
        numbers = [layer[key] for key in (*DIMS, "count") if key in layer]
        pairs = [layer[key] for key in ("stride", "dilation") if key in layer]
        assert all(len(pair) == 2 for pair in pairs)
        assert all(type(number) is int and number > 0 for number in itertools.chain(numbers, *pairs))


@pytest.mark.parametrize(
    ("network", "unique"),
    [
        # Stem; stage 1: 1x1 64-64, 3x3, 1x1 64-256 (also the projection), 1x1 256-64; stages 2-4: the first block's 1x1
        # (before the stride), 3x3 and projection (strided), then 1x1 up, 1x1 down, 3x3; classifier: 1 + 4 + 3*6 + 1.
        ("resnet50", 24),
        ("resnet152", 24),  # deeper stages repeat the same shapes
        # Projection, scores, context, two feed-forward, pooler.
        ("bert-base", 6),
    ],
)
def test_repeated_layers_share_their_shapes(network, unique):
    """Layers of equal bounds and strides are one shape: a mapper solves it once."""
    assert len({shape(layer) for layer in read_layers(network)}) == unique


# --- Graph ----------------------------------------------------------------------------------------------------------


@each_network
def test_names_are_unique_and_predecessors_come_earlier(network):
    """Names are unique, and a layer runs after layers listed before it: the graph has no cycle."""
    seen = {"input"}
    for layer in read_layers(network):
        assert layer["after"], layer["name"]
        assert len(set(layer["after"])) == len(layer["after"]), layer["name"]
        assert set(layer["after"]) <= seen, layer["name"]
        assert layer["name"] not in seen
        seen.add(layer["name"])


@each_network
def test_every_output_but_the_last_is_used(network):
    """No layer's output is lost: each but the last has a successor."""
    layers = read_layers(network)
    used = {name for layer in layers for name in layer["after"]}
    assert {layer["name"] for layer in layers} - used == {layers[-1]["name"]}


@each_network
def test_channels_continue_from_predecessors(network):
    """A layer's input channels are its predecessors' output channels: their sum if concatenated, each if added."""
    layers = read_layers(network)
    for layer in layers:
        before = [out_channels(other) for other in predecessors(layer, layers)]
        if not layer.get("weights", True):
            before = before[:1]  # the second predecessor is the other operand
        if network in CONCATENATING:
            assert sum(before) == in_channels(layer) or layer["after"] == ["input"], layer["name"]
        else:
            assert set(before) <= {in_channels(layer)}, layer["name"]


@each_network
def test_joined_predecessors_agree_in_size(network):
    """Tensors that are added or concatenated have equal widths and heights."""
    layers = read_layers(network)
    for layer in layers:
        sizes = {(bound(other, "P"), bound(other, "Q")) for other in predecessors(layer, layers)}
        assert len(sizes) <= 1, layer["name"]


@each_network
def test_no_layer_reads_more_than_its_predecessors_and_padding(network):
    """The extent that a layer reads is at most its predecessors' plus a padding of the filter less one."""
    layers = read_layers(network)
    for layer in layers:
        for other in predecessors(layer, layers):
            for out_dim, filter_dim, stride in zip("PQ", "RS", layer.get("stride", [1, 1]), strict=True):
                read = stride * (bound(layer, out_dim) - 1) + bound(layer, filter_dim)
                assert read <= bound(other, out_dim) + bound(layer, filter_dim) - 1, layer["name"]


def test_second_operands_of_activation_products_have_the_size_of_weights():
    """In a product of two activations the second predecessor's output is exactly what takes the place of W."""
    layers = read_layers("bert-base")
    products = [layer for layer in layers if not layer.get("weights", True)]
    assert len(products) == 2 * 12
    for layer in products:
        _, second = predecessors(layer, layers)
        assert out_channels(second) * bound(second, "P") * bound(second, "Q") == second_operand_elems(layer)
