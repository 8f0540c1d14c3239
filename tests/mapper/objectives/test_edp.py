"""The least product of latency and energy of finite sets of costs is that which comparing all of them gives."""

import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cpsat_pim.arch import PIMArchitecture
from cpsat_pim.base.interrupts import Stop
from cpsat_pim.mapper.network.run import solve_and_verify
from cpsat_pim.mapper.objectives.edp import LeastProduct, solve_edp
from cpsat_pim.mapper.objectives.regions import Line, Region
from cpsat_pim.mapper.result import NO_LIMIT, Budget, Objective, SolvedLayer, Status
from cpsat_pim.mapper.search import Progress, SolveRequest
from cpsat_pim.mapping.constraints import Constraints
from cpsat_pim.workload import ConvWorkload
from tests.finite import Cost, Finite, after, costs, unlucky

EDP = Objective.named("edp")
ARCH = PIMArchitecture()
LAYER = ConvWorkload(name="small", P=4, C=4, K=4)


def least(space: list[Cost], budget: Budget = NO_LIMIT) -> int:
    """By multiplying all."""
    return min(cycles * fj for cycles, fj in space if budget.allows(cycles, fj, 0))


def search(
    solve: Finite, least_cycles: int = 1, budget: Budget = NO_LIMIT, is_over: Callable[[], bool] = lambda: False
) -> LeastProduct:
    """The search, run."""
    found = LeastProduct(solve, budget, is_over, lambda: None)
    found.run(least_cycles)
    return found


# --- Regions ---------------------------------------------------------------------------------------------------------

small = st.integers(1, 30)


@given(small, small, small, small, st.integers(0, 1500))
def test_bound_of_a_region_is_no_more_than_any_product_in_it(cycles: int, fj: int, a: int, b: int, value: int) -> None:
    """Every point from the corner on and above the line, as far as products matter."""
    region = Region(cycles=cycles, fj=fj, line=Line(a=a, b=b, least=value))
    products = [x * y for x in range(cycles, cycles + 60) for y in range(fj, fj + 60) if a * x + b * y >= value]
    assert not products or cycles * fj <= region.bound <= min(products) or value > a * (cycles + 59) + b * fj


@given(small, small, small, small, st.integers(0, 900), small, st.integers(1, 2000))
def test_parts_of_a_region_leave_out_nothing_better(
    cycles: int, fj: int, a: int, b: int, value: int, cut: int, most: int
) -> None:
    """Each point of the region with a product of at most `most` is in one part; no part has a lower bound."""
    region = Region(cycles=cycles, fj=fj, line=Line(a=a, b=b, least=value))
    parts = list(region.halves(fj + cut - 1, most))
    assert all(part.bound >= region.bound for part in parts)
    for x in range(cycles, cycles + 40):
        for y in range(fj, fj + 40):
            if a * x + b * y >= value and x * y <= most:
                within = [p for p in parts if x >= p.cycles and y >= p.fj and p.budget(most).allows(x, y, 0)]
                assert len(within) == 1


# --- The search ------------------------------------------------------------------------------------------------------


@given(costs, st.integers(0, 60))
@settings(max_examples=300)
def test_least_product_is_that_of_all(space: list[Cost], slack: int) -> None:
    """With its proof, however little is known of the least latency."""
    found = search(Finite(space), max(1, min(cycles for cycles, _ in space) - slack))
    assert found.incumbent is not None
    assert found.incumbent.edp == found.bound == least(space)


@given(costs, st.integers(1, 60), st.integers(1, 10**6))
def test_least_product_within_a_budget_is_that_of_the_rest(space: list[Cost], cycles: int, fj: int) -> None:
    """Or there is none."""
    budget = Budget(cycles=cycles, fj=fj)
    found = search(Finite(space), budget=budget)
    if any(budget.allows(*cost, 0) for cost in space):
        assert found.bound == least(space, budget)
    else:
        assert (found.incumbent, found.bound) == (None, None)


