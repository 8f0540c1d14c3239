"""Exact minimisation of a sum of small tables by variable elimination (min-plus, along a tree decomposition).

A table is over a few variables; its entries are pairs (cost, tie), compared in this order and added entry by entry.
Eliminating a variable adds all tables that it is in and takes the least entry over its values (Bertele & Brioschi,
Nonserial Dynamic Programming, 1972). The result is exact; work and memory grow with the largest table on the way.
"""

from collections.abc import Sequence

import numpy as np
from attrs import field, frozen

#: No entry reaches it: what is not allowed costs so much. Sums of a few stay within 64 bits.
INFINITE = 2**60


class TooLarge(Exception):
    """A table on the way would have more entries than allowed."""


@frozen(kw_only=True, eq=False)
class Factor:
    """A table over variables: int64 arrays with an axis for each, `tie` breaking ties of `cost`."""

    variables: tuple[str, ...]
    cost: np.ndarray
    tie: np.ndarray


@frozen(kw_only=True, eq=False)
class Optimum:
    """The least sum and where it is: the index of each variable's value; `width`: entries of the largest table."""

    cost: int
    tie: int
    values: dict[str, int]
    width: int


@frozen(kw_only=True, eq=False)
class _Eliminated:
    """Of a variable the best value for all values of its neighbours."""

    variable: str
    neighbours: tuple[str, ...]
    best: np.ndarray = field(repr=False)


@frozen(kw_only=True, eq=False)
class Projection:
    """The least sum for all values of some variables, and where it is; `width`: entries of the largest table."""

    factor: Factor
    width: int
    _order: list[_Eliminated] = field(repr=False)

    def values(self, given: dict[str, int]) -> dict[str, int]:
        """Return the values of all variables where the sum is least, for given values of those that were kept."""
        return _trace_back(self._order, given)


def minimize(factors: Sequence[Factor], sizes: dict[str, int], most_entries: int = 10**7) -> Optimum:
    """Return the least sum of all factors over the values of all variables.

    Raises:
        TooLarge: a table would have more than `most_entries`.
    """
    found = project(factors, sizes, (), most_entries)
    cost, tie = int(found.factor.cost), int(found.factor.tie)
    return Optimum(cost=cost, tie=tie, values=found.values({}), width=found.width)


def project(
    factors: Sequence[Factor], sizes: dict[str, int], keep: Sequence[str], most_entries: int = 10**7
) -> Projection:
    """Return the least sum of all factors over the values of all variables but those to keep.

    Raises:
        TooLarge: a table would have more than `most_entries`.
    """
    left, order, width = list(factors), [], 1
    remaining = {name: _entries(_neighbours(left, name), sizes) for name in sizes if name not in keep}
    while remaining:
        variable = min(remaining, key=lambda name: remaining[name])
        taking = [factor for factor in left if variable in factor.variables]
        neighbours = _neighbours(taking, variable)
        entries = _entries(neighbours, sizes) * sizes[variable]
        if entries > most_entries:
            raise TooLarge(f"eliminating {variable} takes a table of {entries} entries, more than {most_entries}")
        width = max(width, entries)
        left = [factor for factor in left if variable not in factor.variables]
        reduced, eliminated = _eliminate(variable, neighbours, taking, sizes)
        left.append(reduced)
        order.append(eliminated)
        del remaining[variable]
        # Only its neighbours have other neighbours now.
        remaining |= {name: _entries(_neighbours(left, name), sizes) for name in neighbours if name in remaining}
    return Projection(factor=add(left, tuple(keep), sizes), width=width, order=order)


def add(factors: Sequence[Factor], axes: tuple[str, ...], sizes: dict[str, int]) -> Factor:
    """Return the sum of factors over given variables, which are all of theirs."""
    shape = tuple(sizes[name] for name in axes)
    cost, tie = np.zeros(shape, dtype=np.int64), np.zeros(shape, dtype=np.int64)
    for factor in factors:
        cost += _spread(factor.cost, factor.variables, axes)
        tie += _spread(factor.tie, factor.variables, axes)
        np.minimum(cost, INFINITE, out=cost)
        np.minimum(tie, INFINITE, out=tie)
    return Factor(variables=axes, cost=cost, tie=tie)


def _neighbours(factors: Sequence[Factor], variable: str) -> tuple[str, ...]:
    """Variables that share a factor with one, in order of appearance."""
    together = [name for factor in factors if variable in factor.variables for name in factor.variables]
    return tuple(name for name in dict.fromkeys(together) if name != variable)


def _entries(variables: tuple[str, ...], sizes: dict[str, int]) -> int:
    product = 1
    for name in variables:
        product *= sizes[name]
    return product


def _eliminate(
    variable: str, neighbours: tuple[str, ...], factors: Sequence[Factor], sizes: dict[str, int]
) -> tuple[Factor, _Eliminated]:
    """The sum of factors, least over one variable's values."""
    whole = add(factors, (*neighbours, variable), sizes)
    cost, tie = whole.cost, whole.tie
    least = cost.min(axis=-1)
    ties = np.where(cost == least[..., None], tie, INFINITE + 1)
    best = ties.argmin(axis=-1)
    reduced = Factor(variables=neighbours, cost=least, tie=ties.min(axis=-1))
    return reduced, _Eliminated(variable=variable, neighbours=neighbours, best=best)


def _spread(values: np.ndarray, variables: tuple[str, ...], axes: tuple[str, ...]) -> np.ndarray:
    """A table with an axis for each of `axes`, of length 1 where it does not depend on it."""
    order = sorted(range(len(variables)), key=lambda i: axes.index(variables[i]))
    moved = values.transpose(order)
    shape = [1] * len(axes)
    for i in order:
        shape[axes.index(variables[i])] = values.shape[i]
    return moved.reshape(shape)


def _trace_back(order: list[_Eliminated], given: dict[str, int]) -> dict[str, int]:
    """Return the values of all variables, the last eliminated first."""
    values = dict(given)
    for step in reversed(order):
        values[step.variable] = int(step.best[tuple(values[name] for name in step.neighbours)])
    return values
