"""What schedules of data exchange achieve that look at distances and not at the load of links.

TSP: each set is exchanged along a ring of fewest hops. SHP: each node's chunk travels along a path of fewest hops
through all nodes of its set (a shortest Hamiltonian path). Both are exact here, by Held and Karp's recursion. There
are many shortest tours and paths, and their loads differ; so they are drawn at random, all equally likely, and the
least, mean and greatest outcome is reported.

Outcomes are chunks over the heaviest link, over the whole exchange, so rings and paths can be compared. They are lower
bounds of the time: a path's node waits for the chunk it passes on, and whatever the links carry, no exchange takes less
than n - 1 chunk times, since every node receives n - 1 chunks. A ring meets its own figure step by step.
"""

from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, TypeAlias, TypeVar, cast

import numba
import numpy as np
from attrs import frozen

from cpsat_pim.planner.rings.instance import Instance
from cpsat_pim.planner.rings.routes import Ints, hops, link_loads, message_loads

_F = TypeVar("_F", bound=Callable[..., object])
Floats: TypeAlias = np.ndarray[Any, np.dtype[np.float64]]

#: The recursion takes 2^n * n^2 steps for a set of n nodes: 0.1 s at 16.
LARGEST_SET = 16
NAMES = ("tsp", "shp")


@frozen(kw_only=True)
class Outcome:
    """What the heaviest link carried in the draws of a baseline, in chunks over the whole exchange.

    Attributes:
        name: of the baseline, and whether sets that are translates have one pattern.
        hops: links that all chunks passed, over the whole exchange.
    """

    name: str
    least: int
    mean: float
    greatest: int
    hops: int
    draws: int


def check_sizes(instance: Instance) -> None:
    """Raise the ValueError of sets that are too large for exact baselines."""
    largest = max(map(len, instance.sets))
    if largest > LARGEST_SET:
        raise ValueError(f"baselines are exact for sets of up to {LARGEST_SET} nodes (got a set of {largest})")


def outcomes(instance: Instance, name: str, draws: int, seed: int) -> list[Outcome]:
    """Return what a baseline, `tsp` or `shp`, achieves: with one pattern for all sets alike, and with one drawn a set.

    A solver that is called set by set finds the same pattern for sets that are translates of each other.

    Raises:
        ValueError: a set is larger than `LARGEST_SET`.
    """
    check_sizes(instance)
    draw = {"tsp": _draw_tours, "shp": _draw_paths}[name]
    found = []
    for text, is_shared in (("one pattern", True), ("a pattern a set", False)):
        random = np.random.default_rng(seed)
        drawn = [draw(instance, random, is_shared) for _ in range(draws)]
        chunks = [most for most, _ in drawn]
        label = f"{name.upper()}, {text}"
        found.append(
            Outcome(
                name=label,
                least=min(chunks),
                mean=sum(chunks) / draws,
                greatest=max(chunks),
                hops=drawn[0][1],
                draws=draws,
            )
        )
    return found


# --- One draw ----------------------------------------------------------------------------------------------------


def _draw_tours(instance: Instance, random: np.random.Generator, is_shared: bool) -> tuple[int, int]:
    """Chunks over the heaviest link, and hops, of shortest rings."""
    rings = [pattern[0] for pattern in _patterns(instance, random, is_shared, is_closed=True)]
    loads = link_loads(instance.mesh, rings)
    return instance.steps * int(loads.max()), instance.steps * int(loads.sum())


def _draw_paths(instance: Instance, random: np.random.Generator, is_shared: bool) -> tuple[int, int]:
    """Chunks over the heaviest link, and hops, of shortest paths: one from every node, for that node's chunk."""
    paths = [path for pattern in _patterns(instance, random, is_shared, is_closed=False) for path in pattern]
    sources = np.array([node for path in paths for node in path[:-1]], np.int64)
    targets = np.array([node for path in paths for node in path[1:]], np.int64)
    loads = message_loads(instance.mesh, sources, targets)
    return int(loads.max()), int(loads.sum())


def _patterns(
    instance: Instance, random: np.random.Generator, is_shared: bool, *, is_closed: bool
) -> Iterator[list[list[int]]]:
    """Of each set a drawn ring, or drawn paths from all its nodes; sets of equal distances share them if asked."""
    drawn: dict[bytes, list[list[int]]] = {}
    for nodes in instance.sets:
        length = np.array([[hops(instance.mesh, a, b) for b in nodes] for a in nodes], np.int64)
        key = length.tobytes()
        if key not in drawn or not is_shared:
            starts = (0,) if is_closed else range(len(nodes))
            drawn[key] = [_draw(key, len(nodes), start, is_closed, random) for start in starts]
        yield [[nodes[i] for i in path] for path in drawn[key]]


def _draw(key: bytes, size: int, start: int, is_closed: bool, random: np.random.Generator) -> list[int]:
    """Indices of a set in the order of a shortest path from `start`, or of a shortest ring in either direction."""
    length, cost, count = _recursion(key, size, start)
    path = np.empty(size, np.int64)
    back = length[:, start] if is_closed else np.zeros(size, np.int64)
    _trace_back(length, cost, count, back, start, random.random(size), path)
    return [int(i) for i in path]


@cache
def _recursion(key: bytes, size: int, start: int) -> tuple[Ints, Ints, Floats]:
    """The distances of a set, and Held and Karp's table from a start."""
    length = np.frombuffer(key, np.int64).reshape(size, size)
    cost = np.full((1 << size, size), _FAR, np.int64)
    count = np.zeros((1 << size, size))
    _extend(length, start, cost, count)
    return length, cost, count


# --- Kernels -----------------------------------------------------------------------------------------------------

_FAR = 2**40


def _kernel(function: _F) -> _F:
    return cast(_F, numba.njit(cache=True)(function))


@_kernel
def _extend(length: Ints, start: int, cost: Ints, count: Floats) -> None:
    """Fill `cost` and `count` [visited nodes, as bits][last node], modified in place: the least length of a path from
    the start, and how many paths have it.
    """
    size = len(length)
    cost[1 << start, start], count[1 << start, start] = 0, 1.0
    for visited in range(1 << size):
        for last in range(size):
            if cost[visited, last] == _FAR:
                continue
            for node in range(size):
                if visited >> node & 1:
                    continue
                reached, total = visited | 1 << node, cost[visited, last] + length[last, node]
                if total < cost[reached, node]:
                    cost[reached, node], count[reached, node] = total, 0.0
                if total == cost[reached, node]:
                    count[reached, node] += count[visited, last]


@_kernel
def _trace_back(length: Ints, cost: Ints, count: Floats, back: Ints, start: int, random: Floats, path: Ints) -> None:
    """Write one of the shortest paths that visit all nodes to `path`, modified in place; all are equally likely.

    `back` int64[node]: what ending in a node costs. `random` [node]: uniform numbers below 1.
    """
    size = len(length)
    visited = (1 << size) - 1
    extra = back.copy()
    for position in range(size - 1, -1, -1):
        least, ways = _FAR, 0.0
        for node in range(size):
            if visited >> node & 1 and cost[visited, node] < _FAR:
                total = cost[visited, node] + extra[node]
                if total < least:
                    least, ways = total, 0.0
                if total == least:
                    ways += count[visited, node]
        left = random[position] * ways
        chosen = start
        for node in range(size):
            if visited >> node & 1 and cost[visited, node] < _FAR and cost[visited, node] + extra[node] == least:
                chosen = node
                left -= count[visited, node]
                if left < 0:
                    break
        path[position] = chosen
        visited ^= 1 << chosen
        extra = length[:, chosen].copy()
