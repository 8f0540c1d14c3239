"""A CP-SAT model with known domains: products get tight domains, and constants need no variables."""

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from ortools.sat.cp_model_pb2 import LinearExpressionProto
from ortools.sat.python import cp_model

from cpsat_pim.base.rows import distinct_rows
from cpsat_pim.mapper.bounds.countable import HIGHEST
from cpsat_pim.mapper.space.parameters import DEFAULTS, SearchParameters
from tables.nest import Ints

#: An integer variable or a constant.
Int = Any
#: A literal or a constant truth value.
Lit = Any
#: Rows of a table, int[n, m].
Rows = Ints | Sequence[Sequence[int]]


class Builder:
    """Builds one `CpModel`. A variable with one value is the constant itself, an `int` or a `bool`.

    What master problems have by the thousand is written into the model's protocol buffer: `CpModel` takes about twice
    as long, as it makes an object per constraint and expression.
    """

    def __init__(self, parameters: SearchParameters = DEFAULTS) -> None:
        self._parameters = parameters
        self.model = cp_model.CpModel()
        self._constraints = self.model.proto.constraints
        self._values: dict[int, Sequence[int]] = {}
        self._arrays: dict[int, Ints] = {}
        self._ranges: set[int] = set()
        self._flags: dict[int, Any] = {}
        self._differs: dict[tuple[int, int], Any] = {}
        self._within: dict[tuple[int, tuple[int, ...]], Any] = {}

    def integer(self, values: Iterable[int], name: str) -> Int:
        """Make a variable over the given values. Without values the model becomes infeasible."""
        ordered = [int(v) for v in sorted(set(values))]
        if not ordered:
            self.model.add_bool_or([])
            return 1
        if len(ordered) == 1:
            return ordered[0]
        variable = self.model.new_int_var_from_domain(cp_model.Domain.from_values(ordered), name)
        self._values[variable.index] = ordered
        return variable

    def interval(self, low: int, high: int, name: str) -> Int:
        """Make a variable over the range from `low` to `high`."""
        if low == high:
            return low
        return self._ranged(low, high, name)

    def boolean(self, name: str) -> Lit:
        """Make a literal."""
        return self.model.new_bool_var(name)

    def flag(self, literal: Lit) -> Int:
        """Return a literal as a 0/1 integer, made once."""
        if isinstance(literal, bool):
            return int(literal)
        if literal.index not in self._flags:
            self._flags[literal.index] = self.integer((0, 1), "flag")
            self.demand(self._flags[literal.index] == literal)
        return self._flags[literal.index]

    def values(self, x: Int) -> Sequence[int]:
        """Return the values of a variable in rising order; of a constant, itself."""
        return [x] if isinstance(x, int) else self._values[x.index]

    def bounds_of(self, x: Int) -> tuple[int, int]:
        """Return the least and the largest value."""
        values = self.values(x)
        return values[0], values[-1]

    def product(
        self, factors: Sequence[Int], name: str, within: set[int] | None = None, most: int | None = None
    ) -> Int:
        """Return the product of variables, pair by pair (AddMultiplicationEquality).

        Its domain has only values of the set `within`, and none above `most`.
        """
        result: Int = 1
        for factor in factors:
            if isinstance(factor, int) and factor == 1:
                continue
            if isinstance(result, int) and result == 1:
                result = factor
                continue
            result = self._times(result, factor, name, within, most)
        return result

    def _times(self, a: Int, b: Int, name: str, within: set[int] | None, most: int | None) -> Int:
        result = self._product_variable(a, b, name, within, most)
        if isinstance(a, int) or isinstance(b, int):
            self.imply([], result == a * b)  # False where both factors are constants and no product is left
        else:
            self._multiply_to(result, (a, b))
        return result

    def _multiply_to(self, product: Int, factors: Iterable[Int]) -> None:
        """Demand that some factors have a product."""
        added = self._constraints.add().int_prod
        for x, expression in ((product, added.target), *((factor, added.exprs.add()) for factor in factors)):
            _write_term(expression, x)

    def _product_variable(self, a: Int, b: Int, name: str, within: set[int] | None, most: int | None) -> Int:
        left, right = self.values(a), self.values(b)
        highest = HIGHEST if most is None else min(most, HIGHEST)
        if not (self._is_range(a) or self._is_range(b)) and len(left) * len(right) <= self._parameters.product_pairs:
            products = set(np.multiply.outer(np.array(left), np.array(right)).ravel().tolist())
            kept = sorted(products if within is None else products & within)
            kept = kept[: bisect_right(kept, highest)]
            if not kept:
                return self.integer(kept, name)
            if len(kept) <= self._parameters.product_values:
                variable = self.model.new_int_var_from_domain(cp_model.Domain.from_values(kept), name)
                self._values[variable.index] = kept
                return variable
        low, high = left[0] * right[0], left[-1] * right[-1]
        return self._ranged(low, high if most is None else max(low, min(most, high)), name)

    def _ranged(self, low: int, high: int, name: str) -> Int:
        high = min(high, HIGHEST)
        variable = self.model.new_int_var(low, high, name)
        self._values[variable.index] = range(low, high + 1)
        self._ranges.add(variable.index)
        return variable

    def _is_range(self, x: Int) -> bool:
        return not isinstance(x, int) and x.index in self._ranges

    def equal_product(self, product: Int, factors: Sequence[Int]) -> None:
        """Constrain existing variables to multiply to a product."""
        variables = [f for f in factors if not (isinstance(f, int) and f == 1)]
        if isinstance(product, int) and not variables:
            return
        if len(variables) < 2:
            self.imply([], product == (variables[0] if variables else 1))
        else:
            self._multiply_to(product, variables)

    def table(self, variables: Sequence[Int], rows: Rows) -> None:
        """Constrain the variables to take the values of one of the rows, int[n, m]."""
        kept = np.asarray(rows, np.int64).reshape(-1, len(variables))
        self._one_of(variables, kept[self._possible(kept, variables)])

    def _one_of(self, variables: Sequence[Int], kept: Ints) -> None:
        """Add a table of rows whose values are all in the variables' domains, without constants and repeated rows."""
        columns = [i for i, x in enumerate(variables) if not isinstance(x, int)]
        if not len(kept):
            self.model.add_bool_or([])
        elif columns:
            added = self._constraints.add().table
            for i in columns:
                _write_term(added.exprs.add(), variables[i])
            added.values.extend(distinct_rows(kept[:, columns])[0].ravel().tolist())

    def lookup(self, keys: Sequence[Int], rows: Rows, names: Sequence[str]) -> list[Int]:
        """Return new variables whose values a table gives for those of the keys: columns are keys, then results.

        Equal columns of results get one variable. CP-SAT makes a literal for each value of each column, and links it
        to the rows that have it. So columns of many values are tables of parts that add up to them.
        """
        kept = np.asarray(rows, np.int64).reshape(-1, len(keys) + len(names))
        kept = kept[self._possible(kept, keys)]
        variables, columns = list(keys), list(kept[:, : len(keys)].T)
        made, results = dict[bytes, Int](), list[Int]()
        for name, column in zip(names, kept[:, len(keys) :].T, strict=True):
            if (content := column.tobytes()) not in made:
                parts = _parts(column, self._parameters.column_values)
                digits = [self.integer(part.tolist(), name) for part in parts]
                made[content] = digits[0] if len(digits) == 1 else self._sum(digits, column, name)
                variables, columns = variables + digits, columns + parts
            results.append(made[content])
        self._one_of(variables, np.column_stack(columns) if columns else kept)
        return results

    def _sum(self, parts: Sequence[Int], values: Ints, name: str) -> Int:
        """Return the sum of some variables, which takes the given values."""
        result = self.integer(values.tolist(), name)
        self.imply([], result == sum(parts))
        return result

    def keys(self, rows: Ints, others: Sequence[Int], where: Lit, name: str) -> tuple[list[Int], Ints]:
        """Return new variables that equal the `others` if a literal holds, and the rows of a table for them.

        The rows are those whose first columns the others can take; if there are none, the first row, so that the new
        variables have a domain while the literal is false.
        """
        possible = self._possible(rows, others)
        kept = rows[possible] if possible.any() else rows[:1]
        found = [self.integer(kept[:, i].tolist(), name) for i in range(len(others))]
        for key, other in zip(found, others, strict=True):
            self.imply([where], key == other)
        return found, kept

    def _possible(self, rows: Ints, variables: Sequence[Int]) -> np.ndarray:
        """Return which rows begin with values in the variables' domains: bool[n]."""
        possible = np.ones(len(rows), bool)
        for column, x in zip(rows.T, variables, strict=False):
            if isinstance(x, int):
                possible &= column == x
            elif self._is_range(x):
                possible &= (column >= self.values(x)[0]) & (column <= self.values(x)[-1])
            else:
                values = self._array(x)
                possible &= values[np.searchsorted(values[:-1], column)] == column
        return possible

    def _array(self, x: Int) -> Ints:
        """Return the values of a variable as an array, made once."""
        if x.index not in self._arrays:
            self._arrays[x.index] = np.array(self._values[x.index])
        return self._arrays[x.index]

    def clause(self, literals: Iterable[Lit]) -> None:
        """Demand at least one of the literals."""
        kept = [x for x in literals if x is not False]
        if not any(x is True for x in kept):
            self._constraints.add().bool_or.literals.extend([x.index for x in kept])

    def both(self, literals: Sequence[Lit], name: str) -> Lit:
        """Return the conjunction of literals."""
        kept = [x for x in literals if x is not True]
        if any(x is False for x in kept):
            return False
        if len(kept) < 2:
            return kept[0] if kept else True
        literal = self.boolean(name)
        added = self._constraints.add()
        added.enforcement_literal.append(literal.index)
        added.bool_and.literals.extend([x.index for x in kept])
        self.clause([*(self.negated(x) for x in kept), literal])
        return literal

    def either(self, literals: Sequence[Lit], name: str) -> Lit:
        """Return the disjunction of literals."""
        return self.negated(self.both([self.negated(x) for x in literals], name))

    def at_least_two(self, x: Int, name: str) -> Lit:
        """Return whether a positive integer is above 1, as a literal."""
        if isinstance(x, int):
            return x > 1
        if self.values(x)[0] > 1:
            return True
        literal = self.boolean(name)
        self.demand(x >= 2, [literal])
        self.demand(x == 1, [literal.negated()])
        return literal

    def differs(self, x: Int, value: int) -> Lit:
        """Return a literal that implies that a variable has another value; made once."""
        if isinstance(x, int):
            return x != value
        key = (x.index, value)
        if key not in self._differs:
            self._differs[key] = self.boolean("differs")
            self.demand(x != value, [self._differs[key]])
        return self._differs[key]

    def within(self, x: Int, values: Iterable[int]) -> Lit:
        """Return a literal that implies that a variable has one of some values; made once."""
        chosen = tuple(sorted(values))
        if isinstance(x, int) or not chosen:
            return x in chosen
        key = (x.index, chosen)
        if key not in self._within:
            self._within[key] = self.boolean("within")
            domain = cp_model.Domain.from_values(list(chosen))
            self.model.add_linear_expression_in_domain(x, domain).only_enforce_if(self._within[key])
        return self._within[key]

    def imply(self, literals: Sequence[Lit], constraint: Any) -> None:
        """Demand a linear constraint if all literals hold. If it is False, forbid that all literals hold."""
        kept = [x for x in literals if x is not True]
        if any(x is False for x in kept) or constraint is True:
            return
        if constraint is False:
            self.clause([self.negated(x) for x in kept])
            return
        self.demand(constraint, kept)

    def demand(self, constraint: Any, literals: Iterable[Lit] = ()) -> None:
        """Demand a linear constraint of variables if all of some literals, none of which is a constant, hold."""
        added = self._constraints.add()
        added.enforcement_literal.extend([x.index for x in literals])
        linear, offset = added.linear, constraint.offset
        linear.vars.extend([x.index for x in constraint.vars])
        linear.coeffs.extend(constraint.coeffs)
        bounds = constraint.bounds.flattened_intervals()
        linear.domain.extend([x if x in _INFINITE else x - offset for x in bounds] if offset else bounds)

    @staticmethod
    def negated(literal: Lit) -> Lit:
        """Return the negation of a literal."""
        return (not literal) if isinstance(literal, bool) else literal.negated()


#: The bounds of a linear constraint that has none.
_INFINITE = (cp_model.INT_MIN, cp_model.INT_MAX)


def _write_term(expression: LinearExpressionProto, x: Int) -> None:
    """Make an empty linear expression a variable or a constant."""
    if isinstance(x, int):
        expression.offset = x
    else:
        expression.vars.append(x.index)
        expression.coeffs.append(1)


def is_one(x: Int) -> bool:
    """Whether an integer is the constant 1."""
    return isinstance(x, int) and x == 1


def is_zero(x: Int) -> bool:
    """Whether an integer is the constant 0."""
    return isinstance(x, int) and x == 0


def _parts(column: Ints, most: int) -> list[Ints]:
    """Return columns that add up to one, with no more than `most` values each if that is possible.

    Each part has the leading five bits of what is left. So the least first part is at most a sixteenth below the
    least value, whichever rows are left.
    """
    parts = list[Ints]()
    while column.min(initial=0) >= 0 and len(np.unique(column)) > most:
        bits = np.frexp(column.astype(np.float64))[1]
        leading = column >> np.maximum(bits - 5, 0) << np.maximum(bits - 5, 0)
        if not (column > leading).any():
            break
        parts.append(leading)
        column = column - leading
    return [*parts, column]
