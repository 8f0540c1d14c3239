"""Scans of a sequential tensor's tiles as boxes, and what one scan takes: rows, columns, runs."""

from typing import NamedTuple

import numpy as np

from tables.counts.rows import row_of
from tables.counts.scan_parts import (
    BANKS,
    CROSSES,
    LAST_ROW,
    PER_BANK,
    ROWS,
    SHARED,
    Flags,
    Repeat,
    fill_inside,
    is_doubling_shorter,
    mark_all,
    mark_lacking,
    mark_repeated,
    measure_segments,
    repeat_all,
    repeat_some,
    repeated_columns,
    run_cycles,
    segment_columns,
    sums_along,
)
from tables.dram import Dram
from tables.jit import njit
from tables.nest import FILTER_OF, I, Ints, LayerShape, P, span


class Scan(NamedTuple):
    """A box in memory: a segment of `bytes` contiguous bytes, repeated by loops.

    `times`, `strides` int[n]: iterations of the loops, innermost first, and bytes from one iteration to the next. Along
    its outermost axis the box has `slices`, `pitch` bytes apart, each `reach` bytes from its first byte to its last.
    """

    bytes: int
    times: Ints
    strides: Ints
    slices: int
    pitch: int
    reach: int


def axis_box(shape: LayerShape, t: int, extents: Ints, axis: int) -> Ints:
    """Return int[n]: elements along an axis of tiles whose dims have `extents` int[n, 8]."""
    if t == I and axis in FILTER_OF:
        side = 0 if axis == P else 1
        return span(extents[:, axis], extents[:, FILTER_OF[axis]], shape.stride[side], shape.dilation[side])
    return extents[:, axis]


def axis_strides(shape: LayerShape, t: int, axes: tuple[int, ...], width: int) -> tuple[dict[int, int], int]:
    """Return the bytes from one element to the next along each axis, outermost first, and the bytes of the tensor."""
    whole, strides, size = np.array([shape.bounds]), dict[int, int](), width
    for axis in reversed(axes):
        strides[axis], size = size, size * int(axis_box(shape, t, whole, axis)[0])
    return {axis: strides[axis] for axis in axes}, size


def step_bytes(shape: LayerShape, t: int, strides: dict[int, int], d: int) -> int:
    """Return by how many bytes a tile moves per index of a dim; `strides` as from `axis_strides`."""
    for side, (axis, filters) in enumerate(FILTER_OF.items()):
        if t == I and d == axis:
            return shape.stride[side] * strides[axis]
        if t == I and d == filters:
            return shape.dilation[side] * strides[axis]
    return strides[d]


class Parts(NamedTuple):
    """What is measured of the parts of a scan: its segment, then with one more loop each.

    `measured` int[6, addresses, columns of `tables.counts.scan_parts`]; `known` bool[6, addresses]: from which base
    addresses, of those from which the part does not lie in one row.
    """

    measured: Ints
    known: Flags


@njit
def box_scan(box: Ints, strides: Ints, width: int) -> Scan:
    """Return the scan of a box: `box` int[5] elements and `strides` int[5] bytes along the axes, outermost first."""
    length, axis, outer = width, 4, 0
    while axis >= 0 and (strides[axis] == length or box[axis] == 1):
        length *= box[axis]
        axis -= 1
    while outer < 4 and box[outer] == 1:
        outer += 1
    times, pitches, loops, reach = np.empty(axis + 1, np.int64), np.empty(axis + 1, np.int64), 0, width - 1
    for a in range(axis, -1, -1):
        if box[a] > 1:
            times[loops], pitches[loops], loops = box[a], strides[a], loops + 1
    for a in range(5):
        reach += (box[a] - 1) * strides[a] if a != outer else 0
    return Scan(length, times[:loops], pitches[:loops], box[outer], strides[outer], reach)


