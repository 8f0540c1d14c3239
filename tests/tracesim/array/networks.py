"""Small networks of each kind of join, pooling, view and product, as strategies: the size of the input, and layers."""

from typing import Any

import numpy as np
from hypothesis import strategies as st

from tracesim.array.records import (
    ADD,
    CONCAT,
    CORNERS,
    LINEAR,
    NEAREST,
    Added,
    C,
    K,
    Layer,
    Pool,
    Reorder,
    Resize,
)


def layer(after: tuple[int, ...] = (0,), **fields: Any) -> Layer:
    """Return a layer; bounds by their letters, the rest by name."""
    bounds = np.array([fields.pop(dim, 1) for dim in "RSPQCKNG"], np.int64)
    conv = np.array(fields.pop("conv", (1, 1, 1, 1)), np.int64)
    widths = np.array(fields.pop("widths", (1, 1, 1, 4)), np.int64)
    return Layer(bounds, conv, fields.pop("pad", (0, 0)), widths, after, **fields)


def single(draw: Any) -> tuple[tuple[int, int, int, int], list[Layer]]:
    """A layer with any of stride, dilation, padding, groups and batch."""
    b = {dim: draw(st.integers(1, most)) for dim, most in zip("RSPQCKNG", (3, 3, 5, 5, 4, 4, 2, 2), strict=True)}
    conv = tuple(draw(st.integers(1, 2)) for _ in range(4))
    pad = (draw(st.integers(0, b["R"] - 1)), draw(st.integers(0, b["S"] - 1)))
    width, height = (
        max(1, (b[out] - 1) * conv[axis] + (b[window] - 1) * conv[2 + axis] + 1 - pad[axis] - draw(st.integers(0, 1)))
        for axis, (out, window) in enumerate((("P", "R"), ("Q", "S")))
    )
    return (b["N"], b["G"] * b["C"], height, width), [layer(**b, conv=conv, pad=pad)]


def pooled(draw: Any) -> tuple[tuple[int, int, int, int], list[Layer]]:
    """An output pooled, then an input pooled."""
    pool = Pool((3, 2), (2, 1), draw(st.sampled_from(((1, 0), (0, 1), (0, 0)))), (3, 4))
    again = Pool(draw(st.sampled_from(((2, 2), (3, 1)))), (1, 2), (0, 0), (2, 2))
    first = layer(R=3, S=1, P=6, Q=5, C=2, K=3, pad=(1, 0), pool=pool)
    return (1, 2, 5, 6), [first, layer((1,), R=2, P=2, Q=2, C=3, K=2, pad=(1, 0), input_pool=again)]


def residual(draw: Any) -> tuple[tuple[int, int, int, int], list[Layer]]:
    """A sum with the input, and a sum of sums; the first operand is any of two."""
    shape = {"P": 3, "Q": 3, "C": 4, "K": 4}
    order = draw(st.permutations((1, 2)))
    conv = layer((0,), R=3, S=3, pad=(1, 1), **shape)
    pool = draw(st.sampled_from((None, Pool((3, 3), (1, 1), (1, 1), (3, 3)))))
    return (1, 4, 3, 3), [
        conv,
        layer((1,) if order[0] == 2 else (0,), **shape, pool=pool),
        layer(tuple(order), **shape, join=ADD),
        layer((3, order[0]), R=3, P=1, Q=3, C=4, K=2, join=ADD),
        layer((3,), P=3, Q=3, C=4, K=1, R=1),
    ]


