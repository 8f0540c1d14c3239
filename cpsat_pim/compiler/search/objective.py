"""The best mapping by time, energy, compute or rearrangement: what is minimised, and the proof (`tables.commands`)."""

from math import prod
from typing import Protocol

import numpy as np
from attrs import evolve, frozen

from cpsat_pim.compiler.host.energy import MEMORY_FJ
from cpsat_pim.compiler.host.rearrangement import packing_ps
from cpsat_pim.compiler.language import KernelMistake
from cpsat_pim.compiler.lowering.contraction import moves
from cpsat_pim.compiler.mapping import Contraction, Mapping
from cpsat_pim.compiler.mapping.contraction import DEPTH, SHARED
from cpsat_pim.compiler.search.space import space_of
from cpsat_pim.compiler.search.sweep import Optimum, best_mapping, mapping_of
from cpsat_pim.compiler.target import Target
from cpsat_pim.device import Device
from tables.commands.objectives import COMPUTE, ENERGY, REARRANGEMENT, BestBy, Energies, energy_of, sweep_by
from tables.commands.steps import build_groups, build_steps
from tables.commands.sweep import NONE, Best, Space, count_mappings, sweep

#: What may be minimised, with its unit.
OBJECTIVES = {"time": "ps", "energy": "fJ", "compute": "ps", "rearrangement": "ps"}
_KERNEL = {"energy": ENERGY, "compute": COMPUTE, "rearrangement": REARRANGEMENT}


class OnDevice(Protocol):
    """What stands for a device."""

    @property
    def device(self) -> Device:
        """The device."""
        ...


@frozen(eq=False)
class Answer:
    """The best mapping by an objective, and its value in the objective's unit."""

    optimum: Optimum
    value: int


def energies_of(target: Target) -> Energies:
    """Femtojoules of the commands on one channel.

    Raises:
        KernelMistake: the device file does not state them.
    """
    device = target.device
    row = device.commands[target.mac].activate
    numbers = [target.mac, device.command(str(row)), target.load, target.drain]
    found = [device.commands[number].energy_fj for number in numbers]
    lacking = [device.commands[n].name for n, energy in zip(numbers, found, strict=True) if energy is None]
    if lacking or device.group.byte_fj is None:
        raise KernelMistake(f"{device.name}: its file states no energy of {', '.join(lacking) or 'bytes to the host'}")
    return Energies(*(energy for energy in found if energy is not None))


def states_energies(target: Target) -> bool:
    """Whether the device file states the energies that the compiler needs."""
    try:
        energies_of(target)
    except KernelMistake:
        return False
    return True


def best_by(
    objective: str, contraction: Contraction, target: Target, channels: int | None = None, packs: bool = False
) -> Answer | None:
    """The best mapping by an objective; of equal ones the fastest. None if the device can run none. With `packs` the
    matrix is not resident: it is packed for every run, and that is charged as rearrangement.

    Matrix elements that are not next to each other are copied alone, or with what lies between; both are searched.

    Raises:
        KernelMistake: the device file states no energies.
    """
    answers = [
        evolve(found, optimum=evolve(found.optimum, mapping=evolve(found.optimum.mapping, hull=hull)))
        for hull in contraction.hulls()
        if (found := best_with_hull(objective, contraction.with_hull(hull), target, channels, packs)) is not None
    ]
    if not answers:
        return None
    best = min(answers, key=lambda answer: (answer.value, answer.optimum.time_ps))
    mappings, walked = (sum(getattr(a.optimum, name) for a in answers) for name in ("mappings", "walked"))
    return evolve(best, optimum=evolve(best.optimum, mappings=mappings, walked=walked))


def best_with_hull(
    objective: str, contraction: Contraction, target: Target, channels: int | None, packs: bool
) -> Answer | None:
    """The same for the contraction as it is given: with its hull, or without."""
    if objective == "time" and not packs:
        optimum = best_mapping(contraction, target, channels)
        return Answer(optimum, optimum.time_ps) if optimum else None
    space = space_of(contraction, target, channels)
    arrays = space.arrays
    if packs:
        added = np.array([matrix_ps(contraction, target, split) for split in space.splits])
        arrays = arrays._replace(extra=arrays.extra + added)
    best = _swept(objective, arrays, space.splits, contraction, target, packs)
    if best.time_ps >= NONE:
        return None
    optimum = Optimum(
        mapping_of(space, best),
        best.ticks,
        best.time_ps,
        int(space.arrays.extra[best.split]),
        count_mappings(arrays, target.timing),
        best.walked,
    )
    return Answer(optimum, best.time_ps if isinstance(best, Best) else best.value)


def _swept(
    objective: str,
    arrays: Space,
    splits: tuple[tuple[int, ...], ...],
    contraction: Contraction,
    target: Target,
    packs: bool,
) -> Best | BestBy:
    if objective == "time":
        return sweep(arrays, target.timing, True)
    energies, host = Energies(0, 0, 0, 0), np.zeros(len(splits), np.int64)
    if objective == "energy":
        energies = energies_of(target)
        host = np.array([output_fj(contraction, target, split) for split in splits])
        if packs:
            host += np.array([matrix_fj(contraction, target, split) for split in splits])
    used = np.array([prod(split) for split in splits])
    return sweep_by(arrays, target.timing, energies, used, host, _KERNEL[objective], True)


def matrix_bytes(contraction: Contraction, target: OnDevice, split: tuple[int, ...]) -> int:
    """Bytes of the matrix, once for every part of the vectors that meet it."""
    batch, _, outputs, depth = contraction.extents
    return batch * outputs * depth * split[SHARED] * target.device.core.element_bytes


def bytes_read(contraction: Contraction, target: OnDevice) -> int:
    """Bytes that the host reads for every byte of the matrix that it packs: it reads whole bursts, of which elements
    that are not next to each other fill a part."""
    last = contraction.matrix.indices[-1]
    strides = [s for name, s in contraction.strides.items() if name in last.names and name not in contraction.hull]
    return min(strides[0], target.device.group.burst_bytes // target.device.core.element_bytes) if strides else 1


def matrix_ps(contraction: Contraction, target: OnDevice, split: tuple[int, ...]) -> int:
    """Picoseconds to pack the matrix for the banks of the channels in use."""
    moved = matrix_bytes(contraction, target, split)
    return packing_ps(moved * bytes_read(contraction, target), moved, prod(split), target.device)


def matrix_fj(contraction: Contraction, target: OnDevice, split: tuple[int, ...]) -> int:
    """Femtojoules to read the matrix from the host's memory and to write it to the banks, at the same energy a byte."""
    moved = matrix_bytes(contraction, target, split)
    return MEMORY_FJ * moved * (1 + bytes_read(contraction, target))


def energy_fj(mapping: Mapping, contraction: Contraction, target: Target) -> int:
    """Femtojoules of a mapping: the commands of all channels in use, and the host's reading of the results."""
    share = mapping.share(contraction, target)
    loads, drains = moves(mapping, contraction, target)
    groups = build_groups(share, build_steps(share, target.device.core.columns), len(drains), len(loads))
    channel = energy_of(energies_of(target), groups, len(drains), len(loads), target.device.core.columns)
    return channel * prod(mapping.splits) + output_fj(contraction, target, mapping.splits)


def output_fj(contraction: Contraction, target: Target, split: tuple[int, ...]) -> int:
    """Femtojoules of the results on their way to the host; every part of a split depth delivers results of its own."""
    batch, shared, outputs, _ = contraction.extents
    moved = batch * shared * outputs * split[DEPTH] * target.device.core.element_bytes
    return moved * (target.device.group.byte_fj or 0)
