"""Row activations of tensors that others of their bank interrupt between any two scans (docs/solver.md, B15)."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from cpsat_pim.base.dims import Tensor
from cpsat_pim.evaluate.cost import to_machine
from cpsat_pim.mapper.bounds.stream_bounds import endings, returned_rows, spilled_outputs
from cpsat_pim.mapper.model.builder import Int, Lit
from cpsat_pim.mapper.model.returning import ReturningOutputs
from cpsat_pim.mapper.model.scans import CONSUMERS, Scans
from cpsat_pim.mapper.model.shared_banks import SharedBanks
from cpsat_pim.mapper.model.traffic import Traffic
from tables.bounds.shapes import ShapeTable
from tables.nest import MACS


class Spills(NamedTuple):
    """What a pass over all tiles of outputs takes, if `where` holds: they come back as partial sums, which have another
    width. `columns`: accesses. `long`: cycles of its runs beyond as many shortest ones. `ending`: cycles by which the
    stream's last run takes longer at least than a shortest one (`stream_bounds.endings`).
    """

    where: Lit
    columns: Int
    long: Int
    ending: Int


class InterruptedStreams:
    """Bounds the activations of tensors that share a bank, as far as `banks` shows that they are interrupted.

    `passes`: over all tiles, per tensor. `max_activations`: that no mapping up to the trial bound exceeds. `spills`: of
    outputs, once their rows are bounded; None if none come back with a width of their own.
    """

    def __init__(
        self, banks: SharedBanks, traffic: Traffic, passes: Sequence[Int], max_activations: Sequence[int]
    ) -> None:
        self.banks, self.v, self.b, self.traffic = banks, banks.v, banks.b, traffic
        self.passes, self.max_activations = passes, max_activations
        self.dram = to_machine(self.v.arch).dram
        self.returning = ReturningOutputs(banks, passes[Tensor.O], max_activations[Tensor.O])
        self.spills: Spills | None = None

    def closed_rows(self, t: Tensor, table: ShapeTable) -> tuple[np.ndarray, np.ndarray]:
        """Return the rows that an interrupted tensor opens in a first pass, and in each further one at least.

        Both are 0 where the bank is not shared.
        """
        is_shared = self.v.restriction.is_shared(t)
        closed = table.closed_activations if is_shared else np.zeros_like(table.layout)
        return closed, returned_rows(table, self.v.bounds) if is_shared and t is Tensor.O else closed

    def open_rows(
        self,
        t: Tensor,
        table: ShapeTable,
        scans: Scans,
        closed: Int,
        closed_again: Int,
        activations: Int,
        is_returned: Callable[[], Lit],
    ) -> None:
        """A tensor that others of its bank interrupt opens the rows of each scan anew, of one perhaps not.

        `closed`, `closed_again`: of a first pass and of each further one. `is_returned`: whether outputs come back.
        """
        if not self.v.restriction.is_shared(t):
            return
        self._open_rows_of_boxes(t, scans.is_box, closed, closed_again, activations)
        self._open_rows_of_bytes(t, activations)
        if t is Tensor.O and self.v.layer.psum_bytes != self.v.layer.output_bytes:
            self._open_rows_of_spills(scans, activations, is_returned())
        elif t is Tensor.O:
            literals = [self.banks.is_interrupted[t], scans.is_box, is_returned()]
            self._open_rows_of_returns(literals, table, scans.layout, closed, activations)

    def _open_rows_of_boxes(self, t: Tensor, is_box: Lit, closed: Int, closed_again: Int, activations: Int) -> None:
        """If its scans are boxes, by their shape."""
        b, drawn = self.b, self.v.first_consumer(MACS, t)
        repeated = b.product([closed_again, self._further_passes(t)], f"acts_closed_again_{t.name}")
        for literal, saved in ((self.banks.is_always_interrupted[t], 0), (self.banks.is_interrupted[t], 1)):
            b.imply([literal, is_box, b.negated(drawn)], activations >= closed + repeated - saved)
        if drawn is not False:
            opened = b.product([closed, self.passes[t]], f"acts_drawn_{t.name}")
            b.imply([self.banks.is_interrupted[t], is_box, drawn], activations >= opened)

    def _further_passes(self, t: Tensor) -> Int:
        """Return how often tiles are fetched again."""
        again = self.b.integer((x - 1 for x in self.b.values(self.passes[t])), f"closed_again_{t.name}")
        self.b.imply([], again == self.passes[t] - 1)
        return again

    def _open_rows_of_bytes(self, t: Tensor, activations: Int) -> None:
        """Whatever its layout, it opens at least the bytes moved over the bytes of a row."""
        for consumer in CONSUMERS:
            first, name = self.v.first_consumer(consumer, t), "uses" if consumer == MACS else f"moved{consumer}"
            if first is not False and name in self.traffic.moved[t]:
                size, quantity = self.traffic.moved[t][name]
                moved = size * quantity * self.v.layer.width_bytes[t]
                self.b.imply([first, self.banks.is_interrupted[t]], (activations + 1) * self.dram.row_bytes >= moved)

    def _open_rows_of_spills(self, scans: Scans, activations: Int, is_returned: Lit) -> None:
        """Outputs that come back have the width of partial sums, so their rows are those of another table."""
        b, t = self.b, Tensor.O
        is_back = b.both([self.banks.is_interrupted[t], is_returned], "interrupted_spills")
        if is_back is False:
            return
        table = spilled_outputs(self.v.layer, self.v.arch)
        closed_again = returned_rows(table, self.v.bounds)
        taken = (table.columns, table.long_run_cycles, endings(table, self.dram))
        found = [table.extents, table.layout, table.closed_activations, closed_again, *taken]
        allowed = np.isin(table.layout, self.v.restriction.layouts(t))
        rows = np.column_stack(found)[allowed & (table.closed_activations <= self.max_activations[t] + 1)]
        if not len(rows):
            b.clause([b.negated(is_back)])
            return
        keys, rows = b.keys(rows, [scans.extents[d] for d in table.dims], is_back, "spilled_O")
        names = [f"spilled_{x}" for x in ("layout", "closed", "more", "columns", "long", "ending")]
        layout, closed, more, *timed = b.lookup(keys, rows, names)
        self.spills = Spills(is_back, *timed)
        drawn = self.v.first_consumer(MACS, t)
        repeated = b.product([more, self._further_passes(t)], "spilled_again")
        b.imply([is_back, b.negated(drawn)], activations >= closed + repeated - 1)
        b.imply([is_back, self.banks.is_always_interrupted[t], b.negated(drawn)], activations >= closed + repeated)
        if drawn is not False:
            b.imply([is_back, drawn], activations >= b.product([closed, self.passes[t]], "spilled_drawn"))
        self._open_rows_of_returns([is_back], table, layout, closed, activations)

    def _open_rows_of_returns(
        self, literals: Sequence[Lit], table: ShapeTable, layout: Int, closed: Int, activations: Int
    ) -> None:
        """If all literals hold and outputs come through a level that stores them (B18)."""
        drawn = self.v.first_consumer(MACS, Tensor.O)
        where = self.b.both([*literals, self.b.negated(drawn)], "returned_through_a_level")
        if where is not False:
            self.returning.open_rows(where, table, layout, closed, activations)
