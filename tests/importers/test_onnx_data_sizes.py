"""ONNX files with sizes that data decide: what is chosen by a mask, what is left of overlapping boxes."""

import pytest

from tests.importers.onnx_models import complaint, helper, imported, integers, layer, layers, node, value, weight


@pytest.fixture
def chosen(save):
    """Two products of the rows that a mask chooses, 5 features each to 6 and to 7."""
    nodes = [
        node("NonZero", "mask", "places"),
        node("Squeeze", "places first", "rows"),
        node("Gather", "x rows", "some"),
        node("MatMul", "some w", "fc"),
        node("MatMul", "fc v", "out"),
    ]
    return save(
        nodes, [value("mask", 9), value("x", 9, 5)], [integers("first", 0), weight("w", 5, 6), weight("v", 6, 7)]
    )


@pytest.mark.parametrize("name", ["places.1", "rows.0", "some.0"])
def test_size_that_data_decide_is_bound_at_any_tensor_in_front(chosen, name):
    """4 of 9 rows are chosen."""
    expected = layer("fc", P=4, C=5, K=6) | layer("out", P=4, C=6, K=7)
    assert layers(imported(chosen, **{name: 4})) == expected


def test_size_that_data_decide_is_named_where_it_comes_from(chosen):
    """Both products are without a shape because of one axis."""
    assert complaint(chosen).startswith("cannot map 2 MatMul (of unknown shape, --bind places.1=... may tell): fc, out")


@pytest.mark.parametrize(
    ("bind", "message"),
    [
        ({"places.0": 1}, "no open dim is named 'places.0': that size is known, or the tensor has no such axis"),
        ({"places.1": 4, "fc.7": 4}, "no open dim is named 'fc.7': that size is known, or the tensor has no such axis"),
        ({"nothing.1": 4}, "no open dim is named 'nothing.1', all sizes are given"),
        ({"places.1": 0}, "the size 'places.1' must be positive (got 0)"),
    ],
)
def test_size_that_is_not_open_is_not_bound(chosen, bind, message):
    """The first axis of the places is that of the mask's axes, of which it has one."""
    assert complaint(chosen, **bind) == message


def test_size_that_data_decide_is_bound_by_its_symbol(save):
    """Exporters name what data decide: here the rows that are left of 20 boxes."""
    nodes = [node("NonMaxSuppression", "boxes scores", "kept"), node("Gather", "kept last", "rows", axis=1)]
    nodes += [node("Gather", "x rows", "some"), node("MatMul", "some w", "fc")]
    known = [helper.make_tensor_value_info("kept", 7, ["u0", 3])]
    inputs = [value("boxes", 1, 20, 4), value("scores", 1, 1, 20), value("x", 20, 5)]
    file = save(nodes, inputs, [helper.make_tensor("last", 7, [], [2]), weight("w", 5, 6)], value_info=known)
    assert layers(imported(file, u0=8)) == layer("fc", P=8, C=5, K=6)


def test_joined_sequence_is_bound(save):
    """ONNX does not follow the sizes of a sequence's tensors: 3 columns and 2 are 5."""
    nodes = [node("SequenceConstruct", "a b", "both"), node("ConcatFromSequence", "both", "x", axis=1)]
    file = save([*nodes, node("MatMul", "x w", "fc")], [value("a", 4, 3), value("b", 4, 2)], [weight("w", 5, 6)])
    assert "--bind x.1=... may tell" in complaint(file)
    assert layers(imported(file, **{"x.1": 5})) == layer("fc", P=4, C=5, K=6)


def test_results_without_a_name_are_no_inputs(save):
    """A mask that nobody wants, and a bias that is absent, have the empty name both."""
    nodes = [
        helper.make_node("Dropout", ["x"], ["kept", ""], "drop"),
        helper.make_node("Gemm", ["kept", "w", ""], ["fc"]),
    ]
    assert layers(imported(save(nodes, [value("x", 4, 5)], [weight("w", 5, 6)]))) == layer("fc", P=4, C=5, K=6)