@njit
def measure(scan: Scan, unit: int, dram: Dram) -> Ints:
    """Measure a scan from each base address within a row that is a multiple of `unit` bytes.

    Returns int[row_bytes / unit, columns of `tables.counts.scan_parts`].
    """
    everywhere = np.empty(dram.row_bytes // unit, np.int64)
    for i in range(len(everywhere)):
        everywhere[i] = i
    columns, parts = measure_like(scan, unit, dram, scan, no_parts(), everywhere)
    measured, whole = parts.measured[len(scan.times)], repeat_of(scan, len(scan.times), unit, dram)
    fill_inside(columns, whole.inside, whole.reach, row_of(unit, dram), dram, run_cycles(dram), measured)
    return with_banks(measured, everywhere, scan, unit, dram)


@njit
def no_parts() -> Parts:
    """Return the parts of a scan of which nothing is measured."""
    return Parts(np.zeros((0, 0, 0), np.int64), np.zeros((0, 0), np.bool_))


@njit
def measure_like(scan: Scan, unit: int, dram: Dram, like: Scan, parts: Parts, wanted: Ints) -> tuple[Ints, Parts]:
    """Measure a scan from base addresses within a row, and keep what scans with the same inner loops have in common.

    Rows and columns depend only on the base address modulo the row and, where the scan lies in one row, on that modulo
    the column: such addresses are one class. What a loop repeats within a row therefore recurs, and is counted by sums
    along the classes that follow each other (`sums_along`). From other addresses (`wanted` int[any], in units) the
    parts of a scan are joined one by one: they ascend in memory, so two successive ones share at most the row, and the
    column, where they meet. Or, where that is less work, 2 n repetitions are two parts of n repetitions.

    `parts`: of the scan `like`; those that both scans share are taken over. Modifies parts.

    Returns int[classes], the scan's column accesses from an address of each class if it lies in one row, and its parts.
    The last of them is measured from the wanted addresses from which the scan does not lie in one row (`repeat_of`),
    without the columns from BANKS on (`with_banks`).
    """
    loops, row, longer = len(scan.times), row_of(unit, dram), run_cycles(dram)
    parts = _kept(scan, unit, dram, like, parts)
    missing, number = np.empty((loops + 1, row.units), np.int64), np.zeros(loops + 1, np.int64)
    number[loops] = mark_lacking(wanted, repeat_of(scan, loops, unit, dram), parts.known[loops], missing[loops])
    is_doubled = np.zeros(loops, np.bool_)
    for loop in range(loops - 1, -1, -1):
        repeat, places = repeat_of(scan, loop, unit, dram), missing[loop + 1, : number[loop + 1]]
        is_doubled[loop] = is_doubling_shorter(len(places), repeat, row)
        if is_doubled[loop]:
            parts.known[loop + 1] = True
            number[loop] = mark_all(repeat, parts.known[loop], missing[loop])
        else:
            number[loop] = mark_repeated(places, repeat, row, parts.known[loop], missing[loop])
    measure_segments(scan.bytes, unit, dram, longer, missing[0, : number[0]], parts.measured[0])
    columns = segment_columns(scan.bytes, row)
    for loop in range(loops):
        repeat, one, out = repeat_of(scan, loop, unit, dram), parts.measured[loop], parts.measured[loop + 1]
        sums, places = sums_along(columns, repeat, row), missing[loop + 1, : number[loop + 1]]
        if is_doubled[loop]:
            fill_inside(columns, repeat.inside, repeat.reach, row, dram, longer, one)
            repeat_all(one, repeat.times, repeat.stride, unit, dram, longer, out)
        else:
            repeat_some(one, columns, repeat, sums, places, row, dram, longer, out)
        columns = np.empty(row.classes, np.int64)
        for i in range(row.classes):
            columns[i] = repeated_columns(i, repeat.times, repeat, sums, row)
    return columns, parts


@njit
def _kept(scan: Scan, unit: int, dram: Dram, like: Scan, parts: Parts) -> Parts:
    """Return parts for a scan, with what is known of those that it shares with the scan `like`."""
    kept, units = 0, dram.row_bytes // unit
    if parts.known.shape[1] == units and scan.bytes == like.bytes:
        most = min(len(scan.times), len(like.times))
        while kept < most and scan.times[kept] == like.times[kept] and scan.strides[kept] == like.strides[kept]:
            kept += 1
        parts.known[kept + 1 :] = False
        return parts
    # With one bank what is measured from an address fills one line of the processor's cache.
    measured = np.empty((6, units, PER_BANK + 3 * dram.banks if dram.banks > 1 else BANKS), np.int64)
    return Parts(measured, np.zeros((6, units), np.bool_))


@njit
def repeat_of(scan: Scan, loop: int, unit: int, dram: Dram) -> Repeat:
    """Return what a loop of a scan repeats: the part with the loops inside it; behind the last loop the whole, once."""
    reach = scan.bytes - 1
    for inner in range(loop):
        reach += (scan.times[inner] - 1) * scan.strides[inner]
    inside = max(0, (dram.row_bytes - 1 - reach) // unit + 1)
    if loop < len(scan.times):
        return Repeat(scan.times[loop], scan.strides[loop], reach, inside)
    return Repeat(1, 0, reach, inside)


@njit
def with_banks(measured: Ints, wanted: Ints, scan: Scan, unit: int, dram: Dram) -> Ints:
    """Return what is measured of a scan with the columns of the whole scan, for the wanted base addresses."""
    banks = dram.banks
    found = np.empty((len(measured), PER_BANK + 3 * banks), np.int64)
    for i in wanted:
        for column in range(measured.shape[1]):
            found[i, column] = measured[i, column]
        if banks == 1:
            found[i, PER_BANK], found[i, PER_BANK + 1] = 0, found[i, LAST_ROW]
            found[i, PER_BANK + 2] = found[i, ROWS]
        used, shared = 0, 0
        for bank in range(banks):
            number = found[i, PER_BANK + 2 * banks + bank]
            if number:
                for block in range(PER_BANK, PER_BANK + 3 * banks, banks):
                    found[i, block + used] = found[i, block + bank]
                used += 1
                shared += number if number > 1 else 0
        found[i, BANKS], found[i, SHARED] = used, shared
        found[i, CROSSES] = banks > 1 and _crosses(i * unit, scan, dram)
    return found


@njit
def _crosses(base: int, scan: Scan, dram: Dram) -> bool:
    """Return whether some slice of a box begins in one row and ends in another."""
    for i in range(scan.slices):
        start = base + i * scan.pitch
        if start // dram.row_bytes != (start + scan.reach) // dram.row_bytes:
            return True
    return False
