"""Solving one layer to a proven optimum.

The space has three parts (`part`). In each, targets rise from the screen's lower bound: a program holds only what can
cost at most the target, so it is small and soon either answers or is proven empty, and then nothing cheaper than the
target exists. An answer's exact cost is counted outside the solver. If it equals the program's bound it is optimal in
its part; if not, the program counted that choice of outer loops too low, so it is corrected for exactly that choice and
solved again. Where answers keep the same tiles inside their outer loops, a program of these alone settles them all.
"""

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from attrs import field, frozen
from ortools.sat.python import cp_model
from ortools.sat.sat_parameters_pb2 import SatParameters

from cpsat_pim.arch import PIMArchitecture
from cpsat_pim.constraints import FREE, Constraints, check_constraints, check_constraints_fit
from cpsat_pim.cost import predict
from cpsat_pim.mapping import Mapping
from cpsat_pim.model.cpsat import ask
from cpsat_pim.model.cuts import Cuts, Lessons, OutOfTime, TooManyOrders
from cpsat_pim.model.dram import build_tables
from cpsat_pim.model.freedom import Freedom
from cpsat_pim.model.orders import Answer, Completions, Counted, Order
from cpsat_pim.model.part import Part
from cpsat_pim.model.program import Program
from cpsat_pim.model.screen import Screen
from cpsat_pim.model.solution import Solution
from cpsat_pim.result import NO_LIMIT, Budget, Objective, SolvedLayer
from cpsat_pim.validate import is_a, or_none, seconds_or_none, seed_number
from cpsat_pim.workload import ConvWorkload

#: Targets above the lower bound, as fractions of it.
_STEPS = (0.001, 0.004, 0.012, 0.03, 0.06, 0.12, 0.25, 0.5, 1.0, 3.0, 10.0, 100.0, 10_000.0)

#: Work for a target of which little more is to be learnt from the next one; a target this near to what is known to be
#: enough might as well be that.
_NEXT_TO_NO_WORK, _NEAR = 0.1, 0.5

#: An energy (fJ) that no layer reaches.
_NO_LIMIT = 2**58
#: Work (CP-SAT's deterministic time: runs of one seed agree on it) after which the first part waits for the others,
#: whose answers may close it; and the shares of the time after which all but the last one wait at the latest.
_FIRST_WORK, _SHARES = 12.0, (0.6, 0.85)
#: Answers without how loops are split after which programs have to tell.
_SPLIT_ANSWERS = 3
#: Seconds for finding any mapping once the time is up and there is none, with each of the targets that are tried.
_FIRST_SECONDS = 5.0
_FIRST_STEPS = tuple(step for step in _STEPS if step >= 3)


@frozen(kw_only=True)
class Progress:
    """What is known while a layer is being solved, in the objective's reported unit."""

    layer: str
    best: int | float | None
    bound: int | float | None
    seconds: float


def _of_the_solver(instance: Any, attribute: Any, value: dict[str, Any]) -> None:
    """Parameters that CP-SAT has, with values of their types."""
    try:
        SatParameters(**value)
    except (TypeError, ValueError) as error:
        raise ValueError(f"Options.parameters: must be parameters of CP-SAT ({error})") from error


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


