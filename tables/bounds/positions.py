"""What the scans of a box tile take, summed over all positions of the tile: the kernel of `tables.bounds.shapes`.

Along one loop the addresses modulo the row recur, and with them all counts: positions that differ by such a period are
counted at once (`_fold`). Where two loops of an axis let tiles begin at the same address, these tiles are counted as
one base address with a multiplicity (`_sums`).
"""

from typing import NamedTuple

import numpy as np

from tables.counts.rows import Row, class_of, located, row_of
from tables.counts.scan_parts import (
    BANKS,
    CROSSES,
    EXTRA,
    FINAL,
    LAST_ROW,
    PER_BANK,
    ROWS,
    SHARED,
    TOUCHED,
    fill_inside,
    run_cycles,
)
from tables.counts.scans import Parts, Scan, box_scan, measure_like, no_parts, repeat_of, with_banks
from tables.dram import Dram, last_run, period, recurrence, row_miss
from tables.jit import njit
from tables.nest import Ints
from tables.reduce import gcd, product

#: Columns of the result, sums over all positions of the tile unless said:
#:
#: - CLOSED: rows that the scans open if no row is open at first. MATCHES: over all rows, min(scans that begin their
#:   bank with the row, scans that leave their bank with it). SHARED_ROWS: rows in banks in which their scan has several
#:   rows. MARKED: rows that some scan begins or leaves its bank with.
#: - COLUMNS: column accesses. MIN_COLUMNS, MIN_ROWS: the fewest of one scan, and its fewest rows. EXTRA_CYCLES: cycles
#:   of the scans' runs beyond as many runs of one column. MAX_ROWS, MAX_CYCLES: the most rows of one scan, and an upper
#:   bound on what one adds to a stream.
#: - FIRST_CYCLES: of the first tile's scan by itself. LAST_CYCLES, REWRITE_CYCLES: lower bounds on what the scan of the
#:   last tile adds to a stream, after other tiles and right after the same tile.
#: - USED: banks that the scans use. LOOSE: the same, of scans with a slice of the box in two rows.
#: - LAST_COLUMNS: of the last run of the last tile's scan by itself. MAX_LAST_COLUMNS: the most of any scan.
#: - CLOSED_LAST_CYCLES: a lower bound on what the last tile's scan adds to a stream in which no tile returns, if
#:   another tensor's row was opened before.
(CLOSED, MATCHES, SHARED_ROWS, MARKED, COLUMNS, MIN_COLUMNS, MIN_ROWS, EXTRA_CYCLES, MAX_ROWS, MAX_CYCLES,
 FIRST_CYCLES, LAST_CYCLES, REWRITE_CYCLES, USED, LOOSE, LAST_COLUMNS, MAX_LAST_COLUMNS,
 CLOSED_LAST_CYCLES) = range(18)  # fmt: skip


class _Positions(NamedTuple):
    """Where scans begin, in units: at all sums of an entry of `bases` and one of `inner`.

    Each comes so often as `scans` says, and `ways`; int[n] and int[m].
    """

    bases: Ints
    scans: Ints
    inner: Ints
    ways: Ints


