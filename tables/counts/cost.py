"""The cost of one mapped layer: exact accesses, DRAM streams and energy (Eq. 41-43), and the predicted latency.

The latency refines Eq. 33-40 and DLS Eq. 1. docs/model.md, section 7, gives the whole formula; the symbols in the
docstrings are its symbols.
"""

import math
from typing import NamedTuple

from tables.counts.accesses import READ, WRITE, accesses, fetches
from tables.counts.link import link_wait
from tables.counts.on_chip import (
    Machine,
    array_timing,
    compute_cycles,
    cycles_for,
    exposed_loads,
    exposed_on_chip,
    has_two_slots,
    inner_links,
    is_bare,
    takes_turns,
    tile_cycles,
)
from tables.counts.stream import dram_stream, scan_order
from tables.counts.walk import StreamCounts, Streams
from tables.nest import (
    DRAM,
    GLOBAL_BUFFER,
    MACS,
    PE,
    ROW_BUFFER,
    I,
    Ints,
    Nest,
    O,
    W,
)


class Cost(NamedTuple):
    """Predicted figures. All but `latency_cycles` and `latency_terms` are exact: the simulator counts the same."""

    accesses: Ints
    streams: Streams
    compute_cycles: int
    dram_cycles: int
    energy_fj: int
    latency_cycles: int
    latency_terms: dict[str, int]


def exact_cost(nest: Nest, machine: Machine, stop: Ints | None = None) -> Cost:
    """Return the cost of one mapped layer on a machine.

    `stop` int[1]: another thread sets it to end the count of a long stream.

    Raises:
        Stopped: `stop` was set.
    """
    tempo = array_timing(nest, machine)
    i, w, o = (dram_stream(nest, t, machine.dram, tempo, stop=stop) for t in (I, W, O))
    return cost_with(nest, machine, (i, w, o))


def cost_with(nest: Nest, machine: Machine, streams: Streams) -> Cost:
    """Return the cost of one mapped layer whose DRAM streams have been counted."""
    counts = accesses(nest, machine.multicast, machine.spatial_reduction)
    energy = _energy_fj(nest, machine, counts, sum(s.activations for s in streams))
    cycles = bank_cycles(nest, streams).values()
    dram_cycles = sum(cycles) if machine.is_bus_shared else max(cycles)
    terms = latency_terms(nest, machine, counts, streams)
    latency = max(terms.values()) + machine.pipeline_latency
    return Cost(counts, streams, nest.steps(), dram_cycles, energy, latency, terms)


def energy_fj(nest: Nest, machine: Machine, activations: int) -> int:
    """Return the energy of one mapped layer that opens so many rows (Eq. 41-43)."""
    return _energy_fj(nest, machine, accesses(nest, machine.multicast, machine.spatial_reduction), activations)


def _energy_fj(nest: Nest, machine: Machine, counts: Ints, activations: int) -> int:
    energy = math.prod(nest.extent(DRAM, d) for d in range(8)) * machine.mac_fj + activations * machine.activation_fj
    return energy + sum(
        int(counts[m, t, way]) * machine.access_fj[m][way] for m in range(4) for t in (I, W, O) for way in (READ, WRITE)
    )


def bank_cycles(nest: Nest, streams: Streams) -> dict[tuple[int, ...], int]:
    """Return the cycles of all accesses to the banks of each part, by its tensors.

    In a bank that tensors share, each scan of one begins with an activation if the scan before it was another's. So the
    runs are those of the tensors' streams, and another activation follows on the last run of each but the last tensor's
    (O's, which is written at the end, or else the last one that is fetched).
    """
    cycles = {}
    for part in sorted(set(nest.part)):
        tensors = tuple(t for t in (I, W, O) if nest.part[t] == part)
        last = O if O in tensors else max(tensors, key=lambda t: scan_order(nest, t))
        cycles[tensors] = sum(streams[t].cycles if t == last else streams[t].closed_cycles for t in tensors)
    return cycles


