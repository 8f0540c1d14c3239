"""ONNX files with what cannot be mapped."""

import pytest

from cpsat_pim.importers import import_network
from tests.importers.onnx_models import (
    Save,
    TensorProto,
    complaint,
    helper,
    layer,
    layers,
    node,
    value,
    weight,
)


def unsupported(save: Save) -> str:
    """A file with a product between operators that are no layers, and one that nobody knows."""
    return save(
        [
            node("Conv", "x4 w", "h"),
            node("Flatten", "h", "rows"),
            node("MatMul", "rows v", "fc"),
            node("Det", "m", "d1"),
            node("Det", "m", "d2"),
            node("Add", "fc d1", "sum"),
            node("Magic", "sum d2", "magic", domain="custom"),
            node("MatMul", "magic v", "lost"),
        ],
        [value("x4", 1, 3, 2, 2, 2, 4), value("m", 2, 2)],
        [weight("w", 8, 3, 1, 1, 1, 2), weight("v", 192, 8)],
    )


def test_every_operator_that_cannot_be_mapped_is_named(save):
    """All of them, with how often each occurs, and a product whose shape is not known behind one."""
    assert complaint(unsupported(save)) == (
        "cannot map 1 Conv (4-D): h; 2 Det (elimination on matrices, no product): d1, d2; 1 custom.Magic: magic; "
        "1 MatMul (of unknown shape): lost "
        "(--unsupported skip goes on without)"
    )


def test_skipping_goes_on_without_them_and_tells(save):
    """The product behind the convolution knows its shape, 8 channels of 2 x 2 x 2 x 3, and where its data come from."""
    result = import_network(unsupported(save), skip_unsupported=True)
    assert layers(result.network) == layer("fc", C=192, K=8)
    assert result.network.layers[0].after == ("input",)
    assert result.summary[:2] == ["1 Conv (4-D): h", "2 Det (elimination on matrices, no product): d1, d2"]


def test_branches_are_skipped_with_what_they_read(save):
    """An If hides what it computes; what it takes from outside comes before what reads its result."""
    once = helper.make_graph([node("MatMul", "a w", "inner")], "once", [], [value("inner", 3, 8)])
    again = [node("MatMul", "a w", "first"), node("MatMul", "first w", "second")]
    twice = helper.make_graph(again, "twice", [], [value("second", 3, 8)])
    file = save(
        [
            node("MatMul", "x w", "a"),
            helper.make_node("If", ["flag"], ["b"], "if", then_branch=once, else_branch=twice),
            node("MatMul", "b w", "c"),
        ],
        [value("x", 3, 8), helper.make_tensor_value_info("flag", TensorProto.BOOL, [])],
        [weight("w", 8, 8)],
        value_info=[value("b", 3, 8)],
    )
    result = import_network(file, skip_unsupported=True)
    assert result.summary == ["1 If (its condition 'flag' is not known, --bind flag=... may tell): if"]
    assert set(result.network.layers[1].after) == {"a", "input"}


def test_branches_with_the_same_layers_are_one_of_them(save):
    """Two products of 3 x 8 by 8 x 8 in a row, of other weights in each branch: one of the two, once."""
    branches = [
        helper.make_graph(
            [node("MatMul", f"a {name}", f"{name}1"), node("MatMul", f"{name}1 {name}", f"{name}2")],
            name,
            [],
            [value(f"{name}2", 3, 8)],
        )
        for name in "vw"
    ]
    file = save(
        [
            node("MatMul", "x w", "a"),
            helper.make_node("If", ["flag"], ["b"], "if", then_branch=branches[0], else_branch=branches[1]),
            node("MatMul", "b w", "c"),
        ],
        [value("x", 3, 8), helper.make_tensor_value_info("flag", TensorProto.BOOL, [])],
        [weight("v", 8, 8), weight("w", 8, 8)],
    )
    network = import_network(file).network
    assert [(layer.name, layer.after, layer.count) for layer in network.layers] == [
        *(("a", ("input",), 1), ("v1", ("a",), 1), ("v2", ("v1",), 1), ("c", ("v2",), 1))
    ]
    assert {(layer.workload.P, layer.workload.C, layer.workload.K) for layer in network.layers} == {(3, 8, 8)}


def test_network_without_products_is_refused(save):
    """There is nothing to map."""
    assert complaint(save([node("Relu", "x", "y")], [value("x", 3)])) == "holds no convolution or matrix product"


def test_layer_too_large_is_named(save):
    """As the layer's own rule says it."""
    file = save([node("MatMul", "x w", "fc")], [value("x", 2**30, 2**31)], [weight("w", 2**31, 2**30)])
    assert complaint(file).startswith("fc (MatMul): ConvWorkload: the product of the bounds must stay below 2^62")


def test_nothing_but_what_cannot_be_mapped_is_named(save):
    """Skipping it leaves nothing to map."""
    file = save([node("Det", "m", "d")], [value("m", 2, 2)])
    with pytest.raises(
        ValueError, match=r"onnx: holds nothing else than what cannot be mapped: 1 Det \(elimination .*\): d$"
    ):
        import_network(file, skip_unsupported=True)
