"""Lower bounds on the latency of one mapped layer, in closed form from its streams: the terms of docs/model.md, 7.

The latency itself is what `tables.counts.latency` walks. No term exceeds it; the search compares mappings by their
terms first.
"""

import math

from tables.counts.accesses import READ, WRITE, fetches
from tables.counts.moves import Machine, array_step_outputs, draw_cycles, inner_links, path_cycles, tile_cycles, transfers
from tables.counts.stream import ArrayTiming, scan_order
from tables.counts.walk import StreamCounts
from tables.dram import last_run, last_run_excess, period
from tables.nest import DRAM, IRRELEVANT, MACS, PE, ROW_BUFFER, I, Ints, Nest, O, W

#: Counts of the DRAM streams of I, W, O.
Streams = tuple[StreamCounts, StreamCounts, StreamCounts]


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


def bank_name(tensors: tuple[int, ...]) -> str:
    """Return the name of the latency's term of a bank that tensors share: `bank_IW`."""
    return "bank_" + "".join("IWO"[t] for t in tensors)


def array_timing(nest: Nest, machine: Machine) -> ArrayTiming:
    """Return N*A, the array's cycles if each of its steps took the longest, and which levels have two slots."""
    longest, _ = step_cycles(nest, machine)
    return ArrayTiming(longest * (nest.steps() // nest.array_step()), (*machine.double_buffered, False))


def innermost(nest: Nest, t: int) -> int:
    """Return the innermost level that stores t; DRAM if no level on chip does."""
    return [DRAM, *nest.consumers(t)][-2]


def step_cycles(nest: Nest, machine: Machine) -> tuple[int, int]:
    """Return A, cycles of an array step: its s steps, or the operands on chip that the PEs do not store; and the same on
    the first visit of an array tile of O, which reads back less.
    """
    longest = first = nest.array_step()
    for t in (I, W, O):
        level = innermost(nest, t)
        if level not in (PE, DRAM):
            draw, draw_first = draw_cycles(nest, machine, t, level)
            longest, first = max(longest, draw), max(first, draw_first if t == O else draw)
    return longest, first


def latency_terms(nest: Nest, machine: Machine, counts: Ints, streams: Streams) -> dict[str, int]:
    """Return the terms of section 7 by name, in cycles without the pipeline latency: lower bounds on the latency.

    The array starts when the first tiles of I and W have arrived, and works step by step. It waits for whatever its
    levels with one slot load, and where a tile arrives later than it is needed. At the end O's last tile is written out.
    """
    start, end = _start(nest, machine, streams), _end(nest, machine, streams[O])
    work = _array_cycles(nest, machine)
    on_chip, from_dram = _exposed_moves(nest, machine), _exposed_scans(nest, machine, streams)
    terms = {"compute": start + work + max(on_chip, from_dram) + end}
    for t, name in ((I, "dram_I"), (W, "dram_W"), (O, "dram_O")):
        terms[name] = start + work + _waits(nest, machine, t, streams, start, max(on_chip, from_dram)) + end
        if t != O and nest.consumers(t)[0] != MACS:
            head = streams[t].first_cycles + path_cycles(nest, machine, t, READ)
            terms[name] = max(terms[name], head - _most_joined(nest, machine, t) + _last_link(nest, machine, t) + end)
        if nest.consumers(t)[0] == ROW_BUFFER:
            alone = streams[t].cycles - _most_joined(nest, machine, t) + _row_buffer_cycles(nest, machine, t)
            terms[name] = max(terms[name], alone + (start if t == O else end))
    banks = bank_cycles(nest, streams)
    if machine.is_bus_shared:
        terms["dram_bus"] = sum(banks.values())
    for tensors, cycles in banks.items():
        if len(tensors) > 1:
            terms[bank_name(tensors)] = cycles
    return terms | transfers(nest, machine, counts)


def _is_serial(nest: Nest, machine: Machine) -> bool:
    """Return whether one link serves all scans, in the order in which the nest makes them."""
    return machine.is_bus_shared or len(set(nest.part)) == 1


def _start(nest: Nest, machine: Machine, streams: Streams) -> int:
    """Return the cycle before which the first array step does not start."""
    first = [streams[t].first_cycles if nest.consumers(t)[0] != MACS else 0 for t in (I, W)]
    head = [first[t] + path_cycles(nest, machine, t, READ) if first[t] else 0 for t in (I, W)]
    if not machine.is_bus_shared and nest.part[I] != nest.part[W]:
        return max(head)
    if nest.part[I] == nest.part[W] and first[W]:
        head[W] = max(0, head[W] - max(0, last_run_excess(machine.dram)))  # a row of I is closed before it
    return max(head[I], first[I] + head[W])


def _end(nest: Nest, machine: Machine, outputs: StreamCounts) -> int:
    """Return the cycles in which O's last tile leaves; 0 if the MACs write it as they compute."""
    if nest.consumers(O)[0] == MACS:
        return 0
    last = outputs.last_cycles
    if nest.sharing(O):  # the row that is closed before it is another tensor's
        last = max(0, last - _joined(machine))
    return last + path_cycles(nest, machine, O, WRITE)


def _joined(machine: Machine) -> int:
    """Return by how much at most closing one row takes longer than closing another one."""
    dram = machine.dram
    return int(period(1, dram)) - int(last_run(1, dram)) + last_run_excess(dram)


def _most_joined(nest: Nest, machine: Machine, t: int) -> int:
    """Return by how much at most a stream that shares its bank ends before it would by itself."""
    return max(0, last_run_excess(machine.dram)) if nest.sharing(t) else 0


def _array_cycles(nest: Nest, machine: Machine) -> int:
    """Return C: the cycles of all array steps."""
    steps, (longest, first) = nest.steps() // nest.array_step(), step_cycles(nest, machine)
    if longest == first:
        return longest * steps
    outputs = math.prod(nest.extent(DRAM, d) for d in range(8) if d not in IRRELEVANT[O])
    tiles = outputs // array_step_outputs(nest)
    return longest * (steps - tiles) + first * tiles


def _exposed_moves(nest: Nest, machine: Machine) -> int:
    """Return X: cycles for which the array waits for moves on chip, of the tensor for which it waits longest."""
    return max(*(_exposed_loads(nest, machine, t) for t in (I, W)), _exposed_sums(nest, machine))


def _exposed_loads(nest: Nest, machine: Machine, t: int) -> int:
    """Return X of I or W: into one slot a tile moves while the array waits."""
    links = inner_links(nest, t)
    if not links or _is_double(machine, links[-1][1]):
        return 0
    return (fetches(nest, t, links[-1][1]) - 1) * tile_cycles(nest, machine, t, *links[-1], READ)


def _last_link(nest: Nest, machine: Machine, t: int) -> int:
    """Return the cycles of all loads of I or W over its last link on chip but the first, and the array's on the last."""
    links = inner_links(nest, t) if t != O else []
    if not links:
        return 0
    tiles = fetches(nest, t, links[-1][1])
    return (tiles - 1) * tile_cycles(nest, machine, t, *links[-1], READ) + nest.steps() // tiles


def _exposed_sums(nest: Nest, machine: Machine) -> int:
    """Return X of O: a sum that returns moves in once the old tile is out; with one slot every tile waits for that."""
    total = 0
    for parent, level in inner_links(nest, O):
        tiles, times = fetches(nest, O, level), nest.reuse(O, level)
        out, back = (tile_cycles(nest, machine, O, parent, level, way) for way in (WRITE, READ))
        returns = tiles - tiles // times
        leaving = returns if _is_double(machine, level) or level != innermost(nest, O) else tiles - 1
        total += leaving * out + returns * back
    return total


def _is_double(machine: Machine, level: int) -> bool:
    return level < ROW_BUFFER and machine.double_buffered[level]


def _is_exposed(nest: Nest, machine: Machine, t: int) -> bool:
    """Return whether only one level stores t, with one slot: then the array waits for all its scans from DRAM."""
    return len(nest.consumers(t)) == 2 and not _is_double(machine, nest.consumers(t)[0])


def _exposed_scans(nest: Nest, machine: Machine, streams: Streams) -> int:
    """Return E: cycles for which the array waits for DRAM scans into levels with one slot, without start and end."""
    waits = [
        0
        if not _is_exposed(nest, machine, t) or nest.sharing(t)
        else streams[t].cycles - (streams[t].last_cycles if t == O else streams[t].first_cycles)
        for t in (I, W, O)
    ]
    return sum(waits) if machine.is_bus_shared else max(waits)


def _waits(nest: Nest, machine: Machine, t: int, streams: Streams, start: int, exposed: int) -> int:
    """Return the cycles for which the array waits for t's loads, besides those for which it waits anyway."""
    stream = streams[t]
    if nest.sharing(t):
        return 0
    if nest.consumers(t)[0] == MACS:  # while the array computes
        return stream.stall_cycles + exposed
    if _is_exposed(nest, machine, t):
        return 0
    others = _exposed_scans(nest, machine, streams) if machine.is_bus_shared else 0
    links = inner_links(nest, t)
    way = WRITE if t == O else READ
    outer = tile_cycles(nest, machine, t, *links[0], way) if links else 0
    if t == O:  # an old tile may leave while the last one is on its way out to it
        return others + stream.stall_cycles - (path_cycles(nest, machine, O, WRITE) - outer)
    ahead = max(0, start - stream.first_cycles - outer)
    return others + stream.stall_cycles - min(ahead, stream.second_stall_cycles)


def _row_buffer_cycles(nest: Nest, machine: Machine, t: int) -> int:
    """Return use(t): cycles for which t's tiles in the row buffer are in use, and the array's on one tile taken there."""
    consumer = nest.consumers(t)[1]
    if consumer == MACS:
        return _array_cycles(nest, machine)
    tiles = fetches(nest, t, consumer)
    moved = tiles * tile_cycles(nest, machine, t, ROW_BUFFER, consumer, WRITE if t == O else READ)
    if t == O:
        returns = tiles - tiles // nest.reuse(O, consumer)
        moved += returns * tile_cycles(nest, machine, t, ROW_BUFFER, consumer, READ)
    return moved + (nest.steps() // tiles)
