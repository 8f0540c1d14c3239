"""All baselines by name, and the function that runs one: each maps a problem with a given effort."""

import time
from collections.abc import Callable
from functools import partial
from typing import Any

from attrs import frozen

from cpsat_pim.mapper.result import Objective
from cpsat_pim.study.baselines.heuristics import (
    INPUT_STATIONARY,
    OUTPUT_STATIONARY,
    ROW_STATIONARY,
    WEIGHT_STATIONARY,
    Dataflow,
    map_by_dataflow,
    map_by_largest_tiles,
)
from cpsat_pim.study.baselines.problem import Problem, Scored
from cpsat_pim.study.baselines.search import Effort, map_at_random, map_by_annealing
from cpsat_pim.study.baselines.seeds import map_by_estimate
from tables.estimators import ESTIMATORS

#: A baseline: returns the best mapping that it finds, and None only if the search space is empty.
Baseline = Callable[[Problem, Effort], Scored | None]

RANDOM = "random"


@frozen(kw_only=True)
class Outcome:
    """The mapping that a baseline found, and the seconds that it took."""

    name: str
    best: Scored | None
    seconds: float

    def to_dict(self, objective: Objective) -> dict[str, Any]:
        """Convert to plain data, as in a file of results."""
        best = self.best
        return {
            "name": self.name,
            "seconds": round(self.seconds, 3),
            "objective": objective.reported(best.value) if best else None,
            "predicted": best.prediction.figures.to_dict() if best else None,
            "mapping": best.mapping.to_dict() if best else None,
        }


def _of_dataflow(flow: Dataflow) -> Baseline:
    return lambda problem, effort: map_by_dataflow(problem, flow)


BASELINES: dict[str, Baseline] = {
    "ws": _of_dataflow(WEIGHT_STATIONARY),
    "os": _of_dataflow(OUTPUT_STATIONARY),
    "is": _of_dataflow(INPUT_STATIONARY),
    "rs": _of_dataflow(ROW_STATIONARY),
    "greedy": lambda problem, effort: map_by_largest_tiles(problem),
    RANDOM: map_at_random,
    "annealing": map_by_annealing,
    **{name: partial(map_by_estimate, estimator=name) for name in ESTIMATORS},
}


def run_baseline(name: str, problem: Problem, effort: Effort) -> Outcome:
    """Run a baseline on a problem."""
    started = time.monotonic()
    best = BASELINES[name](problem, effort)
    return Outcome(name=name, best=best, seconds=time.monotonic() - started)
