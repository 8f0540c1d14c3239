"""Each tensor's links from level to level, and the time of the moves that do not touch DRAM (section 6)."""

import itertools

import numpy as np

from tracesim.axes import DRAM, OUTPUT, PE, READ, ROW_BUFFER, WRITE
from tracesim.jit import Record, new_record, record_type
from tracesim.nest import Visits
from tracesim.records import Device, Flags, Ints
from tracesim.traffic import Moves, innermost, parents

LINKS = 12
"""Links of three tensors into levels 0, 1, 2 and to the MACs. After them come a shared DRAM bus and SHARED_BANKS."""

SHARED_BANKS = LINKS + 1
"""The first of three links, one for the tensors of each part that share banks."""

TO_MACS = 3
"""The link after those into levels 0, 1 and 2: from the innermost storing level straight to the MACs."""

PARTIAL_SUM = 3
"""Entry of `Nest.width_bytes`."""

ROUTE = record_type(
    stored=(3, 3),
    parent=(3, 3),
    innermost=(3,),
    link=(4, 3),
    is_double=(3,),
    fetch_cycles=(3, 3),
    drain_cycles=(3,),
    use_cycles=(3,),
    first_use_cycles=(),
    rereads_copies=(),
)
"""How each tensor moves. Fields are indexed [level 0..2][tensor] unless said.

- `stored`; `parent`, the next outer level that stores the tensor; `innermost` [tensor], 3 is DRAM.
- `link` [level 0..2, TO_MACS][tensor]: number of the link into the level. `is_double` [level]: it has two slots.
- `fetch_cycles`, and of O `drain_cycles` [level]: cycles of one tile on a link whose parent is not DRAM.
- `use_cycles` [tensor]: cycles of one array step's stream to the MACs, if it does not come from DRAM.
  `first_use_cycles`: those of O on the first visit of its array tile.
- `rereads_copies`: a step reads back copies of an output that it has itself begun, even on the first visit.
"""


def level_widths(width_bytes: Ints, spills: bool) -> Ints:
    """Return int64[4, 3]: bytes of an element at [level] of [tensor].

    O is held as partial sums on chip, and in the row buffer and DRAM too if some are read back from DRAM (section 1).
    """
    widths = np.empty((4, 3), np.int64)
    widths[:] = width_bytes[:3]
    widths[: 4 if spills else ROW_BUFFER, OUTPUT] = width_bytes[PARTIAL_SUM]
    return widths


def plan_route(stored: Flags, part: Ints, device: Device, moves: Moves, visits: Visits, widths: Ints) -> Record:
    """Return the record ROUTE; `part` int64[3] as in `Placement`."""
    route = new_record(ROUTE)
    route.stored[:] = stored
    route.parent[:] = parents(stored)
    route.innermost[:] = innermost(stored)
    route.link[:] = _number_links(stored, part, device.shared_bus)
    route.is_double[:ROW_BUFFER] = device.double_buffered
    route.rereads_copies = moves.rereads_copies
    _time_moves(route, device, moves, widths)
    _time_streams(route, device, moves, visits, widths)
    return route


def _number_links(stored: Flags, part: Ints, shared_bus: bool) -> Ints:
    """Return int64[4, 3]: the number of the link into [level 0..2, TO_MACS] of [tensor].

    Whatever comes from DRAM has one link where the bus is shared, else those of a part have one.
    """
    links = np.arange(LINKS).reshape(TO_MACS + 1, 3)
    is_shared = (part[:, None] == part).sum(axis=0) > 1
    of_dram = np.full(3, LINKS) if shared_bus else np.where(is_shared, SHARED_BANKS + part, links)
    from_dram = np.vstack((parents(stored), innermost(stored))) == DRAM
    return np.where(from_dram, of_dram, links)


def _time_moves(route: Record, device: Device, moves: Moves, widths: Ints) -> None:
    """Set the time of each tile's way in, and O's way out, by the bytes that its parent reads or writes."""
    stored, outer = route.stored.tolist(), route.parent.tolist()
    for level, tensor in itertools.product(range(3), range(3)):
        parent = outer[level][tensor]
        if not stored[level][tensor] or parent == DRAM:
            continue
        width = int(widths[parent, tensor])
        to_level, _ = moves.fetch[level][tensor]
        route.fetch_cycles[level, tensor] = _transfer_cycles(device, parent, READ, to_level * width)
        if tensor == OUTPUT:
            from_level, _ = moves.drain[level]
            route.drain_cycles[level] = _transfer_cycles(device, parent, WRITE, from_level * width)


def _time_streams(route: Record, device: Device, moves: Moves, visits: Visits, widths: Ints) -> None:
    """Set the time of an array step's stream from the level on chip that stores a tensor innermost."""
    for tensor in np.flatnonzero((route.innermost != PE) & (route.innermost != DRAM)).tolist():
        level = int(route.innermost[tensor])
        width = int(widths[level, tensor])
        elems = int(visits.steps_each) * moves.use[tensor]
        route.use_cycles[tensor] = _transfer_cycles(device, level, READ, elems * width)
        if tensor == OUTPUT:
            write_cycles = _transfer_cycles(device, level, WRITE, elems * width)
            route.use_cycles[tensor] += write_cycles
            first_reads = (elems - moves.outputs) * width
            route.first_use_cycles = write_cycles + _transfer_cycles(device, level, READ, first_reads)


def _transfer_cycles(device: Device, level: int, way: int, moved_bytes: int) -> int:
    """Return the cycles that so many bytes take at a level's bandwidth; none without a limit."""
    return _cycles_at(device.bandwidth[level, way], moved_bytes)


def longest_transfer(device: Device, accesses: Ints, crossings: list[int], widths: Ints, used_pes: int) -> int:
    """Return the longest time that a level's ports in one direction, or the interconnect, are busy (section 6).

    `accesses` as in `Trace`, `crossings` per tensor: elements. A level's port serves one tensor at a time. Level 0 is
    `used_pes` buffers with ports of their own.
    """
    crossing_bytes = sum(elems * int(width) for elems, width in zip(crossings, widths[PE], strict=True))
    busy = [_cycles_at(device.interconnect, crossing_bytes)]
    for level, way in itertools.product(range(3), (READ, WRITE)):
        instances = used_pes if level == PE else 1
        moved = (accesses[level, :, way] * widths[level]).tolist()
        busy.append(_cycles_at(device.bandwidth[level, way], max(moved), instances))
        busy.append(_cycles_at(device.bandwidth[level, way], sum(moved), instances * int(device.ports[level])))
    return max(busy)


def _cycles_at(rate: Ints, moved_bytes: int, times: int = 1) -> int:
    """Return the cycles that bytes take at a rate [numerator, denominator], so many times; none without a limit."""
    numerator, denominator = rate.tolist()
    return -(-moved_bytes * denominator // (numerator * times)) if numerator else 0
