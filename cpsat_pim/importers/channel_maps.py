"""Which channel of its layers each element of a tensor is: what readers of split or reordered tensors take.

A map is an array of the tensor's shape with the channel of each element, counted over the tensor's parts side by side.
Axes along which nothing changes take no memory. No map (None) stands for a tensor whose order is not followed: its
readers are taken to read all channels in order.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cpsat_pim.importers.products import Shape, transposed
from cpsat_pim.workload.joins import Range

Map = NDArray[np.int64]

#: Elements of the largest tensor whose order is followed, and of the largest map that is kept.
MOST_ELEMENTS, MOST_KEPT = 1 << 28, 1 << 20


def small(own: Map | None) -> Map | None:
    """Return a map unless it takes too much memory."""
    return own if own is not None and own[_varying(own)].size <= MOST_KEPT else None


def _varying(*maps: Map) -> tuple[slice, ...]:
    """Return what to take of maps of equally many axes for their first element along those where none changes."""
    strides = zip(*(one.strides for one in maps), strict=True)
    return tuple(slice(None) if any(along) else slice(0, 1) for along in strides)


def channels_along(shape: Shape, axis: int) -> Map | None:
    """Return the map of a tensor whose channels are one of its axes, in order."""
    if np.prod(shape, dtype=np.float64) > MOST_ELEMENTS:
        return None
    sizes = [1] * len(shape)
    sizes[axis] = shape[axis]
    return np.broadcast_to(np.arange(shape[axis]).reshape(sizes), shape)


def places_along(shape: Shape, axes: Sequence[int]) -> Map | None:
    """Return the map of the positions of a tensor, counted along some axes, the first one outermost."""
    if np.prod(shape, dtype=np.float64) > MOST_ELEMENTS:
        return None
    sizes = [size if axis in {one % len(shape) for one in axes} else 1 for axis, size in enumerate(shape)]
    return np.broadcast_to(np.arange(np.prod(sizes)).reshape(sizes), shape)


def product_channels(left: Shape, right: Shape, out: Shape) -> Map | None:
    """Return the map of [..., rows, channels] x [..., channels, outputs]: a batch axis of both operands counts
    channels; None where one of the right operand alone extends the outputs.
    """
    if min(len(left), len(right)) < 2 or np.prod(out, dtype=np.float64) > MOST_ELEMENTS:
        return None
    index: Map = np.arange(out[-1]).reshape([1] * (len(out) - 1) + [out[-1]])
    count = out[-1]
    for axis in range(3, len(out) + 1):
        ours, theirs = (shape[-axis] if axis <= len(shape) else 1 for shape in (left, right))
        if theirs > 1 and ours == 1:
            return None
        if theirs > 1:
            own = np.arange(theirs).reshape([theirs] + [1] * (axis - 1))
            index = index + own * count
            count *= theirs
    return np.broadcast_to(index, out)


def product_places(left: Shape, right: Shape, out: Shape) -> Map | None:
    """Return the map of the positions of the same product: batch axes of the left operand alone, and its rows."""
    return places_along(out, [*own_axes(left, right), -2])


def of_product(
    rule: Callable[[Shape, Shape, Shape], Map | None], left: Shape, right: Shape, out: Shape, is_turned: bool
) -> Map | None:
    """Return such a map of a product; `is_turned`: the left operand is W, so that it is computed transposed."""
    if not is_turned:
        return rule(left, right, out)
    found = rule(*(transposed(shape) for shape in (right, left, out)))
    return None if found is None else found.swapaxes(-1, -2)


def own_axes(left: Shape, right: Shape) -> list[int]:
    """Return the batch axes of the left operand alone, counted from the end, the outermost first."""
    return [-axis for axis in range(len(left), 2, -1) if left[-axis] > 1 and (axis > len(right) or right[-axis] == 1)]


def shared_axes(left: Shape, right: Shape) -> list[int]:
    """Return the batch axes of both operands of a matrix product, counted from the end, the outermost first."""
    return [-axis for axis in range(min(len(left), len(right)), 2, -1) if left[-axis] > 1 < right[-axis]]


def distinct(own: Map) -> int:
    """Return how many channels there are."""
    return len(np.unique(own[_varying(own)]))


def repeats_along(own: Map, axis: int) -> int:
    """Return how often each channel is repeated along an axis, one behind the other; 1 if it is not."""
    along = np.moveaxis(own, axis, 0)
    count = len(along) // max(1, len(np.unique(along.reshape(len(along), -1)[:, :1])))
    is_even = count > 1 and len(along) % count == 0
    return count if is_even and all(np.array_equal(along[i], along[i - i % count]) for i in range(len(along))) else 1


def common_map(maps: Sequence[Map | None], shape: Shape) -> Map | None:
    """Return the map of an element-wise function of tensors that have data, those of other shapes left out.

    Operands that differ in the order of the same channels, as in rotary embeddings, have the order of the first.
    """
    same = [one for one in maps if one is None or one.shape == shape]
    first = next(iter(same), None)
    if first is None or any(other is None or not _alike(first, other) for other in same):
        return None
    return first


def _alike(one: Map, other: Map) -> bool:
    varying = _varying(one, other)
    one, other = one[varying], other[varying]
    if np.array_equal(one, other):
        return True
    return np.array_equal(np.sort(one, axis=-1), np.sort(other, axis=-1))


def kept_map(own: Map | None, shape: Shape) -> Map | None:
    """Return the map of a tensor with other sizes along axes that its channels do not depend on."""
    if own is None or len(own.shape) != len(shape):
        return None
    for axis, size in enumerate(shape):
        if size != own.shape[axis]:
            if not _is_constant(own, axis):
                return None
            own = own.take([0], axis=axis)
    return np.broadcast_to(own, shape)


def side_by_side(maps: Sequence[Map | None], firsts: Sequence[int], axis: int) -> Map | None:
    """Return the map of concatenated tensors, the channels of each counted from a first one."""
    known = [one for one in maps if one is not None]
    if len(known) < len(maps):
        return None
    varying = [*_varying(*known)]
    varying[axis] = slice(None)
    joined = np.concatenate([one[*varying] + first for one, first in zip(known, firsts, strict=True)], axis=axis)
    sizes = [*known[0].shape]
    sizes[axis] = joined.shape[axis]
    return np.broadcast_to(joined, sizes)


def gathered(own: Map, index: NDArray[Any], axis: int) -> Map:
    """Return the map of slices along an axis, an axis for each of the index."""
    varying = [*_varying(own)]
    varying[axis] = slice(None)
    found = np.take(own[*varying], index, axis=axis)
    axis %= own.ndim
    return np.broadcast_to(found, (*own.shape[:axis], *index.shape, *own.shape[axis + 1 :]))


def taken(own: Map | None, axes: Sequence[int], total: int | None, is_free: bool) -> tuple[Range, ...] | None:
    """Return the channels of a reader whose own channels are some axes, the first outermost; None for all in order.

    Args:
        own: the map of what it reads.
        axes: the axes. Those before the last one along which channels are the same are samples.
        total: channels of what it reads, None if they are not known.
        is_free: the order of the reader's channels does not matter: its weights may be in any.
    """
    if own is None or total is None:
        return None
    axes = [axis for axis in axes[:-1] if not _is_constant(own, axis)] + [*axes[-1:]]
    others = [axis for axis in range(own.ndim) if axis not in {one % own.ndim for one in axes}]
    if any(not _is_constant(own, axis) for axis in others):
        return None
    index = own.transpose([*others, *(axis % own.ndim for axis in axes)])
    listed = index[(0,) * len(others)].reshape(-1)
    distinct = np.unique(listed)
    if len(distinct) < len(listed) or len(listed) == 0 or distinct[-1] >= total:
        return None
    ranges = _ranges(distinct if is_free else listed)
    return None if ranges == ((0, total),) else ranges


def _ranges(listed: Map) -> tuple[Range, ...]:
    """Return numbers in order as ranges."""
    starts = np.flatnonzero(np.diff(listed, prepend=listed[0] - 2) != 1)
    stops = [*starts[1:], len(listed)]
    return tuple((int(listed[a]), int(listed[b - 1]) + 1) for a, b in zip(starts, stops, strict=True))


def _is_constant(own: Map, axis: int) -> bool:
    return own.shape[axis] == 1 or own.strides[axis] == 0 or bool((own == own.take([0], axis=axis)).all())
