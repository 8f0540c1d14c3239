"""The scans of each tensor: which shapes DRAM streams move, and that these are boxes or regular grids."""

from typing import NamedTuple

from cpsat_pim.base.dims import Dim, Level, Tensor
from cpsat_pim.mapper.model.builder import Int, Lit
from cpsat_pim.mapper.model.variables import Variables
from tables.bounds.shapes import can_be_strided
from tables.nest import MACS

#: The levels, and the MACs, that can take a tensor straight from DRAM, outermost first.
CONSUMERS = (int(Level.ROW_BUFFER), int(Level.GLOBAL_BUFFER), int(Level.PE), MACS)


class Scans(NamedTuple):
    """The scans of a tensor: `extents` along its dims, whether the shape tables describe them, and their layout.

    `first_cycles`: of the first scan. `columns`, `fewest_rows`: the fewest of a scan. `rows`,
    `longest_cycles`: the most rows that a scan opens, and the most cycles that it adds. All but `extents` hold only if
    `is_box`.
    """

    extents: dict[int, Int]
    is_box: Lit
    layout: Int
    first_cycles: Int
    columns: Int
    fewest_rows: Int
    rows: Int
    longest_cycles: Int


class ScanShapes:
    """Which tile one scan brings in, and rules on its shape (docs/model.md, section 3)."""

    def __init__(self, v: Variables) -> None:
        self.v, self.b = v, v.b

    def input_scans_are_regular(self) -> None:
        """A scan of I is a box or, for 1x1 filters, a regular grid (docs/model.md, section 3)."""
        v, model = self.v, self.b.model
        forbidden: list[Lit] = []
        if v.bounds[Dim.R] > 1 or v.bounds[Dim.S] > 1:
            forbidden.append(v.first_consumer(MACS, Tensor.I))
            apart = self._is_spread(v.layer.stepped_dims)
            forbidden.append(self.b.both([v.first_consumer(Level.PE, Tensor.I), apart], "windows_apart"))
        elif can_be_strided(v.shape, Tensor.I):
            forbidden.append(self.b.both([v.first_consumer(Level.PE, Tensor.I), self._is_mixed()], "mixed_scan"))
        for literal in forbidden:
            if literal is not False:
                model.add_bool_or([self.b.negated(literal)])

    def _is_mixed(self) -> Lit:
        """Return whether PEs are spread and hold several positions each: their scan is no box and no regular grid."""
        return self.b.both([self._is_spread((Dim.P, Dim.Q)), self._is_wide()], "mixed")

    def _is_spread(self, dims: tuple[Dim, ...]) -> Lit:
        """Return whether some of the dims are spread over PEs."""
        return self.b.either([self.b.at_least_two(self.v.pes[d], f"{d.name}_apart") for d in dims], "apart")

    def _is_wide(self) -> Lit:
        """Return whether a PE holds several positions of I."""
        held = self.v.tile[Level.PE][Tensor.I]
        return self.b.either([self.b.at_least_two(held[d], f"{d.name}_wide") for d in (Dim.P, Dim.Q)], "wide")

    def grids_are_strided(self, t: Tensor, is_box: Lit, strided: Int) -> None:
        """MACs, and PEs of one output each, scan a strided grid. All others scan spans, the row buffer blocks."""
        v, b = self.v, self.b
        from_pe = b.both([v.first_consumer(Level.PE, t), b.negated(self._is_wide())], "single_positions")
        takes_points = b.either([v.first_consumer(MACS, t), from_pe], "takes_points")
        b.imply([takes_points], strided == 1)
        b.imply([is_box, b.negated(takes_points)], strided == 0)

    def extent(self, t: Tensor, d: int) -> Int:
        """Return the extent of a scan along d: that of its first consumer's tile."""
        v = self.v
        if v.bounds[d] == 1:
            return 1
        sources = zip(CONSUMERS, (v.e2, v.tile[Level.GLOBAL_BUFFER][t], v.array_tile[t], v.step), strict=True)
        taken = [(first, of[d]) for consumer, of in sources if (first := v.first_consumer(consumer, t)) is not False]
        values = {n for _, source in taken for n in self.b.values(source)}
        extent = self.b.integer(values, f"scan_{t.name}_{Dim(d).name}")
        for first, source in taken:
            self.b.imply([first], extent == source)
        return extent
