"""The mapping as plain tuples, and what follows from it: extents, tiles, consumers, reuse, axis sets.

Numbers stand for names: dims R S P Q C K N G = 0..7, tensors I W O = 0..2, levels PE, global buffer, row buffer,
DRAM = 0..3.

Terms that the whole package uses:

- *consumer* of a tensor: a level that takes its tiles from the next outer level that stores it. The innermost consumer
  are the MACs (-1). They store nothing.
- *fetch*: one tile taken in by a consumer.
- *free loop* of a tensor and a consumer: an irrelevant loop outside the tile with no relevant loop between itself and
  the tile. It names the same tile in each iteration, so it causes no fetch.
- *class* of a dim: the tensor to which the dim is irrelevant. Groups have no class.
"""

import functools
import itertools
import math
from collections.abc import Callable
from operator import mul
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
#: One number or an array of them.
Size = TypeVar("Size", int, Ints)

R, S, P, Q, C, K, N, G = range(8)
I, W, O = range(3)  # noqa: E741 - the tensors' names in every equation
MACS, PE, GLOBAL_BUFFER, ROW_BUFFER, DRAM = range(-1, 4)
#: Irrelevant dims of I, W, O.
IRRELEVANT = ((K,), (P, Q, N), (R, S, C))
#: Axes of each tensor's two layouts, outermost first. An axis is named by its dim (of I, P is the width, Q the height).
AXES = (
    ((N, G, C, Q, P), (N, Q, P, G, C)),
    ((G, K, C, S, R), (S, R, C, G, K)),
    ((N, G, K, Q, P), (N, Q, P, G, K)),
)
#: The filter dim that moves along the same axis of I as an output dim.
FILTER_OF = {P: R, Q: S}
#: The axis set of a tile with one index along an axis.
ORIGIN = np.zeros(1, np.int64)
#: `Nest.outside` where every tile covers all loops of its level.
EVEN = ((0, 0, 0),) * 4


class LayerShape(NamedTuple):
    """A layer without its widths: loop bounds R S P Q C K N G, strides and dilations (width, height)."""

    bounds: tuple[int, ...]
    stride: tuple[int, int]
    dilation: tuple[int, int]


