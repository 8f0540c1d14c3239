"""The cut of output tiles that return to a shared bank (docs/solver.md, C14)."""

from collections.abc import Iterator
from typing import NamedTuple

from cpsat_pim.base.dims import RELEVANT, Dim, Tensor
from cpsat_pim.mapper.model.master import MasterProblem
from cpsat_pim.mapper.search.solution import Solution
from tables.bounds.returns import ReturnedRuns, returned_runs
from tables.dram import period


class ReturningTiles(NamedTuple):
    """Tiles of O, in a layout and with extents in R S P Q C K N G, that are fetched `passes` times each, take the
    `least` rows and cycles in any order. If `sweep` is not None, in any in which all passes sweep a `box`, that of this
    name in `cpsat_pim.mapper.model.returning.ReturningOutputs`.
    """

    layout: int
    tile: tuple[int, ...]
    passes: int
    sweep: str | None
    box: tuple[int, ...]
    least: ReturnedRuns

    @classmethod
    def all_of(cls, solution: Solution) -> Iterator["ReturningTiles"]:
        """Yield what holds of a solution's output tiles, if they return."""
        streams, value = solution.master.streams, solution.value
        returning, dram = streams.interrupted.returning, streams.dram
        if returning.stream is None or not value(returning.stream.where) or not dram.is_open or dram.banks > 1:
            return
        extents, passes = streams.scans[Tensor.O].extents, value(streams.passes[Tensor.O])
        own = RELEVANT[Tensor.O]
        layout, tile = value(returning.stream.layout), tuple(value(extents.get(d, 1)) if d in own else 1 for d in Dim)
        boxes: dict[str | None, tuple[int, ...]] = {None: tile}
        for name, sweep in returning.sweeps.items():
            if value(sweep.where) and value(sweep.passes) == passes:
                boxes[name] = tuple(value(sweep.box[d]) if d in own else 1 for d in Dim)
        shape, width = solution.master.v.shape, solution.master.layer.psum_bytes
        for kind, box in boxes.items():
            if any(e % s for s, e in zip(tile, box, strict=True)):
                continue
            yield cls(layout, tile, passes, kind, box, returned_runs(shape, width, dram, layout, tile, box, passes))

    def raises(self, solution: Solution) -> bool:
        """Return whether the solution from which this was made was charged less, but for one pair of scans."""
        charged, streams = solution.charged(Tensor.O), solution.master.streams
        cycles = self.least.cycles - int(period(1, streams.dram))
        is_longer = solution.master.latency is not None and cycles > charged.closed_cycles
        return is_longer or self.least.activations - 1 > charged.activations

    def add_to(self, master: MasterProblem) -> None:
        """Require this of a master problem; of all pairs of scans one may be excepted (B15)."""
        b, t, streams = master.b, Tensor.O, master.streams
        returning = streams.interrupted.returning
        if returning.stream is None or self.sweep not in (None, *returning.sweeps):
            return
        others = [b.negated(returning.stream.where), b.differs(returning.stream.layout, self.layout)]
        others += [b.differs(streams.passes[t], self.passes)]
        others += [b.differs(x, self.tile[d]) for d, x in streams.scans[t].extents.items() if d in RELEVANT[t]]
        if self.sweep is not None:
            sweep = returning.sweeps[self.sweep]
            others += [b.negated(sweep.where), b.differs(sweep.passes, self.passes)]
            others += [b.differs(x, self.box[d]) for d, x in sweep.box.items() if d in RELEVANT[t]]
        is_same = b.boolean("returning_tiles")
        b.clause([*others, is_same])
        for where, saved in (([is_same], 1), ([is_same, streams.banks.is_always_interrupted[t]], 0)):
            b.imply(where, streams.activations[t] >= self.least.activations - saved)
            if master.latency is not None:
                least = self.least.cycles - saved * int(period(1, streams.dram))
                b.imply(where, streams.closed_cycles[t] >= least)


def returning_cuts(solution: Solution) -> Iterator[ReturningTiles]:
    """Yield the cuts of this kind that raise what a solution is charged."""
    return (cut for cut in ReturningTiles.all_of(solution) if cut.raises(solution))
