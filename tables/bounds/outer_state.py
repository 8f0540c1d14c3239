"""Bounds of the DRAM's loops (`tables.bounds.outer_loops`): what they consist of, and the state while one is made."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tables.bounds.layer import (
    CLASS_OF,
    LAYOUT,
    TOGETHER,
    Record,
    TileCosts,
    elements_of,
)
from tables.dram import Dram, last_run, period
from tables.jit import njit
from tables.nest import Ints

#: The cases of `tables.bounds.outer_loops`: the three classes, and NONE_FREE.
CASES = 4
NONE_FREE = 3
#: No tensor (`DramLoopBounds.linked`).
NONE_LEFT_OUT = 3
#: Bounds are kept in single precision, rounded down by this factor. INFINITE is more than any of them.
_ROUNDED_DOWN, INFINITE = 1 - 1e-6, 3e38

Floats = NDArray[np.float32]

#: The working state: extents inside the DRAM's loops, and what streams take. It is one record for the reason given at
#: `tables.bounds.tile_state.TILE_STATE`.
STREAM_STATE = np.dtype([
    # Of the layer, per tensor: fJ of fetching all of it once to the row buffer, and to the global buffer.
    ("fetch_fj", np.int64, 3), ("fill_fj", np.int64, 3),
    # Extents, and DRAM loops outside them, per dim; products of these loops per class: the fetches of each tile of that
    # tensor if none is free; elements of each tensor's tile.
    ("e", np.int64, 8), ("loops", np.int64, 8), ("fetches", np.int64, 4), ("size", np.int64, 3),
    # With some innermost loop, `free` being its class. Per tensor if it is row-aligned: cycles of its stream, and fJ
    # beyond fetching it once. If it is not, for cases 0 to 2 and for NONE_FREE: rows per layout, and cycles.
    ("free", np.int64), ("cycles", np.int64, 3), ("refetch_fj", np.float64, 3), ("sequential_rows", np.int64, (2, 3,
    2)), ("sequential_cycles", np.int64, (2, 3)),
    # The entries of `DramLoopBounds` for the extents, and each tensor's row of `TileCosts.boxes`.
    ("min_cycles", np.float32, (CASES, 8)), ("linked", np.float32, (CASES, 8, 4)), ("min_fj", np.float32, (CASES, 8)),
    ("min_rows", np.float32, (CASES, 8, 3, 2)), ("refill_fj", np.float32, (8, 3)), ("boxes", np.int64, (3, 2 * LAYOUT)),
])  # fmt: skip


class DramLoopBounds(NamedTuple):
    """Lower bounds for all n tiles of the global buffer; `strides` int[8] gives the index of a tile from its divisors.

    Per case, set of row-aligned tensors (bit t) and tile:

    - `cycles` float32[4, 8, n]: of the longest stream. `linked` [4, 8, 4, n]: of all streams over a link that tensors
      share, but those of one tensor that is left out (the last ones are of all); [4, 8, 0, n] where they share none.
      `fj` [4, 8, n]: of row-aligned tensors, beyond fetching each once and opening the rows that it fills. `rows` [4,
      8, 3, 2, n]: of each other tensor, per layout.
    - `refill_fj` [8, 3, n]: `fj` of NONE_FREE, and what it takes to bring another tensor to the global buffer as often
      as the DRAM's loops say. `fill_fj` int[3]: what it takes to bring all of a tensor there once.

    Per set of tensors that the global buffer (bit t) and the row buffer (bit 3 + t) store, float32[64, n], for the tile
    and all larger ones; entry 0 is the minimum over all sets:

    - `stored_cycles`: of the longest stream. `stored_fj`: of fetching tiles more than once.
    """

    cycles: Floats
    linked: Floats
    fj: Floats
    rows: Floats
    refill_fj: Floats
    fill_fj: Ints
    stored_cycles: Floats
    stored_fj: Floats
    strides: Ints


@njit
def set_extents(x: Record, costs: TileCosts, strides: Ints, i: int) -> None:
    """Take the i-th extents. Modifies x: e, loops, fetches, size."""
    layer, x.fetches[:] = costs.layer[0], 1
    for d in range(8):
        x.e[d] = costs.divisors[d, i // strides[d] % layer.counts[d]]
        x.loops[d] = layer.bounds[d] // x.e[d]
        x.fetches[CLASS_OF[d]] *= x.loops[d]
    for t in range(3):
        x.size[t] = elements_of(t, x.e, layer)


@njit
def fits(x: Record, layer: Record, level: int, stored: int) -> bool:
    """Return whether a level has room for the tiles of a set of tensors (bit t)."""
    used, fits = 0, True
    for t in range(3):
        tile = (stored >> t & 1) * x.size[t] * layer.widths[t, level]
        used, fits = used + tile, fits and tile <= layer.capacity[level, t]
    return bool(fits and used <= layer.capacity[level, TOGETHER])


@njit
def lower(bounds: Floats, i: int, value: float) -> None:
    """Set the i-th bound to a value if that is smaller, rounded down to single precision. Modifies bounds."""
    bounds[i] = min(bounds[i], max(0.0, value * _ROUNDED_DOWN))


@njit
def min_stream_cycles(layer: Record, dram: Dram, columns: int, rows: int) -> int:
    """Return a lower bound on the cycles of a stream with these columns and rows (`cpsat_pim.mapper.model.streams`)."""
    column, miss, excess = layer.dram[0], layer.dram[1], layer.dram[2]
    return int(max(column * columns + miss * rows + excess, period(1, dram) * (rows - 1) + last_run(1, dram)))
