"""Which element of a layer's output each one that another layer reads is, where rows, columns and channels are counted
along other axes (docs/array.md, section 2).
"""

import math
from collections.abc import Sequence

import numpy as np
from attrs import evolve, frozen
from numpy.typing import NDArray

from cpsat_pim.importers.channel_maps import MOST_KEPT, Map
from cpsat_pim.workload.joins import Range
from cpsat_pim.workload.positions import Positions
from cpsat_pim.workload.reorders import AXES, Digit, Reorder

#: Which axes of a tensor are N, C, H and W of what a layer reads.
Roles = tuple[Sequence[int], Sequence[int], Sequence[int], Sequence[int]]


@frozen(eq=False)
class Seen:
    """What a layer reads, [N, C, H, W]: of each element its channel, and its position, counted row by row over all
    samples.
    """

    channels: Map
    places: Map

    @property
    def is_plain(self) -> bool:
        """Whether positions are counted as they are made, and their channels are the same everywhere."""
        places, channels = (np.moveaxis(one, 1, 3) for one in (self.places, self.channels))
        if not _is_constant(places, 3) or any(not _is_constant(channels, axis) for axis in range(3)):
            return False
        return np.array_equal(places[..., 0].reshape(-1), np.arange(places[..., 0].size))

    @property
    def has_like_rows(self) -> bool:
        """Whether channels are the same in all columns."""
        return _is_constant(self.channels, 3)

    def along(self, made: "Seen", shape: tuple[int, int, int, int]) -> "Seen | None":
        """Return the elements of a tensor where a layer makes those, [N, C, H, W], that lie in their places in another
        one; None if these are not all that it makes, each once.
        """
        _, count, height, width = shape
        inside = height * width
        at = (made.places // inside * count + made.channels) * inside + made.places % inside
        order = np.argsort(at, axis=None)
        if at.size != math.prod(shape) or not np.array_equal(at.reshape(-1)[order], np.arange(at.size)):
            return None
        return Seen(*(one.reshape(-1)[order].reshape(shape) for one in (self.channels, self.places)))

    def moved(self, order: NDArray[np.int64], positions: Positions) -> "Seen":
        """Return the same with other positions, samples, rows and columns: the old one of each, in the new order."""

        def taken(one: Map) -> Map:
            rows = np.moveaxis(one, 1, 3).reshape(-1, one.shape[1])[order]
            return np.moveaxis(rows.reshape(*positions, -1), 3, 1)

        return Seen(taken(self.channels), taken(self.places))


def seen(channels: Map | None, places: Map | None, roles: Roles) -> Seen | None:
    """Return what a layer reads of a tensor; None if that is not known. Axes of one element need no role."""
    if channels is None or places is None or channels.shape != places.shape or channels.size > 4 * MOST_KEPT:
        return None
    given = {axis % channels.ndim for role in roles for axis in role}
    left = [axis for axis in range(channels.ndim) if axis not in given]
    if any(channels.shape[axis] > 1 for axis in left):
        return None
    axes = [*left, *(axis for role in roles for axis in role)]
    shape = [math.prod(channels.shape[axis] for axis in role) for role in roles]
    return Seen(*(one.transpose(axes).reshape(shape) for one in (channels, places)))


def reorder_of(read: Seen, positions: Positions, count: int) -> tuple[Reorder, tuple[Range, ...] | None] | None:
    """Return how a tensor of so many positions and channels is reordered, and which of its channels are taken before.

    None if digits cannot tell.
    """
    listed = np.unique(read.channels)
    if len(listed) == 0 or listed[-1] >= count or read.places.size != len(listed) * math.prod(positions):
        return None
    samples, rows, columns = positions
    inside = rows * columns
    raw = (
        read.places // inside,
        np.searchsorted(listed, read.channels),
        read.places % inside // columns,
        read.places % columns,
    )
    sizes = samples, len(listed), rows, columns
    found = _rolled_before(raw, sizes) or _rolled_behind(raw, sizes)
    if found is None or not found.fits(sizes):
        return None
    edges = np.flatnonzero(np.diff(listed, prepend=listed[0] - 2) != 1)
    ranges = tuple((int(one[0]), int(one[-1]) + 1) for one in np.split(listed, edges[1:]))
    return found, None if ranges == ((0, count),) else ranges


Raw = tuple[Map, Map, Map, Map]


def _rolled_before(raw: Raw, sizes: Sequence[int]) -> Reorder | None:
    """Return the digits of a tensor that may be rolled before it is reordered."""
    first = [int(one.flat[0]) for one in raw]
    if first[0] or first[1]:
        return None
    n, c, h, w = ((one - at) % size for one, at, size in zip(raw, first, sizes, strict=True))
    found = _digits((n, c, h, w))
    return found and evolve(found, roll=(-first[3] % sizes[3], -first[2] % sizes[2]))


def _rolled_behind(raw: Raw, sizes: Sequence[int]) -> Reorder | None:
    """Return the digits of a tensor that is rolled behind the reordering: where its first element comes to lie."""
    zero = np.argwhere(sum(one for one in raw) == 0)
    if len(zero) != 1 or zero[0][0] or zero[0][1]:
        return None
    roll = int(zero[0][3]), int(zero[0][2])
    n, c, h, w = (np.roll(one, (-roll[0], -roll[1]), axis=(3, 2)) for one in raw)
    found = _digits((n, c, h, w))
    return found and evolve(found, roll_behind=roll)


def _digits(raw: Raw) -> Reorder | None:
    """Return the digits that give an index along each axis of a tensor, from that of the first element, 0."""
    axes = []
    for axis in range(4):
        at = tuple(slice(None) if other == axis else 0 for other in range(4))
        digits = _digits_along([one[at] for one in raw])
        if digits is None:
            return None
        axes.append(digits)
    n, c, h, w = axes
    found = Reorder(N=n, C=c, H=h, W=w)
    given = _indices(found)
    return found if all(np.array_equal(one, other) for one, other in zip(raw, given, strict=True)) else None


def _digits_along(profiles: Sequence[Map]) -> tuple[Digit, ...] | None:
    """Return the digits of one axis, innermost last, of the indices that it gives along each axis of the tensor."""
    digits: list[Digit] = []
    while (size := len(profiles[0])) > 1:
        moved = [axis for axis in range(4) if profiles[axis][1] != profiles[axis][0]]
        if len(moved) != 1:
            return None
        own, step = profiles[moved[0]], int(profiles[moved[0]][1])
        broken = np.flatnonzero(own != np.arange(size) * step)
        count = int(broken[0]) if len(broken) else size
        if step < 1 or size % count:
            return None
        digits.insert(0, (AXES[moved[0]], count, step))
        profiles = [one[::count] for one in profiles]
    return tuple(digits)


def _indices(view: Reorder) -> list[Map]:
    """Return the index along each axis of a tensor of all that is seen of it, without rolls."""
    found: list[Map] = [np.zeros((1, 1, 1, 1), np.int64) for _ in AXES]
    for axis, digits in enumerate(view.axes):
        left = np.arange(view.shape[axis]).reshape([-1 if other == axis else 1 for other in range(4)])
        for source, count, step in reversed(digits):
            at = AXES.index(source)
            found[at] = found[at] + left % count * step
            left = left // count
    return [np.broadcast_to(one, view.shape) for one in found]


def _is_constant(one: Map, axis: int) -> bool:
    return one.shape[axis] == 1 or one.strides[axis] == 0 or bool((one == one.take([0], axis=axis)).all())
