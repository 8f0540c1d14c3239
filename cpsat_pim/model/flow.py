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
        self._loops()
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

    def _loops(self) -> None:
        """Per class the loops outside the PEs, and all of them."""
        v, b = self.v, self.b
        self.outside: list[Int] = []
        for c, bound in enumerate(v.class_bound):
            rows = [(e, bound // e) for e in b.values(v.class_eA[c]) if bound % e == 0]
            self.outside += b.lookup([v.class_eA[c]], rows, [f"outside_c{c}"])
        inside = v.class_temporal[Level.PE]
        self.all = [
            b.product(pair, "loops", v.class_divisors[c])
            for c, pair in enumerate(zip(self.outside, inside, strict=True))
        ]

    def _fewest(self, t: Tensor) -> Int:
        """At most the number of t's tiles under any order."""
        fewest = self.b.interval(1, self.v.layer.macs, f"fewest_{t.name}")
        self.b.model.add(fewest >= self._times([*_others(self.outside, t), self.v.reuse[t][Level.PE]]))
        operands = self._times([*_others(self.all, t), self.outside[t]])
        self.b.imply([self._is_looped(t)], fewest >= operands)
        return fewest

    def _most(self, t: Tensor) -> Int:
        """At least that number."""
        most = self.b.interval(1, self.v.layer.macs, f"most_{t.name}")
        passes = [self._most_passes(t, level) for level in _OUTER]
        self.b.model.add(most <= self._times(self.all))
        tiles = self._times([*_others(self.outside, t), *passes])
        self.b.imply([self.b.negated(self._is_looped(t))], most <= tiles)
        return most

    def _most_passes(self, t: Tensor, level: Level) -> Int:
        """A level's irrelevant loops as far as they can be counted: where the class is free at least one is not, and in
        a class of one dim that is all (but a group's loop may lie inside, which is of no class).
        """
        v, b, loops = self.v, self.b, self.v.class_temporal[level][t]
        dims = [d for d in CLASSES[t] if v.bounds[d] > 1]
        if v.bounds[Dim.G] > 1 or not dims:
            return loops
        if len(dims) == 1:
            return v.multiplier(t, Level.PE, level)
        passes = b.integer({1, *b.values(loops)}, f"passes_{level}_{t.name}")
        b.model.add(passes <= loops)
        b.imply([v.is_free(t, Level.PE, level)], 2 * passes <= loops + 1)
        return passes

    def _is_looped(self, t: Tensor) -> Lit:
        """Whether t's operands change within a PE that does not store it: then every loop outside replaces them."""
        changes = self.b.either(
            [self.b.at_least_two(x, "loop") for x in _others(self.v.class_temporal[Level.PE], t)], "changes"
        )
        return self.b.both([self.b.negated(self.v.stored(Level.PE, t)), changes], f"looped_{t.name}")

    def _times(self, factors: list[Int]) -> Int:
        return self.b.product(factors, "visits", most=self.v.layer.macs)


def _others(per_class: list[Int], t: Tensor) -> list[Int]:
    """All but the class irrelevant to t."""
    return [x for c, x in enumerate(per_class) if c != t]
