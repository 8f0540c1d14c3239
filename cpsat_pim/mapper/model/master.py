"""The master problem of one layer: a CP-SAT relaxation of a subspace, up to a trial bound."""

import itertools
from collections.abc import Sequence

import numpy as np

from cpsat_pim.base.dims import Dim, Level, Tensor
from cpsat_pim.base.rows import distinct_rows
from cpsat_pim.evaluate.cost import to_machine
from cpsat_pim.mapper.bounds.tile_bounds import TileBounds
from cpsat_pim.mapper.model.builder import Builder, Int, Lit
from cpsat_pim.mapper.model.dataflow_class import DataflowRule
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


class MasterProblem:
    """A relaxation of all mappings of one subspace that cost at most `trial_bound`; minimizes a lower bound of the
    cost.

    Every such mapping is a solution whose objective is at most the mapping's exact cost. So if the problem is
    infeasible, no mapping costs at most `trial_bound`.

    `any_split`: in the split subspace, relax how the two outer loops of a dim divide their product.
    `inner_extents`: only mappings with these extents inside the outer loops. `candidates`: only mappings with these
    spatial mappings and tiles; by default those that `tiles` cannot exclude. They have the inner extents already.
    """

    def __init__(
        self,
        tiles: TileBounds,
        trial_bound: int,
        *,
        any_split: bool = False,
        inner_extents: Sequence[int] | None = None,
        candidates: Candidates | None = None,
    ) -> None:
        self.spatial_bounds, self.tables, self.trial_bound = tiles.spatial_bounds, tiles.tables, trial_bound
        #: The trial bound from which the domains follow: `trial_bound` may have been lowered since.
        self.first_trial_bound = trial_bound
        self.parameters = tiles.parameters
        self.layer, self.arch = self.spatial_bounds.layer, self.spatial_bounds.arch
        self.objective, self.restriction = self.spatial_bounds.objective, self.spatial_bounds.restriction
        #: Inner extents of which no mapping costs at most `trial_bound`.
        self._excluded: set[tuple[int, ...]] = set()
        #: How many cuts of the layer's pool this problem has.
        self.cuts_known = 0
        if candidates is None:
            candidates = tiles.candidates(trial_bound, inner_extents)
        #: Whether few tiles are candidates.
        self.is_small = candidates.tiles is not None and len(candidates.tiles) <= self.parameters.small_tiles
        self.b = Builder(self.parameters)
        self._add_variables(candidates, any_split, inner_extents)
        self._add_constraints(candidates)
        self._add_objective()

    def _add_variables(self, candidates: Candidates, any_split: bool, inner_extents: Sequence[int] | None) -> None:
        """Decisions, then what follows from them: reuse, traffic, DRAM streams and latency, with their bounds."""
        self.v = Variables(
            self.b,
            self.layer,
            self.arch,
            self.restriction,
            candidates.extents(),
            any_split=any_split,
            inner_extents=inner_extents,
        )
        self.reuse = Reuse(self.v)
        Rules(self.v, self.reuse)
        self.traffic = Traffic(self.v, self.reuse)
        timed, _ = self.restriction.relevant_figures(self.objective)
        limits = self.spatial_bounds.dram_limits(self.trial_bound)
        self.streams = Streams(self.v, self.reuse, self.traffic, self.tables, limits, timed, self.parameters)
        max_cycles = self.spatial_bounds.max_cycles(self.trial_bound)
        self.latency = None
        if max_cycles is not None:
            self.latency = Latency(self.v, self.reuse, self.traffic, self.streams, max_cycles)

    def _add_constraints(self, candidates: Candidates) -> None:
        """What confines the problem to its subspace and its candidates."""
        if self.subspace.is_aligned:
            self._some_tensor_is_row_aligned()
        #: A variable of its own, so that all bounds on it (the trial bound, those of candidates, a proven one) narrow
        #: one domain: CP-SAT does not detect that two linear constraints over the same terms contradict each other.
        self.cost = self.b.interval(0, self.trial_bound, "cost")
        in_pe = [self.v.stored(Level.PE, t) for t in Tensor]
        if candidates.tiles is None:
            self._is_a_candidate_vector(candidates, in_pe)
        else:
            self._is_a_candidate_tile(candidates, candidates.tiles, in_pe)
        self._has_dataflow_class(candidates.vectors, in_pe)

    def _add_objective(self) -> None:
        """Minimize alpha * latency + beta * energy in integers (Eq. 41-43, section 5.6.5), within the budget."""
        cycle_weight, fj_weight = self.objective.weights
        machine, activations = to_machine(self.arch), sum(self.streams.activations)
        energy = sum(self.traffic.energy) + self.layer.macs * machine.mac_fj + machine.activation_fj * activations
        expression = fj_weight * energy if fj_weight else 0
        if self.latency is not None:
            # Not +=: with weight 1 the expression is the energy itself, which has a budget of its own.
            expression = expression + cycle_weight * (self.latency.cycles + machine.pipeline_latency)
        self._keeps_budget(energy)
        self.b.model.add(self.cost >= expression)
        self.b.model.minimize(self.cost)

    @property
    def subspace(self) -> Subspace:
        """The subspace whose mappings these are."""
        return self.restriction.subspace

    def serves_up_to(self, cutoff: int | None) -> bool:
        """Lower the trial bound to the cutoff, if there is one; return whether the problem may then be solved again.

        It may if the trial bound has not fallen far: domains stay those of the first one, but building the problem anew
        would take longer than smaller domains save.
        """
        if cutoff is not None and cutoff < self.trial_bound:
            self.trial_bound = cutoff
            self.b.imply([], self.cost <= cutoff)
        return self.trial_bound >= self.parameters.reuse_share * self.first_trial_bound

    # --- Cuts --------------------------------------------------------------------------------------------------------

    def exclude(self, inner_extents: Sequence[int], refuted_up_to: int) -> None:
        """Demand that mappings with some extents inside the outer loops cost more than `refuted_up_to`.

        Valid if that is proven. If it is at least the trial bound, these mappings are forbidden.
        """
        differ = [self.b.differs(x, n) for x, n in zip(self.v.e1, inner_extents, strict=True)]
        if refuted_up_to >= self.trial_bound:
            self._excluded.add(tuple(inner_extents))
            self.b.clause(differ)
        else:
            costs_more = self.b.boolean("costs_more")
            self.b.clause([*differ, costs_more])
            self.b.imply([costs_more], self.cost >= refuted_up_to + 1)

    def may_contain(self, extents: dict[Dim, int]) -> bool:
        """Whether mappings with these extents of some dims inside the outer loops are not known to be excluded."""
        if self.v.inner_extents is not None:
            return all(self.v.inner_extents[d] == n for d, n in extents.items())
        return len(extents) < len(Dim) or tuple(extents[d] for d in Dim) not in self._excluded

    # --- Constraints -------------------------------------------------------------------------------------------------

    def _some_tensor_is_row_aligned(self) -> None:
        """In the aligned subspace the row buffer stores a tensor: the other subspaces have all other mappings."""
        stored = [self.v.stored(Level.ROW_BUFFER, t) for t in Tensor]
        self.b.model.add_bool_or([s for s in stored if s is not False])

    def _is_a_candidate_tile(self, candidates: Candidates, tiles: Ints, in_pe: list[Lit]) -> None:
        """Spatial mapping, PE storage and tile are those of one candidate, and the cost is at least its bound (B12)."""
        bound = self.b.integer(tiles[:, COST].tolist(), "tile_bound")
        rows = np.column_stack([candidates.vectors[tiles[:, VECTOR]], tiles[:, INSIDE_PE.start :]])
        flags = map(self.b.flag, in_pe)
        self.b.table([*self.v.pes, *self.v.lanes, *flags, *self.v.e0, *self.v.e1, bound], rows)
        self.b.model.add(self.cost >= bound)

    def _is_a_candidate_vector(self, candidates: Candidates, in_pe: list[Lit]) -> None:
        """The spatial mapping is that of a candidate, and the cost is at least its bound for the PE storage (B1).

        The table has a row per spatial mapping, with one bound per set of tensors in the PEs: a row per pair of both
        would make it several times as large.
        """
        vectors = candidates.vectors
        if not len(vectors):
            self.b.clause([])
            return
        spatial, row = distinct_rows(vectors[:, SPATIAL])
        sets = list(itertools.product((0, 1), repeat=len(Tensor)))
        bounds = np.full((len(spatial), len(sets)), self.b.bounds_of(self.cost)[1] + 1)
        bounds[row, vectors[:, IN_PE] @ [4, 2, 1]] = candidates.lower_bounds
        different, column = distinct_rows(np.vstack([bounds.min(axis=1), bounds.T]))
        names = ["spatial_bound"] * len(different)
        found = self.b.lookup([*self.v.pes, *self.v.lanes], np.column_stack([spatial, different.T]), names)
        least, *of_sets = (found[i] for i in column)
        self.b.model.add(self.cost >= least)
        for stored, bound in zip(sets, of_sets, strict=True):
            where = [x if held else self.b.negated(x) for x, held in zip(in_pe, stored, strict=True)]
            self.b.imply(where, self.cost >= bound)

    def _has_dataflow_class(self, vectors: Ints, in_pe: list[Lit]) -> None:
        """The mapping can have the dataflow class that is asked for, if any is."""
        wanted = self.restriction.constraints.dataflow
        if wanted in STATIONARY:
            DataflowRule(self.v, self.reuse, wanted, vectors.tolist(), list(map(self.b.flag, in_pe)))

    def _keeps_budget(self, energy: Int) -> None:
        """Energy and row activations are within the budget; that of cycles limits the domain of the latency."""
        budget = self.restriction.budget
        if budget.fj is not None:
            self.b.model.add(energy <= budget.fj)
        if budget.activations is not None:
            self.b.model.add(sum(self.streams.activations) <= budget.activations)
