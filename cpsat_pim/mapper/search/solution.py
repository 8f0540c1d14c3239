"""A solution of a master problem, in terms of mappings."""

from collections.abc import Sequence

from cpsat_pim.base.dims import BUFFERS, ON_CHIP, Dim, Level, Tensor
from cpsat_pim.mapper.model.builder import Int
from cpsat_pim.mapper.model.master import MasterProblem
from cpsat_pim.mapper.model.residency import Outside
from cpsat_pim.mapper.model.variables import CLASSES
from cpsat_pim.mapper.search.orders import InnermostClass
from cpsat_pim.mapper.search.placement import StreamFigures
from cpsat_pim.mapping import Mapping, Stored


class Solution:
    """One solution of a master problem: a draft mapping, whose layouts and loop orders are open, and the figures that
    the master problem charged for it.

    `values`: of all variables, by index.
    """

    def __init__(self, master: MasterProblem, values: Sequence[int]) -> None:
        self.master, self.values = master, values
        v = master.v
        self.innermost = {
            m: self._innermost_class(m) for m, literals in v.innermost.items() if not isinstance(literals[0], bool)
        }
        self.stored: list[Stored] = [
            next(s for s, literal in v.is_stored_set[t].items() if self.value(literal)) for t in Tensor
        ]
        self.outside: Outside = tuple(
            tuple(frozenset(d for d in Dim if self.value(row[d])) for row in level) for level in v.residency.outside
        )
        self.draft = self._draft()
        #: Extents inside the loops outside the global buffer, by dim.
        self.inner_extents = tuple(self.value(x) for x in v.e1)
        self.activations = [self.value(x) for x in master.streams.activations]

    def value(self, x: Int) -> int:
        """Return the value of a variable, of a literal, or of a constant."""
        if isinstance(x, int):
            return x
        index: int = x.index
        return self.values[index] if index >= 0 else 1 - self.values[-1 - index]  # CP-SAT's index of a negation

    def charged(self, t: Tensor) -> StreamFigures:
        """Return the figures that the master problem charged for t's stream."""
        master = self.master
        if master.latency is None:
            return StreamFigures(self.activations[t], 0, 0, 0, 0, 0)
        timed = (
            master.streams.cycles[t],
            master.streams.end_cycles[t],
            master.streams.closed_cycles[t],
            master.latency.stall[t],
            master.latency.isolated_stall[t],
        )
        return StreamFigures(self.activations[t], *(self.value(x) for x in timed))

    def _innermost_class(self, level: int) -> InnermostClass:
        """Return the innermost class of a level, and its loops that are contiguous there."""
        v, reuse = self.master.v, self.master.reuse
        t = next(t for t in Tensor if self.value(v.innermost[level][t]))
        loops = [d for d in CLASSES[t] if self.value(v.temporal[level][d]) > 1]
        contiguous = tuple(d for d in loops if not self.value(reuse.interleaved[level].get(d, 0)))
        return InnermostClass(t, contiguous, reuse.knows_interleaved(level))

    def _draft(self) -> Mapping:
        """Return the mapping with a first order: contiguous loops of the innermost class last; of the others, loops
        outside of most tiles first.
        """
        v, restriction = self.master.v, self.master.spatial_bounds.restriction
        innermost = {m: run.loops for m, run in self.innermost.items()}
        temporal = [[self.value(v.temporal[m][d]) for d in Dim] for m in Level]
        split = restriction.split(tuple(self.value(n) for n in v.pes), tuple(s[Level.PE] for s in self.stored))
        assert split is not None  # the master problem holds no other numbers of PEs
        return Mapping(
            temporal=temporal,
            spatial=[*split, [self.value(n) for n in v.lanes]],
            order=[
                sorted(
                    restriction.sorted(m, [d for d in Dim if temporal[m][d] > 1], innermost.get(m, ())),
                    key=lambda d: -sum(d in outside for outside in self.outside[m]) if m in ON_CHIP else 0,
                )
                for m in Level
            ],
            stored=[[self.stored[t][m] for t in Tensor] for m in BUFFERS],
            banks=restriction.banks,
            bank_counts=restriction.bank_counts,
        )
