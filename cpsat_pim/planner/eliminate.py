"""Exact minimisation of a sum of small tables by variable elimination (min-plus, along a tree decomposition).

A table is over a few variables; its entries are pairs (cost, tie), compared in this order and added entry by entry.
Eliminating a variable adds all tables that it is in and takes the least entry over its values (Bertele & Brioschi,
Nonserial Dynamic Programming, 1972). The result is exact; work and memory grow with the largest table on the way.
"""

import hashlib
from collections.abc import Sequence
from typing import Any

import numpy as np
from attrs import evolve, field, frozen

from tables.array.least import least_sums

#: Entries of a table that are held at a time; larger ones are made slice by slice.
_ENTRIES_AT_A_TIME = 2 * 10**6

#: No entry reaches it: what is not allowed costs so much. Sums of a few stay within 64 bits.
INFINITE = 2**60


class TooLarge(ValueError):
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


#: What was eliminated, with the variables' names then.
_Known = tuple[tuple[str, ...], Factor, _Eliminated]


@frozen(kw_only=True, eq=False)
class Projection:
    """The least sum for all values of some variables, and where it is; `width`: entries of the largest table."""

    factor: Factor
    width: int
    _order: list[_Eliminated] = field(repr=False)

    def values(self, given: dict[str, int]) -> dict[str, int]:
        """Return the values of all variables where the sum is least, for given values of those that were kept."""
        return _trace_back(self._order, given)


def check_width(scopes: Sequence[Sequence[str]], sizes: dict[str, int], most_entries: int = 10**8) -> None:
    """Check, without any table, that the elimination of factors over these variables stays within `most_entries`.

    Raises:
        TooLarge: a table would have more.
    """
    around: dict[str, set[str]] = {name: set() for name in sizes}
    for name, other in ((a, b) for scope in scopes for a in scope for b in scope if a != b):
        around[name].add(other)
    while around:
        variable = min(around, key=lambda name: _entries(tuple(around[name]), sizes))
        neighbours = around.pop(variable)
        most = _entries((*neighbours, variable), sizes)
        if most > most_entries:
            reason = f"eliminating {variable} takes a table of {most} entries, more than {most_entries}"
            raise TooLarge(f"{reason}; homes of fewer dims or layouts make it smaller")
        for name in neighbours:
            around[name] = (around[name] | neighbours) - {name, variable}


def minimize(factors: Sequence[Factor], sizes: dict[str, int], most_entries: int = 10**8) -> Optimum:
    """Return the least sum of all factors over the values of all variables.

    Raises:
        TooLarge: a table would have more than `most_entries`.
    """
    found = project(factors, sizes, (), most_entries)
    cost, tie = int(found.factor.cost), int(found.factor.tie)
    return Optimum(cost=cost, tie=tie, values=found.values({}), width=found.width)


def project(
    factors: Sequence[Factor], sizes: dict[str, int], keep: Sequence[str], most_entries: int = 10**8
) -> Projection:
    """Return the least sum of all factors over the values of all variables but those to keep.

    Raises:
        TooLarge: a table would have more than `most_entries`.
    """
    left, order, width = list(factors), [], 1
    known: dict[Any, _Known] = {}
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
        reduced, eliminated = _eliminate_once(variable, neighbours, taking, sizes, known)
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


def better(a: Factor, b: Factor) -> Factor:
    """Return the entry by entry lesser (cost, tie) of two tables over the same variables."""
    is_less = (b.cost < a.cost) | ((b.cost == a.cost) & (b.tie < a.tie))
    return Factor(variables=a.variables, cost=np.where(is_less, b.cost, a.cost), tie=np.where(is_less, b.tie, a.tie))


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
    if neighbours and _entries((*neighbours, variable), sizes) > _ENTRIES_AT_A_TIME:
        apart = next((name for name in neighbours if _is_apart(name, variable, factors)), None)
        if apart is not None:
            return _eliminate_between(variable, apart, neighbours, factors, sizes)
        return _eliminate_in_slices(variable, neighbours, factors, sizes)
    whole = add(factors, (*neighbours, variable), sizes)
    cost, tie = whole.cost, whole.tie
    least = cost.min(axis=-1)
    ties = np.where(cost == least[..., None], tie, INFINITE + 1)
    best = ties.argmin(axis=-1)
    reduced = Factor(variables=neighbours, cost=least, tie=ties.min(axis=-1))
    return reduced, _Eliminated(variable=variable, neighbours=neighbours, best=best)


