"""What the scans of a box tile open at all of its positions, counted: the kernel of `tables.bounds.shapes`.

Along a loop the addresses recur after a whole number of rows, and with them all that is counted (`_fold`); where two
loops of an axis have tiles begin at the same address, these are scans of one base (`_sums`).
"""

import numpy as np

from tables.counts.scans import (
    BANKS,
    CROSSES,
    EXTRA,
    FINAL,
    PER_BANK,
    ROWS,
    SHARED,
    TOUCHED,
    box_scan,
    measure_like,
)
from tables.dram import Dram, last_run, period, recurrence
from tables.factors import log2_of, quotient
from tables.jit import njit
from tables.nest import Ints

#: Columns of the result.
(CLOSED, MATCHES, AGAIN, MARKED, COLUMNS, LEAST_COLUMNS, LONG, MOST_ROWS, MOST_CYCLES, FIRST_CYCLES, LAST_CYCLES,
 RETURNED_CYCLES, USED, LOOSE) = range(14)  # fmt: skip


@njit
def count_tiles(boxes: Ints, pitches: Ints, width: int, trips: Ints, steps: Ints, rows: int, dram: Dram) -> Ints:
    """Count every tile: int[n, 14].

    `boxes` int[n, 5]: elements along the axes, outermost first, `pitches` bytes apart, `width` bytes each. `trips`,
    `steps` int[n, 5, 2]: the loops over tiles along each axis, and bytes from one of their tiles to the next (0 if it
    is the only one). The tensor fills so many `rows`. Boxes that are alike but for the outermost axes should follow
    each other: what scans of the inner ones take is found once for them.
    """
    counts, parts = np.zeros((len(boxes), LOOSE + 1), np.int64), np.zeros((0, 0, 0), np.int64)
    scan = box_scan(boxes[0], pitches, width)
    for i in range(len(boxes)):
        like, scan, last = scan, box_scan(boxes[i], pitches, width), np.sum((trips[i] - 1) * steps[i])
        unit = dram.row_bytes
        for step in np.append(steps[i], scan.strides):
            unit = np.gcd(unit, step)
        measured, parts = measure_like(scan, unit, dram, like, parts)
        begins, ends = np.zeros(rows, np.int64), np.zeros(rows, np.int64)
        first, stop = np.zeros((5, 2), np.int64), trips[i].copy()
        counts[i, LEAST_COLUMNS] = np.iinfo(np.int64).max
        axis, loop, recurs, shift = _fold(trips[i], steps[i], dram.row_bytes)
        copies, left = trips[i, axis, loop] // recurs, trips[i, axis, loop] % recurs
        for more in range(2):  # that many positions of the loop come once more than the others
            first[axis, loop], stop[axis, loop] = (0, left) if more else (left, recurs)
            _count(steps[i] // unit, first, stop, copies + more, shift, measured, dram, begins, ends, counts[i])
        counts[i, MATCHES] = np.sum(np.minimum(begins, ends))
        counts[i, MARKED] = np.sum(begins + ends > 0)
        alone = _alone(measured[0], dram)
        later, returned = _later(measured[last % dram.row_bytes // unit], last // dram.row_bytes, ends, dram)
        counts[i, FIRST_CYCLES], counts[i, LAST_CYCLES] = alone, later if last else alone
        counts[i, RETURNED_CYCLES] = returned
    return counts


@njit
def _fold(trips: Ints, steps: Ints, row_bytes: int) -> tuple[int, int, int, int]:
    """The loop, by axis and place there, of which folding leaves the fewest bases: after how many of its iterations
    they recur (all of them, if they do not), and how many rows further on.
    """
    bases, folded = np.ones(5, np.int64), (0, 0, trips[0, 0], 0)
    for axis in range(5):
        bases[axis] = len(_sums(steps[axis], np.zeros(2, np.int64), trips[axis])[0])
    best = bases.prod()
    for axis in range(5):
        for loop in range(2):
            if trips[axis, loop] > 1:
                recurs, shift = recurrence(steps[axis, loop], row_bytes)
                left = bases.prod() // bases[axis] * recurs * trips[axis, 1 - loop]
                if recurs < trips[axis, loop] and left < best:
                    folded, best = (axis, loop, recurs, shift), left
    return folded


@njit
def _sums(steps: Ints, first: Ints, stop: Ints) -> tuple[Ints, Ints]:
    """All sums of a start of each of two loops, ascending, and in how many ways each of them is one; the loops' starts
    are their steps times `first` to `stop`, int[2].
    """
    unit = np.gcd(steps[0], steps[1])
    if unit == 0 or min(stop - first) == 0:
        return np.zeros(min(stop - first), np.int64), np.ones(min(stop - first), np.int64)
    low = np.sum(first * steps)
    ways = np.zeros((np.sum((stop - 1) * steps) - low) // unit + 1, np.int64)
    for i in range(first[0], stop[0]):
        for j in range(first[1], stop[1]):
            ways[(i * steps[0] + j * steps[1] - low) // unit] += 1
    found = np.flatnonzero(ways)
    return low + found * unit, ways[found]


@njit
def _count(steps: Ints, first: Ints, stop: Ints, copies: int, shift: int, measured: Ints, dram: Dram, begins: Ints,
           ends: Ints, out: Ints) -> None:  # fmt: skip
    """Add some positions of a tile to its counts: sums of a start of each loop, as of `_sums`, as many copies of these,
    each `shift` rows apart. Modifies begins and ends int[rows], the scans that begin and leave the row's bank with it,
    and out. Addresses are in units, of which a row has as many as there are in `measured`.
    """
    bases, scans = np.zeros(1, np.int64), np.ones(1, np.int64)
    for axis in range(4):
        found, ways = _sums(steps[axis], first[axis], stop[axis])
        bases, scans = (bases.reshape(-1, 1) + found).ravel(), (scans.reshape(-1, 1) * ways).ravel()
    inner, ways = _sums(steps[4], first[4], stop[4])
    units, row_shift, begun, left = len(measured), log2_of(len(measured)), np.zeros_like(begins), np.zeros_like(ends)
    number, lowest, highest = measured[:, BANKS].copy(), measured[:, PER_BANK:], measured[:, PER_BANK + dram.banks :]
    times = np.zeros(units, np.int64)
    for i in range(len(bases)):
        for j in range(len(inner)):
            base, more = bases[i] + inner[j], scans[i] * ways[j]
            row = quotient(base, units, row_shift)
            m = base - row * units
            times[m] += more
            for bank in range(number[m]):
                begun[row + lowest[m, bank]] += more
                left[row + highest[m, bank]] += more
    miss = max(dram.tRCD - dram.tCCD + dram.tRTP + dram.tRP, period(1, dram) - dram.tCCD)
    for m in range(units):
        if times[m]:
            scan, of_all = measured[m], copies * times[m]
            out[MOST_ROWS] = max(out[MOST_ROWS], scan[ROWS])
            out[MOST_CYCLES] = max(out[MOST_CYCLES], dram.tCCD * scan[TOUCHED] + miss * scan[ROWS])
            out[CLOSED] += of_all * scan[ROWS]
            out[COLUMNS] += of_all * scan[TOUCHED]
            out[LEAST_COLUMNS] = min(out[LEAST_COLUMNS], scan[TOUCHED])
            out[LONG] += of_all * scan[EXTRA]
            out[AGAIN] += of_all * scan[SHARED]
            out[USED] += of_all * scan[BANKS]
            out[LOOSE] += of_all * scan[BANKS] * scan[CROSSES]
    for row in range(len(begins)):
        if begun[row] + left[row] > 0:
            for copy in range(copies):
                begins[row + copy * shift] += begun[row]
                ends[row + copy * shift] += left[row]


@njit
def _alone(measured: Ints, dram: Dram) -> int:
    """Cycles of a scan by itself."""
    runs = measured[EXTRA] + measured[ROWS] * period(1, dram)
    return int(runs - period(measured[FINAL], dram) + last_run(measured[FINAL], dram))


@njit
def _later(measured: Ints, row: int, ends: Ints, dram: Dram) -> tuple[int, int]:
    """Cycles that a scan after others, whose first byte is in a row, adds to a stream at least, and right after itself.

    Its columns, and its rows; but in each bank the first one may be open: if another scan leaves the bank with it, or
    after itself, if it is the bank's only one.
    """
    found, left = 0, 0
    for bank in range(PER_BANK, PER_BANK + (measured[BANKS] if dram.is_open else 0)):
        lowest, highest = measured[bank], measured[bank + dram.banks]
        found += ends[row + lowest] > (lowest == highest)
        left += lowest == highest
    columns, miss = dram.tCCD * measured[TOUCHED], dram.tRCD - dram.tCCD + dram.tRTP + dram.tRP
    opened = measured[ROWS]
    return int(columns + (opened - found) * miss), int(columns + (opened - left) * miss)
