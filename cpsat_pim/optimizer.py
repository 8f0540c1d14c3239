"""The seeds' programming interface (listings 6-8): an optimizer for a machine; one shared bypass choice for layers.

A shared choice fixes for all layers which tensors the PEs and the global buffer store: each choice is a machine of its
own. Choices are taken in the order of a lower bound on their total, the sum over the layers of what the screen says of
that machine (and no layer can do better than on the free machine); once no choice left can beat the best total, that
one is optimal.
"""

import itertools
import math
import sys
import threading
import time
from collections.abc import Sequence
from fractions import Fraction

import attrs
from attrs import field, frozen

from cpsat_pim.arch import PIMArchitecture
from cpsat_pim.constraints import FREE, Constraints, NetworkConstraints
from cpsat_pim.dims import Level, Tensor
from cpsat_pim.interrupts import interrupt_stops
from cpsat_pim.mapping import Mapping, Stored
from cpsat_pim.model import Options
from cpsat_pim.model.screen import Screen
from cpsat_pim.result import Objective, SolvedLayer, Status
from cpsat_pim.run import solve_and_verify
from cpsat_pim.validate import as_tuple, is_a, seconds, seed_number
from cpsat_pim.workload import ConvWorkload

#: Stored sets of the PEs and of the global buffer.
Bypass = tuple[Stored, Stored]


@frozen(kw_only=True)
class OptimizationResult:
    """The answers in the order of the workloads, and their sum in the objective's reported unit.

    `bound`: no answers (with `fix_bypass`: under one shared choice) sum to less; `status` is OPTIMAL if these sum
    to no more. `bypass` is the shared choice: what the PEs and the global buffer store. No mappings, no value.
    """

    mappings: tuple[SolvedLayer, ...] = field(converter=as_tuple)
    status: Status
    objective_value: int | float | None
    bound: int | float | None
    bypass: Bypass | None = None
    seconds: float
    interrupted: bool = False

    def _repr_html_(self) -> str:
        """For notebooks: a row per layer."""
        from cpsat_pim.report.notebook import layers_html

        return layers_html(self.mappings)


@frozen(kw_only=True)
class PIMOptimizer:
    """Maps layers onto a machine (listing 6).

    `time_limit`: seconds a layer, also when they share a bypass choice. `verbose` prints a line a layer.

    Raises:
        ValueError: a field is of the wrong type or out of range.
    """

    arch: PIMArchitecture = field(factory=PIMArchitecture, validator=is_a(PIMArchitecture))
    verbose: bool = False
    time_limit: float = field(default=300.0, validator=seconds)
    seed: int = field(default=0, validator=seed_number)

    def optimize(
        self,
        workloads: Sequence[ConvWorkload],
        objective: str = "latency",
        alpha: float | str = 1,
        beta: float | str = 1,
        fix_bypass: bool = False,
        enable_row_activation: bool = True,
        constraints: Constraints | NetworkConstraints = FREE,
    ) -> OptimizationResult:
        """The mappings that cost least: latency in cycles, energy in nJ, or alpha cycles + beta nJ (`blended`).

        With `fix_bypass` all layers store the same tensors in the PEs and in the global buffer. Without
        `enable_row_activation` a row activation takes neither time nor energy. Only mappings that keep the
        `constraints` are looked at, which may be others by the layers' names. Ctrl-C ends with the best found so far.

        Raises:
            ValueError: no workloads, an unknown objective, or weights out of range.
            Disagreement: a mapping is illegal, or some exact figure was predicted wrongly.
        """
        if not workloads:
            raise ValueError("workloads: must be at least one (got none)")
        solver = _Solver(
            workloads=workloads,
            arch=self.arch if enable_row_activation else self.arch.without_row_activation(),
            objective=Objective.named(objective, alpha, beta),
            time_limit=self.time_limit,
            seed=self.seed,
            constraints=NetworkConstraints.whole(constraints),
        )
        with interrupt_stops(solver.stop):
            result = solver.solve_shared() if fix_bypass else solver.solve_free()
        if self.verbose:
            for solved in result.mappings:
                print(_format_line(solved), file=sys.stdout)
        return result


def _format_line(solved: SolvedLayer) -> str:
    """`conv1: OPTIMAL, latency 1234, gap 0.00 %, 1.2 s`."""
    if solved.mapping is None:
        return f"{solved.workload.name}: {solved.status}, {solved.solve_seconds:.1f} s"
    gap = "unknown" if solved.gap is None else f"{100 * solved.gap:.2f} %"
    value = f"{solved.objective.kind} {solved.objective_value}"
    return f"{solved.workload.name}: {solved.status}, {value}, gap {gap}, {solved.solve_seconds:.1f} s"


