"""Lower bounds on the rows that windows over a row-aligned input open: valid for any order, layout and blocks."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tables.bounds.windows import block_sides, window_rows
from tables.counts.stream import dram_stream
from tables.dram import Dram
from tables.factors import divisors
from tables.nest import IRRELEVANT, ROW_BUFFER, C, G, I, K, LayerShape, N, Nest, P, Q, R, S, span
from tests.tables.nests import build_dram

ONES = (1,) * 8


def counted(shape: LayerShape, dram: Dram, extents: tuple[int, ...]) -> tuple[int, int]:
    """Return the bounds for windows of these extents of R, S, P, Q, C, N, G: any order, and with C innermost."""
    rows = window_rows(shape, 1, dram, 2**20)
    (found,) = rows[(rows[:, :7] == extents).all(axis=1)]
    return int(found[7]), int(found[8])


@pytest.mark.parametrize(("is_open", "in_any_order", "channels_innermost"), [(True, 2, 4), (False, 6, 6)])
def test_rows_of_a_few_windows(is_open: bool, in_any_order: int, channels_innermost: int) -> None:
    """Three positions of two channels in rows of two bytes, windows of two positions, a channel at a time.

    Blocks of one position, channel by channel: windows 0-1, 1-2, 3-4, 4-5 lie in 1, 2, 2, 1 rows; with both channels
    side by side in two rows each. Blocks of two fill a row: 0, 0-1 of either channel are 1 and 2. So the minimum is six
    rows. Each window may find one of them open, with C innermost only the first of two windows at the same place.
    """
    shape = LayerShape((2, 1, 2, 1, 2, 1, 1, 1), (1, 1), (1, 1))
    found = counted(shape, build_dram(2, is_open), (2, 1, 1, 1, 1, 1, 1))
    assert found == (in_any_order, channels_innermost)


def test_several_banks_have_no_bound() -> None:
    """Each bank has an open row, so the argument does not hold."""
    assert not len(window_rows(LayerShape((2, 1, 2, 1, 2, 1, 1, 1), (1, 1), (1, 1)), 1, build_dram(2, True, 2), 64))


@st.composite
def nests(draw: st.DrawFn) -> tuple[LayerShape, Nest]:
    """A row-aligned input within loops of the DRAM in any order; all other loops lie inside its tile."""
    most = {R: 3, S: 3, P: 6, Q: 6, C: 6, K: 2, N: 2, G: 2}
    bounds = tuple(draw(st.sampled_from(range(1, most[d] + 1))) for d in range(8))
    pitches = st.tuples(st.integers(1, 2), st.integers(1, 2))
    shape = LayerShape(bounds, draw(pitches), draw(pitches))
    outer = tuple(draw(st.sampled_from(divisors(n))) for n in bounds)
    inner = tuple(n // o for n, o in zip(bounds, outer, strict=True))
    order = tuple(draw(st.permutations([d for d in range(8) if outer[d] > 1])))
    return shape, Nest(
        temporal=(inner, ONES, ONES, outer),
        spatial=(ONES,) * 3,
        order=(tuple(d for d in range(8) if inner[d] > 1), (), (), order),
        stored=((False,) * 3, (False,) * 3, (True, False, False)),
        layout=(0, 0, 0),
        block_h=0,
        block_w=0,
        stride=shape.stride,
        dilation=shape.dilation,
        width_bytes=(1, 1, 1, 1),
    )


@given(nests(), st.sampled_from([2, 4, 8, 16, 32, 64]), st.booleans())
def test_bounds_hold_for_any_stream(case: tuple[LayerShape, Nest], row_bytes: int, is_open: bool) -> None:
    """Whatever the layout and the blocks."""
    (shape, nest), dram = case, build_dram(row_bytes, is_open)
    extents = [nest.extent(ROW_BUFFER, d) for d in range(8)]
    any_order, channels_innermost = counted(shape, dram, tuple(extents[d] for d in (R, S, P, Q, C, N, G)))
    assert K in IRRELEVANT[I]
    order = nest.order[3]
    bound = channels_innermost if order and order[-1] == C else any_order
    sides = []
    for side, (axis, filters) in enumerate([(P, R), (Q, S)]):
        pitch = shape.stride[side], shape.dilation[side]
        size, window = (span(n[axis], n[filters], *pitch) for n in (shape.bounds, extents))
        sides.append(block_sides(size, shape.stride[side], window, extents[axis]))
    for layout, block_w, block_h in itertools.product(range(2), *sides):
        placed = nest._replace(layout=(layout, 0, 0), block_h=block_h, block_w=block_w)
        assert dram_stream(placed, I, dram).activations >= bound * nest.reuse(I, ROW_BUFFER)


def test_windows_beyond_the_capacity_are_excluded() -> None:
    """Four positions exceed three bytes."""
    rows = window_rows(LayerShape((1, 1, 4, 1, 1, 1, 1, 1), (1, 1), (1, 1)), 1, build_dram(8, True), 3)
    assert np.array_equal(rows[:, 2], [1, 2])
