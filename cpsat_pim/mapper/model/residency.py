"""Uneven tiles: which loops of the PEs and of the global buffer lie outside which tensor's tile (docs/model.md, 3).

The loops outside a tensor's tile are a prefix of the level's order. So of two tensors at a level, the loops outside one
tile are among those outside the other. The master problem needs to know no more of the order besides the innermost
class: any nested sets are prefixes of some order (docs/solver.md, B4).
"""

import itertools
from collections.abc import Iterator

from cpsat_pim.arch import PIMArchitecture
from cpsat_pim.base.dims import IRRELEVANT, ON_CHIP, RELEVANT, Dim, Level, Tensor
from cpsat_pim.mapper.model.builder import Builder, Lit
from cpsat_pim.mapper.space.restriction import Restriction

#: The loops outside the tile, per on-chip level and tensor.
Outside = tuple[tuple[frozenset[Dim], ...], ...]


class Residency:
    """`outside[m][t][d]`: whether the loop of d at level m lies outside t's tile there; False where tiles are even."""

    def __init__(self, b: Builder, bounds: tuple[int, ...], arch: PIMArchitecture, restriction: Restriction) -> None:
        self.b, self.restriction = b, restriction
        self.dims = [d for d in Dim if bounds[d] > 1] if arch.uneven_residency else []
        self.outside: list[list[list[Lit]]] = [[[False] * len(Dim) for _ in Tensor] for _ in ON_CHIP]
        self._is_uneven: dict[tuple[int, int], Lit] = {}

    def decide(self, level: Level, stored: list[Lit], has_loop: list[Lit]) -> None:
        """Make the literals of a level. Only loops lie outside, and only of stored tiles; the sets are nested.

        `stored[t]`, `has_loop[d]`: whether the level stores t, and has a loop of d.
        """
        for t in Tensor:
            for d in self.dims:
                if stored[t] is not False and has_loop[d] is not False:
                    self.outside[level][t][d] = self._literal(level, t, d, stored[t], has_loop[d])
            self._some_loop_changes_the_tile(level, t)
            self._order_is_kept(level, t, has_loop)
        for t, u in itertools.combinations(Tensor, 2):
            self._are_nested(self.outside[level][t], self.outside[level][u])

    def _literal(self, level: Level, t: Tensor, d: Dim, stored: Lit, has_loop: Lit) -> Lit:
        literal = self.b.boolean(f"outside_{level}_{t.name}_{d.name}")
        for needed in (stored, has_loop):
            self.b.clause([literal.negated(), needed])
        return literal

    def _some_loop_changes_the_tile(self, level: Level, t: Tensor) -> None:
        """Loops irrelevant to t lie outside its tile only together with a relevant one: else the tile is even."""
        outside = self.outside[level][t]
        for d in IRRELEVANT[t]:
            self.b.clause([self.b.negated(outside[d]), *(outside[e] for e in RELEVANT[t])])

    def _order_is_kept(self, level: Level, t: Tensor, has_loop: list[Lit]) -> None:
        """If a loop lies outside the tile, so does every loop that has to lie outside that loop."""
        outside = self.outside[level][t]
        for d in self.dims:
            for e in self.restriction.inside(level, d):
                self.b.clause([self.b.negated(outside[e]), self.b.negated(has_loop[d]), outside[d]])

    def _are_nested(self, one: list[Lit], other: list[Lit]) -> None:
        """One set of loops contains the other."""
        pairs = [(one[d], other[d]) for d in self.dims]
        if all(a is False for a, _ in pairs) or all(b is False for _, b in pairs):
            return
        is_subset = self.b.boolean("is_subset")
        for a, b in pairs:
            self.b.clause([is_subset.negated(), self.b.negated(a), b])
            self.b.clause([is_subset, self.b.negated(b), a])

    def is_uneven(self, level: int, t: int) -> Lit:
        """Return whether t's tile at a level covers only some of the level's loops: a literal made once."""
        if level not in ON_CHIP:
            return False
        if (level, t) not in self._is_uneven:
            outside = [self.outside[level][t][d] for d in RELEVANT[Tensor(t)]]
            self._is_uneven[level, t] = self.b.either(outside, f"uneven_{level}_{t}")
        return self._is_uneven[level, t]

    def outside_any(self, level: Level, d: Dim) -> Lit:
        """Return whether the loop of d at a level lies outside some tensor's tile."""
        return self.b.either([self.outside[level][t][d] for t in Tensor], f"outside_{level}_{d.name}")

    def holding(self, level: int, d: Dim, t: Tensor, has_loop: list[Lit]) -> Iterator[Lit]:
        """Yield literals of which one holds if the loop of d lies outside a tile that covers a loop relevant to t.

        Then that relevant loop lies inside the loop of d.
        """
        if level not in ON_CHIP:
            return
        for u in Tensor:
            outside = self.outside[level][u]
            if outside[d] is False:
                continue
            for e in RELEVANT[t]:
                yield self.b.both([outside[d], has_loop[e], self.b.negated(outside[e])], f"held_{d.name}_{e.name}")
