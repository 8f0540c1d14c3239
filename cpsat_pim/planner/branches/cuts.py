"""Ways to run branches on a rectangle: slicing trees, whose leaves run some branches one after the other."""

from collections.abc import Iterator

from attrs import frozen

from cpsat_pim.planner.array import Region


@frozen
class Leaf:
    """Branches (as bits of a mask) that run on a rectangle, one after the other."""

    region: Region
    mask: int


def halves(region: Region, step: int) -> Iterator[tuple[Region, Region]]:
    """Yield the two parts of a rectangle for every cut at a multiple of `step` rows or columns."""
    y, x, h, w = region.to_list()
    for at in range(step, h, step):
        yield Region(y, x, at, w), Region(y + at, x, h - at, w)
    for at in range(step, w, step):
        yield Region(y, x, h, at), Region(y, x + at, h, w - at)


def divisions(mask: int) -> Iterator[tuple[int, int]]:
    """Yield every ordered division of a set in two parts that are not empty."""
    part = (mask - 1) & mask
    while part:
        yield part, mask ^ part
        part = (part - 1) & mask


def members(mask: int) -> Iterator[int]:
    """Yield the numbers of the bits that are set."""
    number = 0
    while mask >> number:
        if mask >> number & 1:
            yield number
        number += 1
