"""What a plan costs: steps, segments, energy and capacity (docs/array.md, section 6)."""

from collections.abc import Iterable
from typing import Any

import numpy as np
from attrs import field, frozen

from cpsat_pim.planner.additions import Addition, add_operands, addition_at_end, addition_of
from cpsat_pim.planner.alike import content_of
from cpsat_pim.planner.array import HOST
from cpsat_pim.planner.capacity import live_members
from cpsat_pim.planner.partition import Home
from cpsat_pim.planner.phases import PhaseCost, Rates, Work, rates_of
from cpsat_pim.planner.plan import Plan, is_joined
from cpsat_pim.planner.step import Step
from cpsat_pim.planner.sums import Sum
from cpsat_pim.planner.tensors import Graph
from tables.array.counts import INJECT

#: The ways of the links of a mesh, in the order of counters.
LINK_WAYS = ("east", "west", "south", "north")


@frozen(kw_only=True)
class StepCost:
    """A step: its phases by name (compute apart), the node program's figures, and the nodes it runs on."""

    layer: str
    segment: int
    region: int
    phases: tuple[PhaseCost, ...]
    node_cycles: int
    node_energy_fj: int
    nodes: int

    @property
    def cycles(self) -> int:
        """All phases one after the other."""
        return self.node_cycles + sum(phase.cycles for phase in self.phases)

    def energy_fj(self, rates: Rates) -> int:
        """All nodes and all phases."""
        return self.nodes * self.node_energy_fj + sum(phase.energy_fj(rates) for phase in self.phases)

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "layer": self.layer,
            "cycles": self.cycles,
            "node_cycles": self.node_cycles,
            "phases": {phase.name: phase.to_dict() for phase in self.phases},
        }


@frozen(kw_only=True)
class PlanCost:
    """The steps of a plan, the sums at the ends of its segments by segment, and the bytes on each node by step."""

    steps: tuple[StepCost, ...]
    joins: dict[int, PhaseCost]
    rates: Rates
    segment_cycles: tuple[int, ...]
    used_bytes: np.ndarray = field(eq=False, repr=False)

    @property
    def latency_cycles(self) -> int:
        """Segments one after the other."""
        return sum(self.segment_cycles)

    @property
    def phases(self) -> list[PhaseCost]:
        """All phases that move data."""
        return [phase for step in self.steps for phase in step.phases] + list(self.joins.values())

    @property
    def energy_fj(self) -> int:
        """Nodes, network, DRAM and additions."""
        joined = sum(phase.energy_fj(self.rates) for phase in self.joins.values())
        return sum(step.energy_fj(self.rates) for step in self.steps) + joined

    @property
    def link_flits(self) -> dict[str, list[int]]:
        """Flits over each link in the whole plan, by the node that it leaves; over a host, over the bus of each row."""
        loads = sum((phase.loads for phase in self.phases), np.zeros((self.rates.array.nodes, 6), dtype=np.int64))
        if self.rates.array.interconnect == HOST:
            return {"bus": loads[:: self.rates.array.cols, 0].tolist()}
        return {way: loads[:, i].tolist() for i, way in enumerate(LINK_WAYS)}

    @property
    def peak_bytes(self) -> int:
        """Of the fullest node at any step."""
        return int(self.used_bytes.max())

    def to_dict(self) -> dict[str, Any]:
        """Totals and steps, with the keys that the simulation has."""
        phases, rates = self.phases, self.rates
        return {
            "latency_cycles": self.latency_cycles,
            "energy_fj": self.energy_fj,
            "noc_energy_fj": sum(phase.noc_fj(rates) for phase in phases),
            "dram_energy_fj": sum(phase.dram_fj(rates) for phase in phases),
            "add_energy_fj": sum(phase.additions_fj(rates) for phase in phases),
            "node_energy_fj": sum(step.nodes * step.node_energy_fj for step in self.steps),
            "flits": sum(phase.flits for phase in phases),
            "flit_hops": sum(phase.flit_hops for phase in phases),
            "message_bytes": sum(phase.bytes for phase in phases),
            "dram_columns": sum(phase.columns for phase in phases),
            "dram_activations": sum(phase.activations for phase in phases),
            "peak_bytes": self.peak_bytes,
            "link_flits": self.link_flits,
            "steps": [step.to_dict() for step in self.steps],
            "joins": {str(segment): phase.to_dict() for segment, phase in self.joins.items()},
        }


def join_phase(graph: Graph, rates: Rates, sums: Iterable[tuple[Sum, Home]]) -> PhaseCost:
    """Return the phase at the end of a segment that makes some sums, each at its home."""
    work = Work(rates.array)
    for one, home in sums:
        width = graph.stacks[graph.stack_of[one.first]].element_bytes
        add_operands(work, rates, addition_at_end(graph, one), home, width)
    return work.cost("join", rates)


