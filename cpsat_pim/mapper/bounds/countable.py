"""Whether the costs and bounds of a layer fit into 64-bit integers."""

import math

from cpsat_pim.arch import PIMArchitecture
from cpsat_pim.base.dims import Dim, Tensor
from cpsat_pim.evaluate.cost import access_energies_fj, to_machine
from cpsat_pim.mapper.result import Objective
from cpsat_pim.workload import ConvWorkload
from tables.dram import last_run

#: Upper end of all domains. CP-SAT's integers end at 2^62, and a linear constraint adds up several variables. No cost
#: of a layer that `check_countable` accepts comes near it.
HIGHEST = 2**60
#: `tables.bounds.tile_bounds` and the search for any mapping take an energy of this many femtojoules for no limit.
_MAX_FJ = 2**58
#: Weight of a femtojoule in the weighted sums by which a product of latency and energy is proven.
FJ_WEIGHT = 2


def check_countable(layer: ConvWorkload, arch: PIMArchitecture, objective: Objective) -> None:
    """Check that no bound of a layer overflows 64 bits: a sum that wraps around would prove something false.

    Raises:
        ValueError: weighted as in the objective, some bound could.
    """
    weights = (1, FJ_WEIGHT) if objective.is_product else objective.weights
    cycle_weight, fj_weight = (max(1, weight) for weight in weights)  # both are computed whatever the objective
    cycles, fj = _max_figures(layer, arch)
    if fj >= _MAX_FJ:
        raise ValueError(f"{layer.name} on {arch.name}: up to {fj} fJ reach 2^58, which cannot be counted")
    if cycle_weight * cycles + fj_weight * fj >= HIGHEST:
        raise ValueError(
            f"{layer.name} on {arch.name}: {cycle_weight} x up to {cycles} cycles + {fj_weight} x up to {fj} fJ "
            "reach 2^60, which cannot be counted"
        )


def heaviest_cycle(layer: ConvWorkload, arch: PIMArchitecture) -> int:
    """Return the largest weight of a cycle, at least 1, with which the weighted sum of both stays below the limit."""
    cycles, fj = _max_figures(layer, arch)
    return max(1, (HIGHEST - FJ_WEIGHT * fj) // cycles)


def _max_figures(layer: ConvWorkload, arch: PIMArchitecture) -> tuple[int, int]:
    """Return cycles and femtojoules that no bound of `SpatialBounds` or `TileBounds` exceeds.

    The energy of no mapping exceeds them either, apart from rows that are opened again. They are those of a mapping
    that executes one MAC at a time, opens a row for each element and, for each MAC and tensor, accesses each level in
    both directions; twice for partial sums, which a level exchanges with its neighbours on both sides.
    """
    machine, elements = to_machine(arch), sum(layer.elements(t) for t in Tensor)
    dram = machine.dram
    edges = dram.RL + dram.burst + int(last_run(1, dram)) + machine.pipeline_latency
    cycles = layer.macs + (elements + 1) * (dram.tCCD + arch.dram_activation_latency) + edges
    accesses_fj = (_max_inputs_per_mac(layer) + 1 + 2) * sum(map(sum, access_energies_fj(arch)))
    return cycles, layer.macs * (machine.mac_fj + accesses_fj) + elements * machine.activation_fj


def _max_inputs_per_mac(layer: ConvWorkload) -> int:
    """Return an upper bound on the elements of I per MAC of a tile.

    A tile of p outputs and r filter positions spans (p - 1) stride + (r - 1) dilation + 1 positions along an axis. That
    is at most p * r times the larger of stride and dilation.
    """
    sides = zip((Dim.P, Dim.Q), (Dim.R, Dim.S), layer.stride, layer.dilation, strict=True)
    return math.prod(
        max(stride, dilation) if layer.bounds[p] * layer.bounds[r] > 1 else 1 for p, r, stride, dilation in sides
    )
