"""Lower bounds on the rows of row-aligned blocks, against all orders of the DRAM's loops."""

import itertools
import math

import numpy as np
import pytest

from tables.bounds.layer import CLASS_OF, LAYER
from tables.bounds.row_aligned import aligned_stream
from tables.dram import Dram
from tables.nest import AXES, O, W

#: Timing does not matter here.
DRAM = Dram(
    row_bytes=8, column_bytes=4, banks=1, is_open=True,
    tRCD=1, tRP=1, tRAS=1, tRC=2, tRTP=1, tCCD=1, RL=1, burst=1,
)  # fmt: skip
ONES = np.ones(8, np.int64)
#: Loops of the DRAM, R S P Q C K N G, outside the blocks.
LOOPS = [(1, 1, 2, 1, 3, 4, 1, 1), (1, 1, 1, 3, 2, 2, 2, 1), (3, 1, 2, 1, 2, 3, 1, 1), (1, 1, 1, 1, 5, 1, 3, 2)]


def opened(t: int, loops: tuple[int, ...], order: tuple[int, ...], layout: int, block: int) -> int:
    """Return the rows that one order opens, by walking all of its iterations."""
    grid = {d: loops[d] for d in AXES[t][layout]}
    per_row, last, held, rows = DRAM.row_bytes // block, -1, None, 0
    for at in itertools.product(*(range(loops[d]) for d in order)):
        index = dict(zip(order, at, strict=True))
        coordinates = [index.get(d, 0) for d in grid]
        if coordinates != held:
            number = 0
            for i, n in zip(coordinates, grid.values(), strict=True):
                number = number * n + i
            held, rows, last = coordinates, rows + (number // per_row != last), number // per_row
    return rows


def layer_of(block: int, filled: int) -> np.ndarray:
    """Return a layer whose elements have `block` bytes, one in each block, and fill `filled` rows."""
    layer = np.zeros(1, LAYER)
    layer["widths"], layer["min_rows"], layer["banks"] = block, filled, 1
    return layer


@pytest.mark.parametrize("block", [2, 4, 8])
@pytest.mark.parametrize("t", [W, O], ids=["W", "O"])
@pytest.mark.parametrize("loops", LOOPS)
def test_rows_of_blocks_are_bounded(loops: tuple[int, ...], t: int, block: int) -> None:
    """In all orders of the DRAM's loops and both layouts. Where a block fills a row the bound is attained."""
    looped = [d for d in range(8) if loops[d] > 1]
    blocks = math.prod(n for d, n in enumerate(loops) if CLASS_OF[d] != t)
    filled = -(-blocks * block // DRAM.row_bytes)
    for innermost in looped:
        orders = [(*rest, innermost) for rest in itertools.permutations(d for d in looped if d != innermost)]
        least = min(opened(t, loops, order, layout, block) for order in orders for layout in range(2))
        is_free = CLASS_OF[innermost] == t
        fetches = 1 if is_free else math.prod(n for d, n in enumerate(loops) if CLASS_OF[d] == t)
        rows, columns, number = aligned_stream(
            layer_of(block, filled)[0], DRAM, t, ONES, np.array(loops), innermost, 1, fetches, ONES
        )
        assert filled <= rows <= least
        assert number == blocks
        assert columns == blocks * (fetches if t == W else 2 * fetches - 1) * -(-block // DRAM.column_bytes)
        if block == DRAM.row_bytes and blocks > 1 and not is_free:
            assert rows == least
