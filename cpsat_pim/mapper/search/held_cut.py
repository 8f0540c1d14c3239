"""The cut of scans while a tile of another tensor of the bank is held (docs/solver.md, C13)."""

from collections.abc import Iterator
from typing import NamedTuple, Optional

from cpsat_pim.base.dims import Dim, Tensor
from cpsat_pim.mapper.model.master import MasterProblem
from cpsat_pim.mapper.search.solution import Solution
from tables.bounds.held import HeldRuns, held_runs


class HeldScans(NamedTuple):
    """While a tile of `u` is held, t goes over a `box` by scans of `tile` in a layout, both extents in R S P Q C K N G;
    in all boxes it takes the `least` rows and cycles.
    """

    t: Tensor
    u: Tensor
    layout: int
    tile: tuple[int, ...]
    box: tuple[int, ...]
    least: HeldRuns

    @classmethod
    def of(cls, solution: Solution, t: Tensor, u: Tensor) -> Optional["HeldScans"]:
        """Return what holds of the boxes of a solution; None if it has none of the kind."""
        streams, layer, value = solution.master.streams, solution.master.layer, solution.value
        held, scans = streams.held[t, u], streams.scans[t]
        if not value(held.where) or not streams.dram.is_open:
            return None
        layout = value(scans.layout)
        tile, box = (tuple(value(of[d]) if d in held.box else 1 for d in Dim) for of in (scans.extents, held.box))
        if any(e % s for s, e in zip(tile, box, strict=True)):
            return None
        least = held_runs(solution.master.v.shape, t, layer.width_bytes[t], streams.dram, layout, tile, box)
        return cls(t, u, layout, tile, box, least)

    def raises(self, solution: Solution) -> bool:
        """Return whether the solution from which this was made was charged less."""
        charged, times = solution.charged(self.t), solution.value(solution.master.streams.held[self.t, self.u].outside)
        is_longer = solution.master.latency is not None and self.least.cycles * times > charged.closed_cycles
        return is_longer or self.least.activations * times > charged.activations

    def add_to(self, master: MasterProblem) -> None:
        """Require this of a master problem, as often as the boxes pass."""
        held = master.streams.held.get((self.t, self.u))
        if held is None:
            return
        b, streams, scans = master.b, master.streams, master.streams.scans[self.t]
        others = [b.negated(held.where), b.differs(scans.layout, self.layout)]
        for d, x in held.box.items():
            others += [b.differs(x, self.box[d]), b.differs(scans.extents[d], self.tile[d])]
        is_same = b.boolean("held_scans")
        b.clause([*others, is_same])
        b.imply([is_same], streams.activations[self.t] >= self.least.activations * held.outside)
        if master.latency is not None:
            cycles = self.least.cycles * held.outside
            b.imply([is_same], streams.closed_cycles[self.t] >= cycles)
            b.imply([is_same], streams.cycles[self.t] >= cycles + streams.least_last_run)


def held_cuts(solution: Solution) -> Iterator[HeldScans]:
    """Yield the cuts of this kind that raise what a solution is charged."""
    for t, u in solution.master.streams.held:
        cut = HeldScans.of(solution, t, u)
        if cut is not None and cut.raises(solution):
            yield cut
