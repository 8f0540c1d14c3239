"""A network evaluated directly, without nodes: each layer by its definition, in numpy."""

from collections.abc import Iterable
from fractions import Fraction
from itertools import groupby
from math import ceil, floor

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from tracesim.array.records import ADD, CONCAT, LINEAR, NEAREST, Added, K, Layer, Plan, Pool, Reorder, Resize


def evaluate(plan: Plan, inputs: np.ndarray, weights: dict[int, np.ndarray]) -> dict[int, np.ndarray]:
    """Return the tensors int64[N, C, H, W]; a sum replaces its first operand when its operands are there."""
    tensors = {0: inputs}
    sums = {layer.after[0]: layer.after for layer in plan.layers if layer.join == ADD}
    for number, layer in enumerate(plan.layers):
        parts = [named(tensors, sums, tensor) for tensor in layer.after]
        read = side_by_side(layer, parts if layer.join == CONCAT else parts[:1])
        read = add_windows(read, layer.input_pool) + added_up(layer.input_added, tensors, sums)
        weight = weights[number] if layer.weight_dim < 0 else as_weights(layer, weight_tensor(layer, parts[1]))
        made = convolve(layer, read, weight)
        tensors[number + 1] = add_windows(made, layer.pool) + added_up(layer.added, tensors, sums)
    return {tensor: named(tensors, sums, tensor) for tensor in tensors}


def side_by_side(layer: Layer, parts: list[np.ndarray]) -> np.ndarray:
    """Return the channels that a layer takes of tensors, each seen in its way: what is reordered alike together."""
    views = layer.views or (None,) * len(parts)
    planes = [(at, part[:, c : c + 1]) for at, part in enumerate(parts) for c in range(part.shape[1])]
    wanted = range(len(planes)) if layer.channels is None else [c for one in layer.channels for c in range(*one)]
    alike = groupby((planes[c] for c in wanted), lambda plane: (views[plane[0]], plane[1].shape[2:]))
    seen = [looked_at(np.concatenate([plane for _, plane in own], axis=1), view) for (view, _), own in alike]
    return np.concatenate(seen, axis=1)


def looked_at(tensor: np.ndarray, view: Pool | Resize | Reorder | None) -> np.ndarray:
    """Return a tensor pooled, resized or reordered."""
    if isinstance(view, Reorder):
        return reordered(tensor, view)
    return resized(tensor, view) if isinstance(view, Resize) else add_windows(tensor, view)


def weight_tensor(layer: Layer, tensor: np.ndarray) -> np.ndarray:
    """Return what a layer takes as W, as it sees it."""
    taken = take(tensor, layer.weight_channels)
    return taken if layer.weight_view is None else reordered(taken, layer.weight_view)


def reordered(tensor: np.ndarray, view: Reorder) -> np.ndarray:
    """Return a tensor with its axes cut in digits, which are brought in another order, and joined to four axes again.

    Digits of each axis stand in the tensor with the largest step first.
    """
    rolled = np.roll(tensor, view.roll, axis=(3, 2))
    wanted = [(axis, count, step) for digits in view.axes for axis, count, step in digits]
    stored = sorted(range(len(wanted)), key=lambda at: (wanted[at][0], -wanted[at][2]))
    cut = rolled.reshape([wanted[at][1] for at in stored])
    joined = cut.transpose([stored.index(at) for at in range(len(wanted))]).reshape(
        [int(np.prod([count for _, count, _ in digits])) for digits in view.axes]
    )
    return np.roll(joined, view.roll_behind, axis=(3, 2))


def added_up(
    adds: Iterable[Added], tensors: dict[int, np.ndarray], sums: dict[int, tuple[int, ...]]
) -> np.ndarray | int:
    """Return what is added to a layer's input or output."""
    return sum(looked_at(take(named(tensors, sums, one.tensor), one.channels), one.view) for one in adds)


def named(tensors: dict[int, np.ndarray], sums: dict[int, tuple[int, ...]], tensor: int) -> np.ndarray:
    """Return a tensor, or the sum that has its name."""
    total, others = tensors[tensor], sums.get(tensor, ())[1:]
    for operand in others if all(operand in tensors for operand in others) else ():
        total = total + named(tensors, sums, operand)
    return total


def take(tensor: np.ndarray, channels: tuple[tuple[int, int], ...] | None) -> np.ndarray:
    """Return some channels of a tensor, in this order; all for None."""
    return tensor if channels is None else np.concatenate([tensor[:, low:high] for low, high in channels], axis=1)


