"""Compiles one kernel for devices that send the same inputs to all cores of a channel."""

from collections.abc import Mapping as Names

from attrs import evolve, frozen

from cpsat_pim.compiler.language import Kernel, KernelMistake, Statement
from cpsat_pim.compiler.lowering.bank_contraction import BankContraction
from cpsat_pim.compiler.lowering.bank_elementwise import BankElementwise
from cpsat_pim.compiler.lowering.bank_mode import BankTarget
from cpsat_pim.compiler.lowering.in_order import InOrderContraction, InOrderTarget
from cpsat_pim.compiler.lowering.program import COMPUTE, PARTS
from cpsat_pim.compiler.mapping import Contraction, contraction_of
from cpsat_pim.compiler.mapping.broadcast import BroadcastMapping
from cpsat_pim.compiler.mapping.elementwise import ElementwiseMapping, elementwise_of
from cpsat_pim.compiler.mistakes import CompilerDefect
from cpsat_pim.compiler.plan import Plan
from cpsat_pim.compiler.search.bank_mode import best_bank_mapping, best_elementwise
from cpsat_pim.compiler.search.broadcast import Found
from cpsat_pim.compiler.search.in_order import best_in_order
from cpsat_pim.compiler.verify import execute_on_numbers
from cpsat_pim.device import Device
from cpsat_pim.device.rules import rules_of
from tracesim.commands import simulate

Lowered = BankContraction | BankElementwise | InOrderContraction
AnyMapping = BroadcastMapping | ElementwiseMapping


@frozen
class Best:
    """The best mapping of a kernel and its ticks, how many mappings there are, and how many were walked."""

    mapping: AnyMapping
    ticks: int
    mappings: int
    walked: int


def lowered_of(bound: Kernel, mapping: AnyMapping, device: Device) -> Lowered:
    """A kernel with numbers for its sizes under a mapping.

    Raises:
        KernelMistake: the kernel does not run on the device.
    """
    statement = _only_statement(bound)
    if not has_bank_mode(device):
        if isinstance(mapping, ElementwiseMapping):
            raise KernelMistake(f"{device.name}: expected a mapping of a product")
        contraction = contraction_of(bound, statement).with_hull(mapping.hull)
        return InOrderContraction(contraction, mapping, InOrderTarget(device))
    target = BankTarget(device)
    if isinstance(mapping, ElementwiseMapping):
        kernel = elementwise_of(statement)
        if kernel is None:
            raise KernelMistake(f"{statement.place}: expected an elementwise statement for this mapping")
        return BankElementwise(kernel, mapping, target)
    return BankContraction(contraction_of(bound, statement).with_hull(mapping.hull), mapping, target)


def best_of_kernel(bound: Kernel, device: Device, channels: int) -> Best:
    """The best mapping of a kernel with numbers for its sizes.

    Raises:
        KernelMistake: the kernel does not run on the device, or does not fit its banks.
    """
    statement, kernel = _only_statement(bound), None
    if has_bank_mode(device):
        target, kernel = BankTarget(device), elementwise_of(statement)
    if kernel is not None:
        found = best_elementwise(kernel, target, channels)
        best = None if found is None else Best(found.mapping, found.ticks, found.mappings, found.walked)
    else:
        product = best_contraction(contraction_of(bound, statement), device, channels)
        best = None if product is None else Best(product.mapping, product.ticks, product.mappings, product.walked)
    if best is None:
        raise KernelMistake(f"{bound.name}: no mapping fits the banks of {device.name}")
    return best


def best_contraction(contraction: Contraction, device: Device, channels: int) -> Found | None:
    """The best mapping of a contraction, or None if the banks hold none. Matrix elements that are not next to each
    other are copied alone, or with what lies between; both are searched."""
    answers = []
    for hull in contraction.hulls():
        given = contraction.with_hull(hull)
        if has_bank_mode(device):
            found = best_bank_mapping(given, BankTarget(device), channels)
        else:
            found = best_in_order(given, InOrderTarget(device), channels)
        if found is not None:
            answers.append(evolve(found, mapping=evolve(found.mapping, hull=hull)))
    if not answers:
        return None
    best = min(answers, key=lambda answer: answer.ticks)
    return evolve(best, mappings=sum(a.mappings for a in answers), walked=sum(a.walked for a in answers))


def has_bank_mode(device: Device) -> bool:
    """Whether commands reach all blocks in a mode of their own (HBM-PIM); otherwise the controller is in order."""
    return device.controller.all_bank_mode is not None


def compile_broadcast(
    kernel: Kernel, bound: Kernel, sizes: Names[str, int], device: Device, channels: int | None
) -> Plan:
    """The plan of the best mapping, simulated and executed on numbers.

    Raises:
        KernelMistake: the kernel does not run on the device.
        CompilerDefect: walk and simulator differ.
    """
    all_channels = device.system.stacks * device.system.groups
    best = best_of_kernel(bound, device, channels or all_channels)
    lowered, rules = lowered_of(bound, best.mapping, device), rules_of(device)
    program = lowered.program
    trace, refreshed = (simulate(rules, program.stream, refresh) for refresh in (False, True))
    if not trace.finish == program.ticks == best.ticks:
        raise CompilerDefect(f"{kernel.name}: {best.ticks} ticks predicted, {trace.finish} simulated")
    return Plan(
        kernel=kernel.name,
        sizes=sizes,
        device=device.name,
        tick_ps=device.tick_ps,
        channels=channels or all_channels,
        mappings={kernel.name: best.mapping},
        axis_names=lowered.target.axis_names,
        ticks=best.ticks,
        compute_ticks=int(program.parts[COMPUTE]),
        part_ticks={name: int(ticks) for name, ticks in zip(PARTS, program.parts, strict=True)},
        host_ps=0,
        time_ps=best.ticks * device.tick_ps,
        bound_ps=best.ticks * device.tick_ps,
        space=best.mappings,
        walked=best.walked,
        simulated=trace.finish,
        refreshed=refreshed.finish,
        functional=execute_on_numbers(bound, lowered, device),
        commands={command.name: int(n) for command, n in zip(device.commands, trace.counts, strict=True) if n},
        remarks=() if device.system.checked_against else ("the device is not checked against a simulator",),
    )


def _only_statement(bound: Kernel) -> Statement:
    if len(bound.statements) != 1:
        raise KernelMistake(f"{bound.name}: expected one statement (got {len(bound.statements)})")
    return bound.statements[0]
