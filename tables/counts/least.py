"""Activations and cycles that a stream takes at least, by the rows that its loops pass over: without a walk."""

from tables.counts.visits import SEQUENTIAL, Tile
from tables.dram import Dram, row_miss
from tables.jit import njit
from tables.nest import Ints


@njit
def least_activations(loops: Ints, steps: Ints, tile: Tile, dram: Dram) -> int:
    """Return the fewest activations of a stream; 0 where nothing is claimed (several banks, row-aligned tensors).

    Each iteration of the loops outside a loop passes over all rows of those from it on, and each scan over those of its
    tile. One of these may be open when it begins. `loops`, `steps`, `tile`: as in `tables.counts.walk.walk_stream`.
    """
    if tile.mode != SEQUENTIAL or dram.banks > 1:
        return 0
    least, outside = 0, 1
    for first in range(loops.shape[0]):
        least = max(least, outside * (_least_rows(loops[first:, 0], steps[first:, 0], dram.row_bytes) - 1) + 1)
        outside *= loops[first, 0]
    return max(least, outside * (_rows_of_tile(tile.segments[:, 0], dram.row_bytes) - 1) + 1)


@njit
def _rows_of_tile(starts: Ints, row_bytes: int) -> int:
    """Return how many rows a scan visits at least, wherever its tile begins: those of starts int[n], rising, that lie
    at least a row apart.
    """
    rows, last = 1, starts[0]
    for start in starts:
        if start - last >= row_bytes:
            rows, last = rows + 1, start
    return rows


@njit
def _least_rows(factors: Ints, strides: Ints, row_bytes: int) -> int:
    """Return how many rows some loops pass over at least, wherever they begin.

    From the shortest stride on: as long as a stride is at most a row longer than what the loops before it span, no row
    in between is skipped. Then, where it is at least a row longer, each iteration passes over other rows; else the loop
    is left out. `factors`, `strides` int[m]: iterations, and bytes from one to the next.
    """
    span, rows, last, is_dense = 0, 1, 0, True
    while True:
        stride, factor = 0, 1
        for i in range(len(strides)):  # the next longer stride; of equal ones the first: that claims no more
            if strides[i] > last and (stride == 0 or strides[i] < stride):
                stride, factor = strides[i], factors[i]
        if stride == 0:
            return rows
        last = stride
        if is_dense and stride <= span + row_bytes:
            span += (factor - 1) * stride
            rows = span // row_bytes + 1
        elif stride >= span + row_bytes:
            is_dense = False
            span += (factor - 1) * stride
            rows *= factor


@njit
def least_cycles(columns: int, activations: int, dram: Dram) -> int:
    """Return the fewest cycles of a stream of at least so many columns and activations (docs/solver.md, B8). If a row
    miss takes less than no time, as columns follow each other so slowly, each column may have a row of its own.
    """
    excess, miss = dram.RL + dram.burst - dram.tRTP - dram.tRP, row_miss(dram)
    return columns * dram.tCCD + (activations if miss > 0 else columns) * miss + min(0, excess)
