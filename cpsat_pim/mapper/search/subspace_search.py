"""The search of one subspace by destructive lower bounds (Klein & Scholl 1999).

A *trial bound* is the most that a mapping may cost. The master problem with a trial bound holds only what can cost at
most that, so it is small. If it is infeasible, nothing in the subspace costs as little, and the next trial bound is
higher. If it has a solution, the solution's exact cost is counted outside the solver (`completion`). If that equals the
master problem's bound, it is optimal in the subspace. If not, the master problem underestimated the solution: a cut
corrects it (`cuts`), and it is solved again.
"""

import itertools
import math
from collections.abc import Iterator, Sequence

from ortools.sat.python import cp_model

from cpsat_pim.mapper.bounds.spatial_bounds import SpatialBounds
from cpsat_pim.mapper.bounds.tile_bounds import TileBounds
from cpsat_pim.mapper.model.master import MasterProblem
from cpsat_pim.mapper.search.any_mapping import AnyMapping, InvalidMaster
from cpsat_pim.mapper.search.completion import Completions
from cpsat_pim.mapper.search.cuts import TooManyOrders
from cpsat_pim.mapper.search.emptiness import has_no_mapping
from cpsat_pim.mapper.search.refutations import Refutations
from cpsat_pim.mapper.search.solution import Solution
from cpsat_pim.mapper.search.state import SearchState
from cpsat_pim.mapper.search.trial_bounds import TrialBounds, above
from cpsat_pim.mapper.space.candidates import Candidates
from cpsat_pim.mapper.space.restriction import Restriction
from cpsat_pim.mapper.space.subspace import Subspace


