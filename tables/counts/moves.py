"""A machine by numbers, and the cycles of what moves on it: tiles over links, ports, the interconnect (Eq. 38)."""

import itertools
import math
from typing import NamedTuple

from tables.counts.accesses import READ, WRITE, fetches
from tables.dram import Dram
from tables.nest import AXES, DRAM, GLOBAL_BUFFER, IRRELEVANT, MACS, PE, ROW_BUFFER, I, Ints, Nest, O, W, axis_set

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


def transfers(nest: Nest, machine: Machine, counts: Ints) -> dict[str, int]:
    """Return the transfer times of section 6 by name: each level's ports and the interconnect, in cycles (Eq. 38)."""
    busy = {}
    for level, name in ((PE, "pe"), (GLOBAL_BUFFER, "global_buffer"), (ROW_BUFFER, "row_buffer")):
        instances = math.prod(nest.array(d) for d in range(8)) if level == PE else 1
        busy[name] = 0
        for way in (READ, WRITE):
            rate = machine.bandwidth[level][way]
            load = [int(counts[level, t, way]) * nest.width(t, level) for t in (I, W, O)]
            per_port = (rate[0] * instances, rate[1])
            shared = (rate[0] * instances * machine.ports[level], rate[1])
            busy[name] = max(busy[name], cycles_for(max(load), per_port), cycles_for(sum(load), shared))
    busy["interconnect"] = cycles_for(_array_bytes(nest, counts), machine.interconnect)
    return busy


def _array_bytes(nest: Nest, counts: Ints) -> int:
    """Return the bytes that cross into and out of the array."""
    total = 0
    for t in (I, W, O):
        chain = [DRAM, *nest.consumers(t)]
        parent = chain[chain.index(PE) - 1] if nest.stored[PE][t] else chain[-2]
        reads, writes = _link_elements(nest, counts, t, parent)
        total += (reads + writes) * nest.width(t, PE)
    return total


def _link_elements(nest: Nest, counts: Ints, t: int, parent: int) -> tuple[int, int]:
    """Return the elements that are read and written at the parent by the array alone."""
    outer_reads = outer_writes = 0
    if parent != DRAM:  # without what the parent exchanges with its own parent: whole tiles
        times = nest.reuse(t, parent)
        tiles = fetches(nest, t, parent) // times
        box = nest.box(t, parent)
        outer_writes = tiles * box * (times - 1 if t == O else times)
        outer_reads = tiles * box * times if t == O else 0
    return int(counts[parent, t, READ]) - outer_reads, int(counts[parent, t, WRITE]) - outer_writes


def inner_links(nest: Nest, t: int) -> list[tuple[int, int]]:
    """Return (parent, level) of t's links on chip: those that move tiles and do not begin at DRAM."""
    chain = [m for m in nest.consumers(t) if m != MACS]
    return list(itertools.pairwise(chain))


def tile_cycles(nest: Nest, machine: Machine, t: int, parent: int, level: int, way: int) -> int:
    """Return move(t, parent -> level, way): cycles of one tile on a link; at the PEs of one array tile."""
    if level == PE:
        elements = math.prod(axis_set(nest, t, PE, a).size for a in AXES[t][0])
        holders = math.prod(nest.array(d) for d in IRRELEVANT[t])
        if t == O:
            elements *= 1 if machine.spatial_reduction else holders
        elif not machine.multicast:
            elements = math.prod(nest.array(d) for d in range(8)) * nest.box(t, PE)
    else:
        elements = nest.box(t, level)
    return cycles_for(elements * nest.width(t, parent), machine.bandwidth[parent][way])


def path_cycles(nest: Nest, machine: Machine, t: int, way: int) -> int:
    """Return path(t, way): cycles of one tile over all links on chip."""
    return sum(tile_cycles(nest, machine, t, parent, level, way) for parent, level in inner_links(nest, t))


def draw_cycles(nest: Nest, machine: Machine, t: int, level: int) -> tuple[int, int]:
    """Return the cycles of what an array step's MACs take of t from a level on chip; of O also on a first visit."""
    used = math.prod(nest.array(d) * nest.lanes(d) for d in range(8))
    if machine.spatial_reduction if t == O else machine.multicast:
        used = math.prod(axis_set(nest, t, MACS, a).size for a in AXES[t][0])
    elements, width, rates = used * nest.array_step(), nest.width(t, level), machine.bandwidth[level]
    if t != O:
        return cycles_for(elements * width, rates[READ]), 0
    outputs = array_step_outputs(nest)
    write = cycles_for(elements * width, rates[WRITE])
    first = write + cycles_for((elements - outputs) * width, rates[READ])
    return write + cycles_for(elements * width, rates[READ]), first


def array_step_outputs(nest: Nest) -> int:
    """Return the outputs on which an array step works."""
    inside = nest.order[PE][max(nest.outside[PE]) :]
    relevant = [d for d in range(8) if d not in IRRELEVANT[O]]
    return math.prod(nest.array(d) * nest.lanes(d) * (nest.temporal[PE][d] if d in inside else 1) for d in relevant)
