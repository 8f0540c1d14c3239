"""Decide whether a problem has a mapping: mostly by its smallest mappings, else by the solver."""

import threading

from attrs import evolve

from cpsat_pim.arch import PIMArchitecture
from cpsat_pim.evaluate.cost import predict
from cpsat_pim.evaluate.verify import Disagreement
from cpsat_pim.mapper.explain.least import CONTRADICTION, Verdict, decide_least
from cpsat_pim.mapper.explain.limits import Case, Limit, Problem, limits_of
from cpsat_pim.mapper.result import NO_LIMIT, Objective, SolvedLayer, Status
from cpsat_pim.mapper.search import OnProgress, Progress, SolveRequest, ignore_progress, solve_layer
from cpsat_pim.mapping import Mapping
from cpsat_pim.mapping.check import check_mapping
from cpsat_pim.mapping.constraints import check_constraints


class Oracle:
    """Decides which limits of a problem can be kept together, and remembers its verdicts.

    `request`: time limit, seed and parameters of its solves; the rest is the problem's own.
    """

    def __init__(
        self, problem: Problem, request: SolveRequest | None = None, stop: threading.Event | None = None
    ) -> None:
        self.case, self.limits = limits_of(problem)
        self.stop = stop or threading.Event()
        self._request = request or SolveRequest(objective=Objective.named("energy"))
        self._verdicts: dict[frozenset[Limit], Verdict] = {}
        self._mappings: list[Mapping] = []

    def decide(self, kept: frozenset[Limit]) -> Verdict:
        """Decide whether some mapping keeps these limits, all others lifted."""
        for known, verdict in self._verdicts.items():
            if kept == known or (verdict.feasible and kept < known) or (verdict.feasible is False and kept > known):
                return verdict
        self._verdicts[kept] = self.decide_case(self.only(kept))
        return self._verdicts[kept]

    def only(self, kept: frozenset[Limit]) -> Case:
        """Return the case in which all limits but these are lifted."""
        case = self.case
        for limit in self.limits:
            if limit not in kept:
                case = limit.lift(case)
        return case

    def decide_case(self, case: Case) -> Verdict:
        """Decide whether a case has a mapping."""
        problem = case.problem()
        if problem is None:
            return Verdict(feasible=False, reasons=(CONTRADICTION,))
        verdict = decide_least(problem)
        if verdict.feasible is False or (verdict.feasible and problem.budget == NO_LIMIT):
            return verdict
        known = next((mapping for mapping in self._mappings if not violations(problem, mapping)), None)
        return Verdict(feasible=True, mapping=known) if known else self._solved(problem)

    def least(self, case: Case, objective: Objective) -> SolvedLayer | None:
        """Solve a case for its least cost; return None if it contradicts itself, or if a stop was asked for."""
        problem = None if self.stop.is_set() else case.problem()
        return self._solve(problem, problem.arch, objective, self.stop) if problem else None

    def _solved(self, problem: Problem) -> Verdict:
        """Let the solver find any mapping, or prove that there is none; without a budget all mappings cost the same."""
        if self.stop.is_set():
            return Verdict(feasible=None)
        found = _FirstFound(self.stop)
        arch = problem.arch if problem.budget != NO_LIMIT else _free_of_cost(problem.arch)
        objective = Objective.named("latency" if problem.budget.fj is None and problem.budget != NO_LIMIT else "energy")
        solved = self._solve(problem, arch, objective, found, found.on_progress)
        if solved.mapping is None:
            is_empty = solved.status is Status.INFEASIBLE
            return Verdict(feasible=False if is_empty else None, reasons=_REASONS[problem.budget != NO_LIMIT])
        if broken := violations(problem, solved.mapping):
            raise Disagreement(problem.layer, problem.arch, solved.mapping, broken, solved.predicted, None)
        self._mappings.append(solved.mapping)
        return Verdict(feasible=True, mapping=solved.mapping)

    def _solve(
        self,
        problem: Problem,
        arch: PIMArchitecture,
        objective: Objective,
        stop: threading.Event,
        on_progress: OnProgress = ignore_progress,
    ) -> SolvedLayer:
        """Solve a problem on a machine for an objective."""
        request = evolve(self._request, objective=objective, constraints=problem.constraints, budget=problem.budget)
        return solve_layer(problem.layer, arch, request, stop, on_progress)


#: The reasons of a problem without a mapping, by whether there is a budget.
_REASONS = (
    ("no loop factors, orders and stored tensors keep all of this (proven by the solver)",),
    ("no mapping that keeps the rest is within the budget (proven by the solver)",),
)


class _FirstFound(threading.Event):
    """A stop that is also set once there is a mapping."""

    def __init__(self, stop: threading.Event) -> None:
        super().__init__()
        self._stop = stop

    def is_set(self) -> bool:
        return super().is_set() or self._stop.is_set()

    def on_progress(self, progress: Progress) -> None:
        """Set the stop once the solve has an incumbent."""
        if progress.incumbent is not None:
            self.set()


def _free_of_cost(arch: PIMArchitecture) -> PIMArchitecture:
    """Return the machine on which all mappings take the same energy, so that the first one is optimal."""
    levels = tuple(evolve(level, access_cost=0.0, write_cost=None) for level in arch.hierarchy)
    return evolve(arch, hierarchy=levels, activation_energy=0.0)


def violations(problem: Problem, mapping: Mapping) -> list[str]:
    """Return a line for every rule, constraint and budget of a problem that a mapping breaks."""
    broken = check_mapping(problem.layer, problem.arch, mapping) or check_constraints(mapping, problem.constraints)
    if broken or problem.budget == NO_LIMIT:
        return broken
    figures = predict(problem.layer, problem.arch, mapping).figures
    cost = f"{figures.latency_cycles} cycles, {figures.energy_fj} fJ and {sum(figures.row_activations)} activations"
    return [] if problem.budget.covers(figures) else [f"{cost} are not within the budget"]
