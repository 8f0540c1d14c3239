"""Attention of onnxruntime to parts of the keys."""

import itertools
from pathlib import Path

import numpy as np
import pytest

from tests.importers.onnx_models import (
    TensorProto,
    complaint,
    counted,
    helper,
    imported,
    integers,
    node,
    value,
    vendor,
    weight,
)

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


def sparse(save, starts, keys):
    """Attention of as many rows as keys in 4 heads of 8 channels with a layout of blocks of 16, and a product."""
    read = "q k v pk pv starts columns total lengths"
    attention = vendor("SparseAttention", read, "a", num_heads=4, kv_num_heads=4, sparse_block_size=16)
    inputs = [*(value(name, 1, keys, 32) for name in "qkv"), *(value(name, 1, 4, keys, 8) for name in ("pk", "pv"))]
    constants = [starts, weight("columns", starts.dims[0], 9), integers("total", keys), weight("w", 32, 3)]
    return save([attention, node("MatMul", "a w", "fc")], [*inputs, value("lengths", 1)], constants)


def starts_of(layouts, rows, blocks):
    """For each layout and row of blocks where its blocks start: each row has so many up to its own."""
    counts = np.minimum(np.arange(1, rows + 1), blocks)
    one = np.concatenate([[0], np.cumsum(counts)])
    return helper.make_tensor("starts", TensorProto.INT32, [layouts, rows + 1], [*one.tolist() * layouts])


def in_another_file(tensor):
    """The same constant with its data in `layout.bin`."""
    moved = TensorProto(name=tensor.name, data_type=tensor.data_type, dims=tensor.dims, data_location=1)
    moved.external_data.add(key="location", value="layout.bin")
    Path("layout.bin").write_bytes(np.array(tensor.int32_data, np.int32).tobytes())
    return moved


def causal_pairs(keys, blocks):
    """Pairs of a row and a key in its own block or one of those before, as many blocks at most."""
    pairs = itertools.product(range(keys), range(keys))
    return sum(0 <= row // 16 - key // 16 < blocks for row, key in pairs)


def test_sparse_attention_reads_a_layout_in_another_file(save):
    """6 rows of blocks, each of which sees 2 at most; without the file the layout may be told."""
    file = sparse(save, in_another_file(starts_of(1, 6, 2)), 96)
    whole = counted(imported(file))
    macs = dict(whole)
    assert macs.pop("fc") == 96 * 32 * 3
    assert sum(macs.values()) == 2 * 4 * 8 * causal_pairs(96, 2)
    Path("layout.bin").unlink()
    message = complaint(file)
    assert message.startswith("cannot map 1 com.microsoft.SparseAttention (its layout 'starts' is not known, ")
    assert "--bind starts=... may tell" in message
    assert counted(imported(file, starts=2)) == whole


def test_sparse_attention_knows_a_layout_of_many_heads_and_blocks(save):
    """4 layouts of 299 rows of blocks, 1200 elements in the file; each row of blocks sees its own alone."""
    macs = counted(imported(sparse(save, starts_of(4, 299, 1), 299 * 16)))
    assert macs["a.scores"] == macs["a.context"] == 4 * 8 * 299 * 16 * 16


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
