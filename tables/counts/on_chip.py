"""The array's own cycles, and its waits for moves on chip: C, X, Y and what they have in common.

docs/model.md, section 7, gives the whole formula; the symbols in the docstrings are its symbols.
"""

import itertools
import math
from typing import NamedTuple

from tables.counts.accesses import READ, WRITE, fetches
from tables.counts.stream import ArrayTiming
from tables.counts.walk import StreamCounts
from tables.dram import Dram
from tables.nest import DRAM, IRRELEVANT, MACS, PE, ROW_BUFFER, I, Nest, O, W, fetched_elements

#: Bytes per cycle as (numerator, denominator). A numerator of 0 means no limit.
Rate = tuple[int, int]


class Machine(NamedTuple):
    """A machine by numbers: energies in fJ, times in cycles, rates in bytes per cycle.

    `access_fj` [4 levels][read, write]; `bandwidth` [PE, global buffer, row buffer][read, write]; `ports` of the same
    three levels; `double_buffered` of PE and global buffer.
    """

    dram: Dram
    access_fj: tuple[tuple[int, int], ...]
    activation_fj: int
    mac_fj: int
    multicast: bool
    spatial_reduction: bool
    bandwidth: tuple[tuple[Rate, Rate], ...]
    ports: tuple[int, ...]
    interconnect: Rate
    double_buffered: tuple[bool, bool]
    is_bus_shared: bool
    pipeline_latency: int


