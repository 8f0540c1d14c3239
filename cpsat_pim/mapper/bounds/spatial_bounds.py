"""Lower bounds per spatial mapping and set of tensors stored in the PEs (docs/solver.md, B1).

The bound of a spatial mapping adds what every mapping with it costs: the least access energy of each tensor over all
stored sets, as if no tile were fetched twice; the energy of MACs and of the fewest activations (B2); and the larger of
the array's steps, with the first tile's and last tile's shortest transfer, and of the shortest DRAM stream.
"""

import itertools
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from cpsat_pim.arch import PIMArchitecture
from cpsat_pim.base.dims import BUFFERS, Level, Tensor
from cpsat_pim.evaluate.cost import access_energies_fj, to_machine, to_shape
from cpsat_pim.mapper.bounds.stream_bounds import DramLimits, min_columns, min_rows
from cpsat_pim.mapper.result import Objective
from cpsat_pim.mapper.space.candidates import SPATIAL
from cpsat_pim.mapper.space.restriction import Restriction
from cpsat_pim.workload import ConvWorkload
from tables.bounds.spatial import Energies, Sharing, energy_of, min_quantities, spatial_vectors
from tables.counts.walk import NO_STREAM_LIMIT, StreamLimit
from tables.dram import last_run, last_run_excess


