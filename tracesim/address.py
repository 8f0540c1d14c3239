"""Where a tensor's elements lie in DRAM, and a tile's elements in increasing byte address (section 3)."""

from typing import NamedTuple

from tracesim.bank import access_column, begin_scan, end_scan, stream_cycles
from tracesim.jit import Record, kernel, record_type
from tracesim.records import Ints

LAYOUT = record_type(
    block=(5,),
    number_step=(5,),
    pitch_bytes=(5,),
    block_bytes=(),
    blocks_a_row=(),
    rows_a_block=(),
    row_bytes=(),
    first_byte=(),
    axis=(5,),
    count=(5,),
    step_bytes=(5,),
    first=(5,),
    last=(5,),
    now=(5,),
    low=(5,),
    high=(5,),
)
"""A tensor cut in blocks on a grid, and the tile that is scanned. A sequential tensor is one block.

- Per axis of the tensor: `block`, its elements along the axis; `number_step`, what one block along the axis adds to the
  block number; `pitch_bytes`, what one element along the axis adds to the address within a block.
- Per block: `block_bytes`; `blocks_a_row`, whole blocks that share a row, or 0 if each takes `rows_a_block` of its own.
- `first_byte`: the address of the tensor's first byte, at which a row of its first bank begins.
- Per place in the scan, outermost first: `axis` of the tensor; `count`, the tile's elements along it; `step_bytes`, its
  pitch; `first` and `last`, the blocks that the tile touches along it; `now`, the block at hand; `low` and `high`: the
  tile's elements low to high - 1 lie in that block.
"""


class Scanner(NamedTuple):
    """What scans the tiles of each tensor: `layouts` are records by tensor (LAYOUT), `banks` by part (BANK).

    `offsets` int64[tensor, place, n]: the tile's coordinates, `count` of them, relative to its first element.
    `part` int64[tensor]: which banks hold the tensor. `open_rows` int64[part, bank]. `counts` int64[tensor, 2]: column
    accesses and row activations so far.
    """

    layouts: Record
    banks: Record
    offsets: Ints
    part: Ints
    open_rows: Ints
    counts: Ints


