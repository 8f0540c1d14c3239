"""When every transfer and every array step happens (section 6); the DRAM transfers by scanning (section 5).

The walk goes from array step to array step: iterations of the loops outside the PEs and of those PE loops that lie
outside some tensor's tile there, so no tile changes within one. All that a transfer waits for (its link, the parent's
tile, the last use of the tile whose slot it takes) lies earlier in the walk, so its time is known when the walk gets to
it, even though it may lie long before the array step that wants the tile.

Where section 6 leaves a choice:
- A tile of O moves out only when its parent's tile has a slot (or is read back) itself.
- O tiles on their first visit need no transfer: they are there when their slot is free. An array step waits for the
  slot at O's innermost storing level only; the levels outside it are waited for by the move out.
- Streams start with the array step. A link moves one thing at a time, so O's reads and writes, each rounded up to
  cycles once an array step, add up.
- Banks serve scans in the order in which the loop nest makes them: array step by array step, and in one I, W, O's old
  tile, O's new tile, then step by step what the MACs take straight from DRAM of I, W and O.
- Tensors that share banks have one link, like those on a shared DRAM bus. It serves requests in the order in which the
  loop nest makes them: array step by array step, and in one I, W, O's old tile, O's new tile, then the streams of I, W,
  O. No request overtakes one that still waits.
- Ports, the interconnect and the PEs' own bandwidth limit no link (but see `route.longest_transfer`).
"""

from typing import NamedTuple

from tracesim.address import Scanner, scan
from tracesim.axes import DRAM, OUTPUT, PE
from tracesim.jit import Record, kernel, record_type
from tracesim.nest import advance_array_step, advance_step, first_visit, steps_in_array_step
from tracesim.records import Flags, Ints
from tracesim.route import SHARED_BANKS, TO_MACS
from tracesim.tiles import STEP_SET

CLOCK = record_type(
    link_free=(SHARED_BANKS + 3,),
    loaded=(3, 3),
    last_use=(3, 3),
    freed=(3, 3, 2),
    held=(3, 3),
    corner=(3, 3, 5),
    drawn=(3,),
)
"""Times so far, in cycles, and the tiles held. Fields are indexed [level 0..2][tensor] unless said.

- `link_free` [link]: when the link becomes free.
- `held`: identity of the tile held, or NOTHING. `corner` [axis]: coordinates of its first element.
- `loaded`, `last_use`: when the tile held was loaded, and the end of its last use so far.
- `freed` [2]: when the slot of the tile before it, and that of the one before that, became free.
- `drawn` [tensor]: cycles of what the MACs of this array step take straight from DRAM.
"""


NOTHING = -1


class State(NamedTuple):
    """A walk under way: records ODOMETER, ROUTE (which never changes) and CLOCK, and the DRAM.

    `visited` bool[level 0..2, STEP_SET][tile] of O. `stop` int64[1]: the walk ends once another thread sets it.
    """

    odometer: Record
    route: Record
    clock: Record
    dram: Scanner
    visited: Flags
    stop: Ints


@kernel
def run_pipeline(state: State) -> int:
    """Walk all array steps from a state of zeros; return the cycle in which the last write-out ends.

    If the walk is stopped, the cycle means nothing.
    """
    odometer, route, clock = state.odometer, state.route, state.clock
    clock.held[:] = NOTHING
    steps = steps_in_array_step(odometer)
    now = 0
    while True:
        for tensor in range(3):
            if has_changed(odometer, route, clock, tensor):
                change_tiles(state, tensor)
        start = tiles_loaded(route, clock, now)
        now = start + steps
        scan_array_step(state)
        for tensor in range(3):
            if route.innermost[tensor] != PE:
                now = max(now, stream(state, tensor, start))
        use_tiles(route, clock, now)
        if state.stop[0] or not advance_array_step(odometer):
            break
    return max(now, write_out_rest(state))


@kernel
def has_changed(odometer: Record, route: Record, clock: Record, tensor: int) -> bool:
    """Return whether some level holds another tile of the tensor than this array step needs."""
    for level in range(3):
        if route.stored[level, tensor] and clock.held[level, tensor] != odometer.identity[tensor, level]:
            return True
    return False


@kernel
def change_tiles(state: State, tensor: int) -> None:
    """Go over to the tiles of this array step: old ones leave, inner levels first; new ones enter, outer first.

    A tile of O that leaves is written out, one that is visited for the first time is not fetched.
    """
    odometer, route, clock = state.odometer, state.route, state.clock
    for level in range(3):
        held, tile = clock.held[level, tensor], odometer.identity[tensor, level]
        if route.stored[level, tensor] and held != tile and held != NOTHING:
            if tensor == OUTPUT:
                write_out(state, level)
            free_slot(clock, level, tensor)
    for level in range(2, -1, -1):
        tile = odometer.identity[tensor, level]
        if route.stored[level, tensor] and clock.held[level, tensor] != tile:
            take_slot(odometer, route, clock, level, tensor)
            if tensor != OUTPUT or not first_visit(state.visited, level, tile):
                cycles = route.fetch_cycles[level, tensor]
                if route.parent[level, tensor] == DRAM:
                    cycles = scan(state.dram, tensor, clock.corner[level, tensor])
                clock.loaded[level, tensor] = transfer(route, clock, level, tensor, cycles)


