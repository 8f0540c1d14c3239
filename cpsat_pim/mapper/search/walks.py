"""Latencies to the cycle of candidates (docs/model.md, section 7).

The formula gives the latency of a candidate in closed form, and the master problem bounds the formula. Where loads of
several tensors coincide, the pipeline takes longer. So candidates that may be the best by the formula are walked.
"""

from tables.counts.cost import Cost
from tables.counts.latency import with_walk
from tables.counts.on_chip import Machine
from tables.nest import Nest


class Walks:
    """The candidates of one draft on a machine that were walked so far: they differ in order and placement."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._costs: dict[tuple[object, ...], Cost] = {}

    def walked(self, nest: Nest, cost: Cost) -> Cost:
        """Return a candidate's cost by the formula with the latency of its walk where that is higher."""
        key = (nest.order, nest.layout, nest.block_h, nest.block_w)
        if key not in self._costs:
            self._costs[key] = with_walk(cost, nest, self._machine)
        return self._costs[key]
