"""One solve of a master problem by CP-SAT, begun again with other parameters where it takes long."""

import math
import threading
import time
from typing import Any, NamedTuple

from ortools.sat.cp_model_pb2 import CpSolverResponse
from ortools.sat.python import cp_model
from ortools.sat.sat_parameters_pb2 import SatParameters

from cpsat_pim.base.interrupts import Stop
from cpsat_pim.mapper.model.master import MasterProblem
from cpsat_pim.mapper.search.request import SolveRequest
from cpsat_pim.mapper.search.solution import Solution
from cpsat_pim.mapper.space.parameters import SearchParameters

#: Statuses that are proofs.
_PROVEN = (cp_model.OPTIMAL, cp_model.INFEASIBLE)
#: What a search that takes many conflicts is begun again with, in turns. Few searches do; most of these soon end with
#: saved phases, or with a linear relaxation, which is slow for large master problems.
_STRATEGIES: tuple[dict[str, Any], ...] = (
    {"use_phase_saving": False},
    {"use_phase_saving": True},
    {"use_phase_saving": True, "linearization_level": 2},
)


class SolveResult(NamedTuple):
    """What CP-SAT returned for a master problem, and what it took.

    `status`: CP-SAT's. `bound`: no mapping of the master problem costs less; None if CP-SAT found no solution.
    `solutions`: the best one first, then others met on the way to it. `work`: CP-SAT's deterministic time.
    """

    status: int
    bound: int | None
    solutions: list[Solution]
    conflicts: int
    branches: int
    work: float


