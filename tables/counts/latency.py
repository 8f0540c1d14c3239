"""The exact latency of one mapped layer: what `tables.counts.pipeline` walks, from the mapping's shapes."""

import math

import numpy as np

from tables.counts.accesses import READ, WRITE, accesses
from tables.counts.cost import Cost, transfers
from tables.counts.on_chip import Machine, cycles_for, tile_cycles
from tables.counts.pipeline import run_pipeline
from tables.counts.stream import extent_inside, position_step, scan_tile
from tables.counts.timing import BANK, BUS, TO_MACS, Tiles, Timing
from tables.counts.walk import INFINITE_CYCLES
from tables.nest import DRAM, IRRELEVANT, MACS, PE, I, Ints, Nest, O, W, fetched_elements

#: The latency's term of the walk.
PIPELINE = "pipeline"
#: The most array steps and scans that a walk takes before the closed form stands alone: 0.3 s.
MOST_WALKED = 1_000_000
#: The formula stands if the walk takes no longer by more than so many per cent.
TOLERATED_PERCENT = 1
#: (level, dim) of a loop.
Loop = tuple[int, int]


def exact_latency(nest: Nest, machine: Machine) -> int:
    """Return the latency of section 6 in cycles."""
    counts = accesses(nest, machine.multicast, machine.spatial_reduction)
    longest = max(_pipeline_end(nest, machine), *transfers(nest, machine, counts).values())
    return longest + machine.pipeline_latency


def with_walk(cost: Cost, nest: Nest, machine: Machine) -> Cost:
    """Return a cost with the latency of the pipeline, walked to the cycle, where the formula is more than 1 % below it.

    So a latency is never below the formula, which bounds are proven of, nor more than 1 % below the walk. (No transfer
    time exceeds the formula.)
    """
    end = _pipeline_end(nest, machine, most=MOST_WALKED) + machine.pipeline_latency
    if 100 * end <= (100 + TOLERATED_PERCENT) * cost.latency_cycles:
        return cost
    terms = cost.latency_terms | {PIPELINE: end - machine.pipeline_latency}
    return cost._replace(latency_cycles=end, latency_terms=terms)


def _pipeline_end(nest: Nest, machine: Machine, most: int = INFINITE_CYCLES) -> int:
    """Return the cycle in which the pipeline ends; 0 if its walk has more than `most` array steps and scans."""
    banks = np.array(nest.bank_counts, np.int64) * machine.dram.banks
    tiles = Tiles(scan_tile(nest, I), scan_tile(nest, W), scan_tile(nest, O), machine.dram, banks)
    return run_pipeline(_timing(nest, machine), tiles, most)


def _loops(nest: Nest) -> tuple[list[Loop], list[Loop]]:
    """Return the loops outside the array step, outermost first, and those inside it."""
    outside = max(nest.outside[PE])
    outer = [(level, d) for level in (3, 2, 1) for d in nest.order[level]]
    own = [(PE, d) for d in nest.order[PE]]
    return outer + own[:outside], own[outside:]


def _timing(nest: Nest, machine: Machine) -> Timing:
    """Return the nest as the pipeline walks it."""
    outer, inner = _loops(nest)
    parents = [_parents(nest, t) for t in (I, W, O)]
    innermost = [nest.consumers(t)[-2] if len(nest.consumers(t)) > 1 else DRAM for t in (I, W, O)]
    loops = outer + inner if DRAM in innermost else outer
    first_draw, draw = 0, [0, 0, 0]
    for t in (I, W, O):
        if innermost[t] not in (PE, DRAM):
            draw[t], first = _draw_cycles(nest, machine, t, innermost[t])
            first_draw = first if t == O else first_draw
    return Timing(
        factors=np.array([nest.temporal[m][d] for m, d in loops], np.int64),
        outer=len(outer),
        steps=np.array([_steps(nest, t, loops) for t in (I, W, O)], np.int64).reshape(3, -1, 5),
        stored=np.array(nest.stored, np.int64),
        deepest=np.array([[_deepest(nest, t, m, loops) for t in (I, W, O)] for m in range(3)], np.int64),
        returns=np.array([_returns(nest, m, loops) for m in (0, 1, 2, MACS)], np.int64).reshape(4, -1),
        parent=np.array(parents, np.int64).T.copy(),
        link=_links(nest, machine, parents, innermost),
        innermost=np.array(innermost, np.int64),
        is_double=np.array((*machine.double_buffered, False), np.int64),
        part=np.array(nest.part, np.int64),
        load=np.array(
            [[_tile_move(nest, machine, t, m, parents, READ) for t in (I, W, O)] for m in range(3)], np.int64
        ),
        drain=np.array([_tile_move(nest, machine, O, m, parents, WRITE) for m in range(3)], np.int64),
        draw=np.array(draw, np.int64),
        first_draw=first_draw,
        array_step=nest.array_step(),
        rereads_copies=int(nest.rereads_copies()),
    )


