"""Which node computes or keeps which part: mixed-radix digits of a grid, sharing sets and tours (sections 3 and 5)."""

from collections.abc import Sequence
from typing import NamedTuple

from tracesim.array.areas import Range
from tracesim.array.records import Array, Grid, Ints


class Place(NamedTuple):
    """A node of a grid and its part indices by dim or axis; a dim without digits has index 0."""

    node: int
    indices: dict[int, int]


def places(array: Array, grid: Grid) -> list[Place]:
    """Return the nodes of a grid with their part indices, in order of their numbers."""
    y, x, h, w = grid.region
    return [Place((y + i) * array.cols + x + j, _part_indices(grid, i, j)) for i in range(h) for j in range(w)]


def _part_indices(grid: Grid, i: int, j: int) -> dict[int, int]:
    """Return the part indices of local row i, column j: digits of the rows weigh more than those of the columns."""
    indices: dict[int, int] = {}
    for side, number in ((grid.row_digits, i), (grid.col_digits, j)):
        for (dim, factor), digit in zip(side.tolist(), _mixed_radix(side, number), strict=True):
            indices[dim] = indices.get(dim, 0) * factor + digit
    return indices


def _mixed_radix(side: Ints, number: int) -> list[int]:
    """Return the digits of a number, the last of which is the fastest."""
    values = []
    for factor in side[::-1, 1].tolist():
        values.append(number % factor)
        number //= factor
    return values[::-1]


def split(grid: Grid, dim: int) -> int:
    """Return into how many parts the grid cuts a dim or axis."""
    count = 1
    for side in (grid.row_digits, grid.col_digits):
        for other, factor in side.tolist():
            count *= factor if other == dim else 1
    return count


def part_size(bound: int, parts: int) -> int:
    """Return the size of the parts of a range of `bound`; late ones may be shorter."""
    return -(-bound // parts)


def part_range(grid: Grid, place: Place, dim: int, bound: int) -> Range:
    """Return the node's part of a dim or axis of this bound; it may be empty."""
    size = part_size(bound, split(grid, dim))
    index = place.indices.get(dim, 0)
    return min(index * size, bound), min((index + 1) * size, bound)


def sharing_sets(nodes: Sequence[Place], dims: Sequence[int]) -> list[list[Place]]:
    """Return the nodes in sets of equal part indices of `dims`; members keep their order."""
    sets: dict[tuple[int, ...], list[Place]] = {}
    for place in nodes:
        sets.setdefault(tuple(place.indices.get(dim, 0) for dim in dims), []).append(place)
    return list(sets.values())


def default_tour(nodes: Sequence[int], cols: int) -> list[int]:
    """Return the nodes row by row; columns increase in the 1st, 3rd ... of their rows and decrease in the others."""
    tour: list[int] = []
    for number, row in enumerate(sorted({node // cols for node in nodes})):
        members = sorted(node for node in nodes if node // cols == row)
        tour += members[::-1] if number % 2 else members
    return tour


def tour_of(nodes: Sequence[int], cols: int, given: tuple[Ints, ...]) -> list[int]:
    """Return the tour that the plan gives of exactly these nodes, or else the default one."""
    for tour in given:
        if sorted(tour.tolist()) == sorted(nodes):
            return [int(node) for node in tour]
    return default_tour(nodes, cols)


def rotated(tour: list[int], start: int) -> tuple[int, ...]:
    """Return the tour from its member number `start` on, once around."""
    return tuple(tour[start:] + tour[:start])