def gated(draw: Any) -> tuple[tuple[int, int, int, int], list[Layer]]:
    """A tensor, a gate for its channels or positions made of it, and another operand; the order of both is any."""
    size, channels = (3, 2), draw(st.integers(1, 4))
    side = layer((0,), P=3, Q=2, C=2, K=channels)
    squeezed = [
        layer((1,), C=channels, K=2, input_pool=Pool(size, (1, 1), (0, 0), (1, 1))),
        layer((2,), C=2, K=channels),
    ]
    mapped = [layer((1,), P=3, Q=2, C=channels, K=2), layer((2,), P=3, Q=2, C=2)]
    gate = draw(st.sampled_from((squeezed, mapped)))
    if draw(st.booleans()):
        made = [layer((0,), P=3, Q=2, C=2, K=channels), *gate, side]
        operands: tuple[int, ...] = (1, 3, 4)
    else:
        made = [layer((0,), P=3, Q=2, C=2, K=channels), *gate]
        operands = (1, 3)
    readers = [layer(operands, P=3, Q=2, C=channels, K=2, join=ADD), layer((1,), R=2, P=2, Q=2, C=channels)]
    return (1, 2, 2, 3), [*made, *readers]


def concatenated(draw: Any) -> tuple[tuple[int, int, int, int], list[Layer]]:
    """Two tensors concatenated, by a second reader in another order, by a third together with more."""
    order = draw(st.permutations((1, 2)))
    groups = draw(st.sampled_from((1, 5)))
    return (1, 2, 4, 3), [
        layer((0,), P=3, Q=4, C=2, K=3),
        layer((0,), R=3, S=3, P=3, Q=4, C=2, K=2, pad=(1, 1)),
        layer((1, 2), R=3, P=3, Q=4, C=5 // groups, K=2, G=groups, pad=(1, 0), join=CONCAT),
        layer(tuple(order), P=3, Q=4, C=5, K=2, join=CONCAT),
        layer((2, 0), P=3, Q=4, C=4, K=1, join=CONCAT),
        layer((1,), P=3, Q=4, C=3, K=1),
    ]


def viewed(draw: Any) -> tuple[tuple[int, int, int, int], list[Layer]]:
    """Two tensors read as they are beside a third one that is pooled or resized, some channels of each, or all."""
    kind = draw(st.sampled_from((NEAREST, LINEAR, CORNERS)))
    width, height = draw(st.integers(1, 7)), draw(st.integers(1, 5))
    resize = Resize((4, 3), kind)
    pool = Pool((3, 2), (2, 2), (1, 0), (4, 3)) if (width, height) == (7, 5) else None
    view = draw(st.sampled_from((resize, pool))) if pool else resize
    order = draw(st.permutations(((1, None), (2, None), (3, view))))
    after, views = (tuple(one[at] for one in order) for at in (0, 1))
    taken = draw(st.sampled_from((None, ((4, 6), (0, 1), (2, 4)))))
    channels, groups = (6, 2) if taken is None else (5, 1)
    joined = {"join": CONCAT, "views": views, "channels": taken}
    alone = {"join": CONCAT, "views": (resize, view if pool is None else resize)}
    return (1, 2, 5, 7), [
        layer((0,), P=4, Q=3, C=2, K=2, conv=(1, 2, 1, 1)),
        layer((0,), R=2, P=4, Q=3, C=2, K=2, conv=(2, 2, 1, 1), pad=(1, 0)),
        layer((0,), P=width, Q=height, C=2, K=2),
        layer(after, R=3, S=2, P=4, Q=3, C=channels // groups, K=2, G=groups, pad=(1, 0), **joined),
        layer((3,), P=4, Q=3, C=2, K=1, views=(resize,)),
        layer((0, 3), P=2, Q=3, C=4, K=1, conv=(2, 1, 1, 1), **alone),
    ]


def many(draw: Any) -> tuple[tuple[int, int, int, int], list[Layer]]:
    """Four tensors of three sizes side by side, resized to one, and what is made of them with two more added to it."""
    to_map, to_small = (Resize(size, draw(st.sampled_from((NEAREST, LINEAR, CORNERS)))) for size in ((4, 3), (2, 2)))
    order = draw(st.permutations(((0, None), (1, None), (2, to_map), (3, to_map))))
    after, views = (tuple(one[at] for one in order) for at in (0, 1))
    taken = draw(st.sampled_from((None, ((10, 11), (0, 9)))))  # some of each
    channels = 11 if taken is None else 10
    first = draw(st.integers(0, 1))
    added = Added(2, to_map), Added(1, None, ((first, first + 3),))
    joined = {"join": CONCAT, "views": views, "channels": taken, "added": added}
    return (1, 2, 3, 4), [
        layer((0,), P=4, Q=3, C=2, K=4),
        layer((1,), P=2, Q=3, C=4, K=3, conv=(2, 1, 1, 1)),
        layer((2,), P=1, Q=1, C=3, K=2),
        layer(after, R=3, P=4, Q=3, C=channels, K=3, pad=(1, 0), **joined),
        layer((2,), P=2, Q=2, C=3, K=3, added=(Added(4, to_small), Added(2, to_small))),
        layer((4, 5, 3), P=2, Q=2, C=8, K=1, join=CONCAT, views=(to_small, None, to_small)),
    ]


def seen_again(draw: Any) -> tuple[tuple[int, int, int, int], list[Layer]]:
    """A tensor beside itself, pooled with windows of two sizes (spatial pyramid pooling), and another one."""
    small, large = (Pool((size, size), (1, 1), (size // 2, size // 2), (4, 3)) for size in (3, 5))
    order = draw(st.permutations(((1, None), (1, small), (2, None), (1, large), (2, small))))
    after, views = (tuple(one[at] for one in order) for at in (0, 1))
    taken = draw(st.sampled_from((None, ((12, 13), (0, 11)))))
    channels = 13 if taken is None else 12
    return (1, 2, 3, 4), [
        layer((0,), P=4, Q=3, C=2, K=3),
        layer((0,), P=4, Q=3, C=2, K=2),
        layer(after, R=3, P=4, Q=3, C=channels, K=2, pad=(1, 0), join=CONCAT, views=views, channels=taken),
        layer((2, 1), P=4, Q=3, C=5, K=1, join=CONCAT),
    ]


def pyramid(draw: Any) -> tuple[tuple[int, int, int, int], list[Layer]]:
    """A feature pyramid: a map that others read is added, resized, to larger ones, one of which finishes a sum; and the
    larger one, pooled, to a smaller one.
    """
    larger = Resize((4, 4), draw(st.sampled_from((NEAREST, LINEAR, CORNERS))))
    smaller = draw(st.sampled_from((Pool((2, 2), (2, 2), (0, 0), (2, 2)), Pool((3, 3), (2, 2), (1, 1), (2, 2)))))
    return (1, 2, 4, 4), [
        layer((0,), P=4, Q=4, C=2, K=3),
        layer((1,), P=2, Q=2, C=3, K=2, conv=(2, 2, 1, 1)),
        layer((1,), P=4, Q=4, C=3, K=2, added=(Added(2, larger),)),
        layer((3,), R=3, S=3, P=4, Q=4, C=2, K=2, pad=(1, 1), added=(Added(2, larger), Added(0))),
        layer((2,), P=2, Q=2, C=2, K=2, added=(Added(3, smaller),)),
        layer((3, 4), P=4, Q=4, C=2, K=1, join=ADD),
        layer((5,), P=2, Q=2, C=2, K=1),
    ]


def summed(draw: Any) -> tuple[tuple[int, int, int, int], list[Layer]]:
    """Layers add to what they read: some channels, a resized map, a pooled one, all channels of what is side by side;
    others read all of these alone.
    """
    larger = Resize((4, 4), draw(st.sampled_from((NEAREST, LINEAR, CORNERS))))
    smaller = Pool((3, 3), (2, 2), (1, 1), (2, 2))
    first = draw(st.integers(0, 2))
    order = draw(st.permutations((2, 3)))
    return (1, 2, 4, 4), [
        layer((0,), P=4, Q=4, C=2, K=4),
        layer((1,), R=3, P=4, Q=4, C=2, K=2, pad=(1, 0), channels=((2, 4),)),
        layer((2,), R=3, S=3, P=4, Q=4, C=2, K=2, pad=(1, 1), input_added=(Added(1, None, ((first, first + 2),)),)),
        layer((1,), P=2, Q=2, C=4, K=2, conv=(2, 2, 1, 1)),
        layer(tuple(order), P=4, Q=4, C=2, K=1, G=2, join=CONCAT, input_added=(Added(1),)),
        layer((2,), S=2, P=4, Q=4, C=2, K=1, pad=(0, 1), input_added=(Added(4, larger), Added(3))),
        layer((4,), P=2, Q=2, C=2, K=2, input_pool=smaller._replace(stride=(1, 1)), input_added=(Added(2, smaller),)),
        layer((7, 4), P=2, Q=2, C=2, K=2, join=ADD, input_added=(Added(2, smaller),), added=(Added(4),)),
    ]


def reordered_sums(draw: Any) -> tuple[tuple[int, int, int, int], list[Layer]]:
    """A tensor in any order is added to what a layer makes, and to what another one reads in any order."""
    samples, width = draw(st.integers(1, 2)), draw(st.sampled_from((2, 3)))
    shape = samples, 4, 2, width
    view = reorder(draw, shape)
    n, c, h, w = view.shape
    more = {"N": n, "Q": h, "P": w}
    again = reorder(draw, shape)
    back = {"N": again.shape[0], "C": again.shape[1], "Q": again.shape[2], "P": again.shape[3]}
    return shape, [
        layer((0,), N=samples, P=width, Q=2, C=4, K=4),
        layer((1,), **more, C=c, K=c, views=(view,), added=(Added(0, view),)),
        layer((2,), **more, C=c, K=2, input_added=(Added(1, view),)),
        layer((1,), **back, K=2, views=(again,), input_added=(Added(0, again),)),
    ]


def attention(draw: Any) -> tuple[tuple[int, int, int, int], list[Layer]]:
    """Queries, keys and values of two heads; scores and context read a tensor as W, or of a cache, by sample."""
    tokens, samples = draw(st.integers(2, 4)), draw(st.integers(1, 3))
    make = {"P": tokens, "C": 4, "K": 4, "N": samples}
    heads = {"P": tokens, "G": 2, "N": samples, "has_sample_weights": samples > 1}
    if draw(st.booleans()):
        return (samples, 4, 1, tokens), [layer((0,), **make), layer((1,), C=2, K=tokens + 1, **heads)]
    return (samples, 4, 1, tokens), [
        layer((0,), **make),
        layer((0,), **make),
        layer((0,), **make),
        layer((1, 2), C=2, K=tokens, weight_dim=K, **heads),
        layer((4, 3), C=tokens, K=2, weight_dim=C, **heads),
    ]


def pixels(draw: Any) -> tuple[tuple[int, int, int, int], list[Layer]]:
    """Attention over pixels: keys and values of some rows and columns are read as W, row by row."""
    width, height, wide, high = (draw(st.integers(1, 3)) for _ in range(4))
    tokens, queries = wide * high, {"P": width, "Q": height}
    reach = {"R": width - wide + 1, "S": height - high + 1} if width >= wide and height >= high else {}
    keys = {"P": wide, "Q": high, **reach} if reach else queries
    tokens = tokens if reach else width * height
    return (1, 2, height, width), [
        layer((0,), **queries, C=2, K=4),
        layer((0,), **keys, C=2, K=8),
        layer((1, 2), **queries, C=2, K=tokens, G=2, weight_dim=K, weight_channels=((4, 8),)),
        layer((3, 2), **queries, C=tokens, K=2, G=2, weight_dim=C, weight_channels=((0, 4),)),
    ]


def shared(draw: Any) -> tuple[tuple[int, int, int, int], list[Layer]]:
    """Two groups of three query heads, each group with keys and values that its heads share; some layers split them."""
    tokens = draw(st.integers(2, 3))
    shape = {"P": tokens, "G": 2, "N": 3, "has_heads": True}
    return (1, 3, 1, tokens), [
        layer((0,), P=tokens, C=3, K=14),
        layer((0,), P=tokens, C=3, K=8),
        layer((1, 2), C=2, K=tokens, weight_dim=K, channels=((2, 14),), weight_channels=((0, 4),), **shape),
        layer((3, 2), C=tokens, K=2, weight_dim=C, weight_channels=((4, 8),), **shape),
        layer((4,), P=tokens, C=12, K=2),
    ]


def fused(draw: Any) -> tuple[tuple[int, int, int, int], list[Layer]]:
    """Queries, keys and values as channels of one tensor, the heads outside or inside; a layer reads some of them."""
    tokens = draw(st.integers(2, 3))
    thirds = draw(st.sampled_from((((0, 4), (4, 8), (8, 12)), ((8, 12), (0, 4), (4, 8)))))
    taken = tuple((one,) for one in thirds)
    if draw(st.booleans()):  # head by head
        taken = tuple(((2 * at, 2 * at + 2), (6 + 2 * at, 8 + 2 * at)) for at in range(3))
    query, key, value = taken
    scores = layer((1, 1), P=tokens, C=2, K=tokens, G=2, weight_dim=K, channels=query, weight_channels=key)
    context = layer((2, 1), P=tokens, C=tokens, K=2, G=2, weight_dim=C, weight_channels=value)
    some = layer((3, 1), P=tokens, C=3, K=1, G=2, join=CONCAT, channels=((9, 10), (0, 3), (4, 6)))
    return (1, 3, 1, tokens), [layer((0,), P=tokens, C=3, K=12), scores, context, some]


def cut_axis(draw: Any, axis: int, size: int) -> list[tuple[int, int, int]]:
    """Cut an axis in digits (axis, count, step), those of one number left out, in any order."""
    cut, step = [], 1
    while step < size:
        count = draw(st.sampled_from([f for f in range(2, size // step + 1) if size // step % f == 0]))
        cut.append((axis, count, step))
        step *= count
    return cut


def reorder(draw: Any, shape: tuple[int, int, int, int], has_rolls: bool = True) -> Reorder:
    """A tensor of this shape with the digits of its axes along any axes."""
    axes: list[list[tuple[int, int, int]]] = [[], [], [], []]
    for digit in draw(st.permutations([digit for axis in range(4) for digit in cut_axis(draw, axis, shape[axis])])):
        axes[draw(st.integers(0, 3))].append(digit)
    rolls = [(draw(st.integers(0, 2)), draw(st.integers(0, 2))) if has_rolls else (0, 0) for _ in range(2)]
    n, c, h, w = (tuple(axis) for axis in axes)
    return Reorder((n, c, h, w), *rolls)


def reordered(draw: Any) -> tuple[tuple[int, int, int, int], list[Layer]]:
    """A tensor that is read with its axes in another order, by a filter, and so is what that makes."""
    samples, height, width = draw(st.integers(1, 2)), draw(st.sampled_from((1, 2, 4))), draw(st.sampled_from((3, 4)))
    taken = draw(st.sampled_from((None, ((4, 6), (1, 3)))))
    view = reorder(draw, (samples, 6 if taken is None else 4, height, width))
    n, c, h, w = view.shape
    groups = draw(st.sampled_from([f for f in (1, 2, 3) if c % f == 0]))
    reach = {"R": draw(st.integers(1, min(2, w))), "S": draw(st.integers(1, min(2, h)))}
    shape = n, 2 * groups, h, w
    again = reorder(draw, shape)
    more = {"N": again.shape[0], "C": again.shape[1], "Q": again.shape[2], "P": again.shape[3]}
    return (samples, 2, height, width), [
        layer((0,), N=samples, P=width, Q=height, C=2, K=6),
        layer((1,), N=n, P=w, Q=h, C=c // groups, K=2, G=groups, views=(view,), channels=taken, pad=(0, 0), **reach),
        layer((2,), **more, K=2, views=(again,)),
    ]


def phases(draw: Any) -> tuple[tuple[int, int, int, int], list[Layer]]:
    """Two layers make the even and the odd columns of a tensor, which stands beside others in any order: a plain one,
    and a resized or a pooled one. Their channels are taken in any order, too.
    """
    width = draw(st.integers(1, 3))
    size, made = (2 * width, 2), {"P": width, "Q": 2, "C": 2, "K": 3, "R": 2}
    view = Reorder(((), ((1, 3, 1),), ((2, 2, 1),), ((3, width, 1), (1, 2, 3))))
    third = draw(st.sampled_from(((), ((0, Resize(size)),), ((3, Pool((1, 1), (1, 1), (0, 0), size)),))))
    order = draw(st.permutations((((1, view), (2, view)), ((3, None),), third)))
    channels: list[list[tuple[int, int]]] = []
    for own in filter(None, order):
        first = sum(high - low for some in channels for low, high in some)
        channels.append([(first, first + 6)] if len(own) == 2 else [(first + 1, first + 2), (first, first + 1)])
    taken = tuple(one for some in draw(st.permutations(channels)) for one in some)
    listed = [one for own in order for one in own]
    return (1, 2, 2, width), [
        layer((0,), pad=(1, 0), **made),
        layer((0,), pad=(0, 0), **made),
        layer((0,), P=2 * width, Q=2, C=2, K=2, views=(Resize(size),)),
        layer(
            tuple(tensor for tensor, _ in listed), R=3, P=2 * width, Q=2, C=7 if third else 5, K=2, join=CONCAT,
            pad=(1, 0), views=tuple(seen for _, seen in listed), channels=draw(st.sampled_from((None, taken))),
        ),
    ]  # fmt: skip


def windows(draw: Any) -> tuple[tuple[int, int, int, int], list[Layer]]:
    """Attention of two heads in four windows, which may be rolled, and its output in the order of pixels again."""
    samples, high, wide = draw(st.integers(1, 2)), draw(st.integers(1, 2)), draw(st.integers(1, 2))
    roll = draw(st.sampled_from(((0, 0), (-1, -1), (0, 1))))
    height, width, tokens, sample = 2 * high, 2 * wide, high * wide, ((0, samples, 1),) if samples > 1 else ()
    cut = Reorder((sample, ((2, 2, high), (3, 2, wide), (1, 4, 1)), (), ((2, high, 1), (3, wide, 1))), roll)
    whole = ((1, 2, 8), (3, high, wide)), ((1, 2, 4), (3, wide, 1))
    back = Reorder((sample, ((1, 4, 1),), *whole), (0, 0), (-roll[0], -roll[1]))
    heads = {"P": tokens, "G": 8, "N": samples, "has_sample_weights": samples > 1}
    pixels = {"P": width, "Q": height, "N": samples}
    return (samples, 2, height, width), [
        layer((0,), C=2, K=12, **pixels),
        layer(
            (1, 1), C=2, K=tokens, weight_dim=K, channels=((0, 4),), weight_channels=((4, 8),), views=(cut,),
            weight_view=cut, **heads,
        ),
        layer((2, 1), C=tokens, K=2, weight_dim=C, weight_channels=((8, 12),), weight_view=cut, **heads),
        layer((3,), C=4, K=3, views=(back,), **pixels),
    ]  # fmt: skip


NETWORKS = (
    single,
    pooled,
    residual,
    gated,
    concatenated,
    viewed,
    many,
    seen_again,
    pyramid,
    summed,
    reordered_sums,
    attention,
    pixels,
    shared,
    fused,
    reordered,
    phases,
    windows,
)
