"""Whether a problem has a mapping: the smallest ones tell as a rule; where they do not, the solver does."""

import threading

from attrs import evolve

from cpsat_pim.arch import PIMArchitecture
from cpsat_pim.evaluate.cost import predict
from cpsat_pim.evaluate.verify import Disagreement
from cpsat_pim.mapper.explain.least import CONTRADICTION, Verdict, judge_least
from cpsat_pim.mapper.explain.limits import Case, Limit, Problem, limits_of
from cpsat_pim.mapper.result import NO_LIMIT, Objective, SolvedLayer, Status
from cpsat_pim.mapper.search import Options, Progress, solve_layer
from cpsat_pim.mapping import Mapping
from cpsat_pim.mapping.check import check_mapping
from cpsat_pim.mapping.constraints import check_constraints


class Oracle:
    """Judges parts of a problem's limits; `time_limit` seconds for each solve. It remembers what it knows."""

    def __init__(
        self, problem: Problem, *, time_limit: float = 60.0, seed: int = 0, stop: threading.Event | None = None
    ) -> None:
        self.case, self.limits = limits_of(problem)
        self.stop = stop or threading.Event()
        self._time_limit, self._seed = time_limit, seed
        self._verdicts: dict[frozenset[Limit], Verdict] = {}
        self._mappings: list[Mapping] = []

    def judge(self, kept: frozenset[Limit]) -> Verdict:
        """Whether some mapping keeps these limits, all others lifted."""
        for known, verdict in self._verdicts.items():
            if kept == known or (verdict.feasible and kept < known) or (verdict.feasible is False and kept > known):
                return verdict
        self._verdicts[kept] = self.judge_case(self.only(kept))
        return self._verdicts[kept]

    def only(self, kept: frozenset[Limit]) -> Case:
        """The case in which all limits but these are lifted."""
        case = self.case
        for limit in self.limits:
            if limit not in kept:
                case = limit.lift(case)
        return case

    def judge_case(self, case: Case) -> Verdict:
        """Whether a case has a mapping."""
        problem = case.problem()
        if problem is None:
            return Verdict(feasible=False, reasons=(CONTRADICTION,))
        verdict = judge_least(problem)
        if verdict.feasible is False or (verdict.feasible and problem.budget == NO_LIMIT):
            return verdict
        known = next((mapping for mapping in self._mappings if not violations(problem, mapping)), None)
        return Verdict(feasible=True, mapping=known) if known else self._solved(problem)

    def least(self, case: Case, objective: Objective) -> SolvedLayer | None:
        """What a case costs at least; None if that makes no sense, or there is no time left."""
        problem = None if self.stop.is_set() else case.problem()
        options = Options(time_limit=self._time_limit, seed=self._seed, stop=self.stop)
        return _solve(problem, problem.arch, objective, options) if problem else None

    def _solved(self, problem: Problem) -> Verdict:
        """What the solver finds first, or proves not to be there; what nobody asks for costs nothing meanwhile."""
        if self.stop.is_set():
            return Verdict(feasible=None)
        found = _FirstFound(self.stop)
        options = Options(time_limit=self._time_limit, seed=self._seed, stop=found)
        arch = problem.arch if problem.budget != NO_LIMIT else _free_of_cost(problem.arch)
        objective = Objective.named("latency" if problem.budget.fj is None and problem.budget != NO_LIMIT else "energy")
        solved = _solve(problem, arch, objective, options, found)
        if solved.mapping is None:
            is_empty = solved.status is Status.INFEASIBLE
            return Verdict(feasible=False if is_empty else None, reasons=_REASONS[problem.budget != NO_LIMIT])
        if broken := violations(problem, solved.mapping):
            raise Disagreement(problem.layer, problem.arch, solved.mapping, broken, solved.predicted, None)
        self._mappings.append(solved.mapping)
        return Verdict(feasible=True, mapping=solved.mapping)


#: What the solver says of no mapping, by whether there is a budget.
_REASONS = (
    ("no loop factors, orders and stored tensors keep all of this (proven by the solver)",),
    ("no mapping that keeps the rest is within the budget (proven by the solver)",),
)


class _FirstFound(threading.Event):
    """A stop that is also asked for once there is a mapping."""

    def __init__(self, stop: threading.Event) -> None:
        super().__init__()
        self._stop = stop

    def is_set(self) -> bool:
        return super().is_set() or self._stop.is_set()

    def hear(self, progress: Progress) -> None:
        """Progress of the solve."""
        if progress.best is not None:
            self.set()


def _solve(
    problem: Problem, arch: PIMArchitecture, objective: Objective, options: Options, found: _FirstFound | None = None
) -> SolvedLayer:
    options = evolve(options, constraints=problem.constraints, budget=problem.budget)
    return solve_layer(problem.layer, arch, objective, options, *([found.hear] if found else []))


def _free_of_cost(arch: PIMArchitecture) -> PIMArchitecture:
    """The machine on which all mappings take the same energy, so that the first one is the best."""
    levels = tuple(evolve(level, access_cost=0.0, write_cost=None) for level in arch.hierarchy)
    return evolve(arch, hierarchy=levels, activation_energy=0.0)


def violations(problem: Problem, mapping: Mapping) -> list[str]:
    """A line for everything in a problem that a mapping does not keep."""
    broken = check_mapping(problem.layer, problem.arch, mapping) or check_constraints(mapping, problem.constraints)
    if broken or problem.budget == NO_LIMIT:
        return broken
    figures = predict(problem.layer, problem.arch, mapping).figures
    cost = f"{figures.latency_cycles} cycles, {figures.energy_fj} fJ and {sum(figures.row_activations)} activations"
    return [] if problem.budget.covers(figures) else [f"{cost} are not within the budget"]
