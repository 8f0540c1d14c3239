"""Messages on an array of nodes: link loads, totals, and scans of boxes in DRAM (docs/array.md, sections 4 and 6).

Work arrays of a phase, modified in place:
`loads`, int64[nodes, 6]: flits on a node's links to the east, west, south and north, into the network and out of it.
While messages are counted, links hold *differences*: a message adds its flits where its way along a row or column
begins, and takes them off where it ends, so it costs the same on any array; `sum_links` adds them up at last.
Where nodes hang on a host, the bus of a row stands in the place of the row's first node's link to the east, as it is.
`dram`, int64[nodes, 3]: columns read, columns written, activations. `totals`, int64[6]: see below.
"""

from typing import NamedTuple

import numpy as np

from tables.jit import njit

EAST, WEST, SOUTH, NORTH, INJECT, EJECT = range(6)
READ, WRITTEN, ACTIVATED = range(3)
#: Bytes, flits, flits x hops, hops of the longest delivery, dependent hops along a tour, additions.
BYTES, FLITS, FLIT_HOPS, LONGEST, TOUR, ADDITIONS = range(6)
TOTALS = 6


class Grid(NamedTuple):
    """The array: rows, nodes a row, whether the nodes of a row share a bus to a host instead of links, bytes of a flit,
    of a DRAM column and of a DRAM row; and scans that were counted before.

    `memo`, int64[any, 10], all zeros at first: see `scan`. It is modified in place.
    """

    rows: int
    cols: int
    is_host: bool
    flit_bytes: int
    column_bytes: int
    row_bytes: int
    memo: np.ndarray


#: Entries of a memo: eight that identify a scan, then its columns and rows.
MEMO = 10


def new_memo(entries: int = 2**14) -> np.ndarray:
    """An empty memo of so many scans; a power of two."""
    return np.zeros((entries, MEMO), dtype=np.int64)


