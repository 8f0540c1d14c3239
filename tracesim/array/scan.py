"""DRAM columns and rows that a scan of a box touches, by walking its runs in order of address (section 4)."""

from typing import NamedTuple

import numpy as np

from tracesim.array.areas import Area, box_around, boxes
from tracesim.array.records import Dram, Home, Ints
from tracesim.jit import kernel


class Layout(NamedTuple):
    """The order of a stored box: BHWC[Cn] if `is_channel_last`, else BCHW[Cn], n = `group`."""

    is_channel_last: bool
    group: int


class Count(NamedTuple):
    """Columns and activations of scans."""

    columns: int
    activations: int


NOTHING = Count(0, 0)


def layout_of(home: Home) -> Layout:
    """Return the layout of a home."""
    return Layout(bool(home.is_channel_last), int(home.group))


def scan_area(part: Area, container: Area, layout: Layout, width_bytes: int, dram: Dram) -> Count:
    """Return what it takes to scan a part, box by box, each in the box of the container in which it lies."""
    columns = activations = 0
    for box in boxes(part):
        counted = scan_box(box, box_around(box, container), layout, width_bytes, dram)
        columns, activations = columns + counted.columns, activations + counted.activations
    return Count(columns, activations)


def scan_box(box: Area, container: Area, layout: Layout, width_bytes: int, dram: Dram) -> Count:
    """Return the distinct columns and rows of a box in a stored box whose first element is at the start of a row.

    Channels lie in groups: N, C / group, H, W, group. BHWC is that order with one group of all channels, padded.
    """
    (low, high), (first, last) = box.c[0], container.c[0]
    padded = -(-(last - first) // layout.group) * layout.group
    group = padded if layout.is_channel_last else layout.group
    origin = (container.n[0], first, container.y[0], container.x[0])
    ranges = np.array([box.n, (low, high), box.y, box.x], np.int64) - np.array(origin, np.int64)[:, None]
    extent = np.array(
        [padded // group, container.y[1] - container.y[0], container.x[1] - container.x[0], group], np.int64
    )
    found = scan_runs(ranges, extent, width_bytes, dram.column_bytes, dram.row_bytes)
    return Count(int(found[0]), int(found[1]))


def scan_bytes(first: int, behind: int, dram: Dram) -> Count:
    """Return the columns and rows of the bytes [first, behind)."""
    if first >= behind:
        return NOTHING
    return Count(*((behind - 1) // unit - first // unit + 1 for unit in (dram.column_bytes, dram.row_bytes)))


@kernel
def scan_runs(ranges: Ints, extent: Ints, width_bytes: int, column_bytes: int, row_bytes: int) -> tuple[int, int]:
    """Return the distinct columns and rows of a box.

    `ranges` int64[4, 2]: the box along N, C, H, W, from the container's first element. `extent` int64[4]: the
    container's groups of channels, H, W, and channels of a group.
    """
    groups, height, width, group = extent
    columns, rows, last_column, last_row = 0, 0, -1, -1
    for n in range(ranges[0, 0], ranges[0, 1]):
        for outer in range(ranges[1, 0] // group, (ranges[1, 1] - 1) // group + 1):
            low = max(ranges[1, 0] - outer * group, 0)
            high = min(ranges[1, 1] - outer * group, group)
            # Whole groups of channels of neighbouring pixels lie behind each other: one run a line.
            step = ranges[3, 1] - ranges[3, 0] if high - low == group else 1
            for y in range(ranges[2, 0], ranges[2, 1]):
                for x in range(ranges[3, 0], ranges[3, 1], step):
                    pixel = (((n * groups + outer) * height + y) * width + x) * group
                    first, last = (pixel + low) * width_bytes, (pixel + (step - 1) * group + high) * width_bytes - 1
                    columns += max(0, last // column_bytes - max(first // column_bytes, last_column + 1) + 1)
                    rows += max(0, last // row_bytes - max(first // row_bytes, last_row + 1) + 1)
                    last_column, last_row = last // column_bytes, last // row_bytes
    return columns, rows
