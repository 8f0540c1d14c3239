"""Dimension sets: the tensor dimensions and loops that must be partitioned together (DCC, section IV-B.1).

A loop variable that occurs in the index of a tensor dimension joins both. The sets are the connected components.
"""

from attrs import frozen

from cpsat_pim.compiler.language.ir import Kernel, Statement

#: (number of the statement, loop variable).
LoopName = tuple[int, str]
#: (tensor, number of the dimension).
DimensionName = tuple[str, int]


@frozen
class DimensionSet:
    """Loops and tensor dimensions that share variables; named after its first loop variable."""

    name: str
    loops: tuple[LoopName, ...]
    dimensions: tuple[DimensionName, ...]


class UnionFind:
    """Disjoint sets of loops and dimensions, merged by their first member."""

    def __init__(self) -> None:
        self._parents: dict[LoopName | DimensionName, LoopName | DimensionName] = {}

    def root(self, member: LoopName | DimensionName) -> LoopName | DimensionName:
        """The member that stands for a set; a new member is a set of its own."""
        parent = self._parents.setdefault(member, member)
        return member if parent == member else self.root(parent)

    def merge(self, one: LoopName | DimensionName, other: LoopName | DimensionName) -> None:
        """Join two sets."""
        self._parents[self.root(other)] = self.root(one)

    def sets(self) -> list[list[LoopName | DimensionName]]:
        """The sets, by their earliest members."""
        groups: dict[LoopName | DimensionName, list[LoopName | DimensionName]] = {}
        for member in self._parents:
            groups.setdefault(self.root(member), []).append(member)
        return list(groups.values())


def dimension_sets(kernel: Kernel) -> tuple[DimensionSet, ...]:
    """The sets of a kernel, in the order of their first loops; a dimension that no loop indexes is in none."""
    found = UnionFind()
    for number, statement in enumerate(kernel.statements):
        for loop in statement.loops:
            found.root((number, loop.variable))
    for number, statement in enumerate(kernel.statements):
        _join(found, number, statement)
    return tuple(map(_as_set, found.sets()))


def _join(found: UnionFind, number: int, statement: Statement) -> None:
    variables = {loop.variable for loop in statement.loops}
    for access in (statement.target, *statement.reads):
        for at, index in enumerate(access.indices):
            for name in variables.intersection(index.names):
                found.merge((number, name), (access.tensor, at))


def _as_set(members: list[LoopName | DimensionName]) -> DimensionSet:
    loops = [(n, v) for n, v in members if isinstance(n, int) and isinstance(v, str)]
    dimensions = [(n, v) for n, v in members if isinstance(n, str) and isinstance(v, int)]
    return DimensionSet(loops[0][1], tuple(loops), tuple(sorted(dimensions)))