@frozen(kw_only=True)
class _Solver:
    """Solves workloads on one machine, for itself or with one bypass choice for all."""

    workloads: tuple[ConvWorkload, ...] = field(converter=as_tuple)
    arch: PIMArchitecture
    objective: Objective
    time_limit: float
    seed: int
    constraints: NetworkConstraints
    stop: threading.Event = field(factory=threading.Event)
    started: float = field(factory=time.monotonic)

    def solve_free(self) -> OptimizationResult:
        """Every workload by itself."""
        solved = self._solve_all(self.time_limit)
        values, bounds = [self.value(s) for s in solved], [self.bound(s) for s in solved]
        return self._result(solved, _status(solved), _sum(values), _sum(bounds))

    def solve_shared(self) -> OptimizationResult:
        """All workloads under the shared choice that is best for their sum."""
        search = _SharedSearch(self, self._solve_all(self.time_limit / 2))
        search.run()
        if search.best is None:
            status = Status.UNKNOWN if search.is_open else Status.INFEASIBLE
            return self._result([_unanswered(s, status) for s in search.free], status, None, search.bound)
        status = Status.OPTIMAL if search.bound == search.total else Status.FEASIBLE
        return self._result(search.best, status, search.total, search.bound, search.bypass)

    def solve(self, layer: ConvWorkload, arch: PIMArchitecture, time_limit: float) -> SolvedLayer:
        """One workload on this machine or one derived from it."""
        constraints = self.constraints.of(layer.name)
        options = Options(time_limit=time_limit, seed=self.seed, stop=self.stop, constraints=constraints)
        return solve_and_verify(layer, arch, self.objective, options)

    def key(self, layer: ConvWorkload) -> str:
        """What workloads share that are solved once."""
        return self.constraints.key(layer.name, layer)

    def value(self, solved: SolvedLayer) -> int | None:
        """The integer objective of an answer."""
        if solved.prediction is None:
            return None
        figures = solved.prediction.figures
        return self.objective.value(figures.latency_cycles, figures.energy_fj)

    def bound(self, solved: SolvedLayer) -> int | None:
        """An integer bound of an answer; where the reported one was rounded to a float, at most what it stood for."""
        if solved.status is Status.OPTIMAL:
            return self.value(solved)
        if solved.bound is None:
            return None
        exact = Fraction(solved.bound) * self.objective.scale
        return math.floor(exact if isinstance(solved.bound, int) else exact * (1 - Fraction(1, 2**52)))

    def _solve_all(self, time_limit: float) -> list[SolvedLayer]:
        """Every workload on the free machine; equal ones are solved once."""
        answers: dict[str, SolvedLayer] = {}
        for layer in self.workloads:
            if self.key(layer) not in answers:
                answers[self.key(layer)] = self.solve(layer, self.arch, time_limit)
        return [attrs.evolve(answers[self.key(layer)], workload=layer) for layer in self.workloads]

    def _result(
        self,
        solved: Sequence[SolvedLayer],
        status: Status,
        value: int | None,
        bound: int | None,
        bypass: Bypass | None = None,
    ) -> OptimizationResult:
        return OptimizationResult(
            mappings=solved,
            status=status,
            objective_value=None if value is None else self.objective.reported(value),
            bound=None if bound is None else self.objective.reported(bound),
            bypass=bypass,
            seconds=time.monotonic() - self.started,
            interrupted=self.stop.is_set(),
        )


def _unanswered(solved: SolvedLayer, status: Status) -> SolvedLayer:
    """The layer without its answer: it has one, but not under a choice that suits all."""
    return attrs.evolve(solved, status=status, mapping=None, prediction=None, simulated=None, bound=None)


def _status(solved: Sequence[SolvedLayer]) -> Status:
    """The worst status of several answers."""
    worst_first = (Status.INFEASIBLE, Status.UNKNOWN, Status.FEASIBLE, Status.OPTIMAL)
    return min((s.status for s in solved), key=worst_first.index)


def _sum(numbers: Sequence[int | None]) -> int | None:
    known = [n for n in numbers if n is not None]
    return sum(known) if len(known) == len(numbers) else None


# --- One choice for all ----------------------------------------------------------------------------------------------


