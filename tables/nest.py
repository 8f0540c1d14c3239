"""The mapping as plain arrays, and what follows from it: extents, tiles, consumers, reuse, axis sets.

Dims are R S P Q C K N G = 0..7, tensors I W O = 0..2, levels PE, global buffer, row buffer, DRAM = 0..3; the MACs,
which hold nothing, are consumer -1.
"""

import itertools
import math
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
#: One number, or many at a time.
Size = TypeVar("Size", int, Ints)

R, S, P, Q, C, K, N, G = range(8)
I, W, O = range(3)  # noqa: E741 - the tensors' names in every equation
MACS, PE, GLOBAL_BUFFER, ROW_BUFFER, DRAM = range(-1, 4)
#: Irrelevant dims of I, W, O.
IRRELEVANT = ((K,), (P, Q, N), (R, S, C))
#: Axes of each tensor's two layouts, outermost first, as the dim that walks the axis (P: width, Q: height).
AXES = (
    ((N, G, C, Q, P), (N, Q, P, G, C)),
    ((G, K, C, S, R), (S, R, C, G, K)),
    ((N, G, K, Q, P), (N, Q, P, G, K)),
)
#: I's filter dim beside each output dim.
FILTER_OF = {P: R, Q: S}
#: The offsets along an axis of a single index.
ORIGIN = np.zeros(1, np.int64)
#: Every tile covers all loops of its level.
EVEN = ((0, 0, 0),) * 4


class LayerShape(NamedTuple):
    """What shape tables depend on: bounds R S P Q C K N G, strides and dilations (width, height)."""

    bounds: tuple[int, ...]
    stride: tuple[int, int]
    dilation: tuple[int, int]


