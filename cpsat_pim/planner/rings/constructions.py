"""Rings that are made, not searched: comb tours, turned round in every second set.

Two translates of one tour load the same links where they overlap. Turned round, the second one loads the links of the
other direction. So the sets are coloured like a chessboard by their offsets, and the tour of one colour is reversed.
"""

from collections.abc import Callable, Iterator, Sequence

from cpsat_pim.planner.rings.instance import Instance
from cpsat_pim.planner.rings.routes import Ring, link_loads
from cpsat_pim.planner.rings.tours import forward_tours, grid_of

#: Whether the tour of a set is reversed, by the rank of its row offset and of its column offset among all sets.
_REVERSALS: tuple[Callable[[int, int], int], ...] = (
    lambda row, col: (row + col) % 2,
    lambda row, col: row % 2,
    lambda row, col: col % 2,
    lambda row, col: 0,
)


def constructed_rings(instance: Instance) -> tuple[tuple[int, ...], ...]:
    """Return the constructed rings of least load; the first of equal ones."""
    found = min(_all_constructions(instance), key=lambda rings: int(link_loads(instance.mesh, rings).max()))
    return tuple(tuple(ring) for ring in found)


def _all_constructions(instance: Instance) -> Iterator[list[Ring]]:
    """Combs in all mirrorings and reversals; sets that are no grids are snaked row by row."""
    tours = [_tours(instance, nodes) for nodes in instance.sets]
    ranks = _ranks(instance)
    for variant in range(max(map(len, tours))):
        chosen = [options[variant % len(options)] for options in tours]
        for is_reversed in _REVERSALS:
            yield [
                tour[::-1] if is_reversed(row, col) else tour for tour, (row, col) in zip(chosen, ranks, strict=True)
            ]


def _tours(instance: Instance, nodes: Sequence[int]) -> list[list[int]]:
    grid = grid_of(instance.mesh, nodes)
    return [_snake(instance, nodes)] if grid is None else list(forward_tours(grid))


def _snake(instance: Instance, nodes: Sequence[int]) -> list[int]:
    """Row by row, in turns from the left and from the right."""
    cols = instance.mesh.cols
    rows = sorted({node // cols for node in nodes})
    lines = [sorted(node for node in nodes if node // cols == row) for row in rows]
    return [node for i, line in enumerate(lines) for node in (line[::-1] if i % 2 else line)]


def _ranks(instance: Instance) -> list[tuple[int, int]]:
    """Of each set the ranks of its smallest row and of its smallest column among those of all sets."""
    cols = instance.mesh.cols
    corners = [(min(nodes) // cols, min(node % cols for node in nodes)) for nodes in instance.sets]
    ys, xs = (sorted({corner[axis] for corner in corners}) for axis in (0, 1))
    return [(ys.index(y), xs.index(x)) for y, x in corners]
