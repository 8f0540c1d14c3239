"""What a program answered, in terms of mappings."""

from collections.abc import Sequence

from cpsat_pim.base.dims import BUFFERS, ON_CHIP, Dim, Level, Tensor
from cpsat_pim.mapper.model.builder import Int
from cpsat_pim.mapper.model.master import Program
from cpsat_pim.mapper.model.residency import Outside
from cpsat_pim.mapper.model.variables import CLASSES
from cpsat_pim.mapper.search.completion import Inner, Least
from cpsat_pim.mapping import Mapping, Stored


class Solution:
    """What a program answered: a draft mapping (layouts and orders open) and the figures that it was counted with.

    `values`: of all its variables.
    """

    def __init__(self, program: Program, values: Sequence[int]) -> None:
        self.program, self.values = program, values
        v = program.v
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
        self.activations = [self.value(x) for x in program.streams.activations]

    def value(self, x: Int) -> int:
        """A variable's value, or a literal's."""
        if isinstance(x, int):
            return x
        index: int = x.index
        return self.values[index] if index >= 0 else 1 - self.values[-1 - index]  # CP-SAT's index of a negation

    def least(self, t: Tensor) -> Least:
        """The figures that t's stream was counted with."""
        program = self.program
        if program.latency is None:
            return Least(self.activations[t], 0, 0, 0, 0)
        timed = (
            program.streams.cycles[t],
            program.streams.end_cycles[t],
            program.latency.late[t],
            program.latency.single[t],
        )
        return Least(self.activations[t], *(self.value(x) for x in timed))

    def _inner(self, level: int) -> Inner:
        """The innermost class of a level, and its loops that are gathered there."""
        v, reuse = self.program.v, self.program.reuse
        t = next(t for t in Tensor if self.value(v.innermost[level][t]))
        loops = [d for d in CLASSES[t] if self.value(v.temporal[level][d]) > 1]
        gathered = tuple(d for d in loops if not self.value(reuse.parted[level].get(d, 0)))
        return Inner(t, gathered, reuse.tells_parted(level))

    def _draft(self) -> Mapping:
        """Gathered loops of the innermost class last; those outside of most tiles first."""
        v, freedom = self.program.v, self.program.screen.freedom
        inner = {m: inner.loops for m, inner in self.inner.items()}
        temporal = [[self.value(v.temporal[m][d]) for d in Dim] for m in Level]
        split = freedom.split(tuple(self.value(n) for n in v.pes), tuple(s[Level.PE] for s in self.stored))
        assert split is not None  # the program holds no others
        return Mapping(
            temporal=temporal,
            spatial=[*split, [self.value(n) for n in v.lanes]],
            order=[
                sorted(
                    freedom.sorted(m, [d for d in Dim if temporal[m][d] > 1], inner.get(m, ())),
                    key=lambda d: -sum(d in outside for outside in self.outside[m]) if m in ON_CHIP else 0,
                )
                for m in Level
            ],
            stored=[[self.stored[t][m] for t in Tensor] for m in BUFFERS],
        )
