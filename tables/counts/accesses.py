"""Exact accesses per level, tensor and direction of one mapped layer (Eq. 23, made exact; Eq. 43 sums them)."""

import math

import numpy as np

from tables.nest import DRAM, IRRELEVANT, MACS, PE, I, Ints, Nest, O, W, fetched_elements, once

READ, WRITE = 0, 1


def accesses(nest: Nest, multicast: bool, spatial_reduction: bool) -> Ints:
    """Return int[4, 3, 2]: elements accessed, [level][tensor][read, write] (docs/model.md, section 4)."""
    counts = np.zeros((4, 3, 2), np.int64)
    for t in (I, W, O):
        parent = DRAM
        for consumer in nest.consumers(t):
            if t == O:
                _output(counts, nest, parent, consumer, spatial_reduction)
            else:
                reads, writes = _operand(nest, t, consumer, multicast)
                counts[parent, t, READ] += reads
                if consumer != MACS:
                    counts[consumer, t, WRITE] += writes
            parent = consumer
    return counts


@once
def fetches(nest: Nest, t: int, consumer: int) -> int:
    """Return how many tiles of t a consumer takes in over the layer; at the MACs one per step."""
    return math.prod([nest.temporal[m][d] for m, d in nest.fetch_loops(t, consumer)])


def _operand(nest: Nest, t: int, consumer: int, multicast: bool) -> tuple[int, int]:
    """Return the elements of I or W that are read at the parent, and those written at the consumer."""
    times = fetches(nest, t, consumer)
    if consumer > PE:
        moved = times * nest.box(t, consumer)
        return moved, moved
    needed = times * fetched_elements(nest, t, consumer)
    if consumer == PE:
        writes = times * _used_pes(nest) * nest.box(t, PE)
        return (needed if multicast else writes), writes
    macs = math.prod(nest.extent(DRAM, d) for d in range(8))
    if nest.stored[PE][t] or not multicast:
        return macs, 0
    return needed, 0


def _output(counts: Ints, nest: Nest, parent: int, consumer: int, spatial_reduction: bool) -> None:
    """Add O's traffic between a parent and a consumer. Modifies counts."""
    elements = math.prod(nest.extent(DRAM, d) for d in range(8) if d not in IRRELEVANT[O])
    times = nest.reuse(O, consumer)
    if consumer == MACS:
        reads, writes = _partial_sums(nest, elements, times, spatial_reduction)
        counts[parent, O, READ] += reads
        counts[parent, O, WRITE] += writes
        return
    holders = math.prod(nest.array(d) for d in IRRELEVANT[O]) if consumer == PE else 1
    moved = 1 if spatial_reduction else holders
    counts[consumer, O, READ] += elements * times * holders
    counts[parent, O, WRITE] += elements * times * moved
    counts[parent, O, READ] += elements * (times - 1) * moved
    counts[consumer, O, WRITE] += elements * (times - 1) * moved


def _partial_sums(nest: Nest, elements: int, times: int, spatial_reduction: bool) -> tuple[int, int]:
    """Return the partial sums that the MACs read and write. A partial sum that starts afresh is not read.

    `times`: steps per output element, the iterations of all irrelevant temporal loops.
    """
    lanes = math.prod(nest.lanes(d) for d in IRRELEVANT[O])
    holders = math.prod(nest.array(d) for d in IRRELEVANT[O])
    if not nest.stored[PE][O]:
        writes = elements * times * (1 if spatial_reduction else lanes * holders)
        return writes - elements, writes
    writes = elements * times * holders * (1 if spatial_reduction else lanes)
    visits = nest.reuse(O, PE)
    afresh = visits * (holders - 1) + 1 if spatial_reduction else holders
    return writes - elements * afresh, writes


def _used_pes(nest: Nest) -> int:
    """Return the number of PEs in use."""
    return math.prod(nest.array(d) for d in range(8))
