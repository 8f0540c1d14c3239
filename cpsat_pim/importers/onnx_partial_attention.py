"""Attention of onnxruntime whose queries see only parts of the keys, or that projects queries and keys apart."""

from collections import Counter
from collections.abc import Iterator
from functools import partial

import numpy as np

from cpsat_pim.importers.counted import Operand
from cpsat_pim.importers.onnx_attention import Heads, check_heads, with_heads
from cpsat_pim.importers.onnx_partial_sizes import paged_sizes, sparse_heads
from cpsat_pim.importers.onnx_product import Build, Product
from cpsat_pim.importers.origin import Parts
from cpsat_pim.importers.products import Shape, Unmappable

# --- Windows and tokens that attend to all --------------------------------------------------------------------------


def _longformer(product: Product, weight: int = 1, everywhere: int = 4, flags: int = 6) -> Parts:
    """Add attention to a window before and behind each row, and, where some tokens attend to all, of all rows to these
    and of these to all rows.

    Args:
        product: the node.
        weight: the input with the weights of the projection of all rows, [channels, queries + keys + values].
        everywhere: the same for attention of and to all rows.
        flags: the input that marks the tokens that attend to all.
    """
    name, builder, call = product.name, product.tensors.builder, product.call
    batch, rows, width = call.shape(0)
    heads = int(call.given["num_heads"])
    marked = _marked(product, flags)
    one: Shape = (batch, heads, rows, width // heads)
    read = builder.merge(
        builder.matmul(f"{name}.qkv", product.operand(0), product.operand(weight)),
        product.others(0, weight, everywhere),
    )
    parts = _windows(product, one, int(call.given["window"]), read)
    if not marked:
        return parts
    few: Shape = (batch, heads, marked, width // heads)
    shared = product.operand(everywhere, (width, width))
    query = builder.matmul(f"{name}.marked_q", product.operand(0, (batch, marked, width)), shared)
    both = builder.matmul(f"{name}.marked_kv", product.operand(0), product.operand(everywhere, (width, 2 * width)))
    local, marked_rows = Operand(one, read), Operand(few, read)
    to_marked = builder.attention(f"{name}.to_marked", local, marked_rows, marked_rows)
    of_marked = builder.attention(f"{name}.of_marked", Operand(few, query), Operand(one, both), Operand(one, both))
    return builder.merge(parts, to_marked, of_marked)


def _marked(product: Product, flags: int) -> int:
    """Return how many tokens of a sequence attend to all, at most.

    Raises:
        Unmappable: it is not known.
    """
    name, value = product.node.input[flags], product.call.values[flags]
    told = product.tensors.shapes.told(name)
    if told is not None:
        return told
    if value is None:
        raise Unmappable(f"how many tokens {name!r} marks is not known", bind=name)
    return int(np.count_nonzero(value, axis=-1).max())


def _windows(product: Product, shape: Shape, window: int, read: Parts) -> Parts:
    """Add attention in blocks of a window's rows, each to the keys of its own block and of those before and behind, as
    onnxruntime computes it: `name.inner`, and `name.outer` of the first and the last block.

    Raises:
        Unmappable: the rows are no multiple of the window.
    """
    batch, heads, rows, channels = shape
    if rows % window:
        raise Unmappable(f"{rows} rows, no multiple of its window {window}")
    blocks = rows // window
    kinds = {"inner": (max(0, blocks - 2), 3), "outer": (min(2, blocks), min(2, blocks))}

    def added(kind: str, count: int, seen: int) -> Parts:
        query = Operand((batch, heads * count, window, channels), read)
        keys = Operand((batch, heads * count, seen * window, channels), read)
        return product.tensors.builder.attention(f"{product.name}.{kind}", query, keys, keys)

    return product.tensors.builder.concatenate(
        added(kind, count, seen) for kind, (count, seen) in kinds.items() if count
    )


# --- Blocks of keys that a layout names -----------------------------------------------------------------------------


def _sparse(product: Product) -> Parts:
    """Add attention to blocks of keys: each block of rows to as many as its layout has in its row."""
    builder, call = product.tensors.builder, product.call
    heads = sparse_heads(call)
    check_heads(heads)
    block = int(call.given["sparse_block_size"])
    layout = _layout(product, -(-heads.key[2] // block))
    read = product.others()
    kinds = Counter(_seen(heads, layout, block))
    batch, number, _, channels = heads.query
    shared = heads.key[1] if len(layout) == 1 else number // len(layout)  # heads of different layouts share no blocks
    parts: list[Parts] = []
    for at, ((rows, keys), count) in enumerate(kinds.items()):
        query = Operand((batch, number // len(layout), rows, channels), read)
        seen = Operand((batch, shared, keys, channels), read)
        with builder.repeated(count):
            name = f"{product.name}.part{at}" if len(kinds) > 1 else product.name
            parts.append(builder.attention(name, query, seen, seen))
    return builder.merge(*parts)


def _layout(product: Product, rows: int) -> np.ndarray:
    """Return where each row of blocks starts in each layout; in one layout for all heads if it is told how many blocks
    each row of blocks has, as far as there are as many up to its own.

    Raises:
        Unmappable: it is neither known nor told.
    """
    name, shapes = product.node.input[5], product.tensors.shapes
    layout, told = shapes.value(name), shapes.told(name)
    if layout is not None:
        return layout
    if told is None:
        raise Unmappable(f"its layout {name!r} is not known", bind=name)
    return np.cumsum([0, *(min(told, at + 1) for at in range(rows))])[np.newaxis]


def _seen(heads: Heads, layout: np.ndarray, block: int) -> Iterator[tuple[int, int]]:
    """Yield the rows of each block of queries in each layout, and the keys that they see. The rows are the last ones of
    all keys; the last block that a row sees is its own.
    """
    total = heads.key[2]
    for starts in layout:
        for at in range((total - heads.query[2]) // block, -(-total // block)):
            first, behind = max(at * block, total - heads.query[2]), min((at + 1) * block, total)
            yield behind - first, int(starts[at + 1] - starts[at]) * block - ((at + 1) * block - behind)


# --- Keys in pages --------------------------------------------------------------------------------------------------


def _paged(product: Product) -> Parts:
    """Add attention to keys in pages, as if the sequences shared the rows as evenly as possible: `name`, and
    `name.fewer` of the sequences with one row less.
    """
    builder, sizes, read = product.tensors.builder, paged_sizes(product.call), product.others()
    each, more = divmod(sizes.rows, sizes.sequences)
    shares = [
        (product.name, more, each + 1),
        (f"{product.name}.fewer" if more else product.name, sizes.sequences - more, each),
    ]
    return builder.concatenate(
        builder.attention(
            name,
            Operand((count, sizes.heads, rows, sizes.channels), read),
            Operand((count, sizes.shared, sizes.keys, sizes.channels), read),
            Operand((count, sizes.shared, sizes.keys, sizes.values), read),
        )
        for name, count, rows in shares
        if count and rows
    )


# --- Projections apart ----------------------------------------------------------------------------------------------


def _ordered(product: Product) -> Parts:
    """Add attention whose queries, keys and values have weights of their own: `name.q`, `name.k`, `name.v`."""
    builder, call = product.tensors.builder, product.call
    weights = {"q": 5, "k": 6, "v": 7}
    batch, rows, _ = call.shape(0)
    made = [
        Operand(
            with_heads((batch, rows, call.shape(index)[1]), int(call.given["num_heads"])),
            builder.matmul(f"{product.name}.{part}", product.operand(0), product.operand(index)),
        )
        for part, index in weights.items()
    ]
    query, key, value = made
    return builder.attention(product.name, query, key, value, product.others(0, *weights.values()))


def _decoder(product: Product) -> Parts:
    """Add attention of a decoder, whose rows lie before their batch: `name.q`, and `name.kv` unless all keys are there
    from earlier steps.

    Raises:
        Unmappable: a flag that tells which keys there are is not known.
    """
    builder, call, name = product.tensors.builder, product.call, product.name
    crossed, has_past = _flag(product, 8), _flag(product, 9)
    rows, batch, width = call.shape(0)
    heads = int(call.given["num_heads"])
    query = builder.matmul(f"{name}.q", product.operand(0), product.operand(2))
    read, cache = product.others(0, 1, 2, 3), call.optional(6)
    stored = cache[2] if has_past and cache is not None else 0
    if not (crossed and has_past):
        source = 1 if crossed else 0
        read = builder.merge(builder.matmul(f"{name}.kv", product.operand(source), product.operand(3)), read)
        stored += call.shape(source)[0]
    one, seen = (batch, heads, rows, width // heads), (batch, heads, stored, width // heads)
    keys = Operand(seen, read)
    return builder.attention(name, Operand(one, query), keys, keys)


def _flag(product: Product, index: int) -> bool:
    known = product.call.number(index)
    if known is None:
        raise Unmappable(f"its flag {product.node.input[index]!r} is not known", bind=product.node.input[index])
    return bool(known)


#: The rules by name of operator.
PARTIAL: dict[str, Build] = {
    "LongformerAttention": _longformer,
    "QOrderedLongformerAttention": partial(_longformer, weight=2, everywhere=8, flags=12),
    "SparseAttention": _sparse,
    "PagedAttention": _paged,
    "QOrderedAttention": _ordered,
    "DecoderAttention": _decoder,
}
