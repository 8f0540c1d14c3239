"""The validity of a cut: the mappings that share with one solution all that the cut's proof uses."""

from collections.abc import Callable, Collection, Iterator, Sequence

from cpsat_pim.base.dims import ON_CHIP, RELEVANT, Dim, Level, Tensor
from cpsat_pim.mapper.model.builder import Lit
from cpsat_pim.mapper.model.master import MasterProblem
from cpsat_pim.mapper.model.variables import CLASSES
from cpsat_pim.mapper.search.completion import Completions
from cpsat_pim.mapper.search.cut_pool import Validity
from cpsat_pim.mapper.search.orders import InnermostClass
from cpsat_pim.mapper.search.solution import Solution
from tables.nest import MACS


class Validities:
    """The validities of one solution's cuts."""

    def __init__(self, solution: Solution, completions: Completions) -> None:
        self.solution, self.completions = solution, completions
        self.master, self.draft, self.nest = solution.master, solution.draft, completions.nest

    def same_stream(self, t: Tensor, levels: list[Level], is_contiguous: bool) -> Validity:
        """Return the mappings whose stream of t is surely the solution's, by the loops of some levels.

        Loops that cause no fetches (`_free_loops`) may be others if t is fetched as often: the stream is the same. In a
        shared bank it also depends on when the other tensors are fetched: `t` is then the one with the innermost
        consumer, and the loops lie inside the tiles of the others.
        """
        part = self.completions.orders.deciding(t)
        drawn = [u for u in self.master.restriction.part(t) if u not in part and self.nest.consumers(u)[0] == MACS]
        if drawn:
            alone = self._same_stream_of(t, part, levels, is_contiguous)
            return alone.without(lambda p: [p.b.negated(p.v.first_consumer(MACS, drawn[0]))])
        return self._same_stream_of(t, part, levels, is_contiguous)

    def _same_stream_of(self, t: Tensor, part: Sequence[Tensor], levels: list[Level], is_contiguous: bool) -> Validity:
        """Return the same, if the loops of some tensors decide the stream."""
        is_whole = levels == self.completions.orders.levels_outside(t)
        inmost = min(part, key=lambda u: self.nest.consumers(u)[0])
        consumer = self.nest.consumers(inmost)[0]
        free = self._free_loops(inmost, is_contiguous) if is_whole else set[tuple[int, Dim]]()
        for u in (u for u in part if u is not inmost):
            holder = self.nest.consumers(u)[0]
            free = {(m, d) for m, d in free if m <= holder and not self.is_uneven(holder, u)}
        if not free:
            return self.same_loops(levels, part, is_contiguous)
        factor = self.solution.value(self.master.reuse.factors[inmost][consumer])
        same_loops = self.same_loops(levels, part, is_contiguous, free)
        return same_loops.without(lambda p: [p.b.differs(p.reuse.factors[inmost][consumer], factor)])

    def same_loops(
        self,
        levels: Sequence[Level],
        tensors: Sequence[Tensor],
        is_contiguous: bool,
        free: Collection[tuple[int, Dim]] = (),
    ) -> Validity:
        """Return the mappings with the solution's loops at some levels and its first consumers of some tensors.

        `free`: levels and dims of which the loops may be others. `is_contiguous`: the same loops are contiguous, too.
        """
        temporal, other_pes = self.draft.temporal, self._other_pes()
        innermost = {m: found for m, found in self.solution.innermost.items() if self._is_class_seen(m, levels)}
        consumers = {t: self.nest.consumers(t)[0] for t in tensors}
        # How PEs are spread changes the sets of operands of a step, and I's tiles of the whole array.
        is_spread_seen = any(c == MACS or (c == Level.PE and t is Tensor.I) for t, c in consumers.items())
        tiles = {(m, t) for m in ON_CHIP for t in Tensor if m in levels or consumers.get(t) == m}

        def deviations(p: MasterProblem) -> list[Lit]:
            fixed = [(m, d) for m in levels for d in Dim if (m, d) not in free]
            found = [p.b.differs(p.v.temporal[m][d], temporal[m][d]) for m, d in fixed]
            found += [literal for m, t in sorted(tiles) for literal in self._other_tile(p, m, t)]
            found += [p.b.negated(p.v.innermost[m][t]) for m, (t, *_) in innermost.items()]
            if is_contiguous:
                found += [literal for m in innermost for literal in self._other_contiguous(p, m)]
            found += [p.b.negated(p.v.first_consumer(c, t)) for t, c in consumers.items()]
            return [*found, *(other_pes(p) if is_spread_seen else ())]

        outer = [m for m in Level if m >= Level.ROW_BUFFER]
        is_inside = all(m in levels for m in outer)
        same = [d for d in Dim if is_inside and not any((m, d) in free for m in outer)]
        return Validity(deviations, {d: self.solution.inner_extents[d] for d in same})

    def same_factors(self, is_contiguous: bool) -> Validity:
        """Return the mappings with the solution's factors, stored sets and innermost classes."""
        stored = self.solution.stored
        same_loops = self.same_loops(list(Level), [], is_contiguous).without(self._other_pes())
        return same_loops.without(lambda p: [p.v.is_not_stored_at(t, stored[t]) for t in Tensor])

    def is_uneven(self, level: int, t: Tensor) -> bool:
        """Whether loops of its own level lie outside the solution's tile of t."""
        return level in ON_CHIP and bool(self.solution.outside[level][t])

    def _free_loops(self, t: Tensor, is_contiguous: bool) -> set[tuple[int, Dim]]:
        """Return levels and dims of which the loops cause no fetches of t, whatever their factors.

        These are irrelevant to t and innermost, with no relevant loop between them and t's first consumer. Where t is
        fetched as often as in the solution, none of the loops in their place is interleaved if none of the solution's
        is. Contiguous loops beside interleaved ones are free only if the same loops are interleaved: two interleaved
        loops can bring tiles back in an order in which one cannot.
        """
        consumer, free = self.nest.consumers(t)[0], set[tuple[int, Dim]]()
        if consumer == MACS or self.is_uneven(consumer, t):
            return free
        for m in range(consumer + 1, len(Level)):
            is_moved = any(self.draft.temporal[m][d] > 1 for d in RELEVANT[t])
            innermost = self.solution.innermost.get(m)
            if not is_moved:
                free |= {(m, d) for d in CLASSES[t]}
            elif innermost and innermost.t is t:
                if is_contiguous and innermost.is_determined:
                    free |= {(m, d) for d in innermost.loops}
                elif self._is_all_contiguous(Level(m), innermost):
                    free |= {(m, d) for d in CLASSES[t]}
            if is_moved:
                break
        return free

    def _is_all_contiguous(self, level: Level, innermost: InnermostClass) -> bool:
        """Whether no loop of a level's innermost class is interleaved in the solution, nor has to be."""
        looped = {d for d in CLASSES[innermost.t] if self.draft.temporal[level][d] > 1}
        dims = CLASSES[innermost.t]
        return looped == set(innermost.loops) and self.completions.orders.can_be_contiguous(level, dims)

    def _is_class_seen(self, m: int, levels: Sequence[int]) -> bool:
        """Whether a level's innermost class distinguishes orders: two classes have loops there."""
        return m in levels and sum(any(d in dims for d in self.draft.order[m]) for dims in CLASSES) > 1

    def _other_pes(self) -> Callable[[MasterProblem], list[Lit]]:
        """Return literals of which one holds where a dim is spread over another number of PEs."""
        pes = [self.solution.value(x) for x in self.master.v.pes]
        return lambda p: [p.b.differs(x, n) for x, n in zip(p.v.pes, pes, strict=True)]

    def _other_tile(self, p: MasterProblem, level: Level, t: Tensor) -> Iterator[Lit]:
        """Yield literals of which one holds where other loops of a level lie outside t's tile."""
        outside, literals = self.solution.outside[level][t], p.v.residency.outside[level][t]
        return (p.b.negated(literals[d]) if d in outside else literals[d] for d in Dim)

    def _other_contiguous(self, p: MasterProblem, m: int) -> Iterator[Lit]:
        """Yield literals of which one holds where other loops of a level's innermost class are contiguous."""
        t, loops, _ = self.solution.innermost[m]
        for d in CLASSES[t]:
            if self.draft.temporal[m][d] > 1:
                interleaved = p.reuse.interleaved[m].get(d, False)
                yield interleaved if d in loops else p.b.negated(interleaved)
