"""Rings joined from rings of two halves of the mesh: a start for annealing that is nearly right.

The mesh is cut across. Each set's nodes on either side make a set of their own; these are scheduled first, and share no
link with the other side. Then the two rings of a set become one: a hop a -> b of one and a hop c -> d of the other are
replaced by a -> d and c -> b, where that raises the excess over the trial load least.
"""

from collections import Counter
from collections.abc import Sequence
from itertools import product

from cpsat_pim.planner.rings.instance import Instance, Mesh
from cpsat_pim.planner.rings.routes import Ints, Ring, link_loads, route


def halved(instance: Instance, *, is_across_rows: bool) -> Instance | None:
    """Return the instance of all sets cut in two: sets 2 s and 2 s + 1 are the halves of set s.

    None if the mesh cannot be cut, or a half of some set would have fewer than two nodes.
    """
    mesh = instance.mesh
    side = mesh.rows if is_across_rows else mesh.cols
    sets = [half for nodes in instance.sets for half in _halves(nodes, mesh, side // 2, is_across_rows)]
    return Instance(mesh=mesh, sets=sets) if min(map(len, sets)) >= 2 else None


def _halves(nodes: Sequence[int], mesh: Mesh, middle: int, is_across_rows: bool) -> tuple[list[int], list[int]]:
    place = {node: divmod(node, mesh.cols)[0 if is_across_rows else 1] for node in nodes}
    return [n for n in nodes if place[n] < middle], [n for n in nodes if place[n] >= middle]


def merged_rings(mesh: Mesh, halves: Sequence[Ring], target: int) -> tuple[tuple[int, ...], ...]:
    """Return one ring of each pair of rings, joined one after the other where that costs least."""
    loads = link_loads(mesh, halves)
    rings = []
    for first, second in zip(halves[::2], halves[1::2], strict=True):
        i, j = min(
            product(range(len(first)), range(len(second))),
            key=lambda hops: _excess(loads, _change(mesh, first, second, *hops), target),
        )
        for link, change in _change(mesh, first, second, i, j).items():
            loads[link] += change
        rings.append((*_from(first, i), *_from(second, j)))
    return tuple(rings)


def _from(ring: Ring, start: int) -> tuple[int, ...]:
    """Return the same ring, beginning at a position."""
    return (*ring[start:], *ring[:start])


def _change(mesh: Mesh, first: Ring, second: Ring, i: int, j: int) -> Counter[int]:
    """How the loads of links change if the hops into positions i and j are replaced."""
    (a, b), (c, d) = (first[i - 1], first[i]), (second[j - 1], second[j])
    change = Counter([*route(mesh, a, d), *route(mesh, c, b)])
    change.subtract([*route(mesh, a, b), *route(mesh, c, d)])
    return change


def _excess(loads: Ints, change: Counter[int], target: int) -> int:
    """How much the sum of what links carry above the target grows."""
    old = sum(max(0, int(loads[link]) - target) for link in change)
    return sum(max(0, int(loads[link]) + more - target) for link, more in change.items()) - old
