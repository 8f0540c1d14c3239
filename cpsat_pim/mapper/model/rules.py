"""What no mapping does, and what none has to do, said of the decisions of a layer."""

from cpsat_pim.base.dims import RELEVANT, Dim, Level, Tensor
from cpsat_pim.mapper.model.builder import Lit, is_one
from cpsat_pim.mapper.model.reuse import Reuse
from cpsat_pim.mapper.model.variables import CLASSES, Variables
from cpsat_pim.mapper.space.subspace import Subspace


class Rules:
    """Constraints that leave out what is not legal, and all but one of what is equal."""

    def __init__(self, v: Variables, reuse: Reuse) -> None:
        self.v, self.b, self.reuse = v, v.b, reuse
        for t in Tensor:
            self._contiguous_steps(t)
            self._whole_boxes(t)
        self._orders_are_kept()
        self._row_buffer_loops()

    def _contiguous_steps(self, t: Tensor) -> None:
        """MACs that draw a tensor from DRAM or the row buffer take neighbouring indices: no PE loop of a spread dim."""
        b, v = self.b, self.v
        straight = [lit for s, lit in v.is_stored_set[t].items() if not (s[Level.PE] or s[Level.GLOBAL_BUFFER])]
        for d in RELEVANT[t]:
            if not straight or is_one(v.pes[d]) or is_one(v.temporal[Level.PE][d]):
                continue
            looped = b.at_least_two(v.temporal[Level.PE][d], f"looped_{d.name}_{t.name}")
            spread = b.at_least_two(v.pes[d], f"spread_{d.name}_{t.name}")
            for literal in straight:
                b.clause([b.negated(x) for x in (literal, looped, spread)])

    def _whole_boxes(self, t: Tensor) -> None:
        """PEs that are apart take from DRAM or the row buffer all that they hold of a spread dim at once."""
        straight = [lit for s, lit in self.v.is_stored_set[t].items() if s[Level.PE] and not s[Level.GLOBAL_BUFFER]]
        for d in RELEVANT[t]:
            outside = self.v.residency.outside[Level.PE][t][d]
            if outside is False or is_one(self.v.pes[d]):
                continue
            spread = self.b.at_least_two(self.v.pes[d], f"spread_{d.name}_{t.name}")
            for literal in straight:
                self.b.clause([self.b.negated(x) for x in (literal, outside, spread)])

    def _orders_are_kept(self) -> None:
        """A class is innermost only where some loop of it may lie inside all others (groups, of no class, aside)."""
        v = self.v
        for m, literals in v.innermost.items():
            for c, literal in enumerate(literals):
                is_open = v.is_of_both(m) or isinstance(literal, bool)
                if is_open or not any(v.restriction.inside(Level(m), d) for d in CLASSES[c]):
                    continue
                last = [self._is_last(Level(m), d) for d in CLASSES[c]]
                none = [self.b.negated(self.reuse.has_loops[m][c])] if c == Tensor.I else []
                self.b.clause([literal.negated(), *last, *none])

    def _is_last(self, level: Level, d: Dim) -> Lit:
        """Whether a dim has a loop at a level, and none that has to lie inside it."""
        inside = [
            self.b.negated(self.v.has_loop(level, e)) for e in self.v.restriction.inside(level, d) if e is not Dim.G
        ]
        return self.b.both([self.v.has_loop(level, d), *inside], f"last_{level}_{d.name}")

    def _row_buffer_loops(self) -> None:
        """Where the row buffer stores nothing its outermost loop may as well be the DRAM's innermost, so one that may
        not is there: of a dim that constraints name, or one that the DRAM loops over, too.
        """
        v, restriction = self.v, self.v.restriction
        if v.aligned or not v.row_buffer:
            return
        loops = {d: v.has_loop(Level.ROW_BUFFER, d) for d in Dim}
        twice = [self.b.both([loops[d], v.has_loop(Level.DRAM, d)], f"twice_{d.name}") for d in Dim]
        if restriction.subspace is Subspace.SPLIT:
            self.b.clause(twice)
            return
        stays = [loops[d] for d in Dim if restriction.is_told_apart(d)]
        for d in Dim:
            if not restriction.is_told_apart(d):
                self.b.clause([self.b.negated(loops[d]), *stays, *twice])
