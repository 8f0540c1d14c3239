"""Base addresses within a row of DRAM, and which of them begin at the same byte of a column."""

from typing import NamedTuple

from tables.dram import Dram
from tables.factors import log2_of, quotient
from tables.jit import njit
from tables.reduce import gcd


class Row(NamedTuple):
    """The base addresses within a row, `unit` bytes apart: `units` of them.

    Those that begin at the same byte of a column are a class; there are `classes`, and addresses that differ by so many
    units are of one class. `*_shift`: log2 of a size, or -1 (`tables.factors.quotient`).
    """

    unit: int
    units: int
    unit_shift: int
    classes: int
    class_shift: int
    column_bytes: int
    column_shift: int


@njit
def row_of(unit: int, dram: Dram) -> Row:
    """Return the base addresses of a row that are multiples of `unit` bytes."""
    units, classes = dram.row_bytes // unit, dram.column_bytes // gcd(unit, dram.column_bytes)
    column_bytes = dram.column_bytes
    return Row(unit, units, log2_of(units), classes, log2_of(classes), column_bytes, log2_of(column_bytes))


@njit
def located(address: int, row: Row) -> tuple[int, int]:
    """Return the row of an address, which is in units, and its place among the units of the row."""
    number = quotient(address, row.units, row.unit_shift)
    return number, address - number * row.units


@njit
def class_of(place: int, row: Row) -> int:
    """Return the class of a base address."""
    return place - quotient(place, row.classes, row.class_shift) * row.classes


@njit
def column_of(place: int, row: Row) -> int:
    """Return the column of a byte of a row."""
    return quotient(place, row.column_bytes, row.column_shift)
