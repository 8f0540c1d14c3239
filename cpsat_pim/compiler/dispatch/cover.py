"""The fewest mappings that are nowhere more than some percent slower than the optimum: a set cover, by CP-SAT."""

from typing import Any

import numpy as np
from attrs import frozen
from numpy.typing import NDArray

from cpsat_pim.compiler.solving import finds_solution

Ints = NDArray[np.int64]


@frozen(eq=False)
class Cover:
    """Chosen mappings by number, the chosen one of every length, the status, and the fewest that are possible."""

    chosen: tuple[int, ...]
    of_length: Ints
    status: str
    bound: int


def fewest_mappings(ticks: Ints, best: Ints, percent: float, seconds: float = 30.0) -> Cover:
    """The fewest rows of `ticks` int64[mappings, lengths] such that for every length a chosen one has at most
    `best` int64[lengths] plus so many percent. Of the chosen ones a length takes the fastest.

    Raises:
        ValueError: for some length no mapping is good enough, or the model is malformed.
    """
    from ortools.sat.python import cp_model

    good = ticks * 1000 <= best * round(1000 + 10 * percent)
    if not good.any(axis=0).all():
        raise ValueError("for some length no mapping is good enough")
    model = cp_model.CpModel()
    is_chosen = [model.new_bool_var(f"mapping {number}") for number in range(len(ticks))]
    for column in np.unique(good, axis=1).T:  # lengths with the same good mappings ask for the same
        model.add_bool_or([is_chosen[number] for number in np.flatnonzero(column)])
    model.minimize(sum(is_chosen))
    return _solved(cp_model, model, is_chosen, np.where(good, ticks, 2**60), seconds)


def _solved(cp_model: Any, model: Any, is_chosen: list[Any], ticks: Ints, seconds: float) -> Cover:
    solver = cp_model.CpSolver()
    finds_solution(model, solver, seconds)
    chosen = tuple(number for number, literal in enumerate(is_chosen) if solver.value(literal))
    of_length = np.array(chosen)[np.argmin(ticks[list(chosen)], axis=0)]
    return Cover(chosen, of_length, solver.status_name(), round(solver.best_objective_bound))
