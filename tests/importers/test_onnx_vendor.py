"""The less common operators of onnxruntime, and Fourier transforms."""

import itertools

import numpy as np
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


def vendor(kind, read, name, **attributes):
    """An operator of onnxruntime; `-` is an input that is left out."""
    names = ["" if name == "-" else name for name in read.split()]
    return helper.make_node(kind, names, [name], name, domain="com.microsoft", **attributes)


def number(name, own):
    """A constant of one element without an axis."""
    return helper.make_tensor(name, TensorProto.INT64, [], [own])


def counted(network):
    """Multiply-accumulates of all trips by layer."""
    return {entry.name: entry.count * entry.workload.macs for entry in network.layers}


# --- Attention to parts of the keys -----------------------------------------------------------------------------------


def longformer(save, marked):
    """Two sequences of 12 rows in 2 heads of 4 channels, a window of 3 rows to each side, and a product behind it."""
    flags = [int(at < marked) for _ in range(2) for at in range(12)]
    constants = [helper.make_tensor("flags", TensorProto.INT32, [2, 12], flags)]
    inputs = [value("x", 2, 12, 8), value("mask", 2, 12)]
    if marked is None:
        constants, inputs = [], [*inputs, value("flags", 2, 12)]
    attention = vendor("LongformerAttention", "x w b mask gw gb flags", "a", num_heads=2, window=3)
    weights = [weight("w", 8, 24), weight("b", 24), weight("gw", 8, 24), weight("gb", 24), weight("v", 8, 5)]
    return save([attention, node("MatMul", "a v", "fc")], inputs, [*constants, *weights])