@njit
def hops_between(grid: Grid, a: int, b: int) -> int:
    """Links on the way from one node to another."""
    return abs(a // grid.cols - b // grid.cols) + abs(a % grid.cols - b % grid.cols)


@njit
def send(grid: Grid, loads: np.ndarray, totals: np.ndarray, a: int, b: int, flits: int, size_bytes: int) -> int:
    """Send flits from a to b: along the row first, then along the column, or over the host. Returns the hops.

    The hops over a host are no chain, so 0 is returned.
    """
    totals[BYTES] += size_bytes
    totals[FLITS] += flits
    if grid.is_host:
        cross(grid, loads, totals, a // grid.cols, flits)
        cross(grid, loads, totals, b // grid.cols, flits)
        return 0
    ya, xa, yb, xb = a // grid.cols, a % grid.cols, b // grid.cols, b % grid.cols
    if xa < xb:
        loads[a, EAST] += flits
        loads[ya * grid.cols + xb, EAST] -= flits
    elif xa > xb:
        loads[ya * grid.cols + xb + 1, WEST] += flits
        if xa + 1 < grid.cols:
            loads[a + 1, WEST] -= flits
    if ya < yb:
        loads[ya * grid.cols + xb, SOUTH] += flits
        loads[b, SOUTH] -= flits
    elif ya > yb:
        loads[(yb + 1) * grid.cols + xb, NORTH] += flits
        if ya + 1 < grid.rows:
            loads[(ya + 1) * grid.cols + xb, NORTH] -= flits
    loads[a, INJECT] += flits
    loads[b, EJECT] += flits
    hops = abs(ya - yb) + abs(xa - xb)
    totals[FLIT_HOPS] += flits * hops
    return hops


@njit
def cross(grid: Grid, loads: np.ndarray, totals: np.ndarray, row: int, flits: int) -> None:
    """Move flits over the bus between a row of nodes and the host."""
    loads[row * grid.cols, EAST] += flits
    totals[FLIT_HOPS] += flits


@njit
def sum_links(grid: Grid, loads: np.ndarray) -> None:
    """Turn the differences along rows and columns into the flits on each link."""
    if grid.is_host:
        return
    for node in range(len(loads)):
        if node % grid.cols > 0:
            loads[node, EAST] += loads[node - 1, EAST]
            loads[node, WEST] += loads[node - 1, WEST]
        if node >= grid.cols:
            loads[node, SOUTH] += loads[node - grid.cols, SOUTH]
            loads[node, NORTH] += loads[node - grid.cols, NORTH]


@njit
def volume(box: np.ndarray) -> int:
    """Elements of a box."""
    elements: int = (box[1] - box[0]) * (box[3] - box[2]) * (box[5] - box[4]) * (box[7] - box[6])
    return elements


class Homes(NamedTuple):
    """Some homes of one stack on the same nodes, as arrays with a row for each home.

    `boxes`, int64[homes, nodes, 8]: what lies on each node. `grids`, int64[homes, 2, 4]: parts and their sizes along N,
    C, H, W; size 0 where each part holds all of the axis. `cells`, int64[homes, nodes]: the place among the nodes of
    each combination of parts, the last axis the fastest. `nodes`, int64[nodes]: their numbers. `layouts`, int64[homes]:
    see `scan`.
    """

    boxes: np.ndarray
    grids: np.ndarray
    cells: np.ndarray
    nodes: np.ndarray
    layouts: np.ndarray


@njit
def homes_met(homes: Homes, a: int, boxes: np.ndarray, found: np.ndarray) -> int:
    """Find the nodes of home `a` that may hold some of the boxes; their places in `found`, their number returned.

    Parts along an axis are equal, so the parts that a range meets follow from a division: nodes that hold nothing of
    the boxes are not looked at, which matters where there are hundreds.
    """
    n0, n1, c0, c1, y0, y1, x0, x1 = 2**60, -1, 2**60, -1, 2**60, -1, 2**60, -1
    for b in range(len(boxes)):
        box = boxes[b]
        if box[0] < box[1] and box[2] < box[3] and box[4] < box[5] and box[6] < box[7]:
            n0, n1, c0, c1 = min(n0, box[0]), max(n1, box[1] - 1), min(c0, box[2]), max(c1, box[3] - 1)
            y0, y1, x0, x1 = min(y0, box[4]), max(y1, box[5] - 1), min(x0, box[6]), max(x1, box[7] - 1)
    if n1 < 0:
        return 0
    parts, size, cells, count = homes.grids[a, 0], homes.grids[a, 1], homes.cells[a], 0
    first_n, last_n = _parts_met(n0, n1, parts[0], size[0])
    first_c, last_c = _parts_met(c0, c1, parts[1], size[1])
    first_y, last_y = _parts_met(y0, y1, parts[2], size[2])
    first_x, last_x = _parts_met(x0, x1, parts[3], size[3])
    for n in range(first_n, last_n + 1):
        for c in range(first_c, last_c + 1):
            for y in range(first_y, last_y + 1):
                first = ((n * parts[1] + c) * parts[2] + y) * parts[3]
                for x in range(first_x, last_x + 1):
                    found[count] = cells[first + x]
                    count += 1
    return count


@njit
def _parts_met(start: int, last: int, parts: int, size: int) -> tuple[int, int]:
    """The first and the last part along an axis that hold some of the elements from `start` to `last`."""
    return (0, parts - 1) if size == 0 else (start // size, last // size)


@njit
def overlap(a: np.ndarray, b: np.ndarray, out: np.ndarray) -> bool:
    """The box that two boxes share, in `out`; False if there is none."""
    for i in range(0, 8, 2):
        out[i] = max(a[i], b[i])
        out[i + 1] = min(a[i + 1], b[i + 1])
        if out[i] >= out[i + 1]:
            return False
    return True


@njit
def range_blocks(start: int, stop: int, block: int) -> int:
    """Blocks of so many bytes that a byte range touches."""
    return 0 if start >= stop else (stop - 1) // block - start // block + 1


@njit
def scan(grid: Grid, box: np.ndarray, within: np.ndarray, layout: int, width: int) -> tuple[int, int]:
    """Distinct DRAM columns and rows that a box touches in a larger box stored from a row's first byte on.

    `layout`: an even number if the larger box lies in the order N C H W, an odd one for N H W C; half of it, if above
    1, are the channels of a group, which lie innermost: N C/n H W n, or N H W C/n n. `width`: bytes of an element. A
    scan depends on its lengths, its strides and where in a row it begins, which many nodes have in common.
    """
    channels_last, group = layout % 2 == 1, layout // 2
    if group > 1 and not channels_last:
        return _scan_groups(grid, box, within, group, width)
    # Axes from the outermost to the innermost: offsets and lengths of the box, extents of the larger one.
    a, b, c = (4, 6, 2) if channels_last else (2, 4, 6)
    length0, length1, length2 = box[1] - box[0], box[a + 1] - box[a], box[b + 1] - box[b]
    run = box[c + 1] - box[c]
    stride2 = within[c + 1] - within[c]
    if group > 1:
        stride2 = -(-stride2 // group) * group
    stride1 = stride2 * (within[b + 1] - within[b])
    stride0 = stride1 * (within[a + 1] - within[a])
    first = (box[0] - within[0]) * stride0 + (box[a] - within[a]) * stride1
    first += (box[b] - within[b]) * stride2 + box[c] - within[c]
    # Whole inner axes lie one behind the other: one longer run.
    if run == stride2:
        run, length2 = run * length2, 1
        if run == stride1:
            run, length1 = run * length1, 1
            if run == stride0:
                run, length0 = run * length0, 1
    start = first * width % grid.row_bytes
    lengths = (length0, length1, length2, run * width)
    strides = (stride0 * width, stride1 * width, stride2 * width)
    return _recall(grid, start, lengths, strides)


@njit
def _scan_groups(grid: Grid, box: np.ndarray, within: np.ndarray, group: int, width: int) -> tuple[int, int]:
    """The same for groups of channels innermost, N C/n H W n: a group of which all is read is one run in each line."""
    height, length = within[5] - within[4], within[7] - within[6]
    groups = -(-(within[3] - within[2]) // group)
    first, end = box[2] - within[2], box[3] - within[2]
    columns, rows, last_column, last_row = 0, 0, -1, -1
    for n in range(box[0] - within[0], box[1] - within[0]):
        for g in range(first // group, (end - 1) // group + 1):
            low, high = max(first - g * group, 0), min(end - g * group, group)
            is_whole = high - low == group
            for y in range(box[4] - within[4], box[5] - within[4]):
                line = ((n * groups + g) * height + y) * length - within[6]
                for x in range(box[6], box[6] + 1 if is_whole else box[7]):
                    start = ((line + x) * group + low) * width
                    stop = start + ((box[7] - box[6]) * group if is_whole else high - low) * width - 1
                    columns += stop // grid.column_bytes - start // grid.column_bytes
                    columns += start // grid.column_bytes != last_column
                    rows += stop // grid.row_bytes - start // grid.row_bytes + (start // grid.row_bytes != last_row)
                    last_column, last_row = stop // grid.column_bytes, stop // grid.row_bytes
    return columns, rows


@njit
def _recall(
    grid: Grid, start: int, lengths: tuple[int, int, int, int], strides: tuple[int, int, int]
) -> tuple[int, int]:
    """Columns and rows of a scan, from the memo if it is there."""
    memo = grid.memo
    at = start
    for value in (*lengths, *strides):
        at = at * 1000003 + value
    at = (at ^ (at >> 17)) & (len(memo) - 1)
    entry = memo[at]
    known = entry[0] == lengths[0] and entry[1] == lengths[1] and entry[2] == lengths[2] and entry[3] == lengths[3]
    known = known and entry[4] == strides[0] and entry[5] == strides[1] and entry[6] == strides[2]
    if not known or entry[7] != start:
        entry[0], entry[1], entry[2], entry[3] = lengths
        entry[4], entry[5], entry[6] = strides
        entry[7] = start
        entry[8] = _distinct(start, lengths, strides, grid.column_bytes)
        entry[9] = _distinct(start, lengths, strides, grid.row_bytes)
    return entry[8], entry[9]


@njit
def _distinct(start: int, lengths: tuple[int, int, int, int], strides: tuple[int, int, int], block: int) -> int:
    """Distinct blocks of so many bytes that runs of bytes touch; runs are in the order of their addresses."""
    count, last = 0, -1
    for i in range(lengths[0]):
        for j in range(lengths[1]):
            for k in range(lengths[2]):
                at = start + i * strides[0] + j * strides[1] + k * strides[2]
                low, high = at // block, (at + lengths[3] - 1) // block
                count += high - low + (low != last)
                last = high
    return count


@njit
def access(
    grid: Grid, dram: np.ndarray, node: int, way: int, box: np.ndarray, within: np.ndarray, layout: int, width: int
) -> None:
    """Count one scan of a box on a node, read or written."""
    columns, rows = scan(grid, box, within, layout, width)
    dram[node, way] += columns
    dram[node, ACTIVATED] += rows