class SpatialBounds:
    """`lower_bound`: no mapping of the restriction costs less, in the objective's integers; None if there is none.

    Bounds are kept per spatial vector (PEs and lanes per dim) and set of tensors stored in the PEs.
    """

    def __init__(
        self,
        layer: ConvWorkload,
        arch: PIMArchitecture,
        objective: Objective,
        restriction: Restriction,
    ) -> None:
        self.layer, self.arch, self.objective, self.restriction = layer, arch, objective, restriction
        self.machine = to_machine(arch)
        self.shape = to_shape(layer)
        self.vectors = self.restriction.vectors(spatial_vectors(self.shape, self.restriction.array))
        self.min_rows = [min_rows(layer, arch, t) for t in Tensor]
        self.fixed_fj = layer.macs * self.machine.mac_fj + self.machine.activation_fj * sum(self.min_rows)
        self._min_energies()
        self.min_stream_cycles = max(self._min_stream(t) for t in Tensor)
        self._bounds()

    def _min_energies(self) -> None:
        """Set `energy[t][in PE, row-aligned]`: the least access energy per vector over the stored sets of that kind.

        Kinds that the machine does not offer are absent.
        """
        energies = Energies(access_energies_fj(self.arch), Sharing(self.arch.multicast, self.arch.spatial_reduction))
        self.energy: list[dict[tuple[bool, bool], NDArray[np.int64]]] = []
        for t in Tensor:
            found: dict[tuple[bool, bool], NDArray[np.int64]] = {}
            quantities = min_quantities(self.shape, t, self.vectors)
            for stored in itertools.product(*(self.restriction.storing_choices(m, t) for m in BUFFERS)):
                if stored[Level.ROW_BUFFER] and not self.restriction.subspace.is_aligned:
                    continue
                key = (stored[Level.PE], stored[Level.ROW_BUFFER])
                value = energy_of(t, (stored[0], stored[1], stored[2]), energies, quantities)
                found[key] = value if key not in found else np.minimum(found[key], value)
            self.energy.append(found)

    def _min_stream(self, t: Tensor) -> int:
        """Return the fewest cycles of t's stream: it moves every needed byte and opens every needed row once."""
        dram = self.machine.dram
        columns, miss = min_columns(self.layer, self.arch, t), self.arch.dram_activation_latency
        return columns * dram.tCCD + self.min_rows[t] * miss + last_run_excess(dram)

    def _bounds(self) -> None:
        """Compute the bound of each vector and stored set of the PEs that the machine offers and the budget allows."""
        self.min_steps = int(self._steps(self.vectors).min(initial=self.layer.macs))
        rows, all_cycles, all_fj = [], [], []
        for in_pe in itertools.product((False, True), repeat=len(Tensor)):
            access_fj = self._min_access_energy(in_pe)
            if access_fj is None:
                continue
            allowed = self.restriction.allows(self.vectors, in_pe)
            cycles = self.min_latency(self.vectors, in_pe[Tensor.I] or in_pe[Tensor.W])
            energy = access_fj + self.fixed_fj
            allowed &= self.restriction.is_within_budget(cycles, energy, sum(self.min_rows))
            flags = np.tile(np.array(in_pe, np.int64), (len(self.vectors), 1))
            rows.append(np.column_stack([self.vectors, flags])[allowed])
            all_cycles.append(cycles[allowed])
            all_fj.append(energy[allowed])
        self._rows = np.concatenate(rows) if rows else np.zeros((0, 19), np.int64)
        self._cycles = np.concatenate(all_cycles) if rows else np.zeros(0, np.int64)
        self._fj = np.concatenate(all_fj) if rows else np.zeros(0, np.int64)
        self._values = self._weighted(self.objective)
        self.lower_bound = self.lower_bound_of(self.objective)

    def _weighted(self, objective: Objective) -> NDArray[np.int64]:
        cycle_weight, fj_weight = objective.weights
        return cycle_weight * self._cycles + fj_weight * self._fj

    def lower_bound_of(self, objective: Objective) -> int | None:
        """Return the same bound for another objective that is a sum of latency and energy."""
        return int(self._weighted(objective).min()) if len(self._rows) else None

    def _steps(self, vectors: NDArray[np.int64]) -> NDArray[np.int64]:
        """Eq. 34: return the array's steps per vector, as long as every step does one MAC per lane and PE."""
        steps: NDArray[np.int64] = self.layer.macs // vectors[:, SPATIAL].prod(axis=1)
        return steps

    def min_latency(self, vectors: NDArray[np.int64], waits: bool | NDArray[np.bool_]) -> NDArray[np.int64]:
        """Return a lower bound on the latency per vector: int[n].

        `waits`: whether PEs store I or W. Then the first step waits for a first tile; what the MACs draw from DRAM step
        by step does not delay it.
        """
        start = np.where(waits, int(last_run(1, self.machine.dram)), 0)
        cycles = np.maximum(start + self._steps(vectors) + self.machine.dram.tCCD, self.min_stream_cycles)
        return cycles + self.machine.pipeline_latency

    def _min_access_energy(self, in_pe: tuple[bool, ...]) -> NDArray[np.int64] | None:
        """Return the least access energy of all tensors per vector; None if no stored sets are offered.

        In the aligned subspace at least one tensor is row-aligned, in the others none is.
        """
        least = None
        for aligned in itertools.product((False, True), repeat=len(Tensor)):
            if any(aligned) != self.restriction.subspace.is_aligned:
                continue
            parts = [self.energy[t].get((in_pe[t], aligned[t])) for t in Tensor]
            if any(part is None for part in parts):
                continue
            total = parts[0] + parts[1] + parts[2]  # type: ignore[operator]
            least = total if least is None else np.minimum(least, total)
        return least

    def candidates(self, trial_bound: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the vectors (PEs per dim, lanes per dim, three PE flags) with a lower bound of at most the trial
        bound.

        Every mapping that costs at most the trial bound has one of them. Shapes int[n, 19], and int[n] for their
        bounds.
        """
        keep = self._values <= trial_bound
        return self._rows[keep], self._values[keep]

    def dram_limits(self, trial_bound: int) -> DramLimits:
        """Return what the DRAM streams of a mapping that costs at most the trial bound can take."""
        cycles = self.max_cycles(trial_bound)
        return DramLimits(
            activations=self._max_activations(trial_bound),
            cycles=cycles,
            edge_cycles=None if cycles is None else cycles - self.min_steps,
        )

    def stream_limits(self, trial_bound: int) -> list[StreamLimit]:
        """Return what each tensor's stream can take in a mapping that costs at most the trial bound.

        The other tensors take their fewest activations, so one tensor has the activations that these leave.
        """
        limits = self.dram_limits(trial_bound)
        cycles = NO_STREAM_LIMIT.cycles if limits.cycles is None else limits.cycles
        if limits.activations is None:
            return [StreamLimit(NO_STREAM_LIMIT.activations, cycles)] * len(Tensor)
        return [StreamLimit(limits.activations - sum(self.min_rows) + own, cycles) for own in self.min_rows]

    def _max_activations(self, trial_bound: int) -> int | None:
        """Return the most row activations of all tensors together in a mapping that costs at most the trial bound.

        None if nothing limits them. The bound of each spatial mapping counts each row once, so what the trial bound
        leaves above it is all that further activations can cost.
        """
        fj_weight, each = self.objective.weights[1], self.machine.activation_fj
        spare = [(trial_bound - (self.lower_bound or 0)) // (fj_weight * each)] if fj_weight * each else []
        if self.restriction.budget.fj is not None and each:
            spare.append((self.restriction.budget.fj - self._min_fj) // each)
        if self.restriction.budget.activations is not None:
            spare.append(self.restriction.budget.activations - sum(self.min_rows))
        return sum(self.min_rows) + max(0, min(spare)) if spare else None

    def max_cycles(self, trial_bound: int) -> int | None:
        """Return the largest latency, without pipeline latency, of a mapping that costs at most the trial bound.

        None if nothing limits it.
        """
        cycle_weight, fj_weight = self.objective.weights
        most = [] if self.restriction.budget.cycles is None else [self.restriction.budget.cycles]
        if cycle_weight:
            most.append((trial_bound - fj_weight * self._min_fj) // cycle_weight)
        return max(1, min(most) - self.machine.pipeline_latency) if most else None

    @cached_property
    def _min_fj(self) -> int:
        """The least energy of all spatial mappings, in femtojoules."""
        return self.fixed_fj + min((int(v.min()) for v in self._energy_sums() if len(v)), default=0)

    def _energy_sums(self) -> list[NDArray[np.int64]]:
        """Return the least access energies per vector for each set of tensors in the PEs that is offered."""
        sums = (self._min_access_energy(in_pe) for in_pe in itertools.product((False, True), repeat=len(Tensor)))
        return [s for s in sums if s is not None]