def _parents(nest: Nest, t: int) -> list[int]:
    """Return for each level the next outer level that stores t."""
    return [next((p for p in range(m + 1, DRAM) if nest.stored[p][t]), DRAM) for m in range(3)]


def _is_outside(nest: Nest, t: int, m: int, loop: Loop) -> bool:
    """Return whether a loop lies outside t's tile at a level; MACS: every loop lies outside the steps."""
    level, d = loop
    if m == MACS:
        return True
    return level > m or (level == m and d in nest.order[m][: nest.outside[m][t]])


def _deepest(nest: Nest, t: int, m: int, loops: list[Loop]) -> int:
    """Return the innermost relevant loop outside t's tile at a level, -1 if there is none."""
    found = [i for i, loop in enumerate(loops) if _is_outside(nest, t, m, loop) and loop[1] not in IRRELEVANT[t]]
    return max(found, default=-1)


def _returns(nest: Nest, m: int, loops: list[Loop]) -> list[bool]:
    """Return which loops bring tiles of O back to a level; to PEs that do not store O, what an array step works on."""
    if m == PE and not nest.stored[PE][O]:
        return [d in IRRELEVANT[O] for _, d in loops]
    return [_is_outside(nest, O, m, loop) and loop[1] in IRRELEVANT[O] for loop in loops]


def _steps(nest: Nest, t: int, loops: list[Loop]) -> list[list[int]]:
    """Return what one iteration of each loop adds to the position of t's scans."""
    consumer = nest.consumers(t)[0]
    return [
        position_step(nest, t, d, extent_inside(nest, level, d))
        if _is_outside(nest, t, consumer, (level, d))
        else [0] * 5
        for level, d in loops
    ]


def _links(nest: Nest, machine: Machine, parents: list[list[int]], innermost: list[int]) -> Ints:
    """Return int[4, 3]: the number of the link of each tensor into each level and to the MACs."""
    links = np.arange(BUS).reshape(TO_MACS + 1, 3)
    for t in (I, W, O):
        shared = BUS if machine.is_bus_shared else BANK + nest.part[t] if nest.sharing(t) else None
        for m, parent in enumerate((*parents[t], innermost[t])):
            if parent == DRAM and shared is not None:
                links[m, t] = shared
    return links


def _tile_move(nest: Nest, machine: Machine, t: int, m: int, parents: list[list[int]], way: int) -> int:
    """Return the cycles of one tile between a level and its parent on chip; 0 if t does not move there."""
    parent = parents[t][m]
    return 0 if not nest.stored[m][t] or parent == DRAM else tile_cycles(nest, machine, t, parent, m, way)


def _draw_cycles(nest: Nest, machine: Machine, t: int, level: int) -> tuple[int, int]:
    """Return the cycles of what an array step's MACs take of t from a level on chip; of O also on a first visit."""
    used = math.prod(nest.array(d) * nest.lanes(d) for d in range(8))
    if machine.spatial_reduction if t == O else machine.multicast:
        used = fetched_elements(nest, t, MACS)
    elements, width, rates = used * nest.array_step(), nest.width(t, level), machine.bandwidth[level]
    if t != O:
        return cycles_for(elements * width, rates[READ]), 0
    outputs = _array_step_outputs(nest)
    write = cycles_for(elements * width, rates[WRITE])
    first = write + cycles_for((elements - outputs) * width, rates[READ])
    return write + cycles_for(elements * width, rates[READ]), first


def _array_step_outputs(nest: Nest) -> int:
    """Return the outputs on which an array step works."""
    inside = nest.order[PE][max(nest.outside[PE]) :]
    relevant = [d for d in range(8) if d not in IRRELEVANT[O]]
    return math.prod(nest.array(d) * nest.lanes(d) * (nest.temporal[PE][d] if d in inside else 1) for d in relevant)
