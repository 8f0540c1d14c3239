"""Activations of boxes around scans: whatever runs inside a box opens the rows of the box (docs/solver.md, B6, B20)."""

from typing import NamedTuple

import numpy as np

from cpsat_pim.base.dims import Dim, Level, Tensor
from cpsat_pim.mapper.bounds.stream_bounds import has_known_boxes
from cpsat_pim.mapper.model.builder import Int, Lit, is_zero
from cpsat_pim.mapper.model.reuse import Reuse, consumers_inside
from cpsat_pim.mapper.model.scans import Scans
from cpsat_pim.mapper.model.variables import Variables
from cpsat_pim.mapper.space.parameters import SearchParameters
from tables.bounds.shapes import ShapeTable
from tables.nest import MACS, Ints


class BoxedStream(NamedTuple):
    """The stream of a tensor whose boxes are in a table: `rows` of extents along `dims`, layout, and activations of a
    first pass, of each further one, and of each further one with relevant loops in between.
    """

    t: Tensor
    dims: tuple[int, ...]
    rows: Ints
    scans: Scans
    activations: Int


class EnclosingBoxes:
    """Constraints on the activations of tensors with few boxes; for others, cuts add those of the boxes that occur."""

    def __init__(self, v: Variables, reuse: Reuse, parameters: SearchParameters) -> None:
        self.v, self.b, self.reuse, self.parameters = v, v.b, reuse, parameters

    def open_rows(self, t: Tensor, table: ShapeTable, scans: Scans, activations: Int, max_activations: int) -> None:
        """Constrain t's activations by the boxes of all levels and by what their contiguous loops sweep."""
        if not table.dims or not has_known_boxes(self.v.layer, t):
            return
        opened = (table.box_activations, table.swept_repeat_activations, table.box_repeat_activations)
        rows = np.column_stack([table.extents, table.layout, *opened])
        rows = rows[(table.box_activations <= max_activations) & table.is_of_boxes]
        is_single = self.v.restriction.dram(t).banks == 1
        if not 0 < len(rows) <= (self.parameters.box_rows if is_single else self.parameters.box_rows_in_banks):
            return
        stream = BoxedStream(t, table.dims, rows, scans, activations)
        for level in (Level.GLOBAL_BUFFER, *([Level.ROW_BUFFER] if self.v.has_row_buffer_loops else []), Level.DRAM):
            for is_swept in (False, True):
                self._pass_opens_rows(stream, level, is_swept)

    def _pass_opens_rows(self, stream: BoxedStream, level: Level, is_swept: bool) -> None:
        """A pass over a box inside a level's loops opens its rows: the loops of inner levels run within the box."""
        b, v, t, box = self.b, self.v, stream.t, self.reuse.extents(level, is_swept)
        runs = b.either([v.first_consumer(c, t) for c in consumers_inside(level, is_swept)], f"runs_inside_{t.name}")
        if runs is False:
            return
        keys, rows = b.keys(stream.rows, [box[d] for d in stream.dims], runs, f"box_{t.name}")
        names = [f"box_{n}_{t.name}" for n in ("layout", "acts", "again", "more")]
        layout, first, again, more = b.lookup(keys, rows, names)
        b.imply([runs], layout == stream.scans.layout)
        b.imply([runs], stream.activations >= first)
        if is_swept:
            self._sweeps_open_rows_again(stream, level, runs, first, again)
            self._swept_passes_open_rows_again(stream, level, first, again)
        else:
            self._passes_open_rows_again(stream, level, first, again)
            self._drawn_passes_open_rows(stream, level, first, more)

    def _sweeps_open_rows_again(self, stream: BoxedStream, level: Level, runs: Lit, first: Int, again: Int) -> None:
        """What contiguous loops sweep comes again as often as the level inside fetches an even tile."""
        b, t = self.b, stream.t
        fetched = self.reuse.factors[t][level - 1]
        if self.v.restriction.dram(t).banks == 1 or is_zero(again) or isinstance(fetched, int):
            return
        even = b.negated(self.v.residency.is_uneven(level - 1, t))  # its loops have swept all of the box
        repeated = b.product([again, fetched], f"swept_again_{t.name}")
        b.imply([runs, even], stream.activations >= first + repeated - again)

    def _passes_open_rows_again(self, stream: BoxedStream, level: Level, first: Int, again: Int) -> None:
        """A box comes again once per irrelevant loop outside, free for the box or not, if the MACs draw the tensor, or
        with relevant loops inside.
        """
        b, v, t = self.b, self.v, stream.t
        passes = b.product([v.class_temporal[m][t] for m in range(level, len(Level))], f"passes_{t.name}")
        if is_zero(again) or isinstance(passes, int):
            return
        repeated = b.product([again, passes], f"box_repeated_{t.name}")
        b.imply([v.first_consumer(MACS, t)], stream.activations >= first + repeated - again)
        if level == Level.GLOBAL_BUFFER:
            return
        inside = range(Level.GLOBAL_BUFFER, level)
        looped = b.either([self.reuse.has_relevant[m, t] for m in inside], f"looped_{t.name}")
        b.imply([v.first_consumer(Level.PE, t), looped], stream.activations >= first + repeated - again)

    def _swept_passes_open_rows_again(self, stream: BoxedStream, level: Level, first: Int, again: Int) -> None:
        """What contiguous loops relevant to t sweep comes again once per irrelevant loop of the level and outside.

        The tensor is scanned several times in a sweep, so again in the next one.
        """
        b, v, t = self.b, self.v, stream.t
        passes = b.product([v.class_temporal[m][t] for m in range(level, len(Level))], f"sweeps_{t.name}")
        # The orders of the single outer levels are not known; a loop of groups may be the innermost one.
        if v.stands_for_both(level) or v.bounds[Dim.G] > 1 or is_zero(again) or isinstance(passes, int):
            return
        relevant = [self.reuse.has_relevant[level, t], b.negated(v.innermost[level][t])]
        repeated = b.product([again, passes], f"sweeps_repeated_{t.name}")
        for c in consumers_inside(level, is_swept=True):
            b.imply([v.first_consumer(c, t), *relevant], stream.activations >= first + repeated - again)

    def _drawn_passes_open_rows(self, stream: BoxedStream, level: Level, first: Int, more: Int) -> None:
        """If the MACs draw the tensor, a box opens rows again as often as the level inside would fetch it."""
        b, t = self.b, stream.t
        drawn, fetched = self.v.first_consumer(MACS, t), self.reuse.factors[t][level - 1]
        if drawn is not False and not is_zero(more) and not isinstance(fetched, int):
            repeated = b.product([more, fetched], f"drawn_again_{t.name}")
            b.imply([drawn], stream.activations >= first + repeated - more)