class NestFields(NamedTuple):
    """One mapped layer by numbers.

    - `temporal` int[4][8]: loop factors per level and dim. `spatial` int[3][8]: factors on H, W and Internal.
    - `order`: per level, the dims with a temporal factor above 1, outermost first.
    - `stored` bool[3][3]: [level][tensor], DRAM excluded. `layout`: 0 or 1 per tensor, see `AXES`.
    - `block_h`, `block_w`: elements of a block of a row-aligned I.
    - `stride`, `dilation`: (width, height). `width_bytes`: of an element of I, W, O and of a partial sum.
    - `spatial_reduction`: as in `cost.Machine`.
    - `part` int[3]: tensors with equal numbers share a bank; with three numbers each tensor has its own banks.
    - `bank_counts` int[3]: how many times `Dram.banks` each tensor's part has; 1 where several tensors share it.
    - `outside` int[4][3]: the number of loops of order[m], outermost first, that lie outside the tile of t at m. It is
      0 where the level does not store t, and in the row buffer and DRAM.
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
    part: tuple[int, ...] = (I, W, O)
    bank_counts: tuple[int, ...] = (1, 1, 1)


Method = TypeVar("Method", bound=Callable[..., Any])


def once(method: Method) -> Method:
    """Return a method that a nest computes once for the same arguments: a cost asks for each result many times."""

    name = method.__qualname__

    @functools.wraps(method)
    def found(nest: "Nest", *args: int) -> Any:
        known = nest.__dict__.setdefault(name, {})
        if args not in known:
            known[args] = method(nest, *args)
        return known[args]

    return found  # type: ignore[return-value]


class Nest(NestFields):
    """One mapped layer and what follows from it."""

    def array(self, d: int) -> int:
        """Return over how many PEs a dim is spread."""
        return self.spatial[0][d] * self.spatial[1][d]

    def lanes(self, d: int) -> int:
        """Return over how many lanes of a PE a dim is spread."""
        return self.spatial[2][d]

    @functools.cached_property
    def extents(self) -> tuple[tuple[int, ...], ...]:
        """The extents e_m per level and dim; those at DRAM are the bounds (Eq. 22)."""
        pe, *outer = self.temporal
        found = [tuple(map(mul, pe, self.spatial[2]))]
        e = tuple(map(self.array, range(8)))
        e = tuple(map(mul, e, found[0]))
        for row in outer:
            e = tuple(map(mul, e, row))
            found.append(e)
        return tuple(found)

    def extent(self, level: int, d: int) -> int:
        """Return the extent of a dim at a level."""
        return self.extents[level][d]

    @once
    def consumers(self, t: int) -> tuple[int, ...]:
        """Return t's consumers, outermost first: the levels below DRAM that store it, then the MACs."""
        return (*(m for m in (ROW_BUFFER, GLOBAL_BUFFER, PE) if self.stored[m][t]), MACS)

    def stride_dilation(self, d: int) -> tuple[int, int]:
        """Return stride and dilation along the axis of P or Q."""
        side = 0 if d == P else 1
        return self.stride[side], self.dilation[side]

    def tile(self, t: int, level: int, d: int) -> int:
        """Return the extent of a dim in t's tile at a level: the level's extent without a loop outside the tile."""
        e = self.extent(level, d)
        return e // self.temporal[level][d] if d in self.order[level][: self.outside[level][t]] else e

    @once
    def side(self, t: int, level: int, axis: int) -> int:
        """Return the elements in t's tile at a level (at level 0: one PE) along an axis; of I the span."""
        along = self.tile(t, level, axis)
        if t != I or axis not in FILTER_OF:
            return along
        return span(along, self.tile(I, level, FILTER_OF[axis]), *self.stride_dilation(axis))

    @once
    def box(self, t: int, level: int) -> int:
        """Return the elements of t's tile at a level (one PE's at level 0)."""
        return math.prod([self.side(t, level, a) for a in AXES[t][0]])

    @once
    def fetch_loops(self, t: int, consumer: int) -> tuple[tuple[int, int], ...]:
        """Return (level, dim) of the loops that make a consumer fetch tiles of t, innermost first.

        These are the loops outside its tile that are not free. At the MACs no loop is free, as they store nothing.
        """
        own = () if consumer == MACS else self.order[consumer][: self.outside[consumer][t]]
        outside = enumerate((own, *self.order[consumer + 1 :]), consumer)
        loops = tuple((level, d) for level, dims in outside for d in reversed(dims))
        if consumer == MACS:
            return loops
        return tuple(itertools.dropwhile(lambda loop: loop[1] in IRRELEVANT[t], loops))

    def sharing(self, t: int) -> list[int]:
        """Return the other tensors that lie in t's bank."""
        return [u for u in (I, W, O) if u != t and self.part[u] == self.part[t]]

    @once
    def reuse(self, t: int, consumer: int) -> int:
        """Return how often a consumer fetches each tile of t."""
        factor = 1
        for level, d in self.fetch_loops(t, consumer):
            if d in IRRELEVANT[t]:
                factor *= self.temporal[level][d]
        return factor

    @once
    def steps(self) -> int:
        """Return the number of steps: iterations of all temporal loops (Eq. 34)."""
        return math.prod(map(math.prod, self.temporal))

    @once
    def array_step(self) -> int:
        """Return the steps of an array step: iterations of the PE loops that lie inside every tile in the PEs."""
        return math.prod([self.temporal[PE][d] for d in self.order[PE][max(self.outside[PE]) :]])

    @once
    def spilled(self) -> bool:
        """Return whether partial sums are read back from DRAM."""
        return self.reuse(O, self.consumers(O)[0]) > 1 or self.rereads_copies()

    def rereads_copies(self) -> bool:
        """Return whether a step reads back copies of one output: MACs that add in DRAM, without spatial reduction."""
        copies = math.prod(self.array(d) * self.lanes(d) for d in IRRELEVANT[O])
        return self.consumers(O)[0] == MACS and copies > 1 and not self.spatial_reduction

    def width(self, t: int, level: int) -> int:
        """Return the bytes of an element of t at a level. O has partial-sum width on chip, and if spilled in DRAM."""
        if t == O and (level < ROW_BUFFER or self.spilled()):
            return self.width_bytes[3]
        return self.width_bytes[t]


def span(outputs: Size, filters: Size, stride: int, dilation: int) -> Size:
    """Return the positions of I from the first to the last that `outputs` and `filters` indices use (Eq. 2)."""
    return stride * (outputs - 1) + dilation * (filters - 1) + 1


@once
def axis_set(nest: Nest, t: int, consumer: int, axis: int) -> Ints:
    """Return int64[n], ascending: positions along an axis of what one fetch (at the MACs: one step) brings in."""
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


@once
def fetched_elements(nest: Nest, t: int, consumer: int) -> int:
    """Return how many elements one fetch of t (at the MACs: one step) brings in, for all PEs and lanes together."""
    if consumer > PE:
        return nest.box(t, consumer)
    return math.prod([axis_set(nest, t, consumer, axis).size for axis in AXES[t][0]])


def _sums(step_a: int, count_a: int, step_b: int, count_b: int) -> Ints:
    """Return int64[count_a * count_b]: all step_a*i + step_b*j, i outermost."""
    if count_a == count_b == 1:
        return ORIGIN
    return np.add.outer(step_a * np.arange(count_a), step_b * np.arange(count_b)).ravel()
