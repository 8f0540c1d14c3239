"""Ranges of channels: those of tensors in their stack, and what a reader takes of them (docs/array.md, section 2)."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby

from attrs import evolve, frozen

from cpsat_pim.workload.joins import Range


@frozen
class Span:
    """Channels `[start, stop)` of a stack, the first of which is channel `first` of a reader."""

    first: int
    start: int
    stop: int


def spans_of(ranges: Sequence[Range], taken: Sequence[Range] | None) -> list[tuple[int, Span]]:
    """Return what a reader takes of ranges that are side by side, each with the number of its range.

    `taken`: channels, counted over all ranges, in the order of the reader's; None: all.
    """
    whole = [(0, sum(stop - start for start, stop in ranges))]
    found: list[tuple[int, Span]] = []
    first = 0
    for one in whole if taken is None else taken:
        for number, (start, stop) in _cut(ranges, one):
            found.append((number, Span(first, start, stop)))
            first += stop - start
    return found


def _cut(ranges: Sequence[Range], taken: Range) -> Iterator[tuple[int, Range]]:
    """A range of channels that are counted over all of some ranges, as parts of these."""
    first = 0
    for number, (start, stop) in enumerate(ranges):
        low, high = max(taken[0], first), min(taken[1], first + stop - start)
        if low < high:
            yield number, (start + low - first, start + high - first)
        first += stop - start


def as_seen(spans: Sequence[tuple[int, Span]], groups: Mapping[int, tuple[int, int | None]]) -> list[tuple[int, Span]]:
    """Return spans with their first channels as the reader counts them, which sees tensors in groups.

    `groups`: of each range its group, and how many channels the reader sees of that if it is reordered; None: as many
    as it takes.
    """
    found: list[tuple[int, Span]] = []
    first = 0
    for (_, seen), own in groupby(spans, lambda one: groups[one[0]]):
        taken = list(own)
        found += [(number, evolve(span, first=first + span.first - taken[0][1].first)) for number, span in taken]
        first += sum(_length(span) for _, span in taken) if seen is None else seen
    return found


def joined(spans: Sequence[Span]) -> list[Span]:
    """Return spans in this order, each that begins where the one before ends joined with it."""
    joined: list[Span] = []
    for span in spans:
        if joined and joined[-1].stop == span.start and joined[-1].first + _length(joined[-1]) == span.first:
            last = joined.pop()
            span = Span(last.first, last.start, span.stop)
        joined.append(span)
    return joined


def _length(span: Span) -> int:
    return span.stop - span.start
