"""Mappings that are known of node problems, those of the most alike parts first."""

import math
from collections import defaultdict

from attrs import field, frozen

from cpsat_pim.base.dims import Dim
from cpsat_pim.mapping.mapping import Mapping
from cpsat_pim.planner.nodes.problem import NodeProblem

#: Mappings of so many parts are tried for another one; each takes some milliseconds.
_MOST_ALIKE = 8

#: The sizes of a filter, in any order, and whether a layer has groups.
_Kind = tuple[tuple[int, ...], bool]


@frozen(kw_only=True, eq=False)
class AlikeMappings:
    """The best mapping of each node problem that has one."""

    _by_kind: defaultdict[_Kind, dict[NodeProblem, Mapping]] = field(init=False, factory=lambda: defaultdict(dict))

    def add(self, problem: NodeProblem, mapping: Mapping) -> None:
        """Keep the mapping of a problem."""
        self._by_kind[_kind(problem)][problem] = mapping

    def of(self, problem: NodeProblem) -> tuple[Mapping, ...]:
        """Return the mappings of the problems whose parts are most alike, the most alike one first."""
        known = self._by_kind[_kind(problem)]
        return tuple(
            dict.fromkeys(known[one] for one in sorted(known, key=lambda one: _distance(problem, one))[:_MOST_ALIKE])
        )


def _kind(problem: NodeProblem) -> _Kind:
    bounds = problem.layer.bounds
    return tuple(sorted(bounds[d] for d in (Dim.R, Dim.S))), bounds[Dim.G] > 1


def _distance(problem: NodeProblem, other: NodeProblem) -> float:
    """Return how many times larger dims are, added up as logarithms; the same layouts break ties."""
    pairs = zip(_sizes(problem), _sizes(other), strict=True)
    return sum(abs(math.log2(a / b)) for a, b in pairs) + 0.1 * (problem.layouts != other.layouts)


def _sizes(problem: NodeProblem) -> list[int]:
    """Return the bounds, rows and columns of outputs in ascending order: a mapping may be transposed."""
    bounds = problem.layer.bounds
    return [*sorted((bounds[Dim.P], bounds[Dim.Q])), *(bounds[d] for d in (Dim.C, Dim.K, Dim.N, Dim.G))]
