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


@njit
def pull_table(
    grid: Grid,
    speeds: Speeds,
    count: int,
    nodes: np.ndarray,
    tours: np.ndarray,
    boxes: np.ndarray,
    homes: Homes,
    viewed: Viewed,
    tours_w: np.ndarray,
    boxes_w: np.ndarray,
    homes_w: Homes,
    viewed_w: Viewed,
    width: int,
    out: np.ndarray,
) -> None:
    """The pull phase for every home of I, and of what is W or a second part of I: `out`, int64[homes, homes of it or 1,
    MEASURES].

    `homes_w` are none without a second tensor. `count`: nodes of the array.
    Messages of both operands add up, so each is counted once a home; of their chains the longer one is waited for.
    """
    loads_w, dram_w = np.zeros((out.shape[1], count, 6), np.int64), np.zeros((out.shape[1], count, 3), np.int64)
    totals_w, received = np.zeros((out.shape[1], TOTALS), np.int64), np.zeros(count, np.int64)
    for b in range(len(homes_w.boxes)):
        pull(grid, tours_w, boxes_w, homes_w, b, width, loads_w[b], dram_w[b], totals_w[b], received)
        review(grid, nodes, viewed_w, homes_w.layouts[b], width, dram_w[b], totals_w[b])
    loads, dram, totals = np.zeros((count, 6), np.int64), np.zeros((count, 3), np.int64), np.zeros(TOTALS, np.int64)
    both_loads, both_dram, both_totals = np.empty_like(loads), np.empty_like(dram), np.empty_like(totals)
    for a in range(len(homes.boxes)):
        loads[:] = 0
        dram[:] = 0
        totals[:] = 0
        pull(grid, tours, boxes, homes, a, width, loads, dram, totals, received)
        review(grid, nodes, viewed, homes.layouts[a], width, dram, totals)
        for b in range(out.shape[1]):
            _add(loads, loads_w[b], both_loads)
            _add(dram, dram_w[b], both_dram)
            _add_totals(totals, totals_w[b], both_totals)
            measure(grid, speeds, both_loads, both_dram, both_totals, out[a, b])


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
