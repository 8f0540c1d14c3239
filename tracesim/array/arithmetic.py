"""What a node computes, on integers: convolution of its part, and pooling by adding up windows."""

import numpy as np

from tracesim.array.areas import Area
from tracesim.array.needs import Part
from tracesim.array.network import blocks_of
from tracesim.array.records import C as C_DIM
from tracesim.array.records import Ints, K, Layer, N, Pool, R, Resize, S
from tracesim.array.views import sources


class ExecutionError(Exception):
    """The plan's messages do not do what the plan says."""


def convolve_part(layer: Layer, part: Part, inputs: Ints, present: Ints, channels: Ints, weights: Ints) -> Ints:
    """Return the partial sums of a part, int64[N, channels, Q, P] with zeros elsewhere.

    `inputs`, `present` int64[N, stack's C, H, W]; `channels` by the reader's channel; `weights` int64[n, g, k, c, S, R]
    of the part's box, n = 1 where samples share them. ExecutionError where an input is not present.
    """
    bounds = layer.bounds.tolist()
    p, q = (np.arange(*of) for of in (part.p, part.q))
    samples, count = blocks_of(layer)
    sums = np.zeros((samples, count * bounds[K], bounds[3], bounds[2]), np.int64)
    stride_w, stride_h, dilation_w, dilation_h = layer.conv.tolist()
    for block, index, n in _blocks(layer, part):
        own = np.broadcast_to(weights, (len(n), *weights.shape[1:]))
        c = channels[block * bounds[C_DIM] + part.c[0] : block * bounds[C_DIM] + part.c[1]]
        k = np.arange(*part.k) + block * bounds[K]
        for s in range(bounds[S]):
            for r in range(bounds[R]):
                rows = q * stride_h + s * dilation_h - layer.pad[1]
                cols = p * stride_w + r * dilation_w - layer.pad[0]
                values = _gather(inputs, present, n, c, rows, cols)
                sums[np.ix_(n, k, q, p)] += np.einsum("ncqp,nkc->nkqp", values, own[:, index, :, :, s, r])
    return sums


def _blocks(layer: Layer, part: Part) -> list[tuple[int, int, Ints]]:
    """Return the blocks of channels of a part: the number of each, of its group in the part, and its samples."""
    if not layer.has_heads:
        return [(g, index, np.arange(*part.n)) for index, g in enumerate(range(*part.g))]
    heads, first = int(layer.bounds[N]), np.zeros(1, np.int64)
    return [(g * heads + n, index, first) for index, g in enumerate(range(*part.g)) for n in range(*part.n)]


def _gather(inputs: Ints, present: Ints, n: Ints, c: Ints, rows: Ints, cols: Ints) -> Ints:
    """Return the inputs at these places; zero outside of the tensor. ExecutionError where one is not present."""
    height, width = inputs.shape[2:]
    inside = ((rows >= 0) & (rows < height))[:, None] & ((cols >= 0) & (cols < width))
    at = np.ix_(n, c, rows.clip(0, height - 1), cols.clip(0, width - 1))
    if not (present[at] | ~inside).all():
        raise ExecutionError("a node computes with an input that it does not have")
    taken: Ints = np.where(inside, inputs[at], 0)
    return taken


def view_held(held: Ints, present: Ints, view: Pool | Resize) -> tuple[Ints, Ints]:
    """Return what a pooled or resized tensor adds up of the elements that are present, and how many it finds.

    int64[N, C, H, W] all; of the height and width that are seen both results.
    """
    width, height = view.size
    sums = np.zeros((*held.shape[:2], height, width), np.int64)
    found = np.zeros_like(sums)
    for y in range(height):
        for x in range(width):
            rows, cols = (slice(*sources(view, axis, at, held.shape[3 - axis])) for axis, at in ((1, y), (0, x)))
            sums[:, :, y, x] = (held * present)[:, :, rows, cols].sum(axis=(2, 3))
            found[:, :, y, x] = present[:, :, rows, cols].sum(axis=(2, 3))
    return sums, found


def window_sizes(view: Pool | Resize, height: int, width: int) -> Ints:
    """Return int64[H, W] of the tensor that is seen: of how many elements each is made, of a tensor of this size."""
    ones = np.ones((1, 1, height, width), np.int64)
    sizes: Ints = view_held(ones, ones, view)[1][0, 0]
    return sizes


def mask(shape: tuple[int, ...], *parts: Area) -> Ints:
    """Return int64[shape]: 1 in the parts, 0 elsewhere."""
    marked = np.zeros(shape, np.int64)
    for part in parts:
        for low, high in part.c:
            marked[slice(*part.n), low:high, slice(*part.y), slice(*part.x)] = 1
    return marked
