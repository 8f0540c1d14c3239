"""Loop nests in shorthand: "3C2 0K3 HP2" is level (or H, W, L for lanes), dim, factor; loops outermost first."""

from collections.abc import Iterator
from typing import NamedTuple

from cpsat_pim.base.dims import Dim

DIRECTIONS = "HWL"


class Loops(NamedTuple):
    """Factors by level and dim, by direction and dim; the dims that each level loops over."""

    temporal: list[list[int]]
    spatial: list[list[int]]
    order: list[list[Dim]]


def read_words(text: str) -> Iterator[tuple[str, Dim, int]]:
    """Place, dim and factor of each loop."""
    return ((word[0], Dim[word[1]], int(word[2:])) for word in text.split())


def read_loops(text: str) -> Loops:
    """The loops by their places."""
    loops = Loops([[1] * 8 for _ in range(4)], [[1] * 8 for _ in range(3)], [[] for _ in range(4)])
    for place, dim, factor in read_words(text):
        if place in DIRECTIONS:
            loops.spatial[DIRECTIONS.index(place)][dim] *= factor
        else:
            loops.temporal[int(place)][dim] *= factor
            loops.order[int(place)].append(dim)
    return loops


def read_stored(text: str) -> list[list[bool]]:
    """Whether levels 0, 1, 2 store I, W, O, from the levels that store each: "01 2 -"."""
    return [[str(level) in levels for levels in text.split()] for level in range(3)]
