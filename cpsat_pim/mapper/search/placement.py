"""Where a tensor lies in DRAM, and the stream that its tiles make there."""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from cpsat_pim.base.dims import Dim, Level, Tensor
from cpsat_pim.base.watched import call_watched
from cpsat_pim.evaluate.cost import to_machine
from cpsat_pim.mapper.space.restriction import Restriction
from cpsat_pim.mapping import Mapping
from cpsat_pim.workload import ConvWorkload
from tables.bounds.windows import block_sides
from tables.counts.stream import ArrayTiming, Stopped, dram_stream, is_long, stream_key
from tables.counts.walk import NO_STREAM_LIMIT, StreamCounts, StreamLimit
from tables.nest import Nest, span

#: By how many times its size a tensor can grow in DRAM: blocks may end just behind the middle of a row, and of I's
#: height and width.
_MOST_GROWTH = 8


class OutOfTime(Exception):
    """The time was up."""


class Placement(NamedTuple):
    """A tensor's layout and input block (0 without one), and the DRAM stream that they make."""

    layout: int
    block_h: int
    block_w: int
    stream: StreamCounts


class StreamFigures(NamedTuple):
    """Figures of one tensor's DRAM stream; of a minimum, each figure may be of another order, layout or block.

    `edge_cycles`: of the first scan, of outputs of the last tile. `closed_cycles`: cycles if another tensor's row is
    opened next; 0 where the bank is not shared. `stall_cycles`: cycles that the array waits for loads
    (exposed transfers); `isolated_stall_cycles`: without those that every scan causes. Both are 0 where time does not
    matter, and where outputs that come back are waited for anyway.
    """

    activations: int
    cycles: int
    edge_cycles: int
    closed_cycles: int
    stall_cycles: int
    isolated_stall_cycles: int


class Placements(NamedTuple):
    """The placements of a tensor under one order that keep the stream limits: `all` of them, those that no other one
    dominates at this pace of the array, and the fewest activations of all. A dominated one may open fewer rows, be
    better at another pace, or end sooner where loads coincide.
    """

    all: list[Placement]
    undominated: list[Placement]
    fewest_activations: int | None

    def least_figures(self, t: Tensor, sees_cycles: bool, is_shared: bool) -> StreamFigures:
        """Return the least of each figure over the placements of t, of which there are some.

        `is_shared`: other tensors share t's bank.
        """
        fewest, streams = self.fewest_activations or 0, [placement.stream for placement in self.undominated]
        if not sees_cycles:
            return StreamFigures(fewest, 0, 0, 0, 0, 0)
        return StreamFigures(
            fewest,
            min(s.cycles for s in streams),
            min(s.last_cycles if t is Tensor.O else s.first_cycles for s in streams),
            min(s.closed_cycles for s in streams) if is_shared else 0,
            min(s.stall_cycles - s.second_stall_cycles for s in streams),
            min(s.stall_cycles - s.steady_stall_cycles for s in streams),
        )


#: Of a tensor whose streams all exceed a limit.
NO_PLACEMENTS = Placements([], [], None)

#: Placements that keep a limit, by all that a tensor's stream depends on (`tables.counts.stream.stream_key`).
StreamCache = dict[tuple[object, ...], tuple[StreamLimit, Placements]]


