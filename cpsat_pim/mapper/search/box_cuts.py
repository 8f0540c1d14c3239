"""Make cuts of the boxes that one solution's loops cover: each pass over a box opens the rows of the box (C2, C3)."""

import math
from collections.abc import Callable

from cpsat_pim.base.dims import Dim, Level, Tensor
from cpsat_pim.mapper.bounds.stream_bounds import has_known_boxes
from cpsat_pim.mapper.model.builder import Lit
from cpsat_pim.mapper.model.master import MasterProblem
from cpsat_pim.mapper.model.reuse import consumers_inside
from cpsat_pim.mapper.model.variables import CLASSES
from cpsat_pim.mapper.search.cut_pool import BoxFamily, Cut, CutPool, Validity, consumed_outside
from cpsat_pim.mapper.search.solution import Solution
from cpsat_pim.mapper.search.validity import Validities
from tables.nest import MACS


class BoxCuts:
    """Makes the cuts of boxes of one solution, adds them to its master problem, and keeps them in the pool."""

    def __init__(self, solution: Solution, validities: Validities, cut_pool: CutPool) -> None:
        self.solution, self.validities, self.cut_pool = solution, validities, cut_pool
        self.master, self.draft, self.nest = solution.master, solution.draft, validities.nest

    def add(self, t: Tensor) -> bool:
        """Bound the rows that passes over a box open (C2, C3); return whether they were underestimated.

        Loops of inner levels run within the box of the outer ones, so each pass over such a box opens its rows. The
        same holds for the box that a level's contiguous innermost loops sweep before any other loop of the level moves.
        The bounds are those of `tables.bounds.shapes`, for all mappings with this box and the consumer inside.
        """
        if not has_known_boxes(self.master.layer, t):
            return False
        levels = [Level.GLOBAL_BUFFER, *([Level.ROW_BUFFER] if self.master.v.has_row_buffer_loops else []), Level.DRAM]
        return any([self._add_box(t, level, is_swept) for level in levels for is_swept in (False, True)])  # noqa: C419

    def _add_box(self, t: Tensor, level: Level, is_swept: bool) -> bool:
        """Bound one box; and with the first of its family, forbid all boxes that open too many rows."""
        consumer = self.nest.consumers(t)[0]
        if (
            consumer not in consumers_inside(level, is_swept)
            or self.validities.is_uneven(level - 1, t)
            or not self._bound_box(t, level, is_swept)
        ):
            return False
        family = BoxFamily(t, level, is_swept, self.solution.value(self.master.streams.scans[t].layout))
        if family not in self.cut_pool.families:
            self.cut_pool.families.add(family)
            self.cut_pool.add(family, self.master)
        return True

    def _bound_box(self, t: Tensor, level: Level, is_swept: bool) -> bool:
        """Require the box's activations, and those of repeated passes over it, in the solution's layout.

        The layout of the tile is that of all boxes round it.
        """
        layout = self.solution.value(self.master.streams.scans[t].layout)
        table, box = self.master.tables[t], [self.solution.value(x) for x in self.master.reuse.box(level)]
        if is_swept:
            box = self._swept(level, box)
        rows = (table.layout == layout) & table.is_of_boxes
        rows &= (table.extents == [box[d] for d in table.dims]).all(axis=1)
        first, more, again = (
            int(column[rows][0])
            for column in (table.box_activations, table.box_repeat_activations, table.swept_repeat_activations)
        )
        if is_swept:  # it may come again with nothing relevant in between
            more = again
        inner = int(level) - 1
        passes = self.solution.value(self.master.reuse.factors[t][inner])

        def deviations(p: MasterProblem) -> list[Lit]:
            # An uneven tile at the level within may come again before its loops have swept all of the box.
            uneven, extents = p.v.residency.is_uneven(inner, t), p.reuse.extents(level, is_swept)
            other_box = [p.b.differs(extents[d], box[d]) for d in table.dims]
            is_outside = consumed_outside(p, level, t, is_swept)
            return [*is_outside, uneven, p.b.differs(p.streams.scans[t].layout, layout), *other_box]

        is_inside = level == Level.ROW_BUFFER and not is_swept
        validity = Validity(deviations, {Dim(d): box[d] for d in table.dims} if is_inside else {})
        if first + more * (passes - 1) > self.solution.activations[t]:
            return self._require(
                validity,
                lambda p, is_valid: p.b.imply(
                    [is_valid], p.streams.activations[t] >= first + more * (p.reuse.factors[t][inner] - 1)
                ),
            )
        return not is_swept and self._add_repeated_box(t, level, first, again, validity)

    def _swept(self, level: Level, box: list[int]) -> list[int]:
        """Return the box that the solution's contiguous innermost loops of a level sweep (`Reuse.swept`)."""
        if level not in self.solution.innermost:
            return box
        loops, contiguous = self.draft.temporal[level], self.solution.innermost[level].loops
        return [n * loops[d] if d in contiguous else n for d, n in zip(Dim, box, strict=True)]

    def _add_repeated_box(self, t: Tensor, level: Level, first: int, again: int, validity: Validity) -> bool:
        """Bound a box with loops inside, or one that the MACs draw (C3): it is passed over once per irrelevant loop
        iteration outside, whether or not the box itself is fetched again.
        """
        v, consumer = self.master.v, self.nest.consumers(t)[0]
        levels_inside = range(max(consumer, int(Level.PE)) + 1, level)
        outside = range(level, len(Level))
        passes = math.prod(self.solution.value(v.class_temporal[m][t]) for m in outside)
        relevant = [c for c in range(len(CLASSES)) if c != t]
        has_loops = any(self.solution.value(v.class_temporal[m][c]) > 1 for m in levels_inside for c in relevant)
        if not (has_loops or consumer == MACS) or first + again * (passes - 1) <= self.solution.activations[t]:
            return False

        def deviations(p: MasterProblem) -> list[Lit]:
            looped = consumer == MACS or p.b.either([p.reuse.has_relevant[m, t] for m in levels_inside], "looped")
            return [p.b.negated(p.v.first_consumer(consumer, t)), p.b.negated(looped)]

        def require(p: MasterProblem, is_valid: Lit) -> None:
            passes = p.b.product([p.v.class_temporal[m][t] for m in outside], "passes", p.v.class_divisors[t])
            p.b.imply([is_valid], p.streams.activations[t] >= first + again * (passes - 1))

        return self._require(validity.without(deviations), require)

    def _require(self, validity: Validity, require: Callable[[MasterProblem, Lit], None]) -> bool:
        """Add a cut to the pool and to the master problem."""
        self.cut_pool.add(Cut(validity, require), self.master)
        return True
