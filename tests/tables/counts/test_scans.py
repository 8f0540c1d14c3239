"""Scans measured part by part against scans measured byte by byte."""

import itertools
import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tables.counts.rows import class_of, row_of
from tables.counts.scan_parts import (
    BANKS,
    CROSSES,
    EXTRA,
    FINAL,
    FIRST,
    INITIAL,
    LAST,
    LAST_ROW,
    PER_BANK,
    ROWS,
    SHARED,
    TOUCHED,
)
from tables.counts.scans import box_scan, measure, measure_like, no_parts, repeat_of, with_banks
from tables.dram import period
from tests.tables.nests import build_dram

SIZES = st.tuples(*[st.integers(1, 4)] * 5)


@given(SIZES, SIZES, st.sampled_from([1, 2, 4]), st.sampled_from([1, 2, 3, 4]), st.sampled_from([8, 12, 32]))
def test_scans_are_measured_byte_by_byte(
    box: tuple[int, ...], gaps: tuple[int, ...], width: int, banks: int, row_bytes: int
) -> None:
    """For boxes in tensors with some more elements along each axis, from each address of a row."""
    sizes = [b + gap - 1 for b, gap in zip(box, gaps, strict=True)]
    strides = [math.prod(sizes[a + 1 :]) * width for a in range(5)]
    dram = build_dram(row_bytes, True, banks)
    scan = box_scan(np.array(box), np.array(strides), width)
    unit = math.gcd(row_bytes, width)
    found = measure(scan, unit, dram)
    outer = next((a for a in range(5) if box[a] > 1), 0)
    for i in range(row_bytes // unit):
        starts = [sum(map(math.prod, zip(at, strides, strict=True))) for at in itertools.product(*map(range, box))]
        touched = [i * unit + start + byte for start in starts for byte in range(width)]
        columns = [column for column, _ in itertools.groupby(byte // 4 for byte in touched)]
        runs = [(row, len(list(run))) for row, run in itertools.groupby(column * 4 // row_bytes for column in columns)]
        rows, lengths = [row for row, _ in runs], [n for _, n in runs]
        by_bank = [[row for row in rows if row % banks == bank] for bank in range(banks)]
        used = [of for of in by_bank if of]
        slices = np.split(np.array(touched), box[outer])
        expected = {
            ROWS: len(rows),
            TOUCHED: len(columns),
            EXTRA: sum(period(n, dram) - period(1, dram) for n in lengths),
            INITIAL: lengths[0],
            FINAL: lengths[-1],
            FIRST: columns[0] % (row_bytes // 4),
            LAST: columns[-1] % (row_bytes // 4),
            LAST_ROW: rows[-1],
            BANKS: len(used),
            SHARED: sum(len(of) for of in used if len(of) > 1),
            CROSSES: banks > 1 and any(of[0] // row_bytes != of[-1] // row_bytes for of in slices),
        }
        assert {column: found[i, column] for column in expected} == expected
        assert found[i, PER_BANK:][: len(used)].tolist() == [of[0] for of in used]
        assert found[i, PER_BANK + banks :][: len(used)].tolist() == [of[-1] for of in used]


@given(SIZES, SIZES, st.integers(0, 4), st.integers(1, 40), st.integers(1, 40), st.sampled_from([1, 3]), st.data())
def test_scans_from_some_addresses_are_measured_as_from_all(
    box: tuple[int, ...], gaps: tuple[int, ...], axis: int, before: int, now: int, banks: int, data: st.DataObject
) -> None:
    """Whether loops are walked through or doubled, and whatever is kept of a scan that was measured before."""
    sizes = [b + gap - 1 for b, gap in zip(box, gaps, strict=True)]
    sizes[axis] = 40
    strides = np.array([math.prod(sizes[a + 1 :]) for a in range(5)])
    dram = build_dram(32, True, banks)
    like, scan = (box_scan(np.array([*box[:axis], long, *box[axis + 1 :]]), strides, 1) for long in (before, now))
    some = st.lists(st.integers(0, 31), unique=True).map(lambda chosen: np.array(chosen, np.int64))
    wanted = data.draw(some)
    _, parts = measure_like(like, 1, dram, like, no_parts(), data.draw(some))
    columns, parts = measure_like(scan, 1, dram, like, parts, wanted)
    found = with_banks(parts.measured[len(scan.times)], wanted, scan, 1, dram)
    expected, row, inside = measure(scan, 1, dram), row_of(1, dram), repeat_of(scan, len(scan.times), 1, dram).inside
    for i in range(32):
        if i >= inside and i in wanted:
            assert (found[i] == expected[i]).all()
        assert i >= inside or expected[i, TOUCHED] == columns[class_of(i, row)]
        assert (i < inside) == (expected[i, LAST_ROW] == 0)
