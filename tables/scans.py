"""Scans of a sequential tensor's tiles: the boxes that they are, and what each of them opens by itself."""

from typing import NamedTuple

import numpy as np

from tables.dram import Dram, period, recurrence
from tables.factors import log2_of, quotient
from tables.jit import njit
from tables.nest import FILTER_OF, I, Ints, LayerShape, P

#: What is measured of one scan: rows opened, columns, by how much its runs outlast the shortest run, columns of the
#: last run, banks used, rows in banks with several of its rows, whether some slice lies in two rows; then per bank the
#: lowest row and the highest, or -1.
ROWS, TOUCHED, EXTRA, FINAL, BANKS, SHARED, CROSSES, PER_BANK = range(8)
#: Repetitions of a scan's segments that are remembered.
_MOST_REMEMBERED = 64


class Scan(NamedTuple):
    """Byte segments int[n, 2] (first byte, bytes) in address order, so many `times`, each `stride` bytes further on.

    As a box it is `slices` along its outermost axis, `pitch` bytes apart, each `reach` bytes from first to last.
    """

    segments: Ints
    times: int
    stride: int
    slices: int
    pitch: int
    reach: int


def axis_box(shape: LayerShape, t: int, extents: Ints, axis: int) -> Ints:
    """Box extents along an axis of tiles with extents int[n, 8]."""
    if t == I and axis in FILTER_OF:
        side = 0 if axis == P else 1
        outputs, filters = extents[:, axis], extents[:, FILTER_OF[axis]]
        return (outputs - 1) * shape.stride[side] + (filters - 1) * shape.dilation[side] + 1
    return extents[:, axis]


def axis_strides(shape: LayerShape, t: int, axes: tuple[int, ...], width: int) -> tuple[dict[int, int], int]:
    """Bytes from one element of a tensor to the next along each axis, outermost first, and those of all of it."""
    whole, strides, size = np.array([shape.bounds]), dict[int, int](), width
    for axis in reversed(axes):
        strides[axis], size = size, size * int(axis_box(shape, t, whole, axis)[0])
    return {axis: strides[axis] for axis in axes}, size


def step_bytes(shape: LayerShape, t: int, strides: dict[int, int], d: int) -> int:
    """Bytes that a tensor's tiles move by per index of a dim; `strides`: from one element to the next along axes."""
    for side, (axis, filters) in enumerate(FILTER_OF.items()):
        if t == I and d == axis:
            return shape.stride[side] * strides[axis]
        if t == I and d == filters:
            return shape.dilation[side] * strides[axis]
    return strides[d]


@njit
def box_scan(box: Ints, strides: Ints, width: int) -> Scan:
    """The scan of a box, axes outermost first, strides in bytes."""
    outer = 0
    while outer < 4 and box[outer] == 1:
        outer += 1
    outer = outer if box[outer] > 1 else 0
    times, pitch, inner = box[outer], strides[outer], box.copy()
    inner[outer] = 1
    segments, reach = box_segments(inner, strides, width), np.sum((inner - 1) * strides) + width - 1
    if len(segments) == 1 and segments[0, 1] == pitch:  # the outermost axis continues the inner ones
        segments[0, 1] *= times
        return Scan(segments, 1, 0, times, pitch, reach)
    return Scan(segments, times, pitch, times, pitch, reach)


@njit
def box_segments(box: Ints, strides: Ints, width: int) -> Ints:
    """Byte segments int[n, 2] of a box in address order, axes outermost first, strides in bytes."""
    length, axis = width, 4
    while axis >= 0 and (strides[axis] == length or box[axis] == 1):
        length *= box[axis]
        axis -= 1
    count = 1
    for a in range(axis + 1):
        count *= box[a]
    segments = np.empty((count, 2), np.int64)
    index = np.zeros(5, np.int64)
    for i in range(count):
        segments[i, 0] = np.sum(index * strides)
        segments[i, 1] = length
        for a in range(axis, -1, -1):
            index[a] += 1
            if index[a] < box[a]:
                break
            index[a] = 0
    return segments