class Nest(NamedTuple):
    """One mapped layer.

    temporal int[4][8] and spatial int[3][8] (H, W, Internal) factors; order: per level the dims with a factor above 1,
    outermost first; stored bool[3][3]; layout index per tensor; block_h, block_w of a row-aligned I; strides and
    dilations (width, height); width_bytes of I, W, O, partial sum; spatial_reduction as in `cost.Machine`; outside
    int[4][3]: so many loops of order[m], outermost first, lie outside the tile of t at m (only ever some of the PEs'
    and the global buffer's, and 0 where the level does not store t).
    """

    temporal: tuple[tuple[int, ...], ...]
    spatial: tuple[tuple[int, ...], ...]
    order: tuple[tuple[int, ...], ...]
    stored: tuple[tuple[bool, ...], ...]
    layout: tuple[int, ...]
    block_h: int
    block_w: int
    stride: tuple[int, int]
    dilation: tuple[int, int]
    width_bytes: tuple[int, int, int, int]
    spatial_reduction: bool = True
    outside: tuple[tuple[int, ...], ...] = EVEN

    def array(self, d: int) -> int:
        """PEs along a dim."""
        return self.spatial[0][d] * self.spatial[1][d]

    def lanes(self, d: int) -> int:
        """Lanes along a dim."""
        return self.spatial[2][d]

    def extent(self, level: int, d: int) -> int:
        """e0, eA*T1, .. of a dim; level DRAM gives the bound (Eq. 22)."""
        e = self.temporal[0][d] * self.lanes(d)
        if level > PE:
            e *= self.array(d)
            for m in range(1, level + 1):
                e *= self.temporal[m][d]
        return e

    def consumers(self, t: int) -> list[int]:
        """Who takes t's elements, outermost first, ending with the MACs: the storing levels below DRAM, then -1."""
        return [m for m in (ROW_BUFFER, GLOBAL_BUFFER, PE) if self.stored[m][t]] + [MACS]

    def stride_dilation(self, d: int) -> tuple[int, int]:
        """Stride and dilation along the axis of P or Q."""
        side = 0 if d == P else 1
        return self.stride[side], self.dilation[side]

    def tile(self, t: int, level: int, d: int) -> int:
        """Extent of a dim in t's tile at a level: that of the level without the loop that its tile does not cover."""
        e = self.extent(level, d)
        return e // self.temporal[level][d] if d in self.order[level][: self.outside[level][t]] else e

    def side(self, t: int, level: int, axis: int) -> int:
        """Extent of t's tile at a level (one PE's at level 0) along an axis; along I's height and width its span."""
        along = self.tile(t, level, axis)
        if t != I or axis not in FILTER_OF:
            return along
        return span(along, self.tile(I, level, FILTER_OF[axis]), *self.stride_dilation(axis))

    def box(self, t: int, level: int) -> int:
        """Elements of t's tile at a level (one PE's at level 0)."""
        return math.prod([self.side(t, level, a) for a in AXES[t][0]])

    def fetch_loops(self, t: int, consumer: int) -> list[tuple[int, int]]:
        """Level and dim of the loops that make a consumer fetch t's tiles, innermost first.

        They lie outside its tile and are not free. Free are irrelevant loops with no relevant loop inside them (outside
        the tile), across levels; at the MACs, which hold nothing, none is.
        """
        own = () if consumer == MACS else self.order[consumer][: self.outside[consumer][t]]
        outside = enumerate((own, *self.order[consumer + 1 :]), consumer)
        loops = [(level, d) for level, dims in outside for d in reversed(dims)]
        if consumer == MACS:
            return loops
        return list(itertools.dropwhile(lambda loop: loop[1] in IRRELEVANT[t], loops))

    def reuse(self, t: int, consumer: int) -> int:
        """How often each tile of t is fetched into a consumer."""
        factor = 1
        for level, d in self.fetch_loops(t, consumer):
            if d in IRRELEVANT[t]:
                factor *= self.temporal[level][d]
        return factor

    def steps(self) -> int:
        """Iterations of all temporal loops (Eq. 34)."""
        return math.prod(map(math.prod, self.temporal))

    def array_step(self) -> int:
        """Steps between which no tile in the PEs changes: iterations of the PE loops inside all of these tiles."""
        return math.prod([self.temporal[PE][d] for d in self.order[PE][max(self.outside[PE]) :]])

    def spilled(self) -> bool:
        """Whether partial sums go to DRAM and come back."""
        return self.reuse(O, self.consumers(O)[0]) > 1 or self.rereads_copies()

    def rereads_copies(self) -> bool:
        """Whether a step that adds its sums in DRAM itself reads back copies of an output that it has just begun."""
        copies = math.prod(self.array(d) * self.lanes(d) for d in IRRELEVANT[O])
        return self.consumers(O)[0] == MACS and copies > 1 and not self.spatial_reduction

    def width(self, t: int, level: int) -> int:
        """Bytes per element of t at a level; partial sums on chip, and in DRAM once they are spilled."""
        if t == O and (level < ROW_BUFFER or self.spilled()):
            return self.width_bytes[3]
        return self.width_bytes[t]


def span(outputs: Size, filters: Size, stride: int, dilation: int) -> Size:
    """Input positions from the first to the last that `outputs` x `filters` touch (Eq. 2)."""
    return stride * (outputs - 1) + dilation * (filters - 1) + 1


def axis_set(nest: Nest, t: int, consumer: int, axis: int) -> Ints:
    """Sorted offsets along an axis of what one fetch into the consumer (one step at the MACs) brings in."""
    if consumer > PE:
        return np.arange(nest.side(t, consumer, axis))
    if t == I and axis in FILTER_OF:
        filters = FILTER_OF[axis]
        stride, dilation = nest.stride_dilation(axis)
        pe_p, pe_r = nest.array(axis), nest.array(filters)
        e0_p, e0_r = nest.extent(PE, axis), nest.extent(PE, filters)
        if consumer == PE:
            inside = np.arange(nest.side(I, PE, axis))
        else:
            inside = _sums(stride, nest.lanes(axis), dilation, nest.lanes(filters))
        return np.unique(np.add.outer(_sums(stride * e0_p, pe_p, dilation * e0_r, pe_r), inside))
    e0 = nest.extent(PE, axis)
    inner = nest.tile(t, PE, axis) if consumer == PE else nest.lanes(axis)
    return _sums(e0, nest.array(axis), 1, inner)


def _sums(step_a: int, count_a: int, step_b: int, count_b: int) -> Ints:
    """All step_a*i + step_b*j, i outermost."""
    if count_a == count_b == 1:
        return ORIGIN
    return np.add.outer(step_a * np.arange(count_a), step_b * np.arange(count_b)).ravel()
