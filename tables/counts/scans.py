"""Scans of a sequential tensor's tiles as boxes, and what one scan takes: rows, columns, runs."""

from typing import NamedTuple

import numpy as np

from tables.dram import Dram, period
from tables.jit import njit
from tables.nest import FILTER_OF, I, Ints, LayerShape, P, span

#: Columns of what is measured of one scan, if no row is open at first:
#:
#: - ROWS opened; column accesses TOUCHED; EXTRA cycles by which its runs outlast as many runs of one column;
#: - columns of its INITIAL and its FINAL run; its FIRST and its LAST column, each counted within its row; its LAST_ROW,
#:   counted from the row of the base address;
#: - BANKS used; SHARED, the rows in banks that hold several of its rows; CROSSES, whether a slice lies in two rows;
#: - from PER_BANK on, three blocks of `banks` columns: of each bank used the lowest row, the highest row and the number
#:   of rows.
ROWS, TOUCHED, EXTRA, INITIAL, FINAL, FIRST, LAST, LAST_ROW, BANKS, SHARED, CROSSES, PER_BANK = range(12)


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

    Rows and columns depend only on the base address modulo the row. Segments ascend in memory, so two successive parts
    share at most the row, and the column, where they meet. What two parts take together follows from that, and 2 n
    repetitions are two parts of n repetitions.

    Returns int[row_bytes / unit, columns as above].
    """
    return measure_like(scan, unit, dram, scan, np.zeros((0, 0, 0), np.int64))[0]


@njit
def measure_like(scan: Scan, unit: int, dram: Dram, like: Scan, parts: Ints) -> tuple[Ints, Ints]:
    """Measure a scan as `measure` does, and keep what scans with the same inner loops have in common.

    `parts` int[6, addresses, columns as above]: of the scan `like`, its segment, then with one more loop each. An array
    of shape (0, 0, 0) stands for nothing measured yet. Parts that both scans share are taken over. Modifies parts.

    Returns what is measured of the scan, and its parts.
    """
    longer, kept, addresses = np.empty(dram.row_bytes // dram.column_bytes + 1, np.int64), 0, dram.row_bytes // unit
    for n in range(len(longer)):
        longer[n] = period(n, dram) - period(1, dram)
    if parts.shape[1] == addresses and scan.bytes == like.bytes:
        most = min(len(scan.times), len(like.times))
        while kept < most and scan.times[kept] == like.times[kept] and scan.strides[kept] == like.strides[kept]:
            kept += 1
    else:
        parts = np.empty((6, addresses, PER_BANK + 3 * dram.banks), np.int64)
        _copy(_segments(scan.bytes, unit, dram, longer), parts[0])
    for loop in range(kept, len(scan.times)):
        repeated = _repeated(parts[loop], scan.times[loop], scan.strides[loop], unit, dram, longer)
        _copy(repeated, parts[loop + 1])
    found = np.empty((addresses, PER_BANK + 3 * dram.banks), np.int64)
    _copy(parts[len(scan.times)], found)
    for i in range(addresses):
        _set_banks(found[i], dram.banks)
        found[i, CROSSES] = dram.banks > 1 and _crosses(i * unit, scan, dram)
    return found, parts


@njit
def _copy(source: Ints, target: Ints) -> None:
    """Copy int[n, m]. (Numba would take two seconds to compile an assignment of one array to a part of another.)"""
    for i in range(source.shape[0]):
        for j in range(source.shape[1]):
            target[i, j] = source[i, j]


@njit
def _set_banks(found: Ints, banks: int) -> None:
    """Set what is measured by bank, of the banks used first; `found` int[columns as above]. Modifies found."""
    if banks == 1:
        found[PER_BANK], found[PER_BANK + 1], found[PER_BANK + 2] = 0, found[LAST_ROW], found[ROWS]
    used, shared = 0, 0
    for bank in range(PER_BANK, PER_BANK + banks):
        number = found[bank + 2 * banks]
        if number:
            for block in range(3):
                found[PER_BANK + used + block * banks] = found[bank + block * banks]
            used += 1
            shared += number if number > 1 else 0
    found[BANKS], found[SHARED] = used, shared


@njit
def _repeated(one: Ints, times: int, stride: int, unit: int, dram: Dram, longer: Ints) -> Ints:
    """Return what `times` repetitions of a part take, `stride` bytes apart."""
    found, part, repeated, joined = one, one, 1, 0
    while times:
        if times & 1:
            found = _joined(found, part, joined * stride, unit, dram, longer) if joined else part
            joined += repeated
        times >>= 1
        if times:
            part = _joined(part, part, repeated * stride, unit, dram, longer)
            repeated *= 2
    return found


@njit
def _segments(size: int, unit: int, dram: Dram, longer: Ints) -> Ints:
    """Measure a segment of `size` bytes from each address; `longer` int[n]: cycles of n columns in a run beyond one."""
    per_row, banks = dram.row_bytes // dram.column_bytes, dram.banks
    found = np.zeros((dram.row_bytes // unit, PER_BANK + 3 * banks), np.int64)
    for i in range(len(found)):
        first, last = i * unit // dram.column_bytes, (i * unit + size - 1) // dram.column_bytes
        columns, rows = last - first + 1, last // per_row + 1
        initial, final = min(columns, per_row - first), min(columns, last % per_row + 1)
        found[i, ROWS], found[i, TOUCHED], found[i, INITIAL], found[i, FINAL] = rows, columns, initial, final
        found[i, FIRST], found[i, LAST], found[i, LAST_ROW] = first, last % per_row, rows - 1
        found[i, EXTRA] = longer[initial] + (longer[final] + (rows - 2) * longer[per_row] if rows > 1 else 0)
        for bank in range(banks):
            number = (rows - bank + banks - 1) // banks
            found[i, PER_BANK + bank] = bank if number else -1
            found[i, PER_BANK + banks + bank] = bank + (number - 1) * banks if number else -1
            found[i, PER_BANK + 2 * banks + bank] = number
    return found


@njit
def _joined(one: Ints, other: Ints, distance: int, unit: int, dram: Dram, longer: Ints) -> Ints:
    """Return what two parts take together. The other begins `distance` bytes after the first one, behind its end."""
    found, banks = np.empty_like(one), dram.banks
    low, high, number = PER_BANK, PER_BANK + banks, PER_BANK + 2 * banks
    _copy(one, found)
    shift = distance // dram.row_bytes  # rows from the first part to the other one
    j = distance % dram.row_bytes // unit  # the other part's base address
    for i in range(len(one)):
        found[i, ROWS] += other[j, ROWS]
        found[i, TOUCHED] += other[j, TOUCHED]
        found[i, EXTRA] += other[j, EXTRA]
        found[i, FINAL], found[i, LAST] = other[j, FINAL], other[j, LAST]
        found[i, LAST_ROW] = other[j, LAST_ROW] + shift
        if one[i, LAST_ROW] == shift:
            shared = int(one[i, LAST] == other[j, FIRST])
            run = one[i, FINAL] + other[j, INITIAL] - shared
            found[i, ROWS] -= 1
            found[i, TOUCHED] -= shared
            found[i, EXTRA] += longer[run] - longer[one[i, FINAL]] - longer[other[j, INITIAL]]
            found[i, INITIAL] = run if one[i, ROWS] == 1 else one[i, INITIAL]
            found[i, FINAL] = run if other[j, ROWS] == 1 else other[j, FINAL]
            found[i, number + shift % banks] -= 1
        if banks > 1:
            here = shift % banks
            for bank in range(banks):
                if other[j, number + bank]:
                    if not one[i, number + here]:
                        found[i, low + here] = other[j, low + bank] + shift
                    found[i, high + here] = other[j, high + bank] + shift
                    found[i, number + here] += other[j, number + bank]
                here = here + 1 if here + 1 < banks else 0
        j += 1
        if j == len(one):
            j, shift = 0, shift + 1
    return found


@njit
def _crosses(base: int, scan: Scan, dram: Dram) -> bool:
    """Return whether some slice of a box begins in one row and ends in another."""
    for i in range(scan.slices):
        start = base + i * scan.pitch
        if start // dram.row_bytes != (start + scan.reach) // dram.row_bytes:
            return True
    return False
