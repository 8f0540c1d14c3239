"""The seeds' programming interface (listings 6-8): an optimizer for a machine; one shared bypass choice for layers.

The shared choice, which tensors the PEs and the global buffer store, is found as `cpsat_pim.mapper.network.shared` finds others.
"""

import sys
import threading
import time
from collections.abc import Sequence

import attrs
from attrs import field, frozen

from cpsat_pim.arch import PIMArchitecture
from cpsat_pim.base.dims import Level
from cpsat_pim.base.interrupts import interrupt_stops
from cpsat_pim.base.validate import as_tuple, is_a, seconds, seed_number
from cpsat_pim.mapper.network.run import solve_and_verify
from cpsat_pim.mapper.network.shared import ON_CHIP, Part, SharedSearch, Solving, bound_of
from cpsat_pim.mapper.result import Objective, SolvedLayer, Status
from cpsat_pim.mapper.search import Options
from cpsat_pim.mapping import Mapping, Stored
from cpsat_pim.mapping.constraints import FREE, Constraints, NetworkConstraints
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
        """The mappings of least `latency`, `energy`, alpha cycles + beta nJ (`blended`), or latency x energy (`edp`).

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
        """Every workload by itself; equal ones are solved once."""
        answers: dict[str, SolvedLayer] = {}
        for layer in self.workloads:
            if self.key(layer) not in answers:
                answers[self.key(layer)] = self.solve(layer)
        solved = [attrs.evolve(answers[self.key(layer)], workload=layer) for layer in self.workloads]
        values, bounds = [s.cost for s in solved], [bound_of(s) for s in solved]
        return self._result(solved, _status(solved), _sum(values), _sum(bounds))

    def solve_shared(self) -> OptimizationResult:
        """All workloads under the shared choice that is best for their sum."""
        parts: dict[str, Part] = {}
        for layer in self.workloads:
            part = Part(layer, self.arch, self.objective, ON_CHIP, self.constraints.of(layer.name))
            parts.setdefault(self.key(layer), part).count += 1
        end = self.started + self.time_limit * len(self.workloads)
        solving = Solving(time_limit=self.time_limit, end=end, seed=self.seed, stop=self.stop)
        search = SharedSearch([*parts.values()], solving, solving.is_over)
        search.run()
        answers = {key: search.answer(part) for key, part in parts.items()}
        solved = [attrs.evolve(answers[self.key(layer)], workload=layer) for layer in self.workloads]
        bypass = None if solved[0].mapping is None else bypass_of(solved[0].mapping)
        return self._result(solved, search.status, search.total, search.bound, bypass)

    def solve(self, layer: ConvWorkload) -> SolvedLayer:
        """One workload by itself."""
        constraints = self.constraints.of(layer.name)
        options = Options(time_limit=self.time_limit, seed=self.seed, stop=self.stop, constraints=constraints)
        return solve_and_verify(layer, self.arch, self.objective, options)

    def key(self, layer: ConvWorkload) -> str:
        """What workloads share that are solved once."""
        return self.constraints.key(layer.name, layer)

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


def _status(solved: Sequence[SolvedLayer]) -> Status:
    """The worst status of several answers."""
    worst_first = (Status.INFEASIBLE, Status.UNKNOWN, Status.FEASIBLE, Status.OPTIMAL)
    return min((s.status for s in solved), key=worst_first.index)


def _sum(numbers: Sequence[int | None]) -> int | None:
    known = [n for n in numbers if n is not None]
    return sum(known) if len(known) == len(numbers) else None


def bypass_of(mapping: Mapping) -> Bypass:
    """What a mapping stores in the PEs and in the global buffer."""
    return (mapping.stored[Level.PE], mapping.stored[Level.GLOBAL_BUFFER])