def evaluate_plan(graph: Graph, plan: Plan) -> PlanCost:
    """The cost of a plan that `check_plan` finds nothing wrong with."""
    return _Evaluation(graph, plan).cost()


@frozen(kw_only=True, eq=False)
class _Moved:
    """The phases of a step that move data; bytes on each node: staged in the step, and of weights all through."""

    phases: tuple[PhaseCost, ...]
    staging: np.ndarray
    weight_chunks: np.ndarray


def _move(step: Step, read: Home, read_weights: Home | None, written: Home, added: Addition) -> _Moved:
    """Return what a step moves between these homes."""
    weights_phase, pulled = step.weights(), step.pull(read, read_weights)
    pushed = step.push(written, added)
    return _Moved(
        phases=(weights_phase, pulled, step.reduce(written.layout), pushed),
        staging=step.staging(pulled, weights_phase, pushed),
        weight_chunks=step.weight_chunks(),
    )


class _Evaluation:
    """Walks the steps of a plan."""

    def __init__(self, graph: Graph, plan: Plan) -> None:
        self.graph, self.plan = graph, plan
        self.rates = rates_of(plan.array)
        self.places = {name: (s, r) for s, r, name in plan.steps}
        self.loads = [np.zeros((plan.array.nodes, 6), dtype=np.int64) for _ in plan.segments]
        self.staging: list[np.ndarray] = []
        self.known: dict[Any, _Moved] = {}
        self.weights = np.zeros(plan.array.nodes, dtype=np.int64)

    def cost(self) -> PlanCost:
        """Steps, then segments, then capacity."""
        steps = tuple(self._step(*step) for step in self.plan.steps)
        joins = {s: self._join(s) for s in range(len(self.plan.segments))}
        return PlanCost(
            steps=steps,
            joins={segment: phase for segment, phase in joins.items() if phase is not None},
            rates=self.rates,
            segment_cycles=tuple(self._segment_cycles(s, steps, joins[s]) for s in joins),
            used_bytes=self._used(),
        )

    def _step(self, segment: int, region: int, name: str) -> StepCost:
        layer = self.plan.layers[name]
        moved = self._moved(name)
        for phase in moved.phases:
            self.loads[segment] += phase.loads
        self.staging.append(moved.staging)
        self.weights += moved.weight_chunks
        return StepCost(
            layer=name,
            segment=segment,
            region=region,
            phases=moved.phases,
            node_cycles=layer.node_cycles,
            node_energy_fj=layer.node_energy_fj,
            nodes=layer.partition.region.size,
        )

    def _moved(self, name: str) -> _Moved:
        """Return what a step moves and holds; equal steps of repeated blocks are computed once."""
        task, layer, homes = self.graph.task(name), self.plan.layers[name], self.plan.homes
        added = addition_of(self.graph, task, [one for one in task.finishes if not is_joined(self.plan, one)])
        second = homes[task.others[0].stack] if task.others else None
        placed = homes[task.reads.stack], second, homes[task.writes]
        tours = tuple(sorted(layer.tours.items()))
        key = (content_of(self.graph, task), layer.partition, tours, placed, added)
        if key not in self.known:
            step = Step(graph=self.graph, task=task, partition=layer.partition, rates=self.rates, tours=layer.tours)
            self.known[key] = _move(step, *placed, added)
        return self.known[key]

    def _join(self, segment: int) -> PhaseCost | None:
        """The sums that wait for the end of a segment, as one phase; None if there is none."""
        late = [s for s in self.graph.sums if self.places[s.finished_by][0] == segment and is_joined(self.plan, s)]
        if not late:
            return None
        homes = [self.plan.homes[self.graph.stack_of[one.first]] for one in late]
        return join_phase(self.graph, self.rates, zip(late, homes, strict=True))

    def _segment_cycles(self, segment: int, steps: tuple[StepCost, ...], joined: PhaseCost | None) -> int:
        """The slowest region, or the busiest link or port of all of them; then the sums."""
        regions = range(len(self.plan.segments[segment]))
        own = [sum(s.cycles for s in steps if (s.segment, s.region) == (segment, r)) for r in regions]
        loads = self.loads[segment]
        port = -(-int(loads[:, INJECT:].max()) // self.plan.array.local_port_flits)
        return max(*own, int(loads[:, :INJECT].max()), port) + (joined.cycles if joined else 0)

    # Capacity

    def _used(self) -> np.ndarray:
        """Bytes on every node at every step: int64[steps, nodes]."""
        used = np.array(self.staging) + self.weights
        for first, last, held in live_members(self.graph, self.plan):
            used[first : last + 1] += held
        return used
