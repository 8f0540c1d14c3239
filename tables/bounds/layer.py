"""A layer on a machine as the numbers from which tiles are bounded, and what follows from a tile's extents alone."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tables.jit import borrowing_njit
from tables.nest import C, G, I, Ints, K, N, O, P, Q, R, S, W, span

#: The class of each dim: the tensor to which it is irrelevant; 3 for groups, which are relevant to all.
CLASS_OF = (O, O, W, W, O, I, W, 3)
#: The quantities of `tables.bounds.spatial.access_terms`, in the order of `LAYER.coefficients`.
QUANTITIES = ("moved2", "moved1", "moved0", "fills", "held", "uses", "macs", "holders", "sums", "one")
MOVED2, MOVED1, MOVED0, FILLS, HELD, USES, MACS, HOLDERS, SUMS, ONE = range(len(QUANTITIES))
#: Columns of `TileCosts.boxes` per layout: the columns of `tables.bounds.shapes.ShapeTable` with these names.
#: LAYOUT is their number, so from one layout to the other.
BOX_COLUMNS = (
    "first_activations",
    "repeat_activations",
    "rescan_activations",
    "columns",
    "end_cycles",
    "box_activations",
    "swept_repeat_activations",
)
FIRST, REPEAT, RESCAN, COLUMNS, END, BOX, SWEPT_REPEAT = range(len(BOX_COLUMNS))
LAYOUT = len(BOX_COLUMNS)
#: Resources whose use is bounded: energy, then up to five ports (reads and writes of the PEs and of the global buffer,
#: the interconnect). ENERGY is the first, RESOURCES their largest number.
ENERGY, RESOURCES = 0, 6
#: Column of `LAYER.capacity` for the tiles of all tensors; those before it are for the tile of one.
TOGETHER = 3
#: More than any trial bound: the cost of what does not exist.
INFINITE_COST = 2**62 + 1


#: `tables.nest.span` for kernels.
_span = borrowing_njit(span)
#: One record of a structured array. Kernels read its fields as attributes.
Record = Any
#: A layer on a machine: the numbers whose count does not depend on the layer, as one record.
#:
#: - `bounds`, `stride`, `dilation`; `counts`: number of divisors of each bound.
#: - `resources`: how many are in use. `coefficients` [resource, tensor, stored by the PEs, buffers, quantity]: fJ or
#:   bytes per element. *buffers* is a number: 2 if the global buffer stores the tensor, plus 1 if the row buffer does.
#:   `is_offered` [tensor, stored by the PEs, buffers]: which of these stored sets the machine allows.
#: - `rates` [resource]: bytes, in so many cycles, number of ports that tensors share, whether each PE has ports of its
#:   own.
#: - `sum_rates` [global buffer, row buffer][read, write]: bytes, in so many cycles, at which the level gives and takes
#:   partial sums; 0 bytes without a limit.
#: - `strides` [tensor, dim]: rows of `TileCosts.boxes` from one divisor to the next. `open_level` [n]: the entry of
#:   `TileCosts.open_boxes` for boxes whose extents of the first n dims are open.
#: - `dram`: cycles of a column, cycles of a row miss, cycles of the last run beyond another (`last_run_excess`), fewest
#:   cycles of a first scan, pipeline latency in cycles, bytes of a column. `row_bytes`: of a row.
#: - `is_linked` [tensor]: whether its scans and those of others follow each other, over a bus or in a bank that they
#:   share. `most_fetched`: the tensor of a shared bank that no fewer loops fetch than any other one there; -1 if it may
#:   be any. `is_beside` [tensor]: whether it is another one of its bank.
#: - `banks` [tensor]: how many it has. `min_rows`, `min_columns` [tensor]: lower bounds on activations and column
#:   accesses of a stream.
#: - `capacity` [PE, global buffer, row buffer][I, W, O, TOGETHER] in bytes: for the tile of each tensor, and for the
#:   tiles of all tensors together. `widths` [tensor][the same three levels, DRAM at least]: bytes per element.
#: - `needed` [tensor]: elements that MACs use; `depth`: product of the bounds of C, N and G, by which I's positions are
#:   multiplied. `activation_fj`: of one row activation. `is_double` [PE, global buffer]: whether it has two slots.
#: - `adds_up`: whether partial sums of lanes and PEs are added on their way to a memory.
LAYER = np.dtype([
    ("bounds", np.int64, 8), ("stride", np.int64, 2), ("dilation", np.int64, 2), ("counts", np.int64, 8),
    ("resources", np.int64), ("coefficients", np.int64, (RESOURCES, 3, 2, 4, len(QUANTITIES))),
    ("is_offered", np.int64, (3, 2, 4)), ("rates", np.int64, (RESOURCES, 4)),
    ("sum_rates", np.int64, (2, 2, 2)), ("strides", np.int64, (3, 8)), ("open_level", np.int64, 9),
    ("dram", np.int64, 6), ("row_bytes", np.int64), ("is_linked", np.int64, 3), ("most_fetched", np.int64),
    ("is_beside", np.int64, 3), ("banks", np.int64, 3), ("min_rows", np.int64, 3), ("min_columns", np.int64, 3),
    ("activation_fj", np.int64),
    ("capacity", np.int64, (3, 4)), ("widths", np.int64, (3, 4)), ("needed", np.int64, 3), ("depth", np.int64),
    ("is_double", np.int64, 2), ("adds_up", np.int64),
])  # fmt: skip


class TileCosts(NamedTuple):
    """A layer on a machine: one `LAYER` record, and tables whose size depends on the layer.

    - `divisors` int[8, n]: of each bound, ascending, filled up with 1. `places` int[8, largest bound + 1]: the column
      of `divisors` that holds a number.
    - `points`, `arrays` int[2 axes P and Q, kinds, n + 1, n + 1]: positions of I along the axis that all steps use, and
      that all array tiles cover. Indices: kind of spatial mapping, divisor for T0 of the axis, divisor for T0 of its
      filter dim. The last row and column are the minima over all T0 of the axis and of the filter dim.
    - `boxes` int[3 tensors, boxes, 14]: `BOX_COLUMNS` of the shape tables, layout by layout.
    - `open_boxes` int[levels, 3, boxes, 14]: minima of these over all boxes whose extents are multiples along the first
      dims and equal along the others (`LAYER`: `open_level`). The first entry is `boxes`.
    """

    layer: NDArray[np.void]
    divisors: Ints
    places: Ints
    points: Ints
    arrays: Ints
    boxes: Ints
    open_boxes: Ints


@borrowing_njit
def elements_of(t: int, e: Ints, layer: Record) -> int:
    """Return the elements of a tensor's tile with the extents `e` int[8] (Eq. 22)."""
    if t == W:
        return int(e[R] * e[S] * e[C] * e[K] * e[G])
    if t == O:
        return int(e[P] * e[Q] * e[K] * e[N] * e[G])
    width = _span(e[P], e[R], layer.stride[0], layer.dilation[0])
    return int(width * _span(e[Q], e[S], layer.stride[1], layer.dilation[1]) * e[C] * e[N] * e[G])


@borrowing_njit
def positions_of(side: int, p: int, most_p: int, r: int, most_r: int, layer: Record) -> int:
    """Return a lower bound on the positions of I along an axis (side 0: W, 1: H), summed over all of its tiles.

    The extents are p to `most_p` outputs and r to `most_r` filters. The sum is linear in the inverse of either extent,
    so its minimum is at one of the four corners.
    """
    minimum = INFINITE_COST
    for outputs in (p, most_p):
        for filters in (r, most_r):
            tiles = (layer.bounds[P + side] // outputs) * (layer.bounds[side] // filters)
            minimum = min(minimum, tiles * _span(outputs, filters, layer.stride[side], layer.dilation[side]))
    return minimum
