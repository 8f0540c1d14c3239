"""Directed links of a mesh, XY routes and the loads of rings.

A message moves along its row to the column of its target first, then along that column.

Links are numbered in four blocks: east (y, x) -> (y, x+1), west (y, x+1) -> (y, x), south (y, x) -> (y+1, x), north
(y+1, x) -> (y, x); within a block by y, then x, of the end that lies further north-west.
"""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from cpsat_pim.planner.rings.instance import Mesh

Ring: TypeAlias = Sequence[int]
"""Nodes in the order in which data moves on; the last one sends to the first."""

Ints: TypeAlias = np.ndarray[Any, np.dtype[np.int64]]


class Blocks(NamedTuple):
    """Numbers of the first east, west, south and north link, and of all links."""

    east: int
    west: int
    south: int
    north: int
    end: int


def link_blocks(mesh: Mesh) -> Blocks:
    """Where the four blocks of links begin."""
    across, down = mesh.rows * (mesh.cols - 1), (mesh.rows - 1) * mesh.cols
    return Blocks(0, across, 2 * across, 2 * across + down, 2 * (across + down))


def link_ends(mesh: Mesh) -> Ints:
    """int64[link][2]: the node where a link begins, and the node where it ends."""
    nodes = np.arange(mesh.nodes, dtype=np.int64).reshape(mesh.rows, mesh.cols)
    west, east = nodes[:, :-1].ravel(), nodes[:, 1:].ravel()
    north, south = nodes[:-1].ravel(), nodes[1:].ravel()
    pairs = ((west, east), (east, west), (north, south), (south, north))
    return np.concatenate([np.stack(pair, axis=1) for pair in pairs])


def route(mesh: Mesh, source: int, target: int) -> list[int]:
    """The links from one node to another, in order."""
    (ya, xa), (yb, xb) = divmod(source, mesh.cols), divmod(target, mesh.cols)
    blocks, width = link_blocks(mesh), mesh.cols - 1
    if xa <= xb:
        across = [blocks.east + ya * width + x for x in range(xa, xb)]
    else:
        across = [blocks.west + ya * width + x for x in range(xa - 1, xb - 1, -1)]
    if ya <= yb:
        return across + [blocks.south + y * mesh.cols + xb for y in range(ya, yb)]
    return across + [blocks.north + y * mesh.cols + xb for y in range(ya - 1, yb - 1, -1)]


def hops(mesh: Mesh, source: int, target: int) -> int:
    """Links between two nodes."""
    (ya, xa), (yb, xb) = divmod(source, mesh.cols), divmod(target, mesh.cols)
    return abs(ya - yb) + abs(xa - xb)


def link_loads(mesh: Mesh, rings: Iterable[Ring]) -> Ints:
    """int64[link]: how many routes of all rings together use each link.

    Every node of every ring sends one chunk to its successor in a step, so this is also the number of chunks that a
    link carries in a step.
    """
    sources = np.array([node for ring in rings for node in ring], np.int64)
    targets = np.array([node for ring in rings for node in (*ring[1:], ring[0])], np.int64)
    return message_loads(mesh, sources, targets)


def message_loads(mesh: Mesh, sources: Ints, targets: Ints) -> Ints:
    """int64[link]: how many of the messages int64[message] use each link.

    A run of links along a row or a column is one step up at its first link and one step down behind its last.
    """
    (ya, xa), (yb, xb) = np.divmod(sources, mesh.cols), np.divmod(targets, mesh.cols)
    across, down = (mesh.rows, mesh.cols), (mesh.cols, mesh.rows)
    east, west = _runs(across, ya, xa, xb), _runs(across, ya, xb, xa)
    south, north = _runs(down, xb, ya, yb), _runs(down, xb, yb, ya)
    return np.concatenate([east.ravel(), west.ravel(), south.T.ravel(), north.T.ravel()])


def _runs(shape: tuple[int, int], line: Ints, first: Ints, last: Ints) -> Ints:
    """int64[line][gap]: runs over the gap behind position p of a line; those with first >= last do not count."""
    steps = np.zeros(shape, np.int64)
    is_run = first < last
    np.add.at(steps, (line[is_run], first[is_run]), 1)
    np.add.at(steps, (line[is_run], last[is_run]), -1)
    return np.cumsum(steps, axis=1)[:, :-1]