def _eliminate_once(
    variable: str,
    neighbours: tuple[str, ...],
    factors: Sequence[Factor],
    sizes: dict[str, int],
    known: dict[Any, _Known],
) -> tuple[Factor, _Eliminated]:
    """Return the same; of large tables that are equal but for the names of variables, as of equal blocks, only once."""
    names = (*neighbours, variable)
    if _entries(names, sizes) <= _ENTRIES_AT_A_TIME:
        return _eliminate(variable, neighbours, factors, sizes)
    key = tuple(
        sorted((tuple(map(names.index, one.variables)), _digest(one.cost), _digest(one.tie)) for one in factors)
    )
    if key not in known:
        known[key] = (names, *_eliminate(variable, neighbours, factors, sizes))
    old, factor, eliminated = known[key]
    new = dict(zip(old, names, strict=True))
    renamed = tuple(new[name] for name in factor.variables)
    return evolve(factor, variables=renamed), evolve(eliminated, variable=variable, neighbours=renamed)


def _digest(table: np.ndarray) -> str:
    return hashlib.blake2b(np.ascontiguousarray(table).tobytes() + repr(table.shape).encode()).hexdigest()


def _is_apart(name: str, variable: str, factors: Sequence[Factor]) -> bool:
    """Whether no table over a neighbour of a variable is over another neighbour, too."""
    return all(set(factor.variables) <= {name, variable} for factor in factors if name in factor.variables)


def _eliminate_between(
    variable: str, apart: str, neighbours: tuple[str, ...], factors: Sequence[Factor], sizes: dict[str, int]
) -> tuple[Factor, _Eliminated]:
    """Return the same where a variable is all that lies between one neighbour and the others: a min-plus product."""
    rest = tuple(name for name in neighbours if name != apart)
    own = add([factor for factor in factors if apart in factor.variables], (apart, variable), sizes)
    other = add([factor for factor in factors if apart not in factor.variables], (*rest, variable), sizes)
    flat = np.stack([other.cost, other.tie]).reshape(2, -1, sizes[variable])
    found = np.empty((3, sizes[apart], flat.shape[1]), dtype=np.int64)
    least_sums(np.stack([own.cost, own.tie]), flat, found)
    cost, tie, best = found.reshape(3, sizes[apart], *(sizes[name] for name in rest))
    names = (apart, *rest)
    return Factor(variables=names, cost=cost, tie=tie), _Eliminated(variable=variable, neighbours=names, best=best)


def _eliminate_in_slices(
    variable: str, neighbours: tuple[str, ...], factors: Sequence[Factor], sizes: dict[str, int]
) -> tuple[Factor, _Eliminated]:
    """Return the same, for each value of the first neighbour by itself."""
    first, rest = neighbours[0], neighbours[1:]
    slices = [
        _eliminate(variable, rest, [_slice(factor, first, i) for factor in factors], sizes) for i in range(sizes[first])
    ]
    cost, tie = (np.stack([getattr(factor, key) for factor, _ in slices]) for key in ("cost", "tie"))
    best = np.stack([eliminated.best for _, eliminated in slices])
    return Factor(variables=neighbours, cost=cost, tie=tie), _Eliminated(
        variable=variable, neighbours=neighbours, best=best
    )


def _slice(factor: Factor, variable: str, value: int) -> Factor:
    """Return a table at one value of a variable."""
    if variable not in factor.variables:
        return factor
    axis = factor.variables.index(variable)
    rest = tuple(name for name in factor.variables if name != variable)
    return Factor(variables=rest, cost=factor.cost.take(value, axis), tie=factor.tie.take(value, axis))


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
