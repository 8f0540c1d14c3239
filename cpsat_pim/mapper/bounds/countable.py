"""Whether 64 bits are enough to count a layer's costs with."""

import math

from cpsat_pim.arch import PIMArchitecture
from cpsat_pim.base.dims import Dim, Tensor
from cpsat_pim.evaluate.cost import access_energies_fj, to_machine
from cpsat_pim.mapper.result import Objective
from cpsat_pim.workload import ConvWorkload
from tables.dram import last_run

#: CP-SAT's integers end at 2^62, and rows add up several; nothing that matters of a layer comes near this
#: (`bounds.countable`).
HIGHEST = 2**60
#: An energy from here on is none to `tables.bounds.tile_bounds` and `model.climb`.
_MOST_FJ = 2**58
#: What a femtojoule weighs in the sums that prove a product.
FJ_WEIGHT = 2


def check_countable(layer: ConvWorkload, arch: PIMArchitecture, objective: Objective) -> None:
    """All that a layer is bounded with stays within 64 bits: a sum that wrapped around would prove what is not so.

    Raises:
        ValueError: it does not, as the objective weighs it.
    """
    weights = (1, FJ_WEIGHT) if objective.is_product else objective.weights
    cycle_weight, fj_weight = (max(1, weight) for weight in weights)  # both are counted, whatever is to be least
    cycles, fj = _most_counted(layer, arch)
    if fj >= _MOST_FJ:
        raise ValueError(f"{layer.name} on {arch.name}: up to {fj} fJ reach 2^58, which cannot be counted")
    if cycle_weight * cycles + fj_weight * fj >= HIGHEST:
        raise ValueError(
            f"{layer.name} on {arch.name}: {cycle_weight} x up to {cycles} cycles + {fj_weight} x up to {fj} fJ "
            "reach 2^60, which cannot be counted"
        )


def heaviest_cycle(layer: ConvWorkload, arch: PIMArchitecture) -> int:
    """The largest weight of a cycle, of 1 at least, that leaves a program room for its own sums of both."""
    cycles, fj = _most_counted(layer, arch)
    return max(1, (HIGHEST - FJ_WEIGHT * fj) // cycles)


def _most_counted(layer: ConvWorkload, arch: PIMArchitecture) -> tuple[int, int]:
    """No bound of the screen is above so many cycles and femtojoules, nor is the energy of any mapping, but for rows
    that are opened again: one MAC at a time, each element in a row of its own, and for each MAC and tensor an access at
    each level either way; two of partial sums, which a level exchanges with its neighbours on both sides.
    """
    machine, elements = to_machine(arch), sum(layer.elements(t) for t in Tensor)
    dram = machine.dram
    edges = dram.RL + dram.burst + int(last_run(1, dram)) + machine.pipeline_latency
    cycles = layer.macs + (elements + 1) * (dram.tCCD + arch.dram_activation_latency) + edges
    accesses_fj = (_most_inputs(layer) + 1 + 2) * sum(map(sum, access_energies_fj(arch)))
    return cycles, layer.macs * (machine.mac_fj + accesses_fj) + elements * machine.activation_fj


def _most_inputs(layer: ConvWorkload) -> int:
    """Elements of I for each MAC of a tile: of p x r ones at most (p - 1) stride + (r - 1) dilation + 1 lie along an
    axis, no more than p r times the larger of the two.
    """
    sides = zip((Dim.P, Dim.Q), (Dim.R, Dim.S), layer.stride, layer.dilation, strict=True)
    return math.prod(
        max(stride, dilation) if layer.bounds[p] * layer.bounds[r] > 1 else 1 for p, r, stride, dilation in sides
    )
