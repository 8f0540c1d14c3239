"""One CP-SAT solve of a program."""

import math
import threading
import time
from typing import Any, NamedTuple

from ortools.sat.python import cp_model
from ortools.sat.sat_parameters_pb2 import SatParameters

from cpsat_pim.model.program import Program
from cpsat_pim.model.solution import Solution

#: Answers of a program that are looked at, best ones first.
_POOL = 8
#: So many answers in a row that each close less than this share of the gap: the search creeps.
_CREEPING, _SHARE = 64, 0.01
#: Conflicts until the lower half of the gap is given up, where the search would creep.
_HALF_CONFLICTS = 20


class Reply(NamedTuple):
    """CP-SAT's status; nothing in the program costs less than `bound` (None where it has no answer); the best answer
    and others met on the way to it; and what it took: `work` is CP-SAT's deterministic time.
    """

    status: int
    bound: int | None
    solutions: list[Solution]
    conflicts: int
    branches: int
    work: float


def ask(
    program: Program,
    seconds: float,
    seed: int,
    parameters: dict[str, Any],
    stop: threading.Event,
    *,
    first: bool,
    work: float = math.inf,
) -> Reply:
    """Solve a program until `stop` is set, or the time or CP-SAT's work is up; `first`: any answer will do.
    `parameters` of CP-SAT take the place of ours.

    Raises:
        RuntimeError: CP-SAT does not take the program.
    """
    started = time.monotonic()
    solver = cp_model.CpSolver()
    solver.parameters.CopyFrom(_parameters(seconds, work, seed, first))
    solver.parameters.MergeFrom(SatParameters(**parameters))
    creep = _Creep()
    reply = _solve(solver, program, creep, stop)
    if not creep.is_met:
        return reply
    solver.parameters.binary_search_num_conflicts = _HALF_CONFLICTS
    solver.parameters.max_time_in_seconds = max(0.1, seconds - (time.monotonic() - started))
    again = _solve(solver, program, None, stop)
    better = again if again.solutions or again.status == cp_model.INFEASIBLE else reply
    return better._replace(
        conflicts=reply.conflicts + again.conflicts,
        branches=reply.branches + again.branches,
        work=reply.work + again.work,
    )


class _Creep(cp_model.CpSolverSolutionCallback):
    """Stops a search of which each answer is like the last one, better by next to nothing.

    Between the cost and what is decided are variables with lower bounds only (an energy, a latency). Where learnt
    clauses speak of their upper values CP-SAT may hold on to these, and with nothing else left to decide goes down by
    one at a time, without a conflict from which to learn better.
    """

    def __init__(self) -> None:
        super().__init__()
        self.is_met = False
        self.last, self.times = math.inf, 0

    def on_solution_callback(self) -> None:
        """Count how often in a row the cost fell by little."""
        gained, self.last = self.last - self.objective_value, self.objective_value
        self.times = self.times + 1 if gained < _SHARE * (self.last - self.best_objective_bound) else 0
        if self.times == _CREEPING:
            self.is_met = True
            self.stop_search()


def _solve(solver: cp_model.CpSolver, program: Program, callback: _Creep | None, stop: threading.Event) -> Reply:
    """Solve in a thread of its own, so that an interrupt reaches `stop` at once."""
    done = threading.Event()
    outcome: list[Any] = []

    def work() -> None:
        try:
            outcome.append(solver.solve(program.b.model, callback))
        finally:
            done.set()

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    while not done.wait(0.1):
        if stop.is_set():
            solver.stop_search()
    thread.join()
    if not outcome or outcome[0] == cp_model.MODEL_INVALID:
        raise RuntimeError(f"{program.layer.name}: the solver rejected the model")
    bound, solutions = _answers(program, solver, outcome[0])
    work_done = solver.response_proto.deterministic_time
    return Reply(outcome[0], bound, solutions, solver.num_conflicts, solver.num_branches, work_done)


def _parameters(seconds: float, work: float, seed: int, first: bool) -> SatParameters:
    """Measured on these models: other branchings end no sooner and now and then never; probing and inprocessing cost
    several times the rest of a solve; with saved phases searches are longer.
    """
    return SatParameters(
        num_workers=1,
        linearization_level=0,
        search_branching=SatParameters.AUTOMATIC_SEARCH,
        cp_model_probing_level=0,
        cp_model_presolve=False,
        use_sat_inprocessing=False,
        use_phase_saving=False,
        solution_pool_size=_POOL,
        fill_additional_solutions_in_response=True,
        random_seed=seed,
        catch_sigint_signal=False,
        stop_after_first_solution=first,
        max_time_in_seconds=seconds,
        max_deterministic_time=work,
    )


def _answers(program: Program, solver: cp_model.CpSolver, status: int) -> tuple[int | None, list[Solution]]:
    """What is proven of the program's cost, and its answers, the best one first."""
    if status in (cp_model.INFEASIBLE, cp_model.UNKNOWN):
        return None, []
    response = solver.response_proto
    others = [s.values for s in response.additional_solutions if list(s.values) != list(response.solution)]
    bound = round(solver.best_objective_bound) if status != cp_model.OPTIMAL else int(solver.objective_value)
    return bound, [Solution(program, values) for values in (response.solution, *others)]
