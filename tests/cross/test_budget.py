"""Under a budget the optimum is the least cost of all mappings within the budget."""

import itertools
import random

import pytest

from cpsat_pim.arch import PIMArchitecture
from cpsat_pim.mapper.result import NO_LIMIT, Budget, Objective, Status
from cpsat_pim.mapper.search import SolveRequest, solve_layer
from cpsat_pim.workload import ConvWorkload
from tests.cross.test_solver_against_enumeration import CASES, whole_space

TRIED = 2


@pytest.mark.parametrize(
    "case", [pytest.param("product, weights in the row buffer", marks=pytest.mark.slow), "separate row buffers"]
)
def test_optimum_within_a_budget_is_the_least_of_the_space(case: str) -> None:
    """Latency under limits of energy, and energy under limits of latency, also at and below the extremes."""
    layer, arch = CASES[case]
    costs = {(f.latency_cycles, f.energy_fj) for f in whole_space(case)}
    rng = random.Random(case)
    limits = [min(e for _, e in costs) - 1, *sorted(e for _, e in rng.sample(sorted(costs), TRIED))]
    for limit in limits:
        within = [cycles for cycles, energy in costs if energy <= limit]
        _compare(layer, arch, "latency", Budget(fj=limit), min(within, default=None))
    limits = [min(c for c, _ in costs), *sorted(c for c, _ in rng.sample(sorted(costs), TRIED))]
    for limit in limits:
        within = [energy for cycles, energy in costs if cycles <= limit]
        _compare(layer, arch, "energy", Budget(cycles=limit), min(within, default=None))


@pytest.mark.parametrize("case", ["product, weights in the row buffer", "separate row buffers"])
def test_optimum_within_a_budget_of_activations_is_the_least_of_the_space(case: str) -> None:
    """Latency and energy, with limits below the fewest activations, at them and above, and with one of energy, too."""
    layer, arch = CASES[case]
    rng = random.Random(case)
    figures = whole_space(case)
    counts = sorted({sum(f.row_activations) for f in figures})
    some = rng.choice(counts)
    limits = [Budget(activations=n) for n in (counts[0] - 1, counts[0], some)]
    limits.append(Budget(activations=some, fj=rng.choice(figures).energy_fj))
    for kind, budget in itertools.product(("latency", "energy"), limits):
        objective = Objective.named(kind)
        values = (objective.value(f.latency_cycles, f.energy_fj) for f in figures if budget.covers(f))
        _compare(layer, arch, kind, budget, min(values, default=None))


def test_a_budget_of_energy_is_not_one_of_the_blend() -> None:
    """Weights of 1 per fJ and 50,000 per cycle: the optimum takes 2.7 nJ anyway, so a limit of 3 changes nothing."""
    layer, arch, blend = ConvWorkload(C=2, K=4), PIMArchitecture(), Objective.named("blended", 0.05, 1)
    assert blend.weights == (50_000, 1)
    free, within = (
        solve_layer(layer, arch, SolveRequest(objective=blend, time_limit=20, budget=budget))
        for budget in (NO_LIMIT, Budget(fj=3_000_000))
    )
    assert free.predicted.energy_fj < 3_000_000
    assert free.status is within.status is Status.OPTIMAL
    assert within.objective_value == free.objective_value


def _compare(layer: object, arch: object, kind: str, budget: Budget, least: int | None) -> None:
    """Assert that the optimum is this least cost, or INFEASIBLE for None; if time runs out, that the bound is valid."""
    solved = solve_layer(layer, arch, SolveRequest(objective=Objective.named(kind), time_limit=5, budget=budget))  # type: ignore[arg-type]
    if least is None:
        assert solved.status is Status.INFEASIBLE
        return
    assert solved.bound is not None
    assert solved.bound <= least
    if solved.status is Status.OPTIMAL:
        assert solved.objective_value == least
        assert budget.covers(solved.predicted)
