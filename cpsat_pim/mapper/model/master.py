"""One layer's CP-SAT program: variables, constraints and objective, for one target and one part of the space."""

import itertools
from collections.abc import Sequence

import numpy as np

from cpsat_pim.base.dims import Dim, Level, Tensor
from cpsat_pim.evaluate.cost import to_machine
from cpsat_pim.mapper.bounds.tile_bounds import TileBounds
from cpsat_pim.mapper.model.builder import Builder, Lit
from cpsat_pim.mapper.model.dataflow_class import Flow
from cpsat_pim.mapper.model.latency import Latency
from cpsat_pim.mapper.model.reuse import Reuse
from cpsat_pim.mapper.model.rules import Rules
from cpsat_pim.mapper.model.streams import Streams
from cpsat_pim.mapper.model.traffic import Traffic
from cpsat_pim.mapper.model.variables import Variables
from cpsat_pim.mapper.space.candidates import COST, IN_PE, INSIDE_PE, SPATIAL, VECTOR, Candidates
from cpsat_pim.mapper.space.subspace import Subspace
from cpsat_pim.mapping.dataflow import STATIONARY
from tables.nest import Ints

#: Tiles of a program whose linear relaxation is soon solved.
_FEW_TILES = 500


class MasterProblem:
    """The mappings of a layer, in the part of the space that `tiles` is of, whose (lower bound of the) objective is at
    most `target`, cheapest first.

    Of the split part, where the two outer loops of a dim are; or with `any_split` a relaxation for all ways to split
    the product of both; `within` is all that it leaves open: given extents inside the outer loops. With `candidates`
    it has no other spatial mappings and tiles.
    """

    def __init__(
        self,
        tiles: TileBounds,
        target: int,
        *,
        any_split: bool = False,
        within: Sequence[int] | None = None,
        candidates: Candidates | None = None,
    ) -> None:
        self.spatial_bounds, self.tables, self.target = tiles.spatial_bounds, tiles.tables, target
        spatial_bounds = tiles.spatial_bounds
        self.layer, self.arch, self.objective = spatial_bounds.layer, spatial_bounds.arch, spatial_bounds.objective
        self.b = Builder()
        self._left_out: set[tuple[int, ...]] = set()
        #: How many of the layer's lessons it was taught (`lessons.Lessons`).
        self.cuts_known = 0
        found = (candidates or tiles.candidates(target)).within(within)
        known = found.extents()
        #: Whether few tiles are left.
        self.is_small = found.tiles is not None and len(found.tiles) <= _FEW_TILES
        self.v = Variables(
            self.b, self.layer, self.arch, spatial_bounds.restriction, known, any_split=any_split, within=within
        )
        self.reuse = Reuse(self.v)
        Rules(self.v, self.reuse)
        self.traffic = Traffic(self.v, self.reuse)
        timed, _ = spatial_bounds.restriction.sees(self.objective)
        self.streams = Streams(self.v, self.reuse, self.traffic, self.tables, spatial_bounds.limits(target), timed)
        most_cycles = spatial_bounds.most_cycles(target)
        self.latency = None
        if most_cycles is not None:
            self.latency = Latency(self.v, self.reuse, self.traffic, self.streams, most_cycles)
        if self.subspace.is_aligned:
            self._some_tensor_row_aligned()
        #: A variable of its own, so that what is known of it (the target, a floor, a proven bound) meets in its domain:
        #: of two rows over the same terms CP-SAT does not see that they contradict each other.
        self.cost = self.b.interval(0, target, "cost")
        self._screened(found)
        self._objective()

    @property
    def subspace(self) -> Subspace:
        """Of the space."""
        return self.spatial_bounds.restriction.subspace

    def leave_out(self, within: Sequence[int], dearer_than: int) -> None:
        """All mappings with some extents inside the outer loops cost more than that: forbid them if it is enough."""
        others = [self.b.differs(x, n) for x, n in zip(self.v.e1, within, strict=True)]
        if dearer_than >= self.target:
            self._left_out.add(tuple(within))
            self.b.clause(others)
        else:
            dear = self.b.boolean("dear")
            self.b.clause([*others, dear])
            self.b.imply([dear], self.cost >= dearer_than + 1)

    def may_have(self, extents: dict[Dim, int]) -> bool:
        """Whether there may be mappings with some dims' extents inside the outer loops."""
        if self.v.within is not None:
            return all(self.v.within[d] == n for d, n in extents.items())
        return len(extents) < len(Dim) or tuple(extents[d] for d in Dim) not in self._left_out

    def _some_tensor_row_aligned(self) -> None:
        """The other parts of the space have the rest."""
        stored = [self.v.stored(Level.ROW_BUFFER, t) for t in Tensor]
        self.b.model.add_bool_or([s for s in stored if s is not False])

    def _screened(self, candidates: Candidates) -> None:
        """Only spatial mappings, PE bypasses and tiles that can still be as good as the target (`tables.bounds.spatial`,
        `tables.bounds.tiles`), and no lower cost than theirs.
        """
        vectors, bounds, tiles = candidates
        in_pe = [self.v.stored(Level.PE, t) for t in Tensor]
        if tiles is None:
            self._screened_vectors(vectors, bounds, in_pe)
        else:
            floor = self.b.integer(tiles[:, COST].tolist(), "floor")
            rows = np.column_stack([vectors[tiles[:, VECTOR]], tiles[:, INSIDE_PE.start :]])
            flags = map(self.b.flag, in_pe)
            self.b.table([*self.v.pes, *self.v.lanes, *flags, *self.v.e0, *self.v.e1, floor], rows)
            self.b.model.add(self.cost >= floor)
        wanted = self.spatial_bounds.restriction.constraints.dataflow
        if wanted in STATIONARY:
            Flow(self.v, self.reuse, wanted, vectors.tolist(), list(map(self.b.flag, in_pe)))

    def _screened_vectors(self, vectors: Ints, bounds: Ints, in_pe: list[Lit]) -> None:
        """A row for each spatial mapping, with the floors of all sets of tensors in the PEs: one for each of both would
        be several times as many.
        """
        if not len(vectors):
            self.b.clause([])
            return
        spatial, row = np.unique(vectors[:, SPATIAL], axis=0, return_inverse=True)
        sets = list(itertools.product((0, 1), repeat=len(Tensor)))
        floors = np.full((len(spatial), len(sets)), self.b.ends(self.cost)[1] + 1)
        floors[row.ravel(), vectors[:, IN_PE] @ [4, 2, 1]] = bounds
        different, column = np.unique(np.column_stack([floors.min(axis=1), floors]), axis=1, return_inverse=True)
        names = ["floor"] * different.shape[1]
        found = self.b.lookup([*self.v.pes, *self.v.lanes], np.column_stack([spatial, different]), names)
        least, *of_sets = (found[i] for i in column.ravel())
        self.b.model.add(self.cost >= least)
        for stored, floor in zip(sets, of_sets, strict=True):
            where = [x if held else self.b.negated(x) for x, held in zip(in_pe, stored, strict=True)]
            self.b.imply(where, self.cost >= floor)

    def _objective(self) -> None:
        """alpha * latency + beta * energy in integers (Eq. 41-43, section 5.6.5)."""
        cycle_weight, fj_weight = self.objective.weights
        machine = to_machine(self.arch)
        energy = sum(self.traffic.energy) + self.layer.macs * machine.mac_fj
        energy += machine.activation_fj * sum(self.streams.activations)
        expression = fj_weight * energy if fj_weight else 0
        if self.latency is not None:
            # Not +=: of weight 1 the expression is the energy itself, which has a budget of its own.
            expression = expression + cycle_weight * (self.latency.cycles + machine.pipeline_latency)
        if (most := self.spatial_bounds.restriction.budget.fj) is not None:
            self.b.model.add(energy <= most)
        if (most := self.spatial_bounds.restriction.budget.activations) is not None:
            self.b.model.add(sum(self.streams.activations) <= most)
        self.b.model.add(self.cost >= expression)
        self.b.model.minimize(self.cost)