def test_few_solves_are_needed() -> None:
    """Of a thousand points on a front that is bent inwards, a handful is solved for."""
    space = [(n, 10**9 // n**3 + 1) for n in range(1, 501)] + [(500 + n, 8 - n // 63) for n in range(500)]
    solve = Finite(space)
    assert search(solve).bound == least(space)
    assert solve.count < 20


def test_free_energy_is_the_least_product_at_once() -> None:
    """Nothing is less than nothing."""
    solve = Finite([(3, 0), (1, 5)])
    assert (search(solve).bound, solve.count) == (0, 1)


@given(costs, unlucky)
@settings(max_examples=300)
def test_bound_holds_without_a_proof(space: list[Cost], unlucky: dict[int, Status]) -> None:
    """With solves that run out of time it is no more than the least product, and the best no less; it never falls."""
    bounds: list[int] = []
    found = LeastProduct(Finite(space, unlucky), NO_LIMIT, lambda: False, lambda: bounds.append(found.bound or 0))
    found.run(1)
    assert bounds == sorted(bounds)
    assert found.bound is not None
    assert found.bound <= least(space)
    assert found.incumbent is None or least(space) <= found.incumbent.edp


@given(costs, st.integers(1, 9))
def test_bound_holds_when_time_ends(space: list[Cost], calls: int) -> None:
    """No more solves are begun than there is time for."""
    solve = Finite(space)
    found = search(solve, is_over=after(calls, solve))
    assert solve.count <= calls
    assert found.bound is not None
    assert found.bound <= least(space)


# --- One layer -------------------------------------------------------------------------------------------------------


def test_answer_is_in_cycles_times_femtojoules() -> None:
    """Objective, bound and progress alike; the product of the figures that are predicted and simulated."""
    seen: list[Progress] = []
    solved = solve_and_verify(LAYER, ARCH, SolveRequest(objective=EDP), on_progress=seen.append)
    figures = solved.predicted
    assert solved.status is Status.OPTIMAL
    assert solved.objective_value == solved.bound == figures.latency_cycles * figures.energy_fj
    assert solved.gap == 0
    assert solved.progress[-1][1:] == (solved.objective_value, solved.bound) == (seen[-1].incumbent, seen[-1].bound)
    assert [known[2] for known in solved.progress] == sorted(known[2] or 0 for known in solved.progress)
    assert solved.simulated is not None
    assert solved.simulated.energy_fj == figures.energy_fj


def test_product_lies_between_its_neighbours() -> None:
    """No less than least latency times least energy, no more than that of either optimum."""
    product = solve_and_verify(LAYER, ARCH, SolveRequest(objective=EDP)).objective_value
    latency, energy = (
        solve_and_verify(LAYER, ARCH, SolveRequest(objective=Objective.named(kind), then=None))
        for kind in ("latency", "energy")
    )
    products = [solved.latency * solved.predicted.energy_fj for solved in (latency, energy)]
    assert product is not None
    assert latency.latency * energy.predicted.energy_fj <= product <= min(products)


def test_constraints_are_kept() -> None:
    """The optimum is of the mappings that keep them, and is no better than the free one."""
    free = solve_and_verify(LAYER, ARCH, SolveRequest(objective=EDP))
    assert free.mapping is not None
    other = Constraints(layout=[1 - i for i in free.mapping.layout])
    solved = solve_and_verify(LAYER, ARCH, SolveRequest(objective=EDP, constraints=other))
    assert (solved.status, solved.constraints) == (Status.OPTIMAL, other)
    assert solved.mapping is not None
    assert [*solved.mapping.layout] == [*other.layout]
    assert (solved.bound or 0) >= (free.bound or 0)


def test_constraints_that_nothing_keeps_are_infeasible() -> None:
    """As with any objective."""
    nothing = Constraints(temporal=[[3] * 8, *[[None] * 8] * 3])
    solved = solve_edp(LAYER, ARCH, SolveRequest(objective=EDP, constraints=nothing))
    assert (solved.status, solved.mapping, solved.bound) == (Status.INFEASIBLE, None, None)


def test_start_is_the_worst_that_can_come_of_it() -> None:
    """Without time for a better one it is the answer; its bound holds."""
    best = solve_and_verify(LAYER, ARCH, SolveRequest(objective=EDP))
    solved = solve_edp(LAYER, ARCH, SolveRequest(objective=EDP, start=best.mapping, time_limit=0.01))
    assert solved.objective_value == best.objective_value
    assert (solved.bound or 0) <= (best.bound or 0)


@pytest.mark.parametrize("options", [{"budget": Budget(cycles=1)}, {"constraints": Constraints(layout=[1, 1, 1])}])
def test_start_that_is_not_allowed_is_refused(options: dict[str, Any]) -> None:
    """Rather than kept as the answer: one over the budget, or that breaks a constraint."""
    best = solve_and_verify(
        LAYER, ARCH, SolveRequest(objective=Objective.named("energy"), constraints=Constraints(layout=[0, 0, 0]))
    )
    with pytest.raises(ValueError, match="small: the mapping to start from"):
        solve_edp(LAYER, ARCH, SolveRequest(objective=EDP, start=best.mapping, **options))


def test_value_to_beat_is_refused() -> None:
    """A product that is to be beaten says nothing of the sums that are solved."""
    with pytest.raises(ValueError, match="takes no value to beat"):
        solve_edp(LAYER, ARCH, SolveRequest(objective=EDP, value_to_beat=1))


def test_time_limit_is_that_of_the_whole_layer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Solves that all take the time that they are given share it; but for the first, they are stopped at its end."""
    finite = Finite([(n, 100 - n * n) for n in range(1, 10)], dict.fromkeys(range(100), Status.FEASIBLE))
    asked: list[tuple[SolveRequest, Stop]] = []

    def slow(layer: object, arch: object, request: SolveRequest, stop: Stop) -> SolvedLayer:
        asked.append((request, stop))
        time.sleep(request.time_limit)
        return finite(request.objective, request.budget, request.start)

    monkeypatch.setattr("cpsat_pim.mapper.objectives.edp.solve_layer", slow)
    monkeypatch.setattr("cpsat_pim.mapper.objectives.edp.layer_lower_bound", lambda *_: 1)
    solved = solve_edp(LAYER, ARCH, SolveRequest(objective=EDP, time_limit=0.8))
    assert len(asked) > 1
    assert sum(request.time_limit for request, _ in asked) < 0.8
    assert [stop.is_set() for _, stop in asked] == [False] + [True] * (len(asked) - 1)
    assert 0 < (solved.bound or 0) <= (solved.objective_value or 0)


def test_stop_ends_with_the_best_and_its_bound() -> None:
    """Asked for when the first mapping is known."""
    stop = threading.Event()
    solved = solve_edp(LAYER, ARCH, SolveRequest(objective=EDP), stop, lambda progress: stop.set())
    assert solved.solver_info["solves"] == 1
    assert solved.status is Status.FEASIBLE
    assert 0 < (solved.bound or 0) < (solved.objective_value or 0)


def test_product_has_no_weights() -> None:
    """Asking for them is an error."""
    with pytest.raises(ValueError, match="a product has no weights"):
        _ = EDP.weights
