"""A second objective: of all mappings that are about as good by the first one, the best by the second.

The first optimum is a budget of the second solve (lexicographic optimization; with `within` above 0 the
epsilon-constraint method of Haimes et al. 1971). Both solves have a proof of their own.
"""

import math
import threading
import time
from fractions import Fraction

import attrs

from cpsat_pim.arch import PIMArchitecture
from cpsat_pim.base.interrupts import Stop
from cpsat_pim.mapper.objectives.padding import solve_padded
from cpsat_pim.mapper.result import Objective, SecondObjective, SolvedLayer, Status
from cpsat_pim.mapper.search import OTHER, OnProgress, SolveRequest, solve_layer
from cpsat_pim.workload import ConvWorkload


def solve_lexicographic(
    layer: ConvWorkload,
    arch: PIMArchitecture,
    request: SolveRequest,
    stop: Stop | None,
    on_progress: OnProgress,
) -> SolvedLayer:
    """Return the best mapping by the request's objective, and of these the best by the second, if there is one.

    A second objective that nobody asked for is minimized where the first one is proven, and about as long as that took.
    `bound` and `status` are of the first objective, `second` has those of the second. Where the second one makes use of
    `within`, the first objective is not that of an optimum, so it has a gap, of at most `within` if both are proven.

    Raises:
        ValueError: see `solve_padded`.
    """
    stop, started = stop or threading.Event(), time.monotonic()
    if request.second is None:
        return solve_padded(layer, arch, request, stop, on_progress)
    parameters, is_asked = request.parameters, request.then != OTHER
    share = parameters.second_solve_share if is_asked else 0.0
    alone = attrs.evolve(request, then=None, within=0.0)
    first = solve_padded(
        layer, arch, attrs.evolve(alone, time_limit=(1 - share) * request.time_limit), stop, on_progress
    )
    if first.mapping is None or first.cost is None or not (is_asked or first.status is Status.OPTIMAL):
        return first
    taken = time.monotonic() - started
    left = max(0.0, request.time_limit - taken)
    if not is_asked:
        left = min(left, max(parameters.unasked_seconds, taken))
    most = math.floor(first.cost * (1 + Fraction(str(request.within))))
    objective, budget = Objective.named(request.second), request.budget.with_most(request.objective.kind, most)
    second = solve_layer(
        layer, arch, attrs.evolve(alone, objective=objective, budget=budget, start=first.mapping, time_limit=left), stop
    )
    return _combined(first, second, request)


def _combined(first: SolvedLayer, second: SolvedLayer, request: SolveRequest) -> SolvedLayer:
    """Return the second solve's mapping with the first one's proof. The second has a mapping: it began with one."""
    assert second.objective_value is not None
    is_proven = first.status is second.status is Status.OPTIMAL
    result = attrs.evolve(
        first,
        mapping=second.mapping,
        prediction=second.prediction,
        solve_seconds=first.solve_seconds + second.solve_seconds,
        second=SecondObjective(
            kind=second.objective.kind,
            within=request.within,
            value=second.objective_value,
            bound=second.bound,
            status=Status.OPTIMAL if is_proven else Status.FEASIBLE,
        ),
    )
    return result.with_lower_bound(first.lower_bound)