def latency_terms(nest: Nest, machine: Machine, counts: Ints, streams: Streams) -> dict[str, int]:
    """Return the terms T of section 7 by name, in cycles. The latency is the largest of them plus the pipeline latency.

    Each term is the time of one resource with the start and the end that it cannot overlap. The array starts when the
    first tiles of I and W have arrived, and works step by step. It stalls where a tile arrives later than it is needed.
    Streams whose tiles all arrive late stall it at the same time, so the largest of these stalls counts. Late tiles of
    otherwise timely streams seldom coincide, so their stalls add up. Partial sums that return are exposed on their
    link: the old tile leaves, then the new one arrives, then it is used. At the end O's last tile is written out.
    """
    head = {t: _first_cycles(nest, machine, t, streams[t]) for t in (I, W)}
    is_shared = machine.is_bus_shared or nest.part[I] == nest.part[W]
    start = sum(head.values()) if is_shared else max(head.values())
    end = streams[O].last_cycles + _inner_tile_cycles(nest, machine, O, WRITE)
    compute, spilled = compute_cycles(nest, machine), _spilled_cycles(nest, streams[O])
    moves = transfers(nest, machine, counts)
    hidden = [] if spilled else [t for t in (I, W, O) if not is_bare(nest, machine, t)]
    single_stalls = sum(streams[t].stall_cycles - streams[t].steady_stall_cycles for t in hidden)
    terms = {"compute": start + compute + exposed_on_chip(nest, machine) + spilled + single_stalls + end}
    for t, name in ((I, "dram_I"), (W, "dram_W"), (O, "dram_O")):
        ahead = start - head[t] if t != O and not is_shared else 0  # the second tile is loaded in this time
        stalled = exposed_loads(nest, machine, t, streams[t]) - min(ahead, streams[t].second_stall_cycles)
        terms[name] = start + compute + stalled + end
        if nest.stored[ROW_BUFFER][t]:
            alone = streams[t].cycles + _row_buffer_cycles(nest, machine, t)
            terms[name] = max(terms[name], alone + (start if t == O else end))
    banks = bank_cycles(nest, streams)
    links = {bank_name(tensors): (tensors, cycles) for tensors, cycles in banks.items() if len(tensors) > 1}
    if machine.is_bus_shared:
        links["dram_bus"] = (I, W, O), sum(banks.values())
    for name, (tensors, cycles) in links.items():
        busy = cycles + min(_residence(nest, t) for t in tensors)
        waiting = start + compute + link_wait(nest, machine, tensors, streams) + end
        terms[name] = max(busy, _exposed_link(nest, machine, tensors, streams), waiting)
    return terms | {name: start + busy + end for name, busy in moves.items()}


def bank_name(tensors: tuple[int, ...]) -> str:
    """Return the name of the latency's term of a bank that tensors share: `bank_IW`."""
    return "bank_" + "".join("IWO"[t] for t in tensors)


def _first_cycles(nest: Nest, machine: Machine, t: int, stream: StreamCounts) -> int:
    """Return head(t): cycles until the first tile is at the innermost level that stores t; 0 if no level does."""
    if nest.consumers(t)[0] == MACS:
        return 0
    return stream.first_cycles + _inner_tile_cycles(nest, machine, t, READ)


def _spilled_cycles(nest: Nest, outputs: StreamCounts) -> int:
    """Return Z: cycles for which the array waits for outputs to leave, and return, if any return from DRAM."""
    is_spilled = nest.spilled() and nest.consumers(O)[0] != MACS
    return outputs.stall_cycles if is_spilled else 0


def _residence(nest: Nest, t: int) -> int:
    """Return res(t): steps for which a tile from DRAM is in use."""
    return nest.steps() // fetches(nest, t, nest.consumers(t)[0])


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


def _inner_tile_cycles(nest: Nest, machine: Machine, t: int, way: int) -> int:
    """Return path(t, way): cycles of one tile over all links on chip."""
    return sum(tile_cycles(nest, machine, t, parent, level, way) for parent, level in inner_links(nest, t))


def _row_buffer_cycles(nest: Nest, machine: Machine, t: int) -> int:
    """Return use(t): cycles for which t's tiles in the row buffer are in use. It has one slot, so the loads wait.

    A level behind it works on the last tile for a while longer: if it has one slot and gives it to the MACs, on all
    that was taken from the last tile of the row buffer, between the moves; else on the last tile taken.
    """
    if not nest.stored[ROW_BUFFER][t]:
        return 0
    consumer = nest.consumers(t)[1]
    if consumer == MACS:
        return compute_cycles(nest, machine)
    tiles = fetches(nest, t, consumer)
    moved = tiles * tile_cycles(nest, machine, t, ROW_BUFFER, consumer, WRITE if t == O else READ)
    if t == O:
        returns = tiles - tiles // nest.reuse(O, consumer)
        moved += returns * tile_cycles(nest, machine, t, ROW_BUFFER, consumer, READ)
    if len(nest.consumers(t)) == 3 and not has_two_slots(machine, consumer):
        return moved + _residence(nest, t)
    return max(moved + nest.steps() // tiles, _residence(nest, t))


def _exposed_link(nest: Nest, machine: Machine, tensors: tuple[int, ...], streams: Streams) -> int:
    """Return the cycles of the array and of the scans, over a link that tensors share, that nothing hides.

    A level with one slot that alone stores a tensor loads while the array waits. So does the outer one of two such
    levels, but for what the last tile taken hides; if O's tiles return, no bound is known. And a link moves one tile at
    a time.
    """
    exposed = compute_cycles(nest, machine)
    for t in tensors:
        stream = streams[t]
        if is_bare(nest, machine, t):
            waited = stream.cycles
        elif takes_turns(nest, machine, t) and not (t == O and nest.spilled()):
            waited = stream.stall_cycles + (stream.last_cycles if t == O else stream.first_cycles)
        else:
            continue
        exposed += waited - (stream.cycles - stream.closed_cycles if nest.sharing(t) else 0)
    return exposed
