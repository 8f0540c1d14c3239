"""Compiles a kernel of several statements: cut, candidates, choice, simulation, execution on numbers."""

from collections.abc import Mapping as Names

from cpsat_pim.compiler.chain.candidates import PIM, Candidate, Setting, candidates_of, lowered_part, target_of_any
from cpsat_pim.compiler.chain.model import choose
from cpsat_pim.compiler.chain.numbers import compare_chain, compare_statement
from cpsat_pim.compiler.chain.plan import ChainPlan, Line
from cpsat_pim.compiler.chain.statements import Part, parts_of
from cpsat_pim.compiler.language import Kernel, KernelMistake
from cpsat_pim.compiler.lowering import Lowered
from cpsat_pim.compiler.mapping import Mapping, contraction_of
from cpsat_pim.compiler.mistakes import CompilerDefect
from cpsat_pim.compiler.search.objective import energy_fj
from cpsat_pim.compiler.target import target_of
from cpsat_pim.device import Device
from cpsat_pim.device.rules import rules_of
from tracesim.commands import simulate


def compile_chain(
    kernel: Kernel, sizes: Names[str, int], device: Device, channels: int | None = None, packs: bool = False
) -> ChainPlan:
    """The best choice of a candidate for every statement, by time; with `packs` parameters are packed for every run.

    Raises:
        KernelMistake: a size is wrong.
        CompilerDefect: walk and simulator differ.
    """
    bound = kernel.bind(sizes)
    parts = parts_of(bound)
    setting = Setting(device, channels or device.system.channels, packs)
    choices = candidates_of(parts, setting)
    choice = choose(choices, device.core.rows)
    chosen = choice.chosen
    simulated = [_simulated(*pair, device) for pair in zip(parts, chosen, strict=True)]
    functional = [compare_statement(*pair, device) for pair in zip(parts, chosen, strict=True)]
    energies = [_energy_fj(*pair, device) for pair in zip(parts, chosen, strict=True)]
    lines = tuple(map(Line, choices, chosen, simulated, functional, energies))
    return ChainPlan(
        kernel=kernel.name,
        sizes=sizes,
        device=device.name,
        host=setting.host.name if setting.has_host else None,
        channels=setting.channels,
        tick_ps=device.tick_ps,
        axis_names=target_of_any(device).axis_names,
        rows=device.core.rows,
        lines=lines,
        layouts=choice.layouts,
        time_ps=choice.value_ps,
        bound_ps=choice.bound_ps,
        whole=compare_chain(bound, parts, chosen, device),
        is_checked=bool(device.system.checked_against),
    )


def _simulated(part: Part, candidate: Candidate, device: Device) -> int:
    """Ticks of the simulator with refresh; 0 on the host.

    Raises:
        CompilerDefect: without refresh the simulator takes another number of ticks than the candidate states.
    """
    if candidate.place != PIM:
        return 0
    lowered = lowered_part(part, candidate.mapping, device)
    stream = lowered.stream if isinstance(lowered, Lowered) else lowered.program.stream
    plain, refreshed = (simulate(rules_of(device), stream, refresh).finish for refresh in (False, True))
    if plain != candidate.ticks:
        raise CompilerDefect(f"{part.kernel.name}: {candidate.ticks} ticks predicted, {plain} simulated")
    return int(refreshed)


def _energy_fj(part: Part, candidate: Candidate, device: Device) -> int | None:
    """Femtojoules of a statement's commands in all channels that it uses; None on the host, or if they are not
    stated."""
    if candidate.place != PIM:
        return None
    lowered = lowered_part(part, candidate.mapping, device)
    try:
        if isinstance(lowered, Lowered) and isinstance(candidate.mapping, Mapping):
            contraction = contraction_of(part.kernel, part.statement).with_hull(candidate.mapping.hull)
            return energy_fj(candidate.mapping, contraction, target_of(device))
        return int(lowered.channel_fj * sum(1 for _ in lowered.channels()))
    except KernelMistake:
        return None
