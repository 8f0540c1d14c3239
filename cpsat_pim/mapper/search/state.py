"""What the search for a layer's optimum knows, whichever part of the space it is in."""

import math
import threading
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
from attrs import field, frozen
from ortools.sat.sat_parameters_pb2 import SatParameters

from cpsat_pim.arch import PIMArchitecture
from cpsat_pim.base.validate import is_a, or_none, seconds_or_none, seed_number
from cpsat_pim.evaluate.cost import predict
from cpsat_pim.mapper.bounds.countable import HIGHEST
from cpsat_pim.mapper.bounds.spatial_bounds import SpatialBounds
from cpsat_pim.mapper.bounds.tile_bounds import Looks
from cpsat_pim.mapper.model.master import MasterProblem
from cpsat_pim.mapper.result import NO_LIMIT, Budget, Objective
from cpsat_pim.mapper.search.completion import Completion, Completions, Counted, Order
from cpsat_pim.mapper.search.cut_pool import CutPool
from cpsat_pim.mapper.search.cuts import CutGenerator, OutOfTime, TooManyOrders
from cpsat_pim.mapper.search.solution import Solution
from cpsat_pim.mapper.search.solver import SolveResult, solve_master
from cpsat_pim.mapper.space.restriction import Restriction
from cpsat_pim.mapping import Mapping
from cpsat_pim.mapping.constraints import FREE, Constraints, check_constraints
from cpsat_pim.workload import ConvWorkload
from tables.bounds.shapes import ShapeTable
from tables.counts.walk import NO_STREAM_LIMIT, StreamLimit

#: Seconds for finding any mapping once the time is up.
_FIRST_SECONDS = 5.0


def _of_the_solver(instance: Any, attribute: Any, value: dict[str, Any]) -> None:
    """Parameters that CP-SAT has, with values of their types, but for those with which it calls optimal what is not."""
    try:
        SatParameters(**value)
    except (TypeError, ValueError) as error:
        raise ValueError(f"Options.parameters: must be parameters of CP-SAT ({error})") from error
    if gaps := {"absolute_gap_limit", "relative_gap_limit"} & set(value):
        raise ValueError(f"Options.parameters: must leave no gap open (got {', '.join(sorted(gaps))})")


@frozen(kw_only=True)
class Options:
    """`time_limit` seconds a layer, the solver's `seed`, whether a stop was asked for, what the mapping has to be like
    and may cost, and a legal mapping of that kind to beat, or a value of the integer objective: then what is not less
    is no answer, and none at all need be found. `parameters` of CP-SAT take the place of ours, so that optima can be
    proven in another way.

    Raises:
        ValueError: one of them is out of range or of the wrong type, or CP-SAT has no such parameter.
    """

    time_limit: float = field(default=60.0, validator=seconds_or_none)
    seed: int = field(default=0, validator=seed_number)
    stop: threading.Event = field(factory=threading.Event)
    start: Mapping | None = field(default=None, validator=or_none(is_a(Mapping)))
    constraints: Constraints = field(default=FREE, validator=is_a(Constraints))
    budget: Budget = field(default=NO_LIMIT, validator=is_a(Budget))
    beat: int | None = field(default=None, validator=or_none(is_a(int)))
    parameters: dict[str, Any] = field(factory=dict, validator=_of_the_solver)


