"""Lower bounds per spatial mapping and PE bypass, in the objective's integers: where the search may stop looking."""

import itertools
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from cpsat_pim.arch import PIMArchitecture
from cpsat_pim.base.dims import BUFFERS, Level, Tensor
from cpsat_pim.evaluate.cost import access_energies_fj, to_machine, to_shape
from cpsat_pim.mapper.bounds.stream_bounds import Limits, least_columns, least_rows
from cpsat_pim.mapper.result import Objective
from cpsat_pim.mapper.space.candidates import SPATIAL
from cpsat_pim.mapper.space.restriction import Restriction
from cpsat_pim.workload import ConvWorkload
from tables.bounds.spatial import Energies, Sharing, min_energy, spatial_vectors
from tables.counts.walk import NO_STREAM_LIMIT, StreamLimit
from tables.dram import last_run, last_run_excess


class SpatialBounds:
    """`least`: the smallest objective that any mapping of this part of the space could have.

    One entry per spatial vector (PEs and lanes per dim) and set of tensors stored in the PEs.
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
        self.rows = [least_rows(layer, arch, t) for t in Tensor]
        self.fixed_fj = layer.macs * self.machine.mac_fj + self.machine.activation_fj * sum(self.rows)
        self._least_energies()
        self.least_cycles = max(self._least_stream(t) for t in Tensor)
        self._bounds()

    def _least_energies(self) -> None:
        """`energy[t][in PE, row-aligned]`: least access energy per vector over the stored sets of that kind; None if
        there is none.
        """
        energies = Energies(access_energies_fj(self.arch), Sharing(self.arch.multicast, self.arch.spatial_reduction))
        self.energy: list[dict[tuple[bool, bool], NDArray[np.int64]]] = []
        for t in Tensor:
            found: dict[tuple[bool, bool], NDArray[np.int64]] = {}
            for stored in itertools.product(*(self.restriction.storing_choices(m, t) for m in BUFFERS)):
                if stored[Level.ROW_BUFFER] and not self.restriction.subspace.is_aligned:
                    continue
                key = (stored[Level.PE], stored[Level.ROW_BUFFER])
                value = min_energy(self.shape, t, (stored[0], stored[1], stored[2]), energies, self.vectors)
                found[key] = value if key not in found else np.minimum(found[key], value)
            self.energy.append(found)

    def _least_stream(self, t: Tensor) -> int:
        """Cycles that t's stream takes at least: every needed byte once, every row once."""
        dram = self.machine.dram
        columns, miss = least_columns(self.layer, self.arch, t), self.arch.dram_activation_latency
        return columns * dram.tCCD + self.rows[t] * miss + last_run_excess(dram)

    def _bounds(self) -> None:
        """Objective bound per (vector, tensors in PEs); combinations that the machine does not offer are absent."""
        cycle_weight, fj_weight = self.objective.weights
        self.least_steps = int(self._steps(self.vectors).min(initial=self.layer.macs))
        rows, bounds = [], []
        for in_pe in itertools.product((False, True), repeat=len(Tensor)):
            best = self._least_access_energy(in_pe)
            if best is None:
                continue
            allowed = self.restriction.allows(self.vectors, in_pe)
            cycles = self.least_latency(self.vectors, in_pe[Tensor.I] or in_pe[Tensor.W])
            energy = best + self.fixed_fj
            allowed &= self.restriction.affords(cycles, energy, sum(self.rows))
            flags = np.tile(np.array(in_pe, np.int64), (len(self.vectors), 1))
            rows.append(np.column_stack([self.vectors, flags])[allowed])
            bounds.append((cycle_weight * cycles + fj_weight * energy)[allowed])
        self._rows = np.concatenate(rows) if rows else np.zeros((0, 19), np.int64)
        self._values = np.concatenate(bounds) if bounds else np.zeros(0, np.int64)
        self.least = int(self._values.min()) if len(self._values) else None

    def _steps(self, vectors: NDArray[np.int64]) -> NDArray[np.int64]:
        """Eq. 34."""
        steps: NDArray[np.int64] = self.layer.macs // vectors[:, SPATIAL].prod(axis=1)
        return steps

    def least_latency(self, vectors: NDArray[np.int64], waits: bool | NDArray[np.bool_]) -> NDArray[np.int64]:
        """Latency per vector; `waits`: whether PEs store an operand, for what the MACs draw, nothing waits."""
        start = np.where(waits, int(last_run(1, self.machine.dram)), 0)
        cycles = np.maximum(start + self._steps(vectors) + self.machine.dram.tCCD, self.least_cycles)
        return cycles + self.machine.pipeline_latency

    def _least_access_energy(self, in_pe: tuple[bool, ...]) -> NDArray[np.int64] | None:
        """Sum over tensors; in the row-buffer part at least one tensor is row-aligned."""
        best = None
        for aligned in itertools.product((False, True), repeat=len(Tensor)):
            if any(aligned) != self.restriction.subspace.is_aligned:
                continue
            parts = [self.energy[t].get((in_pe[t], aligned[t])) for t in Tensor]
            if any(subspace is None for subspace in parts):
                continue
            total = parts[0] + parts[1] + parts[2]  # type: ignore[operator]
            best = total if best is None else np.minimum(best, total)
        return best

    def candidates(self, target: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Rows (PEs per dim, lanes per dim, three PE flags) whose bound is at most the target, and the bounds."""
        keep = self._values <= target
        return self._rows[keep], self._values[keep]

    def limits(self, target: int) -> Limits:
        """What a mapping below the target can spend on activations and on a stream."""
        cycles = self.most_cycles(target)
        return Limits(
            activations=self._most_activations(target),
            cycles=cycles,
            edge_cycles=None if cycles is None else cycles - self.least_steps,
        )

    def rooms(self, target: int) -> list[StreamLimit]:
        """What each tensor's stream can take in a mapping below the target."""
        limits = self.limits(target)
        cycles = NO_STREAM_LIMIT.cycles if limits.cycles is None else limits.cycles
        if limits.activations is None:
            return [StreamLimit(NO_STREAM_LIMIT.activations, cycles)] * len(Tensor)
        return [StreamLimit(limits.activations - sum(self.rows) + own, cycles) for own in self.rows]

    def _most_activations(self, target: int) -> int | None:
        """Row activations of all tensors that a mapping below the target can have."""
        fj_weight, each = self.objective.weights[1], self.machine.activation_fj
        spare = [(target - (self.least or 0)) // (fj_weight * each)] if fj_weight * each else []
        if self.restriction.budget.fj is not None and each:
            spare.append((self.restriction.budget.fj - self._least_fj) // each)
        if self.restriction.budget.activations is not None:
            spare.append(self.restriction.budget.activations - sum(self.rows))
        return sum(self.rows) + max(0, min(spare)) if spare else None

    def most_cycles(self, target: int) -> int | None:
        """Latency (without the pipeline's constant) that a mapping below the target can have; None if any."""
        cycle_weight, fj_weight = self.objective.weights
        most = [] if self.restriction.budget.cycles is None else [self.restriction.budget.cycles]
        if cycle_weight:
            most.append((target - fj_weight * self._least_fj) // cycle_weight)
        return max(1, min(most) - self.machine.pipeline_latency) if most else None

    @cached_property
    def _least_fj(self) -> int:
        """The least energy that any spatial mapping may take."""
        return self.fixed_fj + min((int(v.min()) for v in self._energy_sums() if len(v)), default=0)

    def _energy_sums(self) -> list[NDArray[np.int64]]:
        sums = (self._least_access_energy(in_pe) for in_pe in itertools.product((False, True), repeat=len(Tensor)))
        return [s for s in sums if s is not None]
