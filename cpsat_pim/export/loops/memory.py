"""The DRAM of a program that runs: where each element lies, and what is read and written there."""

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from cpsat_pim.export.loops.program import LoopProgram, TensorProgram

Ints = NDArray[np.int64]

#: What lies where nothing was written: nobody expects it, so a value that was never brought in shows in the result.
GARBAGE = -(2**40) - 12345

#: Called for every scan, with the tensor's name, the places of its elements in increasing address, int64[n, 4]: bank,
#: row, column and byte; and whether they are written.
OnScan = Callable[[str, Ints, bool], None]


def locate(tensor: TensorProgram, places: Ints) -> tuple[Ints, Ints]:
    """Return the rows of the tensor and the offsets within them (in elements) of coordinates int64[n, axes]."""
    layout, names = tensor.layout, [axis.name for axis in tensor.axes]
    strides = np.array([layout.strides[name] for name in names], np.int64)
    if layout.block is None or layout.numbers is None:
        return _divmod(places @ strides, layout.row_elems)
    block = np.array([layout.block[name] for name in names], np.int64)
    number = places // block @ np.array([layout.numbers[name] for name in names], np.int64)
    inside = places % block @ strides
    if layout.blocks_a_row:
        row, place = _divmod(number, layout.blocks_a_row)
        return row, place * math.prod(layout.block.values()) + inside
    row, offset = _divmod(inside, layout.row_elems)
    return number * layout.rows_a_block + row, offset


def _divmod(number: Ints, divisor: int) -> tuple[Ints, Ints]:
    return number // divisor, number % divisor


class Dram:
    """Banks and rows of one node. Element e of row r of bank b lies at `cells[b, r, e * width]`; cells are bytes."""

    def __init__(self, program: LoopProgram, on_scan: OnScan | None) -> None:
        layouts = [tensor.layout for tensor in program.tensors.values()]
        self.cell_bits = math.gcd(*(layout.element_bits for layout in layouts))
        banks = max(layout.first_bank + layout.banks for layout in layouts)
        rows = max(layout.first_row + -(-layout.rows // layout.banks) for layout in layouts)
        cells = max(layout.row_elems * layout.element_bits // self.cell_bits for layout in layouts)
        self.cells = np.full((banks, rows, cells), GARBAGE, np.int64)
        self.on_scan = on_scan


class DramTensor:
    """A tensor in DRAM, with the interface of a buffer."""

    def __init__(self, dram: Dram, tensor: TensorProgram) -> None:
        self.dram, self.tensor = dram, tensor

    def everywhere(self) -> Ints:
        """Return int64[n, axes]: the coordinates of all elements."""
        return np.indices(self.tensor.extents).reshape(len(self.tensor.axes), -1).T

    def at(self, places: Ints) -> Ints:
        """Return the elements at these coordinates."""
        return self.dram.cells[self._cells(places)]

    def put(self, places: Ints, values: Ints) -> None:
        """Set the elements at these coordinates."""
        self.dram.cells[self._cells(places)] = values

    def add(self, places: Ints, values: Ints) -> None:
        """Add to the elements at these coordinates, which may repeat."""
        np.add.at(self.dram.cells, self._cells(places), values)

    def scan(self, places: Ints, is_write: bool) -> None:
        """Tell that one scan reads or writes these elements; copies of an element coincide."""
        if self.dram.on_scan is None:
            return
        bank, row, offset = self._physical(places)
        tensor_row, _ = locate(self.tensor, places)
        layout = self.tensor.layout
        column, within = _divmod(offset, layout.column_elems)
        byte = within * layout.element_bits // 8
        listed = np.unique(np.stack([tensor_row, column, byte, bank, row], axis=1), axis=0)
        self.dram.on_scan(self.tensor.name, listed[:, [3, 4, 1, 2]], is_write)

    def _cells(self, places: Ints) -> tuple[Ints, Ints, Ints]:
        bank, row, offset = self._physical(places)
        return bank, row, offset * (self.tensor.layout.element_bits // self.dram.cell_bits)

    def _physical(self, places: Ints) -> tuple[Ints, Ints, Ints]:
        """Return bank, row of the bank, and offset in the row (in elements)."""
        layout = self.tensor.layout
        row, offset = locate(self.tensor, places)
        return layout.first_bank + row % layout.banks, layout.first_row + row // layout.banks, offset
