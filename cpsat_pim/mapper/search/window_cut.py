"""The cut of windows over a row-aligned input (docs/solver.md, C1 and B11)."""

from collections.abc import Sequence
from typing import NamedTuple

from cpsat_pim.base.dims import Dim, Level, Tensor
from cpsat_pim.evaluate.cost import to_shape
from cpsat_pim.mapper.model.master import MasterProblem
from cpsat_pim.mapper.space.restriction import Restriction
from tables.bounds.windows import window_rows
from tables.nest import Ints

#: Dims of the table's first columns.
_DIMS = (Dim.R, Dim.S, Dim.P, Dim.Q, Dim.C, Dim.N, Dim.G)


class WindowCut(NamedTuple):
    """The fewest rows that a pass over all windows opens, for every window that fits the row buffer.

    `rows`: int[n, 9], extents of the window (R S P Q C N G), then the rows in any order of the loops, and with one of C
    innermost in the DRAM (`tables.bounds.windows`).
    """

    rows: Ints

    @classmethod
    def of(cls, restriction: Restriction) -> "WindowCut":
        """Return the cut of a layer on a machine, with as many banks of I as the restriction says."""
        layer, capacity = restriction.layer, restriction.arch.usable_bytes_of(Level.ROW_BUFFER, Tensor.I)
        return cls(window_rows(to_shape(layer), layer.input_bytes, restriction.dram(Tensor.I), capacity))

    def add_to(self, master: MasterProblem) -> None:
        """Require of a master problem these rows, as often as windows are fetched again."""
        b, v, streams = master.b, master.v, master.streams
        aligned = v.first_consumer(Level.ROW_BUFFER, Tensor.I)
        rows = self.rows[self.rows[:, -2] <= streams.max_activations[Tensor.I]]
        if aligned is False or not len(self.rows):
            return
        if not len(rows):
            b.clause([b.negated(aligned)])
            return
        keys, rows = b.keys(rows, [v.e2[d] for d in _DIMS], aligned, "window")
        found = b.lookup(keys, rows, ["window_rows", "window_rows_in_channels"])
        others = [b.at_least_two(v.temporal[Level.DRAM][d], f"looped_{d.name}") for d in (Dim.R, Dim.S, Dim.G)]
        others.append(master.reuse.interleaved[Level.DRAM].get(Dim.C, False))
        in_channels = b.both([v.innermost[Level.DRAM][Tensor.O], *map(b.negated, others)], "channels_innermost")
        for where, least in zip(([aligned], [aligned, in_channels]), found, strict=True):
            fetched = b.product([least, streams.passes[Tensor.I]], "window_rows_fetched")
            b.imply(where, streams.activations[Tensor.I] >= fetched)

    def min_rows(self, extents: Sequence[int]) -> int:
        """Return the fewest rows that a pass over windows of these extents opens."""
        same = (self.rows[:, : len(_DIMS)] == [extents[d] for d in _DIMS]).all(axis=1)
        return int(self.rows[same, -2].max(initial=0))
