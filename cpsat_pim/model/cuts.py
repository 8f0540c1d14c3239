"""What counting an answer exactly teaches its program.

A program's bounds hold for every loop order. Where an answer turns out to cost more, the cause is the order-dependent
streams: the exact least over all orders is then demanded of every mapping that has the same loops outside a tensor's
first consumer, of every mapping with the same outer loops for all tensors together, or, at last, of the very same
factors.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from cpsat_pim.cost import to_machine
from cpsat_pim.dims import ON_CHIP, Dim, Level, Tensor
from cpsat_pim.mapping import Mapping
from cpsat_pim.model.builder import Int, Lit
from cpsat_pim.model.orders import Answer, Completions, Least, Order
from cpsat_pim.model.program import Program
from cpsat_pim.model.residency import Outside
from cpsat_pim.model.variables import CLASSES, Stored
from tables.nest import MACS
from tables.shapes import divisors, swept_first


class Solution:
    """What a program answered: a draft mapping (layouts and orders open) and the figures that it was counted with.

    `values`: of all its variables.
    """

    def __init__(self, program: Program, values: Sequence[int]) -> None:
        self.program, self.values = program, values
        v = program.v
        self.innermost = {
            int(m): next(int(t) for t in Tensor if self.value(literals[t]))
            for m, literals in v.innermost.items()
            if not isinstance(literals[0], bool)
        }
        self.stored: list[Stored] = [
            next(s for s, literal in v.is_stored_set[t].items() if self.value(literal)) for t in Tensor
        ]
        self.outside: Outside = tuple(
            tuple(frozenset(d for d in Dim if self.value(row[d])) for row in level) for level in v.residency.outside
        )
        self.draft = self._draft()
        self.activations = [self.value(x) for x in program.streams.activations]

    def value(self, x: Int) -> int:
        """A variable's value."""
        return x if isinstance(x, int) else self.values[x.index]

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

    def _draft(self) -> Mapping:
        """Loops sorted by class, the innermost class last; those outside of most tiles first."""
        v, freedom = self.program.v, self.program.screen.freedom
        temporal = [[self.value(v.temporal[m][d]) for d in Dim] for m in Level]
        split = freedom.split(tuple(self.value(n) for n in v.pes), tuple(s[Level.PE] for s in self.stored))
        assert split is not None  # the program holds no others
        innermost = {m: CLASSES[t] for m, t in self.innermost.items()}
        return Mapping(
            temporal=temporal,
            spatial=[*split, [self.value(n) for n in v.lanes]],
            order=[
                sorted(
                    freedom.sorted(m, [d for d in Dim if temporal[m][d] > 1], innermost.get(m, ())),
                    key=lambda d: -sum(d in outside for outside in self.outside[m]) if m in ON_CHIP else 0,
                )
                for m in Level
            ],
            stored=[[self.stored[t][m] for t in Tensor] for m in range(3)],
        )


Unless = Callable[[Program], list[Lit]]


class Family(NamedTuple):
    """All boxes inside a level in which a tensor opens more rows than an answer below the program's target can.

    `innermost`: the class whose innermost loop sweeps them; None for the boxes themselves.
    """

    t: Tensor
    level: Level
    innermost: int | None
    layout: int
    unless: Unless

    def teach(self, program: Program) -> None:
        """Forbid them in a program."""
        table, b = program.tables[self.t], program.b
        inside, outside = _boxes(program, self.level)
        others = [*self.unless(program), b.differs(program.streams.layout[self.t], self.layout)]
        for row, escapes in self._forbidden(program, outside):
            b.clause([*others, *escapes, *(b.differs(inside[d], e) for d, e in zip(table.dims, row, strict=True))])

    def _forbidden(self, program: Program, outside: list[Int]) -> Iterator[tuple[list[int], list[Lit]]]:
        """Extents inside the level, and literals of which one holds where an innermost loop opens fewer rows."""
        table, most = program.tables[self.t], program.streams.most_activations[self.t]
        if self.innermost is None:
            rows = (table.layout == self.layout) & (table.is_strided == 0) & (table.boxed > most)
            yield from ((row.tolist(), []) for row in table.extents[rows])
            return
        bounds = program.layer.bounds
        moving = [d for d in CLASSES[self.innermost] if bounds[d] > 1]
        swept = [swept_first(program.v.shape, table, self.layout, d) for d in moving]
        for i, row in enumerate(swept[0][0]):
            reached = [found[i] for _, found in swept]
            if any((values > most).any() for values in reached):
                cheap = [
                    [n for n, value in zip(divisors(bounds[d]), values, strict=True) if 0 <= value <= most]
                    for d, values in zip(moving, reached, strict=True)
                ]
                yield row.tolist(), [program.b.within(outside[d], c) for d, c in zip(moving, cheap, strict=True)]


