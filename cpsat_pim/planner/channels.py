"""Ranges of channels: those of tensors in their stack, and what a reader takes of them (docs/array.md, section 2)."""

from collections.abc import Iterator

from cpsat_pim.workload.joins import Range


def cut(ranges: list[Range], taken: Range) -> Iterator[Range]:
    """A range of channels that are counted over all of some ranges, as parts of these."""
    first = 0
    for start, stop in ranges:
        low, high = max(taken[0], first), min(taken[1], first + stop - start)
        if low < high:
            yield start + low - first, start + high - first
        first += stop - start


def joined(ranges: list[Range]) -> list[Range]:
    """Ranges in this order, each that begins where the one before ends joined with it."""
    joined: list[Range] = []
    for start, stop in ranges:
        if joined and joined[-1][1] == start:
            start = joined.pop()[0]
        joined.append((start, stop))
    return joined
