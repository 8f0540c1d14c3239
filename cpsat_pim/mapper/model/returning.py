"""Row activations of outputs that return from a shared bank (docs/solver.md, B18)."""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from attrs import frozen

from cpsat_pim.base.dims import Dim, Level, Tensor
from cpsat_pim.mapper.bounds.stream_bounds import turned_rows
from cpsat_pim.mapper.model.builder import Int, Lit
from cpsat_pim.mapper.model.shared_banks import SharedBanks
from cpsat_pim.mapper.model.variables import OUTSIDE_PE
from tables.bounds.shapes import ShapeTable
from tables.nest import Ints


@frozen
class _Stream:
    """The stream of outputs that return, if `where` holds: its activations, those of `written` tiles, and the layout.

    `rows`: of a table from the extents of a box, by layout, to the rows that passes over all boxes turn to.
    """

    where: Lit
    activations: Int
    written: Int
    layout: Int
    dims: tuple[int, ...]
    rows: Ints


class Sweep(NamedTuple):
    """If `where` holds, a box of tiles, with extents by dim, is swept in each of so many passes."""

    where: Lit
    box: Mapping[int, Int]
    passes: Int


class ReturningOutputs:
    """Bounds the activations of output tiles that return, where other tensors of the bank interrupt them.

    A tile that leaves opens all of its rows, and so does the one that comes in its place, but for a row in which both
    lie. `passes`: how often each tile is fetched. `max_activations`: that no mapping up to the trial bound exceeds.
    `sweeps`: the boxes of the levels, and those while tiles of I or W are held, by name.
    """

    def __init__(self, banks: SharedBanks, passes: Int, max_activations: int) -> None:
        self.banks, self.v, self.b = banks, banks.v, banks.b
        self.passes, self.max_activations = passes, max_activations
        self.stream: _Stream | None = None
        self.sweeps: dict[str, Sweep] = {}

    def open_rows(self, where: Lit, table: ShapeTable, layout: Int, closed: Int, activations: Int) -> None:
        """If `where` holds, tiles of the given `layout`, which open `closed` rows in a pass over all of them, open the
        rows of every pass over what the contiguous loops of a level sweep twice, but for the first pass.

        `table`: of O in partial sums, which a layer whose outputs return has in DRAM.
        """
        written = self.b.product([closed, self.passes], "written_O")
        self._at_least(where, activations, written)
        turned = turned_rows(self.v.layer, self.v.arch.row_bytes, table)
        rows = np.column_stack([table.extents, table.layout, turned])[turned <= self.max_activations + 1]
        if len(rows):
            self.stream = _Stream(where, activations, written, layout, table.dims, rows)
        if self.v.bounds[Dim.G] > 1:  # a loop of groups may be the innermost one
            return
        for m in OUTSIDE_PE:
            if not self.v.stands_for_both(m):  # the orders of the single outer levels are not known
                self._sweeps_return(m)

    def _sweeps_return(self, m: Level) -> None:
        """Loops of a level sweep a box in each iteration of O's own loops at the level and outside of it."""
        b, v, reuse, name = self.b, self.v, self.banks.reuse, f"returns_{m}"
        passes = b.product([v.class_temporal[n][Tensor.O] for n in OUTSIDE_PE if n >= m], f"{name}_passes")
        sweeps = [reuse.has_relevant[m, Tensor.O], b.negated(v.innermost[m][Tensor.O])]
        is_swept = b.both([self.banks.is_taken_inside(Tensor.O, m), *sweeps], f"{name}_swept")
        self.box_returns(is_swept, dict(enumerate(reuse.swept(m))), passes, name)

    def box_returns(self, is_swept: Lit, box: Mapping[int, Int], passes: Int, name: str) -> None:
        """If it holds, a box of several tiles is passed over so often: it returns in all passes but the first."""
        if (stream := self.stream) is None:
            return
        self.sweeps[name], b = Sweep(is_swept, box, passes), self.b
        where = b.both([stream.where, is_swept, b.at_least_two(passes, f"{name}_again")], name)
        if where is False:
            return
        keys, kept = b.keys(stream.rows, [box[d] for d in stream.dims], where, f"{name}_box")
        layout, turned = b.lookup(keys, kept, [f"{name}_layout", f"{name}_turned"])
        b.imply([where], layout == stream.layout)
        returning = b.product([turned, passes], f"{name}_all") - turned
        self._at_least(where, stream.activations, stream.written + returning)

    def _at_least(self, where: Lit, activations: Int, rows: Int) -> None:
        """O opens so many rows; one less if its last two scans may follow each other."""
        self.b.imply([where, self.banks.is_always_interrupted[Tensor.O]], activations >= rows)
        self.b.imply([where], activations >= rows - 1)
