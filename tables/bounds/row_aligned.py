"""Lower bounds on the stream of one row-aligned tensor, given the DRAM's loops and the dim of the innermost one."""

import numpy as np

from tables.bounds.layer import CLASS_OF, INFINITE_COST, Record
from tables.dram import Dram
from tables.jit import njit
from tables.nest import AXES, C, G, I, Ints, K, N, O, P, Q, R, S

#: int[tensor, layout, dim]: the place of the dim among the layout's axes, outermost first; -1 if it is no axis.
_AXES = np.array([[[axes.index(d) if d in axes else -1 for d in range(8)] for axes in of] for of in AXES])


@njit
def aligned_stream(layer: Record, dram: Dram, t: int, e: Ints, loops: Ints, innermost: int, size: int, fetches: int,
                   window: Ints) -> tuple[int, int, int]:  # fmt: skip
    """Bound the stream of a row-aligned tensor; `size`: elements of each block (of I: of each window).

    `e`, `loops` int[8]: extents inside the DRAM's loops, and these loops; `innermost`: dim of the innermost one.
    `fetches`: of each block. `window` int[2]: rows that one pass over the windows opens, in any order and with an
    innermost C.

    Returns a lower bound on the rows, the column accesses, and the number of blocks.
    """
    blocks, number, rows = 1, size * layer.widths[t, 3], layer.min_rows[t]
    for d in range(8):
        blocks *= loops[d] if CLASS_OF[d] != t else 1
    scans = blocks * (fetches if t != O else 2 * fetches - 1)
    columns = scans * (-(-number // dram.column_bytes))
    if not dram.is_open:
        rows = max(rows, blocks * fetches * (-(-number // dram.row_bytes)))
    elif layer.banks[t] == 1 and t == I:
        rows = max(rows, fetches * window[int(innermost == C and loops[C] > 1)])
        outputs = e[P] * e[Q] * e[C] * e[N] * e[G] * (loops[innermost] if innermost not in (R, S, K) else 1)
        overlaps = max(layer.bounds[R], layer.bounds[S]) > 1
        is_large = number > (dram.row_bytes if overlaps else dram.row_bytes // 2)
        if is_large or outputs * layer.widths[t, 3] > dram.row_bytes:
            rows = max(rows, layer.min_rows[t] * fetches)
    elif layer.banks[t] == 1 and layer.widths[t, 2] == layer.widths[t, 3]:
        rows = max(rows, _block_rows(dram, t, loops, innermost, number, fetches, rows))
    return rows, columns, blocks


@njit
def _block_rows(dram: Dram, t: int, loops: Ints, innermost: int, size: int, fetches: int, filled: int) -> int:
    """Return a lower bound on the rows that W or O opens in one bank with open pages.

    Each block has `size` bytes and is fetched `fetches` times. `loops` int[8]: those of the DRAM; `innermost`: dim of
    the innermost one; `filled`: rows that all blocks fill. The innermost loop goes over its blocks in ascending order.
    What it sweeps begins at its lowest block and ends at its highest one. If these lie in two rows, every repetition
    opens every row (docs/model.md, section 8).
    """
    per_row, blocks, step = max(1, dram.row_bytes // size), 1, INFINITE_COST
    swept = loops[innermost] if CLASS_OF[innermost] != t else 1
    for d in range(8):
        blocks *= loops[d] if CLASS_OF[d] != t else 1
    if per_row == 1 and blocks > 1:
        return int(blocks * fetches * (-(-size // dram.row_bytes)))
    for layout in range(2):  # the step of the innermost loop in block numbers
        inside = 1
        for d in range(8):
            inside *= loops[d] if _AXES[t, layout, d] > _AXES[t, layout, innermost] else 1
        step = min(step, inside)
    crossed = swept - 1 if step >= per_row else (swept - 1) * step // per_row
    rows = max(-(-blocks // per_row) * (-(-size // dram.row_bytes)), blocks // swept * fetches * crossed)
    return int(max(rows, filled * fetches) if size * swept > dram.row_bytes else rows)