def block_pairs(rows, window):
    """Pairs of a row and a key in its own block of rows or in one next to it."""
    return sum(abs(row // window - key // window) <= 1 for row, key in itertools.product(range(rows), range(rows)))


def test_window_attention_counts_the_blocks_that_a_block_sees(save):
    """The pairs of rows and keys by enumeration, in 2 sequences, 2 heads, 4 channels, for scores and context each."""
    network = imported(longformer(save, 0))
    macs = counted(network)
    inner = 2 * 2 * 4 * (block_pairs(12, 3) - 2 * 3 * 6)
    assert macs == {
        "a.qkv": 24 * 8 * 24,
        "a.inner.scores": inner,
        "a.inner.context": inner,
        "a.outer.scores": 2 * 2 * 4 * 2 * 3 * 6,
        "a.outer.context": 2 * 2 * 4 * 2 * 3 * 6,
        "fc": 24 * 8 * 5,
    }


def test_marked_tokens_attend_to_all_and_all_to_them(save):
    """One token of each sequence: 12 rows see one key more, one row more sees 12; its query and all keys and values
    have weights of their own.
    """
    more = counted(imported(longformer(save, 1))).items() - counted(imported(longformer(save, 0))).items()
    assert dict(more) == {
        "a.marked_q": 2 * 8 * 8,
        "a.marked_kv": 24 * 8 * 16,
        **{f"a.{kind}.{part}": 2 * 2 * 12 * 4 for kind in ("to_marked", "of_marked") for part in ("scores", "context")},
    }


#: A layout of 4 x 4 blocks for even and one for odd heads.
_LAYOUTS = np.array(
    [[[1, 0, 0, 0], [1, 1, 0, 0], [0, 1, 1, 0], [0, 1, 1, 1]], [[1, 0, 0, 0], [1, 1, 0, 0], [1, 1, 1, 0], [1, 0, 1, 1]]]
)


@pytest.mark.parametrize(("rows", "total"), [(64, 64), (1, 55), (20, 57)])
@pytest.mark.parametrize("number", [1, 2])
def test_sparse_attention_counts_the_blocks_of_its_layouts(save, rows, total, number):
    """Pairs of a row and a key in a block that the row's layout has, by enumeration, in 4 heads of 8 channels."""
    layouts = _LAYOUTS[:number]
    indices = np.concatenate([np.zeros((number, 1), int), np.cumsum(layouts.sum(axis=2), axis=1)], axis=1)
    attention = vendor(
        "SparseAttention",
        "q k v pk pv starts columns total lengths",
        "a",
        num_heads=4,
        kv_num_heads=2,
        sparse_block_size=16,
    )
    inputs = [value("q", 1, rows, 32), *(value(name, 1, rows, 16) for name in "kv")]
    inputs += [*(value(name, 1, 2, 64, 8) for name in ("pk", "pv")), value("lengths", 1)]
    constants = [
        helper.make_tensor("starts", TensorProto.INT32, indices.shape, indices.reshape(-1).tolist()),
        weight("columns", number, 9),
        integers("total", total),
        weight("w", 32, 3),
    ]
    network = imported(save([attention, node("MatMul", "a w", "fc")], inputs, constants))
    queries = range(total - rows, total)
    pairs = sum(
        layouts[head % number][row // 16][key // 16] for head in range(4) for row in queries for key in range(total)
    )
    macs = counted(network)
    assert macs.pop("fc") == rows * 32 * 3
    assert sum(macs.values()) == 2 * 8 * pairs


def paged(save, rows, shapes, constants=(), **attributes):
    """Attention over 5 sequences with up to 3 pages of 16 keys each, and a product behind it."""
    given = {"num_heads": 4, "kv_num_heads": 2} | attributes
    read = "q k v kc vc starts earlier table" if len(shapes) == 5 else "q - - kc vc starts earlier table"
    if "kv_cache_layout" in attributes:
        read = "q k - kc - starts earlier table"
    inputs = [value(name, *shape) for name, shape in shapes.items()]
    inputs += [value("starts", 6), value("table", 5, 3)]
    if not constants:
        inputs.append(value("earlier", 5))
    behind = node("MatMul", "a w", "fc")
    return save([vendor("PagedAttention", read, "a", **given), behind], inputs, [*constants, weight("w", 32, 3)])


def test_paged_attention_shares_rows_and_fills_its_pages(save):
    """5 tokens of 5 sequences: a row each in 4 heads of 8 channels, to 3 x 16 keys."""
    cache = (20, 16, 2, 8)
    file = paged(save, 5, {"q": (5, 32), "k": (5, 16), "v": (5, 16), "kc": cache, "vc": cache})
    assert counted(imported(file)) == {"a.scores": 5 * 4 * 8 * 48, "a.context": 5 * 4 * 8 * 48, "fc": 5 * 32 * 3}


def test_paged_attention_takes_earlier_lengths_that_are_known(save):
    """12 tokens of 5 sequences: 2 have 3 rows and 3 have 2, all after 10 keys at most; keys follow queries in a row."""
    cache = (20, 16, 2, 8)
    lengths = helper.make_tensor("earlier", TensorProto.INT32, [5], [10, 3, 0, 7, 10])
    file = paged(save, 12, {"q": (12, 32 + 2 * 16), "kc": cache, "vc": cache}, [lengths])
    assert counted(imported(file)) == {
        **dict.fromkeys(("a.scores", "a.context"), 2 * 3 * 4 * 8 * 13),
        **dict.fromkeys(("a.fewer.scores", "a.fewer.context"), 3 * 2 * 4 * 8 * 13),
        "fc": 12 * 32 * 3,
    }


def test_paged_attention_to_latent_keys_takes_values_from_them(save):
    """One cached head of 16 channels, of which 8 are the value, for 4 heads of queries."""
    file = paged(
        save,
        5,
        {"q": (5, 64), "k": (5, 16), "kc": (20, 16, 1, 16)},
        kv_num_heads=1,
        kv_cache_layout="LATENT",
        v_head_size=8,
    )
    assert counted(imported(file)) == {"a.scores": 5 * 4 * 16 * 48, "a.context": 5 * 4 * 8 * 48, "fc": 5 * 32 * 3}


def test_attention_of_a_decoder_projects_keys_unless_they_are_there(save):
    """3 rows of 2 sequences, 2 heads of 4 channels, 7 keys: from a memory, or of earlier steps."""

    def macs(crossed, past):
        flags = [
            helper.make_tensor(name, TensorProto.BOOL, [1], [flag])
            for name, flag in (("static", crossed), ("past", past), ("state", past), ("padded", False))
        ]
        read = "x m wq wkv b - kc vc static past state padded"
        nodes = [vendor("DecoderAttention", read, "a", num_heads=2), node("MatMul", "a w", "fc")]
        inputs = [value("x", 3, 2, 8), value("m", 7, 2, 8), *(value(name, 2, 2, 7, 4) for name in ("kc", "vc"))]
        weights = [weight("wq", 8, 8), weight("wkv", 8, 16), weight("b", 24), weight("w", 8, 5)]
        return counted(imported(save(nodes, inputs, [*flags, *weights])))

    fixed = {"a.q": 6 * 8 * 8, "fc": 6 * 8 * 5}
    pairs = 2 * 2 * 3 * 4
    assert macs(True, True) == fixed | dict.fromkeys(("a.scores", "a.context"), 7 * pairs)
    assert macs(True, False) == fixed | dict.fromkeys(("a.scores", "a.context"), 7 * pairs) | {"a.kv": 14 * 8 * 16}
    assert macs(False, True) == fixed | dict.fromkeys(("a.scores", "a.context"), 10 * pairs) | {"a.kv": 6 * 8 * 16}


def test_ordered_attention_projects_queries_keys_and_values_apart(save):
    """6 rows of 16 channels to 2 heads of 4 channels."""
    read = "x s sq sk sv wq wk wv s s s bq bk bv s s s"
    nodes = [
        vendor("QOrderedAttention", read, "a", num_heads=2, order_input=1, order_weight=0, order_output=1),
        node("Cast", "a", "f", to=TensorProto.FLOAT),
        node("MatMul", "f w", "fc"),
    ]
    small = [weight(name, 1) for name in ("s", "sq", "sk", "sv")]
    weights = [weight(name, 16, 8) for name in ("wq", "wk", "wv")] + [weight(name, 8) for name in ("bq", "bk", "bv")]
    file = save(nodes, [value("x", 1, 6, 16)], [*small, *weights, weight("w", 8, 5)])
    assert counted(imported(file)) == {
        **dict.fromkeys(("a.q", "a.k", "a.v"), 6 * 16 * 8),
        **dict.fromkeys(("a.scores", "a.context"), 2 * 6 * 6 * 4),
        "fc": 6 * 8 * 5,
    }


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