def set_layout(layout: Record, order: Ints, extent: Ints, block: Ints, width_bytes: int, row_bytes: int) -> None:
    """Lay out a tensor with `extent` int64[5] elements along its axes in blocks of `block` int64[5] elements.

    A block that reaches over the tensor's edge takes the space of a full block. Its outer elements are never used.
    """
    blocks, block_bytes = 1, width_bytes
    for axis in order[::-1]:
        layout.block[axis] = block[axis]
        layout.number_step[axis], layout.pitch_bytes[axis] = blocks, block_bytes
        blocks *= -(-extent[axis] // block[axis])
        block_bytes *= block[axis]
    layout.block_bytes, layout.row_bytes = block_bytes, row_bytes
    layout.blocks_a_row, layout.rows_a_block = row_bytes // block_bytes, -(-block_bytes // row_bytes)


@kernel
def block_address(layout: Record, number: int) -> int:
    """Return the address of a block's first byte: its row's, and its place in that row."""
    address: int = number * layout.rows_a_block * layout.row_bytes
    if layout.blocks_a_row:
        row, place = number // layout.blocks_a_row, number % layout.blocks_a_row
        address = row * layout.row_bytes + place * layout.block_bytes
    return address + layout.first_byte  # type: ignore[no-any-return]


def set_tile(layout: Record, offsets: Ints, order: Ints, coordinates: Ints, counts: Ints) -> None:
    """Set which coordinates a tile has along each axis: int64[axis, n], counts int64[axis].

    The tile is scanned in the layout's order, except that axes along which it has one element come first. These add the
    same to every address, so the order of addresses stays, and the innermost loop becomes long.
    """
    place = 0
    for is_long in (False, True):
        for axis in order:
            if (counts[axis] > 1) == is_long:
                layout.axis[place], layout.count[place] = axis, counts[axis]
                layout.step_bytes[place] = layout.pitch_bytes[axis]
                offsets[place, : counts[axis]] = coordinates[axis, : counts[axis]]
                place += 1


@kernel
def scan(scanner: Scanner, tensor: int, corner: Ints) -> int:
    """Scan the tile whose first element has the coordinates `corner` int64[5]; return by how much the time of the
    tensor's banks advances.

    Address order is blocks in grid order, and in each block the tile's elements in order.
    """
    layout, offsets, part = scanner.layouts[tensor], scanner.offsets[tensor], scanner.part[tensor]
    bank, open_rows = scanner.banks[part], scanner.open_rows[part]
    before, columns, activations = stream_cycles(bank), bank.columns, bank.activations
    begin_scan(bank)
    find_blocks(layout, offsets, corner)
    column_end = 0
    while True:
        start = enter_block(layout, offsets, corner)
        column_end = visit_block(layout, offsets, bank, open_rows, start, column_end)
        if not next_block(layout):
            break
    end_scan(bank, open_rows)
    scanner.counts[tensor, 0] += bank.columns - columns
    scanner.counts[tensor, 1] += bank.activations - activations
    return stream_cycles(bank) - before


@kernel
def find_blocks(layout: Record, offsets: Ints, corner: Ints) -> None:
    """Set the first and last block that the tile touches along each axis, and go to the first."""
    for place in range(5):
        axis = layout.axis[place]
        farthest = corner[axis] + offsets[place, layout.count[place] - 1]
        layout.first[place] = corner[axis] // layout.block[axis]
        layout.last[place] = farthest // layout.block[axis]
        layout.now[place] = layout.first[place]


@kernel
def next_block(layout: Record) -> bool:
    """Go to the next touched block in grid order, or return False behind the last."""
    for place in range(4, -1, -1):
        if layout.now[place] < layout.last[place]:
            layout.now[place] += 1
            return True
        layout.now[place] = layout.first[place]
    return False


@kernel
def enter_block(layout: Record, offsets: Ints, corner: Ints) -> int:
    """Set which of the tile's elements lie in the block at hand, and return the address that belongs to offsets 0.

    That is where the tile's first element would lie if the block at hand reached that far.
    """
    number, start = 0, 0
    for place in range(5):
        axis = layout.axis[place]
        number += layout.now[place] * layout.number_step[axis]
        begin = layout.now[place] * layout.block[axis] - corner[axis]
        start -= begin * layout.pitch_bytes[axis]
        count = layout.count[place]
        if layout.first[place] == layout.last[place]:
            layout.low[place], layout.high[place] = 0, count
        else:
            layout.low[place] = first_from(offsets, place, count, begin)
            layout.high[place] = first_from(offsets, place, count, begin + layout.block[axis])
    return start + block_address(layout, number)


@kernel
def first_from(offsets: Ints, place: int, count: int, least: int) -> int:
    """Return the number of the first of `count` ascending offsets at a place that is at least `least`, or `count`.

    (`np.searchsorted` takes a second to compile.)
    """
    low, high = 0, count
    while low < high:
        middle = (low + high) // 2
        if offsets[place, middle] < least:
            low = middle + 1
        else:
            high = middle
    return low


@kernel
def visit_block(layout: Record, offsets: Ints, bank: Record, open_rows: Ints, start: int, column_end: int) -> int:
    """Visit the tile's elements in the block at hand; return the end of the column accessed last."""
    low, high, pitch = layout.low, layout.high, layout.step_bytes
    for a in range(low[0], high[0]):
        at_a = start + offsets[0, a] * pitch[0]
        for b in range(low[1], high[1]):
            at_b = at_a + offsets[1, b] * pitch[1]
            for c in range(low[2], high[2]):
                at_c = at_b + offsets[2, c] * pitch[2]
                for d in range(low[3], high[3]):
                    at_d = at_c + offsets[3, d] * pitch[3]
                    for e in range(low[4], high[4]):
                        address = at_d + offsets[4, e] * pitch[4]
                        if address >= column_end:  # else it lies in the column accessed last
                            column_end = access_column(bank, open_rows, address)
    return column_end