class Lesson(NamedTuple):
    """A constraint that holds in every program of a layer: what is demanded unless one of some literals holds."""

    unless: Callable[[Program], Iterable[Lit]]
    demand: Callable[[Program, Lit], None]

    def teach(self, program: Program) -> None:
        """Add it to a program."""
        b = program.b
        others = list(self.unless(program))
        if any(x is True for x in others):
            return
        known = b.boolean("learnt")
        b.clause([*others, known])
        self.demand(program, known)


class Lessons:
    """What later programs of the layer have to know, too; learning ends when `is_over` says so."""

    def __init__(self, is_over: Callable[[], bool]) -> None:
        self.is_over = is_over
        self.learnt: list[Lesson | Family] = []
        #: (tensor, level, innermost class, layout) of which all boxes are known that open too many rows.
        self.families: set[tuple[Tensor, Level, int | None, int]] = set()

    def teach(self, program: Program) -> None:
        """Add all of it to a program."""
        for lesson in self.learnt:
            lesson.teach(program)


class Cuts:
    """Corrects a program for one answer of it, and remembers what it did."""

    def __init__(self, solution: Solution, completions: Completions, lessons: Lessons) -> None:
        self.solution, self.completions, self.lessons = solution, completions, lessons
        self.program, self.draft, self.nest = solution.program, solution.draft, completions.nest

    def add(self) -> Answer | None:
        """Cut the answer off or count it right; the best over all its orders if there is one and they had to be
        counted one by one.

        Raises:
            TooManyOrders: its best order is not known for certain; nothing was added.
            OutOfTime: the time was up before all orders were counted.
        """
        if self.add_streams() or self._joint_activations():
            return None
        return self.whole_cost()

    def add_streams(self) -> bool:
        """Count the streams right; whether any of them was counted too low."""
        rules = (self._box_costs, self._stream_costs, self._late_tiles)
        return any([rule(t) for rule in rules for t in Tensor])  # noqa: C419 - all of them: each cut saves a solve

    def _learn(self, unless: Callable[[Program], Iterable[Lit]], demand: Callable[[Program, Lit], None]) -> bool:
        """Teach the program and keep the lesson."""
        self.lessons.learnt.append(Lesson(unless, demand))
        self.lessons.learnt[-1].teach(self.program)
        return True

    def _box_costs(self, t: Tensor) -> bool:
        """Loops of inner levels run within the boxes of outer ones: each pass over such a box opens its rows.

        The same holds for what a level's innermost loop sweeps before any other loop of the level moves. The bounds
        are those of `tables.shapes` (module docstring), for all mappings with these boxes and consumers inside them.
        """
        layer = self.program.layer
        if t is Tensor.I and max(*layer.stride, *layer.dilation) > 1:
            return False
        raised = [self._level_boxes(t, level) for level in (Level.GLOBAL_BUFFER, Level.ROW_BUFFER, Level.DRAM)]
        return any(raised)

    def _level_boxes(self, t: Tensor, level: Level) -> bool:
        """The box inside a level's loops, and the boxes that its innermost loop can sweep."""
        v, consumer = self.program.v, self.nest.consumers(t)[0]
        if consumer >= level or (level is Level.ROW_BUFFER and not v.row_buffer) or self._is_uneven(level - 1, t):
            return False
        inside, outside = ([self.solution.value(x) for x in box] for box in _boxes(self.program, level))
        inner, c = Level(level - 1), self.solution.innermost.get(level)
        raised = consumer < inner and self._costly(t, level, None, inside, [inside], _runs_outside(level, t, None))
        if c is None or c == t or self.program.layer.bounds[Dim.G] > 1:  # groups belong to no class
            return raised
        if not any(self.draft.temporal[level][d] > 1 for d in CLASSES[c]):
            return raised
        unless = _runs_outside(level, t, c)

        def unless_swept(p: Program) -> list[Lit]:
            return [*unless(p), *(p.b.differs(_boxes(p, level)[1][d], outside[d]) for d in CLASSES[c])]

        bounds = self.program.layer.bounds
        larger = {d: [x for x in divisors(bounds[d]) if x > inside[d] and x % inside[d] == 0] for d in CLASSES[c]}
        anywhere = [_moved(inside, d, x) for d in CLASSES[c] for x in larger[d]]
        here = [_moved(inside, d, outside[d]) for d in CLASSES[c] if outside[d] > inside[d]]
        if self._costly(t, level, c, inside, anywhere, unless):
            return True
        return self._costly(t, level, c, inside, here, unless_swept, unless) or raised

    def _costly(
        self,
        t: Tensor,
        level: Level,
        c: int | None,
        inside: list[int],
        boxes: list[list[int]],
        unless: Unless,
        family_unless: Unless | None = None,
    ) -> bool:
        """One box; and with the first of its kind at once all those that open more rows than an answer can."""
        family = (t, level, c, self.solution.value(self.program.streams.layout[t]))
        if not self._box(t, level, inside, boxes, unless):
            return False
        if family not in self.lessons.families:
            self.lessons.families.add(family)
            self.lessons.learnt.append(Family(*family, family_unless or unless))
            self.lessons.learnt[-1].teach(self.program)
        return True

    def _box(self, t: Tensor, level: Level, inside: list[int], boxes: list[list[int]], unless: Unless) -> bool:
        """Demand the least activations of any of the boxes round the one inside a level, and repeated passes over it.

        In the answer's layout: the layouts of the tile and of the boxes round it are one.
        """
        layout = self.solution.value(self.program.streams.layout[t])
        table = self.program.tables[t]
        fits = (table.layout == layout) & (table.is_strided == 0)
        found = [fits & (table.extents == [box[d] for d in table.dims]).all(axis=1) for box in boxes]
        first, more, again = (
            min(int(column[rows][0]) for rows in found) for column in (table.boxed, table.boxed_more, table.again)
        )
        inner = int(level) - 1
        passes = self.solution.value(self.program.v.reuse[t][inner])

        def others(p: Program) -> list[Lit]:
            # An uneven tile at the level within may come again before its loops have swept all of the box.
            uneven = p.v.residency.is_uneven(inner, t)
            return [*unless(p), uneven, p.b.differs(p.streams.layout[t], layout), *_other_box(p, level, t, inside)]

        if first + more * (passes - 1) > self.solution.activations[t]:
            return self._learn(
                others,
                lambda p, known: p.b.imply(
                    [known], p.streams.activations[t] >= first + more * (p.v.reuse[t][inner] - 1)
                ),
            )
        return self._repeated_box(t, level, first, again, others)

    def _repeated_box(self, t: Tensor, level: Level, first: int, again: int, others: Unless) -> bool:
        """A box with loops inside is gone over once per irrelevant loop outside, free for the box itself or not."""
        v, consumer = self.program.v, self.nest.consumers(t)[0]
        inside = range(max(consumer, int(Level.PE)) + 1, level)
        outside = range(level, len(Level))
        passes = math.prod(self.solution.value(v.class_temporal[m][t]) for m in outside)
        has_loops = any(self.solution.value(v.class_temporal[m][c]) > 1 for m in inside for c in range(4) if c != t)
        if not has_loops or first + again * (passes - 1) <= self.solution.activations[t]:
            return False

        def unless(p: Program) -> list[Lit]:
            looped = p.b.either([p.v.has_relevant[m, t] for m in inside], "looped")
            return [*others(p), p.b.negated(p.v.first_consumer(consumer, t)), p.b.negated(looped)]

        def demand(p: Program, known: Lit) -> None:
            passes = p.b.product([p.v.class_temporal[m][t] for m in outside], "passes", p.v.class_divisors[t])
            p.b.imply([known], p.streams.activations[t] >= first + again * (passes - 1))

        return self._learn(unless, demand)

    def _stream_costs(self, t: Tensor) -> bool:
        """One tensor's stream, for all mappings with the same loops outside its first consumer."""
        outside = self.completions.levels_outside(t)
        orders = self.completions.orders(outside, self.solution.innermost)
        if orders is None:
            return False
        counted, least = self.solution.least(t), self.completions.least(t, self._in_time(orders))
        if all(known >= true for known, true in zip(counted[:3], least[:3], strict=True)):
            return False

        def demand(p: Program, known: Lit) -> None:
            p.b.imply([known], p.streams.activations[t] >= least.activations)
            if p.latency is not None:
                p.b.imply([known], p.streams.cycles[t] >= least.cycles)
                p.b.imply([known], p.streams.end_cycles[t] >= least.edge_cycles)

        return self._learn(self._other_loops(outside, [t]), demand)

    def _late_tiles(self, t: Tensor) -> bool:
        """How late one tensor's tiles are, also for the same pace of the array."""
        latency, seen = self.program.latency, self.completions.levels_seen(t)
        orders = self.completions.orders(seen, self.solution.innermost)
        if latency is None or orders is None:
            return False
        counted, least = self.solution.least(t), self.completions.least(t, self._in_time(orders))
        # Of the orders, those count under which the array itself takes least; it can take longer under others.
        compute = min(self.completions.tempo(order).array_cycles for order in orders)
        shared_out = self.completions.least_paced(t, orders)
        stored, slower = self.solution.stored[t], self.solution.value(latency.array) - compute
        if slower > 0 and counted.late_cycles + slower + compute >= least.late_cycles + shared_out:
            return False
        if slower < 0 or (slower == 0 and all(a >= b for a, b in zip(counted[3:], least[3:], strict=True))):
            return False
        other_loops = self._other_loops(seen, [t])

        def unless(p: Program) -> list[Lit]:
            return [*other_loops(p), p.v.is_not_stored_at(t, stored)]

        def demand(p: Program, known: Lit) -> None:
            # A slower array hides at most the cycles that it takes longer itself, and what its pace rounds down on all
            # tiles together; a faster one hides less.
            assert p.latency is not None
            b, array, late = p.b, p.latency.array, p.latency.late[t]
            slower = b.boolean("slower")
            b.imply([slower], array >= compute + 1)
            b.imply([known, b.negated(slower)], late >= least.late_cycles)
            b.imply([known, slower], late + array >= least.late_cycles + shared_out)
            paced = b.boolean("paced")
            b.clause([b.negated(known), b.differs(array, compute), paced])
            b.imply([paced], p.latency.single[t] >= least.single_cycles)

        return self._learn(unless, demand)

    def _joint_activations(self) -> bool:
        """All tensors' activations together, for all mappings with the same loops outside their first consumers."""
        if not self.completions.sees_energy or not to_machine(self.program.arch).activation_fj:
            return False
        outside = max((self.completions.levels_outside(t) for t in Tensor), key=len)
        orders = self.completions.orders(outside, self.solution.innermost)
        if orders is None:
            return False
        least = self.completions.least_activations(self._in_time(orders))
        if least <= sum(self.solution.activations):
            return False
        return self._learn(
            self._other_loops(outside, list(Tensor)),
            lambda p, known: p.b.imply([known], sum(p.streams.activations) >= least),
        )

    def whole_cost(self) -> Answer | None:
        """The whole objective, for all mappings with these factors, stored sets and innermost classes; if none of them
        is allowed, they are barred.

        Raises:
            TooManyOrders, OutOfTime: see `add`.
        """
        orders = self.completions.orders(list(Level), self.solution.innermost)
        if orders is None:
            raise TooManyOrders
        answer = self.completions.best(self._in_time(orders))
        if answer is None:
            self.bar()
            return None
        self._learn(self._other_factors(), lambda p, known: p.b.imply([known], p.cost >= answer.value))
        return answer

    def bar(self) -> None:
        """Forbid the answer's factors with these stored sets and innermost classes."""
        self._learn(self._other_factors(), lambda p, known: p.b.clause([p.b.negated(known)]))

    def _in_time(self, orders: Iterable[Order]) -> Iterator[Order]:
        """All orders, or an end to it: less than all of them prove nothing."""
        for order in orders:
            if self.lessons.is_over():
                raise OutOfTime
            yield order

    def _other_factors(self) -> Callable[[Program], list[Lit]]:
        """Literals of which one holds for any other factors, stored sets or innermost classes."""
        loops, pes = self._other_loops(list(Level), []), self._other_pes()
        stored = self.solution.stored

        def others(p: Program) -> list[Lit]:
            return [*loops(p), *pes(p), *(p.v.is_not_stored_at(t, stored[t]) for t in Tensor)]

        return others

    def _other_pes(self) -> Callable[[Program], list[Lit]]:
        pes = [self.solution.value(x) for x in self.program.v.pes]
        return lambda p: [p.b.differs(x, n) for x, n in zip(p.v.pes, pes, strict=True)]

    def _other_loops(self, levels: Sequence[Level], tensors: Sequence[Tensor]) -> Callable[[Program], list[Lit]]:
        """Literals of which one holds where the tensors' streams may be others than the answer's."""
        temporal, pes = self.draft.temporal, self._other_pes()
        innermost = {m: c for m, c in self.solution.innermost.items() if self._matters(m, levels)}
        consumers = {t: self.nest.consumers(t)[0] for t in tensors}
        # Of step sets, and of I's array tiles, it matters how PEs are spread.
        spread = any(c == MACS or (c == Level.PE and t is Tensor.I) for t, c in consumers.items())
        tiles = {(m, t) for m in ON_CHIP for t in Tensor if m in levels or consumers.get(t) == m}

        def others(p: Program) -> list[Lit]:
            found = [p.b.differs(p.v.temporal[m][d], temporal[m][d]) for m in levels for d in Dim]
            found += [literal for m, t in sorted(tiles) for literal in self._other_tile(p, m, t)]
            found += [p.b.negated(p.v.innermost[m][c]) for m, c in innermost.items()]
            found += [p.b.negated(p.v.first_consumer(c, t)) for t, c in consumers.items()]
            return [*found, *(pes(p) if spread else ())]

        return others

    def _other_tile(self, p: Program, level: Level, t: Tensor) -> Iterator[Lit]:
        """Literals of which one holds where other loops of a level lie outside t's tile."""
        outside, literals = self.solution.outside[level][t], p.v.residency.outside[level][t]
        return (p.b.negated(literals[d]) if d in outside else literals[d] for d in Dim)

    def _is_uneven(self, level: int, t: Tensor) -> bool:
        """Whether the answer's tile leaves loops of its level out."""
        return level in ON_CHIP and bool(self.solution.outside[level][t])

    def _matters(self, m: int, levels: Sequence[int]) -> bool:
        """Whether the class that is innermost at a level tells orders apart: two classes have loops there."""
        return m in levels and sum(any(d in dims for d in self.draft.order[m]) for dims in CLASSES) > 1


