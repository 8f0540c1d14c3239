"""Parts of a tensor: ranges along N, H and W, and a list of ranges of channels.

Ranges are half open. An empty part has no channels; it has no elements and meets nothing.
"""

from collections.abc import Iterable
from typing import NamedTuple

Range = tuple[int, int]


class Area(NamedTuple):
    """Elements of a tensor: all of the ranges `n`, `y`, `x` in each of the channel ranges `c`.

    The channel ranges ascend, and no two of them touch.
    """

    n: Range
    c: tuple[Range, ...]
    y: Range
    x: Range


NOWHERE = Area((0, 0), (), (0, 0), (0, 0))


def area(n: Range, channels: Iterable[Range], y: Range, x: Range) -> Area:
    """Return the part with these ranges; channel ranges that touch become one."""
    merged: list[Range] = []
    for low, high in sorted(channels):
        if low < high and merged and merged[-1][1] >= low:
            merged[-1] = (merged[-1][0], max(high, merged[-1][1]))
        elif low < high:
            merged.append((low, high))
    if not merged or n[0] >= n[1] or y[0] >= y[1] or x[0] >= x[1]:
        return NOWHERE
    return Area(n, tuple(merged), y, x)


def meet(one: Area, other: Area) -> Area:
    """Return the elements that both hold."""
    channels = [overlap(a, b) for a in one.c for b in other.c]
    return area(overlap(one.n, other.n), channels, overlap(one.y, other.y), overlap(one.x, other.x))


def overlap(one: Range, other: Range) -> Range:
    """Return what lies in both ranges; a range whose end is not behind its start is empty."""
    return max(one[0], other[0]), min(one[1], other[1])


def elements(part: Area) -> int:
    """Return how many elements the part has."""
    channels = sum(high - low for low, high in part.c)
    return _length(part.n) * channels * _length(part.y) * _length(part.x)


def boxes(part: Area) -> list[Area]:
    """Return the part as boxes, in order of channels."""
    return [part._replace(c=(channels,)) for channels in part.c]


def box_around(part: Area, container: Area) -> Area:
    """Return the box of the container that holds the box `part`; ValueError where none does."""
    (low, high) = part.c[0]
    for channels in container.c:
        if channels[0] <= low and high <= channels[1]:
            return container._replace(c=(channels,))
    raise ValueError(f"{part} does not lie in a box of {container}")


def slices(part: Area) -> list[tuple[slice, slice, slice, slice]]:
    """Return numpy indices of the part's boxes in an array of axes N, C, H, W."""
    rest = slice(*part.y), slice(*part.x)
    return [(slice(*part.n), slice(*channels), *rest) for channels in part.c]


def _length(of: Range) -> int:
    return of[1] - of[0]