@njit
def measure(base: int, scan: Scan, dram: Dram, out: Ints) -> None:
    """Measure one scan from a base address. Modifies out.

    Segments ascend, so a column or row repeats only from one to the next. A repetition of the segments that begins as
    an earlier one did, whole rows of the same banks on, costs what that one cost, and so do all that follow.
    """
    column_shift, per_row, banks = log2_of(dram.column_bytes), dram.row_bytes // dram.column_bytes, dram.banks
    row_shift, shortest = log2_of(per_row), period(1, dram)
    recurs, shift = recurrence(scan.stride, dram.row_bytes)
    same_bank, _ = recurrence(shift, banks)
    recurs, shift = recurs * same_bank, shift * same_bank
    remembers = recurs <= _MOST_REMEMBERED * banks
    seen = np.zeros((recurs if remembers else 0, 6 + 2 * banks), np.int64)
    lowest, highest, number = out[PER_BANK : PER_BANK + banks], out[PER_BANK + banks :], np.zeros(banks, np.int64)
    lowest[:], highest[:] = -1, -1
    tracked = banks if banks > 1 else 0  # of one bank it is known without looking
    rows, columns, extra, run, row, last = 0, 0, 0, 0, -1, -1
    i = 0
    while i < scan.times:
        if remembers and 0 < i < scan.times - recurs:
            then = seen[i % recurs]
            again = (scan.times - i) // recurs
            is_steady = i > (recurs if banks == 1 else 2 * recurs)
            if is_steady and run == then[3] and row == then[4] + shift and last == then[5] + shift * per_row:
                rows, columns = rows + again * (rows - then[0]), columns + again * (columns - then[1])
                extra += again * (extra - then[2])
                row, last, i = row + again * shift, last + again * shift * per_row, i + again * recurs
                for bank in range(tracked):
                    highest[bank] += again * (highest[bank] - then[6 + bank])
                    number[bank] += again * (number[bank] - then[6 + banks + bank])
                if i == scan.times:
                    break
            then[:6] = (rows, columns, extra, run, row, last)
            for bank in range(tracked):
                then[6 + bank], then[6 + banks + bank] = highest[bank], number[bank]
        for segment in range(scan.segments.shape[0]):
            start = base + i * scan.stride + scan.segments[segment, 0]
            end = start + scan.segments[segment, 1] - 1
            column = quotient(start, dram.column_bytes, column_shift)
            final = quotient(end, dram.column_bytes, column_shift)
            column += column == last
            while column <= final:
                here = quotient(column, per_row, row_shift)
                if here != row:
                    extra += period(run, dram) - shortest if run > 0 else 0
                    rows, row, run = rows + 1, here, 0
                    if tracked:
                        bank = here % banks
                        lowest[bank] = here if lowest[bank] < 0 else lowest[bank]
                        highest[bank] = here
                        number[bank] += 1
                stop = min(final + 1, (here + 1) * per_row)
                run += stop - column
                columns += stop - column
                column = stop
            last = final
        i += 1
    out[ROWS], out[TOUCHED], out[EXTRA], out[FINAL] = rows, columns, extra + period(run, dram) - shortest, run
    if not tracked:
        lowest[0], highest[0], number[0] = 0, last // per_row, rows
    out[BANKS], out[SHARED] = np.sum(number > 0), np.sum(number * (number > 1))
    out[CROSSES] = _crosses(base, scan, dram) if banks > 1 else 0


@njit
def _crosses(base: int, scan: Scan, dram: Dram) -> bool:
    """Whether some slice of a box begins in one row and ends in another."""
    for i in range(scan.slices):
        start = base + i * scan.pitch
        if start // dram.row_bytes != (start + scan.reach) // dram.row_bytes:
            return True
    return False