class _Search:
    """The state of one layer's solve: the best mapping, the proven bound, time and statistics."""

    def __init__(
        self,
        layer: ConvWorkload,
        arch: PIMArchitecture,
        objective: Objective,
        options: Options,
        report: Callable[[Progress], None],
    ) -> None:
        self.layer, self.arch, self.objective, self.options, self.report = layer, arch, objective, options, report
        self.started = time.monotonic()
        self.best: Answer | None = None
        self.counted: Counted = {}
        self.lessons = Lessons(lambda: self.is_over)
        self.bounds: dict[Part, int | None] = {}
        #: Per part, the least that mappings barred without a complete count may cost.
        self.barred: dict[Part, int] = {}
        #: Extents inside the outer loops of answers, by part; and those of which each mapping costs more than a target.
        self.answered: set[tuple[Part, tuple[int, ...]]] = set()
        self.dear: list[tuple[Part, tuple[int, ...], int]] = []
        #: Answers of programs that do not tell how loops are split.
        self.split_answers = 0
        #: Which turn it is of the parts; and how many of them have to make room for others after it.
        self.turn, self.waiting = 0, 0
        self.statistics: dict[str, Any] = {"programs": 0, "conflicts": 0, "branches": 0, "work": 0.0, "corrections": 0}

    @property
    def seconds(self) -> float:
        return time.monotonic() - self.started

    @property
    def is_over(self) -> bool:
        return self.options.stop.is_set() or self.seconds >= self.options.time_limit

    @property
    def bound(self) -> int | None:
        """Nothing in any part of the space costs less; None if all parts are empty."""
        known = [b for b in (*self.bounds.values(), *self.barred.values()) if b is not None]
        return min(known) if known else None

    @property
    def ceiling(self) -> int | None:
        """What costs more is not better than what is known; None if nothing is."""
        known = self.best.value if self.best else self.options.beat
        return None if known is None else known - 1

    @property
    def has_had_its_turn(self) -> bool:
        """Whether the part being searched has to make room for the others."""
        has_worked = self.turn == 0 and self.statistics["work"] > _FIRST_WORK
        return self.turn < self.waiting and (has_worked or self.seconds >= self.turn_ends)

    @property
    def turn_ends(self) -> float:
        """Seconds after which it is another part's turn, if there is an answer to compare with, or the time is up."""
        gives_way = self.turn < self.waiting and self.ceiling is not None
        return self.options.time_limit * (_SHARES[self.turn] if gives_way else 1)

    def run(self) -> None:
        """Search all parts of the space."""
        if self.options.start is not None:
            self._begin_with(self.options.start)
        if check_constraints_fit(self.layer, self.options.constraints):
            return
        self.tables = build_tables(self.layer, self.arch)
        self.statistics["table_seconds"] = round(self.seconds, 3)
        choices = self.options.constraints, self.options.budget
        freedoms = [Freedom(self.layer, self.arch, choices[0], part, choices[1]) for part in Part]
        self.freedom = {freedom.part: freedom for freedom in freedoms if not freedom.is_empty}
        parts = list(self.freedom)
        screens = {part: self._screen(part, self.objective) for part in parts}
        self.bounds = {part: screens[part].least for part in parts}
        self.waiting = len(parts) - 1
        for self.turn, part in enumerate((*parts, *parts)):
            if self._is_open(part):
                self._search_part(part, screens[part])
        for part in (part for part in parts if part is not Part.SPLIT):  # split loops are hardly all that fits
            if self.ceiling is None and self.bounds[part] is not None and not self.options.stop.is_set():
                self._any_mapping(part, screens[part])
        self._tell()

    def _begin_with(self, start: Mapping) -> None:
        """The mapping to beat."""
        problems = check_constraints(start, self.options.constraints)
        if problems:
            raise ValueError(f"{self.layer.name}: the mapping to start from: {'; '.join(problems)}")
        figures = (prediction := predict(self.layer, self.arch, start)).figures
        if not self.options.budget.covers(figures):
            raise ValueError(f"{self.layer.name}: the mapping to start from costs more than may be spent")
        self._keep(Answer(start, prediction, self.objective.value(figures.latency_cycles, figures.energy_fj)))

    def _screen(self, part: Part, objective: Objective) -> Screen:
        return Screen(self.layer, self.arch, objective, self.freedom[part])

    def _any_mapping(self, part: Part, screen: Screen) -> None:
        """Out of time with nothing: the first mapping found below the lowest target that gives one soon."""
        assert screen.least is not None
        for step in _FIRST_STEPS:
            target = int(screen.least * (1 + step))
            program = Program(self.layer, self.arch, self.objective, self.tables, screen, target)
            solutions = self._solve(program, first=True)[2]
            if solutions:
                self._consider(solutions[0], 0)
                return

    def _is_open(self, part: Part) -> bool:
        """Whether the part may hold something better than the best known mapping."""
        bound, ceiling = self.bounds[part], self.ceiling
        return bound is not None and (ceiling is None or bound <= ceiling)

    def _search_part(self, part: Part, screen: Screen) -> None:
        """Raise the target until the part's optimum is found or it cannot beat the best known mapping."""
        assert screen.least is not None
        for step in self._steps():
            ceiling = self.ceiling
            if ceiling is not None and (self.bounds[part] or 0) > ceiling:
                self.bounds[part] = None  # cannot be better than what is known
                return
            target = int(screen.least * (1 + step)) + 1
            target = target if ceiling is None or target < ceiling * _NEAR else ceiling
            if target < (self.bounds[part] or 0):
                continue  # known to be empty
            if self.is_over or self.seconds >= self.turn_ends or self._search_below(part, screen, target):
                return
        if self.ceiling is not None or self._is_empty(part):
            self.bounds[part] = None

    def _steps(self) -> Iterator[float]:
        """Targets above the lower bound; after one that took the solver next to no work, the next one is left out."""
        work, is_left_out = 0.0, False
        for step in _STEPS:
            if is_left_out and step < _STEPS[-1]:
                is_left_out = False
                continue
            yield step
            is_left_out, work = self.statistics["work"] - work < _NEXT_TO_NO_WORK, self.statistics["work"]

    def _is_empty(self, part: Part) -> bool:
        """Whether the part has no mapping at all, whatever it costs: the targets alone cannot tell. One that turns up
        is kept.
        """
        energy = Objective.named("energy")
        program = Program(self.layer, self.arch, energy, self.tables, self._screen(part, energy), _NO_LIMIT)
        lessons = Lessons(lambda: self.is_over)
        try:
            while self.best is None:
                status, _, solutions = self._solve(program, first=True)
                if not solutions:
                    return status == cp_model.INFEASIBLE
                completions = self._consider(solutions[0], 0)
                if self.best is None and (answer := Cuts(solutions[0], completions, lessons).whole_cost()):
                    self._keep(answer)
        except (OutOfTime, TooManyOrders):
            pass  # the last draft may still have one
        return False

    def _search_below(self, part: Part, screen: Screen, target: int) -> bool:
        """Search the part up to a target; True once nothing more can come of it."""
        program = self._program(part, screen, target)
        while not self.is_over:
            if self.ceiling is not None and self.ceiling < program.target:  # smaller than with a constraint more
                program = self._program(part, screen, self.ceiling)
            status, bound, solutions = self._solve(program)
            if status == cp_model.INFEASIBLE:
                return self._close(part, program.target)
            if bound is not None:
                self.bounds[part] = max(self.bounds[part] or 0, bound)
            if not solutions:
                return status != cp_model.UNKNOWN or self.is_over
            proven = self.bounds[part] or 0
            if program.v.any_split:  # all that the answers say is which outer loops there are
                if not all(self._leave_out(program, solution) for solution in solutions):
                    return True
                self.split_answers += 1
                if self.split_answers == _SPLIT_ANSWERS:
                    program = self._program(part, screen, program.target)
                continue
            is_proven = status == cp_model.OPTIMAL
            completions = self._consider(solutions[0], proven if is_proven else 0)
            if self.best and proven >= self.best.value:
                self.bounds[part] = self.best.value
                return True
            if not is_proven or self.has_had_its_turn:
                return True
            group = (part, solutions[0].within)
            if group not in self.answered:
                self.answered.add(group)
                self._correct(program, solutions, completions, proven)
                continue
            program.b.model.add(program.cost >= proven)
            if not self._leave_out(program, solutions[0]):
                return True
        return True

    def _leave_out(self, program: Program, solution: Solution) -> bool:
        """Look at all mappings with the same extents inside their outer loops, and leave them out of a program; False
        if that took too long. A program of so few is soon solved.
        """
        ceiling = program.target if self.ceiling is None else min(program.target, self.ceiling)
        if not self._is_dear(program, solution.within, ceiling):
            return False
        self.dear.append((program.part, solution.within, ceiling))
        program.leave_out(solution.within)
        return True

    def _is_dear(self, program: Program, within: Sequence[int], target: int) -> bool:
        """Whether no mapping of a program's part with these extents inside its outer loops costs at most a target, or
        less than the best once that is less; False, too, if it is not known in time. Those that turn up are kept.
        """
        few = self._program(program.part, program.screen, target, within)
        while not (self.is_over or self.has_had_its_turn):
            if self.ceiling is not None and self.ceiling < few.target:
                few = self._program(program.part, program.screen, self.ceiling, within)
            status, bound, solutions = self._solve(few)
            if status == cp_model.INFEASIBLE:
                return True
            if bound is None or status != cp_model.OPTIMAL:
                break
            completions = self._consider(solutions[0], bound)
            if self.best and bound >= self.best.value:
                return True
            self._correct(few, solutions, completions, bound)
        return False

    def _program(self, part: Part, screen: Screen, target: int, within: Sequence[int] | None = None) -> Program:
        """A program that knows what earlier ones have learnt."""
        any_split = part is Part.SPLIT and within is None and self.split_answers < _SPLIT_ANSWERS
        program = Program(
            self.layer, self.arch, self.objective, self.tables, screen, target, any_split=any_split, within=within
        )
        if not any_split:
            self.lessons.teach(program)
        for dear_part, extents, dearer_than in self.dear if within is None else ():
            if dear_part is part and dearer_than >= target:
                program.leave_out(extents)
        program.b.model.add(program.cost >= (self.bounds[part] or 0))
        problem = program.b.model.validate()
        if problem:
            raise RuntimeError(f"{self.layer.name}: the model is invalid: {problem}")
        return program

    def _close(self, part: Part, target: int) -> bool:
        """Nothing in the part costs at most the target."""
        if self.ceiling is not None and target >= self.ceiling:
            self.bounds[part] = None
            return True
        self.bounds[part] = max(self.bounds[part] or 0, target + 1)
        return False

    def _solve(self, program: Program, first: bool = False) -> tuple[int, int | None, list[Solution]]:
        """One solve: its status, what it has proven, and its answers."""
        seconds = _FIRST_SECONDS if first else max(0.1, self.turn_ends - self.seconds)
        options = self.options
        reply = ask(program, seconds, options.seed, options.parameters, options.stop, first=first)
        self.statistics["programs"] += 1
        self.statistics["conflicts"] += reply.conflicts
        self.statistics["branches"] += reply.branches
        self.statistics["work"] += reply.work
        return reply.status, reply.bound, reply.solutions

    def _consider(self, solution: Solution, good_enough: int) -> Completions:
        """Complete a draft exactly and keep it if it is the best so far."""
        completions = self._completions(solution)
        answer = completions.best(self._while_time(completions.sorted_orders()), good_enough)
        if answer is not None:
            self._keep(answer)
        return completions

    def _completions(self, solution: Solution) -> Completions:
        freedom = solution.program.screen.freedom
        return Completions(freedom, self.objective, solution.draft, solution.outside, solution.inner, self.counted)

    def _while_time(self, orders: Iterable[Order]) -> Iterator[Order]:
        """The first order, and more until the time is up."""
        for order in orders:
            yield order
            if self.is_over:
                return

    def _keep(self, answer: Answer) -> None:
        if self.ceiling is None or answer.value <= self.ceiling:
            self.best = answer
        self._tell()

    def _correct(self, program: Program, solutions: list[Solution], completions: Completions, proven: int) -> None:
        """Teach the program what its answers cost, and that only what is better than the best matters."""
        self.statistics["corrections"] += 1
        program.b.model.add(program.cost >= proven)
        cuts = Cuts(solutions[0], completions, self.lessons)
        try:
            for solution in solutions[1:]:
                Cuts(solution, self._completions(solution), self.lessons).add_cheap_streams()
            answer = cuts.add()
        except OutOfTime:
            return
        except TooManyOrders:  # what is barred may cost as little as was counted
            cuts.bar()
            self.barred[program.part] = min(self.barred.get(program.part, proven), proven)
        else:
            if answer is not None:
                self._keep(answer)

    def _tell(self) -> None:
        value = self.objective.reported(self.best.value) if self.best else None
        bound = self.objective.reported(self.bound) if self.bound is not None else None
        self.report(Progress(layer=self.layer.name, best=value, bound=bound, seconds=self.seconds))


def solve_layer(
    layer: ConvWorkload,
    arch: PIMArchitecture,
    objective: Objective,
    options: Options | None = None,
    report: Callable[[Progress], None] = lambda progress: None,
) -> SolvedLayer:
    """The optimal mapping of a layer, or the best found in time with its gap; not yet checked or simulated
    (`cpsat_pim.run` is).

    Raises:
        ValueError: the mapping to start from breaks a constraint.
    """
    search = _Search(layer, arch, objective, options or Options(), report)
    search.run()
    return _result(search)


def _result(search: _Search) -> SolvedLayer:
    return SolvedLayer.known(
        search.best and (search.best.mapping, search.best.prediction),
        search.bound,
        workload=search.layer,
        arch=search.arch,
        objective=search.objective,
        solve_seconds=search.seconds,
        solver_info=search.statistics,
        constraints=search.options.constraints,
    )
