"""Rows that fetching the windows of a row-aligned input opens at least, in whatever order.

A row-aligned I lies in DRAM block by block (Eq. 52-56), and a fetch brings in a window, which may cut several blocks.
With one bank a scan finds at most one of its rows open, and under closed pages none; so a pass over all windows opens
at least as many rows as its windows lie in, each by itself, less one for each where pages stay open. A scan goes over
its rows once, from the lowest to the highest. So where the innermost loop is one of C, a row is open only if the last
one of a window is the first one of the next channels' window at the same place, or in the first iteration.

Blocks are numbered along the axes of the layout, and `per_row` blocks that follow each other share a row. So the rows
of a window are told by the numbers of its first and its last block, if from each of its blocks to the next it is no
more than a row; else at least a row begins with each line of blocks along the width.
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

#: More rows than any pass opens.
_NEVER = 2**62


class Axis(NamedTuple):
    """The windows along an axis: extents of outputs and of filters, positions of a window, where the windows start, and
    block sizes.
    """

    outputs: int
    filters: int
    size: int
    starts: Ints
    blocks: Ints


def block_sides(size: int, stride: int, window: int, outputs: int) -> list[int]:
    """Block sizes along an axis of so many positions for windows of so many outputs (Eq. 8, 9): divisors of the axis
    and steps of the tiles, no larger than the window.
    """
    steps = {min(stride * n, size) for n in divisors(outputs)}
    return sorted({n for n in {*divisors(size), *steps, window} if n <= window})


@lru_cache(maxsize=2)
def window_rows(shape: LayerShape, width: int, dram: Dram, capacity: int) -> Ints:
    """Rows that a pass over all windows opens at least, whatever the blocks and the layout: int[n, 9], extents of R, S,
    P, Q, C, N, G, and the count in any order and where the innermost loop is one of C, for all windows of at most
    `capacity` bytes. None with several banks. What was asked for last is kept, and must not be modified.
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
                rows = _least_rows(h.starts, h.size, h.blocks, w.starts, w.size, w.blocks, sizes, depth, bytes_deep,
                                   dram.row_bytes, dram.is_open)  # fmt: skip
                found.append((w.filters, h.filters, w.outputs, h.outputs, c, n, g, *rows))
    return np.array(found, np.int64).reshape(-1, 9)


def _pitch(shape: LayerShape, axis: int) -> tuple[int, int]:
    """Stride and dilation along an axis."""
    side = 0 if axis == P else 1
    return shape.stride[side], shape.dilation[side]


def _windows(shape: LayerShape, axis: int) -> Iterator[Axis]:
    """All windows along an axis."""
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
def _least_rows(starts_h: Ints, window_h: int, blocks_h: Ints, starts_w: Ints, window_w: int, blocks_w: Ints,
                sizes: Ints, depth: Ints, bytes_deep: int, row_bytes: int,
                is_open: bool) -> tuple[int, int]:  # fmt: skip
    """The least over both layouts and all blocks; `sizes` of I along height and width, `depth`: blocks along N, G and
    C, `bytes_deep` bytes of a block per position.
    """
    scans = len(starts_h) * len(starts_w) * depth.prod()
    least = least_in_channels = _NEVER
    for block_h in blocks_h:
        for block_w in blocks_w:
            grid = np.array([-(-sizes[0] // block_h), -(-sizes[1] // block_w)])
            per_row = max(1, row_bytes // (block_h * block_w * bytes_deep))
            first_h, last_h = starts_h // block_h, (starts_h + window_h - 1) // block_h
            first_w, last_w = starts_w // block_w, (starts_w + window_w - 1) // block_w
            for channels_last in range(2):  # both layouts
                step = depth[1] * depth[2] if channels_last else 1
                images = grid[0] * grid[1] * step * np.arange(depth[0] if channels_last else depth.prod())
                offsets = np.zeros(len(images) * step, np.int64)
                for i in range(step):
                    offsets[i * len(images) : (i + 1) * len(images)] = images + i
                rows = _rows_but_one(first_h, last_h, first_w, last_w, step, grid, offsets, per_row)
                least = min(least, rows)
                # Windows of which the last row is not the first one of the next channels' window at the same place.
                to_next, apart = 1 if channels_last else grid[0] * grid[1], 0
                for i in range(len(first_h)):
                    reach = ((last_h[i] - first_h[i]) * grid[1] + last_w - first_w) * step
                    apart += (np.abs(to_next - reach) >= per_row).sum()
                least_in_channels = min(least_in_channels, rows + apart * (depth.prod() - depth[0] * depth[1]))
    large = scans * (-(-window_h * window_w * bytes_deep // row_bytes) - 1)
    least, least_in_channels = max(least, large), max(least_in_channels, large)
    return (least, least_in_channels) if is_open else (least + scans, least + scans)  # no row is open


@njit
def _rows_but_one(first_h: Ints, last_h: Ints, first_w: Ints, last_w: Ints, step: int, grid: Ints, offsets: Ints,
                 per_row: int) -> int:  # fmt: skip
    """Rows of all windows less one of each, at least: from block to block along the width numbers grow by a `step`."""
    line, total = grid[1] * step, 0
    # How many offsets lift a number with this remainder into the next row.
    lifted = np.zeros(per_row + 1, np.int64)
    for offset in offsets:
        lifted[per_row - offset % per_row] += 1
    lifted = np.cumsum(lifted)[:per_row]
    if step >= per_row:  # all blocks in rows of their own
        for i in range(len(first_h)):
            total += ((last_h[i] - first_h[i] + 1) * (last_w - first_w + 1) - 1).sum()
        return total * len(offsets)
    if line <= per_row:  # no row is passed over
        for i in range(len(first_h)):
            for j in range(len(first_w)):
                total += _crossed(first_h[i] * line + first_w[j] * step, last_h[i] * line + last_w[j] * step, per_row,
                                  len(offsets), lifted)  # fmt: skip
        return total
    touched = np.zeros(grid[0], np.int64)  # by how many windows, line by line
    lines = 0
    for i in range(len(first_h)):
        touched[first_h[i] : last_h[i] + 1] += 1
        lines += last_h[i] - first_h[i]
    total = lines * len(first_w) * len(offsets)
    for j in range(len(first_w)):
        if line - (last_w[j] - first_w[j]) * step >= per_row:  # no row has blocks of two lines
            for h in range(grid[0]):
                total += touched[h] * _crossed(h * line + first_w[j] * step, h * line + last_w[j] * step, per_row,
                                               len(offsets), lifted)  # fmt: skip
    return total


@njit
def _crossed(first: int, last: int, per_row: int, offsets: int, lifted: Ints) -> int:
    """Row boundaries between two numbers, over all offsets."""
    return int(offsets * (last // per_row - first // per_row) + lifted[last % per_row] - lifted[first % per_row])
