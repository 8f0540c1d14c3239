"""How the small CP-SAT models of kernels and layers are solved."""

from typing import Any


def finds_solution(model: Any, solver: Any, seconds: float) -> bool:
    """Solve a CP-SAT model with one worker; return whether there is a solution, proven or not.

    Raises:
        ValueError: the model is not one that CP-SAT takes.
    """
    problem = model.validate()
    if problem:
        raise ValueError(problem)
    solver.parameters.num_workers = 1
    solver.parameters.max_time_in_seconds = seconds
    solver.solve(model)
    return solver.status_name() in ("OPTIMAL", "FEASIBLE")
