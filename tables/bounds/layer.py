"""A layer's figures on a machine by which tiles are bounded, and what the extents of a tile say by themselves."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tables.jit import njit
from tables.nest import C, G, I, Ints, K, N, O, P, Q, R, S, W, span

#: The class of each dim: the tensor that it does not move; groups move all.
CLASS_OF = (O, O, W, W, O, I, W, 3)
#: The quantities of `tables.bounds.spatial.access_terms` in the order of coefficients.
QUANTITIES = ("moved2", "moved1", "moved0", "fills", "held", "uses", "macs", "holders", "sums", "one")
MOVED2, MOVED1, MOVED0, FILLS, HELD, USES, MACS, HOLDERS, SUMS, ONE = range(len(QUANTITIES))
#: Columns of `TileCosts.boxes`: those of the shape tables with these names; and from one layout to the other.
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
#: The figures of `coefficients`, at most: energy, then two ports each of PEs and global buffer, and links of PEs.
ENERGY, RESOURCES = 0, 6
#: More than any target.
INFINITE_COST = 2**62 + 1


#: Positions of I along an axis, for kernels.
_span = njit(span)
#: A record as kernels see it: its fields are attributes.
Record = Any
#: A layer on a machine, by numbers of which there are always as many: passed as one record, they cost a kernel nothing.
#:
#: `counts` divisors of each bound. `figures` in use: `coefficients` fJ, and bytes on each of up to five ports, per
#: tensor, whether PEs and (`kept`) global (2) and row buffer (1) store it, and quantity; `is_offered` which of these
#: stored sets there are; `paces` of ports: bytes in so many cycles, how many ports tensors share, whether each PE has
#: its own. `strides`: where a tensor's box is found. `dram` cycles: of a column, of a row miss, what a stream's end
#: adds, of a first scan at least, and the pipeline's latency; then bytes of a column. `capacity`: bytes of the three
#: levels; `widths` in bytes per element there, and at least in DRAM; `needed` elements, I's in `depth` of C, N and G;
#: `min_rows` and `min_columns` of streams.
LAYER = np.dtype([
    ("bounds", np.int64, 8), ("stride", np.int64, 2), ("dilation", np.int64, 2), ("counts", np.int64, 8),
    ("resources", np.int64), ("coefficients", np.int64, (RESOURCES, 3, 2, 4, len(QUANTITIES))),
    ("is_offered", np.int64, (3, 2, 4)), ("rates", np.int64, (RESOURCES, 4)), ("strides", np.int64, (3, 8)),
    ("dram", np.int64, 6), ("min_rows", np.int64, 3), ("min_columns", np.int64, 3), ("activation_fj", np.int64),
    ("capacity", np.int64, 3), ("widths", np.int64, (3, 4)), ("needed", np.int64, 3), ("depth", np.int64),
])  # fmt: skip


class TileCosts(NamedTuple):
    """A layer on a machine: one `LAYER`, and tables.

    `divisors` int[8, n] of each bound (1 beyond `counts` of them) and `places` int[8, bound + 1], where they stand.
    `points`, `arrays` int[2, kinds, n + 1, n + 1] per axis P and Q: positions of I along it that steps use, and that
    array tiles cover, per kind of spatial vector and T0 of the axis and its filter dim, the least in the last place.
    `boxes` int[3, boxes, 14]: shape tables, layout by layout.
    """

    layer: NDArray[np.void]
    divisors: Ints
    places: Ints
    points: Ints
    arrays: Ints
    boxes: Ints


@njit
def elements_of(t: int, e: Ints, layer: Record) -> int:
    """Of a tensor's tile with these extents (Eq. 22)."""
    if t == W:
        return int(e[R] * e[S] * e[C] * e[K] * e[G])
    if t == O:
        return int(e[P] * e[Q] * e[K] * e[N] * e[G])
    width = _span(e[P], e[R], layer.stride[0], layer.dilation[0])
    return int(width * _span(e[Q], e[S], layer.stride[1], layer.dilation[1]) * e[C] * e[N] * e[G])


@njit
def positions_of(side: int, p: int, most_p: int, r: int, most_r: int, layer: Record) -> int:
    """Positions of I along an axis in all its tiles, at least, for extents of so many outputs and filters up to so many
    more: in the inverse of both it is linear.
    """
    least = INFINITE_COST
    for outputs in (p, most_p):
        for filters in (r, most_r):
            tiles = (layer.bounds[P + side] // outputs) * (layer.bounds[side] // filters)
            least = min(least, tiles * _span(outputs, filters, layer.stride[side], layer.dilation[side]))
    return least
