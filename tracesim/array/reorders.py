"""What a layer reads of a tensor whose elements it counts along other axes (docs/array.md, section 2).

All is done element by element: the elements that a part reads are marked in the stack, and cut in boxes.
"""

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from tracesim.array.areas import Area, Range, area
from tracesim.array.records import AXIS_H, AXIS_W, Ints, Reorder

Marks = NDArray[np.bool_]


def marked(view: Reorder, seen: Area, channels: Ints, shape: tuple[int, int, int, int]) -> Marks:
    """Return bool[shape]: the elements of a stack that are seen as an area.

    `channels` int64[C]: the channel in the stack of each that the reader takes, in its order.
    """
    found = np.zeros(shape, np.bool_)
    for each in seen.c:
        ranges = seen.n, each, seen.y, seen.x
        found[*elements_at(view, [np.arange(*of) for of in ranges], channels, shape)] = True
    return found


def elements_at(
    view: Reorder, places: Sequence[Ints], channels: Ints, shape: tuple[int, int, int, int]
) -> tuple[Ints, Ints, Ints, Ints]:
    """Return, as numpy indices of a stack, its elements that are seen at places along N, C, H and W."""
    sizes = shape[0], len(channels), *shape[2:]
    at = [np.zeros((1, 1, 1, 1), np.int64) for _ in range(4)]
    for axis, (own, digits) in enumerate(zip(places, view.axes, strict=True)):
        left = (own - _roll(view.roll_behind, axis)) % view.shape[axis]
        for source, count, step in reversed(digits):
            along = np.ones(4, np.int64)
            along[axis] = len(own)
            at[source] = at[source] + (left % count * step).reshape(along)
            left = left // count
    n, c, y, x = ((each - _roll(view.roll, axis)) % sizes[axis] for axis, each in enumerate(at))
    return n, channels[c], y, x


def _roll(pair: tuple[int, int], axis: int) -> int:
    """Return by how much an axis is rolled, of columns and rows."""
    return {AXIS_W: pair[0], AXIS_H: pair[1]}.get(axis, 0)


def cut_in_boxes(marks: Marks) -> list[Area]:
    """Return marked elements as boxes: along N, C, H and W in turn, neighbours of which the same is marked together."""
    return [
        area(n, [c], y, x)
        for n, sample in _runs(marks)
        for c, channel in _runs(sample)
        for y, row in _runs(channel)
        for x, _ in _runs(row)
    ]


def _runs(marks: Marks) -> Iterator[tuple[Range, Marks]]:
    """Yield the ranges along the first axis in which the same is marked, with what is marked there, if anything is."""
    flat = marks.reshape(len(marks), -1)
    starts = [0, *(np.flatnonzero((flat[1:] != flat[:-1]).any(axis=1)) + 1).tolist()]
    for first, behind in zip(starts, [*starts[1:], len(marks)], strict=True):
        if flat[first].any():
            yield (first, behind), marks[first]


def check_digits(view: Reorder, shape: tuple[int, int, int, int]) -> None:
    """Raise a ValueError unless each element of a tensor of this shape is seen at one place."""
    for source, size in enumerate(shape):
        own = sorted((step, count) for axis in view.axes for axis_read, count, step in axis if axis_read == source)
        behind = 1
        for step, count in own:
            if step != behind:
                raise ValueError(f"Reorder.axes: digits of axis {source} must count all {size} places (got {own})")
            behind *= count
        if behind != size:
            raise ValueError(f"Reorder.axes: digits of axis {source} must count all {size} places (got {own})")
