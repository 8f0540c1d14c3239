"""Lower bounds on the rows that fetching the windows of a row-aligned input opens, in whatever order.

A row-aligned I lies in DRAM block by block (Eq. 52-56). One fetch brings in a window, which may cut several blocks. A
scan goes over the rows of its window once, from the lowest to the highest. With one bank it finds at most one of them
open, and with closed pages none. So one pass over all windows opens at least the sum of the rows that each window lies
in, less one row per window where pages stay open. If the innermost loop is one of C, the scan before is that of the
neighbouring channels at the same place, except in the loop's first iteration. Then a row can be open only if the last
row of a window is the first row of the next channels' window.

Blocks are numbered along the axes of the layout, and `per_row` blocks with successive numbers share a row. If the block
numbers of a window leave no row out between the first and the last, the numbers of its first and its last block give
its rows. Else each line of blocks along the width begins at least one row of its own.
"""

import itertools
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from tables.dram import Dram
from tables.factors import divisors
from tables.jit import njit
from tables.nest import FILTER_OF, C, G, Ints, LayerShape, N, P, Q, span
from tables.reduce import product

#: More rows than any pass opens: the minimum over no blocks.
_INFINITE_ROWS = 2**62


class Axis(NamedTuple):
    """The windows along an axis of I.

    `outputs`, `filters`: their extents in the two dims of the axis. `size`: positions of one window. `starts` int[n]:
    the first position of each. `blocks` int[m]: block sizes that a mapping may choose.
    """

    outputs: int
    filters: int
    size: int
    starts: Ints
    blocks: Ints


def block_sides(size: int, stride: int, window: int, outputs: int) -> list[int]:
    """Return the block sizes along an axis that a mapping may choose (Eq. 8, 9), ascending.

    These are the divisors of the axis, the steps of the tiles and the window itself, as far as they are no larger than
    the window. `size`, `window`: positions of the axis and of one window. `outputs`: outputs of a window.
    """
    steps = {min(stride * n, size) for n in divisors(outputs)}
    return sorted({n for n in {*divisors(size), *steps, window} if n <= window})


