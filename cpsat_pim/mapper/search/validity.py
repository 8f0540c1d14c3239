"""Of which mappings what was counted of an answer holds: those that have its stream, its loops or its factors."""

from collections.abc import Callable, Collection, Iterator, Sequence

from cpsat_pim.base.dims import ON_CHIP, RELEVANT, Dim, Level, Tensor
from cpsat_pim.mapper.model.builder import Lit
from cpsat_pim.mapper.model.master import MasterProblem
from cpsat_pim.mapper.model.variables import CLASSES
from cpsat_pim.mapper.search.completion import Completions, Inner
from cpsat_pim.mapper.search.cut_pool import Validity
from cpsat_pim.mapper.search.solution import Solution
from tables.nest import MACS


class Validities:
    """The mappings that agree with one answer in what a lesson depends on."""

    def __init__(self, solution: Solution, completions: Completions) -> None:
        self.solution, self.completions = solution, completions
        self.master, self.draft, self.nest = solution.master, solution.draft, completions.nest

    def same_stream(self, t: Tensor, levels: list[Level], is_contiguous: bool) -> Validity:
        """Where t's stream is the answer's for sure, by the loops of some levels.

        With as many fetches it is the same stream whichever loops are free.
        """
        consumer = self.nest.consumers(t)[0]
        is_whole = levels == self.completions.levels_outside(t)
        free = self._free_loops(t, is_contiguous) if is_whole else set[tuple[int, Dim]]()
        if not free:
            return self.same_loops(levels, [t], is_contiguous)
        known = self.solution.value(self.master.reuse.factors[t][consumer])
        same_loops = self.same_loops(levels, [t], is_contiguous, free)
        return same_loops.but(lambda p: [p.b.differs(p.reuse.factors[t][consumer], known)])

    def same_loops(
        self,
        levels: Sequence[Level],
        tensors: Sequence[Tensor],
        is_contiguous: bool,
        free: Collection[tuple[int, Dim]] = (),
    ) -> Validity:
        """Where the tensors' streams are the answer's; `free` loops of a level and dim may be others."""
        temporal, pes = self.draft.temporal, self._other_pes()
        inner = {m: inner for m, inner in self.solution.inner.items() if self._matters(m, levels)}
        consumers = {t: self.nest.consumers(t)[0] for t in tensors}
        # Of step sets, and of I's array tiles, it matters how PEs are spread.
        spread = any(c == MACS or (c == Level.PE and t is Tensor.I) for t, c in consumers.items())
        tiles = {(m, t) for m in ON_CHIP for t in Tensor if m in levels or consumers.get(t) == m}

        def others(p: MasterProblem) -> list[Lit]:
            bound = [(m, d) for m in levels for d in Dim if (m, d) not in free]
            found = [p.b.differs(p.v.temporal[m][d], temporal[m][d]) for m, d in bound]
            found += [literal for m, t in sorted(tiles) for literal in self._other_tile(p, m, t)]
            found += [p.b.negated(p.v.innermost[m][t]) for m, (t, *_) in inner.items()]
            if is_contiguous:
                found += [literal for m in inner for literal in self._other_gathered(p, m)]
            found += [p.b.negated(p.v.first_consumer(c, t)) for t, c in consumers.items()]
            return [*found, *(pes(p) if spread else ())]

        outer = [m for m in Level if m >= Level.ROW_BUFFER]
        is_inside = all(m in levels for m in outer)
        known = [d for d in Dim if is_inside and not any((m, d) in free for m in outer)]
        return Validity(others, {d: self.solution.within[d] for d in known})

    def same_factors(self, is_contiguous: bool) -> Validity:
        """The same factors, stored sets and innermost classes."""
        stored = self.solution.stored
        same_loops = self.same_loops(list(Level), [], is_contiguous).but(self._other_pes())
        return same_loops.but(lambda p: [p.v.is_not_stored_at(t, stored[t]) for t in Tensor])

    def _free_loops(self, t: Tensor, is_contiguous: bool) -> set[tuple[int, Dim]]:
        """Levels and dims of which loops cause no fetches of t, whatever their factors: they are irrelevant to it and
        innermost, with nothing relevant between them and its first consumer. With as many fetches, then, none of the
        loops there may be is parted either where none of the answer's is. Of those that are gathered beside parted
        ones, only these: two loops that are parted can bring tiles back in an order in which one cannot.
        """
        consumer, free = self.nest.consumers(t)[0], set[tuple[int, Dim]]()
        if consumer == MACS or self.is_uneven(consumer, t):
            return free
        for m in range(consumer + 1, len(Level)):
            is_moved = any(self.draft.temporal[m][d] > 1 for d in RELEVANT[t])
            inner = self.solution.inner.get(m)
            if not is_moved:
                free |= {(m, d) for d in CLASSES[t]}
            elif inner and inner.t is t:
                if is_contiguous and inner.is_told:
                    free |= {(m, d) for d in inner.loops}
                elif self._gathers_all(Level(m), inner):
                    free |= {(m, d) for d in CLASSES[t]}
            if is_moved:
                break
        return free

    def _gathers_all(self, level: Level, inner: Inner) -> bool:
        """Whether no loop of a level's innermost class is parted in the answer, nor has to be."""
        looped = {d for d in CLASSES[inner.t] if self.draft.temporal[level][d] > 1}
        return looped == set(inner.loops) and self.completions.can_gather(level, CLASSES[inner.t])

    def _matters(self, m: int, levels: Sequence[int]) -> bool:
        """Whether the class that is innermost at a level tells orders apart: two classes have loops there."""
        return m in levels and sum(any(d in dims for d in self.draft.order[m]) for dims in CLASSES) > 1

    def _other_pes(self) -> Callable[[MasterProblem], list[Lit]]:
        pes = [self.solution.value(x) for x in self.master.v.pes]
        return lambda p: [p.b.differs(x, n) for x, n in zip(p.v.pes, pes, strict=True)]

    def _other_tile(self, p: MasterProblem, level: Level, t: Tensor) -> Iterator[Lit]:
        """Literals of which one holds where other loops of a level lie outside t's tile."""
        outside, literals = self.solution.outside[level][t], p.v.residency.outside[level][t]
        return (p.b.negated(literals[d]) if d in outside else literals[d] for d in Dim)

    def _other_gathered(self, p: MasterProblem, m: int) -> Iterator[Lit]:
        """Literals of which one holds where other loops of a level's innermost class are gathered."""
        t, loops, _ = self.solution.inner[m]
        for d in CLASSES[t]:
            if self.draft.temporal[m][d] > 1:
                interleaved = p.reuse.interleaved[m].get(d, False)
                yield interleaved if d in loops else p.b.negated(interleaved)

    def is_uneven(self, level: int, t: Tensor) -> bool:
        """Whether the answer's tile leaves loops of its level out."""
        return level in ON_CHIP and bool(self.solution.outside[level][t])
