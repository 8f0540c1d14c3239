"""A stand-in for solves: a finite set of costs, of which the least within a budget is found by trying all."""

from collections.abc import Callable, Sequence

import attrs
from hypothesis import strategies as st

from cpsat_pim.mapper.result import Budget, Objective, SolvedLayer, Status
from cpsat_pim.mapping import Mapping
from tests.report.results import solved_layer

Cost = tuple[int, ...]

costs = st.lists(st.tuples(st.integers(1, 60), st.integers(0, 10**6)), min_size=1, max_size=40)
#: With row activations: of each figure so few values that costs often agree in one or two. Energies may be 0.
costs_of_three = st.lists(st.tuples(st.integers(1, 9), st.integers(0, 8), st.integers(1, 9)), min_size=1, max_size=40)
unlucky = st.dictionaries(st.integers(0, 30), st.sampled_from([Status.FEASIBLE, Status.UNKNOWN]), min_size=1)
SOLVED = solved_layer()


def answer(objective: Objective, cost: Cost | None, bound: int | None, status: Status) -> SolvedLayer:
    """A solve's answer whose mapping has a cost, or that has none."""
    if cost is None or SOLVED.prediction is None:
        nothing = {"mapping": None, "prediction": None, "simulated": None}
        return attrs.evolve(SOLVED, objective=objective, status=status, bound=bound, **nothing)
    cycles, fj, *activations = cost
    figures = attrs.evolve(SOLVED.prediction.figures, latency_cycles=cycles, energy_fj=fj)
    if activations:
        figures = attrs.evolve(figures, row_activations=(*activations, 0, 0))
    prediction = attrs.evolve(SOLVED.prediction, figures=figures)
    return attrs.evolve(SOLVED, objective=objective, status=status, bound=bound, prediction=prediction)


class Finite:
    """Solves over a finite space of cycles, energy and perhaps row activations, by trying all of it; of equals the
    worst is the answer. The `unlucky` ones, by number, run out of time: they answer with the worst of the space, if
    with any.
    """

    def __init__(self, space: Sequence[Cost], unlucky: dict[int, Status] | None = None) -> None:
        self.space, self.unlucky, self.count = space, unlucky or {}, 0

    def __call__(self, objective: Objective, budget: Budget, start: Mapping | None) -> SolvedLayer:
        """Try all."""
        costs = (cost for cost in self.space if budget.allows(*cost, *(0,) * (3 - len(cost))))
        worst_first = sorted(costs, reverse=True)
        ranked = sorted(((objective.value(*cost[:2]), cost) for cost in worst_first), key=lambda found: found[0])
        status = self.unlucky.get(self.count, Status.OPTIMAL) if ranked else Status.INFEASIBLE
        self.count += 1
        if status in (Status.INFEASIBLE, Status.UNKNOWN):
            return answer(objective, None, None if status is Status.INFEASIBLE else ranked[0][0] // 2, status)
        if status is Status.OPTIMAL or ranked[-1][0] == ranked[0][0]:
            return answer(objective, ranked[0][1], ranked[0][0], Status.OPTIMAL)
        return answer(objective, ranked[-1][1], ranked[0][0] * 3 // 4, status)


def after(calls: int, solve: Finite) -> Callable[[], bool]:
    """Time that is up after so many solves."""
    return lambda: solve.count >= calls
