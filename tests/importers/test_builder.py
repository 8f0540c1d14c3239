"""What a layer comes after: sums, concatenations, constants, and names."""

import numpy as np
import pytest

from cpsat_pim.importers.builder import NetworkBuilder
from cpsat_pim.importers.channel_maps import taken
from cpsat_pim.importers.counted import Operand
from cpsat_pim.importers.origin import FED, Parts
from cpsat_pim.importers.products import Unmappable


class Chain(NetworkBuilder):
    """A builder whose layers are all one small product with weights."""

    def layer(self, name: str, *read: Parts) -> Parts:
        """A layer of the sum of what it reads."""
        return self.matmul(name, Operand((1, 2), self.merge(*read)), Operand((2, 2), ()))

    def after(self) -> dict[str, tuple[str, ...]]:
        """What each layer comes after."""
        return {layer.name: layer.after for layer in self.network("x").layers}


def test_sum_names_both_operands_the_longer_path_first():
    """conv3 ends the longer path of a bottleneck's sum, wherever it stands in it."""
    chain = Chain()
    shortcut = chain.layer("downsample", FED)
    conv3 = chain.layer("conv3", chain.layer("conv1", FED))
    chain.layer("next", shortcut, conv3)
    assert chain.after()["next"] == ("conv3", "downsample")


def test_residual_stream_is_named_by_the_block_that_finished_it_last():
    """After four blocks of one layer each, a layer names the last two: the others are before these."""
    chain, stream = Chain(), FED
    for block in range(4):
        stream = chain.merge(stream, chain.layer(f"block{block}", stream))
    chain.layer("head", stream)
    assert chain.after()["block1"] == ("block0", "input")
    assert chain.after()["head"] == ("block3", "block2")


def test_operand_of_an_earlier_sum_stays_if_nothing_else_waits_for_it():
    """In (a + b) + c, all from the input, b ends no longer path than a, but without its name no one waits for it."""
    chain = Chain()
    a, b, c = (chain.layer(name, FED) for name in "abc")
    chain.layer("d", chain.merge(chain.merge(a, b), c))
    assert set(chain.after()["d"]) == {"a", "b", "c"}


def test_concatenation_names_every_operand():
    """Each block of a dense net reads all before it."""
    chain, stream = Chain(), FED
    for block in range(3):
        stream = chain.concatenate([stream, chain.layer(f"block{block}", stream)])
    chain.layer("head", stream)
    assert chain.after()["head"] == ("input", "block0", "block1", "block2")


def test_gate_keeps_the_parts_of_what_it_gates():
    """A concatenation that is scaled by what a layer makes of it still names its operands."""
    chain = Chain()
    stream = chain.concatenate([chain.layer("a", FED), chain.layer("b", FED)])
    chain.layer("head", stream, chain.layer("gate", stream))
    assert set(chain.after()["head"]) == {"a", "b", "gate"}


def test_element_wise_use_of_one_tensor_changes_nothing():
    """x * sigmoid(x) of a concatenation is still one."""
    chain = Chain()
    stream = chain.concatenate([chain.layer("a", FED), chain.layer("b", chain.layer("c", FED))])
    assert chain.merge(stream, (), stream) == stream


def test_product_of_activations_names_i_before_w_before_a_mask():
    """Context: scores first, then values, then what is added to the scores."""
    chain = Chain()
    query, key, value = (Operand((1, 3, 2), chain.layer(name, FED)) for name in ("query", "key", "value"))
    chain.attention("attention", query, key, value, FED)
    assert chain.after()["attention.scores"] == ("query", "key")
    assert chain.after()["attention.context"] == ("attention.scores", "value", "input")
    assert [layer.weights for layer in chain.network("x").layers] == [True] * 3 + [False] * 2


def test_product_of_constants_is_no_layer():
    """It can be computed beforehand."""
    chain = Chain()
    assert chain.matmul("a", Operand((2, 2), ()), Operand((2, 2), ())) == ()
    with pytest.raises(ValueError, match=r"^holds no convolution or matrix product$"):
        chain.network("x")


def test_operator_of_constants_is_not_missed():
    """It can be computed beforehand, too, whatever it is."""
    chain = Chain()
    assert chain.skip("Det", "d", (), ()) == ()
    assert chain.skip("Det", "e", (), FED) == FED
    assert [operator.name for operator in chain.skipped] == ["e"]


