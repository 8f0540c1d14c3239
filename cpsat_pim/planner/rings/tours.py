"""Closed tours of the nodes of one sharing set that lie on a grid of rows and columns.

A comb tour goes down and up the columns without their first row, and comes back along that row: all its moves lead to a
neighbour in the grid. It needs an even number of columns. A grid of odd sides has no such tour (its nodes coloured like
a chessboard, one colour has one node more); there the last two columns are crossed row by row, and one move is
diagonal. Mirror images, transposes and reversals of a tour are tours as well; they load different links.
"""

from collections.abc import Iterator, Sequence
from itertools import product

import numpy as np

from cpsat_pim.planner.rings.instance import Mesh
from cpsat_pim.planner.rings.routes import Ints


def grid_of(mesh: Mesh, nodes: Sequence[int]) -> Ints | None:
    """int64[row][column]: the nodes of a set as a grid, or None if the set is no product of rows and columns."""
    y, x = np.divmod(np.array(sorted(nodes), np.int64), mesh.cols)
    rows, cols = np.unique(y), np.unique(x)
    if len(rows) * len(cols) != len(nodes):
        return None
    grid: Ints = np.add.outer(rows * mesh.cols, cols)
    return grid


def comb(grid: Ints) -> list[int]:
    """The comb tour of a grid with at least two rows and an even number of columns."""
    return comb_teeth(grid) + _nodes(grid[0, :0:-1])


def comb_teeth(grid: Ints) -> list[int]:
    """The corner of a grid, then its columns without their first row, down and up in turns."""
    tour = [int(grid[0, 0])]
    for column in range(grid.shape[1]):
        tooth = grid[1:, column]
        tour += _nodes(tooth if column % 2 == 0 else tooth[::-1])
    return tour


def odd_comb(grid: Ints) -> list[int]:
    """The tour of a grid of odd sides, at least 3 each: a comb whose last two columns are crossed row by row."""
    tour = comb_teeth(grid[:, :-2])
    for row in range(grid.shape[0] - 1, 0, -1):
        crossing = grid[row, -2:]
        tour += _nodes(crossing if row % 2 == 0 else crossing[::-1])
    return tour + _nodes(grid[0, :0:-1])


def line(grid: Ints) -> list[int]:
    """The tour of a grid that is one row or one column: out node by node, back in one move."""
    return _nodes(grid)


def _nodes(part: Ints) -> list[int]:
    """A part of a grid as a list, row by row."""
    return [int(node) for node in part.ravel()]


def forward_tours(grid: Ints) -> Iterator[list[int]]:
    """Comb tours of a grid, and their images under mirrors and transposition; of a line its one tour."""
    if 1 in grid.shape:
        yield line(grid)
        return
    for is_transposed, is_upside_down, is_mirrored in product((False, True), repeat=3):
        view = grid.T if is_transposed else grid
        view = view[::-1] if is_upside_down else view
        view = view[:, ::-1] if is_mirrored else view
        if view.shape[1] % 2 == 0:
            yield comb(view)
        elif view.shape[0] % 2:
            yield odd_comb(view)