class SearchState:
    """The best mapping of a layer so far, what was learnt, time and statistics."""

    def __init__(
        self,
        layer: ConvWorkload,
        arch: PIMArchitecture,
        objective: Objective,
        options: Options,
    ) -> None:
        self.layer, self.arch, self.objective, self.options = layer, arch, objective, options
        self.started = time.monotonic()
        self.best: Completion | None = None
        self.tables: list[ShapeTable] = []
        #: Of all parts of the space.
        self.spatial_bounds_of: list[SpatialBounds] = []
        self.counted: Counted = {}
        #: By whether tensors are row-aligned, and constraints.
        self.looks: defaultdict[tuple[bool, Constraints], Looks] = defaultdict(Looks)
        #: By the orders that constraints leave to a part.
        self._lessons: defaultdict[Order, CutPool] = defaultdict(lambda: CutPool(lambda: self.is_over))
        #: Extents inside outer loops that are not split, of answers that were counted too low.
        self.counted_low: list[tuple[int, ...]] = []
        self.statistics: dict[str, Any] = {"programs": 0, "conflicts": 0, "branches": 0, "work": 0.0, "corrections": 0}

    @property
    def seconds(self) -> float:
        """Since the search began."""
        return time.monotonic() - self.started

    @property
    def is_over(self) -> bool:
        """Whether the time is up or a stop was asked for."""
        return self.options.stop.is_set() or self.seconds >= self.options.time_limit

    @property
    def to_beat(self) -> int | None:
        """What costs as much is not better than what is known; None if nothing is."""
        return self.best.value if self.best else self.options.beat

    @property
    def ceiling(self) -> int | None:
        """The most that programs are asked for: no more than they can add up, even if what is to beat costs more."""
        return None if self.to_beat is None else min(self.to_beat - 1, HIGHEST)

    def begin_with(self, start: Mapping) -> None:
        """The mapping to beat.

        Raises:
            ValueError: it breaks a constraint or costs more than may be spent.
        """
        problems = check_constraints(start, self.options.constraints)
        if problems:
            raise ValueError(f"{self.layer.name}: the mapping to start from: {'; '.join(problems)}")
        figures = (prediction := predict(self.layer, self.arch, start)).figures
        if not self.options.budget.covers(figures):
            raise ValueError(f"{self.layer.name}: the mapping to start from costs more than may be spent")
        self.keep(Completion(start, prediction, self.objective.value(figures.latency_cycles, figures.energy_fj)))

    def keep(self, answer: Completion | None) -> None:
        """Keep a mapping if it is the best so far."""
        if answer is not None and (self.to_beat is None or answer.value < self.to_beat):
            self.best = answer

    def solve(self, master: MasterProblem, until: float, work: float = math.inf) -> SolveResult:
        """One solve that ends after so many seconds of the search, or so much of CP-SAT's work."""
        return self._ask(master, max(0.1, until - self.seconds), first=False, work=work)

    def solve_for_any(self, master: MasterProblem) -> SolveResult:
        """Any answer of a program, if there soon is one."""
        return self._ask(master, _FIRST_SECONDS, first=True)

    def _ask(self, master: MasterProblem, seconds: float, *, first: bool, work: float = math.inf) -> SolveResult:
        options = self.options
        reply = solve_master(master, seconds, options.seed, options.parameters, options.stop, first=first, work=work)
        self.statistics["programs"] += 1
        self.statistics["conflicts"] += reply.conflicts
        self.statistics["branches"] += reply.branches
        self.statistics["work"] += reply.work
        return reply

    def consider(self, solution: Solution, good_enough: int) -> Completions:
        """Complete a draft exactly and keep it if it is the best so far."""
        completions = self.completions(solution)
        self.keep(completions.best(self._while_time(completions.sorted_orders()), good_enough))
        return completions

    def completions(self, solution: Solution) -> Completions:
        """All mappings of a draft that may be better than the best."""
        return Completions(
            solution.master.spatial_bounds.restriction,
            self.objective,
            solution.draft,
            solution.outside,
            solution.inner,
            self.counted,
            self.rooms,
            None if self.to_beat is None else self.to_beat - 1,
        )

    def cut_pool_of(self, restriction: Restriction) -> CutPool:
        """What a part can be taught. What is the least over the orders that constraints leave may be less in a part
        whose outer loops go by another level's name, and so by other constraints.
        """
        return self._lessons[restriction.constraints.order]

    def rooms(self, target: int | None) -> list[StreamLimit]:
        """What each tensor's stream can take in a mapping that costs at most a target, whatever the part: lessons and
        counted streams are for all parts.
        """
        if target is None or target > HIGHEST:
            return [NO_STREAM_LIMIT] * 3
        of_parts = np.array([spatial_bounds.rooms(target) for spatial_bounds in self.spatial_bounds_of])
        return [StreamLimit(*room) for room in of_parts.max(axis=0).tolist()]

    def _while_time(self, orders: Iterable[Order]) -> Iterator[Order]:
        """The first order, and more until the time is up."""
        for order in orders:
            yield order
            if self.is_over:
                return

    def correct(self, master: MasterProblem, solutions: list[Solution], completions: Completions, proven: int) -> None:
        """Teach the program what its answers cost, and that nothing in it costs less than was proven.

        Raises:
            TooManyOrders: the answer was barred, but may cost as little as was proven.
        """
        self.statistics["corrections"] += 1
        master.b.model.add(master.cost >= proven)
        cut_pool = self.cut_pool_of(master.spatial_bounds.restriction)
        cuts = CutGenerator(solutions[0], completions, cut_pool)
        try:
            for solution in solutions[1:]:
                CutGenerator(solution, self.completions(solution), cut_pool).add_cheap_streams()
            self.keep(cuts.add())
        except OutOfTime:
            pass
        except TooManyOrders:
            cuts.bar()
            raise
