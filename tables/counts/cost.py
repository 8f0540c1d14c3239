"""The cost of one mapped layer: exact accesses, DRAM streams, energy (Eq. 41-43) and latency (docs/model.md, 4-7)."""

import math
from typing import NamedTuple

from tables.counts.accesses import READ, WRITE, accesses
from tables.counts.latency import exact_latency
from tables.counts.latency_bounds import Streams, array_timing, bank_cycles, bank_name, latency_terms
from tables.counts.moves import Machine, Rate, cycles_for, transfers
from tables.counts.stream import dram_stream
from tables.nest import DRAM, I, Ints, Nest, O, W

__all__ = ["Machine", "Rate", "Streams", "array_timing", "bank_cycles", "bank_name", "cycles_for", "latency_terms", "transfers"]


class Cost(NamedTuple):
    """Predicted figures, all exact: the simulator counts the same. No term of `latency_terms` exceeds the latency."""

    accesses: Ints
    streams: Streams
    compute_cycles: int
    dram_cycles: int
    energy_fj: int
    latency_cycles: int
    latency_terms: dict[str, int]


def exact_cost(nest: Nest, machine: Machine) -> Cost:
    """Return the cost of one mapped layer on a machine."""
    tempo = array_timing(nest, machine)
    i, w, o = (dram_stream(nest, t, machine.dram, tempo) for t in (I, W, O))
    cost = cost_with(nest, machine, (i, w, o))
    return cost._replace(latency_cycles=exact_latency(nest, machine))


def cost_with(nest: Nest, machine: Machine, streams: Streams) -> Cost:
    """Return the cost of one mapped layer whose DRAM streams have been counted, with a lower bound on its latency."""
    counts = accesses(nest, machine.multicast, machine.spatial_reduction)
    macs = math.prod(nest.extent(DRAM, d) for d in range(8))
    energy = macs * machine.mac_fj + sum(s.activations for s in streams) * machine.activation_fj
    energy += sum(
        int(counts[m, t, way]) * machine.access_fj[m][way] for m in range(4) for t in (I, W, O) for way in (READ, WRITE)
    )
    cycles = bank_cycles(nest, streams).values()
    dram_cycles = sum(cycles) if machine.is_bus_shared else max(cycles)
    terms = latency_terms(nest, machine, counts, streams)
    latency = max(terms.values()) + machine.pipeline_latency
    return Cost(counts, streams, nest.steps(), dram_cycles, energy, latency, terms)