@lru_cache(maxsize=2)
def window_rows(shape: LayerShape, width: int, dram: Dram, capacity: int) -> Ints:
    """Return lower bounds on the rows that one pass over all windows opens, whatever the blocks and the layout.

    One row per window of at most `capacity` bytes; no rows if there are several banks. The last two results are kept,
    and must not be modified.

    Returns int[n, 9]: extents of R, S, P, Q, C, N, G, the bound for any order of the loops, and the bound where the
    innermost loop is one of C.
    """
    if dram.banks > 1:
        return np.zeros((0, 9), np.int64)
    widths, heights = list(_windows(shape, P)), list(_windows(shape, Q))
    sizes = np.array([span(shape.bounds[a], shape.bounds[FILTER_OF[a]], *_pitch(shape, a)) for a in (Q, P)])
    found = []
    for c, n, g in itertools.product(*(divisors(shape.bounds[d]) for d in (C, N, G))):
        depth = np.array([shape.bounds[N] // n, shape.bounds[G] // g, shape.bounds[C] // c])
        for w, h in itertools.product(widths, heights):
            bytes_deep = c * n * g * width
            if w.size * h.size * bytes_deep <= capacity:
                rows = _min_rows(h.starts, h.size, h.blocks, w.starts, w.size, w.blocks, sizes, depth, bytes_deep,
                                   dram.row_bytes, dram.is_open)  # fmt: skip
                found.append((w.filters, h.filters, w.outputs, h.outputs, c, n, g, *rows))
    return np.array(found, np.int64).reshape(-1, 9)


def _pitch(shape: LayerShape, axis: int) -> tuple[int, int]:
    """Return stride and dilation along an axis."""
    side = 0 if axis == P else 1
    return shape.stride[side], shape.dilation[side]


def _windows(shape: LayerShape, axis: int) -> Iterator[Axis]:
    """Yield all windows along an axis."""
    stride, dilation = _pitch(shape, axis)
    bound, filter_bound = shape.bounds[axis], shape.bounds[FILTER_OF[axis]]
    whole = span(bound, filter_bound, stride, dilation)
    for outputs in divisors(bound):
        for filters in divisors(filter_bound):
            size = span(outputs, filters, stride, dilation)
            starts = np.add.outer(
                stride * np.arange(0, bound, outputs), dilation * np.arange(0, filter_bound, filters)
            ).ravel()
            yield Axis(outputs, filters, size, starts, np.array(block_sides(whole, stride, size, outputs)))


@njit
def _min_rows(starts_h: Ints, window_h: int, blocks_h: Ints, starts_w: Ints, window_w: int, blocks_w: Ints,
                sizes: Ints, depth: Ints, bytes_deep: int, row_bytes: int,
                is_open: bool) -> tuple[int, int]:  # fmt: skip
    """Return the two bounds of `window_rows`: the minimum over both layouts and all blocks.

    `starts_h`, `starts_w` int[n]: first positions of the windows; `window_h`, `window_w`: positions of one; `blocks_h`,
    `blocks_w` int[m]: block sizes. `sizes` int[2]: positions of I along height and width. `depth` int[3]: blocks along
    N, G and C. `bytes_deep`: bytes of a block per position.
    """
    scans, all_depths = len(starts_h) * len(starts_w) * product(depth), product(depth)
    bound = bound_in_channels = _INFINITE_ROWS
    for block_h in blocks_h:
        for block_w in blocks_w:
            lines, line = -(-sizes[0] // block_h), -(-sizes[1] // block_w)
            per_row = max(1, row_bytes // (block_h * block_w * bytes_deep))
            first_h, last_h = _blocks_of(starts_h, 0, block_h), _blocks_of(starts_h, window_h - 1, block_h)
            first_w, last_w = _blocks_of(starts_w, 0, block_w), _blocks_of(starts_w, window_w - 1, block_w)
            for channels_last in range(2):  # both layouts
                step = depth[1] * depth[2] if channels_last else 1
                images = depth[0] if channels_last else all_depths
                offsets = np.zeros(images * step, np.int64)
                for i in range(step):
                    for image in range(images):
                        offsets[i * images + image] = lines * line * step * image + i
                rows = _rows_but_one(first_h, last_h, first_w, last_w, step, lines, line, offsets, per_row)
                bound = min(bound, rows)
                # Windows whose last row is not the first row of the next channels' window at the same place.
                to_next, apart = 1 if channels_last else lines * line, 0
                for i in range(len(first_h)):
                    for j in range(len(first_w)):
                        reach = ((last_h[i] - first_h[i]) * line + last_w[j] - first_w[j]) * step
                        apart += abs(to_next - reach) >= per_row
                bound_in_channels = min(bound_in_channels, rows + apart * (all_depths - depth[0] * depth[1]))
    large = scans * (-(-window_h * window_w * bytes_deep // row_bytes) - 1)
    bound, bound_in_channels = max(bound, large), max(bound_in_channels, large)
    return (bound, bound_in_channels) if is_open else (bound + scans, bound + scans)  # no row is open


@njit
def _blocks_of(positions: Ints, plus: int, size: int) -> Ints:
    """Return the block of each position, `plus` positions further on."""
    blocks = np.empty(len(positions), np.int64)
    for i in range(len(positions)):
        blocks[i] = (positions[i] + plus) // size
    return blocks


@njit
def _rows_but_one(first_h: Ints, last_h: Ints, first_w: Ints, last_w: Ints, step: int, lines: int, in_line: int,
                 offsets: Ints, per_row: int) -> int:  # fmt: skip
    """Return a lower bound on the rows of all windows, less one per window.

    `first_h`, `last_h`, `first_w`, `last_w` int[n]: first and last block of each window along height and width. Along
    the width block numbers grow by `step`. `lines`, `in_line`: blocks along height and width. `offsets` int[m]: what
    the other axes add to block numbers.
    """
    line, total = in_line * step, 0
    # How many offsets move a block number with this remainder into the next row.
    lifted = np.zeros(per_row + 1, np.int64)
    for offset in offsets:
        lifted[per_row - offset % per_row] += 1
    for i in range(1, per_row):
        lifted[i] += lifted[i - 1]
    if step >= per_row:  # each block begins a row
        for i in range(len(first_h)):
            for j in range(len(first_w)):
                total += (last_h[i] - first_h[i] + 1) * (last_w[j] - first_w[j] + 1) - 1
        return total * len(offsets)
    if line <= per_row:  # every row between the first and the last is used
        for i in range(len(first_h)):
            for j in range(len(first_w)):
                total += _crossed(first_h[i] * line + first_w[j] * step, last_h[i] * line + last_w[j] * step, per_row,
                                  len(offsets), lifted)  # fmt: skip
        return total
    touched = np.zeros(lines, np.int64)  # windows that touch a line of blocks
    more = 0
    for i in range(len(first_h)):
        for h in range(first_h[i], last_h[i] + 1):
            touched[h] += 1
        more += last_h[i] - first_h[i]
    total = more * len(first_w) * len(offsets)
    for j in range(len(first_w)):
        if line - (last_w[j] - first_w[j]) * step >= per_row:  # no row has blocks of two lines
            for h in range(lines):
                total += touched[h] * _crossed(h * line + first_w[j] * step, h * line + last_w[j] * step, per_row,
                                               len(offsets), lifted)  # fmt: skip
    return total


@njit
def _crossed(first: int, last: int, per_row: int, offsets: int, lifted: Ints) -> int:
    """Return the row boundaries between two block numbers, summed over all offsets."""
    return int(offsets * (last // per_row - first // per_row) + lifted[last % per_row] - lifted[first % per_row])