def as_weights(layer: Layer, tensor: np.ndarray) -> np.ndarray:
    """Return [N, G, K, C, 1, 1] of a tensor [N, G * C, H, W] of K positions, or [N, G * K, H, W] of C."""
    _, _, _, _, c, k, _, g = layer.bounds.tolist()
    if layer.weight_dim == K:
        return tensor.reshape(-1, g, c, k).swapaxes(2, 3)[..., None, None]
    return tensor.reshape(-1, g, k, c)[..., None, None]


def convolve(layer: Layer, read: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Return [N, G * K, Q, P], or of heads along channels [1, G * N * K, Q, P]: each of them by itself."""
    if not layer.has_heads:
        own = np.broadcast_to(weights, (len(read), *weights.shape[1:]))
        return np.concatenate([convolve_samples(layer, read[n : n + 1], own[n]) for n in range(len(read))])
    groups, heads = layer.bounds[[7, 6]].tolist()
    blocks = read.reshape(groups, heads, -1, *read.shape[2:])
    made = [convolve_samples(layer, blocks[:, n].reshape(1, -1, *read.shape[2:]), weights[0]) for n in range(heads)]
    by_group = np.stack([one.reshape(groups, -1, *one.shape[2:]) for one in made], axis=1)
    return by_group.reshape(1, -1, *by_group.shape[3:])


def convolve_samples(layer: Layer, read: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Return [N, G * K, Q, P] of [N, G * C, H, W] and [G, K, C, S, R], over an input with zeros on all sides."""
    r, s, p, q, c, _, _, groups = layer.bounds.tolist()
    stride_w, stride_h, dilation_w, dilation_h = layer.conv.tolist()
    height, width = (q - 1) * stride_h + (s - 1) * dilation_h + 1, (p - 1) * stride_w + (r - 1) * dilation_w + 1
    padded = np.zeros((*read.shape[:2], height + read.shape[2] + 9, width + read.shape[3] + 9), np.int64)
    left, top = layer.pad
    padded[:, :, top : top + read.shape[2], left : left + read.shape[3]] = read
    window = ((s - 1) * dilation_h + 1, (r - 1) * dilation_w + 1)
    views = sliding_window_view(padded[:, :, :height, :width], window, axis=(2, 3))
    views = views[:, :, ::stride_h, ::stride_w, ::dilation_h, ::dilation_w]
    outputs = [
        np.einsum("ncqpsr,kcsr->nkqp", views[:, g * c : (g + 1) * c], weights[g], optimize=False) for g in range(groups)
    ]
    return np.concatenate(outputs, axis=1)


def add_windows(tensor: np.ndarray, pool: Pool | None) -> np.ndarray:
    """Return the sums over pooling windows, clipped to the tensor."""
    if pool is None:
        return tensor
    width, height = pool.size
    pooled = np.zeros((*tensor.shape[:2], height, width), np.int64)
    for y in range(height):
        for x in range(width):
            top, left = y * pool.stride[1] - pool.pad[1], x * pool.stride[0] - pool.pad[0]
            window = tensor[:, :, max(0, top) : top + pool.window[1], max(0, left) : left + pool.window[0]]
            pooled[:, :, y, x] = window.sum(axis=(2, 3))
    return pooled


def resized(tensor: np.ndarray, resize: Resize) -> np.ndarray:
    """Return a tensor of other rows and columns: the sums of the elements that each of its elements lies between."""
    for axis, size in ((2, resize.size[1]), (3, resize.size[0])):
        places = [between(resize.kind, at, tensor.shape[axis], size) for at in range(size)]
        tensor = np.stack([tensor.take(place, axis=axis).sum(axis=axis) for place in places], axis=axis)
    return tensor


def between(kind: int, at: int, size: int, seen: int) -> list[int]:
    """Return the indices of an axis of `size` that an index of one of `seen` lies at, or between."""
    if kind == NEAREST:
        return [floor(Fraction(at * size, seen))]
    if kind == LINEAR:  # middles of elements lie at their index plus a half
        place = (at + Fraction(1, 2)) * size / seen - Fraction(1, 2)
    else:
        place = Fraction(at * (size - 1), max(1, seen - 1))
    place = min(max(place, Fraction(0)), Fraction(size - 1))
    return sorted({floor(place), ceil(place)})
