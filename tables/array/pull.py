"""What nodes fetch before they compute: boxes of a tensor at home, and weights that others hold (section 5)."""

import numpy as np

from tables.array.counts import (
    ACTIVATED,
    BYTES,
    FLITS,
    LONGEST,
    READ,
    TOUR,
    WRITTEN,
    Grid,
    Homes,
    cross,
    homes_met,
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
    homes: Homes,
    a: int,
    width: int,
    loads: np.ndarray,
    dram: np.ndarray,
    totals: np.ndarray,
    received: np.ndarray,
) -> None:
    """Deliver every set's boxes once and gather them along its tour; the last four arguments are modified in place.

    `tours[set, member]`: node numbers. `boxes[set, box, 8]`: what every member needs. `a`: which of the homes.
    `received[node]`: bytes that come in messages.
    """
    count = tours.shape[1]
    part, met = np.empty(8, np.int64), np.empty(len(homes.nodes), np.int64)
    places = np.full(len(loads), -1, np.int64)
    pieces = np.empty((count + 1, _PIECE), np.int64)
    before = totals[LONGEST] + totals[TOUR]  # another operand's chain, which is not waited for
    totals[LONGEST] = totals[TOUR] = 0
    for s in range(len(tours)):
        tour = tours[s]
        pieces[:] = 0
        for m in range(count):
            places[tour[m]] = m
        for i in range(homes_met(homes, a, boxes[s], met)):
            home, owner = homes.boxes[a, met[i]], homes.nodes[met[i]]
            _contribute(
                grid, tour, places[owner], boxes[s], home, owner, homes.layouts[a], width, part, pieces, loads, dram,
                totals, received,
            )  # fmt: skip
        _gather(grid, tour, pieces, loads, dram, totals, received)
        for m in range(count):
            places[tour[m]] = -1
    if before > totals[LONGEST] + totals[TOUR]:
        totals[LONGEST], totals[TOUR] = before, 0


@njit
def _contribute(
    grid: Grid,
    tour: np.ndarray,
    place: int,
    boxes: np.ndarray,
    home: np.ndarray,
    owner: int,
    layout: int,
    width: int,
    part: np.ndarray,
    pieces: np.ndarray,
    loads: np.ndarray,
    dram: np.ndarray,
    totals: np.ndarray,
    received: np.ndarray,
) -> None:
    """What one home node has of a set's boxes becomes part of the chunk of one member: of its own, if it is one.

    `place`: the owner's in the tour, -1 if it is no member. Over a host it goes to all that lack it at once.
    """
    elements, columns, rows, read_columns, read_rows = 0, 0, 0, 0, 0
    for b in range(len(boxes)):
        if not overlap(boxes[b], home, part):
            continue
        elements += volume(part)
        touched = scan(grid, part, boxes[b], layout, width)
        columns, rows = columns + touched[0], rows + touched[1]
        touched = scan(grid, part, home, layout, width)
        read_columns, read_rows = read_columns + touched[0], read_rows + touched[1]
    if elements == 0:
        return
    size_bytes = elements * width
    flits = -(-size_bytes // grid.flit_bytes)
    at = place
    if place < 0 and not grid.is_host:
        at = nearest_member(grid, tour, owner)
        hops = send(grid, loads, totals, owner, tour[at], flits, size_bytes)
        totals[LONGEST] = max(totals[LONGEST], hops)
        dram[tour[at], WRITTEN] += columns
        dram[tour[at], ACTIVATED] += rows
        received[tour[at]] += size_bytes
    if place < 0 or len(tour) > 1:  # read by its owner once, to be delivered or to begin its tour
        dram[owner, READ] += read_columns
        dram[owner, ACTIVATED] += read_rows
        if grid.is_host:
            _upload(grid, owner, flits, size_bytes, loads, totals)
    _add_piece(pieces, at, size_bytes, flits, columns, rows)


@njit
def _add_piece(pieces: np.ndarray, at: int, size_bytes: int, flits: int, columns: int, rows: int) -> None:
    """Add data to the chunk of a member, if it is one's (`at` is not -1), and to the sum of all, which stands last."""
    for row in (at, len(pieces) - 1):
        if row >= 0:
            pieces[row, 0] += size_bytes
            pieces[row, 1] += flits
            pieces[row, 2] += columns
            pieces[row, 3] += rows


@njit
def _upload(grid: Grid, node: int, flits: int, size_bytes: int, loads: np.ndarray, totals: np.ndarray) -> None:
    """Count one message to the host."""
    totals[BYTES] += size_bytes
    totals[FLITS] += flits
    cross(grid, loads, totals, node // grid.cols, flits)


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
    if grid.is_host:
        _broadcast(grid, tour, pieces, loads, dram, totals, received)
        return
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
def _broadcast(
    grid: Grid,
    tour: np.ndarray,
    pieces: np.ndarray,
    loads: np.ndarray,
    dram: np.ndarray,
    totals: np.ndarray,
    received: np.ndarray,
) -> None:
    """The host sends every piece once down each bus with a member that lacks it; all that lack it write it.

    Only the member that has a piece does not lack it, so a bus with two members carries all pieces.
    """
    count = len(tour)
    members, own = np.zeros(grid.rows, np.int64), np.zeros(grid.rows, np.int64)
    for m in range(count):
        row = tour[m] // grid.cols
        members[row] += 1
        own[row] = pieces[m, 1]
        size_bytes, _, columns, rows = pieces[count] - pieces[m]
        dram[tour[m], WRITTEN] += columns
        dram[tour[m], ACTIVATED] += rows
        received[tour[m]] += size_bytes
    for row in range(grid.rows):
        if members[row] > 0:
            cross(grid, loads, totals, row, pieces[count, 1] - (own[row] if members[row] == 1 else 0))


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
            flits = -(-(stop - start) // grid.flit_bytes)
            if grid.is_host:
                _upload(grid, tours[g, m], flits, stop - start, loads, totals)
            _add_piece(pieces, m, stop - start, flits, columns, rows)
        _gather(grid, tours[g], pieces, loads, dram, totals, received)