class _Strategy(NamedTuple):
    """How CP-SAT searches: by one of the first `available` ones of `_STRATEGIES` (in which `turn`), and whether by a
    binary search of the objective.
    """

    search: SearchParameters
    available: int
    turn: int = 0
    is_halving: bool = False

    @property
    def is_linear(self) -> bool:
        """Whether with a linear relaxation, where each conflict takes long."""
        return self.turn % self.available == len(_STRATEGIES) - 1

    @property
    def most_conflicts(self) -> int:
        """Conflicts after which the next strategy has its turn."""
        return int(self.search.restart_conflicts * self.search.restart_growth ** (self.turn // self.available))

    @property
    def parameters(self) -> dict[str, Any]:
        """Parameters of CP-SAT."""
        is_halving = self.is_halving and not self.is_linear
        halving = {"binary_search_num_conflicts": self.search.halving_conflicts} if is_halving else {}
        return {**_STRATEGIES[self.turn % self.available], **halving, "max_number_of_conflicts": self.most_conflicts}


def solve_master(
    master: MasterProblem,
    request: SolveRequest,
    stop: Stop,
    seconds: float,
    *,
    first: bool,
    work: float = math.inf,
) -> SolveResult:
    """Solve a master problem until `stop` is set, or so many seconds or so much of CP-SAT's work are spent.

    `first`: any solution will do. The request's `cp_sat_parameters` replace ours.

    Raises:
        RuntimeError: CP-SAT rejects the model.
    """
    started, results = time.monotonic(), list[SolveResult]()
    strategy = _Strategy(request.parameters, len(_STRATEGIES) - (not master.is_small))
    while True:
        done = sum(result.work for result in results)
        # A linear relaxation gets no more work than all strategies before it.
        most = min(work - done, done) if strategy.is_linear else work - done
        solver = cp_model.CpSolver()
        seconds_left = max(0.1, seconds - (time.monotonic() - started))
        solver.parameters.CopyFrom(_parameters(request, seconds_left, most, first))
        solver.parameters.MergeFrom(SatParameters(**strategy.parameters))
        solver.parameters.MergeFrom(SatParameters(**request.cp_sat_parameters))
        detector = None if strategy.is_halving or strategy.is_linear else _CreepDetector(request.parameters)
        result = _solve(solver, master, detector, stop)
        results.append(result)
        is_cut_short = result.conflicts >= strategy.most_conflicts or most < work - done
        if detector is not None and detector.has_fired:
            strategy = strategy._replace(is_halving=True)
        elif result.status in _PROVEN or not is_cut_short or (first and result.solutions):
            return _combined(results)
        else:
            strategy = strategy._replace(turn=strategy.turn + 1)


def _combined(results: list[SolveResult]) -> SolveResult:
    """Return the outcome of several searches of one master problem: the last proof or solutions, the best bound and the
    sum of what they took.
    """
    last = next((r for r in reversed(results) if r.solutions or r.status in _PROVEN), results[-1])
    return last._replace(
        bound=max((r.bound for r in results if r.bound is not None), default=None) if last.solutions else None,
        conflicts=sum(result.conflicts for result in results),
        branches=sum(result.branches for result in results),
        work=sum(result.work for result in results),
    )


class _CreepDetector(cp_model.CpSolverSolutionCallback):
    """Stops a search whose solutions improve by next to nothing.

    Between the cost and the decisions are variables with lower bounds only (an energy, a latency). Where CP-SAT's
    clauses contain upper values of these, it may branch on them, and then lowers the cost by one at a time, without a
    conflict from which to derive a better clause.
    """

    def __init__(self, parameters: SearchParameters) -> None:
        super().__init__()
        self._parameters = parameters
        self.has_fired = False
        self.last, self.times = math.inf, 0

    def on_solution_callback(self) -> None:
        """Count the solutions that closed little of the gap."""
        gained, self.last = self.last - self.objective_value, self.objective_value
        self.times += gained < self._parameters.creeping_share * (self.last - self.best_objective_bound)
        if self.times == self._parameters.creeping_solutions:
            self.has_fired = True
            self.stop_search()


def _solve(
    solver: cp_model.CpSolver, master: MasterProblem, callback: _CreepDetector | None, stop: Stop
) -> SolveResult:
    """Solve in a thread of its own, so that an interrupt reaches `stop` at once."""
    done = threading.Event()
    outcome: list[Any] = []

    def work() -> None:
        try:
            outcome.append(solver.solve(master.b.model, callback))
        finally:
            done.set()

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    while not done.wait(0.1):
        if stop.is_set():
            solver.stop_search()
    thread.join()
    if not outcome or outcome[0] == cp_model.MODEL_INVALID:
        raise RuntimeError(f"{master.layer.name}: the solver rejected the model")
    bound, solutions = _bound_and_solutions(master, solver.response_proto, outcome[0])
    work_done = solver.response_proto.deterministic_time
    return SolveResult(outcome[0], bound, solutions, solver.num_conflicts, solver.num_branches, work_done)


def _parameters(request: SolveRequest, seconds: float, work: float, first: bool) -> SatParameters:
    """Return CP-SAT's parameters for all strategies.

    Measured on these models: other branchings end no sooner and now and then never; probing and inprocessing cost
    several times the rest of a solve; with saved phases or a linear relaxation most searches are longer, so these are
    strategies to begin again with (`_STRATEGIES`).
    """
    return SatParameters(
        num_workers=1,
        linearization_level=0,
        search_branching=SatParameters.AUTOMATIC_SEARCH,
        cp_model_probing_level=0,
        cp_model_presolve=False,
        use_sat_inprocessing=False,
        solution_pool_size=request.parameters.pool_size,
        fill_additional_solutions_in_response=True,
        random_seed=request.seed,
        catch_sigint_signal=False,
        stop_after_first_solution=first,
        max_time_in_seconds=seconds,
        max_deterministic_time=max(0.0, work),
    )


def _bound_and_solutions(
    master: MasterProblem, response: CpSolverResponse, status: int
) -> tuple[int | None, list[Solution]]:
    """Return the proven lower bound of the master problem's cost, and its solutions, the best one first."""
    if status in (cp_model.INFEASIBLE, cp_model.UNKNOWN):
        return None, []
    others = [s.values for s in response.additional_solutions if list(s.values) != list(response.solution)]
    # An integer, where the other bound is a double, which is rounded past 2^53.
    bound = response.inner_objective_lower_bound
    return bound, [Solution(master, values) for values in (response.solution, *others)]
