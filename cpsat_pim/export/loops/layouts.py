"""Where each tensor of a mapped layer lies in DRAM: strides, blocks, rows and banks (docs/model.md, section 3)."""

import math

from cpsat_pim.arch import PIMArchitecture
from cpsat_pim.base.dims import LAYOUT_ORDERS, Dim, Level, Tensor
from cpsat_pim.export.loops.program import Layout
from cpsat_pim.mapping import Mapping, first_banks
from cpsat_pim.workload import ConvWorkload


def build_layouts(layer: ConvWorkload, arch: PIMArchitecture, mapping: Mapping, spills: bool) -> dict[Tensor, Layout]:
    """Return the place of each tensor. O has the width of a partial sum if its partial sums spill to DRAM.

    Tensors of one part lie one after the other in its banks, each from the first byte of a row on.
    """
    used, first = [0, 0, 0], first_banks(mapping.banks, mapping.bank_counts)  # rows by part; bank by tensor
    layouts = {}
    for t in Tensor:
        part = mapping.banks[t]
        bits = int(8 * (layer.psum_bytes if t is Tensor.O and spills else layer.width_bytes[t]))
        layouts[t] = _layout(layer, arch, mapping, t, bits, first[t] * arch.banks, used[part])
        used[part] += -(-layouts[t].rows // layouts[t].banks)
    return layouts


def _layout(
    layer: ConvWorkload, arch: PIMArchitecture, mapping: Mapping, tensor: Tensor, bits: int, bank: int, row: int
) -> Layout:
    order, extents = LAYOUT_ORDERS[tensor][mapping.layout[tensor]], _extents(layer, tensor)
    row_elems = 8 * arch.row_bytes // bits
    block = _block(mapping, tensor) if mapping.stored[Level.ROW_BUFFER][tensor] else None
    held = math.prod((block or extents).values())  # elements of a block, or of the tensor
    grid = {a: -(-n // (block or extents)[a]) for a, n in extents.items()}
    a_row, rows_a_block = row_elems // held if block else 0, -(-held // row_elems)
    blocks = math.prod(grid.values())
    return Layout(
        element_bits=bits,
        first_bank=bank,
        banks=mapping.bank_counts[tensor] * arch.banks,
        first_row=row,
        rows=-(-blocks // a_row) if a_row else blocks * rows_a_block,
        row_elems=row_elems,
        column_elems=8 * arch.column_bytes // bits,
        strides=_packed(order, block or extents),
        block=block,
        numbers=_packed(order, grid) if block else None,
        blocks_a_row=a_row,
        rows_a_block=rows_a_block if block else 0,
    )


def _extents(layer: ConvWorkload, tensor: Tensor) -> dict[str, int]:
    """Return a tensor's elements along each axis."""
    extents = {d.name: layer.bounds[d] for d in Dim}
    if tensor is Tensor.I:
        extents |= {"H": layer.input_height, "W": layer.input_width}
    return {name: extents[name] for name in LAYOUT_ORDERS[tensor][0]}


def _block(mapping: Mapping, tensor: Tensor) -> dict[str, int]:
    """Return the elements of a block along each axis: the row-buffer tile, of I along H and W the block's own."""
    extents = {d.name: n for d, n in zip(Dim, mapping.extents(Level.ROW_BUFFER), strict=True)}
    if tensor is Tensor.I:
        extents |= {"H": mapping.block_h, "W": mapping.block_w}
    return {name: extents[name] for name in LAYOUT_ORDERS[tensor][0]}


def _packed(order: str, extents: dict[str, int]) -> dict[str, int]:
    """Return what one step along each axis adds to the number of an element (or block) in this order."""
    strides, stride = {}, 1
    for name in reversed(order):
        strides[name] = stride
        stride *= extents[name]
    return strides
