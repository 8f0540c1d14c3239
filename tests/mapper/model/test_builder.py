"""What the model builder constrains, against all solutions that CP-SAT enumerates."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from ortools.sat.python import cp_model

from cpsat_pim.mapper.model.builder import Builder, Int, Lit
from cpsat_pim.mapper.space.parameters import DEFAULTS, SearchParameters

RANGES_ONLY = SearchParameters(product_pairs=0)
VALUES = st.sets(st.integers(1, 6), min_size=1, max_size=3)


class _All(cp_model.CpSolverSolutionCallback):
    """Collects the values of some expressions in every solution."""

    def __init__(self, expressions: list[Int]) -> None:
        super().__init__()
        self.expressions, self.found = expressions, set[tuple[int, ...]]()

    def on_solution_callback(self) -> None:
        """Keep the values."""
        self.found.add(tuple(x if isinstance(x, int) else self.value(x) for x in self.expressions))


def solutions(b: Builder, expressions: list[Int]) -> set[tuple[int, ...]]:
    """Return the values of the expressions in all solutions."""
    solver, collector = cp_model.CpSolver(), _All(expressions)
    solver.parameters.enumerate_all_solutions = True
    solver.parameters.num_workers = 1
    solver.solve(b.model, collector)
    return collector.found


@pytest.mark.parametrize("parameters", [DEFAULTS, RANGES_ONLY], ids=["sets", "ranges"])
@settings(max_examples=20)
@given(st.lists(VALUES, min_size=1, max_size=3), st.integers(1, 40))
def test_a_product_takes_exactly_the_products_up_to_its_limit(
    parameters: SearchParameters, domains: list[set[int]], most: int
) -> None:
    """Whether domains of products are kept as sets or as ranges; a limit cuts off what is above it."""
    b = Builder(parameters)
    factors = [b.integer(domain, "factor") for domain in domains]
    product = b.product(factors, "product")
    b.model.add(product <= most)
    expected = {(*row, math.prod(row)) for row in itertools.product(*domains) if math.prod(row) <= most}
    assert solutions(b, [*factors, product]) == expected


@settings(max_examples=20)
@example({2}, {3}, {5})
@given(*[st.sets(st.integers(2, 6), min_size=1, max_size=3)] * 2, st.sets(st.integers(1, 36)))
def test_a_product_within_a_set_has_no_other_values(one: set[int], other: set[int], within: set[int]) -> None:
    """If no product is in the set there is no solution, also where both factors are constants."""
    b = Builder()
    factors = [b.integer(one, "one"), b.integer(other, "other")]
    product = b.product(factors, "product", within=within)
    assert solutions(b, [*factors, product]) == {(x, y, x * y) for x in one for y in other if x * y in within}


@settings(max_examples=20)
@given(VALUES, st.sets(st.tuples(st.integers(1, 6), st.integers(1, 3)), min_size=1, max_size=6))
def test_a_lookup_takes_the_rows_of_the_keys(keys: set[int], rows: set[tuple[int, int]]) -> None:
    """A key without a row is impossible."""
    b = Builder()
    key = b.integer(keys, "key")
    (result,) = b.lookup([key], sorted(rows), ["result"])
    assert solutions(b, [key, result]) == {row for row in rows if row[0] in keys}


@settings(max_examples=20)
@given(VALUES, st.lists(st.tuples(st.integers(1, 3), st.integers(1, 4), st.integers(1, 4)), min_size=1, max_size=5))
def test_equal_columns_of_a_lookup_share_a_variable(keys: set[int], rows: list[tuple[int, int, int]]) -> None:
    """Three columns of results, the last of which repeats the first: the solutions are the rows all the same."""
    b = Builder()
    key = b.integer(keys, "key")
    one, other, again = b.lookup([key], [(k, x, y, x) for k, x, y in rows], ["one", "other", "again"])
    assert again is one
    assert solutions(b, [key, one, other]) == {row for row in rows if row[0] in keys}


@settings(max_examples=20)
@example({1}, [(1, 2**40 + 1), (1, 2**40), (1, 3), (1, 0)])
@given(VALUES, st.lists(st.tuples(st.integers(1, 3), st.integers(0, 10**9)), min_size=1, max_size=8))
def test_a_lookup_of_many_values_takes_the_rows_of_the_keys(keys: set[int], rows: list[tuple[int, int]]) -> None:
    """With a column of at most two values, most columns are sums of parts; a solution is a row all the same."""
    b = Builder(SearchParameters(column_values=2))
    key = b.integer(keys, "key")
    found = b.lookup([key], rows, ["found"])
    assert solutions(b, [key, *found]) == {row for row in rows if row[0] in keys}


def test_a_conjunction_and_a_disjunction_follow_their_literals() -> None:
    """For all truth values, and with constants among the literals."""
    b = Builder()
    one, other = b.boolean("one"), b.boolean("other")
    literals: list[Lit] = [b.both([one, other], "both"), b.either([one, other], "either"), b.both([one, True], "one")]
    flags = [b.flag(x) for x in (one, other, *literals)]
    expected = {(x, y, x & y, x | y, x) for x in (0, 1) for y in (0, 1)}
    assert solutions(b, flags) == expected
    assert b.both([one, False], "none") is False
    assert b.either([one, True], "any") is True


def test_a_variable_without_values_leaves_no_solution() -> None:
    """And the builder goes on with a number in its place."""
    b = Builder()
    x = b.integer((), "x")
    assert not solutions(b, [x])


def test_a_literal_of_a_difference_implies_it() -> None:
    """The literal may be false where the values differ, but is never true where they are equal."""
    b = Builder()
    x = b.integer((1, 2, 3), "x")
    differs = b.flag(b.differs(x, 2))
    assert solutions(b, [x, differs]) == {(1, 0), (1, 1), (2, 0), (3, 0), (3, 1)}
    assert b.differs(5, 2) is True


@pytest.mark.parametrize("where", [False, True])
def test_keys_equal_other_variables_only_where_a_literal_holds(where: bool) -> None:
    """Elsewhere they take any row that the others can take."""
    b = Builder()
    x, literal = b.integer((1, 2), "x"), b.boolean("where")
    rows = np.array([[1, 10], [2, 20], [3, 30]])
    (key,), kept = b.keys(rows, [x], literal, "key")
    (result,) = b.lookup([key], kept, ["result"])
    b.model.add(literal == int(where))
    found = solutions(b, [x, key, result])
    assert found == ({(1, 1, 10), (2, 2, 20)} if where else {(x, k, 10 * k) for x in (1, 2) for k in (1, 2)})
