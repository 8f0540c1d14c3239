"""The dataflow class that is asked for, as far as a program can tell it.

Where the array and what the PEs store leave several classes, a mapping is of that whose tensor's tiles are replaced
least often (`cpsat_pim.dataflow`). How often that is depends on the order of the loops. A program knows which class of
loops is innermost at each level, and so between which numbers it lies: loops that are free if they lie together may be
counted if they do not, all but the innermost one. `orders.Completions` looks at the orders themselves.
"""

from collections.abc import Iterable, Sequence

from cpsat_pim.dataflow import STATIONARY, Dataflow
from cpsat_pim.dims import Dim, Level, Tensor
from cpsat_pim.model.builder import Int, Lit
from cpsat_pim.model.variables import CLASSES, Variables

_OUTER = (Level.GLOBAL_BUFFER, Level.ROW_BUFFER, Level.DRAM)
#: Who wins a tie.
_RANK = list(STATIONARY.values())


class Flow:
    """Demands that no rival's tensor is sure to be replaced less often than the wanted class's.

    `candidates`: rows of PEs per dim, lanes per dim and whether PEs store I, W, O; `in_pe`: the last as variables.
    """

    def __init__(self, v: Variables, wanted: Dataflow, candidates: Iterable[Sequence[int]], in_pe: list[Int]) -> None:
        self.v, self.b = v, v.b
        rows = {(*row[:8], *row[16:], *self._rivals(tuple(row[:8]), row[16:])) for row in candidates}
        rivals = [self._literal({row[11 + t] for row in rows}, f"rival_{t.name}") for t in Tensor]
        self.b.table([*v.pes, *in_pe, *(self.b.flag(rival) for rival in rivals)], rows)
        for t, rival in zip(Tensor, rivals, strict=True):
            if rival is not False:
                first = _RANK.index(STATIONARY[wanted]) < _RANK.index(t)
                least, most = self._fewest(STATIONARY[wanted]), self._most(t)
                self.b.imply([rival], least + (0 if first else 1) <= most)

    def _rivals(self, pes: tuple[int, ...], in_pe: Sequence[int]) -> list[int]:
        """Whether I's, W's and O's class compete with the wanted one."""
        rivals = self.v.freedom.rivals(pes, tuple(bool(flag) for flag in in_pe))
        return [int(any(STATIONARY[flow] is t for flow in rivals)) for t in Tensor]

    def _literal(self, values: set[int], name: str) -> Lit:
        return self.b.boolean(name) if len(values) > 1 else values == {1}

    # --- How often tiles are replaced --------------------------------------------------------------------------------

    def _fewest(self, t: Tensor) -> Int:
        """At most the number of t's tiles under any order."""
        outside = self.b.product([*self._relevant(t, _OUTER), self.v.reuse[t][Level.PE]], f"visits_{t.name}")
        within = self.b.product([*self._relevant(t, Level), *self._irrelevant(t, _OUTER)], f"operands_{t.name}")
        fewest = self.b.interval(1, self.v.layer.macs, f"fewest_{t.name}")
        self.b.imply([self._is_looped(t)], fewest >= within)
        self.b.model.add(fewest >= outside)
        return fewest

    def _most(self, t: Tensor) -> Int:
        """At least that number."""
        passes = [self._most_passes(t, level) for level in _OUTER]
        outside = self.b.product([*self._relevant(t, _OUTER), *passes], f"most_visits_{t.name}")
        within = self.b.product([*self._relevant(t, Level), *self._irrelevant(t, Level)], f"most_operands_{t.name}")
        most = self.b.interval(1, self.v.layer.macs, f"most_{t.name}")
        self.b.model.add(most <= within)
        self.b.imply([self.b.negated(self._is_looped(t))], most <= outside)
        return most

    def _most_passes(self, t: Tensor, level: Level) -> Int:
        """A level's irrelevant loops as far as they can be counted: where the class is free at least one is not, and in
        a class of one dim that is all (but a group's loop may lie inside, which is of no class).
        """
        v, b, loops = self.v, self.b, self.v.class_temporal[level][t]
        dims = [d for d in CLASSES[t] if v.bounds[d] > 1]
        if v.bounds[Dim.G] > 1 or len(dims) == 0:
            return loops
        if len(dims) == 1:
            return v.multiplier(t, Level.PE, level)
        passes = b.integer({1, *b.values(loops)}, f"passes_{level}_{t.name}")
        b.model.add(passes <= loops)
        b.imply([v.is_free(t, Level.PE, level)], 2 * passes <= loops + 1)
        return passes

    def _is_looped(self, t: Tensor) -> Lit:
        """Whether t's operands change within a PE that does not store it: then every loop outside replaces them."""
        within = self.b.product(self._relevant(t, (Level.PE,)), f"within_{t.name}")
        changes = self.b.at_least_two(within, f"changes_{t.name}")
        return self.b.both([self.b.negated(self.v.stored(Level.PE, t)), changes], f"looped_{t.name}")

    def _relevant(self, t: Tensor, levels: Iterable[Level]) -> list[Int]:
        return [self.v.class_temporal[m][c] for m in levels for c in range(len(CLASSES)) if c != t]

    def _irrelevant(self, t: Tensor, levels: Iterable[Level]) -> list[Int]:
        return [self.v.class_temporal[m][t] for m in levels]
