"""What parts of a scan take, one by one and repeated by loops: rows, columns, runs."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tables.counts.rows import Row, class_of, column_of, located
from tables.dram import Dram, period
from tables.jit import njit
from tables.nest import Ints
from tables.reduce import gcd

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


@njit
def run_cycles(dram: Dram) -> Ints:
    """Return the cycles by which a run of n columns, for all n of a row, outlasts one of one column: int[n]."""
    found = np.empty(dram.row_bytes // dram.column_bytes + 1, np.int64)
    for n in range(len(found)):
        found[n] = period(n, dram) - period(1, dram)
    return found


class Repeat(NamedTuple):
    """A part of a scan, `reach` bytes from the first to the last, that a loop repeats `times`, `stride` bytes apart.

    From base addresses below `inside` the part lies in one row.
    """

    times: int
    stride: int
    reach: int
    inside: int


@njit
def sums_along(columns: Ints, repeat: Repeat, row: Row) -> Ints:
    """Return sums over the classes that a part repeated in a row comes through.

    `columns` int[classes]: of the part. Returns int[4, classes]: place of a class among those that recur with it;
    column accesses in the repetitions before it, from the first of them on, less those that a repetition shares with
    the next one; the same of all that recur; their number.
    """
    steps = class_of(repeat.stride // row.unit, row)
    starts = gcd(row.classes, steps)
    found = np.empty((4, row.classes), np.int64)
    for start in range(starts):
        at, before = start, 0
        for place in range(row.classes // starts):
            found[0, at], found[1, at], found[3, at] = place, before, row.classes // starts
            before += columns[at] - _shares(at, repeat, row)
            at = class_of(at + steps, row)
        for _ in range(row.classes // starts):
            found[2, at] = before
            at = class_of(at + steps, row)
    return found


@njit
def _shares(at: int, repeat: Repeat, row: Row) -> bool:
    """Return whether a part ends in the column in which its next repetition begins."""
    return column_of(at * row.unit + repeat.reach, row) == column_of(at * row.unit + repeat.stride, row)


@njit
def repeated_columns(at: int, times: int, repeat: Repeat, sums: Ints, row: Row) -> int:
    """Return the column accesses of so many repetitions of a part in one row, the first at address `at`."""
    steps = repeat.stride // row.unit
    begin, end, last = class_of(at, row), class_of(at + times * steps, row), at + (times - 1) * steps
    more = sums[1, end] - sums[1, begin] + (sums[2, begin] if sums[0, end] < sums[0, begin] else 0)
    return int(times // sums[3, begin] * sums[2, begin] + more + _shares(last, repeat, row))


@njit
def _copy(source: Ints, target: Ints) -> None:
    """Copy int[n, m]. (Numba would take two seconds to compile an assignment of one array to a part of another.)"""
    for i in range(source.shape[0]):
        for j in range(source.shape[1]):
            target[i, j] = source[i, j]


@njit
def is_doubling_shorter(places: int, repeat: Repeat, row: Row) -> bool:
    """Return whether to double a part from all base addresses is less work than to walk through its repetitions.

    `places`: base addresses from which the repetitions have to be measured.
    """
    doublings, rows = 0, repeat.times * (repeat.stride // row.unit) // row.units + 1
    while repeat.times >> doublings:
        doublings += 1
    return places * min(repeat.times, 2 * rows) > 2 * doublings * row.units


@njit
def mark_lacking(wanted: Ints, repeat: Repeat, known: Flags, out: Ints) -> int:
    """Write to `out` the wanted base addresses that are not known, and return their number; they are known from now on.

    Those from which the part lies in one row are left out. `known` bool[addresses]. Modifies both.
    """
    number = 0
    for place in wanted:
        if place >= repeat.inside and not known[place]:
            known[place], out[number], number = True, place, number + 1
    return number


@njit
def mark_all(repeat: Repeat, known: Flags, out: Ints) -> int:
    """Do as `mark_lacking`, with all base addresses."""
    number = 0
    for place in range(repeat.inside, len(known)):
        if not known[place]:
            known[place], out[number], number = True, place, number + 1
    return number


@njit
def mark_repeated(places: Ints, repeat: Repeat, row: Row, known: Flags, out: Ints) -> int:
    """Do as `mark_lacking`, with the base addresses of the repetitions of a part, the first ones at `places`."""
    number, steps = 0, repeat.stride // row.unit
    for first in places:
        place, done = first, 0
        while done < repeat.times:
            if place >= repeat.inside and not known[place]:
                known[place], out[number], number = True, place, number + 1
            more = _within(place, steps, repeat.inside)
            done, place = done + more, located(place + more * steps, row)[1]
    return number


@njit
def _within(place: int, steps: int, inside: int) -> int:
    """Return how many repetitions from a place on lie each in the row of the place; at least 1."""
    return (inside - 1 - place) // steps + 1 if place + steps < inside else 1


class _Taken(NamedTuple):
    """What one scan takes: the columns of what is measured, up to LAST_ROW, as numbers that stay in registers."""

    rows: int
    touched: int
    extra: int
    initial: int
    final: int
    first: int
    last: int
    last_row: int


@njit
def _read(measured: Ints, i: int) -> _Taken:
    """Return what is measured from address i."""
    at = measured[i]
    return _Taken(at[ROWS], at[TOUCHED], at[EXTRA], at[INITIAL], at[FINAL], at[FIRST], at[LAST], at[LAST_ROW])


@njit
def _write(taken: _Taken, measured: Ints, i: int) -> None:
    """Write what is taken from address i."""
    at = measured[i]
    at[ROWS], at[TOUCHED], at[EXTRA], at[INITIAL] = taken.rows, taken.touched, taken.extra, taken.initial
    at[FINAL], at[FIRST], at[LAST], at[LAST_ROW] = taken.final, taken.first, taken.last, taken.last_row


@njit
def _joined(one: _Taken, other: _Taken, shift: int, longer: Ints) -> _Taken:
    """Return what a part takes and another one, `shift` rows further on, behind its end."""
    rows, touched, extra = one.rows + other.rows, one.touched + other.touched, one.extra + other.extra
    initial, final = one.initial, other.final
    if one.last_row == shift:
        shared = int(one.last == other.first)
        run = one.final + other.initial - shared
        extra += longer[run] - longer[one.final] - longer[other.initial]
        rows, touched = rows - 1, touched - shared
        initial, final = run if one.rows == 1 else initial, run if other.rows == 1 else final
    return _Taken(rows, touched, extra, initial, final, one.first, other.last, other.last_row + shift)


@njit
def repeat_some(one: Ints, columns: Ints, repeat: Repeat, sums: Ints, places: Ints, row: Row, dram: Dram,
                longer: Ints, out: Ints) -> None:  # fmt: skip
    """Write to `out` what the repetitions of a part take from some base addresses.

    `one`, `columns`: what the part takes, from addresses from which it does not lie in one row, and does. `sums`: as
    from `sums_along`.
    """
    times, steps, piece = repeat.times, repeat.stride // row.unit, np.zeros((1, one.shape[1]), np.int64)
    _use_first_bank(piece, 0, dram.banks)
    for i in places:
        place, number, done, taken = i, 0, 0, _Taken(0, 0, 0, 0, 0, 0, 0, 0)
        while done < times:
            more, is_inside = min(times - done, _within(place, steps, repeat.inside)), place < repeat.inside
            if is_inside:
                touched = (
                    repeated_columns(place, more, repeat, sums, row) if more > 1 else columns[class_of(place, row)]
                )
                part = _in_row(touched, place * row.unit, repeat.reach + (more - 1) * repeat.stride, row, longer)
            else:
                part = _read(one, place)
            if dram.banks > 1:
                banks, j = (piece, 0) if is_inside else (one, place)
                _begin_or_join_banks(out, i, done, banks, j, number, dram.banks, taken.last_row == number)
            taken = _joined(taken, part, number, longer) if done else part
            done, (passed, place) = done + more, located(place + more * steps, row)
            number += passed
        _write(taken, out, i)


@njit
def _in_row(touched: int, base: int, reach: int, row: Row, longer: Ints) -> _Taken:
    """Return what a part takes that lies in one row, `base` bytes behind the begin of it."""
    first, last = column_of(base, row), column_of(base + reach, row)
    return _Taken(1, touched, longer[touched], touched, touched, first, last, 0)


@njit
def _use_first_bank(out: Ints, i: int, banks: int) -> None:
    """Write to the columns of banks what a part takes from address i that lies in the first row."""
    if banks > 1:
        out[i, BANKS], out[i, SHARED], out[i, CROSSES] = 0, 0, 0
        for bank in range(banks):
            out[i, PER_BANK + bank] = out[i, PER_BANK + banks + bank] = 0 if bank == 0 else -1
            out[i, PER_BANK + 2 * banks + bank] = bank == 0


@njit
def fill_inside(columns: Ints, count: int, reach: int, row: Row, dram: Dram, longer: Ints, out: Ints) -> None:
    """Write to `out` what a part takes from the first `count` addresses of a row, from which it lies in that row.

    `columns` int[classes]: its column accesses. `reach`: bytes from its first one to its last.
    """
    for i in range(count):
        _write(_in_row(columns[class_of(i, row)], i * row.unit, reach, row, longer), out, i)
        _use_first_bank(out, i, dram.banks)


@njit
def repeat_all(one: Ints, times: int, stride: int, unit: int, dram: Dram, longer: Ints, out: Ints) -> None:
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
def segment_columns(size: int, row: Row) -> Ints:
    """Return int[classes]: the columns of a segment of `size` bytes from a base address of each class."""
    columns = np.empty(row.classes, np.int64)
    for i in range(row.classes):
        columns[i] = column_of(i * row.unit + size - 1, row) - column_of(i * row.unit, row) + 1
    return columns


@njit
def measure_segments(size: int, unit: int, dram: Dram, longer: Ints, places: Ints, out: Ints) -> None:
    """Measure a segment of `size` bytes from some base addresses.

    `longer` int[n]: cycles of n columns in a run beyond one. Modifies `out`, which is int[addresses, columns as above].
    """
    per_row, banks = dram.row_bytes // dram.column_bytes, dram.banks
    for i in places:
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
    taken = _read(found, i)
    if dram.banks > 1:
        _begin_or_join_banks(found, i, 1, other, j, shift, dram.banks, taken.last_row == shift)
    _write(_joined(taken, _read(other, j), shift, longer), found, i)


@njit
def _begin_or_join_banks(found: Ints, i: int, done: int, other: Ints, j: int, shift: int, banks: int,
                         is_met: bool) -> None:  # fmt: skip
    """Add another part's rows of each bank, the first one in the last row if `is_met`; or begin with them."""
    if done:
        _join_banks(found, i, other, j, shift, banks)
        found[i, PER_BANK + 2 * banks + shift % banks] -= is_met
    else:
        for column in range(BANKS, found.shape[1]):
            found[i, column] = other[j, column]


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
