"""What the searches of all subspaces of one layer share: incumbent, cuts, counted streams, time and statistics."""

import itertools
import math
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import Any

import numpy as np

from cpsat_pim.arch import PIMArchitecture
from cpsat_pim.base.dims import Tensor
from cpsat_pim.base.interrupts import Stop
from cpsat_pim.evaluate.cost import predict_until
from cpsat_pim.mapper.bounds.countable import HIGHEST
from cpsat_pim.mapper.bounds.spatial_bounds import SpatialBounds
from cpsat_pim.mapper.bounds.tile_bounds import TileEnumerations
from cpsat_pim.mapper.model.master import MasterProblem
from cpsat_pim.mapper.search.completion import Completion, Completions
from cpsat_pim.mapper.search.cut_pool import CutPool
from cpsat_pim.mapper.search.cuts import CutGenerator, TooManyOrders
from cpsat_pim.mapper.search.held_cut import HeldScans, held_cuts
from cpsat_pim.mapper.search.orders import Order
from cpsat_pim.mapper.search.placement import OutOfTime, StreamCache
from cpsat_pim.mapper.search.request import SolveRequest
from cpsat_pim.mapper.search.returns_cut import ReturningTiles, returning_cuts
from cpsat_pim.mapper.search.solution import Solution
from cpsat_pim.mapper.search.solver import SolveResult, solve_master
from cpsat_pim.mapper.space.banks import searched_banks
from cpsat_pim.mapper.space.restriction import Restriction
from cpsat_pim.mapping import BankCounts, Banks, Mapping, banks_text
from cpsat_pim.mapping.check import check_mapping
from cpsat_pim.mapping.constraints import Constraints, check_constraints
from cpsat_pim.workload import ConvWorkload
from tables.bounds.shapes import ShapeTable
from tables.counts.walk import NO_STREAM_LIMIT, StreamLimit

#: Whether tensors are row-aligned, the constraints, and the tensor that most loops fetch.
TileKey = tuple[bool, Constraints, Tensor | None]