class _SharedSearch:
    """Best-first search over the bypass choices.

    `free` are the answers on the free machine. `floors[choice]`: what the choice costs at least, None if some workload
    has no mapping under it; a choice that was solved has the sum of its bounds. `best`, `total`, `bypass`: so far.
    """

    def __init__(self, solver: _Solver, free: list[SolvedLayer]) -> None:
        self.solver, self.free = solver, free
        self.deadline = solver.started + solver.time_limit * len(free)
        self.least: dict[tuple[Bypass, str], int | None] = {}
        self.floors: dict[Bypass, int | None] = {}
        self.best: list[SolvedLayer] | None = None
        self.total: int | None = None
        self.bypass: Bypass | None = None

    def run(self) -> None:
        """Solve choices, the most promising first, until none left can be better."""
        choices = bypass_choices(self.solver.arch)
        self.floors = {choice: _sum(self._leasts(choice)) for choice in choices}
        for choice in sorted(choices, key=self._rank):
            if self._may_win(self.floors[choice]) and not self._is_over():
                self._try(choice)

    @property
    def is_open(self) -> bool:
        """Whether some choice might still have a mapping for every workload."""
        return any(floor is not None for floor in self.floors.values())

    @property
    def bound(self) -> int | None:
        """No shared choice costs less."""
        known = [floor for floor in self.floors.values() if floor is not None]
        if self.total is not None:
            known.append(self.total)
        return min(known, default=None)

    def _is_over(self) -> bool:
        return self.solver.stop.is_set() or (self.best is not None and time.monotonic() >= self.deadline)

    def _may_win(self, floor: int | None) -> bool:
        return floor is not None and (self.total is None or floor < self.total)

    def _rank(self, choice: Bypass) -> tuple[int, int]:
        """By lower bound; among equals the choice that most workloads made by themselves."""
        agreeing = sum(s.mapping is not None and bypass_of(s.mapping) == choice for s in self.free)
        return (self.floors[choice] or 0, -agreeing)

    def _leasts(self, choice: Bypass) -> list[int | None]:
        """Per workload what it costs at least under a choice."""
        arch = with_bypass(self.solver.arch, choice)
        return [self._least(choice, arch, solved) for solved in self.free]

    def _least(self, choice: Bypass, arch: PIMArchitecture, free: SolvedLayer) -> int | None:
        """The larger of the screen's bound under the choice and the bound without it; None if there is no mapping."""
        key = (choice, self.solver.key(free.workload))
        if key not in self.least:
            screened = _screened(free.workload, arch, self.solver.objective)
            unbound = free.status is Status.INFEASIBLE or screened is None
            self.least[key] = None if unbound else max(screened or 0, self.solver.bound(free) or 0)
        return self.least[key]

    def _try(self, choice: Bypass) -> None:
        """Solve every workload under a choice, as long as their sum can be better than the best."""
        arch = with_bypass(self.solver.arch, choice)
        floors = self._leasts(choice)
        answers: list[SolvedLayer] = []
        for i, free in enumerate(self.free):
            answers.append(self._solve(free, arch, choice, answers, len(self.free) - i))
            floors[i] = self._raised(answers[-1], floors[i])
            self.floors[choice] = _sum(floors)
            if not self._may_win(self.floors[choice]):
                return
        self._consider(choice, answers)

    def _solve(
        self, free: SolvedLayer, arch: PIMArchitecture, choice: Bypass, answers: list[SolvedLayer], left: int
    ) -> SolvedLayer:
        """A workload's answer under a choice: its own on the free machine where that is proven and chose the same."""
        if free.status is Status.OPTIMAL and free.mapping and bypass_of(free.mapping) == choice:
            return attrs.evolve(free, arch=arch)
        for answer in answers:
            if self.solver.key(answer.workload) == self.solver.key(free.workload):
                return attrs.evolve(answer, workload=free.workload)
        share = (self.deadline - time.monotonic()) / left
        return self.solver.solve(free.workload, arch, min(self.solver.time_limit, max(share, 1.0)))

    def _raised(self, answer: SolvedLayer, floor: int | None) -> int | None:
        """A workload's lower bound under a choice, now that it was solved."""
        if answer.status is Status.INFEASIBLE:
            return None
        return max(self.solver.bound(answer) or 0, floor or 0)

    def _consider(self, choice: Bypass, answers: list[SolvedLayer]) -> None:
        """Keep the answers if their sum is the best."""
        total = _sum([self.solver.value(answer) for answer in answers])
        if total is not None and (self.total is None or total < self.total):
            self.best, self.total, self.bypass = answers, total, choice


def bypass_choices(arch: PIMArchitecture) -> list[Bypass]:
    """What the PEs and the global buffer may store (Eq. 6): up to 64 choices."""
    levels = (Level.PE, Level.GLOBAL_BUFFER)
    per_level = [list(itertools.product(*(arch.storing_choices(m, t) for t in Tensor))) for m in levels]
    return [(pe, buffer) for pe, buffer in itertools.product(*per_level)]  # type: ignore[misc]


def bypass_of(mapping: Mapping) -> Bypass:
    """What a mapping stores in the PEs and in the global buffer."""
    return (mapping.stored[Level.PE], mapping.stored[Level.GLOBAL_BUFFER])


def with_bypass(arch: PIMArchitecture, choice: Bypass) -> PIMArchitecture:
    """The machine on which the PEs and the global buffer store exactly this."""
    levels = list(arch.hierarchy)
    for m, stores in zip((Level.PE, Level.GLOBAL_BUFFER), choice, strict=True):
        levels[m] = attrs.evolve(levels[m], bypass_defined=True, stores=stores)
    return attrs.evolve(arch, hierarchy=tuple(levels))


def _screened(layer: ConvWorkload, arch: PIMArchitecture, objective: Objective) -> int | None:
    """A lower bound on every mapping of a layer on a machine; None if there is no mapping."""
    choices = [arch.storing_choices(Level.ROW_BUFFER, t) for t in Tensor]
    has_part = {False: all(False in c for c in choices), True: any(True in c for c in choices)}
    leasts = [Screen(layer, arch, objective, part).least for part in has_part if has_part[part]]
    return min((least for least in leasts if least is not None), default=None)
