"""The seeds' programming interface (listings 6-8): an optimizer for a machine; one shared bypass choice for layers.

The shared choice is which tensors the PEs and the global buffer store; `cpsat_pim.mapper.network.shared` finds it.
"""

import sys
import threading
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

import attrs
from attrs import field, frozen

from cpsat_pim.arch import PIMArchitecture
from cpsat_pim.base.dims import Level
from cpsat_pim.base.interrupts import interrupt_stops
from cpsat_pim.base.validate import as_tuple, is_a, seconds, seed_number
from cpsat_pim.mapper.network.run import Execution, solve_and_verify
from cpsat_pim.mapper.network.shared import ON_CHIP, SharedLayer, SharedSearch, Solving, bound_of
from cpsat_pim.mapper.result import Objective, SolvedLayer, Status
from cpsat_pim.mapper.search import SolveRequest
from cpsat_pim.mapping import Mapping, Stored
from cpsat_pim.mapping.constraints import FREE, Constraints, NetworkConstraints
from cpsat_pim.workload import ConvWorkload

if TYPE_CHECKING:
    from pandas import DataFrame

#: Stored sets of the PEs and of the global buffer.
Bypass = tuple[Stored, Stored]


@frozen(kw_only=True)
class OptimizationResult:
    """The results in the order of the workloads, and their sum in the objective's reported unit.

    `bound`: no mappings (with `fix_bypass`: under one shared choice) sum to less; `status` is OPTIMAL if these sum
    to no more. `bypass`: the shared choice, what the PEs and the global buffer store. Without a mapping for every
    workload there is no value.
    """

    mappings: tuple[SolvedLayer, ...] = field(converter=as_tuple)
    status: Status
    objective_value: int | float | None
    bound: int | float | None
    bypass: Bypass | None = None
    seconds: float
    interrupted: bool = False

    def to_frame(self) -> "DataFrame":
        """Return a pandas frame with a row for each workload (`SolvedLayer.row`)."""
        from pandas import DataFrame

        return DataFrame([solved.row() for solved in self.mappings])

    def _repr_html_(self) -> str:
        """Return a table with a row for each workload, for notebooks."""
        table: str = self.to_frame().to_html(index=False, border=0)
        return table


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
        """Find mappings of least `latency`, `energy`, alpha cycles + beta nJ (`blended`), or latency x energy (`edp`).

        With `fix_bypass` all layers store the same tensors in the PEs and in the global buffer. Without
        `enable_row_activation` a row activation takes neither time nor energy. All mappings keep the `constraints`,
        which may differ by the layers' names. Ctrl-C ends the solves with the best mappings found so far.

        Raises:
            ValueError: no workloads, an unknown objective, or weights out of range.
            Disagreement: a mapping is illegal, or some exact figure was predicted wrongly.
        """
        if not workloads:
            raise ValueError("workloads: must be at least one (got none)")
        solver = _Solver(
            workloads=workloads,
            arch=self.arch if enable_row_activation else self.arch.without_row_activation(),
            request=SolveRequest(
                objective=Objective.named(objective, alpha, beta), time_limit=self.time_limit, seed=self.seed
            ),
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
    """Solves workloads on one machine, each by itself or all with one bypass choice."""

    workloads: tuple[ConvWorkload, ...] = field(converter=as_tuple)
    arch: PIMArchitecture
    request: SolveRequest
    constraints: NetworkConstraints
    stop: threading.Event = field(factory=threading.Event)
    started: float = field(factory=time.monotonic)

    def solve_free(self) -> OptimizationResult:
        """Solve every workload by itself, equal ones once."""
        results: dict[str, SolvedLayer] = {}
        for layer in self.workloads:
            if self.key(layer) not in results:
                results[self.key(layer)] = solve_and_verify(layer, self.arch, self.request_of(layer), self.stop)
        solved = [attrs.evolve(results[self.key(layer)], workload=layer) for layer in self.workloads]
        values, bounds = [s.cost for s in solved], [bound_of(s) for s in solved]
        return self._result(solved, _status(solved), _sum(values), _sum(bounds))

    def solve_shared(self) -> OptimizationResult:
        """Solve all workloads under the shared choice that is best for their sum."""
        layers: dict[str, SharedLayer] = {}
        for workload in self.workloads:
            layer = SharedLayer(workload, self.arch, ON_CHIP, self.request_of(workload))
            layers.setdefault(self.key(workload), layer).count += 1
        end = self.started + self.request.time_limit * len(self.workloads)
        solving = Solving(request=self.request, end=end, execution=Execution(stop=self.stop))
        search = SharedSearch([*layers.values()], solving, solving.is_over)
        search.run()
        results = {key: search.result(layer) for key, layer in layers.items()}
        solved = [attrs.evolve(results[self.key(layer)], workload=layer) for layer in self.workloads]
        bypass = None if solved[0].mapping is None else bypass_of(solved[0].mapping)
        return self._result(solved, search.status, search.total, search.bound, bypass)

    def request_of(self, layer: ConvWorkload) -> SolveRequest:
        """Return what the solve of one workload is asked."""
        return attrs.evolve(self.request, constraints=self.constraints.of(layer.name))

    def key(self, layer: ConvWorkload) -> str:
        """Return the key that workloads have in common which are solved once."""
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
            objective_value=None if value is None else self.request.objective.reported(value),
            bound=None if bound is None else self.request.objective.reported(bound),
            bypass=bypass,
            seconds=time.monotonic() - self.started,
            interrupted=self.stop.is_set(),
        )


def _status(solved: Sequence[SolvedLayer]) -> Status:
    """Return the worst status of several results."""
    worst_first = (Status.INFEASIBLE, Status.UNKNOWN, Status.FEASIBLE, Status.OPTIMAL)
    return min((s.status for s in solved), key=worst_first.index)


def _sum(numbers: Sequence[int | None]) -> int | None:
    known = [n for n in numbers if n is not None]
    return sum(known) if len(known) == len(numbers) else None


def bypass_of(mapping: Mapping) -> Bypass:
    """Return what a mapping stores in the PEs and in the global buffer."""
    return (mapping.stored[Level.PE], mapping.stored[Level.GLOBAL_BUFFER])
