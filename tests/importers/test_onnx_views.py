"""What imported layers state about tensors that they see pooled or resized, and about maps of pyramids.

The expected fields are those that `docs/array.md`, section 2, gives these networks.
"""

import numpy as np
import onnx
import pytest

from cpsat_pim.planner.graph import build_graph
from cpsat_pim.workload.joins import Pool, Resize, View
from tests.importers.onnx_models import between, imported, node, value, weight

RESIZES = [
    ({}, "nearest"),  # half pixels, and sizes that are multiples
    ({"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}, "nearest"),
    ({"nearest_mode": "round_prefer_ceil"}, "nearest"),
    ({"nearest_mode": "floor"}, None),  # half pixels: row 2 of twice as many lies at 0.75, which is row 0
    ({"nearest_mode": "ceil"}, None),  # and row 1 at 0.25, which is row 1
    ({"coordinate_transformation_mode": "tf_half_pixel_for_nn"}, None),  # row 1 at 0.75, which rounds to row 1
    ({"coordinate_transformation_mode": "asymmetric"}, None),  # rounds to the next one
    ({"mode": "linear"}, "linear"),
    ({"mode": "linear", "coordinate_transformation_mode": "pytorch_half_pixel"}, "linear"),
    ({"mode": "linear", "coordinate_transformation_mode": "align_corners"}, "corners"),
    ({"mode": "linear", "coordinate_transformation_mode": "asymmetric"}, None),
    ({"mode": "linear", "antialias": 1}, None),
    ({"mode": "cubic"}, None),
]


@pytest.mark.parametrize(("given", "kind"), RESIZES)
def test_tensor_that_is_resized_beside_another_one_is_a_view(save, given, kind):
    """Up-sampled to where it came from, and concatenated; a plan refuses what is resized in another way."""
    file = save(
        [
            node("Conv", "x w1", "skip"),
            node("Conv", "skip w2", "down", strides=[2, 2]),
            onnx.helper.make_node("Resize", ["down", "", "scales"], ["up"], "up", **given),
            node("Concat", "skip up", "cat", axis=1),
            node("Conv", "cat w3", "conv", pads=[1, 1, 1, 1]),
        ],
        [value("x", 1, 2, 8, 6)],
        [
            *(weight("w1", 4, 2, 1, 1), weight("w2", 3, 4, 1, 1), weight("w3", 5, 7, 3, 3)),
            onnx.numpy_helper.from_array(np.array([1, 1, 2, 2], np.float32), "scales"),
        ],
    )
    network = imported(file)
    if kind is None:
        with pytest.raises(ValueError, match="conv: after: must have one size"):
            build_graph(network)
        return
    assert between(network)["conv"] == {
        "join": "concat",
        "views": {"down": View(resize=Resize(size=(6, 8), kind=kind))},
    }


@pytest.mark.parametrize(("scale", "is_planned"), [(2.0, True), (1.5, True), (1.6, False)])
def test_resizing_by_a_scale_that_is_not_the_ratio_of_sizes_is_not_planned(save, scale, is_planned):
    """6 columns times 1.6 are 9: the middle of column 1 lies at 1.5 / 1.6 - 0.5 = 0.44, not at 1.5 * 6 / 9 - 0.5."""
    file = save(
        [
            node("Conv", "x w1", "first"),
            onnx.helper.make_node(
                "Resize",
                ["first", "", "scales"],
                ["up"],
                "up",
                mode="linear",
                coordinate_transformation_mode="half_pixel",
            ),
            node("Conv", "up w2", "conv"),
        ],
        [value("x", 1, 2, 6, 6)],
        [
            *(weight("w1", 4, 2, 1, 1), weight("w2", 3, 4, 1, 1)),
            onnx.numpy_helper.from_array(np.array([1, 1, scale, scale], np.float32), "scales"),
        ],
    )
    network = imported(file)
    if is_planned:
        build_graph(network)
    else:
        with pytest.raises(ValueError, match="conv: takes 9 columns"):
            build_graph(network)


@pytest.mark.parametrize(("window", "stride"), [(3, 1), (2, 2)])
def test_tensor_that_is_pooled_behind_its_resizing_is_not_planned(save, window, stride):
    """Whether the pooling keeps the size of the resized tensor or gives it the size that it had before."""
    file = save(
        [
            node("Conv", "x w1", "first"),
            onnx.helper.make_node("Resize", ["first", "", "scales"], ["up"], "up"),
            node("MaxPool", "up", "pooled", kernel_shape=[window] * 2, strides=[stride] * 2, pads=[window // 3] * 4),
            node("Conv", "pooled w2", "conv"),
        ],
        [value("x", 1, 2, 8, 6)],
        [
            *(weight("w1", 4, 2, 1, 1), weight("w2", 3, 4, 1, 1)),
            onnx.numpy_helper.from_array(np.array([1, 1, 2, 2], np.float32), "scales"),
        ],
    )
    with pytest.raises(ValueError, match="conv: takes "):
        build_graph(imported(file))


def test_spatial_pyramid_pooling_lists_its_map_once_for_each_window(save):
    """A map beside itself in windows of 5 x 5, and of 5 x 5 of these: 9 x 9, with twice the zeros in front."""
    pooled = {"kernel_shape": [5, 5], "pads": [2, 2, 2, 2]}
    file = save(
        [
            node("Conv", "x w1", "map"),
            node("MaxPool", "map", "once", **pooled),
            node("MaxPool", "once", "twice", **pooled),
            node("Concat", "map once twice", "cat", axis=1),
            node("Conv", "cat w2", "conv"),
        ],
        [value("x", 1, 2, 8, 6)],
        [weight("w1", 4, 2, 1, 1), weight("w2", 5, 12, 1, 1)],
    )
    network = imported(file)
    assert network.layers[1].after == ("map",) * 3
    once, twice = (View(pool=Pool(window=size, pad=size // 2, size=(6, 8))) for size in (5, 9))
    assert between(network)["conv"] == {"join": "concat", "views": {"map": (View(), once, twice)}}
    (first, *others) = build_graph(network).task("conv").readings
    assert (first.spans[0].first, [one.spans[0].first for one in others]) == (0, [4, 8])


def test_tensor_that_is_read_pooled_and_as_it_is_is_a_view_of_who_pools_it(save):
    """A module of Inception v3: a concatenation, then a convolution beside a pooling, then two layers behind both."""
    file = save(
        [
            *(node("Conv", "x w1", "a"), node("Conv", "x w2", "b"), node("Concat", "a b", "cat", axis=1)),
            node("Conv", "cat w3", "down", strides=[2, 2]),
            node("MaxPool", "cat", "pooled", kernel_shape=[3, 3], strides=[2, 2]),
            node("Concat", "down pooled", "both", axis=1),
            node("Conv", "both w4", "one"),
            node("AveragePool", "both", "mean", kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
            node("Conv", "mean w4", "other"),
        ],
        [value("x", 1, 2, 7, 7)],
        [*(weight("w1", 4, 2, 1, 1), weight("w2", 3, 2, 1, 1), weight("w3", 5, 7, 3, 3), weight("w4", 2, 12, 1, 1))],
    )
    found = between(imported(file))
    half = View(pool=Pool(window=(3, 3), stride=(2, 2), size=(3, 3)))
    assert found["one"] == {"join": "concat", "views": {"a": half, "b": half}}
    # Windows of 3 that begin 2 apart, three of them: 7 columns, the first one 2 in front of the tensor.
    again = View(pool=Pool(window=(7, 7), stride=(2, 2), pad=(2, 2), size=(3, 3)))
    mean = View(pool=Pool(window=(3, 3), pad=(1, 1), size=(3, 3)))
    assert found["other"] == {"join": "concat", "views": {"down": mean, "a": again, "b": again}}


def pyramid(save, *more):
    """Two maps of 8 x 6, 4 x 3 and 2 x 2 channels each; the larger ones are added to what the smaller one becomes."""
    return imported(
        save(
            [
                node("Conv", "x w1", "large"),
                node("Conv", "large w2", "small", strides=[2, 2]),
                node("Conv", "large w2", "lateral"),
                node("Conv", "small w2", "top"),
                onnx.helper.make_node("Resize", ["top", "", "scales"], ["up"], "up", **ASYMMETRIC),
                node("Add", "lateral up", "sum"),
                node("Conv", "top w2", "coarse"),
                node("Conv", "sum w2", "fine"),
                *more,
            ],
            [value("x", 1, 2, 8, 6)],
            [
                *(weight("w1", 4, 2, 1, 1), weight("w2", 4, 4, 1, 1)),
                onnx.numpy_helper.from_array(np.array([1, 1, 2, 2], np.float32), "scales"),
            ],
        )
    )


ASYMMETRIC = {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}


def test_map_that_is_resized_and_added_is_added_by_the_other_layer(save):
    """The lateral layer adds the one of the level above, which comes first then; both are read by others."""
    network = pyramid(save)
    names = [layer.name for layer in network.layers]
    assert names.index("top") < names.index("lateral")
    assert between(network)["lateral"] == {"adds": {"top": View(resize=Resize(size=(6, 8)))}}
    assert between(network)["fine"] == between(network)["coarse"] == {}
    build_graph(network)


def test_map_that_is_read_without_what_is_added_to_it_is_added_by_the_other_reader(save):
    """Who reads the sum adds the one of the level above to what it reads; the lateral layer adds nothing."""
    network = pyramid(save, node("Conv", "lateral w2", "alone"))
    assert between(network)["fine"] == {"input_adds": {"top": View(resize=Resize(size=(6, 8)))}}
    assert between(network)["lateral"] == between(network)["alone"] == {}
    build_graph(network)
