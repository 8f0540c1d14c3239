"""Scans of a sequential tensor's tiles as boxes, and what one scan takes: rows, columns, runs."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tables.dram import Dram, period
from tables.jit import njit
from tables.nest import FILTER_OF, I, Ints, LayerShape, P, span
from tables.reduce import nonzero

Flags = NDArray[np.bool_]

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


class Parts(NamedTuple):
    """What is measured of the parts of a scan: its segment, then with one more loop each.

    `measured` int[6, addresses, columns as above]; `known` bool[6, addresses]: from which base addresses.
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

    Rows and columns depend only on the base address modulo the row. Segments ascend in memory, so two successive parts
    share at most the row, and the column, where they meet. What two parts take together follows from that, and 2 n
    repetitions are two parts of n repetitions.

    Returns int[row_bytes / unit, columns as above].
    """
    everywhere = np.ones(dram.row_bytes // unit, np.bool_)
    measured, _ = measure_like(scan, unit, dram, scan, no_parts(), everywhere)
    return with_banks(measured, everywhere, scan, unit, dram)


@njit
def no_parts() -> Parts:
    """Return the parts of a scan of which nothing is measured."""
    return Parts(np.zeros((0, 0, 0), np.int64), np.zeros((0, 0), np.bool_))


@njit
def measure_like(scan: Scan, unit: int, dram: Dram, like: Scan, parts: Parts, wanted: Flags) -> tuple[Ints, Parts]:
    """Measure a scan as `measure` does, and keep what scans with the same inner loops have in common.

    `wanted` bool[addresses]: the base addresses to measure it from; what is returned of others has no meaning. `parts`:
    of the scan `like`. Parts that both scans share are taken over. Modifies parts.

    Returns what is measured of the scan, and its parts. Columns from BANKS on are those of parts (`with_banks`); with
    one bank they are left out.
    """
    longer, kept, addresses = np.empty(dram.row_bytes // dram.column_bytes + 1, np.int64), 0, dram.row_bytes // unit
    for n in range(len(longer)):
        longer[n] = period(n, dram) - period(1, dram)
    loops = len(scan.times)
    if parts.known.shape[1] == addresses and scan.bytes == like.bytes:
        most = min(loops, len(like.times))
        while kept < most and scan.times[kept] == like.times[kept] and scan.strides[kept] == like.strides[kept]:
            kept += 1
        parts.known[kept + 1 :] = False
    else:
        # With one bank what is measured from an address fills one line of the processor's cache.
        columns = PER_BANK + 3 * dram.banks if dram.banks > 1 else BANKS
        measured = np.empty((6, addresses, columns), np.int64)
        parts = Parts(measured, np.zeros((6, addresses), np.bool_))
    missing, is_doubled = np.zeros((6, addresses), np.bool_), np.zeros(6, np.bool_)
    _mark_lacking(wanted, parts.known[loops], missing[loops])
    for loop in range(loops - 1, -1, -1):
        steps = scan.strides[loop] // unit
        is_doubled[loop] = _mark_repeated(missing[loop + 1], scan.times[loop], steps, missing[loop])
        _mark_lacking(missing[loop], parts.known[loop], missing[loop])
    _measure_segments(scan.bytes, unit, dram, longer, missing[0], parts.measured[0])
    for loop in range(loops):
        one, times, stride = parts.measured[loop], scan.times[loop], scan.strides[loop]
        if is_doubled[loop]:
            _repeat_all(one, times, stride, unit, dram, longer, parts.measured[loop + 1])
        else:
            _repeat_some(one, times, stride // unit, missing[loop + 1], dram, longer, parts.measured[loop + 1])
    for loop in range(loops + 1):
        for i in range(addresses):
            parts.known[loop, i] |= missing[loop, i]
    return parts.measured[loops], parts


@njit
def _mark_lacking(wanted: Flags, known: Flags, out: Flags) -> None:
    """Write to `out` which base addresses are wanted and not known; bool[addresses] each."""
    for i in range(len(wanted)):
        out[i] = wanted[i] and not known[i]


@njit
def _copy(source: Ints, target: Ints) -> None:
    """Copy int[n, m]. (Numba would take two seconds to compile an assignment of one array to a part of another.)"""
    for i in range(source.shape[0]):
        for j in range(source.shape[1]):
            target[i, j] = source[i, j]


@njit
def with_banks(measured: Ints, wanted: Flags, scan: Scan, unit: int, dram: Dram) -> Ints:
    """Return what is measured of a scan with the columns of the whole scan, for the wanted base addresses."""
    banks = dram.banks
    found = np.empty((len(measured), PER_BANK + 3 * banks), np.int64)
    for i in nonzero(wanted):
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
        found[i, CROSSES] = banks > 1 and _crosses(int(i) * unit, scan, dram)
    return found


@njit
def _mark_repeated(missing: Flags, times: int, steps: int, inside: Flags) -> bool:
    """Mark the base addresses from which a part has to be measured, to measure `times` of it from those missing.

    The repetitions are `steps` units apart. Where walking through them takes longer than doubling the part from all
    base addresses, all are marked, in both arrays bool[addresses]. Returns whether that is so. Modifies both.
    """
    places, doublings = nonzero(missing), 0
    while times >> doublings:
        doublings += 1
    if len(places) * times > 2 * doublings * len(missing):
        missing[:], inside[:] = True, True
        return True
    for i in places:
        for more in range(times):
            inside[(i + more * steps) % len(inside)] = True
    return False


@njit
def _repeat_some(one: Ints, times: int, steps: int, missing: Flags, dram: Dram, longer: Ints, out: Ints) -> None:
    """Write to `out` what `times` repetitions of a part take from the base addresses missing, `steps` units apart."""
    units, columns = one.shape
    for i in range(units):
        if missing[i]:
            for column in range(columns):
                out[i, column] = one[i, column]
            place, row = i, 0
            for _ in range(1, times):
                place += steps
                row += place // units
                place %= units
                _join(out, i, one, place, row, dram, longer)


@njit
def _repeat_all(one: Ints, times: int, stride: int, unit: int, dram: Dram, longer: Ints, out: Ints) -> None:
    """Write to `out` what `times` repetitions of a part take from all base addresses, `stride` bytes apart."""
    part, repeated, joined = one, 1, 0
    while times:
        if times & 1:
            if joined:
                _add(out, part, joined * stride, unit, dram, longer)
            else:
                _copy(part, out)
            joined += repeated
        times >>= 1
        if times:
            twice = np.empty_like(part)
            _copy(part, twice)
            _add(twice, part, repeated * stride, unit, dram, longer)
            part, repeated = twice, 2 * repeated


@njit
def _measure_segments(size: int, unit: int, dram: Dram, longer: Ints, missing: Flags, out: Ints) -> None:
    """Measure a segment of `size` bytes from the base addresses missing.

    `longer` int[n]: cycles of n columns in a run beyond one. Modifies `out`, which is int[addresses, columns as above].
    """
    per_row, banks = dram.row_bytes // dram.column_bytes, dram.banks
    for i in nonzero(missing):
        first, last = i * unit // dram.column_bytes, (i * unit + size - 1) // dram.column_bytes
        columns, rows = last - first + 1, last // per_row + 1
        initial, final = min(columns, per_row - first), min(columns, last % per_row + 1)
        out[i, ROWS], out[i, TOUCHED], out[i, INITIAL], out[i, FINAL] = rows, columns, initial, final
        out[i, FIRST], out[i, LAST], out[i, LAST_ROW] = first, last % per_row, rows - 1
        out[i, EXTRA] = longer[initial] + (longer[final] + (rows - 2) * longer[per_row] if rows > 1 else 0)
        if banks > 1:
            out[i, BANKS], out[i, SHARED], out[i, CROSSES] = 0, 0, 0
            for bank in range(banks):
                number = (rows - bank + banks - 1) // banks
                out[i, PER_BANK + bank] = bank if number else -1
                out[i, PER_BANK + banks + bank] = bank + (number - 1) * banks if number else -1
                out[i, PER_BANK + 2 * banks + bank] = number


@njit
def _add(found: Ints, other: Ints, distance: int, unit: int, dram: Dram, longer: Ints) -> None:
    """Add another part to a part, from all base addresses. The other begins `distance` bytes after it, behind its end.

    Modifies `found`.
    """
    shift = distance // dram.row_bytes  # rows from the first part to the other one
    j = distance % dram.row_bytes // unit  # the other part's base address
    for i in range(len(found)):
        _join(found, i, other, j, shift, dram, longer)
        j += 1
        if j == len(other):
            j, shift = 0, shift + 1


@njit
def _join(found: Ints, i: int, other: Ints, j: int, shift: int, dram: Dram, longer: Ints) -> None:
    """Add to what a part takes from address i what another one takes from address j, `shift` rows further on, behind
    its end. Modifies `found`.
    """
    rows, final, is_met = found[i, ROWS], found[i, FINAL], found[i, LAST_ROW] == shift
    new_rows, new_final, new_initial, extra = rows + other[j, ROWS], other[j, FINAL], other[j, INITIAL], other[j, EXTRA]
    if is_met:
        shared = int(found[i, LAST] == other[j, FIRST])
        run = final + new_initial - shared
        extra += longer[run] - longer[final] - longer[new_initial]
        found[i, TOUCHED] -= shared
        if rows == 1:
            found[i, INITIAL] = run
        if other[j, ROWS] == 1:
            new_final = run
        new_rows -= 1
    found[i, ROWS], found[i, FINAL] = new_rows, new_final
    found[i, TOUCHED] += other[j, TOUCHED]
    found[i, EXTRA] += extra
    found[i, LAST] = other[j, LAST]
    found[i, LAST_ROW] = other[j, LAST_ROW] + shift
    if dram.banks > 1:
        _join_banks(found, i, other, j, shift, dram.banks)
        if is_met:
            found[i, PER_BANK + 2 * dram.banks + shift % dram.banks] -= 1


@njit
def _join_banks(found: Ints, i: int, other: Ints, j: int, shift: int, banks: int) -> None:
    """Add the rows of each bank, as if no row were of both parts. Modifies `found`."""
    low, high, number = PER_BANK, PER_BANK + banks, PER_BANK + 2 * banks
    here = shift % banks
    for bank in range(banks):
        if other[j, number + bank]:
            if not found[i, number + here]:
                found[i, low + here] = other[j, low + bank] + shift
            found[i, high + here] = other[j, high + bank] + shift
            found[i, number + here] += other[j, number + bank]
        here = here + 1 if here + 1 < banks else 0


@njit
def _crosses(base: int, scan: Scan, dram: Dram) -> bool:
    """Return whether some slice of a box begins in one row and ends in another."""
    for i in range(scan.slices):
        start = base + i * scan.pitch
        if start // dram.row_bytes != (start + scan.reach) // dram.row_bytes:
            return True
    return False
