"""Variable elimination against enumeration and CP-SAT."""

from itertools import product

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from ortools.sat.python import cp_model

from cpsat_pim.planner.eliminate import INFINITE, Factor, TooLarge, check_width, minimize


@st.composite
def problems(draw):
    """Up to five variables and six factors over up to three of them, with many equal entries."""
    names = "abcde"[: draw(st.integers(1, 5))]
    sizes = {name: draw(st.integers(1, 3)) for name in names}
    factors = []
    for _ in range(draw(st.integers(1, 6))):
        over = tuple(draw(st.permutations(names)))[: draw(st.integers(1, min(3, len(names))))]
        shape = tuple(sizes[name] for name in over)
        random = np.random.default_rng(draw(st.integers(0, 2**32)))
        factors.append(Factor(variables=over, cost=random.integers(0, 4, shape), tie=random.integers(0, 4, shape)))
    return factors, sizes


def total(factors, values):
    """(cost, tie) of an assignment."""
    at = [tuple(values[name] for name in factor.variables) for factor in factors]
    costs = sum(int(f.cost[i]) for f, i in zip(factors, at, strict=True))
    return costs, sum(int(f.tie[i]) for f, i in zip(factors, at, strict=True))


@given(problem=problems())
def test_least_pair_is_that_of_enumeration(problem):
    """Cost first, then the tie-breaker; and the values returned have it."""
    factors, sizes = problem
    found = minimize(factors, sizes)
    values = [dict(zip(sizes, chosen, strict=True)) for chosen in product(*map(range, sizes.values()))]
    assert (found.cost, found.tie) == min(total(factors, each) for each in values)
    assert total(factors, found.values) == (found.cost, found.tie)


@pytest.mark.parametrize("at_a_time", [1, 5, 20])
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(problem=problems())
def test_large_tables_are_made_in_slices(monkeypatch, at_a_time, problem):
    """With few entries at a time the result is the same."""
    factors, sizes = problem
    whole = minimize(factors, sizes)
    monkeypatch.setattr("cpsat_pim.planner.eliminate._ENTRIES_AT_A_TIME", at_a_time)
    sliced = minimize(factors, sizes)
    monkeypatch.undo()
    assert (sliced.cost, sliced.tie) == (whole.cost, whole.tie)
    assert total(factors, sliced.values) == (whole.cost, whole.tie)


def test_large_chain_is_that_of_enumeration(monkeypatch):
    """Three variables in a ring, of 4, 3 and 2 values with some that are not allowed: as a min-plus product."""
    monkeypatch.setattr("cpsat_pim.planner.eliminate._ENTRIES_AT_A_TIME", 1)
    sizes = {"a": 4, "b": 3, "c": 2}
    for seed in range(20):
        random, factors = np.random.default_rng(seed), []
        for pair in ("ab", "bc", "ca"):
            cost = random.choice([0, 1, 2, INFINITE], tuple(sizes[name] for name in pair))
            factors.append(Factor(variables=tuple(pair), cost=cost, tie=random.integers(0, 4, cost.shape)))
        found = minimize(factors, sizes)
        values = [dict(zip(sizes, chosen, strict=True)) for chosen in product(*map(range, sizes.values()))]
        best = min((min(INFINITE, cost), tie) for cost, tie in (total(factors, each) for each in values))
        assert found.cost == best[0]
        assert found.cost == INFINITE or found.tie == best[1]


@pytest.mark.parametrize("seed", range(5))
def test_least_cost_is_that_of_cp_sat(seed):
    """A cycle of six variables of four values each: one table constraint a factor."""
    random, names = np.random.default_rng(seed), "abcdef"
    pairs = list(zip(names, names[1:] + names[:1], strict=True))
    factors = [Factor(variables=pair, cost=(t := random.integers(0, 50, (4, 4))), tie=t) for pair in pairs]
    model = cp_model.CpModel()
    variables = {name: model.new_int_var(0, 3, name) for name in names}
    costs = []
    for factor in factors:
        cost = model.new_int_var(0, 50, "")
        rows = [(i, j, int(factor.cost[i, j])) for i in range(4) for j in range(4)]
        model.add_allowed_assignments([*(variables[name] for name in factor.variables), cost], rows)
        costs.append(cost)
    model.minimize(sum(costs))
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    assert solver.solve(model) == cp_model.OPTIMAL
    assert minimize(factors, dict.fromkeys(names, 4)).cost == solver.objective_value


def test_table_that_is_too_large_is_refused():
    """Three variables of 10 values in one factor take 1000 entries."""
    factor = Factor(variables=("a", "b", "c"), cost=np.zeros((10,) * 3, int), tie=np.zeros((10,) * 3, int))
    with pytest.raises(TooLarge, match=r"^eliminating a takes a table of 1000 entries, more than 999$"):
        minimize([factor], dict.fromkeys("abc", 10), most_entries=999)


@given(problem=problems())
def test_width_is_known_before_any_table(problem):
    """What is within the widest table on the way is allowed, and one entry fewer is refused."""
    factors, sizes = problem
    width, scopes = minimize(factors, sizes).width, [factor.variables for factor in factors]
    check_width(scopes, sizes, width)
    if width > 1:
        with pytest.raises(TooLarge, match=rf"takes a table of \d+ entries, more than {width - 1}; homes"):
            check_width(scopes, sizes, width - 1)
