"""Smallest conflicts of limits, and the smallest sets of limits that have to go.

A set of limits is *feasible* if some mapping keeps them all, and then so is every part of it. Every conflict, an
infeasible set, shares a limit with every correction, what has to go to leave a feasible set. So a smallest set that
shares a limit with all corrections known so far is either a conflict, and then no conflict is smaller, or it is
feasible and, made as large as possible, its complement is a correction that was not known. With the roles swapped, the
same finds a smallest correction.
"""

from collections.abc import Callable, Hashable, Sequence
from typing import TypeVar

T = TypeVar("T", bound=Hashable)

#: Whether a set is feasible; None if that is not known.
FeasibilityTest = Callable[[frozenset[T]], bool | None]


class Undecided(Exception):
    """It is not known whether a set is feasible."""


def smallest_conflict(items: Sequence[T], test: FeasibilityTest[T]) -> frozenset[T]:
    """Return a smallest infeasible set of items that are infeasible together.

    Raises:
        Undecided: some set could not be decided.
    """
    corrections: list[frozenset[T]] = []
    candidate: frozenset[T] = frozenset()
    while _decided(test, candidate):
        grown: frozenset[T] = _grown(candidate, items, test)
        corrections.append(frozenset(items) - grown)
        candidate = smallest_hitting_set(items, corrections)
    return candidate


def smallest_correction(items: Sequence[T], test: FeasibilityTest[T], conflict: frozenset[T]) -> frozenset[T]:
    """Return a smallest set of items without which the others are feasible, given some conflict among all of them.

    Raises:
        Undecided: some set could not be decided.
    """
    conflicts = [conflict]
    while not _decided(test, rest := frozenset(items) - smallest_hitting_set(items, conflicts)):
        conflicts.append(reduced_conflict([item for item in items if item in rest], test))
    return frozenset(items) - rest


def reduced_conflict(items: Sequence[T], test: FeasibilityTest[T]) -> frozenset[T]:
    """Return an infeasible subset of infeasible items of which no item can be removed, as far as that is known."""
    kept = frozenset(items)
    for item in items:
        if test(kept - {item}) is False:
            kept -= {item}
    return kept


def smallest_hitting_set(items: Sequence[T], sets: Sequence[frozenset[T]]) -> frozenset[T]:
    """Return a smallest set of items that shares one with each of some non-empty sets; earlier items first."""
    size = 0
    while (found := _hitting_set(items, sets, frozenset(), size)) is None:
        size += 1
    return found


def _hitting_set(
    items: Sequence[T], sets: Sequence[frozenset[T]], chosen: frozenset[T], more: int
) -> frozenset[T] | None:
    """Return the chosen items and at most so many more that hit all sets, if any do; branch on a smallest set."""
    left = [s for s in sets if not s & chosen]
    if not left:
        return chosen
    smallest = min(left, key=len)
    for item in items if more else ():
        if item in smallest:
            found = _hitting_set(items, left, chosen | {item}, more - 1)
            if found is not None:
                return found
    return None


def _grown(chosen: frozenset[T], items: Sequence[T], test: FeasibilityTest[T]) -> frozenset[T]:
    """Return a feasible set with all items that can be added, one after another."""
    for item in items:
        if item not in chosen and _decided(test, chosen | {item}):
            chosen |= {item}
    return chosen


def _decided(test: FeasibilityTest[T], items: frozenset[T]) -> bool:
    is_feasible = test(items)
    if is_feasible is None:
        raise Undecided
    return is_feasible
