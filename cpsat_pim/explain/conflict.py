"""Smallest conflicts of limits, and the smallest sets of limits that have to go.

A set of limits is *feasible* if some mapping keeps them all, and then so is every part of it. Every conflict, an
infeasible set, shares a limit with every correction, what has to go to leave a feasible set. So a smallest set that
shares a limit with all corrections known so far is either a conflict, and then no conflict is smaller, or it is
feasible and, made as large as possible, leaves out a correction that was not known. With the roles swapped the same
finds a smallest correction.
"""

from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import TypeVar

T = TypeVar("T", bound=Hashable)

#: Whether a set is feasible; None if that is not known.
Judge = Callable[[frozenset[T]], bool | None]


class Undecided(Exception):
    """It is not known whether a set is feasible."""


def smallest_conflict(items: Sequence[T], judge: Judge[T]) -> frozenset[T]:
    """A smallest infeasible set of items, which are infeasible together.

    Raises:
        Undecided: some set could not be judged.
    """
    corrections: list[frozenset[T]] = []
    candidate: frozenset[T] = frozenset()
    while _decided(judge, candidate):
        corrections.append(frozenset(items) - _grown(candidate, items, judge))
        candidate = smallest_hitting_set(corrections)
    return candidate


def smallest_correction(items: Sequence[T], judge: Judge[T], conflict: frozenset[T]) -> frozenset[T]:
    """A smallest set without which the items are feasible, given some conflict among them; what is left once all of
    them are gone is feasible.

    Raises:
        Undecided: some set could not be judged.
    """
    conflicts = [conflict]
    while not _decided(judge, rest := frozenset(items) - smallest_hitting_set(conflicts)):
        conflicts.append(reduced_conflict([item for item in items if item in rest], judge))
    return frozenset(items) - rest


def reduced_conflict(items: Sequence[T], judge: Judge[T]) -> frozenset[T]:
    """An infeasible part of some infeasible items; without any one of its own it is not known to be infeasible."""
    kept = frozenset(items)
    for item in items:
        if judge(kept - {item}) is False:
            kept -= {item}
    return kept


def smallest_hitting_set(sets: Sequence[frozenset[T]]) -> frozenset[T]:
    """A smallest set that shares an item with each of some sets, none of them empty."""
    size = 0
    while (found := _hitting_set(sets, frozenset(), size)) is None:
        size += 1
    return found


def _hitting_set(sets: Iterable[frozenset[T]], chosen: frozenset[T], more: int) -> frozenset[T] | None:
    """The chosen and at most so many more items that do, if there are any: one is of the smallest set left."""
    left = [s for s in sets if not s & chosen]
    if not left:
        return chosen
    if more:
        for item in sorted(min(left, key=lambda s: len(s)), key=lambda item: -sum(item in s for s in left)):
            found = _hitting_set(left, chosen | {item}, more - 1)
            if found is not None:
                return found
    return None


def _grown(items: frozenset[T], others: Sequence[T], judge: Judge[T]) -> frozenset[T]:
    """A feasible set and all others that can be added, one after another."""
    for other in others:
        if other not in items and _decided(judge, items | {other}):
            items |= {other}
    return items


def _decided(judge: Judge[T], items: frozenset[T]) -> bool:
    is_feasible = judge(items)
    if is_feasible is None:
        raise Undecided
    return is_feasible
