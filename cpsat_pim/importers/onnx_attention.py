"""Attention in one operator: ONNX's own and those of onnxruntime, with the keys and values of earlier steps."""

from collections.abc import Callable

from attrs import evolve, frozen

from cpsat_pim.importers.onnx_call import VENDOR, Call
from cpsat_pim.importers.products import Shape, Unmappable


@frozen(kw_only=True)
class Heads:
    """The sizes of queries, keys and values, [batch, heads, rows, channels]; keys and values include earlier ones."""

    query: Shape
    key: Shape
    value: Shape


@frozen(kw_only=True)
class Form:
    """Where an attention has its operands among its inputs, and how its heads are read from them.

    `past` are the inputs with earlier keys and values. `projection` is the input with the weights of a projection to
    queries, keys and values.
    """

    read: Callable[[Call], Heads]
    query: int = 0
    key: int = 1
    value: int = 2
    past: tuple[int, ...] = ()
    projection: int | None = None
    joint_present: bool = False


def with_heads(shape: Shape, heads: int | None) -> Shape:
    """Return [batch, heads, rows, channels], from that or from [batch, rows, heads * channels]."""
    if len(shape) == 4:
        return shape
    batch, rows, width = shape
    if not heads:
        raise ValueError("must have its numbers of heads")
    return (batch, heads, rows, width // heads)


def _longer(shape: Shape, rows: int) -> Shape:
    """Return the sizes with that many rows more."""
    return (*shape[:2], shape[2] + rows, shape[3])


def _earlier_rows(call: Call, past: int, length: int | None = None, new: int = 0) -> int:
    """Return how many rows come from earlier steps: as many as an input says, or all that are stored. A buffer that
    earlier and later steps share has room for the new ones.
    """
    stored = call.optional(past)
    if stored is None:
        return 0
    known = call.number(length) if length is not None else None
    kept = max(0, stored[-2] - new) if _shares_buffer(call) else stored[-2]
    return kept if known is None else known


def _shares_buffer(call: Call) -> bool:
    """Return whether the buffer with earlier keys and values is also that of the next step."""
    return bool(call.given.get("past_present_share_buffer"))


def _standard(call: Call) -> Heads:
    """ONNX's `Attention`; heads are an axis, or adjacent within rows. Of keys and values in a buffer, an input may say
    how many rows are filled: those of the longest sequence count.
    """
    query = with_heads(call.shape(0), call.given.get("q_num_heads"))
    key, value = (with_heads(call.shape(index), call.given.get("kv_num_heads")) for index in (1, 2))
    filled = call.values[6] if len(call.values) > 6 else None
    if filled is not None:
        rows = int(filled.max())
        return Heads(query=query, key=(*key[:2], rows, key[3]), value=(*value[:2], rows, value[3]))
    return Heads(query=query, key=_longer(key, _earlier_rows(call, 4)), value=_longer(value, _earlier_rows(call, 5)))


def _projected(call: Call, past: int, length: int | None) -> Heads:
    """Attention that includes its projection: rows times [channels, queries + keys + values]."""
    batch, rows, _ = call.shape(0)
    heads = int(call.given["num_heads"])
    total = call.shape(1)[1]
    sizes = list(call.given.get("qkv_hidden_sizes") or [total // 3] * 3)
    query, key, value = ((batch, heads, rows, size // heads) for size in sizes)
    earlier = _earlier_rows(call, past, length, rows)
    return Heads(query=query, key=_longer(key, earlier), value=_longer(value, earlier))


def _packed_rows(call: Call) -> Heads:
    """`PackedAttention`: all sequences' rows one after the other; the fourth input has a row per sequence."""
    batch, rows = call.shape(3)
    whole = evolve(call, inputs=[(batch, rows, call.shape(0)[1]), *call.inputs[1:3]], values=[])
    return _projected(whole, 9, None)


def _multi_head(call: Call, past: int, length: int | None) -> Heads:
    """`MultiHeadAttention`: queries, keys and values apart, or packed along an axis before the last."""
    heads = int(call.given["num_heads"])
    query = call.shape(0)
    key: Shape
    value: Shape
    if len(query) == 5:  # [batch, rows, heads, 3, channels]
        key = value = query = (query[0], query[2], query[1], query[4])
    else:
        key, value = _keys(call, heads)
        query = with_heads(query, heads)
    earlier = (
        0 if call.optional(1) is not None and len(call.shape(1)) == 4 else _earlier_rows(call, past, length, key[2])
    )
    return Heads(query=query, key=_longer(key, earlier), value=_longer(value, earlier))


def _keys(call: Call, heads: int) -> tuple[Shape, Shape]:
    """Return the sizes of keys and values with their heads."""
    key = call.shape(1)
    if len(key) == 5:  # [batch, rows, heads, 2, channels]
        both = (key[0], key[2], key[1], key[4])
        return both, both
    return with_heads(key, heads), with_heads(call.shape(2), heads)


def _packed_heads(call: Call) -> Heads:
    """`PackedMultiHeadAttention`: as `PackedAttention` without a projection; the fifth input has a row per sequence."""
    batch, rows = call.shape(4)
    heads = int(call.given["num_heads"])
    query = call.shape(0)
    if len(query) == 4:  # [all rows, heads, 3, channels]
        one: Shape = (batch, heads, rows, query[3])
        return Heads(query=one, key=one, value=one)
    of_query, of_key, of_value = ((batch, heads, rows, call.shape(index)[1] // heads) for index in range(3))
    return Heads(query=of_query, key=of_key, value=of_value)


def grouped_heads(call: Call, past: int, length: int) -> Heads:
    """Heads adjacent within rows; keys and values may follow the queries in the same rows. The input `length` tells how
    many keys there are in all, or else all that are stored in the input `past` count, and the new ones.
    """
    heads, shared = int(call.given["num_heads"]), int(call.given["kv_num_heads"])
    batch, rows, width = call.shape(0)
    query: Shape
    key: Shape
    value: Shape
    if call.optional(1) is None:
        channels = width // (heads + 2 * shared)
        query, key = (batch, heads, rows, channels), (batch, shared, rows, channels)
        value = key
    else:
        query, key, value = (
            with_heads(call.shape(index), own) for index, own in ((0, heads), (1, shared), (2, shared))
        )
    known = call.number(length)
    total = key[2] + _earlier_rows(call, past) if known is None else known
    return Heads(query=query, key=(*key[:2], total, key[3]), value=(*value[:2], total, value[3]))


#: The attentions of onnxruntime by name.
ATTENTIONS = {
    "Attention": Form(read=lambda c: _projected(c, 4, 6), projection=1, past=(4,), joint_present=True),
    "DecoderMaskedSelfAttention": Form(read=lambda c: _projected(c, 4, 6), projection=1, past=(4,), joint_present=True),
    "QAttention": Form(read=lambda c: _projected(c, 8, None), projection=1, past=(8,), joint_present=True),
    "PackedAttention": Form(read=_packed_rows, projection=1),
    "PackedMultiHeadAttention": Form(read=_packed_heads),
    "MultiHeadAttention": Form(read=lambda c: _multi_head(c, 6, 8), past=(6, 7)),
    "DecoderMaskedMultiHeadAttention": Form(read=lambda c: _multi_head(c, 5, 7), past=(5, 6)),
    "GroupQueryAttention": Form(read=lambda c: grouped_heads(c, 3, 6), past=(3, 4)),
}

#: All attentions by kind.
FORMS = {"Attention": Form(read=_standard, past=(4, 5)), **{VENDOR + name: form for name, form in ATTENTIONS.items()}}


def attention_shapes(call: Call) -> list[Shape | None]:
    """Return the sizes of an attention's result, and of the keys and values that it hands to the next step."""
    form = FORMS[call.kind]
    heads = form.read(call)
    batch, number, rows, _ = heads.query
    width = number * heads.value[3]
    if call.kind.startswith(f"{VENDOR}Packed"):
        return [(call.shape(0)[0], width)]
    out = (batch, rows, width)
    if form.joint_present:
        return [out, (2, *_present(call, form, heads.key))]
    return [out, _present(call, form, heads.key), _present(call, form, heads.value)]


def _present(call: Call, form: Form, heads: Shape) -> Shape:
    """Return the sizes of what is stored; a buffer that earlier and later steps share keeps its size."""
    stored = call.optional(form.past[0]) if form.past else None
    rows = max(stored[-2], heads[2]) if stored is not None and _shares_buffer(call) else heads[2]
    return (*heads[:2], rows, heads[3])


def attended(call: Call) -> Heads:
    """Return the heads with the keys and values that some query attends to: with a local window those of the last rows.
    A query sees its own row and those before it, a window in all.
    """
    heads = FORMS[call.kind].read(call)
    window = int(call.given.get("local_window_size", -1))
    if window < 1:
        return heads
    rows = min(heads.key[2], heads.query[2] + window - 1)
    key, value = ((*shape[:2], rows, shape[3]) for shape in (heads.key, heads.value))
    return evolve(heads, key=key, value=value)


def check_heads(heads: Heads) -> None:
    """Check that queries and keys have the same channels.

    Raises:
        Unmappable: they have not.
    """
    if heads.query[3] != heads.key[3]:
        raise Unmappable(f"queries of {heads.query[3]} channels and keys of {heads.key[3]}")
