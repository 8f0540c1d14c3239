"""Parts of an instance that share no link.

An XY route stays within the smallest rectangle that holds its ends. So sets whose rectangles do not overlap share no
link, and groups of sets in disjoint rectangles are solved apart: the load of the whole is the largest load of a group.
Groups that are translates of each other are solved once. A fixed leading digit of a mask always splits the mesh so.
"""

from typing import TypeAlias

from attrs import frozen

from cpsat_pim.planner.rings.instance import Instance, Mesh


@frozen(kw_only=True)
class Rectangle:
    """Rows [y0, y1) and columns [x0, x1)."""

    y0: int
    x0: int
    y1: int
    x1: int

    def overlaps(self, other: "Rectangle") -> bool:
        """Whether they share a node."""
        return self.y0 < other.y1 and other.y0 < self.y1 and self.x0 < other.x1 and other.x0 < self.x1

    def joined(self, other: "Rectangle") -> "Rectangle":
        """The smallest rectangle that holds both."""
        return Rectangle(
            y0=min(self.y0, other.y0), x0=min(self.x0, other.x0), y1=max(self.y1, other.y1), x1=max(self.x1, other.x1)
        )


@frozen(kw_only=True)
class Group:
    """Sets whose rectangles overlap, as an instance of a mesh of its own.

    Attributes:
        instance: on the mesh that is the group's rectangle, nodes numbered within it.
        place: that rectangle in the whole mesh.
        members: numbers of the sets in the whole instance, in the order of the group's instance.
    """

    instance: Instance
    place: Rectangle
    members: tuple[int, ...]


_Placed: TypeAlias = tuple[Rectangle, tuple[int, ...]]
"""A rectangle and the numbers of the sets in it."""


def groups(instance: Instance) -> list[Group]:
    """Return the groups of an instance; every set is in one of them."""
    found: list[_Placed] = [(_rectangle(instance.mesh, nodes), (s,)) for s, nodes in enumerate(instance.sets)]
    merged: list[_Placed] = []
    while found:
        place, members = found.pop()
        touching = [other for other in merged if other[0].overlaps(place)]
        if not touching:
            merged.append((place, members))
            continue
        merged = [other for other in merged if other not in touching]
        for other_place, other_members in touching:
            place, members = place.joined(other_place), members + other_members
        found.append((place, members))  # the larger rectangle may overlap further ones
    return sorted((_group(instance, place, members) for place, members in merged), key=lambda group: group.members)


def moved(nodes: tuple[int, ...], cols: int, place: Rectangle) -> tuple[int, ...]:
    """Nodes of a group's mesh, numbered in the whole mesh of so many columns."""
    width = place.x1 - place.x0
    return tuple((place.y0 + node // width) * cols + place.x0 + node % width for node in nodes)


def _rectangle(mesh: Mesh, nodes: tuple[int, ...]) -> Rectangle:
    ys, xs = [node // mesh.cols for node in nodes], [node % mesh.cols for node in nodes]
    return Rectangle(y0=min(ys), x0=min(xs), y1=max(ys) + 1, x1=max(xs) + 1)


def _group(instance: Instance, place: Rectangle, members: tuple[int, ...]) -> Group:
    cols, width = instance.mesh.cols, place.x1 - place.x0
    members = tuple(sorted(members))
    sets = [[(node // cols - place.y0) * width + node % cols - place.x0 for node in instance.sets[s]] for s in members]
    mesh = Mesh(rows=place.y1 - place.y0, cols=width)
    return Group(instance=Instance(mesh=mesh, sets=sets), place=place, members=members)
