"""How cycles, femtojoules and bytes become what a search minimises: pairs (cost, tie), at a price of bytes."""

from typing import Any

import numpy as np
from attrs import frozen

from cpsat_pim.mapper.result import Objective
from cpsat_pim.planner.eliminate import INFINITE
from cpsat_pim.planner.nodes import NodeCost
from cpsat_pim.planner.phases import PhaseCost, Rates
from tables.array.table import ACTS, ADDS, DRAM, HOPS, NETWORK, READS, WRITES


@frozen(kw_only=True)
class Weighing:
    """How cycles and femtojoules become a cost and a tie-breaker."""

    objective: Objective
    rates: Rates

    def weigh(self, cycles: Any, energy_fj: Any) -> np.ndarray:
        """Pairs (cost, tie) along a new first axis: the objective, then what it leaves out."""
        alpha, beta = self.objective.weights
        tie = cycles if beta else energy_fj
        return np.stack([alpha * cycles + beta * energy_fj, tie])

    def of_measures(self, measures: np.ndarray) -> np.ndarray:
        """Pairs of phases measured by `tables.array.table`: int64[2, ...]."""
        rates = self.rates
        cycles = np.maximum(measures[..., NETWORK], measures[..., DRAM])
        energy = (
            measures[..., HOPS] * rates.flit_hop_fj
            + measures[..., READS] * rates.read_fj
            + measures[..., WRITES] * rates.write_fj
            + measures[..., ACTS] * rates.activation_fj
            + measures[..., ADDS] * rates.addition_fj
        )
        return self.weigh(cycles, energy)

    def of_phase(self, phase: PhaseCost) -> np.ndarray:
        """The pair of one phase."""
        return self.weigh(phase.cycles, phase.energy_fj(self.rates))


#: What mappings cost, as a rule, in per cent of a bound of tiles, and of one of the PEs' arrangements. Measured: of 16
#: parts of GoogLeNet on 4x8 nodes mappings cost 5.5 % more than the first. Of 40 parts that is 1.03 to 2.2 times as
#: high as the other one.
_OF_TILES, _OF_PES = 110, 200


@frozen(kw_only=True)
class NodeShare:
    """How the cost of a node program counts in a plan's, on so many nodes.

    `node_scale`: that of the node problems' objective.
    """

    weighing: Weighing
    nodes: int
    node_scale: int

    @property
    def factor(self) -> int:
        """The objective's integers for one of the node problems': energy counts on every node, cycles once.

        Where both count, the node problems' objective weighs energy as often as there are nodes already, and only its
        unit may be larger.
        """
        alpha, beta = self.weighing.objective.weights
        if alpha and beta:
            return self.weighing.objective.scale // self.node_scale
        return self.nodes if beta else 1

    def own(self, cost: NodeCost | None, upper: bool = False) -> tuple[int, int]:
        """(cost, tie) of a node program on all nodes: its floor, or its value."""
        if cost is None or (upper and not cost.is_solved):
            return INFINITE, INFINITE
        if not cost.is_solved:
            return cost.least * self.factor, 0
        pair = self.weighing.weigh(cost.latency_cycles, self.nodes * cost.energy_fj)
        if upper or cost.is_proven:
            is_energy = upper or self.weighing.objective.weights[1] > 0
            return int(pair[0]), int(pair[1]) if is_energy else self.nodes * cost.least_energy_fj
        return int(pair[0]) - cost.gap * self.factor, 0

    def likely(self, cost: NodeCost | None) -> tuple[int, int]:
        """(cost, tie) of the best mapping that is known, or what one may cost, by the bound."""
        if cost is None or cost.is_solved:
            return self.own(cost, upper=True)
        return cost.least * self.factor * (_OF_TILES if cost.is_refined else _OF_PES) // 100, 0


@frozen(kw_only=True)
class Price:
    """What a byte of weights in a node's DRAM costs: `per_byte` / `scale` of the objective (a multiplier).

    Costs of a priced problem are `scale` x the objective + `per_byte` x bytes.
    """

    scale: int = 1
    per_byte: int = 0


#: Replicas of weights cost nothing, so every node that needs weights has them.
FREE_BYTES = Price()


@frozen(kw_only=True)
class Replication:
    """So many replicas of a layer's weights: cost and tie-breaker of their exchange, bytes on the array's first node.

    No node holds more: its parts are the largest, and it is the first of its tour.
    """

    replicas: int
    cost: int
    tie: int
    node_bytes: int

    def priced(self, price: Price) -> tuple[int, int]:
        """(cost, tie) at a price of bytes."""
        return price.scale * self.cost + price.per_byte * self.node_bytes, self.tie
