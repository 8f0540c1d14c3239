"""Columns and rows of boxes in layouts, against the addresses of all elements."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.tracesim.array.plans import DRAM
from tracesim.array.areas import Area
from tracesim.array.scan import Count, Layout, scan_box, scan_bytes


def addresses(container: Area, layout: Layout, width: int) -> np.ndarray:
    """Return the first byte of each element of a stored box, int64[N, C, H, W]; -1 is padding of channels."""
    n, c, h, w = (high - low for low, high in (container.n, container.c[0], container.y, container.x))
    padded = -(-c // layout.group) * layout.group
    names = np.full((n, padded, h, w), -1)
    names[:, :c] = np.arange(n * c * h * w).reshape(n, c, h, w)
    grouped = names.reshape(n, padded // layout.group, layout.group, h, w)
    order = (0, 3, 4, 1, 2) if layout.is_channel_last else (0, 1, 3, 4, 2)
    in_memory = grouped.transpose(order).reshape(-1)
    place = np.zeros(n * c * h * w, np.int64)
    held = in_memory >= 0
    place[in_memory[held]] = np.flatnonzero(held)
    return place.reshape(n, c, h, w) * width


ranges = st.tuples(st.integers(0, 3), st.integers(1, 5), st.integers(0, 2), st.integers(0, 2))


def inner_and_outer(drawn: tuple[int, int, int, int]) -> tuple[tuple[int, int], tuple[int, int]]:
    """Return a range, and one around it."""
    low, count, before, behind = drawn
    return (low + before, low + before + count), (low, low + before + count + behind)


@given(
    n=ranges,
    c=ranges,
    y=ranges,
    x=ranges,
    layout=st.builds(Layout, st.booleans(), st.integers(1, 4)),
    width=st.sampled_from((1, 2, 3, 4)),
)
def test_scan_touches_each_column_and_row_of_its_elements_once(
    n: tuple[int, int, int, int],
    c: tuple[int, int, int, int],
    y: tuple[int, int, int, int],
    x: tuple[int, int, int, int],
    layout: Layout,
    width: int,
) -> None:
    """The distinct columns and rows of all bytes of all elements."""
    (n, n_all), (c, c_all), (y, y_all), (x, x_all) = (inner_and_outer(drawn) for drawn in (n, c, y, x))
    box, container = Area(n, (c,), y, x), Area(n_all, (c_all,), y_all, x_all)
    inner = tuple(slice(a - low, b - low) for (a, b), (low, _) in ((n, n_all), (c, c_all), (y, y_all), (x, x_all)))
    first = addresses(container, layout, width)[inner].reshape(-1)
    of_bytes = (first[:, None] + np.arange(width)).reshape(-1)
    expected = Count(*(len(set((of_bytes // unit).tolist())) for unit in (DRAM.column_bytes, DRAM.row_bytes)))
    assert scan_box(box, container, layout, width, DRAM) == expected


@pytest.mark.parametrize(("layout", "columns"), [(Layout(False, 2), 6), (Layout(True, 1), 9), (Layout(False, 1), 8)])
@pytest.mark.parametrize(("y", "x"), [(y, x) for y in range(3) for x in range(3)])
def test_windows_of_nicepim_figure_6(layout: Layout, columns: int, y: int, x: int) -> None:
    """A 3x3 window of two of four 5x5 maps, 4 numbers a column, by counting in the picture.

    In BHWC a column holds the 4 channels of one pixel: 9 pixels, 9 columns. The paper's text exchanges the numbers of
    BCHW and BHWC (docs/array.md, section 4).
    """
    box, maps = Area((0, 1), ((0, 2),), (y, y + 3), (x, x + 3)), Area((0, 1), ((0, 4),), (0, 5), (0, 5))
    dram = DRAM._replace(column_bytes=4, row_bytes=64)
    assert scan_box(box, maps, layout, 1, dram).columns == columns


@given(first=st.integers(0, 99), count=st.integers(0, 99))
def test_bytes_touch_the_columns_and_rows_they_lie_in(first: int, count: int) -> None:
    """By enumeration."""
    found = scan_bytes(first, first + count, DRAM)
    touched = range(first, first + count)
    assert found == Count(len({b // DRAM.column_bytes for b in touched}), len({b // DRAM.row_bytes for b in touched}))