class SearchState:
    """The incumbent of a layer, its cuts, the streams counted so far, the time and the statistics of its search.

    `is_walked`: latencies of candidates are those of the walk, else those by the formula (docs/model.md, section 7).
    """

    def __init__(
        self,
        layer: ConvWorkload,
        arch: PIMArchitecture,
        request: SolveRequest,
        stop: Stop | None = None,
        *,
        is_walked: bool = True,
    ) -> None:
        self.layer, self.arch, self.request, self.is_walked = layer, arch, request, is_walked
        self.objective, self.parameters = request.objective, request.parameters
        self.started = time.monotonic()
        #: Seconds of the search at which the subspace that is searched now has to give way.
        self.turn_ends = math.inf
        self.stop: Stop = stop or threading.Event()
        self.incumbent: Completion | None = None
        #: The incumbent that was built without a search; and the one in whose neighbourhood the last descent ended.
        self.constructed: Completion | None = None
        self.descended: Completion | None = None
        #: Descents so far, and their seconds; and how often, at last, they found no better incumbent.
        self.descents, self.descent_seconds, self.vain_descents = 0, 0.0, 0
        #: All incumbents so far, the best one last.
        self.incumbents: list[Completion] = []
        #: The least that any mapping costs, as far as is known at the start.
        self.known_bound = 0
        #: Shape tables of I, W, O, by how many banks each tensor has.
        self.tables: defaultdict[BankCounts, list[ShapeTable]] = defaultdict(list)
        #: The bounds of all subspaces.
        self.spatial_bounds: list[SpatialBounds] = []
        self.counted_streams: StreamCache = {}
        #: Enumerated tiles, by whether tensors are row-aligned, by constraints and by the tensor that most loops fetch;
        #: and those that keep a budget of energy.
        self.tile_enumerations: defaultdict[TileKey, TileEnumerations] = defaultdict(TileEnumerations)
        self.budget_enumerations: defaultdict[TileKey, TileEnumerations] = defaultdict(TileEnumerations)
        #: Cuts, by the loop orders that constraints leave to a subspace and by the banks of the tensors.
        self._cut_pools: defaultdict[tuple[Order, Banks, BankCounts], CutPool] = defaultdict(
            lambda: CutPool(lambda: self.is_turn_over)
        )
        #: Extents inside the outer loops of merged solutions whose exact cost was above the master problem's bound.
        self.underestimated: list[tuple[int, ...]] = []
        self.statistics: dict[str, Any] = {"programs": 0, "conflicts": 0, "branches": 0, "work": 0.0, "corrections": 0}

    @property
    def seconds(self) -> float:
        """Seconds since the search began."""
        return time.monotonic() - self.started

    @property
    def is_stopped(self) -> bool:
        """Whether a stop was asked for."""
        return self.stop.is_set()

    @property
    def is_over(self) -> bool:
        """Whether the time is up or a stop was asked for."""
        return self.is_stopped or self.seconds >= self.request.time_limit

    @property
    def is_turn_over(self) -> bool:
        """Whether the time of the subspace that is searched now is up, or all of the time."""
        return self.is_over or self.seconds >= self.turn_ends

    @property
    def is_hard(self) -> bool:
        """Whether the layer has taken much work: then its tiles are bounded, and trial bounds rise by small steps."""
        return bool(self.statistics["work"] > self.parameters.hard_work)

    @property
    def takes_long(self) -> bool:
        """Whether the layer is hard, or a part of its time is over: streams may take long to count, too."""
        return self.is_hard or self.seconds > self.parameters.long_share * self.request.time_limit

    @property
    def sees_cycles(self) -> bool:
        """Whether the objective or the budget depends on the latency."""
        return self.objective.weights[0] > 0 or self.request.budget.cycles is not None

    # --- The incumbent -----------------------------------------------------------------------------------------------

    @property
    def value_to_beat(self) -> int | None:
        """The cost that a useful mapping stays below: the incumbent's, or the request's; None if there is neither."""
        return self.incumbent.value if self.incumbent else self.request.value_to_beat

    @property
    def cutoff(self) -> int | None:
        """The most that a useful mapping may cost: one below the value to beat, and no more than master problems can
        add up; None if there is no value to beat.
        """
        return None if self.value_to_beat is None else min(self.value_to_beat - 1, HIGHEST)

    def start_from(self, start: Mapping) -> None:
        """Make a given mapping the incumbent.

        Raises:
            ValueError: it is outside the space (illegal), or breaks a constraint or the budget.
        """
        # A start outside the space could cost less than the optimum, and the proof would not be one of the space.
        constraints = self.request.constraints
        problems = check_mapping(self.layer, self.arch, start) or check_constraints(start, constraints)
        if not problems and (start.banks, start.bank_counts) not in searched_banks(self.arch, constraints):
            problems = [f"banks: {banks_text(start.banks)} are searched only if they are fixed (banks, bank_counts)"]
        if problems:
            raise ValueError(f"{self.layer.name}: the mapping to start from: {'; '.join(problems)}")
        if not self.offer(start):
            raise ValueError(f"{self.layer.name}: the mapping to start from costs more than may be spent")

    def offer(self, mapping: Mapping, is_over: Callable[[], bool] = lambda: False) -> bool:
        """Make a legal mapping the incumbent if it costs less; return whether it keeps the budget.

        False, too, if its streams are not counted when `is_over` says so.
        """
        is_walked = self.is_walked and self.sees_cycles
        prediction = predict_until(is_over, self.layer, self.arch, mapping, is_walked=is_walked)
        if prediction is None or not self.request.budget.covers(figures := prediction.figures):
            return False
        value = self.objective.value(figures.latency_cycles, figures.energy_fj)
        self.update_incumbent(Completion(mapping, prediction, value))
        return True

    def update_incumbent(self, completion: Completion | None) -> None:
        """Make a completion the incumbent if it costs less than the value to beat."""
        if completion is not None and (self.value_to_beat is None or completion.value < self.value_to_beat):
            self.incumbent = completion
            self.incumbents.append(completion)

    # --- Solves ------------------------------------------------------------------------------------------------------

    def solve(self, master: MasterProblem, until: float, work: float = math.inf) -> SolveResult:
        """Solve a master problem; end at so many seconds of the search, or after so much work of CP-SAT."""
        return self._solve(master, max(0.1, until - self.seconds), first=False, work=work)

    def solve_for_any(self, master: MasterProblem, until: float = math.inf) -> SolveResult:
        """Return the first solution of a master problem that CP-SAT finds within `any_solve_seconds`; end at so many
        seconds of the search.
        """
        return self._solve(master, max(0.1, min(self.parameters.any_solve_seconds, until - self.seconds)), first=True)

    def _solve(self, master: MasterProblem, seconds: float, *, first: bool, work: float = math.inf) -> SolveResult:
        result = solve_master(master, self.request, self.stop, seconds, first=first, work=work)
        self.statistics["programs"] += 1
        self.statistics["conflicts"] += result.conflicts
        self.statistics["branches"] += result.branches
        self.statistics["work"] += result.work
        return result

    # --- Completions and cuts ----------------------------------------------------------------------------------------

    def complete(self, solution: Solution, good_enough: int) -> Completions:
        """Evaluate completions of a solution exactly, until one costs at most `good_enough`; update the incumbent."""
        completions = self.completions(solution)
        with suppress(OutOfTime):
            for completion in completions.improving(self._while_time(completions.likely_orders()), good_enough):
                self.update_incumbent(completion)
        return completions

    def count_all(self, solution: Solution) -> bool:
        """Evaluate all completions of a solution, and update the incumbent; return whether the time allowed for all."""
        completions = self.completions(solution)
        orders = completions.orders.each_of_levels(completions.orders.levels_that_matter)
        in_time = itertools.takewhile(lambda _: not self.is_over, orders)
        try:
            for completion in completions.improving(in_time):
                self.update_incumbent(completion)
        except OutOfTime:
            return False
        return not self.is_over

    def complete_others(self, solutions: Iterable[Solution], lower_bound: int) -> None:
        """Evaluate completions of a solve's other solutions while the incumbent costs far more than the lower bound
        (heuristic): the lower it is, the smaller are the next master problems.
        """
        for solution in solutions:
            if self.cutoff is not None and self.cutoff <= lower_bound * (1 + self.parameters.far_incumbent):
                return
            self.complete(solution, lower_bound)

    def completions(self, solution: Solution) -> Completions:
        """Return all mappings that a solution's draft leaves open and that may cost less than the value to beat."""
        return Completions(
            solution.master.spatial_bounds.restriction,
            self.objective,
            solution.draft,
            solution.outside,
            solution.innermost,
            self.counted_streams,
            self.stream_limits,
            None if self.value_to_beat is None else self.value_to_beat - 1,
            self.parameters,
            lambda: self.is_turn_over,
            is_walked=self.is_walked,
        )

    def stream_limits(self, trial_bound: int | None) -> list[StreamLimit]:
        """Return what each tensor's stream can take in a mapping that costs at most a trial bound, in any subspace.

        Of any subspace, since cuts and counted streams hold in all of them.
        """
        if trial_bound is None or trial_bound > HIGHEST or not self.spatial_bounds:
            return [NO_STREAM_LIMIT] * 3
        of_subspaces = np.array([bounds.stream_limits(trial_bound) for bounds in self.spatial_bounds])
        return [StreamLimit(*limits) for limits in of_subspaces.max(axis=0).tolist()]

    def _while_time(self, orders: Iterable[Order]) -> Iterator[Order]:
        """Yield the first order, and more until the time is up."""
        for order in orders:
            yield order
            if self.is_turn_over:
                return

    def cut_pool_of(self, restriction: Restriction) -> CutPool:
        """Return the cuts that hold in a subspace: those that were made under the same constraints of loop orders, for
        the same tensors in a bank and the same numbers of banks.

        A minimum over the orders that constraints leave may be too high for a subspace whose outer loops go by another
        level's name, and so by other constraints.
        """
        return self._cut_pools[restriction.constraints.order, restriction.banks, restriction.bank_counts]

    def add_early_cuts(self, master: MasterProblem, solutions: Iterable[Solution]) -> bool:
        """Add to a master problem the cuts of its solutions that need no completion (docs/solver.md, C13 and C14);
        return whether there are any.
        """
        cuts = dict[HeldScans | ReturningTiles, None]()  # each once, in order
        for solution in solutions:
            cuts |= dict.fromkeys([*held_cuts(solution), *returning_cuts(solution)])
        for cut in cuts:
            self.cut_pool_of(master.spatial_bounds.restriction).add(cut, master)
        return bool(cuts)

    def add_cheaper_cuts(self, master: MasterProblem, solution: Solution) -> bool:
        """Add to a master problem the cuts of a solution's streams that are counted far sooner than another one; return
        whether any was underestimated. Where there is an incumbent, that may save counting the long one.
        """
        if self.cutoff is None:
            return False
        cut_pool = self.cut_pool_of(master.spatial_bounds.restriction)
        with suppress(OutOfTime):
            return CutGenerator(solution, self.completions(solution), cut_pool).add_cheaper_stream_cuts()
        return False

    def add_cuts(
        self, master: MasterProblem, solutions: list[Solution], completions: Completions, lower_bound: int
    ) -> None:
        """Add the cuts of a master problem's solutions, and that none of its mappings costs less than its proven bound.

        `completions`: those of the first solution. All cuts are made of that one, cheap ones of the others, too.

        Raises:
            TooManyOrders: the first solution was forbidden (docs/solver.md, C10), but may cost as little as the bound.
        """
        self.statistics["corrections"] += 1
        master.b.model.add(master.cost >= lower_bound)
        cut_pool = self.cut_pool_of(master.spatial_bounds.restriction)
        cuts = CutGenerator(solutions[0], completions, cut_pool)
        try:
            for solution in solutions[1:]:
                CutGenerator(solution, self.completions(solution), cut_pool).add_cheap_stream_cuts()
            self.update_incumbent(cuts.add_cuts())
        except OutOfTime:
            pass
        except TooManyOrders:
            cuts.forbid()
            raise
