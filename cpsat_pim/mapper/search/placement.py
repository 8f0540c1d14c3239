"""Where a tensor lies in DRAM, and the stream that its tiles make there."""

from typing import NamedTuple

from cpsat_pim.base.dims import Dim, Level
from cpsat_pim.mapping import Mapping
from cpsat_pim.workload import ConvWorkload
from tables.bounds.windows import block_sides
from tables.counts.walk import StreamCounts
from tables.nest import span


class Placement(NamedTuple):
    """A tensor's layout and input block (0 without one), and the DRAM stream that they make."""

    layout: int
    block_h: int
    block_w: int
    stream: StreamCounts


class Placements(NamedTuple):
    """The placements of a tensor under one order that keep the stream limits: `all` of them, those that no other one
    dominates at this pace of the array, and the fewest activations of all. A dominated one may open fewer rows, be
    better at another pace, or end sooner where loads coincide.
    """

    all: list[Placement]
    undominated: list[Placement]
    fewest_activations: int | None


#: Placements by all that a tensor's stream depends on (`tables.counts.stream.stream_key`).
StreamCache = dict[tuple[object, ...], Placements]


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