class PlacementCounter:
    """Counts the streams of a draft's tensors under all layouts and input blocks that its restriction allows.

    `cache`: streams of earlier drafts of the same layer, machine, objective and constraints. `sees_cycles`,
    `sees_energy`: whether objective or budget depend on them. Where the time `is_over`, no long stream is counted to
    its end.
    """

    def __init__(
        self,
        restriction: Restriction,
        draft: Mapping,
        cache: StreamCache,
        is_over: Callable[[], bool],
        *,
        sees_cycles: bool,
        sees_energy: bool,
    ) -> None:
        self._restriction, self._layer, self._draft = restriction, restriction.layer, draft
        self._cache, self._is_over = cache, is_over
        self._dram = to_machine(restriction.arch).dram
        self._sees = (sees_cycles, sees_energy, bool(restriction.shared_parts))
        arch, layer = restriction.arch, restriction.layer
        largest = _MOST_GROWTH * max(layer.width_bytes) * sum(layer.elements(t) for t in Tensor)
        largest += len(Tensor) * arch.row_bytes
        #: Whether tensors may outgrow the DRAM with what row-aligned blocks leave empty.
        self.is_dram_tight = (arch.bank_bytes or arch.hierarchy[Level.DRAM].capacity_bytes) < largest

    def choices(self, t: Tensor) -> list[tuple[int, int, int]]:
        """Return the layouts of t (axis order, block height and width); only a row-aligned input has blocks."""
        blocks = [(0, 0)]
        if t is Tensor.I and self._draft.stored[Level.ROW_BUFFER][Tensor.I]:
            blocks = input_blocks(self._layer, self._draft)
        return [(layout, *block) for layout in self._restriction.layouts(t) for block in blocks]

    def placements(self, t: Tensor, nest: Nest, tempo: ArrayTiming, limit: StreamLimit) -> Placements:
        """Return the placements of t that keep a limit; others may be among them.

        Raises:
            OutOfTime: the time was up before a stream was counted.
        """
        key = stream_key(nest, t, tempo)
        if key not in self._cache or not _covers(self._cache[key][0], limit):
            placements = [self._place(nest, t, tempo, limit, *choice) for choice in self.choices(t)]
            within = [p for p in placements if limit.admits(p.stream)]
            fewest = min((p.stream.activations for p in within), default=None)
            covered = NO_STREAM_LIMIT if len(within) == len(placements) else limit
            self._cache[key] = covered, Placements(within, self._undominated(within), fewest)
        return self._cache[key][1]

    def _place(
        self, nest: Nest, t: Tensor, tempo: ArrayTiming, limit: StreamLimit, layout: int, block_h: int, block_w: int
    ) -> Placement:
        layouts = [layout if u is t else 0 for u in Tensor]
        placed = nest._replace(layout=tuple(layouts), block_h=block_h, block_w=block_w)
        count = partial(dram_stream, placed, t, self._dram, tempo, limit)
        return Placement(layout, block_h, block_w, self._in_time(count) if is_long(placed, t) else count())

    def _in_time(self, count: Callable[..., StreamCounts]) -> StreamCounts:
        """Count a long stream while there is time."""
        try:
            return call_watched(count, self._is_over)
        except Stopped as stopped:
            raise OutOfTime from stopped

    def _undominated(self, placements: list[Placement]) -> list[Placement]:
        """Return the Pareto front in the figures that can change the objective; all where the DRAM is tight: then a
        dominated one may fit, and another one not.
        """
        return placements if self.is_dram_tight else undominated(placements, *self._sees)


def _covers(one: StreamLimit, other: StreamLimit) -> bool:
    """Whether every stream that keeps the other limit keeps this one."""
    return all(a >= b for a, b in zip(one, other, strict=True))


def undominated(
    placements: list[Placement], sees_cycles: bool, sees_energy: bool, has_shared_banks: bool
) -> list[Placement]:
    """Return the Pareto front of some placements in the figures of their streams that can change the objective or the
    budget, of equal ones the first.
    """
    front: dict[tuple[int, ...], Placement] = {}
    for placement in placements:
        stream = placement.stream
        times = _times(stream, has_shared_banks) if sees_cycles else ()
        front.setdefault((*times, stream.activations) if sees_energy else times, placement)
    return [p for figures, p in front.items() if not any(_dominates(other, figures) for other in front)]


def _times(stream: StreamCounts, has_shared_banks: bool) -> tuple[int, ...]:
    """Return the figures of a stream that can change a latency by the formula."""
    stall = stream.stall_cycles
    stalls = (stall, stall - stream.second_stall_cycles, stall - stream.steady_stall_cycles)
    closed = (stream.closed_cycles,) if has_shared_banks else ()
    return (stream.cycles, stream.first_cycles, stream.last_cycles, *closed, *stalls)


def _dominates(one: tuple[int, ...], other: tuple[int, ...]) -> bool:
    return one != other and all(a <= b for a, b in zip(one, other, strict=True))


def input_blocks(layer: ConvWorkload, mapping: Mapping) -> list[tuple[int, int]]:
    """Return heights and widths of the blocks that a row-aligned input may be laid out in."""
    extents, sides = mapping.extents(Level.ROW_BUFFER), []
    for size, stride, dilation, outputs, filters in (
        (layer.input_height, layer.stride[1], layer.dilation[1], extents[Dim.Q], extents[Dim.S]),
        (layer.input_width, layer.stride[0], layer.dilation[0], extents[Dim.P], extents[Dim.R]),
    ):
        sides.append(block_sides(size, stride, span(outputs, filters, stride, dilation), outputs))
    return [(h, w) for h in sides[0] for w in sides[1]]
