"""What nodes send after they have computed: partial sums to be added, outputs to their homes (section 5, 4 and 5)."""

from typing import NamedTuple

import numpy as np

from tables.array.counts import (
    ADDITIONS,
    BYTES,
    FLITS,
    LONGEST,
    READ,
    TOUR,
    WRITTEN,
    Grid,
    Homes,
    access,
    cross,
    homes_met,
    overlap,
    send,
    volume,
)
from tables.jit import njit


@njit
def reduce_scatter(
    grid: Grid,
    tours: np.ndarray,
    boxes: np.ndarray,
    chunks: np.ndarray,
    layout: int,
    psum_width: int,
    width: int,
    loads: np.ndarray,
    dram: np.ndarray,
    totals: np.ndarray,
) -> None:
    """Add the partial sums of each set; the last three arguments are modified in place.

    `tours[set, member]`, `boxes[set, box, 8]`: what every member has partial sums of, `chunks[set, member, box, 8]`:
    what the member ends with. Chunk t travels from member t + 1 all around to t.
    """
    count = tours.shape[1]
    for s in range(len(tours)):
        if grid.is_host:
            _add_at_host(grid, tours[s], boxes[s], chunks[s], layout, psum_width, width, loads, dram, totals)
            continue
        longest = 0
        for m in range(count):
            node, to, total, flits = tours[s, m], tours[s, (m + 1) % count], 0, 0
            for t in range(count):
                elements = 0
                for b in range(chunks.shape[2]):
                    if volume(chunks[s, t, b]) > 0:
                        elements += volume(chunks[s, t, b])
                        whole = boxes[s, _around(boxes[s], chunks[s, t, b])]
                        access(grid, dram, node, READ, chunks[s, t, b], whole, layout, psum_width)
                        if t == m:
                            access(grid, dram, node, WRITTEN, chunks[s, t, b], chunks[s, t, b], layout, width)
                if t != m:  # chunk m ends here; all others pass on to the next member
                    total += elements
                    flits += -(-elements * psum_width // grid.flit_bytes)
            if total > 0:
                longest = max(longest, send(grid, loads, totals, node, to, flits, total * psum_width))
                totals[ADDITIONS] += total
        totals[TOUR] = max(totals[TOUR], (count - 1) * longest)


@njit
def _add_at_host(
    grid: Grid,
    tour: np.ndarray,
    boxes: np.ndarray,
    chunks: np.ndarray,
    layout: int,
    psum_width: int,
    width: int,
    loads: np.ndarray,
    dram: np.ndarray,
    totals: np.ndarray,
) -> None:
    """Every member sends all its partial sums to the host, which adds them and sends each member its chunk."""
    whole = 0
    for b in range(len(boxes)):
        whole += volume(boxes[b])
    if whole == 0:
        return
    totals[ADDITIONS] += (len(tour) - 1) * whole
    for m in range(len(tour)):
        chunk = 0
        for b in range(len(boxes)):
            if volume(boxes[b]) > 0:
                access(grid, dram, tour[m], READ, boxes[b], boxes[b], layout, psum_width)
        for b in range(chunks.shape[1]):
            if volume(chunks[m, b]) > 0:
                chunk += volume(chunks[m, b])
                access(grid, dram, tour[m], WRITTEN, chunks[m, b], chunks[m, b], layout, width)
        for size_bytes in (whole * psum_width, chunk * width):
            flits = -(-size_bytes // grid.flit_bytes)
            totals[BYTES] += size_bytes
            totals[FLITS] += flits
            cross(grid, loads, totals, tour[m] // grid.cols, flits)


@njit
def _around(boxes: np.ndarray, part: np.ndarray) -> int:
    """The box whose channels a part lies in: a part of several groups has a box for each, the whole may be one."""
    for b in range(len(boxes)):
        if boxes[b, 2] <= part[2] and part[3] <= boxes[b, 3]:
            return b
    return 0


@njit
def push(
    grid: Grid,
    nodes: np.ndarray,
    held: np.ndarray,
    pooled: np.ndarray,
    is_pooled: bool,
    homes: Homes,
    a: int,
    width: int,
    loads: np.ndarray,
    dram: np.ndarray,
    totals: np.ndarray,
    at_home: np.ndarray,
) -> None:
    """Send what nodes hold to home `a`; the last four arguments are modified in place.

    `held[i, box, 8]` lies on `nodes[i]`, each box for itself; `pooled` is what it becomes, if `is_pooled`.
    `at_home[i]`: elements of `held` (of `pooled`) that are at home on their node.
    """
    part, met, layout = np.empty(8, np.int64), np.empty(len(homes.nodes), np.int64), homes.layouts[a]
    for i in range(len(nodes)):
        if is_pooled:
            _pool(grid, nodes[i], held[i], layout, width, dram, totals)
        for j in range(homes_met(homes, a, pooled[i], met)):
            home, owner = homes.boxes[a, met[j]], homes.nodes[met[j]]
            elements = 0
            for b in range(held.shape[1]):
                if not overlap(pooled[i, b], home, part):
                    continue
                elements += volume(part)
                if owner != nodes[i] and not is_pooled:
                    access(grid, dram, nodes[i], READ, part, held[i, b], layout, width)
                if is_pooled and owner != nodes[i]:  # windows may straddle parts: read, combine, write
                    access(grid, dram, owner, READ, part, home, layout, width)
                if is_pooled or owner != nodes[i]:
                    access(grid, dram, owner, WRITTEN, part, home, layout, width)
            if owner == nodes[i]:
                at_home[i] += elements
            elif elements > 0:
                flits = -(-elements * width // grid.flit_bytes)
                hops = send(grid, loads, totals, nodes[i], owner, flits, elements * width)
                totals[LONGEST] = max(totals[LONGEST], hops)


@njit
def _pool(
    grid: Grid, node: int, held: np.ndarray, layout: int, width: int, dram: np.ndarray, totals: np.ndarray
) -> None:
    """Read what a node holds, once; every element is compared or added once."""
    for b in range(len(held)):
        if volume(held[b]) > 0:
            access(grid, dram, node, READ, held[b], held[b], layout, width)
            totals[ADDITIONS] += volume(held[b])


class Viewed(NamedTuple):
    """Inputs that nodes pool or resize: boxes int64[nodes, boxes, 8] that they read, and that they make of these.

    Neither has a node where inputs are taken as they are. `per_raw`, `per_seen`: additions an element of each.
    `is_added`: what was made is read again and added to what the node computes, one addition more an element.
    """

    raw: np.ndarray
    seen: np.ndarray
    per_raw: int
    per_seen: int
    is_added: bool


@njit
def review(
    grid: Grid, nodes: np.ndarray, viewed: Viewed, layout: int, width: int, dram: np.ndarray, totals: np.ndarray
) -> None:
    """Nodes read their raw input boxes and write those that they see; the last two arguments are modified in place."""
    for i in range(len(viewed.raw)):
        for b in range(viewed.raw.shape[1]):
            raw, seen = viewed.raw[i, b], viewed.seen[i, b]
            if volume(raw) > 0:
                access(grid, dram, nodes[i], READ, raw, raw, layout, width)
                totals[ADDITIONS] += viewed.per_raw * volume(raw)
            if volume(seen) > 0:
                access(grid, dram, nodes[i], WRITTEN, seen, seen, layout, width)
                totals[ADDITIONS] += viewed.per_seen * volume(seen)
                if viewed.is_added:
                    access(grid, dram, nodes[i], READ, seen, seen, layout, width)
                    totals[ADDITIONS] += volume(seen)


@njit
def join(
    grid: Grid,
    read: Homes,
    written: Homes,
    a: int,
    width: int,
    additions: int,
    dram: np.ndarray,
    totals: np.ndarray,
) -> None:
    """Nodes of home `a` add operands, so many additions in all: every home box of what is `read`, an operand behind the
    other, is read, and every one of what is `written` is written. The last two arguments change in place.
    """
    totals[ADDITIONS] += additions
    _scan_homes(grid, read, a, READ, width, dram)
    _scan_homes(grid, written, a, WRITTEN, width, dram)


@njit
def _scan_homes(grid: Grid, homes: Homes, a: int, kind: int, width: int, dram: np.ndarray) -> None:
    """Read or write every box of home `a`, each a scan."""
    for h in range(len(homes.nodes)):
        home = homes.boxes[a, h]
        if volume(home) > 0:
            access(grid, dram, homes.nodes[h], kind, home, home, homes.layouts[a], width)
