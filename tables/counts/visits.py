"""Which rows a scan of a tile visits, and columns in each.

A scan is a list of contiguous byte segments: the same list for every tile but for its base address, except for a
row-aligned I, whose windows cut the layout's blocks differently. So what it visits depends on where it begins in a row,
and for windows on where they cut their first block: of such patterns there are few.
"""

from typing import NamedTuple

import numpy as np

from tables.dram import Dram, block_address
from tables.jit import njit
from tables.nest import Ints

#: How a tile's bytes are found: packed tensor, one block of a row-aligned tensor, a window over blocks.
SEQUENTIAL, BLOCK, WINDOW = range(3)
#: While a scan is gone through: visits to rows, of all scans and of this one, and the last column.
_VISITS, _ADDED, _COLUMN = range(3)


class Tile(NamedTuple):
    """What one scan reads: `segments` int[n, 2] (first byte, bytes) from the tile's base; blocks and windows as below.

    `window`, `block`: extents per axis N G C H W of a row-aligned I; `strides`: blocks from one to the next along each.
    """

    mode: int
    segments: Ints
    block_bytes: int
    window: Ints
    block: Ints
    strides: Ints
    channels_last: bool
    width: int


@njit
def scan_patterns(tile: Tile, dram: Dram) -> int:
    """How many patterns there may be."""
    cuts = tile.block[3] * tile.block[4] if tile.mode == WINDOW else 0
    return int(max(dram.row_bytes, cuts * (dram.row_bytes // max(1, tile.block_bytes)), cuts))


@njit
def scan_pattern(at: Ints, tile: Tile, dram: Dram) -> tuple[int, int]:
    """The row in which the scan of the tile at a position begins, and which of all that it can be it is but for that:
    the byte there, of windows also where they cut the first block.
    """
    if tile.mode != WINDOW:
        base = at[0] if tile.mode == SEQUENTIAL else block_address(at[0], tile.block_bytes, dram)
        return base // dram.row_bytes, base % dram.row_bytes
    number, size = 0, tile.block
    for axis in range(5):
        number += at[axis] // size[axis] * tile.strides[axis]
    per_row, rows = max(1, dram.row_bytes // tile.block_bytes), -(-tile.block_bytes // dram.row_bytes)
    cut = at[3] % size[3] * size[4] + at[4] % size[4]
    return number // per_row * rows, cut * per_row + number % per_row


@njit
def add_visits(which: int, tile: Tile, dram: Dram, visits: Ints, number: int) -> tuple[Ints, int]:
    """Add which rows a scan visits, from where it begins, and columns in each, behind so many visits: these and those
    (in place, while there is room), and how many there are then.
    """
    per_row, size, end = max(1, dram.row_bytes // max(1, tile.block_bytes)), tile.block, np.array([number, 0, -1])
    if tile.mode == WINDOW:
        h, w = which // per_row // size[4], which // per_row % size[4]
        lines, blocks = (h + tile.window[3] - 1) // size[3] + 1, (w + tile.window[4] - 1) // size[4] + 1
        visits = _with_room(visits, number + lines * blocks * -(-tile.block_bytes // dram.row_bytes))
        _touch_window(h, w, which % per_row, tile, dram, visits, end)
    else:
        visits = _with_room(visits, number + int(np.sum((tile.segments[:, 1] - 1) // dram.row_bytes + 2)))
        for i in range(len(tile.segments)):
            _touch(which + tile.segments[i, 0], tile.segments[i, 1], dram, visits, end)
    return visits, end[_VISITS]


@njit
def _with_room(visits: Ints, most: int) -> Ints:
    """The visits, with room for so many at least."""
    return visits if most <= len(visits) else np.concatenate((visits, np.empty((most, 2), np.int64)))


@njit
def _touch(start: int, length: int, dram: Dram, visits: Ints, end: Ints) -> None:
    """Access the bytes [start, start + length): add columns to the visit of the last row, or visits of further ones.
    Modifies visits and end.
    """
    per_row = dram.row_bytes // dram.column_bytes
    column = start // dram.column_bytes
    stop = (start + length - 1) // dram.column_bytes + 1
    column += column == end[_COLUMN]
    while column < stop:
        row = column // per_row
        last = min(stop, (row + 1) * per_row)
        if not end[_ADDED] or visits[end[_VISITS] - 1, 0] != row:
            visits[end[_VISITS]] = row, 0
            end[_VISITS] += 1
            end[_ADDED] += 1
        visits[end[_VISITS] - 1, 1] += last - column
        column = last
    end[_COLUMN] = stop - 1


@njit
def _touch_window(h: int, w: int, number: int, tile: Tile, dram: Dram, visits: Ints, end: Ints) -> None:
    """A window over a row-aligned I that starts at height h and width w of a block of that number, block by block in
    address order. Modifies visits and end.
    """
    size = tile.block
    outer = size[0] if tile.channels_last else size[0] * size[1] * size[2]
    inner = size[1] * size[2] if tile.channels_last else 1
    per_row = max(1, dram.row_bytes // tile.block_bytes)
    for bh in range((h + tile.window[3] - 1) // size[3] + 1):
        h0 = max(h - bh * size[3], 0)
        h1 = min(h + tile.window[3] - bh * size[3], size[3])
        bw, last = 0, (w + tile.window[4] - 1) // size[4]
        while bw <= last:
            w0 = max(w - bw * size[4], 0)
            w1 = min(w + tile.window[4] - bw * size[4], size[4])
            here = number + bh * tile.strides[3] + bw * tile.strides[4]
            base = block_address(here, tile.block_bytes, dram)
            bw += 1
            # Bytes that follow each other: of a line, of whole lines, of a whole block and those after it in the row.
            lines, length, images = 1, (w1 - w0) * inner * tile.width, outer
            if w1 - w0 == size[4]:
                lines, length = h1 - h0, (h1 - h0) * length
                if lines == size[3]:
                    more = min((w + tile.window[4]) // size[4] - bw, per_row - 1 - here % per_row)
                    more = more if tile.strides[4] == 1 else 0
                    images, length, bw = 1, (1 + more) * tile.block_bytes, bw + more
            for o in range(images):
                for line in range(h0, h1, lines):
                    byte = base + ((o * size[3] + line) * size[4] + w0) * inner * tile.width
                    _touch(byte, length, dram, visits, end)
