"""The parts of MLIR text that follow from a layout: the maps from coordinates to bank, row and element."""

import math
from collections.abc import Iterable, Iterator

from cpsat_pim.export.loops.program import Affine, TensorProgram


def memref_type(tensor: TensorProgram) -> str:
    """Return the type of a tensor in DRAM: its banks, the rows that it takes of each, the elements of a row."""
    layout = tensor.layout
    rows = -(-layout.rows // layout.banks)
    return f"memref<{layout.banks}x{rows}x{layout.row_elems}xi{layout.element_bits}>"


def layout_maps(tensor: TensorProgram) -> list[str]:
    """Return a comment, and the maps #T_bank, #T_row, #T_elem of coordinates in the order of the tensor's axes."""
    layout = tensor.layout
    row, elem = _row_and_element(tensor)
    dims = ", ".join(f"d{n}" for n in range(len(tensor.axes)))
    axes = "".join(axis.name for axis in tensor.axes)
    is_spread = layout.banks > 1
    parts = {
        "bank": f"({row}) mod {layout.banks}" if is_spread else "0",
        "row": f"({row}) floordiv {layout.banks}" if is_spread else row,
        "elem": elem,
    }
    where = f"from bank {layout.first_bank} and row {layout.first_row} on"
    return [
        f"// {tensor.name}[{', '.join(axes)}] {where}; a column has {layout.column_elems} elements",
        *(f"#{tensor.name}_{part} = affine_map<({dims}) -> ({text})>" for part, text in parts.items()),
    ]


def _row_and_element(tensor: TensorProgram) -> tuple[str, str]:
    """Return a tensor's row (over all of its banks) and the element in it, as affine expressions."""
    layout = tensor.layout
    if layout.block is None or layout.numbers is None:
        offset = _sum((name, 1, None, layout.strides[axis]) for axis, name, _ in _long_axes(tensor))
        return f"({offset}) floordiv {layout.row_elems}", f"({offset}) mod {layout.row_elems}"
    block = layout.block
    number = _sum((n, block[a], None, layout.numbers[a]) for a, n, extent in _long_axes(tensor) if extent > block[a])
    inside = _sum((n, 1, block[a], layout.strides[a]) for a, n, _ in _long_axes(tensor) if block[a] > 1)
    if layout.blocks_a_row:
        place = f"(({number}) mod {layout.blocks_a_row}) * {math.prod(block.values())}"
        return f"({number}) floordiv {layout.blocks_a_row}", f"{place} + {inside}"
    row = f"({number}) * {layout.rows_a_block} + ({inside}) floordiv {layout.row_elems}"
    return row, f"({inside}) mod {layout.row_elems}"


def _long_axes(tensor: TensorProgram) -> Iterator[tuple[str, str, int]]:
    """Yield the axes that have more than one element: axis, its dim in a map, its elements."""
    for n, axis in enumerate(tensor.axes):
        if axis.extent > 1:
            yield axis.name, f"d{n}", axis.extent


def _sum(terms: Iterable[tuple[str, int, int | None, int]]) -> str:
    """Return a sum of `(name floordiv divisor mod modulus) * factor`."""
    texts = []
    for name, divisor, modulus, factor in terms:
        text = f"({name} floordiv {divisor})" if divisor > 1 else name
        text = f"({text} mod {modulus})" if modulus else text
        texts.append(f"{text} * {factor}" if factor > 1 else text)
    return " + ".join(texts) or "0"


def affine_text(affine: Affine, sigil: str = "%") -> str:
    """Return a sum of terms: `%K3 * 64 + %k`."""
    return _sum((f"{sigil}{name}", 1, None, factor) for name, factor in affine.items())
