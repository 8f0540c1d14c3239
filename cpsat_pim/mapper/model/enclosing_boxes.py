"""Activations of boxes around scans: whatever runs inside a box opens the rows of the box (docs/solver.md, B6)."""

from typing import NamedTuple

import numpy as np

from cpsat_pim.base.dims import Level, Tensor
from cpsat_pim.evaluate.cost import to_machine
from cpsat_pim.mapper.bounds.stream_bounds import has_known_boxes
from cpsat_pim.mapper.model.builder import Int, Lit, is_zero
from cpsat_pim.mapper.model.reuse import Reuse, consumers_inside
from cpsat_pim.mapper.model.scans import Scans
from cpsat_pim.mapper.model.variables import Variables
from cpsat_pim.mapper.space.parameters import SearchParameters
from tables.bounds.shapes import ShapeTable
from tables.nest import MACS, Ints


class BoxedStream(NamedTuple):
    """The stream of a tensor whose boxes are in a table: `rows` of extents along `dims`, layout, activations of a first
    pass, and of each further one.
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
        self.dram = to_machine(v.arch).dram

    def open_rows(self, t: Tensor, table: ShapeTable, scans: Scans, activations: Int, max_activations: int) -> None:
        """Constrain t's activations by the boxes of all levels and by what their contiguous loops sweep."""
        if not table.dims or not has_known_boxes(self.v.layer, t):
            return
        rows = np.column_stack([table.extents, table.layout, table.box_activations, table.swept_repeat_activations])
        rows = rows[(table.box_activations <= max_activations) & (table.is_strided == 0)]
        is_single = self.dram.banks == 1
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
        layout, first, again = b.lookup(keys, rows, [f"box_{n}_{t.name}" for n in ("layout", "acts", "again")])
        b.imply([runs], layout == stream.scans.layout)
        b.imply([runs], stream.activations >= first)
        if is_swept:
            self._sweeps_open_rows_again(stream, level, runs, first, again)
        self._passes_open_rows_again(stream, level, is_swept, first, again)

    def _sweeps_open_rows_again(self, stream: BoxedStream, level: Level, runs: Lit, first: Int, again: Int) -> None:
        """What contiguous loops sweep comes again as often as the level inside fetches an even tile."""
        b, t = self.b, stream.t
        fetched = self.reuse.factors[t][level - 1]
        if self.dram.banks == 1 or is_zero(again) or isinstance(fetched, int):
            return
        even = b.negated(self.v.residency.is_uneven(level - 1, t))  # its loops have swept all of the box
        repeated = b.product([again, fetched], f"swept_again_{t.name}")
        b.imply([runs, even], stream.activations >= first + repeated - again)

    def _passes_open_rows_again(
        self, stream: BoxedStream, level: Level, is_swept: bool, first: Int, again: Int
    ) -> None:
        """A box with relevant loops inside comes again once per irrelevant loop outside, free for the box or not."""
        b, v, t = self.b, self.v, stream.t
        passes = b.product([v.class_temporal[m][t] for m in range(level, len(Level))], f"passes_{t.name}")
        if is_swept or level == Level.GLOBAL_BUFFER or is_zero(again) or isinstance(passes, int):
            return
        taken = b.either([v.first_consumer(c, t) for c in (MACS, Level.PE)], f"taken_inside_{t.name}")
        inside = range(Level.GLOBAL_BUFFER, level)
        looped = b.either([self.reuse.has_relevant[m, t] for m in inside], f"looped_{t.name}")
        repeated = b.product([again, passes], f"box_repeated_{t.name}")
        b.imply([taken, looped], stream.activations >= first + repeated - again)
