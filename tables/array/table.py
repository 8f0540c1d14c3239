"""Costs of one partition for many homes at once: what a planner's tables are made of."""

from typing import NamedTuple

import numpy as np

from tables.array.counts import (
    ACTIVATED,
    ADDITIONS,
    EJECT,
    FLIT_HOPS,
    FLITS,
    INJECT,
    LONGEST,
    READ,
    TOTALS,
    TOUR,
    WRITTEN,
    Grid,
    Homes,
    sum_links,
)
from tables.array.pull import pull
from tables.array.push import Viewed, join, push, review
from tables.jit import njit

#: Entries of a measured phase: cycles of the network and the DRAM, then exact counts.
NETWORK, DRAM, HOPS, READS, WRITES, ACTS, ADDS = range(7)
MEASURES = 7


class Speeds(NamedTuple):
    """Cycles of a column, an activation and a hop; flits a cycle of a local port."""

    column_cycles: int
    activation_cycles: int
    router_cycles: int
    port_flits: int


@njit
def measure(
    grid: Grid, speeds: Speeds, loads: np.ndarray, dram: np.ndarray, totals: np.ndarray, out: np.ndarray
) -> None:
    """A phase's cycles and counts, in `out`, int64[MEASURES]."""
    sum_links(grid, loads)
    busiest, port, fullest = 0, 0, 0
    out[:] = 0
    for node in range(len(loads)):
        for link in range(INJECT):
            busiest = max(busiest, loads[node, link])
        port = max(port, loads[node, INJECT], loads[node, EJECT])
        columns = dram[node, READ] + dram[node, WRITTEN]
        fullest = max(fullest, columns * speeds.column_cycles + dram[node, ACTIVATED] * speeds.activation_cycles)
        out[READS] += dram[node, READ]
        out[WRITES] += dram[node, WRITTEN]
        out[ACTS] += dram[node, ACTIVATED]
    if totals[FLITS] > 0:
        chain = speeds.router_cycles * (totals[LONGEST] + totals[TOUR])
        out[NETWORK] = max(busiest, -(-port // speeds.port_flits)) + chain
    out[DRAM] = fullest
    out[HOPS] = totals[FLIT_HOPS]
    out[ADDS] = totals[ADDITIONS]


class Moved(NamedTuple):
    """What is moved for each of some homes: int64[homes, nodes, 6], int64[homes, nodes, 3], int64[homes, TOTALS]."""

    loads: np.ndarray
    dram: np.ndarray
    totals: np.ndarray


def nothing_moved(homes: int, nodes: int) -> Moved:
    """Counters of so many homes and nodes of the array."""
    return Moved(*(np.zeros((homes, *shape), np.int64) for shape in ((nodes, 6), (nodes, 3), (TOTALS,))))


@njit
def pull_each(
    grid: Grid,
    nodes: np.ndarray,
    tours: np.ndarray,
    boxes: np.ndarray,
    homes: Homes,
    viewed: Viewed,
    width: int,
    moved: Moved,
) -> None:
    """Add what pulling one tensor takes for every home."""
    received = np.zeros(moved.loads.shape[1], np.int64)
    for a in range(len(homes.boxes)):
        loads, dram, totals = moved.loads[a], moved.dram[a], moved.totals[a]
        pull(grid, tours, boxes, homes, a, width, loads, dram, totals, received)
        review(grid, nodes, viewed, homes.layouts[a], width, dram, totals)


@njit
def measure_pairs(grid: Grid, speeds: Speeds, first: Moved, rest: Moved, out: np.ndarray) -> None:
    """The pull phase for every home of the first stack and every home of all others: `out`, int64[homes, homes,
    MEASURES].

    Their messages add up; of their chains the longer one is waited for.
    """
    loads, dram, totals = np.empty_like(first.loads[0]), np.empty_like(first.dram[0]), np.empty_like(first.totals[0])
    for a in range(out.shape[0]):
        for b in range(out.shape[1]):
            _add(first.loads[a], rest.loads[b], loads)
            _add(first.dram[a], rest.dram[b], dram)
            _add_totals(first.totals[a], rest.totals[b], totals)
            measure(grid, speeds, loads, dram, totals, out[a, b])


@njit
def _add(one: np.ndarray, other: np.ndarray, out: np.ndarray) -> None:
    """The sum of two tables, int64[nodes, entries], in `out`."""
    for node in range(len(out)):
        for i in range(out.shape[1]):
            out[node, i] = one[node, i] + other[node, i]


@njit
def _add_totals(one: np.ndarray, other: np.ndarray, out: np.ndarray) -> None:
    """The totals of two operands, in `out`: sums, and the longer of their chains."""
    for i in range(TOTALS):
        out[i] = one[i] + other[i]
    out[LONGEST], out[TOUR] = max(one[LONGEST] + one[TOUR], other[LONGEST] + other[TOUR]), 0


@njit
def push_table(
    grid: Grid,
    speeds: Speeds,
    count: int,
    nodes: np.ndarray,
    held: np.ndarray,
    pooled: np.ndarray,
    is_pooled: bool,
    homes: Homes,
    width: int,
    read: Homes,
    written: Homes,
    additions: int,
    out: np.ndarray,
) -> None:
    """The push phase for every home: `out`, int64[homes, MEASURES]. `read`, `written`, `additions`: see `join`."""
    loads, dram = np.zeros((count, 6), np.int64), np.zeros((count, 3), np.int64)
    totals, at_home = np.zeros(TOTALS, np.int64), np.zeros(len(nodes), np.int64)
    for a in range(len(homes.boxes)):
        loads[:] = 0
        dram[:] = 0
        totals[:] = 0
        push(grid, nodes, held, pooled, is_pooled, homes, a, width, loads, dram, totals, at_home)
        if additions > 0:
            join(grid, read, written, a, width, additions, dram, totals)
        measure(grid, speeds, loads, dram, totals, out[a])
