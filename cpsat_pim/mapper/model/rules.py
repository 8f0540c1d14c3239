"""Rules of legality and of symmetry: no mapping breaks them, or an equal one keeps them."""

from cpsat_pim.base.dims import RELEVANT, Dim, Level, Tensor
from cpsat_pim.mapper.model.builder import Lit, is_one
from cpsat_pim.mapper.model.reuse import Reuse
from cpsat_pim.mapper.model.variables import CLASSES, Variables
from cpsat_pim.mapper.space.subspace import Subspace


class Rules:
    """Constraints that forbid illegal mappings, and all but one of mappings with equal cost."""

    def __init__(self, v: Variables, reuse: Reuse) -> None:
        self.v, self.b, self.reuse = v, v.b, reuse
        for t in Tensor:
            self._drawn_indices_are_neighbours(t)
            self._spread_boxes_are_whole(t)
        self._orders_are_kept()
        self._row_buffer_has_no_movable_loop()

    def _drawn_indices_are_neighbours(self, t: Tensor) -> None:
        """If MACs draw a tensor from DRAM or the row buffer, no dim that is spread over PEs has a loop in the PEs.

        So the MACs of a step take neighbouring indices (docs/model.md, section 3).
        """
        b, v = self.b, self.v
        straight = [lit for s, lit in v.is_stored_set[t].items() if not (s[Level.PE] or s[Level.GLOBAL_BUFFER])]
        for d in RELEVANT[t]:
            if not straight or is_one(v.pes[d]) or is_one(v.temporal[Level.PE][d]):
                continue
            looped = b.at_least_two(v.temporal[Level.PE][d], f"looped_{d.name}_{t.name}")
            spread = b.at_least_two(v.pes[d], f"spread_{d.name}_{t.name}")
            for literal in straight:
                b.clause([b.negated(x) for x in (literal, looped, spread)])

    def _spread_boxes_are_whole(self, t: Tensor) -> None:
        """If PEs take a tensor from DRAM or the row buffer, no loop of a dim that is spread over PEs is outside its
        tile.

        Otherwise the PEs' boxes would be read from places e0 apart (docs/model.md, section 3).
        """
        straight = [lit for s, lit in self.v.is_stored_set[t].items() if s[Level.PE] and not s[Level.GLOBAL_BUFFER]]
        for d in RELEVANT[t]:
            outside = self.v.residency.outside[Level.PE][t][d]
            if outside is False or is_one(self.v.pes[d]):
                continue
            spread = self.b.at_least_two(self.v.pes[d], f"spread_{d.name}_{t.name}")
            for literal in straight:
                self.b.clause([self.b.negated(x) for x in (literal, outside, spread)])

    def _orders_are_kept(self) -> None:
        """A class is innermost only if fixed orders allow some loop of it inside the loops of all other classes."""
        v = self.v
        for m, literals in v.innermost.items():
            for c, literal in enumerate(literals):
                is_open = v.stands_for_both(m) or isinstance(literal, bool)
                if is_open or not any(v.restriction.inside(Level(m), d) for d in CLASSES[c]):
                    continue
                last = [self._is_last(Level(m), d) for d in CLASSES[c]]
                none = [self.b.negated(self.reuse.has_loops[m][c])] if c == Tensor.I else []
                self.b.clause([literal.negated(), *last, *none])

    def _is_last(self, level: Level, d: Dim) -> Lit:
        """Return whether a dim has a loop at a level, and no loop but one of groups has to lie inside it."""
        inside = [
            self.b.negated(self.v.has_loop(level, e)) for e in self.v.restriction.inside(level, d) if e is not Dim.G
        ]
        return self.b.both([self.v.has_loop(level, d), *inside], f"last_{level}_{d.name}")

    def _row_buffer_has_no_movable_loop(self) -> None:
        """If the row buffer stores nothing, some loop of it cannot be moved to the DRAM at equal cost, or it has none.

        Its outermost loop could be the DRAM's innermost. That changes nothing unless constraints name the dim at one of
        the two levels, or the DRAM has a loop of the same dim. So the row buffer has a loop of such a dim.
        """
        v, restriction = self.v, self.v.restriction
        if v.is_aligned or not v.has_row_buffer_loops:
            return
        loops = {d: v.has_loop(Level.ROW_BUFFER, d) for d in Dim}
        twice = [self.b.both([loops[d], v.has_loop(Level.DRAM, d)], f"twice_{d.name}") for d in Dim]
        if restriction.subspace is Subspace.SPLIT:
            self.b.clause(twice)
            return
        fixed = [loops[d] for d in Dim if restriction.outer_level_matters(d)]
        for d in Dim:
            if not restriction.outer_level_matters(d):
                self.b.clause([self.b.negated(loops[d]), *fixed, *twice])
