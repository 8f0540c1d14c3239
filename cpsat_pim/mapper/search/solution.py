"""What a program answered, in terms of mappings."""

from collections.abc import Sequence

from cpsat_pim.base.dims import BUFFERS, ON_CHIP, Dim, Level, Tensor
from cpsat_pim.mapper.model.builder import Int
from cpsat_pim.mapper.model.master import MasterProblem
from cpsat_pim.mapper.model.residency import Outside
from cpsat_pim.mapper.model.variables import CLASSES
from cpsat_pim.mapper.search.completion import Inner, Least
from cpsat_pim.mapping import Mapping, Stored


class Solution:
    """What a program answered: a draft mapping (layouts and orders open) and the figures that it was counted with.

    `values`: of all its variables.
    """

    def __init__(self, master: MasterProblem, values: Sequence[int]) -> None:
        self.master, self.values = master, values
        v = master.v
        self.inner = {m: self._inner(m) for m, literals in v.innermost.items() if not isinstance(literals[0], bool)}
        self.stored: list[Stored] = [
            next(s for s, literal in v.is_stored_set[t].items() if self.value(literal)) for t in Tensor
        ]
        self.outside: Outside = tuple(
            tuple(frozenset(d for d in Dim if self.value(row[d])) for row in level) for level in v.residency.outside
        )
        self.draft = self._draft()
        #: Extents inside the outer loops.
        self.within = tuple(self.value(x) for x in v.e1)
        self.activations = [self.value(x) for x in master.streams.activations]

    def value(self, x: Int) -> int:
        """A variable's value, or a literal's."""
        if isinstance(x, int):
            return x
        index: int = x.index
        return self.values[index] if index >= 0 else 1 - self.values[-1 - index]  # CP-SAT's index of a negation

    def least(self, t: Tensor) -> Least:
        """The figures that t's stream was counted with."""
        master = self.master
        if master.latency is None:
            return Least(self.activations[t], 0, 0, 0, 0)
        timed = (
            master.streams.cycles[t],
            master.streams.end_cycles[t],
            master.latency.late[t],
            master.latency.single[t],
        )
        return Least(self.activations[t], *(self.value(x) for x in timed))

    def _inner(self, level: int) -> Inner:
        """The innermost class of a level, and its loops that are gathered there."""
        v, reuse = self.master.v, self.master.reuse
        t = next(t for t in Tensor if self.value(v.innermost[level][t]))
        loops = [d for d in CLASSES[t] if self.value(v.temporal[level][d]) > 1]
        contiguous = tuple(d for d in loops if not self.value(reuse.interleaved[level].get(d, 0)))
        return Inner(t, contiguous, reuse.tells_parted(level))

    def _draft(self) -> Mapping:
        """Gathered loops of the innermost class last; those outside of most tiles first."""
        v, restriction = self.master.v, self.master.spatial_bounds.restriction
        inner = {m: inner.loops for m, inner in self.inner.items()}
        temporal = [[self.value(v.temporal[m][d]) for d in Dim] for m in Level]
        split = restriction.split(tuple(self.value(n) for n in v.pes), tuple(s[Level.PE] for s in self.stored))
        assert split is not None  # the program holds no others
        return Mapping(
            temporal=temporal,
            spatial=[*split, [self.value(n) for n in v.lanes]],
            order=[
                sorted(
                    restriction.sorted(m, [d for d in Dim if temporal[m][d] > 1], inner.get(m, ())),
                    key=lambda d: -sum(d in outside for outside in self.outside[m]) if m in ON_CHIP else 0,
                )
                for m in Level
            ],
            stored=[[self.stored[t][m] for t in Tensor] for m in BUFFERS],
        )
