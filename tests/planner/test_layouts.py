"""Layouts of tensors at home: groups of channels innermost."""

from itertools import product

import numpy as np
import pytest

from cpsat_pim.planner.partition import layout_code
from cpsat_pim.planner.space import Space
from tables.array.counts import Grid, new_memo, scan

#: Four 5x5 maps of one-byte numbers, four in a column; a row holds them all.
FIGURE_6 = Grid(1, 1, False, 1, 4, 128, new_memo(16))
WITHIN = np.array([0, 1, 0, 4, 0, 5, 0, 5])


@pytest.mark.parametrize("corner", [(0, 0), (1, 0), (2, 2)])
@pytest.mark.parametrize(("layout", "columns"), [("BCHW[C2]", 6), ("BCHW", 8), ("BHWC", 9)])
def test_columns_of_a_window_are_those_of_figure_6(layout, columns, corner):
    """NicePIM, figure 6: the 3x3 window of the first two channels, wherever it lies."""
    y, x = corner
    box = np.array([0, 1, 0, 2, y, y + 3, x, x + 3])
    if layout == "BCHW":  # three lines of three in each of two maps: some lie in one column, by where they begin
        starts = [25 * c + 5 * (y + i) + x for c in range(2) for i in range(3)]
        columns = len({(start + j) // 4 for start in starts for j in range(3)})
    if layout == "BCHW[C2]":
        starts = [10 * (y + i) + 2 * x for i in range(3)]
        columns = len({(start + j) // 4 for start in starts for j in range(6)})
    assert scan(FIGURE_6, box, WITHIN, layout_code(layout), 1)[0] == columns


def test_columns_are_those_of_all_addresses():
    """Boxes with parts of groups: every element's address by the formula of the page, in sets."""
    chance = np.random.default_rng(6)
    for _ in range(300):
        extents, group = chance.integers(1, 6, 4), int(chance.integers(2, 5))
        low = chance.integers(0, extents)
        high = low + 1 + chance.integers(0, extents - low)
        first = chance.integers(0, 3, 4)  # where the larger box begins
        box = np.stack([first + low, first + high], -1).reshape(-1)
        within = np.stack([first, first + extents], -1).reshape(-1)
        for layout in (f"BCHW[C{group}]", f"BHWC[C{group}]"):
            ranges = (range(a, b) for a, b in zip(low, high, strict=True))
            places = {_address(layout[:4], group, extents, *place) for place in product(*ranges)}
            found = scan(FIGURE_6, box, within, layout_code(layout), 2)
            assert found[0] == len({2 * place // 4 for place in places}), (layout, box, within)


def _address(order, group, extents, n, c, y, x):
    """Element of a box with groups of channels innermost, C padded to whole groups."""
    _, channels, height, width = (int(extent) for extent in extents)
    groups, outer, inner = -(-channels // group), c // group, c % group
    if order == "BCHW":
        return (((n * groups + outer) * height + y) * width + x) * group + inner
    return (((n * height + y) * width + x) * groups + outer) * group + inner


@pytest.mark.parametrize("layouts", [["BCWH"], ["BCHW[C0]"], ["BCHW", "BCHW"], ["BCHW[2]"], []])
def test_other_layouts_are_refused(layouts):
    """One line that says what they look like."""
    with pytest.raises(ValueError, match=r"Space.layouts: must be different ones of BCHW and BHWC, alone or"):
        Space(layouts=layouts)
