"""One CP-SAT solve of a program."""

import math
import threading
import time
from typing import Any, NamedTuple

from ortools.sat.cp_model_pb2 import CpSolverResponse
from ortools.sat.python import cp_model
from ortools.sat.sat_parameters_pb2 import SatParameters

from cpsat_pim.mapper.model.master import MasterProblem
from cpsat_pim.mapper.search.solution import Solution

#: Answers of a program that are looked at, best ones first.
_POOL = 8
#: So many answers that each close less than this share of the gap: the search creeps.
_CREEPING, _SHARE = 64, 0.05
#: Statuses of a search that has ended.
_ENDED = (cp_model.OPTIMAL, cp_model.INFEASIBLE)
#: A search that takes that many conflicts begins again otherwise, in turns, each time round with so many times as many.
#: Few do; most of these are soon over with saved phases, or with a linear relaxation (slow for large programs).
_CONFLICTS, _MORE = 5000, 4
_TURNS: tuple[dict[str, Any], ...] = (
    {"use_phase_saving": False},
    {"use_phase_saving": True},
    {"use_phase_saving": True, "linearization_level": 2},
)
#: Conflicts until the lower half of the gap is given up, where the search would creep.
_HALF_CONFLICTS = 20


class SolveResult(NamedTuple):
    """CP-SAT's status; nothing in the program costs less than `bound` (None where it has no answer); the best answer
    and others met on the way to it; and what it took: `work` is CP-SAT's deterministic time.
    """

    status: int
    bound: int | None
    solutions: list[Solution]
    conflicts: int
    branches: int
    work: float


class _Way(NamedTuple):
    """How a program is searched: in turns, of which the last one is for programs of few tiles, and whether by halving
    the gap.
    """

    turns: int
    turn: int = 0
    halves_gap: bool = False

    @property
    def is_linear(self) -> bool:
        """Whether by a relaxation, of which each conflict takes long."""
        return self.turn % self.turns == len(_TURNS) - 1

    @property
    def conflicts(self) -> int:
        """Most of them."""
        return int(_CONFLICTS * _MORE ** (self.turn // self.turns))

    @property
    def parameters(self) -> dict[str, Any]:
        """Of CP-SAT."""
        halving = {"binary_search_num_conflicts": _HALF_CONFLICTS} if self.halves_gap and not self.is_linear else {}
        return {**_TURNS[self.turn % self.turns], **halving, "max_number_of_conflicts": self.conflicts}


def solve_master(
    master: MasterProblem,
    seconds: float,
    seed: int,
    parameters: dict[str, Any],
    stop: threading.Event,
    *,
    first: bool,
    work: float = math.inf,
) -> SolveResult:
    """Solve a program until `stop` is set, or the time or CP-SAT's work is up; `first`: any answer will do.
    `parameters` of CP-SAT take the place of ours.

    Raises:
        RuntimeError: CP-SAT does not take the program.
    """
    started, replies, way = time.monotonic(), list[SolveResult](), _Way(len(_TURNS) - (not master.is_small))
    while True:
        done = sum(reply.work for reply in replies)
        most = min(work - done, done) if way.is_linear else work - done
        solver = cp_model.CpSolver()
        solver.parameters.CopyFrom(_parameters(max(0.1, seconds - (time.monotonic() - started)), most, seed, first))
        solver.parameters.MergeFrom(SatParameters(**way.parameters))
        solver.parameters.MergeFrom(SatParameters(**parameters))
        creep = None if way.halves_gap or way.is_linear else _Creep()
        reply = _solve(solver, master, creep, stop)
        replies.append(reply)
        is_cut_short = reply.conflicts >= way.conflicts or most < work - done
        if creep is not None and creep.is_met:
            way = way._replace(halves_gap=True)
        elif reply.status in _ENDED or not is_cut_short or (first and reply.solutions):
            return _together(replies)
        else:
            way = way._replace(turn=way.turn + 1)


def _together(replies: list[SolveResult]) -> SolveResult:
    """What several searches of one program found and took: the last one's answer, if it has any or has ended."""
    best = next((r for r in reversed(replies) if r.solutions or r.status in _ENDED), replies[-1])
    return best._replace(
        bound=max((r.bound for r in replies if r.bound is not None), default=None) if best.solutions else None,
        conflicts=sum(reply.conflicts for reply in replies),
        branches=sum(reply.branches for reply in replies),
        work=sum(reply.work for reply in replies),
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
        """Count how often the cost fell by little."""
        gained, self.last = self.last - self.objective_value, self.objective_value
        self.times += gained < _SHARE * (self.last - self.best_objective_bound)
        if self.times == _CREEPING:
            self.is_met = True
            self.stop_search()


def _solve(
    solver: cp_model.CpSolver, master: MasterProblem, callback: _Creep | None, stop: threading.Event
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
    bound, solutions = _answers(master, solver.response_proto, outcome[0])
    work_done = solver.response_proto.deterministic_time
    return SolveResult(outcome[0], bound, solutions, solver.num_conflicts, solver.num_branches, work_done)


def _parameters(seconds: float, work: float, seed: int, first: bool) -> SatParameters:
    """Measured on these models: other branchings end no sooner and now and then never; probing and inprocessing cost
    several times the rest of a solve; with saved phases or a linear relaxation most searches are longer (`_TURNS`).
    """
    return SatParameters(
        num_workers=1,
        linearization_level=0,
        search_branching=SatParameters.AUTOMATIC_SEARCH,
        cp_model_probing_level=0,
        cp_model_presolve=False,
        use_sat_inprocessing=False,
        solution_pool_size=_POOL,
        fill_additional_solutions_in_response=True,
        random_seed=seed,
        catch_sigint_signal=False,
        stop_after_first_solution=first,
        max_time_in_seconds=seconds,
        max_deterministic_time=max(0.0, work),
    )


def _answers(master: MasterProblem, response: CpSolverResponse, status: int) -> tuple[int | None, list[Solution]]:
    """What is proven of the program's cost, and its answers, the best one first."""
    if status in (cp_model.INFEASIBLE, cp_model.UNKNOWN):
        return None, []
    others = [s.values for s in response.additional_solutions if list(s.values) != list(response.solution)]
    # An integer, where the other bound is a double, which is rounded past 2^53.
    bound = response.inner_objective_lower_bound
    return bound, [Solution(master, values) for values in (response.solution, *others)]
