"""Sizes of the attention of onnxruntime whose queries see only parts of the keys, or that projects them apart."""

from attrs import frozen

from cpsat_pim.importers.onnx_attention import Heads, grouped_heads
from cpsat_pim.importers.onnx_call import Call
from cpsat_pim.importers.products import Shape


def sparse_heads(call: Call) -> Heads:
    """Return the sizes with the keys that the buffers hold, which include the new ones."""
    heads, stored = grouped_heads(call, 3, 7), call.shape(3)[2]
    key, value = ((*shape[:2], min(shape[2], stored), shape[3]) for shape in (heads.key, heads.value))
    return Heads(query=heads.query, key=key, value=value)


@frozen(kw_only=True)
class Paged:
    """The sizes of attention to keys in pages: of queries [all rows, heads, channels], how many sequences, how many
    heads the keys have, how many keys each sequence, and how many channels a value.
    """

    rows: int
    heads: int
    channels: int
    sequences: int
    shared: int
    keys: int
    values: int


def paged_sizes(call: Call) -> Paged:
    """Read these: keys and values may follow the queries in the same rows, and values may be the first channels of
    keys. Where earlier lengths are not known, all pages are full.
    """
    heads, shared = int(call.given["num_heads"]), int(call.given["kv_num_heads"])
    rows, width = call.shape(0)
    packed = call.optional(1) is None
    channels = width // (heads + 2 * shared) if packed else width // heads
    sequences, pages = call.shape(7)
    earlier = call.values[6]
    own = -(-rows // sequences)
    stored = pages * call.shape(3)[1]
    return Paged(
        rows=rows,
        heads=heads,
        channels=channels,
        sequences=sequences,
        shared=shared,
        keys=stored if earlier is None else int(earlier.max()) + own,
        values=int(call.given.get("v_head_size", 0)) or channels,
    )


def sparse_shapes(call: Call) -> list[Shape | None]:
    """Return the sizes of the result, and of the buffers of keys and values, which stay as they are."""
    batch, number, rows, channels = sparse_heads(call).query
    return [(batch, rows, number * channels), call.optional(3), call.optional(4)]


def paged_shapes(call: Call) -> list[Shape | None]:
    """Return the sizes of the result, and of the pages, which stay as they are."""
    sizes = paged_sizes(call)
    return [(sizes.rows, sizes.heads * sizes.values), call.optional(3), call.optional(4)]


def ordered_shapes(call: Call) -> list[Shape | None]:
    """Return the sizes of the result of attention whose values have weights of their own."""
    return [(*call.shape(0)[:2], call.shape(7)[1])]