def test_constant_left_operand_is_the_weights():
    """[8, 3] weights x [3, 5] data are five rows of three channels to eight."""
    chain = Chain()
    chain.matmul("a", Operand((8, 3), ()), Operand((3, 5), FED))
    chain.einsum("b", "kc,cp->kp", [Operand((8, 3), ()), Operand((3, 5), FED)])
    for layer in chain.network("x").layers:
        assert (layer.workload.P, layer.workload.C, layer.workload.K, layer.weights) == (5, 3, 8, True)


def test_query_heads_that_share_keys_are_rows_of_one_product():
    """Eight query heads, two of keys: two groups of four, each with one matrix of keys; 7 rows, 5 keys, 4 channels."""
    chain = Chain()
    chain.attention("a", Operand((3, 8, 7, 4), FED), Operand((3, 2, 5, 4), FED), Operand((3, 2, 5, 6), FED))
    scores, context = (layer.workload for layer in chain.network("x").layers)
    assert (scores.P, scores.C, scores.K, scores.N, scores.G) == (7, 4, 5, 4, 6)
    assert (context.P, context.C, context.K, context.N, context.G) == (7, 5, 6, 4, 6)


def test_query_heads_that_keys_do_not_divide_are_no_layer():
    """Three do not share two."""
    with pytest.raises(Unmappable, match=r"^3 query heads on 2 others$"):
        Chain().attention("a", Operand((3, 7, 4), FED), Operand((2, 5, 4), FED), Operand((2, 5, 6), FED))


def test_einsum_of_one_operand_is_no_product():
    """It is a move or a sum."""
    assert Chain().einsum("a", "ij->ji", [Operand((2, 3), FED)]) == FED


def test_einsum_of_three_operands_is_two_products_from_left_to_right():
    """[2, 3] x [3, 4] is [2, 4] with 24 terms, which times [4, 5] are 40 more; `j` must outlive a product that a later
    operand reads it after: 2 x 3 products, then 2 x 3 x 4.
    """
    chain = Chain()
    chain.einsum("a", "ij,jk,kl->il", [Operand((2, 3), FED), Operand((3, 4), ()), Operand((4, 5), ())])
    chain.einsum("b", "ij,j,jk->ik", [Operand((2, 3), FED), Operand((3,), ()), Operand((3, 4), ())])
    network = chain.network("x")
    assert [(layer.name, layer.workload.macs) for layer in network.layers] == [
        ("a", 2 * 3 * 4),
        ("a_2", 2 * 4 * 5),
        ("b", 2 * 3),
        ("b_2", 2 * 3 * 4),
    ]
    assert [layer.after for layer in network.layers] == [("input",), ("a",), ("input",), ("b",)]


@pytest.mark.parametrize(
    ("rows", "shares"),
    [
        (8, {"fc": (2, 4)}),
        (6, {"fc": (2, 2), "fc.fewer": (1, 2)}),
        (3, {"fc": (1, 3)}),
    ],
)
def test_groups_share_rows_evenly(rows, shares):
    """Rows and groups of each layer: 8 rows of 4 groups are 2 each; of 6, two groups have 2 and two have 1; of 3, one
    group has none. No row is lost: 3 channels and 5 outputs each.
    """
    chain = Chain()
    chain.grouped("fc", rows, FED, Operand((4, 3, 5), ()))
    layers = {layer.name: layer.workload for layer in chain.network("x").layers}
    assert {name: (shape.P, shape.G) for name, shape in layers.items()} == shares
    assert sum(shape.macs for shape in layers.values()) == rows * 3 * 5


def test_names_are_unique_and_without_commas_and_spaces():
    """A second layer of a name is numbered, as is one called like the input."""
    chain = Chain()
    for name in ("fc", "fc", "a, b", "input", ""):
        chain.layer(name, FED)
    assert list(chain.after()) == ["fc", "fc_2", "a_b", "input_2", "layer"]


def test_samples_take_the_same_channels():
    """Keys of two heads of two channels are the second half of a product's eight channels, in each of three samples."""
    channels = np.array([[4, 5], [6, 7]])
    own = np.broadcast_to(channels[None, :, None, :], (3, 2, 5, 2))
    assert taken(own, [0, 1, -1], total=8, is_free=False) == ((4, 8),)