@kernel
def write_out(state: State, level: int) -> None:
    """Move the tile of O that a level holds to its parent."""
    route, clock = state.route, state.clock
    cycles = route.drain_cycles[level]
    if route.parent[level, OUTPUT] == DRAM:
        cycles = scan(state.dram, OUTPUT, clock.corner[level, OUTPUT])
    clock.last_use[level, OUTPUT] = transfer(route, clock, level, OUTPUT, cycles)


@kernel
def write_out_rest(state: State) -> int:
    """Write out the tiles of O still held, inner levels first; return when the last one is out."""
    end = 0
    for level in range(3):
        if state.route.stored[level, OUTPUT]:
            write_out(state, level)
            end = max(end, state.clock.last_use[level, OUTPUT])
    return end


@kernel
def free_slot(clock: Record, level: int, tensor: int) -> None:
    """Note that the slot of the tile held is free after the tile's last use (O's write-out is its last)."""
    clock.freed[level, tensor, 1] = clock.freed[level, tensor, 0]
    clock.freed[level, tensor, 0] = clock.last_use[level, tensor]


@kernel
def take_slot(odometer: Record, route: Record, clock: Record, level: int, tensor: int) -> None:
    """Hold the new tile, from the time a slot is free: the old tile's, or with two slots the one's before."""
    clock.held[level, tensor] = odometer.identity[tensor, level]
    for axis in range(5):
        clock.corner[level, tensor, axis] = odometer.coordinate[tensor, axis]
    free = clock.freed[level, tensor, 1 if route.is_double[level] else 0]
    clock.loaded[level, tensor] = free
    clock.last_use[level, tensor] = free


@kernel
def transfer(route: Record, clock: Record, level: int, tensor: int, cycles: int) -> int:
    """Move a tile between a level and its parent: in from when its slot is free, out from its last use; return the end.

    It waits for the link and for the parent's tile, and is a use of the latter. A tile coming in was last used when its
    slot became free.
    """
    link, parent = route.link[level, tensor], route.parent[level, tensor]
    start = max(clock.last_use[level, tensor], clock.link_free[link])
    if parent != DRAM:
        start = max(start, clock.loaded[parent, tensor])
    end: int = start + cycles
    if parent != DRAM:
        clock.last_use[parent, tensor] = max(clock.last_use[parent, tensor], end)
    clock.link_free[link] = end
    return end


@kernel
def tiles_loaded(route: Record, clock: Record, now: int) -> int:
    """Return the time, `now` or later, at which all tiles held at the tensors' innermost levels are there."""
    for tensor in range(3):
        level = route.innermost[tensor]
        if level != DRAM:
            now = max(now, clock.loaded[level, tensor])
    return now


@kernel
def use_tiles(route: Record, clock: Record, end: int) -> None:
    """Note the end of an array step as the last use of the tiles that it takes its operands from."""
    for tensor in range(3):
        level = route.innermost[tensor]
        if level != DRAM:
            clock.last_use[level, tensor] = end


@kernel
def stream(state: State, tensor: int, start: int) -> int:
    """Move what an array step's MACs use of a tensor that no PE stores; return when that is done."""
    route, clock = state.route, state.clock
    cycles = route.use_cycles[tensor]
    if route.innermost[tensor] == DRAM:
        cycles = clock.drawn[tensor]
    elif tensor == OUTPUT and first_visit(state.visited, PE, state.odometer.identity[OUTPUT, PE]):
        cycles = route.first_use_cycles
    link = route.link[TO_MACS, tensor]
    end: int = max(start, clock.link_free[link]) + cycles
    clock.link_free[link] = end
    return end


@kernel
def scan_array_step(state: State) -> None:
    """Scan, step by step, what an array step uses straight from DRAM; note how long that takes per tensor."""
    route, clock = state.route, state.clock
    clock.drawn[:] = 0
    goes_on = route.innermost[0] == DRAM or route.innermost[1] == DRAM or route.innermost[2] == DRAM
    while goes_on:
        for tensor in range(3):
            if route.innermost[tensor] == DRAM:
                clock.drawn[tensor] += scan_step(state, tensor)
        goes_on = not state.stop[0] and advance_step(state.odometer)


@kernel
def scan_step(state: State, tensor: int) -> int:
    """Scan a step set. O's is read first, unless all it would read is its outputs' first terms, and then written."""
    odometer = state.odometer
    cycles = 0
    if tensor == OUTPUT:
        is_first = first_visit(state.visited, STEP_SET, odometer.identity[OUTPUT, STEP_SET])
        if state.route.rereads_copies or not is_first:
            cycles = scan(state.dram, tensor, odometer.coordinate[tensor])
    return cycles + scan(state.dram, tensor, odometer.coordinate[tensor])