class SubspaceSearch:
    """The search of one subspace, up to its optimum or until nothing in it can beat the incumbent.

    No mapping of the subspace costs less than `lower_bound`; None if there is no mapping. `forbidden`: the solutions
    that were forbidden without a complete count (docs/solver.md, C10), and what they cost at least.
    """

    def __init__(self, state: SearchState, restriction: Restriction) -> None:
        self.state, self.restriction, self.subspace = state, restriction, restriction.subspace
        self.parameters = state.parameters
        self.spatial_bounds = SpatialBounds(state.layer, state.arch, state.objective, restriction)
        state.spatial_bounds.append(self.spatial_bounds)
        key = (self.subspace.is_aligned, restriction.constraints, restriction.most_fetched)
        self.tiles = TileBounds(
            self.spatial_bounds,
            state.tables[restriction.bank_counts],
            state.tile_enumerations[key],
            self._count_tiles,
            lambda: state.is_over,
            parameters=state.parameters,
        )
        self.tiles.keep_energy_budget(state.budget_enumerations[key])
        self.lower_bound = self.spatial_bounds.lower_bound
        if self.lower_bound is not None:
            self._raise_lower_bound(state.known_bound)
        self.forbidden: list[tuple[int, Solution]] = []
        #: The master problem to be solved again with more cuts.
        self.master: MasterProblem | None = None
        #: Whether there is no higher trial bound, and no incumbent.
        self.is_exhausted = False
        #: Extents inside the outer loops of solutions so far; and those that are refuted.
        self.returned_extents: set[tuple[int, ...]] = set()
        self.refutations = Refutations(state, self._build_master, self._add_cuts_of)
        #: Solves so far of the relaxation over all splits of outer loops.
        self.relaxed_split_solves = 0
        #: The relaxation over all splits that was solved last, while the extents of its solutions wait.
        self._relaxed: tuple[MasterProblem, list[Solution]] | None = None
        self.trial_bounds = TrialBounds(state, self.subspace, self.tiles)
        self._tile_raises = self._raise_by_tiles()
        self._any_mapping = AnyMapping(state, self.tiles, self._build_master)
        self._has_looked_ahead = False

    @property
    def is_open(self) -> bool:
        """Whether the subspace may hold a mapping that beats the incumbent."""
        cutoff = self.state.cutoff
        return self.lower_bound is not None and (cutoff is None or self.lower_bound <= cutoff)

    @property
    def is_ready(self) -> bool:
        """Whether there is something to solve."""
        return self.is_open and not (self.is_exhausted and self.state.cutoff is None)

    @property
    def bound(self) -> int | None:
        """The least that a mapping of the subspace costs if it beats the incumbent; None if none does."""
        to_beat = self.state.value_to_beat
        known = [self.lower_bound, *(bound for bound, _ in self.forbidden)]
        return min((n for n in known if n is not None and (to_beat is None or n < to_beat)), default=None)

    # --- One step ----------------------------------------------------------------------------------------------------

    def step(self, until: float, others: int | None = None) -> None:
        """Raise the lower bound, or solve one master problem and use its outcome; end at so many seconds of the search.

        `others`: the least lower bound of the other subspaces. A step may solve several small master problems, where it
        refutes extents; not yet where it raised the bound above that of the others.
        """
        if self._relaxed is not None:
            relaxed, self._relaxed = self._relaxed, None
            self.master = relaxed[0] if self._use_optimum(*relaxed, until) else None
            return
        if self.subspace is Subspace.SPLIT and self.trial_bounds.first_of_split(self.lower_bound or 0) is None:
            self.refutations.refute_underestimated(until)
        master = self._next_master()
        if master is None:
            return
        self.master = None
        result = self.state.solve(master, until, self._most_work)
        self.trial_bounds.adapt(result)
        if result.status == cp_model.INFEASIBLE:
            self._raise_lower_bound(master.trial_bound + 1)
            return
        self._raise_lower_bound(result.bound or 0)
        is_optimal = result.status == cp_model.OPTIMAL
        if is_optimal and master.v.any_split and others is not None and others < (self.lower_bound or 0):
            self._relaxed = (master, result.solutions)
        elif is_optimal:
            is_open = self._use_optimum(master, result.solutions, until)
            self.master = master if is_open and result.work <= self.parameters.heavy_work else None
        elif result.solutions and not master.v.any_split:
            self.state.complete(result.solutions[0], 0)

    @property
    def _most_work(self) -> float:
        """The most work of one solve."""
        if self.state.is_hard:
            return self.trial_bounds.most_work
        parameters = self.parameters
        return parameters.solve_work_in_banks if self.restriction.shared_parts else parameters.solve_work

    def _raise_lower_bound(self, bound: int) -> None:
        self.lower_bound = max(self.lower_bound or 0, bound)

    def _use_optimum(self, master: MasterProblem, solutions: list[Solution], until: float) -> bool:
        """Complete the optimum of a master problem, and add cuts; return whether to solve the problem again."""
        if self.state.add_early_cuts(master, solutions):
            return True
        if master.v.any_split:
            return self._use_relaxed_split(master, solutions, until)
        lower_bound = self.lower_bound or 0
        completions = self.state.complete(solutions[0], lower_bound)
        self.state.complete_others(solutions[1:], lower_bound)
        if not self.is_open:
            return False
        extents = solutions[0].inner_extents
        if extents not in self.returned_extents:
            self.returned_extents.add(extents)
            if self.subspace is Subspace.MERGED:
                self.state.underestimated.append(extents)
            self._add_cuts_of(master, solutions, completions, lower_bound)
            return True
        master.b.model.add(master.cost >= lower_bound)
        return self._exclude(master, extents, until)

    def _use_relaxed_split(self, master: MasterProblem, solutions: list[Solution], until: float) -> bool:
        """Exclude the extents of a relaxation's solutions, which say no more than which outer loops there are."""
        distinct = dict.fromkeys(solution.inner_extents for solution in solutions)
        pool = itertools.islice(distinct, self.parameters.relaxed_split_pool)
        if not all(self._exclude(master, extents, until) for extents in pool):
            return False
        self.relaxed_split_solves += 1
        return self.relaxed_split_solves < self.parameters.relaxed_split_solves

    def _exclude(self, master: MasterProblem, extents: tuple[int, ...], until: float) -> bool:
        """Exclude from a master problem all mappings with the extents of a solution inside its outer loops; return
        False if they could not be refuted in time.

        The master problem of so few is soon solved, the sooner the lower its trial bound. So the bound is the cutoff
        for split loops, which are searched last, and else little more than what may matter now.
        """
        cutoff = self.state.cutoff
        trial_bound = master.trial_bound if cutoff is None else min(master.trial_bound, cutoff)
        if self.subspace is not Subspace.SPLIT:
            trial_bound = min(trial_bound, above(self.lower_bound or 0, self.parameters.refutation_step))
        return self.refutations.exclude(master, extents, trial_bound, until)

    def _add_cuts_of(
        self, master: MasterProblem, solutions: list[Solution], completions: Completions, lower_bound: int
    ) -> None:
        """Add the cuts of a master problem's solutions; remember a solution with too many loop orders."""
        try:
            self.state.add_cuts(master, solutions, completions, lower_bound)
        except TooManyOrders:
            self.forbidden.append((lower_bound, solutions[0]))

    def count_forbidden(self) -> None:
        """Count all loop orders of the forbidden solutions that may beat the incumbent, as far as the time allows."""
        cutoff, forbidden = self.state.cutoff, self.forbidden
        may_win = [each for each in forbidden if cutoff is None or each[0] <= cutoff]
        self.forbidden = [(bound, solution) for bound, solution in may_win if not self.state.count_all(solution)]

    # --- Bounds of tiles ---------------------------------------------------------------------------------------------

    def _raise_by_tiles(self) -> Iterator[int]:
        """Raise the lower bound to the least that a tile costs by its bound, without a solve: for one trial bound after
        the other, each of which is yielded if no tile costs as little.
        """
        base = self.lower_bound or 0
        for step in self.parameters.tile_steps:
            cutoff = self.state.cutoff
            trial = above(base, step) if cutoff is None else min(above(base, step), cutoff)
            if self.lower_bound is None or self.lower_bound > trial:
                continue
            if self._lists_all_tiles and cutoff is not None and trial >= cutoff * self.parameters.all_tiles_share:
                trial = cutoff
                self.tiles.enumerate_up_to(cutoff)
            least = self.tiles.lower_bound(trial)
            if least is None:
                return
            self._raise_lower_bound(least)
            if least <= trial or trial == cutoff:
                return
            yield trial

    @property
    def _lists_all_tiles(self) -> bool:
        """Whether all tiles up to the cutoff are enumerated for master problems anyway."""
        return self.state.is_hard and self.subspace is not Subspace.MERGED

    def _count_tiles(self, tiles: int) -> None:
        """Count the bounding of so many tiles as work."""
        self.state.statistics["work"] += self.parameters.tile_work * tiles

    @property
    def _lookahead(self) -> int | None:
        """The cost up to which a hard layer's tiles are enumerated at once; None if they are not."""
        cutoff = self.state.cutoff
        if cutoff is None or not self.state.is_hard or self.subspace is not Subspace.ALIGNED:
            return None
        return min(cutoff, above(self.lower_bound or 0, self.parameters.lookahead_step))

    # --- Master problems ---------------------------------------------------------------------------------------------

    def _next_master(self) -> MasterProblem | None:
        """Return the master problem to solve; None if the subspace is closed or exhausted, or if its lower bound was
        raised without a solve, so that it may be another subspace's turn.
        """
        if self.state.is_hard and not self.tiles.is_tight:
            self._tighten()
        master, cutoff = self.master, self.state.cutoff
        if master is not None and master.serves_up_to(cutoff):
            self.state.cut_pool_of(self.restriction).add_to(master)  # those that other subspaces have made meanwhile
            return master
        if master is None and self.tiles.is_enabled and next(self._tile_raises, None) is not None:
            return None
        if self._is_worth_seeking:
            self._any_mapping.among_cheapest_tiles(self.lower_bound or 0, self.state.request.time_limit)
            cutoff = self.state.cutoff
        if not self._has_looked_ahead and self._lookahead is not None:
            self._has_looked_ahead = True
            self.tiles.enumerate_up_to(self._lookahead)
        trial_bound = cutoff if master is not None else self.trial_bounds.next(self.lower_bound or 0)
        if not self.is_open:
            return None
        if trial_bound is not None:
            return self._build_master(trial_bound)
        self._exhaust()
        return None

    @property
    def _is_worth_seeking(self) -> bool:
        """Whether a mapping is sought among the cheapest tiles: in a hard layer, and as long as no solve has found one
        that costs less than the one that was built without a search; once each.
        """
        state, any_mapping = self.state, self._any_mapping
        if self.subspace is Subspace.SPLIT:  # hardly all that fits
            return False
        is_first = state.incumbent is not None and state.incumbent is state.constructed and not any_mapping.has_tried
        return is_first or (state.is_hard and not any_mapping.has_tried_cheapest)

    def _tighten(self) -> None:
        """Bound tiles as tightly as in a hard layer from now on, from the first trial bound of these on again."""
        self.tiles.tighten()
        self._tile_raises, self.master = self._raise_by_tiles(), None

    def _exhaust(self) -> None:
        """End without an incumbent at the highest trial bound; prove that there is no mapping, if that can be done."""
        self.state.turn_ends = math.inf
        if has_no_mapping(self.state, self.restriction):
            self.lower_bound = None
        self.is_exhausted = True

    def _build_master(
        self, trial_bound: int, extents: Sequence[int] | None = None, candidates: Candidates | None = None
    ) -> MasterProblem:
        """Return the master problem with a trial bound and all cuts so far.

        `extents`: of mappings with these extents inside their outer loops only.

        Raises:
            InvalidMaster: CP-SAT cannot add up costs as high as the trial bound.
        """
        any_split = self._is_relaxed_split(extents)
        master = MasterProblem(
            self.tiles, trial_bound, any_split=any_split, inner_extents=extents, candidates=candidates
        )
        if extents is None:
            self.refutations.add_to(master)
        self.state.cut_pool_of(self.restriction).add_to(master)
        master.b.model.add(master.cost >= (self.lower_bound or 0))
        if problem := master.b.model.validate():
            raise InvalidMaster(f"{self.state.layer.name}: the model is invalid: {problem}")
        return master

    def _is_relaxed_split(self, extents: Sequence[int] | None) -> bool:
        """Whether a master problem is the relaxation over all splits of outer loops.

        Where bounds of tiles leave few candidates, master problems of single splits are soon solved, too.
        """
        is_early = self.relaxed_split_solves < self.parameters.relaxed_split_solves
        has_few = self.tiles.is_enabled and not (self.state.is_hard or self.restriction.shared_parts)
        return self.subspace is Subspace.SPLIT and extents is None and is_early and not has_few

    # --- Any mapping at all (heuristic) ------------------------------------------------------------------------------

    def seek_any_mapping(self, step: float | None, until: float) -> None:
        """Seek any mapping below a trial bound, as a fraction above the subspace's first bound, or among the cheapest
        tiles if that is None; end at so many seconds of the search. A trial bound that is refuted raises the lower one.
        """
        if step is None:
            self._any_mapping.among_cheapest_tiles(self.lower_bound or 0, until)
            return
        trial_bound, cutoff = above(self.spatial_bounds.lower_bound or 0, step), self.state.cutoff
        all_candidates = Candidates(*self.spatial_bounds.candidates(trial_bound), None)
        if self._any_mapping.below(trial_bound, all_candidates, until) == cp_model.INFEASIBLE:
            self._raise_lower_bound(1 + (trial_bound if cutoff is None else min(trial_bound, cutoff)))

    def seek_in_hard_layer(self, until: float) -> None:
        """Raise the lower bound of a hard layer's subspace by bounds of tiles, and seek a mapping among the cheapest
        ones; end at so many seconds of the search.
        """
        if self.subspace is Subspace.SPLIT or self._any_mapping.has_tried_cheapest:
            return
        if not self.tiles.is_tight:
            self._tighten()
        if next(self._tile_raises, None) is None and self.is_open:
            self._any_mapping.among_cheapest_tiles(self.lower_bound or 0, until)

    def seek_apart(self, until: float) -> None:
        """Seek a mapping in which loads over one link do not coincide (`Links.keep_loads_apart`)."""
        if self.state.is_over or self.state.cutoff is None or not self.is_open:
            return
        master = self._build_master(self.state.cutoff)
        if master.latency is not None and master.latency.links.keep_loads_apart():
            for solution in self.state.solve(master, until, self.parameters.solve_work).solutions:
                self.state.complete(solution, 0)
