"""The seeds' formulation: minimize the cost as their equations *estimate* it, then score the mapping exactly.

The seeds give the estimate to an integer program. Here simulated annealing minimizes it, with more steps than for the
exact cost, because an estimate is cheap. Departures from the equations: accesses are counted (Eq. 23 is a ratio of
tiles), writes take as long as reads, and activations cost energy. Eq. 41-43 omit that energy; without it the minimum
energy would not depend on the estimator.
"""

import math

from attrs import frozen

from cpsat_pim.base.dims import Level, Tensor
from cpsat_pim.evaluate.cost import to_nest
from cpsat_pim.mapping import Mapping
from cpsat_pim.study.baselines.problem import Problem, Scored
from cpsat_pim.study.baselines.search import STARTS, Effort, anneal, draw_mappings
from tables.counts.accesses import READ, WRITE, accesses
from tables.counts.cost import transfers
from tables.estimators import COVERS, ESTIMATORS
from tables.nest import Ints, Nest

#: The estimator that replaces another one where that does not apply.
_OTHERWISE = "pim_optimizer"
#: Annealing steps per sample of the effort.
_STEPS = 2


@frozen(kw_only=True)
class Estimate:
    """The seeds' cost of a mapping, with one of their estimators of row activations."""

    problem: Problem
    estimator: str

    def value(self, mapping: Mapping) -> float:
        """Return the estimated objective."""
        arch, machine = self.problem.arch, self.problem.machine
        nest = to_nest(self.problem.layer, mapping, arch.spatial_reduction)
        counts = accesses(nest, machine.multicast, machine.spatial_reduction)
        activations = [self._activations(nest, t) for t in Tensor]
        objective = self.problem.objective
        cycle_weight, fj_weight = (1, 1) if objective.is_product else objective.weights
        latency = self._latency(nest, counts, activations) if cycle_weight else 0.0
        energy = self._energy_fj(counts, activations) if fj_weight else 0.0
        return latency * energy if objective.is_product else cycle_weight * latency + fj_weight * energy

    def _activations(self, nest: Nest, t: Tensor) -> float:
        name = self.estimator if t in COVERS[self.estimator] else _OTHERWISE
        return ESTIMATORS[name](nest, t, self.problem.machine.dram)

    def _latency(self, nest: Nest, counts: Ints, activations: list[float]) -> float:
        """Return the largest of compute, each level's transfers and DRAM (Eq. 33, 34, 38-40)."""
        dram = self.problem.machine.dram
        compute = math.prod(math.prod(factors) for factors in nest.temporal)
        moved = [int(counts[Level.DRAM, t].sum()) * nest.width(t, Level.DRAM) for t in Tensor]
        busy = [moved[t] * dram.tCCD / dram.column_bytes for t in Tensor]
        waits = [activations[t] * self.problem.arch.dram_activation_latency for t in Tensor]
        slowest = max(b + w for b, w in zip(busy, waits, strict=True))
        return max(compute, *transfers(nest, self.problem.machine, counts).values(), slowest)

    def _energy_fj(self, counts: Ints, activations: list[float]) -> float:
        """Return the energy of MACs, accesses (Eq. 41-43) and activations."""
        machine = self.problem.machine
        total = self.problem.layer.macs * machine.mac_fj + sum(activations) * machine.activation_fj
        return total + sum(
            int(counts[m, t, way]) * machine.access_fj[m][way] for m in Level for t in Tensor for way in (READ, WRITE)
        )


def map_by_estimate(problem: Problem, effort: Effort, estimator: str) -> Scored | None:
    """Return the mapping of least estimated cost that annealing finds, scored exactly."""
    estimate = Estimate(problem=problem, estimator=estimator)
    starts = draw_mappings(problem, effort.share(STARTS))
    if not starts:
        return None
    start = min(starts, key=estimate.value)
    cost, steps = estimate.value(start), _STEPS * effort.samples
    return problem.score(anneal(problem.space, start, cost, lambda m, limit: estimate.value(m), steps, effort.rng()))
