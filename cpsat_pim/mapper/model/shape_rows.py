"""Which rows and columns of the shape tables the master problem looks up: those that matter up to its trial bound."""

from collections.abc import Sequence

import numpy as np

from cpsat_pim.base.dims import Tensor
from cpsat_pim.evaluate.cost import to_machine
from cpsat_pim.mapper.bounds.stream_bounds import DramLimits, endings
from cpsat_pim.mapper.model.interrupted import InterruptedStreams
from cpsat_pim.mapper.model.variables import Variables
from tables.bounds.shapes import ShapeTable
from tables.dram import last_run_excess, period
from tables.nest import MACS

#: Names of the columns looked up by tile shape: row activations, and what only time depends on.
COUNTED = ("acts_first", "acts_more", "acts_ordered", "acts_each", "acts_closed", "acts_closed_more")
TIMED = ("columns_pass", "long", "end", "returned", "columns", "fewest_rows", "rows", "longest", "ending", "reopened")


class ShapeRows:
    """Chooses rows: bounds of a tensor's scans by extents, layout and kind, with the columns `COUNTED` and `TIMED`.

    `min_rows`: the fewest rows of each tensor. `limits`: on what a mapping up to the trial bound takes. `timed`:
    whether time counts.
    """

    def __init__(
        self,
        v: Variables,
        interrupted: InterruptedStreams,
        min_rows: Sequence[int],
        limits: DramLimits,
        timed: bool,
    ) -> None:
        self.v, self.interrupted, self.min_rows, self.limits, self.timed = v, interrupted, min_rows, limits, timed
        self.dram = to_machine(v.arch).dram

    def of(self, t: Tensor, table: ShapeTable) -> np.ndarray:
        """Return the rows of the shape table that a mapping up to the trial bound can use."""
        columns = [table.layout, table.is_strided, *self._counted_columns(t, table), *self._timed_columns(t, table)]
        is_interrupted = self.v.restriction.is_interrupted(t)
        fewest = table.closed_activations - 1 if is_interrupted else table.first_activations
        keep = self._within(t, fewest) & np.isin(table.layout, self.v.restriction.layouts(t))
        keep &= self._is_taken(table)
        if self.limits.cycles is not None:
            busy = table.columns * self.dram.tCCD + table.first_activations * self.v.arch.dram_activation_latency
            keep &= busy + last_run_excess(self.dram) <= self.limits.cycles
            keep &= (
                int(period(1, self.dram)) * (table.first_activations - 1) + table.long_run_cycles <= self.limits.cycles
            )
        if self.limits.edge_cycles is not None:
            edge = np.minimum(table.end_cycles, table.rewrite_cycles) if t is Tensor.O else table.end_cycles
            keep &= (edge <= self.limits.edge_cycles) | self._can_be_drawn(t, table)
        rows = np.column_stack([table.extents, *columns])
        return rows[keep] if keep.any() else rows[:1]

    def _counted_columns(self, t: Tensor, table: ShapeTable) -> list[np.ndarray]:
        """Return the columns of `COUNTED`: zeros where no bound needs them, or a better one replaces them.

        A tensor that others always interrupt opens the rows of closed pages, which are no fewer.
        """
        nothing, restriction = np.zeros_like(table.layout), self.v.restriction
        closed, closed_more = self.interrupted.closed_rows(t, table)
        if restriction.is_interrupted(t):
            return [*[nothing] * 4, closed, closed_more]
        ordered = nothing if self.v.has_several_outer_loops else table.ordered_activations
        each = nothing if self.v.first_consumer(MACS, t) is False else table.rescan_activations
        return [table.first_activations, table.repeat_activations, ordered, each, closed, closed_more]

    def _timed_columns(self, t: Tensor, table: ShapeTable) -> list[np.ndarray]:
        """Return the columns of `TIMED`: zeros where no time counts, or none of them does for the tensor."""
        nothing = np.zeros_like(table.layout)
        if not self.timed:
            return [nothing] * len(TIMED)
        rewrite, longest = (table.rewrite_cycles, nothing) if t is Tensor.O else (nothing, table.max_scan_cycles)
        ending = reopened = nothing
        if t is Tensor.O and self.v.restriction.is_shared(t):
            ending = endings(table, self.dram)
            reopened = np.maximum(0, table.closed_end_cycles - table.end_cycles)
        scan = [table.min_scan_columns, table.min_scan_rows, table.max_scan_rows, longest]
        return [table.columns, table.long_run_cycles, table.end_cycles, rewrite, *scan, ending, reopened]

    def _is_taken(self, table: ShapeTable) -> np.ndarray:
        """Return which shapes are extents of a candidate's step, array or global buffer; all if these are not known.

        Where they are known no tile is uneven.
        """
        known, dims = self.v.known, table.dims
        if known.eA is None or known.e1 is None:
            return np.ones(len(table.extents), bool)
        # A number per box. The product of all bounds is less than 2^60 (docs/solver.md, Arithmetic).
        radix = np.cumprod([1, *(self.v.bounds[d] for d in dims)])[:-1]
        taken = [(extents[:, dims] - 1) @ radix for extents in (known.step, known.eA, known.e1)]
        return np.isin((table.extents - 1) @ radix, np.concatenate(taken))

    def _can_be_drawn(self, t: Tensor, table: ShapeTable) -> np.ndarray:
        """Return which shapes may be those of a step: the array does not wait for the first scan of one."""
        array = self.v.arch.pe_array
        most = array.array_shape.h * array.array_shape.w * array.compute_unit.num_macs
        return np.asarray(table.extents.prod(axis=1) <= (most if t is not Tensor.O else 0))

    def _within(self, t: Tensor, activations: np.ndarray) -> np.ndarray:
        """Return which activations leave the other tensors their fewest."""
        if self.limits.activations is None:
            return np.ones(len(activations), bool)
        return activations + sum(self.min_rows) - self.min_rows[t] <= self.limits.activations
