"""The options that bounds leave as one CP-SAT model: what label setting cannot say, or has too many labels for.

A literal for each home of each tensor and for each option of each layer; bytes at every spot stay within the capacity.
Besides, it carries the side constraint that couples all tensors: at most so many different layouts at home.
"""

import threading
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from attrs import evolve, frozen
from ortools.sat.python import cp_model

from cpsat_pim.planner.labels.setting import Found, useful_options
from cpsat_pim.planner.labels.stages import LayoutLimit, Path, Stage, StagedProblem

#: Seconds between two looks at whether the search is over.
_POLL_SECONDS = 0.1


@frozen(kw_only=True)
class ModelLimits:
    """`most_options`: options of a model, of which 100,000 take about half a gigabyte."""

    most_options: int = 300_000


def solve_model(
    problem: StagedProblem,
    trial: int,
    limit: LayoutLimit | None = None,
    is_over: Callable[[], bool] = lambda: False,
    limits: ModelLimits | None = None,
) -> Found:
    """Return the cheapest path that fits, keeps to the limit and costs at most `trial`, and a bound of all such paths.

    As `set_labels`: the bound is the path's cost, or `trial` + 1 if there is none, unless the search was over before.
    """
    useful = [useful_options(problem, stage) for stage in problem.stages]
    if sum(map(len, useful)) > (limits or ModelLimits()).most_options:
        return Found(path=None, bound=0, is_complete=False)
    stages = [
        evolve(stage, cells=stage.cells[own], cost=stage.cost[own], usage=stage.usage[own])
        for stage, own in zip(problem.stages, useful, strict=True)
    ]
    found = _Model(problem, stages, trial, limit).solve(is_over)
    if found.path is None:
        return found
    options = tuple(int(own[i]) for own, i in zip(useful, found.path.options, strict=True))
    return evolve(found, path=evolve(found.path, options=options))


class _Model:
    """Literals of homes and options, and the constraints between them."""

    def __init__(self, problem: StagedProblem, stages: Sequence[Stage], trial: int, limit: LayoutLimit | None) -> None:
        """`stages`: those of the problem, with fewer options."""
        self.problem, self.trial = evolve(problem, stages=stages), trial
        self.model = cp_model.CpModel()
        self.home_vars: dict[str, dict[int, Any]] = {}
        self.option_vars = [self._add_stage(stage) for stage in stages]
        self._limit_bytes()
        if limit is not None:
            self._limit_layouts(limit)
        self.cost = cp_model.LinearExpr.weighted_sum(
            [one for own in self.option_vars for one in own], self._costs().tolist()
        )
        self.model.add(self.cost <= trial)
        self.model.minimize(self.cost)

    def _costs(self) -> np.ndarray:
        return np.concatenate([stage.cost for stage in self.problem.stages])

    def _add_stage(self, stage: Stage) -> list[Any]:
        """One option of a layer is taken, at homes that all layers agree on."""
        chosen = [self.model.new_bool_var("") for _ in range(len(stage))]
        self.model.add_exactly_one(chosen)
        for axis, name in enumerate(stage.variables):
            by_home = defaultdict(list)
            for option_var, value in zip(chosen, stage.cells[:, axis].tolist(), strict=True):
                by_home[value].append(option_var)
            self._tie(name, by_home)
        return chosen

    def _tie(self, name: str, by_home: dict[int, list[Any]]) -> None:
        """An option at a home is taken if and only if the tensor lies there."""
        if name not in self.home_vars:
            self.home_vars[name] = {value: self.model.new_bool_var("") for value in by_home}
            self.model.add_exactly_one(self.home_vars[name].values())
        for value, home_var in self.home_vars[name].items():
            self.model.add(sum(by_home.get(value, [])) == home_var)
        for value in by_home.keys() - self.home_vars[name].keys():
            self.model.add(sum(by_home[value]) == 0)

    def _limit_bytes(self) -> None:
        """Bytes at each spot stay within the capacity."""
        for spot, capacity in enumerate(self.problem.capacity.tolist()):
            used = [int(one) for stage in self.problem.stages for one in stage.usage[:, spot]]
            every = [option_var for own in self.option_vars for option_var in own]
            self.model.add(cp_model.LinearExpr.weighted_sum(every, used) <= capacity)

    def _limit_layouts(self, limit: LayoutLimit) -> None:
        """A layout that some tensor has is used; so many are used at most."""
        used_vars = {name: self.model.new_bool_var("") for names in limit.layouts.values() for name in names}
        for name, home_vars in self.home_vars.items():
            for value, home_var in home_vars.items():
                self.model.add_implication(home_var, used_vars[limit.layouts[name][value]])
        self.model.add(sum(used_vars.values()) <= limit.most)

    def solve(self, is_over: Callable[[], bool]) -> Found:
        """Solve it; the search looks at `is_over` all the time."""
        solver = cp_model.CpSolver()
        solver.parameters.num_workers = 1
        solver.parameters.linearization_level = 2
        status = _solved(solver, self.model, is_over)
        if status == cp_model.INFEASIBLE:
            return Found(path=None, bound=self.trial + 1)
        if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
            return Found(path=None, bound=0, is_complete=False)
        path = self._path(solver)
        is_complete = status == cp_model.OPTIMAL
        return Found(path=path, bound=path.cost if is_complete else 0, is_complete=is_complete)

    def _path(self, solver: cp_model.CpSolver) -> Path:
        stages = self.problem.stages
        options = tuple(next(i for i, one in enumerate(own) if solver.value(one)) for own in self.option_vars)
        used = sum(stage.usage[i] for stage, i in zip(stages, options, strict=True))
        cost = sum(int(stage.cost[i]) for stage, i in zip(stages, options, strict=True))
        return Path(options=options, cost=cost, usage=tuple(np.asarray(used).tolist()))


def _solved(solver: cp_model.CpSolver, model: cp_model.CpModel, is_over: Callable[[], bool]) -> Any:
    """Solve in a thread of its own, so that the end of the search, or an interrupt, ends it at once."""
    outcome: list[Any] = []
    thread = threading.Thread(target=lambda: outcome.append(solver.solve(model)), daemon=True)
    thread.start()
    while thread.is_alive():
        thread.join(_POLL_SECONDS)
        if is_over():
            solver.stop_search()
    if not outcome or outcome[0] == cp_model.MODEL_INVALID:
        raise RuntimeError("the solver rejected the model of a plan")
    return outcome[0]
