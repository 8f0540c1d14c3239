"""The rows that a scan of a tile visits, and the column accesses in each.

A scan reads a list of contiguous byte segments. Tiles of one mapping have the same list and differ in their base
address, except for the windows of a row-aligned I, which cut the blocks of the layout in different places. So the
visits depend only on the byte of the row at which the scan begins, and for windows on where they cut their first
block. These *patterns* are few, and the visits of each are found once.
"""

from typing import NamedTuple

import numpy as np

from tables.dram import Dram, block_address
from tables.jit import njit
from tables.nest import Ints

#: Modes of a tile: part of a packed tensor, one block of a row-aligned tensor, a window over blocks.
SEQUENTIAL, BLOCK, WINDOW = range(3)
#: State of `_touch`: visits listed, visits of this scan, and the last column accessed.
_VISITS, _ADDED, _COLUMN = range(3)


class Tile(NamedTuple):
    """What one scan reads.

    `segments` int[n, 2]: first byte, counted from the tile's base, and bytes. `block_bytes`: of a block of a
    row-aligned tensor. Of a window, per axis N G C H W: `window` and `block` int[5], their elements, and `strides`
    int[5], how much the block number grows from one block to the next. `channels_last`: the layout is NHWGC. `width`:
    bytes of an element.
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
    """Return how many patterns there can be."""
    cuts = tile.block[3] * tile.block[4] if tile.mode == WINDOW else 0
    return int(max(dram.row_bytes, cuts * (dram.row_bytes // max(1, tile.block_bytes)), cuts))


@njit
def scan_pattern(at: Ints, tile: Tile, dram: Dram) -> tuple[int, int]:
    """Return the row in which the scan of a tile begins, and the number of its pattern.

    `at` int[5]: the tile's position as in `walk_stream`. The pattern is the byte of the row at which the scan begins,
    and of a window also where it cuts its first block.
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
    """Append the visits of the pattern `which` to the first `number` visits.

    `visits` int[n, 2]: row, counted from the one in which the scan begins, and column accesses there. Modifies visits
    in place while they fit, else a larger array takes their place.

    Returns the visits, and how many are listed.
    """
    per_row, size, end = max(1, dram.row_bytes // max(1, tile.block_bytes)), tile.block, np.zeros(3, np.int64)
    end[_VISITS], end[_COLUMN] = number, -1
    if tile.mode == WINDOW:
        h, w = which // per_row // size[4], which // per_row % size[4]
        lines, blocks = (h + tile.window[3] - 1) // size[3] + 1, (w + tile.window[4] - 1) // size[4] + 1
        visits = _grown(visits, number + lines * blocks * -(-tile.block_bytes // dram.row_bytes))
        _touch_window(h, w, which % per_row, tile, dram, visits, end)
    else:
        most = number
        for i in range(len(tile.segments)):
            most += (tile.segments[i, 1] - 1) // dram.row_bytes + 2
        visits = _grown(visits, most)
        for i in range(len(tile.segments)):
            _touch(which + tile.segments[i, 0], tile.segments[i, 1], dram, visits, end)
    return visits, end[_VISITS]


@njit
def _grown(visits: Ints, most: int) -> Ints:
    """Return the visits in an array of at least `most` entries."""
    if most <= len(visits):
        return visits
    grown = np.empty((len(visits) + most, 2), np.int64)
    for i in range(len(visits)):
        grown[i, 0], grown[i, 1] = visits[i, 0], visits[i, 1]
    return grown


@njit
def _touch(start: int, length: int, dram: Dram, visits: Ints, end: Ints) -> None:
    """Access the bytes [start, start + length): add column accesses to the last visit, or further visits.

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
            visits[end[_VISITS], 0], visits[end[_VISITS], 1] = row, 0
            end[_VISITS] += 1
            end[_ADDED] += 1
        visits[end[_VISITS] - 1, 1] += last - column
        column = last
    end[_COLUMN] = stop - 1


@njit
def _touch_window(h: int, w: int, number: int, tile: Tile, dram: Dram, visits: Ints, end: Ints) -> None:
    """Access a window over a row-aligned I, block by block in address order.

    It begins at height `h` and width `w` of the block `number`. Modifies visits and end.
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
            # Contiguous bytes: of one line, of whole lines, or of a whole block and those behind it in the same row.
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