def cycles_for(count_bytes: int, rate: Rate) -> int:
    """Return the cycles that bytes take at a rate, rounded up; 0 without a limit."""
    return -(-count_bytes * rate[1] // rate[0]) if rate[0] else 0


def inner_links(nest: Nest, t: int) -> list[tuple[int, int]]:
    """Return (parent, level) of t's links on chip: those that move tiles and do not begin at DRAM."""
    chain = [m for m in nest.consumers(t) if m != MACS]
    return list(itertools.pairwise(chain))


def tile_cycles(nest: Nest, machine: Machine, t: int, parent: int, level: int, way: int) -> int:
    """Return move(t, parent -> level, way): cycles of one tile on a link; at the PEs of one array tile."""
    if level == PE:
        elements = fetched_elements(nest, t, PE)
        holders = math.prod(nest.array(d) for d in IRRELEVANT[t])
        if t == O:
            elements *= 1 if machine.spatial_reduction else holders
        elif not machine.multicast:
            elements = math.prod(nest.array(d) for d in range(8)) * nest.box(t, PE)
    else:
        elements = nest.box(t, level)
    return cycles_for(elements * nest.width(t, parent), machine.bandwidth[parent][way])


def _exposed_move(nest: Nest, machine: Machine, t: int) -> tuple[int, int]:
    """Return the cycles of t's move into the one slot of its innermost level, for which the array waits, and their
    number. (Y(t) is the product.)

    The first tile of I and W is part of the start, and O's last one of the end. Outputs that return are in X.
    """
    links = inner_links(nest, t)
    if not links or has_two_slots(machine, links[-1][1]):
        return 0, 0
    parent, level = links[-1]
    if t == O and nest.reuse(O, level) > 1:
        return 0, 0
    return tile_cycles(nest, machine, t, parent, level, WRITE if t == O else READ), fetches(nest, t, level) - 1


def compute_cycles(nest: Nest, machine: Machine) -> int:
    """Return C: cycles of all array steps."""
    return _step_cycles(nest, machine) * (nest.steps() // nest.array_step())


def array_timing(nest: Nest, machine: Machine) -> ArrayTiming:
    """Return C + X, the array's cycles without any load from DRAM, and which levels have two slots."""
    cycles = compute_cycles(nest, machine) + _exposed_partial_sums(nest, machine)
    return ArrayTiming(cycles, (*machine.double_buffered, False))


def _step_cycles(nest: Nest, machine: Machine) -> int:
    """Return A: cycles of an array step, its s steps or the operands that bypass the PEs' buffers in them."""
    steps = longest = nest.array_step()
    for t in (I, W, O):
        parent = nest.consumers(t)[-2] if len(nest.consumers(t)) > 1 else DRAM
        if nest.stored[PE][t] or parent == DRAM:
            continue
        step = fetched_elements(nest, t, MACS)
        used = math.prod(nest.array(d) * nest.lanes(d) for d in range(8))
        if not (machine.spatial_reduction if t == O else machine.multicast):
            step = used
        per_array_step = step * steps * nest.width(t, parent)
        ways = (READ, WRITE) if t == O else (READ,)
        longest = max(longest, sum(cycles_for(per_array_step, machine.bandwidth[parent][way]) for way in ways))
    return longest


def _exposed_partial_sums(nest: Nest, machine: Machine) -> int:
    """Return X: cycles of the links on chip over which partial sums return, with the tiles that leave before them.

    From one slot every tile leaves before the next one comes, from two those that make room for a tile that returns.
    The last tile is part of the end.
    """
    total = 0
    for parent, level in inner_links(nest, O):
        times = nest.reuse(O, level)
        if times > 1:
            tiles = fetches(nest, O, level)
            returns = tiles - tiles // times
            leaving = returns if has_two_slots(machine, level) else tiles - 1
            total += leaving * tile_cycles(nest, machine, O, parent, level, WRITE)
            total += returns * tile_cycles(nest, machine, O, parent, level, READ)
    return total


def _exchange_cycles(nest: Nest, machine: Machine) -> int:
    """Return the cycles in which a tile of O leaves and another returns, over all links on chip with returns."""
    links = [(parent, level) for parent, level in inner_links(nest, O) if nest.reuse(O, level) > 1]
    return sum(tile_cycles(nest, machine, O, *link, way) for link in links for way in (READ, WRITE))


def is_bare(nest: Nest, machine: Machine, t: int) -> bool:
    """Return whether nothing hides t's loads: one level alone stores t, with one slot."""
    return len(nest.consumers(t)) == 2 and not has_two_slots(machine, nest.consumers(t)[0])


def has_two_slots(machine: Machine, level: int) -> bool:
    """Return whether a level loads a tile while another one is in use. The MACs and the row buffer do not."""
    return PE <= level < ROW_BUFFER and machine.double_buffered[level]


def takes_turns(nest: Nest, machine: Machine, t: int) -> bool:
    """Return whether two levels store t, with one slot each: loads, moves and array steps take turns."""
    levels = nest.consumers(t)[:-1]
    return len(levels) == 2 and not any(has_two_slots(machine, level) for level in levels)


def exposed_loads(nest: Nest, machine: Machine, t: int, stream: StreamCounts) -> int:
    """Return late(t): stall(t) with X, or with Y(t) if that is longer and t's loads and moves take turns.

    Where nothing hides t's loads, returning sums move at the same time.
    """
    waits, stall = _exposed_partial_sums(nest, machine), stream.stall_cycles
    if is_bare(nest, machine, t):
        loads = fetches(nest, t, nest.consumers(t)[0]) - 1
        waits -= min(waits, stall, loads * _exchange_cycles(nest, machine))
    elif takes_turns(nest, machine, t):
        waits = max(waits, math.prod(_exposed_move(nest, machine, t)))
    return stall + waits


def exposed_on_chip(nest: Nest, machine: Machine) -> int:
    """Return XY: cycles for which the array waits for moves on chip, of returning sums and into one slot.

    Both take place between the same two array steps as often as they can.
    """
    sums, exchange = _exposed_partial_sums(nest, machine), _exchange_cycles(nest, machine)
    links = inner_links(nest, O)
    exchanges = fetches(nest, O, links[-1][1]) - 1 if links else 0
    longest = sums
    for t in (I, W, O):
        move, moves = _exposed_move(nest, machine, t)
        both = min(sums, move * moves, exchanges * move, moves * exchange)
        longest = max(longest, sums + move * moves - both)
    return longest
