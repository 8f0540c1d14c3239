"""Compiles one kernel: parse, search, lower, simulate, execute."""

from collections.abc import Mapping as Names

from attrs import evolve

from cpsat_pim.compiler.language import Kernel, KernelMistake
from cpsat_pim.compiler.lowering import Lowered, lower
from cpsat_pim.compiler.lowering.contraction import compute_ticks
from cpsat_pim.compiler.mapping import Contraction, contraction_of
from cpsat_pim.compiler.plan import Plan
from cpsat_pim.compiler.search import Optimum, best_mapping
from cpsat_pim.compiler.target import Target, target_of
from cpsat_pim.compiler.verify import compare_on_numbers
from cpsat_pim.device import Device
from cpsat_pim.device.rules import rules_of
from tracesim.commands import simulate


class CompilerDefect(Exception):
    """Two independent answers of this package differ: report it."""


def compile_kernel(kernel: Kernel, sizes: Names[str, int], device: Device, channels: int | None = None) -> Plan:
    """The best mapping of a kernel, simulated and executed.

    Raises:
        KernelMistake: the kernel does not run on the device, or a size is wrong.
        CompilerDefect: walk and simulator differ, or the numbers do.
    """
    bound = kernel.bind(sizes)
    if len(bound.statements) != 1:
        raise KernelMistake(f"{kernel.name}: expected one statement (got {len(bound.statements)})")
    target = target_of(device)
    contraction = contraction_of(bound, bound.statements[0])
    optimum = best_mapping(contraction, target, channels)
    if optimum is None:
        raise KernelMistake(f"{kernel.name}: no mapping fits the banks of {device.name}")
    lowered = lower(optimum.mapping, contraction, target)
    plan = _plan(kernel, sizes, target, channels or target.channels, contraction, optimum, lowered)
    return evolve(plan, functional=compare_on_numbers(bound, contraction, lowered, target))


def _plan(
    kernel: Kernel,
    sizes: Names[str, int],
    target: Target,
    channels: int,
    contraction: Contraction,
    optimum: Optimum,
    lowered: Lowered,
) -> Plan:
    device, rules = target.device, rules_of(target.device)
    trace, refreshed = simulate(rules, lowered.stream), simulate(rules, lowered.stream, refresh=True)
    if not trace.finish == lowered.ticks == optimum.ticks:
        raise CompilerDefect(f"{kernel.name}: {optimum.ticks} ticks predicted, {trace.finish} simulated")
    return Plan(
        kernel=kernel.name,
        sizes=sizes,
        device=device.name,
        tick_ps=device.tick_ps,
        channels=channels,
        mapping=optimum.mapping,
        ticks=optimum.ticks,
        compute_ticks=compute_ticks(optimum.mapping, contraction, target),
        host_ps=optimum.host_ps,
        time_ps=optimum.time_ps,
        bound_ps=optimum.time_ps,
        mappings=optimum.mappings,
        walked=optimum.walked,
        simulated=trace.finish,
        refreshed=refreshed.finish,
        functional=0,
        commands={command.name: int(n) for command, n in zip(device.commands, trace.counts, strict=True) if n},
    )
