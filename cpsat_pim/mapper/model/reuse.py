"""How often each tile is fetched: innermost classes, free loops, and what contiguous loops sweep.

A loop irrelevant to a tensor is *free* for a consumer if it causes no fetches: no relevant loop lies between it and the
consumer. Loops of a level's innermost class are *contiguous* if no loop of another class lies inside them, and
*interleaved* otherwise.
"""

from cpsat_pim.base.dims import BUFFERS, ON_CHIP, RELEVANT, Dim, Level, Tensor
from cpsat_pim.mapper.model.builder import Int, Lit, is_one
from cpsat_pim.mapper.model.variables import CLASSES, GROUPS, OUTSIDE_PE, Variables
from tables.factors import divisors
from tables.nest import MACS


class Reuse:
    """`factors[t][consumer]`: how often each tile of t is fetched by a consumer (x_r, x_j, Eq. 23, 59).

    It is the product of the irrelevant loops outside the tile that are not free. `has_loops[m][c]`: class c has a loop
    at level m. `has_relevant[m, t]`: some class relevant to t has. `interleaved[m][d]`: the loop of d, which is of the
    innermost class of level m, has loops of other classes inside it.
    """

    def __init__(self, v: Variables) -> None:
        self.v, self.b = v, v.b
        self._swept_cache: dict[Level, list[Int]] = {}
        self._loops()
        self._innermost_have_loops()
        self._relevant_loops()
        self._interleaved_loops()
        self.factors = [self._factors(t) for t in Tensor]

    def _loops(self) -> None:
        """Make the literals of which classes have loops at which levels."""
        b, v = self.b, self.v
        self.has_loops: dict[int, list[Lit]] = {
            m: [b.at_least_two(v.class_temporal[m][c], f"loops_{m}_c{c}") for c in range(len(CLASSES))]
            for m in OUTSIDE_PE
        }

    def _relevant_loops(self) -> None:
        """Make the literals of which levels have loops relevant to which tensors."""
        self.has_relevant: dict[tuple[int, int], Lit] = {
            (m, t): self.b.either([x for c, x in enumerate(self.has_loops[m]) if c != t], f"relevant_{m}_{t.name}")
            for m in OUTSIDE_PE
            for t in Tensor
        }

    def _factors(self, t: Tensor) -> dict[int, Int]:
        """Make t's reuse factor for each consumer: the product of its loops that are not free, level by level."""
        v, within = self.v, self.v.class_divisors[t]
        factors: dict[int, Int] = {}
        for consumer in BUFFERS:
            outside = range(consumer + 1, len(Level))
            loops = [self._own_loops(t, consumer), *(self.multiplier(t, consumer, m) for m in outside)]
            factors[consumer] = self.b.product(loops, f"X{consumer}_{t.name}", within)
        factors[MACS] = self.b.product([v.class_temporal[m][t] for m in Level], f"XM_{t.name}", within)
        return factors

    def _innermost_have_loops(self) -> None:
        """A class is innermost at a level only if it has a loop there; if no class has one, the first class is.

        The second part chooses one of equal solutions.
        """
        for m, literals in self.v.innermost.items():
            if isinstance(literals[0], bool):
                continue
            first, *rest = Tensor
            for c in rest:
                self.b.clause([literals[c].negated(), self.has_loops[m][c]])
            others = self.b.either([self.has_loops[m][c] for c in rest], f"others_{m}")
            self.b.clause([literals[first].negated(), self.has_loops[m][first], self.b.negated(others)])

    def _interleaved_loops(self) -> None:
        """Make the literals `interleaved[m][d]`. An interleaved loop is not free."""
        self.interleaved: dict[int, dict[Dim, Lit]] = {m: {} for m in self.v.innermost}
        for m, literals in self.v.innermost.items():
            for c in Tensor:
                dims = [d for d in CLASSES[c] if not is_one(self.v.temporal[m][d])]
                can_interleave = len(dims) > 1 or not is_one(self.v.temporal[m][Dim.G])
                if can_interleave and self.knows_interleaved(m) and not isinstance(literals[c], bool):
                    self._interleaved_class(m, c, dims)

    def knows_interleaved(self, level: int) -> bool:
        """Whether there are literals of which loops of a level are interleaved."""
        return not self.v.stands_for_both(level)

    def _interleaved_class(self, m: int, c: Tensor, dims: list[Dim]) -> None:
        """Loops of class c are interleaved only if c is innermost, and other classes have loops.

        At least one loop of the class is contiguous, unless a loop of groups is the innermost one.
        """
        b, interleaved = self.b, {d: self.b.boolean(f"interleaved_{m}_{d.name}") for d in dims}
        inside = {d: b.both([self.v.has_loop(m, d), interleaved[d].negated()], f"inside_{m}_{d.name}") for d in dims}
        for d, literal in interleaved.items():
            for needed in (self.v.innermost[m][c], self.v.has_loop(m, d), self.has_relevant[m, c]):
                b.clause([literal.negated(), needed])
            b.clause([literal.negated(), self.has_loops[m][GROUPS], *(x for e, x in inside.items() if e is not d)])
        self.interleaved[m] |= interleaved

    def _own_loops(self, t: Tensor, level: int) -> Int:
        """Return the product of t's irrelevant loops at the level of its tile that lie outside the tile.

        None of them is free: the loop just outside an uneven tile is relevant.
        """
        if level not in ON_CHIP:
            return 1
        outside, loops = self.v.residency.outside[level][t], self.v.temporal[level]
        name = f"own_{level}_{t.name}"
        parts = [self._unless(self.b.negated(outside[d]), loops[d], f"{name}_{d.name}") for d in CLASSES[t]]
        return self.b.product(parts, name, self.v.class_divisors[t])

    def multiplier(self, t: Tensor, consumer: int, level: int) -> Int:
        """Return the product of t's irrelevant loops at a level that are not free for a consumer inside.

        If the level's loops are products of both outer levels' (`any_split`), any divisor of them may be free.
        """
        loops = self.v.class_temporal[level][t]
        if is_one(loops):
            return 1
        is_free = self.is_free(t, consumer, level)
        name = f"x_{level}_{consumer}_{t.name}"
        if self.v.stands_for_both(level):
            return self._divisor_if(is_free, loops, name)
        if not any(self._held_outside(level, d, t) for d in CLASSES[t]):
            return self._unless(is_free, loops, name)
        parts = []
        for d in CLASSES[t]:
            held = self.b.either(self._held_outside(level, d, t), f"held_{level}_{consumer}_{d.name}")
            is_free_too = self.b.both([is_free, self.b.negated(held)], f"{name}_{d.name}_free")
            parts.append(self._unless(is_free_too, self.v.temporal[level][d], f"{name}_{d.name}"))
        return self.b.product(parts, name, self.v.class_divisors[t])

    def is_free(self, t: Tensor, consumer: int, level: int) -> Lit:
        """Return whether t's irrelevant class is innermost at a level, and no relevant loop lies between it and the
        consumer's tile.
        """
        between = [self.has_relevant[m, t] for m in range(consumer + 1, level)]
        between.append(self.v.residency.is_uneven(consumer, t))
        inside = [self.b.negated(literal) for literal in between]
        return self.b.both([self.v.innermost[level][t], *inside], f"free_{level}_{consumer}_{t.name}")

    def _held_outside(self, level: int, d: Dim, t: Tensor) -> list[Lit]:
        """Return literals of which one holds if a loop relevant to t lies inside the loop of d at a level."""
        inside = [self.v.has_loop(level, e) for e in self.v.restriction.inside(Level(level), d) if e in RELEVANT[t]]
        inside += self.v.residency.holding(level, d, t, [self.v.has_loop(level, e) for e in Dim])
        inside.append(self.interleaved[level].get(d, False))
        return [literal for literal in inside if literal is not False]

    def _divisor_if(self, is_free: Lit, loops: Int, name: str) -> Int:
        """Return a variable with any divisor of `loops` as its value if `is_free`, else equal to `loops`."""
        if is_free is False:
            return loops
        values = self.b.values(loops)
        rows = [(1, n, left) for n in values for left in divisors(n)] + [(0, n, n) for n in values]
        multiplier = self.b.integer((left for *_, left in rows), name)
        self.b.table([self.b.flag(is_free), loops, multiplier], rows)
        return multiplier

    def _unless(self, is_free: Lit, loops: Int, name: str) -> Int:
        """Return a variable that is 1 if `is_free`, else equal to `loops`."""
        if isinstance(is_free, bool) or is_one(loops):
            return 1 if is_free is True else loops
        multiplier = self.b.integer({1, *self.b.values(loops)}, name)
        self.b.imply([is_free], multiplier == 1)
        self.b.imply([is_free.negated()], multiplier == loops)
        return multiplier

    def array_step_loops(self) -> tuple[list[Int], list[Int]]:
        """Return the PE loops inside all tiles in the PEs, which make up an array step, and the others."""
        if not self.v.residency.dims:
            return self.v.class_temporal[Level.PE], []
        inside, outside = [], []
        for d in self.v.residency.dims:
            loops, is_outside = self.v.temporal[Level.PE][d], self.v.residency.outside_any(Level.PE, d)
            inside.append(self._unless(is_outside, loops, f"inside_step_{d.name}"))
            outside.append(self._unless(self.b.negated(is_outside), loops, f"outside_step_{d.name}"))
        return inside, outside

    def extents(self, level: Level, is_swept: bool) -> list[Int]:
        """Return the extents of a level's box, or of what its contiguous innermost loops sweep."""
        return self.swept(level) if is_swept else self.box(level)

    def box(self, level: Level) -> list[Int]:
        """Return the extents inside a level's loops."""
        return {Level.GLOBAL_BUFFER: self.v.eA, Level.ROW_BUFFER: self.v.e1, Level.DRAM: self.v.e2}[level]

    def swept(self, level: Level) -> list[Int]:
        """Return the extents that a level's contiguous innermost loops sweep before any other loop of it moves.

        Made once. Equal to `box` with `any_split`.
        """
        if self.v.stands_for_both(level):
            return self.box(level)
        if level not in self._swept_cache:
            around = {Level.GLOBAL_BUFFER: self.v.e1, Level.ROW_BUFFER: self.v.e2, Level.DRAM: list(self.v.bounds)}[
                level
            ]
            self._swept_cache[level] = list(self.box(level))
            for c in Tensor:
                for d in CLASSES[c]:
                    self._swept_cache[level][d] = self._sweep(level, c, d, around[d])
        return self._swept_cache[level]

    def swept_by(self, level: Level, c: Tensor) -> list[Int]:
        """Return the extents that contiguous innermost loops of one class sweep: the box's if another is innermost."""
        box, swept = self.box(level), self.swept(level)
        return [swept[d] if d in CLASSES[c] else box[d] for d in Dim]

    def _sweep(self, level: Level, c: Tensor, d: Dim, around: Int) -> Int:
        """Return the swept extent of a dim of class c: `around` if its loop is contiguous and innermost, else the
        box's.
        """
        inside, innermost = self.box(level)[d], self.v.innermost[level][c]
        if isinstance(innermost, bool) or is_one(self.v.temporal[level][d]):
            return inside
        is_interleaved = self.interleaved[level].get(d, False)
        is_swept = self.b.both([innermost, self.b.negated(is_interleaved)], f"swept_{level}_{d.name}")
        extent = self.b.integer({*self.b.values(inside), *self.b.values(around)}, f"swept_{level}_{d.name}")
        self.b.imply([is_swept], extent == around)
        self.b.imply([self.b.negated(is_swept)], extent == inside)
        return extent


def consumers_inside(level: Level, is_swept: bool) -> list[int]:
    """Return the first consumers whose scans lie inside what a level's contiguous loops sweep, or inside its box.

    The row buffer is not among them: its blocks are not placed in DRAM like boxes.
    """
    return [c for c in (MACS, Level.PE, Level.GLOBAL_BUFFER) if c < level - (not is_swept)]
