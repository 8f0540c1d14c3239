"""The space of elementwise kernels on devices with an all-bank mode (HBM-PIM), its lower bound and its best mapping."""

from itertools import product

import numpy as np
from attrs import evolve

from cpsat_pim.compiler.lowering.bank_commands import commands_fj
from cpsat_pim.compiler.lowering.bank_elementwise import BankElementwise
from cpsat_pim.compiler.lowering.bank_mode import BankTarget, entering, leaving
from cpsat_pim.compiler.mapping.elementwise import Elementwise, ElementwiseMapping
from cpsat_pim.compiler.search.broadcast import FoundElementwise
from cpsat_pim.compiler.search.space import distinct_parts
from tables.commands import window
from tracesim.commands import Function


def best_elementwise(
    kernel: Elementwise, target: BankTarget, channels: int, prunes: bool = True, is_time: bool = True
) -> FoundElementwise | None:
    """The mapping of least time, or of least energy; the host's writes and reads included. None if none fits the
    banks."""
    candidates: list[tuple[int, int, ElementwiseMapping]] = []
    booleans = (False, True)
    for parts, both, shares, turns in product(distinct_parts(kernel.points, channels), booleans, booleans, booleans):
        for mode_bank in (0, 1) if both or turns else ():  # with one bank the order of the two is no choice
            mapping = ElementwiseMapping(
                channels=parts, both_banks=both, shares_rows=shares, takes_turns=turns, mode_bank=mode_bank
            )
            candidates.append(
                (_elementwise_bound(BankElementwise(kernel, mapping, target), is_time), len(candidates), mapping)
            )
    best: FoundElementwise | None = None
    walked = 0
    for bound, _, mapping in sorted(candidates):
        if best is not None and prunes and bound + is_time > best.value:
            break
        lowered = BankElementwise(kernel, mapping, target)
        ticks = window.NOT_EXACT if lowered.problem else lowered.ticks
        walked += 1
        if ticks != window.NOT_EXACT:
            value = ticks * target.device.tick_ps if is_time else lowered.channel_fj * mapping.channels
            if best is None or (value, ticks) < (best.value, best.ticks):
                best = FoundElementwise(mapping, value, ticks, len(candidates), walked)
    return None if best is None else evolve(best, walked=walked)


def _elementwise_bound(lowered: BankElementwise, is_time: bool) -> int:
    """Picoseconds or femtojoules that a mapping does not fall below."""
    if is_time:
        return elementwise_bound(lowered) * lowered.target.device.tick_ps
    return elementwise_energy_bound(lowered)


def elementwise_energy_bound(lowered: BankElementwise) -> int:
    """Femtojoules that a mapping does not fall below: all its commands, without ACTs."""
    target, operands, fj = lowered.target, len(lowered.kernel.operands), lowered.target.energies
    wide, ((one_read, one_write), (all_read, all_write)) = target.device.core.accumulators, target.commands.tolist()
    moved = lowered.octets * wide
    first = Function.FILL if operands == 2 else Function.FILL_RELU
    second = [Function.ADD if lowered.kernel.operation == "+" else Function.MUL] * (operands - 1)
    blocks = sum(int(fj[all_read, function]) for function in (first, *second)) + int(fj[all_write, Function.STORE])
    host = operands * int(fj[one_write, Function.WRITE]) + int(fj[one_read, Function.READ])
    fixed = commands_fj(target, np.concatenate([*entering(target), *leaving(target)]))
    fixed += 2 * int(fj[all_write, Function.NOTHING])
    sides = 1 + lowered.mapping.both_banks
    return lowered.mapping.channels * (fixed + moved * (len(lowered.banks) * host + sides * blocks))


def elementwise_bound(lowered: BankElementwise) -> int:
    """Ticks that a mapping does not fall below: all its columns on the bus of the rank, and the turns of the units."""
    t, wide, operands = lowered.target.timing, lowered.target.device.core.accumulators, len(lowered.kernel.operands)
    banks = len(lowered.banks)
    moved = lowered.octets * wide * banks
    host = operands * moved * t[window.WR_WR_RANK] + moved * t[window.RD_RD_RANK]
    sides = 1 + lowered.mapping.both_banks
    octets = lowered.octets * sides
    steps = octets * (operands * wide * t[window.RD_RD_GROUP] + wide * t[window.WR_WR_GROUP])
    turns = octets if lowered.mapping.takes_turns else lowered.octets
    apart = t[window.RD_WR] + t[window.WR_RD] - t[window.RD_RD_GROUP] - t[window.WR_WR_GROUP]
    return int(host + steps + turns * max(0, apart) - t[window.WR_RD])
