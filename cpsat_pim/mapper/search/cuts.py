"""What counting an answer exactly teaches its program.

A program's bounds hold for every loop order. Where an answer turns out to cost more, the cause is the order-dependent
streams: the exact least over all orders is then demanded of every mapping that has the same loops outside a tensor's
first consumer, of every mapping with the same outer loops for all tensors together, or, at last, of the very same
factors.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence

from cpsat_pim.base.dims import Dim, Level, Tensor
from cpsat_pim.evaluate.cost import to_machine
from cpsat_pim.mapper.bounds.stream_bounds import has_known_boxes
from cpsat_pim.mapper.model.builder import Lit
from cpsat_pim.mapper.model.master import MasterProblem
from cpsat_pim.mapper.model.reuse import consumers_inside
from cpsat_pim.mapper.model.variables import CLASSES
from cpsat_pim.mapper.search.completion import Completion, Completions, Order
from cpsat_pim.mapper.search.cut_pool import Cut, CutPool, Family, Passes, Validity, taken_outside
from cpsat_pim.mapper.search.solution import Solution
from cpsat_pim.mapper.search.validity import Validities
from cpsat_pim.mapper.search.window_cut import WindowRows
from tables.bounds.passes import min_activations, min_cycles
from tables.bounds.shapes import can_be_strided
from tables.counts.accesses import fetches
from tables.dram import Dram
from tables.nest import MACS, LayerShape

#: Scans of a stream that is counted soon.
_FEW_SCANS = 100_000


class CutGenerator:
    """Corrects a program for one answer of it, and remembers what it did."""

    def __init__(self, solution: Solution, completions: Completions, cut_pool: CutPool) -> None:
        self.solution, self.completions, self.cut_pool = solution, completions, cut_pool
        self.master, self.draft, self.nest = solution.master, solution.draft, completions.nest
        self.scopes = Validities(solution, completions)

    def add(self) -> Completion | None:
        """Cut the answer off or count it right; the best over all its orders if there is one and they had to be
        counted one by one.

        Raises:
            TooManyOrders: its best order is not known for certain; nothing was added.
            OutOfTime: the time was up before all orders were counted.
        """
        if self.add_streams(list(Tensor)) or self._joint_activations():
            return None
        return self.whole_cost()

    def add_cheap_streams(self) -> None:
        """Count right what is counted soon."""
        self.add_streams([t for t in Tensor if self._is_counted_soon(t)])

    def _is_counted_soon(self, t: Tensor) -> bool:
        """In all layouts and blocks together no scans by the hundred thousand."""
        consumer = self.nest.consumers(t)[0]
        scans = self.nest.steps() if consumer == MACS else fetches(self.nest, t, consumer)
        return scans * len(self.completions.choices(t)) <= _FEW_SCANS

    def add_streams(self, tensors: Sequence[Tensor]) -> bool:
        """Count streams right; whether any of them was counted too low."""
        rules = (self._window_rows, self._box_costs, self._passes_rows, self._pass_cycles, self._stream_costs)
        return any([rule(t) for rule in (*rules, self._late_tiles) for t in tensors])  # noqa: C419 - each cut saves a solve

    def _learn(self, scope: Validity, demand: Callable[[MasterProblem, Lit], None]) -> bool:
        """Teach the program and keep the lesson."""
        self.cut_pool.add(Cut(scope, demand), self.master)
        return True

    def _window_rows(self, t: Tensor) -> bool:
        """Windows over a row-aligned input: all of them at once, when the first ones are met."""
        if t is not Tensor.I or self.nest.consumers(t)[0] != Level.ROW_BUFFER or self.cut_pool.knows_windows:
            return False
        self.cut_pool.knows_windows = True
        lesson = WindowRows.of(self.master.layer, self.master.arch)
        self.cut_pool.add(lesson, self.master)
        fetched = self.solution.value(self.master.streams.passes[t])
        return lesson.least(self.draft.extents(Level.ROW_BUFFER)) * fetched > self.solution.activations[t]

    def _box_costs(self, t: Tensor) -> bool:
        """Loops of inner levels run within the boxes of outer ones: each pass over such a box opens its rows.

        The same holds for what a level's gathered innermost loops sweep before any other loop of the level moves. The
        bounds are those of `tables.bounds.shapes` (module docstring), for all mappings with these boxes and consumers inside.
        """
        if not has_known_boxes(self.master.layer, t):
            return False
        levels = [Level.GLOBAL_BUFFER, *([Level.ROW_BUFFER] if self.master.v.row_buffer else []), Level.DRAM]
        return any([self._box_cost(t, level, is_swept) for level in levels for is_swept in (False, True)])  # noqa: C419

    def _box_cost(self, t: Tensor, level: Level, is_swept: bool) -> bool:
        """One box; and with the first of its kind at once all those that open more rows than an answer can."""
        consumer = self.nest.consumers(t)[0]
        if (
            consumer not in consumers_inside(level, is_swept)
            or self.scopes.is_uneven(level - 1, t)
            or not self._box(t, level, is_swept)
        ):
            return False
        family = Family(t, level, is_swept, self.solution.value(self.master.streams.scans[t].layout))
        if family not in self.cut_pool.families:
            self.cut_pool.families.add(family)
            self.cut_pool.add(family, self.master)
        return True

    def _box(self, t: Tensor, level: Level, is_swept: bool) -> bool:
        """Demand the box's activations, and those of repeated passes over it.

        In the answer's layout: the layouts of the tile and of the boxes round it are one.
        """
        layout = self.solution.value(self.master.streams.scans[t].layout)
        table, box = self.master.tables[t], [self.solution.value(x) for x in self.master.reuse.box(level)]
        if is_swept:
            box = self._swept(level, box)
        rows = (table.layout == layout) & (table.is_strided == 0)
        rows &= (table.extents == [box[d] for d in table.dims]).all(axis=1)
        first, more, again = (
            int(column[rows][0])
            for column in (table.box_activations, table.box_repeat_activations, table.swept_repeat_activations)
        )
        if is_swept:  # it may come again with nothing relevant in between
            more = again
        inner = int(level) - 1
        passes = self.solution.value(self.master.reuse.factors[t][inner])

        def others(p: MasterProblem) -> list[Lit]:
            # An uneven tile at the level within may come again before its loops have swept all of the box.
            uneven, extents = p.v.residency.is_uneven(inner, t), p.reuse.extents(level, is_swept)
            other_box = [p.b.differs(extents[d], box[d]) for d in table.dims]
            is_outside = taken_outside(p, level, t, is_swept)
            return [*is_outside, uneven, p.b.differs(p.streams.scans[t].layout, layout), *other_box]

        is_inside = level == Level.ROW_BUFFER and not is_swept
        scope = Validity(others, {Dim(d): box[d] for d in table.dims} if is_inside else {})
        if first + more * (passes - 1) > self.solution.activations[t]:
            return self._learn(
                scope,
                lambda p, known: p.b.imply(
                    [known], p.streams.activations[t] >= first + more * (p.reuse.factors[t][inner] - 1)
                ),
            )
        return not is_swept and self._repeated_box(t, level, first, again, scope)

    def _swept(self, level: Level, box: list[int]) -> list[int]:
        """What the answer's gathered innermost loops make of a box (`Reuse.swept`)."""
        if level not in self.solution.inner:
            return box
        loops, contiguous = self.draft.temporal[level], self.solution.inner[level].loops
        return [n * loops[d] if d in contiguous else n for d, n in zip(Dim, box, strict=True)]

    def _repeated_box(self, t: Tensor, level: Level, first: int, again: int, scope: Validity) -> bool:
        """A box with loops inside is gone over once per irrelevant loop outside, free for the box itself or not."""
        v, consumer = self.master.v, self.nest.consumers(t)[0]
        levels_inside = range(max(consumer, int(Level.PE)) + 1, level)
        outside = range(level, len(Level))
        passes = math.prod(self.solution.value(v.class_temporal[m][t]) for m in outside)
        relevant = [c for c in range(len(CLASSES)) if c != t]
        has_loops = any(self.solution.value(v.class_temporal[m][c]) > 1 for m in levels_inside for c in relevant)
        if not has_loops or first + again * (passes - 1) <= self.solution.activations[t]:
            return False

        def others(p: MasterProblem) -> list[Lit]:
            looped = p.b.either([p.reuse.has_relevant[m, t] for m in levels_inside], "looped")
            return [p.b.negated(p.v.first_consumer(consumer, t)), p.b.negated(looped)]

        def demand(p: MasterProblem, known: Lit) -> None:
            passes = p.b.product([p.v.class_temporal[m][t] for m in outside], "passes", p.v.class_divisors[t])
            p.b.imply([known], p.streams.activations[t] >= first + again * (passes - 1))

        return self._learn(scope.but(others), demand)

    def _passes_rows(self, t: Tensor) -> bool:
        """The best order of all loops outside a tile, however they are split, for all mappings that fetch this tile as
        often (`tables.bounds.passes`).
        """
        passes = self._passes(t)
        if passes is None or passes in self.cut_pool.rows_known:
            return False
        self.cut_pool.rows_known.add(passes)
        least = min_activations(*self._stored(t), passes.tile, passes.number) or 0
        if least <= self.solution.activations[t]:
            return False
        return self._learn(passes.scope, lambda p, known: p.b.imply([known], p.streams.activations[t] >= least))

    def _pass_cycles(self, t: Tensor) -> bool:
        """The same of cycles, where each tile is fetched once."""
        passes = self._passes(t)
        if passes is None or passes.number > 1 or passes in self.cut_pool.cycles_known or not self._is_slower(t):
            return False
        self.cut_pool.cycles_known.add(passes)
        room, is_over = self.completions.rooms[t], self.cut_pool.is_over
        least = min_cycles(*self._stored(t), passes.tile, room, is_over) or 0
        if least <= self.solution.least(t).cycles:
            return False
        return self._learn(passes.scope, lambda p, known: p.b.imply([known], p.streams.cycles[t] >= least))

    def _passes(self, t: Tensor) -> Passes | None:
        """The answer's passes over t's tiles, if orders of them can be gone through."""
        streams, value = self.master.streams, self.solution.value
        scans = streams.scans[t]
        is_regular = value(scans.is_box) and not can_be_strided(self.master.v.shape, t)
        if not streams.dram.is_open or not is_regular or self.nest.consumers(t)[0] == MACS:
            return None
        extents = {d: value(x) for d, x in scans.extents.items()}
        return Passes(t, tuple(extents.get(d, 1) for d in Dim), value(streams.passes[t]))

    def _stored(self, t: Tensor) -> tuple[LayerShape, Tensor, int, Dram, list[int]]:
        """How t lies in DRAM, as `tables.bounds.passes` takes it."""
        master = self.master
        layouts = master.spatial_bounds.restriction.layouts(t)
        return master.v.shape, t, master.layer.width_bytes[t], master.streams.dram, layouts

    def _is_slower(self, t: Tensor) -> bool:
        """Whether t's stream takes longer in the drafted order than was counted."""
        drafted = self.completions.least(t, [self.draft.order])
        return self.master.latency is not None and drafted.cycles > self.solution.least(t).cycles

    def _stream_costs(self, t: Tensor) -> bool:
        """One tensor's stream, for all mappings with the same loops outside its first consumer."""
        outside = self.completions.levels_outside(t)
        return any([self._stream(t, outside, *orders) for orders in self._orders(outside)])  # noqa: C419 - all of them

    def _orders(self, levels: list[Level]) -> Iterator[tuple[bool, list[Order]]]:
        """All orders of some levels with the same classes innermost, and those that gather the same loops of them."""
        orders, contiguous = self.completions.orders(levels), self.completions.orders(levels, is_contiguous=True)
        if orders is not None:
            yield False, orders
        if contiguous is not None and contiguous != orders:
            yield True, contiguous

    def _stream(self, t: Tensor, outside: list[Level], is_contiguous: bool, orders: list[Order]) -> bool:
        """One tensor's stream in these orders."""
        counted, least = self.solution.least(t), self.completions.least(t, self._in_time(orders))
        if all(known >= true for known, true in zip(counted[:3], least[:3], strict=True)):
            return False

        def demand(p: MasterProblem, known: Lit) -> None:
            p.b.imply([known], p.streams.activations[t] >= least.activations)
            if p.latency is not None:
                p.b.imply([known], p.streams.cycles[t] >= least.cycles)
                p.b.imply([known], p.streams.end_cycles[t] >= least.edge_cycles)

        return self._learn(self.scopes.same_stream(t, outside, is_contiguous), demand)

    def _late_tiles(self, t: Tensor) -> bool:
        """How late one tensor's tiles are, also for the same pace of the array."""
        if self.master.latency is None:
            return False
        seen = self.completions.levels_seen(t)
        return any([self._lateness(t, seen, *orders) for orders in self._orders(seen)])  # noqa: C419 - all of them

    def _lateness(self, t: Tensor, seen: list[Level], is_contiguous: bool, orders: list[Order]) -> bool:
        """One tensor's late tiles in these orders."""
        counted, least = self.solution.least(t), self.completions.least(t, self._in_time(orders))
        # Of the orders, those count under which the array itself takes least; it can take longer under others.
        compute = min(self.completions.tempo(order).array_cycles for order in orders)
        shared_out = self.completions.least_paced(t, orders)
        assert self.master.latency is not None
        stored, longer = self.solution.stored[t], self.solution.value(self.master.latency.array) - compute
        if longer > 0 and counted.stall_cycles + longer + compute >= least.stall_cycles + shared_out:
            return False
        if longer < 0 or (longer == 0 and all(a >= b for a, b in zip(counted[3:], least[3:], strict=True))):
            return False
        scope = self.scopes.same_stream(t, seen, is_contiguous).but(lambda p: [p.v.is_not_stored_at(t, stored)])

        def demand(p: MasterProblem, known: Lit) -> None:
            # A slower array hides at most the cycles that it takes longer itself, and what its pace rounds down on all
            # tiles together; a faster one hides less.
            assert p.latency is not None
            b, array, late = p.b, p.latency.array, p.latency.late[t]
            slower = b.boolean("slower")
            b.imply([slower], array >= compute + 1)
            b.imply([known, b.negated(slower)], late >= least.stall_cycles)
            b.imply([known, slower], late + array >= least.stall_cycles + shared_out)
            paced = b.boolean("paced")
            b.clause([b.negated(known), b.differs(array, compute), paced])
            b.imply([paced], p.latency.single[t] >= least.single_cycles)

        return self._learn(scope, demand)

    def _joint_activations(self) -> bool:
        """All tensors' activations together, for all mappings with the same loops outside their first consumers."""
        if not self.completions.sees_energy or not to_machine(self.master.arch).activation_fj:
            return False
        outside = max((self.completions.levels_outside(t) for t in Tensor), key=len)
        return any([self._joint(outside, *orders) for orders in self._orders(outside)])  # noqa: C419 - all of them

    def _joint(self, outside: list[Level], is_contiguous: bool, orders: list[Order]) -> bool:
        """All tensors' activations in these orders."""
        least = self.completions.least_activations(self._in_time(orders))
        if least is None or least <= sum(self.solution.activations):
            return False
        return self._learn(
            self.scopes.same_loops(outside, list(Tensor), is_contiguous),
            lambda p, known: p.b.imply([known], sum(p.streams.activations) >= least),
        )

    def whole_cost(self) -> Completion | None:
        """The whole objective, for all mappings with these factors, stored sets and innermost classes; if none of them
        is allowed, they are barred.

        Raises:
            TooManyOrders, OutOfTime: see `add`.
        """
        orders = self._orders(self.completions.levels_ordered)
        found = [(is_contiguous, self.completions.best(self._in_time(of))) for is_contiguous, of in orders]
        if not found or found[0][0]:
            raise TooManyOrders
        for is_contiguous, answer in found:
            if answer is None:  # nothing as good as what is known
                self.bar(is_contiguous=is_contiguous)
            else:
                self._learn(self.scopes.same_factors(is_contiguous), _costs_at_least(answer.value))
        return found[0][1]

    def bar(self, *, is_contiguous: bool = False) -> None:
        """Forbid the answer's factors with these stored sets and innermost classes, and with these loops gathered."""
        self._learn(self.scopes.same_factors(is_contiguous), lambda p, known: p.b.clause([p.b.negated(known)]))

    def _in_time(self, orders: Iterable[Order]) -> Iterator[Order]:
        """All orders, or an end to it: less than all of them prove nothing."""
        for order in orders:
            if self.cut_pool.is_over():
                raise OutOfTime
            yield order


def _costs_at_least(value: int) -> Callable[[MasterProblem, Lit], None]:
    """Demand of a program's objective."""
    return lambda p, known: p.b.imply([known], p.cost >= value)


class TooManyOrders(Exception):
    """The orders of an answer are too many to count."""


class OutOfTime(Exception):
    """The time was up."""