@njit
def count_tiles(boxes: Ints, pitches: Ints, width: int, trips: Ints, steps: Ints, rows: int, dram: Dram) -> Ints:
    """Count the scans of every tile.

    `boxes` int[n, 5]: elements along the axes, outermost first, `pitches` int[5] bytes apart, `width` bytes each.
    `trips`, `steps` int[n, 5, 2]: iterations of the two loops over tiles along each axis, and bytes from one of their
    tiles to the next (0 if there is only one). `rows`: rows that the tensor fills. Boxes that differ only in the
    outermost axes should follow each other: scans of the inner axes are then measured once.

    Returns int[n, 18], with the columns above.
    """
    counts, parts = np.zeros((len(boxes), CLOSED_LAST_CYCLES + 1), np.int64), no_parts()
    scan = box_scan(boxes[0], pitches, width)
    for i in range(len(boxes)):
        like, scan, last, unit = scan, box_scan(boxes[i], pitches, width), 0, dram.row_bytes
        for stride in scan.strides:
            unit = gcd(unit, stride)
        first, stop = np.zeros((5, 2), np.int64), np.empty((5, 2), np.int64)
        for axis in range(5):
            for loop in range(2):
                stop[axis, loop], unit = trips[i, axis, loop], gcd(unit, steps[i, axis, loop])
                last += (trips[i, axis, loop] - 1) * steps[i, axis, loop]
        begins, ends = np.zeros(rows, np.int64), np.zeros(rows, np.int64)
        counts[i, MIN_COLUMNS] = counts[i, MIN_ROWS] = np.iinfo(np.int64).max
        axis, loop, recurs, shift = _fold(trips[i], steps[i], dram.row_bytes)
        copies, left = trips[i, axis, loop] // recurs, trips[i, axis, loop] % recurs
        stop[axis, loop] = recurs
        everywhere, of_row = _positions(steps[i], unit, first, stop), row_of(unit, dram)
        measured, inside, parts = _measured(scan, everywhere, of_row, dram, like, parts)
        for more in range(2 if left else 1):  # the positions that come `copies` times, then those that come once more
            first[axis, loop], stop[axis, loop] = (0, left) if more else (left, recurs)
            at = _positions(steps[i], unit, first, stop)
            _count(at, copies + more, shift, measured, inside, of_row, dram, begins, ends, counts[i])
        for row in range(rows):
            counts[i, MATCHES] += min(begins[row], ends[row])
            counts[i, MARKED] += begins[row] + ends[row] > 0
        alone = _single_scan_cycles(measured[0], dram)
        of_last = measured[_measured_at(last // unit, inside, of_row)[1]]
        later, returned = _later_scan_cycles(of_last, last // dram.row_bytes, ends, dram)
        counts[i, FIRST_CYCLES], counts[i, LAST_CYCLES] = alone, later if last else alone
        counts[i, REWRITE_CYCLES], counts[i, LAST_COLUMNS] = returned, of_last[FINAL]
        longest = counts[i, MAX_LAST_COLUMNS]
        closing = period(longest, dram) - last_run(longest, dram)  # of the scan before: it falls with its last columns
        counts[i, CLOSED_LAST_CYCLES] = _single_scan_cycles(of_last, dram) + (closing if last else 0)
    return counts


@njit
def _fold(trips: Ints, steps: Ints, row_bytes: int) -> tuple[int, int, int, int]:
    """Return the loop whose recurrence leaves the fewest base addresses to count.

    `trips`, `steps` int[5, 2]. Returns its axis, its place there, the iterations after which its addresses recur (all,
    if they do not), and the rows by which they are then further on.
    """
    bases, folded = np.ones(5, np.int64), (0, 0, trips[0, 0], 0)
    for axis in range(5):
        bases[axis] = len(_sums(steps[axis], 1, np.zeros(2, np.int64), trips[axis])[0])
    best = product(bases)
    for axis in range(5):
        for loop in range(2):
            if trips[axis, loop] > 1:
                recurs, shift = recurrence(steps[axis, loop], row_bytes)
                left = product(bases) // bases[axis] * recurs * trips[axis, 1 - loop]
                if recurs < trips[axis, loop] and left < best:
                    folded, best = (axis, loop, recurs, shift), left
    return folded


@njit
def _sums(steps: Ints, scale: int, first: Ints, stop: Ints) -> tuple[Ints, Ints]:
    """Return all sums of an offset of each of two loops, ascending, and the number of ways in which each arises.

    The offsets of a loop are its step times `first` to `stop` - 1; `steps`, `first`, `stop` int[2]. Sums are in units
    of `scale`.
    """
    unit, fewest = gcd(steps[0], steps[1]), min(stop[0] - first[0], stop[1] - first[1])
    if unit == 0 or fewest == 0:
        return np.zeros(fewest, np.int64), np.ones(fewest, np.int64)
    low = first[0] * steps[0] + first[1] * steps[1]
    outer, inner = steps[0] // unit, steps[1] // unit
    ways = np.zeros((stop[0] - 1 - first[0]) * outer + (stop[1] - 1 - first[1]) * inner + 1, np.int64)
    for i in range(stop[0] - first[0]):
        for j in range(stop[1] - first[1]):
            ways[i * outer + j * inner] += 1
    sums, number = np.empty(len(ways), np.int64), 0
    for k in range(len(ways)):
        if ways[k]:
            sums[number], ways[number], number = (low + k * unit) // scale, ways[k], number + 1
    return sums[:number], ways[:number]


@njit
def _positions(steps: Ints, unit: int, first: Ints, stop: Ints) -> _Positions:
    """Return the positions that are sums of an offset of each loop, from `first` to `stop` - 1 times its step.

    `steps`, `first`, `stop` int[5, 2]; steps are in bytes, multiples of a unit.
    """
    bases, scans = np.zeros(1, np.int64), np.ones(1, np.int64)
    for axis in range(4):
        found, ways = _sums(steps[axis], unit, first[axis], stop[axis])
        if len(found) != 1 or found[0] or ways[0] > 1:
            bases, scans = _outer_sums(bases, found), _outer_products(scans, ways)
    inner, ways = _sums(steps[4], unit, first[4], stop[4])
    return _Positions(bases, scans, inner, ways)


@njit
def _measured(scan: Scan, at: _Positions, row: Row, dram: Dram, like: Scan, parts: Parts) -> tuple[Ints, int, Parts]:
    """Return what is measured of a scan from the base addresses of some positions (`_measured_at`), and its parts.

    `like`, `parts`: as of `tables.counts.scans.measure_like`. The second figure is the first base address from which
    the scan does not lie in one row.
    """
    whole = repeat_of(scan, len(scan.times), row.unit, dram)
    alike = min(whole.inside, row.classes)
    wanted, number, is_wanted = np.empty(row.units, np.int64), alike, np.zeros(row.units, np.bool_)
    for i in range(alike):
        wanted[i], is_wanted[i] = i, True
    most = alike + row.units - whole.inside  # different ones
    for base in at.bases:
        for offset in at.inner if number < most else at.inner[:0]:
            place = _measured_at(base + offset, whole.inside, row)[1]
            if not is_wanted[place]:
                wanted[number], is_wanted[place], number = place, True, number + 1
    wanted = wanted[:number]
    columns, parts = measure_like(scan, row.unit, dram, like, parts, wanted)
    measured = parts.measured[len(scan.times)]
    fill_inside(columns, alike, whole.reach, row, dram, run_cycles(dram), measured)
    if dram.banks > 1:
        measured = with_banks(measured, wanted, scan, row.unit, dram)
    return measured, whole.inside, parts


@njit
def _measured_at(address: int, inside: int, of_row: Row) -> tuple[int, int]:
    """Return the row of an address, and the base address from which the same is measured as from its place there."""
    number, place = located(address, of_row)
    return number, class_of(place, of_row) if place < inside else place


@njit
def _count(at: _Positions, copies: int, shift: int, measured: Ints, inside: int, of_row: Row, dram: Dram,
           begins: Ints, ends: Ints, out: Ints) -> None:  # fmt: skip
    """Add some positions of a tile to its counts `out`.

    There are `copies` of each, each `shift` rows further on. `begins`, `ends` int[rows]: scans that begin their bank
    with a row, and that leave their bank with it. Modifies begins, ends and out.
    """
    rows = len(begins)
    times, begun, left = np.zeros(len(measured), np.int64), np.zeros(rows, np.int64), np.zeros(rows, np.int64)
    if dram.banks == 1:
        _visit_rows(at, inside, of_row, measured, times, begun, left)
    else:
        _visit_banks(at, inside, of_row, measured, dram.banks, times, begun, left)
    miss = max(row_miss(dram), period(1, dram) - dram.tCCD)
    for m in range(len(measured)):
        if times[m]:
            scan, of_all = measured[m], copies * times[m]
            out[MAX_ROWS] = max(out[MAX_ROWS], scan[ROWS])
            out[MAX_LAST_COLUMNS] = max(out[MAX_LAST_COLUMNS], scan[FINAL])
            out[MAX_CYCLES] = max(out[MAX_CYCLES], dram.tCCD * scan[TOUCHED] + miss * scan[ROWS])
            out[CLOSED] += of_all * scan[ROWS]
            out[COLUMNS] += of_all * scan[TOUCHED]
            out[MIN_COLUMNS] = min(out[MIN_COLUMNS], scan[TOUCHED])
            out[MIN_ROWS] = min(out[MIN_ROWS], scan[ROWS])
            out[EXTRA_CYCLES] += of_all * scan[EXTRA]
            if dram.banks == 1:
                out[SHARED_ROWS] += of_all * scan[ROWS] if scan[ROWS] > 1 else 0
                out[USED] += of_all
            else:
                out[SHARED_ROWS] += of_all * scan[SHARED]
                out[USED] += of_all * scan[BANKS]
                out[LOOSE] += of_all * scan[BANKS] * scan[CROSSES]
    for row in range(rows):
        if begun[row] + left[row] > 0:
            for copy in range(copies):
                begins[row + copy * shift] += begun[row]
                ends[row + copy * shift] += left[row]


@njit
def _visit_rows(at: _Positions, inside: int, of_row: Row, measured: Ints, times: Ints, begun: Ints, left: Ints) -> None:
    """Count how many scans begin at each base address, begin with each row and leave the one bank with it.

    Modifies times, begun and left.
    """
    for i in range(len(at.bases)):
        for j in range(len(at.inner)):
            number, m = _measured_at(at.bases[i] + at.inner[j], inside, of_row)
            more = at.scans[i] * at.ways[j]
            times[m] += more
            begun[number] += more
            left[number + measured[m, LAST_ROW]] += more


@njit
def _visit_banks(at: _Positions, inside: int, of_row: Row, measured: Ints, banks: int, times: Ints, begun: Ints,
                 left: Ints) -> None:  # fmt: skip
    """Count the same with several banks."""
    highest = PER_BANK + banks
    for i in range(len(at.bases)):
        for j in range(len(at.inner)):
            number, m = _measured_at(at.bases[i] + at.inner[j], inside, of_row)
            more = at.scans[i] * at.ways[j]
            times[m] += more
            for bank in range(measured[m, BANKS]):
                begun[number + measured[m, PER_BANK + bank]] += more
                left[number + measured[m, highest + bank]] += more


@njit
def _outer_sums(a: Ints, b: Ints) -> Ints:
    """Return all sums of an entry of each; those of one entry of a follow each other."""
    found = np.empty(len(a) * len(b), np.int64)
    for i in range(len(a)):
        for j in range(len(b)):
            found[i * len(b) + j] = a[i] + b[j]
    return found


@njit
def _outer_products(a: Ints, b: Ints) -> Ints:
    """Return all products of an entry of each; those of one entry of a follow each other."""
    found = np.empty(len(a) * len(b), np.int64)
    for i in range(len(a)):
        for j in range(len(b)):
            found[i * len(b) + j] = a[i] * b[j]
    return found


@njit
def _single_scan_cycles(measured: Ints, dram: Dram) -> int:
    """Return the cycles of a scan by itself; `measured`: a row of `tables.counts.scans.measure`."""
    runs = measured[EXTRA] + measured[ROWS] * period(1, dram)
    return int(runs - period(measured[FINAL], dram) + last_run(measured[FINAL], dram))


@njit
def _later_scan_cycles(measured: Ints, row: int, ends: Ints, dram: Dram) -> tuple[int, int]:
    """Return lower bounds on the cycles that a scan adds to a stream: after other tiles, and right after the same tile.

    It begins in `row`. It takes its columns, and a row miss per row that it opens. In each bank the first row may be
    open already: if another scan leaves the bank with it, or, right after itself, if it is the bank's only row.
    """
    found, left = 0, 0
    if dram.is_open and dram.banks == 1:
        found, left = int(ends[row] > (measured[LAST_ROW] == 0)), int(measured[LAST_ROW] == 0)
    for bank in range(PER_BANK, PER_BANK + (measured[BANKS] if dram.is_open and dram.banks > 1 else 0)):
        lowest, highest = measured[bank], measured[bank + dram.banks]
        found += ends[row + lowest] > (lowest == highest)
        left += lowest == highest
    columns, miss = dram.tCCD * measured[TOUCHED], row_miss(dram)
    opened = measured[ROWS]
    return int(columns + (opened - found) * miss), int(columns + (opened - left) * miss)