def _moved(box: list[int], d: int, extent: int) -> list[int]:
    """The box with another extent along a dim."""
    return [extent if other == d else x for other, x in enumerate(box)]


def _boxes(p: Program, level: Level) -> tuple[list[Int], list[Int]]:
    """Extents inside a level's loops and with them."""
    v = p.v
    inside = {Level.GLOBAL_BUFFER: v.eA, Level.ROW_BUFFER: v.e1, Level.DRAM: v.e2}[level]
    return inside, {Level.GLOBAL_BUFFER: v.e1, Level.ROW_BUFFER: v.e2, Level.DRAM: list(v.bounds)}[level]


def _other_box(p: Program, level: Level, t: Tensor, inside: list[int]) -> list[Lit]:
    """Literals of which one holds where t's box inside a level's loops is another."""
    box = _boxes(p, level)[0]
    return [p.b.differs(box[d], inside[d]) for d in p.tables[t].dims]


def _runs_outside(level: Level, t: Tensor, c: int | None) -> Unless:
    """Literals of which one holds unless t's scans lie inside a level's loops, of which class c has the innermost one.

    Without a class: unless they lie inside the level within.
    """

    def others(p: Program) -> list[Lit]:
        if c is None:
            return [_taken_outside(p, Level(level - 1), t)]
        is_other = [p.b.negated(p.v.innermost[level][c]), p.b.negated(p.v.has_loops[level][c])]
        return [*is_other, _taken_outside(p, level, t)]

    return others


def _taken_outside(p: Program, level: Level, t: Tensor) -> Lit:
    """Whether t's first consumer is a level or lies outside it."""
    inner = [c for c in (MACS, *Level) if c < level]
    return p.b.negated(p.b.either([p.v.first_consumer(c, t) for c in inner], f"taken_inside_{level}_{t}"))


class TooManyOrders(Exception):
    """The orders of an answer are too many to count."""


class OutOfTime(Exception):
    """The time was up."""
