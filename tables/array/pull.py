"""What nodes fetch before they compute: boxes of a tensor at home, and weights that others hold (section 5)."""

import numpy as np

from tables.array.counts import (
    ACTIVATED,
    LONGEST,
    READ,
    TOUR,
    WRITTEN,
    Grid,
    hops_between,
    overlap,
    range_blocks,
    scan,
    send,
    volume,
)
from tables.jit import njit

#: Per contribution of a home node: bytes, flits, columns and rows of its boxes as they are written.
_PIECE = 4


@njit
def nearest_member(grid: Grid, tour: np.ndarray, owner: int) -> int:
    """Place of the member that an owner delivers to: itself, else the nearest, then the first in row order."""
    best = 0
    for i in range(1, len(tour)):
        near, nearer = hops_between(grid, owner, tour[best]), hops_between(grid, owner, tour[i])
        if nearer < near or (nearer == near and tour[i] < tour[best]):
            best = i
    return best


@njit
def pull(
    grid: Grid,
    tours: np.ndarray,
    boxes: np.ndarray,
    homes: np.ndarray,
    home_nodes: np.ndarray,
    channels_last: bool,
    width: int,
    loads: np.ndarray,
    dram: np.ndarray,
    totals: np.ndarray,
    received: np.ndarray,
) -> None:
    """Deliver every set's boxes once and gather them along its tour; the last four arguments are modified in place.

    `tours[set, member]`: node numbers. `boxes[set, box, 8]`: what every member needs. `homes[i, 8]` lies on
    `home_nodes[i]`. `received[node]`: bytes that come in messages.
    """
    count = tours.shape[1]
    part = np.empty(8, np.int64)
    pieces = np.empty((count + 1, _PIECE), np.int64)
    before = totals[LONGEST] + totals[TOUR]  # another operand's chain, which is not waited for
    totals[LONGEST] = totals[TOUR] = 0
    for s in range(len(tours)):
        tour = tours[s]
        pieces[:] = 0
        for h in range(len(homes)):
            _contribute(
                grid, tour, boxes[s], homes[h], home_nodes[h], channels_last, width, part, pieces, loads, dram,
                totals, received,
            )  # fmt: skip
        _gather(grid, tour, pieces, loads, dram, totals, received)
    if before > totals[LONGEST] + totals[TOUR]:
        totals[LONGEST], totals[TOUR] = before, 0


@njit
def _contribute(
    grid: Grid,
    tour: np.ndarray,
    boxes: np.ndarray,
    home: np.ndarray,
    owner: int,
    channels_last: bool,
    width: int,
    part: np.ndarray,
    pieces: np.ndarray,
    loads: np.ndarray,
    dram: np.ndarray,
    totals: np.ndarray,
    received: np.ndarray,
) -> None:
    """What one home node has of a set's boxes becomes part of the chunk of one member."""
    elements, columns, rows, read_columns, read_rows = 0, 0, 0, 0, 0
    for b in range(len(boxes)):
        if not overlap(boxes[b], home, part):
            continue
        elements += volume(part)
        touched = scan(grid, part, boxes[b], channels_last, width)
        columns, rows = columns + touched[0], rows + touched[1]
        touched = scan(grid, part, home, channels_last, width)
        read_columns, read_rows = read_columns + touched[0], read_rows + touched[1]
    if elements == 0:
        return
    size_bytes = elements * width
    flits = -(-size_bytes // grid.flit_bytes)
    at = nearest_member(grid, tour, owner)
    if tour[at] != owner:
        hops = send(grid, loads, totals, owner, tour[at], flits, size_bytes)
        totals[LONGEST] = max(totals[LONGEST], hops)
        dram[tour[at], WRITTEN] += columns
        dram[tour[at], ACTIVATED] += rows
        received[tour[at]] += size_bytes
    if tour[at] != owner or len(tour) > 1:  # read by its owner once, to be delivered or to begin its tour
        dram[owner, READ] += read_columns
        dram[owner, ACTIVATED] += read_rows
    for row in (at, len(tour)):
        pieces[row, 0] += size_bytes
        pieces[row, 1] += flits
        pieces[row, 2] += columns
        pieces[row, 3] += rows


@njit
def _gather(
    grid: Grid,
    tour: np.ndarray,
    pieces: np.ndarray,
    loads: np.ndarray,
    dram: np.ndarray,
    totals: np.ndarray,
    received: np.ndarray,
) -> None:
    """All-gather along a tour: an edge carries every chunk but that of the member it leads to."""
    count = len(tour)
    if count == 1:
        return
    longest = 0
    for m in range(count):
        to = (m + 1) % count
        size_bytes, flits, columns, rows = pieces[count] - pieces[to]
        if size_bytes == 0:
            continue
        longest = max(longest, send(grid, loads, totals, tour[m], tour[to], flits, size_bytes))
        dram[tour[to], WRITTEN] += columns
        dram[tour[to], ACTIVATED] += rows
        received[tour[to]] += size_bytes
    totals[TOUR] = max(totals[TOUR], (count - 1) * longest)


@njit
def gather_weights(
    grid: Grid,
    tours: np.ndarray,
    elements: np.ndarray,
    width: int,
    loads: np.ndarray,
    dram: np.ndarray,
    totals: np.ndarray,
    received: np.ndarray,
) -> None:
    """All-gather of weights that the members of each group hold in equal parts: `elements[group]` in all."""
    count = tours.shape[1]
    pieces = np.empty((count + 1, _PIECE), np.int64)
    for g in range(len(tours)):
        pieces[:] = 0
        chunk = -(-elements[g] // count)
        for m in range(count):
            start, stop = min(m * chunk, elements[g]) * width, min((m + 1) * chunk, elements[g]) * width
            columns, rows = range_blocks(start, stop, grid.column_bytes), range_blocks(start, stop, grid.row_bytes)
            dram[tours[g, m], READ] += columns
            dram[tours[g, m], ACTIVATED] += rows
            for row in (m, count):
                pieces[row, 0] += stop - start
                pieces[row, 1] += -(-(stop - start) // grid.flit_bytes)
                pieces[row, 2] += columns
                pieces[row, 3] += rows
        _gather(grid, tours[g], pieces, loads, dram, totals, received)
