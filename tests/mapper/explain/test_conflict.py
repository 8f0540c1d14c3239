"""Smallest conflicts and corrections of random families, against trying every set."""

import itertools
import random
from collections.abc import Iterator

import pytest

from cpsat_pim.mapper.explain.conflict import (
    Undecided,
    reduced_conflict,
    smallest_conflict,
    smallest_correction,
    smallest_hitting_set,
)

ITEMS = tuple("abcdefg")
Family = list[frozenset[str]]


def families() -> Iterator[Family]:
    """Conflicts of which a set must hold none to be feasible."""
    for seed in range(60):
        rng = random.Random(seed)
        yield [frozenset(rng.sample(ITEMS, rng.randint(1, 4))) for _ in range(rng.randint(1, 5))]


def every_set() -> Iterator[frozenset[str]]:
    """By rising size."""
    for size in range(len(ITEMS) + 1):
        yield from map(frozenset, itertools.combinations(ITEMS, size))


@pytest.mark.parametrize("conflicts", [*families()])
def test_smallest_conflict_and_correction_have_the_least_size(conflicts: Family) -> None:
    """As by trial: the first infeasible set, the first that leaves a feasible one; a reduced one loses none more."""

    def is_feasible(items: frozenset[str]) -> bool:
        return not any(conflict <= items for conflict in conflicts)

    found = smallest_conflict(ITEMS, is_feasible)
    assert not is_feasible(found)
    assert len(found) == len(next(items for items in every_set() if not is_feasible(items)))
    lifted = smallest_correction(ITEMS, is_feasible, found)
    assert is_feasible(frozenset(ITEMS) - lifted)
    assert len(lifted) == len(next(items for items in every_set() if is_feasible(frozenset(ITEMS) - items)))
    reduced = reduced_conflict(ITEMS, is_feasible)
    assert not is_feasible(reduced)
    assert all(is_feasible(reduced - {item}) for item in reduced)


@pytest.mark.parametrize("sets", [*families()])
def test_hitting_set_has_the_least_size(sets: Family) -> None:
    """As by trial."""
    found = smallest_hitting_set(ITEMS, sets)
    assert all(found & s for s in sets)
    assert len(found) == len(next(items for items in every_set() if all(items & s for s in sets)))


def test_what_is_not_known_is_not_claimed() -> None:
    """Without a verdict there is no smallest conflict; a reduced one keeps what could not be shown to be needless."""
    with pytest.raises(Undecided):
        smallest_conflict(ITEMS, lambda items: None)
    with pytest.raises(Undecided):
        smallest_correction(ITEMS, lambda items: None, frozenset("ab"))
    assert reduced_conflict(ITEMS, lambda items: None) == frozenset(ITEMS)
    assert reduced_conflict(ITEMS, lambda items: False if {"a", "c"} <= items else None) == frozenset("ac")
