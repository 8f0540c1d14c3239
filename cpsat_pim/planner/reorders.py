"""The boxes of a stack that are seen as boxes of a tensor whose elements are counted along other axes
(docs/array.md, sections 2 and 4).

A range of an axis is cut so that in each piece every digit has a range of its own. Pieces of all axes together are then
a product of ranges of digits, so along each axis of the stack a list of runs. What several such products cover is cut
in boxes along N, C, H and W in turn.
"""

from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import chain, pairwise, product

import numpy as np

from cpsat_pim.planner.channels import Span
from cpsat_pim.workload.joins import Range
from cpsat_pim.workload.reorders import AXES, Digit, Reorder

#: The range of each digit of an axis, the outermost first.
DigitRanges = tuple[Range, ...]
#: Sorted ranges along an axis, none of which touch.
Runs = tuple[Range, ...]
Box = tuple[int, ...]


def reordered_boxes(
    view: Reorder, spans: tuple[Span, ...], shape: tuple[int, int, int, int], seen: np.ndarray
) -> np.ndarray:
    """Return what nodes read of a stack of this shape, int64[nodes, boxes, 8], to see boxes int64[nodes, boxes, 8].

    `spans`: the channels of the stack that are taken before they are reordered.
    """
    parts, which = np.unique(seen.reshape(len(seen), -1), axis=0, return_inverse=True)
    found = [_boxes_of(view, spans, shape, tuple(part)) for part in parts.tolist()]
    boxes = np.zeros((len(found), max(1, *map(len, found)), 8), dtype=np.int64)
    for one, listed in zip(boxes, found, strict=True):
        one[: len(listed)] = np.array(listed, dtype=np.int64).reshape(-1, 8)
    return boxes[which.reshape(-1)]


@lru_cache(maxsize=1 << 16)
def _boxes_of(
    view: Reorder, spans: tuple[Span, ...], shape: tuple[int, int, int, int], part: tuple[int, ...]
) -> list[Box]:
    """Return the boxes of a stack that are seen as some boxes, which stand one behind the other."""
    found: set[tuple[Runs, ...]] = set()
    for at in range(0, len(part), 8):
        ranges = [(part[at + 2 * axis], part[at + 2 * axis + 1]) for axis in range(4)]
        for digits in product(*(_pieces(view, axis, one) for axis, one in enumerate(ranges))):
            found.add(_runs_of(view, spans, shape, digits))
    products = [runs for runs in found if all(runs)]
    return [*_cut(products)] if len(products) > 1 else [*_all_of(products)]


def _pieces(view: Reorder, axis: int, seen: Range) -> list[DigitRanges]:
    """Return a range of an axis as it is seen in pieces in which each digit has a range."""
    counts, size = [count for _, count, _ in view.axes[axis]], view.shape[axis]
    start = seen[0] - _roll(view.roll_behind, axis)
    turned = start % size, start % size + seen[1] - seen[0]
    wrapped = [(turned[0], min(turned[1], size)), (0, turned[1] - size)]
    return [piece for low, high in wrapped if low < high for piece in _digit_ranges(counts, low, high)]


def _digit_ranges(counts: Sequence[int], low: int, high: int) -> Iterator[DigitRanges]:
    """Yield the pieces of indices [low, high): what is left of the first value of the outermost digit, its values with
    all that is inside of them, and what there is of its last one.
    """
    if not counts:
        yield ()
        return
    inside = int(np.prod(counts[1:], dtype=np.int64))
    first, last = -(-low // inside), high // inside
    if first > last:  # all in one value of the outermost digit
        yield from (
            ((last, last + 1), *one) for one in _digit_ranges(counts[1:], low - last * inside, high - last * inside)
        )
        return
    if low < first * inside:
        rest = _digit_ranges(counts[1:], low - (first - 1) * inside, inside)
        yield from (((first - 1, first), *one) for one in rest)
    if first < last:
        yield ((first, last), *((0, count) for count in counts[1:]))
    if last * inside < high:
        yield from (((last, last + 1), *one) for one in _digit_ranges(counts[1:], 0, high - last * inside))


def _runs_of(
    view: Reorder, spans: tuple[Span, ...], shape: tuple[int, int, int, int], ranges: Sequence[DigitRanges]
) -> tuple[Runs, ...]:
    """Return the runs along N, C, H and W of a stack that ranges of digits give."""
    digits = [*chain(*view.axes)]
    given = [*zip(digits, chain(*ranges), strict=True)]
    found = []
    for at, axis in enumerate(AXES):
        places = _places([(digit, one) for digit, one in given if digit[0] == axis])
        if at == 1:
            taken = np.concatenate([np.arange(span.start, span.stop) for span in spans])
            found.append(_as_runs(np.sort(taken[places])))
        else:
            found.append(_as_runs(np.sort((places - _roll(view.roll, at)) % shape[at])))
    return tuple(found)


def _places(digits: Iterable[tuple[Digit, Range]]) -> np.ndarray:
    """Return where digits with these ranges lie along their axis."""
    places = np.zeros(1, dtype=np.int64)
    for (_, _, step), (low, high) in digits:
        places = (places[:, None] + np.arange(low, high) * step).reshape(-1)
    return places


def _as_runs(places: np.ndarray) -> Runs:
    """Return sorted indices as ranges."""
    starts = np.flatnonzero(np.diff(places, prepend=places[:1] - 2) != 1)
    return tuple(
        zip(places[starts].tolist(), (places[np.append(starts[1:], len(places)) - 1] + 1).tolist(), strict=True)
    )


def _roll(pair: tuple[int, int], axis: int) -> int:
    """Return by how much an axis is rolled, of columns and rows."""
    return pair[3 - axis] if axis > 1 else 0


def _all_of(products: Iterable[tuple[Runs, ...]]) -> Iterator[Box]:
    """Yield the boxes of a product of runs."""
    for runs in products:
        for box in product(*runs):
            yield tuple(chain(*box))


def _cut(products: Sequence[tuple[Runs, ...]]) -> Iterator[Box]:
    """Yield what products of runs cover as boxes: along N, C, H and W in turn, equal neighbours together."""
    edges = [sorted({edge for runs in products for run in runs[axis] for edge in run}) for axis in range(4)]
    marks = np.zeros([len(along) - 1 for along in edges], dtype=bool)
    for runs in products:
        marks[np.ix_(*(_cells(along, own) for along, own in zip(edges, runs, strict=True)))] = True
    yield from _boxes_in(marks, edges)


def _cells(edges: Sequence[int], runs: Runs) -> np.ndarray:
    """Return bool[cells]: which cells between edges lie in some runs."""
    starts = np.array(edges[:-1])
    cells: np.ndarray = np.logical_or.reduce([(starts >= low) & (starts < high) for low, high in runs])
    return cells


def _boxes_in(marks: np.ndarray, edges: Sequence[Sequence[int]]) -> Iterator[Box]:
    """Yield the boxes of marked cells between edges along each axis."""
    flat = marks.reshape(len(marks), -1)
    starts = [0, *(np.flatnonzero((flat[1:] != flat[:-1]).any(axis=1)) + 1).tolist(), len(marks)]
    for first, behind in pairwise(starts):
        if flat[first].any():
            own = edges[0][first], edges[0][behind]
            yield from ((*own, *box) for box in (_boxes_in(marks[first], edges[1:]) if edges[1:] else [()]))
