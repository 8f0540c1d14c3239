"""Compiles one kernel for devices that send the same inputs to all cores of a channel."""

from collections.abc import Mapping as Names

from attrs import evolve, frozen

from cpsat_pim.compiler.language import Kernel, KernelMistake, Statement
from cpsat_pim.compiler.lowering.bank_contraction import BankContraction
from cpsat_pim.compiler.lowering.bank_elementwise import BankElementwise
from cpsat_pim.compiler.lowering.bank_mode import BankTarget
from cpsat_pim.compiler.lowering.in_order import InOrderContraction
from cpsat_pim.compiler.lowering.in_order_elementwise import InOrderElementwise
from cpsat_pim.compiler.lowering.program import COMPUTE, PARTS
from cpsat_pim.compiler.lowering.targets import bank_target, broadcast_target, has_bank_mode, in_order_target
from cpsat_pim.compiler.mapping import Contraction, contraction_of
from cpsat_pim.compiler.mapping.broadcast import BroadcastMapping
from cpsat_pim.compiler.mapping.elementwise import ElementwiseMapping, SpreadMapping, elementwise_of
from cpsat_pim.compiler.mistakes import CompilerDefect
from cpsat_pim.compiler.plan import Plan
from cpsat_pim.compiler.search.bank_elementwise import best_elementwise
from cpsat_pim.compiler.search.bank_mode import best_bank_mapping
from cpsat_pim.compiler.search.broadcast import Found, FoundElementwise
from cpsat_pim.compiler.search.goal import Goal
from cpsat_pim.compiler.search.in_order import best_in_order, best_spread, single_bank_bound
from cpsat_pim.compiler.search.objective import matrix_fj, matrix_ps
from cpsat_pim.compiler.simulated import simulated_plan
from cpsat_pim.compiler.verify import execute_on_numbers
from cpsat_pim.device import Device

Lowered = BankContraction | BankElementwise | InOrderContraction | InOrderElementwise
AnyMapping = BroadcastMapping | SpreadMapping


@frozen
class Best:
    """The best mapping of a kernel, its value (ps or fJ) and ticks; how many mappings there are, how many were
    walked."""

    mapping: AnyMapping
    value: int
    ticks: int
    mappings: int
    walked: int


def lowered_of(bound: Kernel, mapping: AnyMapping, device: Device) -> Lowered:
    """A kernel with numbers for its sizes under a mapping.

    Raises:
        KernelMistake: the kernel does not run on the device.
    """
    statement = _only_statement(bound)
    if isinstance(mapping, SpreadMapping):
        kernel = elementwise_of(statement)
        if kernel is None:
            raise KernelMistake(f"{statement.place}: expected an elementwise statement for this mapping")
        if has_bank_mode(device) and isinstance(mapping, ElementwiseMapping):
            return BankElementwise(kernel, mapping, bank_target(device))
        if not in_order_target(device).computes_elements:
            raise KernelMistake(f"{device.name}: expected a mapping of a product")
        return InOrderElementwise(kernel, mapping, in_order_target(device))
    contraction = contraction_of(bound, statement).with_hull(mapping.hull)
    if has_bank_mode(device):
        return BankContraction(contraction, mapping, bank_target(device))
    return InOrderContraction(contraction, mapping, in_order_target(device))


def best_of_kernel(bound: Kernel, device: Device, channels: int, objective: str = "time", packs: bool = False) -> Best:
    """The best mapping of a kernel with numbers for its sizes, by `time` or `energy`.

    Raises:
        KernelMistake: the kernel does not run on the device, or does not fit its banks.
    """
    statement = _only_statement(bound)
    target = broadcast_target(device)
    is_vector = isinstance(target, BankTarget) or target.computes_elements
    kernel = elementwise_of(statement) if is_vector else None
    found: Found | FoundElementwise | None
    if kernel is not None:
        if packs:
            raise KernelMistake(f"{bound.name} on {device.name}: expected a kernel with a matrix to pack")
        if isinstance(target, BankTarget):
            found = best_elementwise(kernel, target, channels, is_time=objective == "time")
        else:
            found = best_spread(kernel, target, channels, is_time=objective == "time")
    else:
        found = best_contraction(contraction_of(bound, statement), device, channels, objective, packs)
    best = None if found is None else Best(found.mapping, found.value, found.ticks, found.mappings, found.walked)
    if best is None:
        raise KernelMistake(f"{statement.place}: no mapping fits the banks of {device.name}")
    return best


def best_contraction(
    contraction: Contraction, device: Device, channels: int, objective: str = "time", packs: bool = False
) -> Found | None:
    """The best mapping of a contraction, or None if the banks hold none. Matrix elements that are not next to each
    other are copied alone, or with what lies between; both are searched."""
    answers = []
    for hull in contraction.hulls():
        given, found = contraction.with_hull(hull), None
        if has_bank_mode(device):
            bank = bank_target(device)
            found = best_bank_mapping(given, bank, channels, goal=Goal(given, bank, objective, packs))
        else:
            target = in_order_target(device)
            found = best_in_order(given, target, channels, goal=Goal(given, target, objective, packs))
        if found is not None:
            answers.append(evolve(found, mapping=evolve(found.mapping, hull=hull)))
    if not answers:
        return None
    best = min(answers, key=lambda answer: (answer.value, answer.ticks))
    return evolve(best, mappings=sum(a.mappings for a in answers), walked=sum(a.walked for a in answers))


def compile_broadcast(
    kernel: Kernel,
    bound: Kernel,
    sizes: Names[str, int],
    device: Device,
    channels: int | None,
    objective: str = "time",
    packs: bool = False,
) -> Plan:
    """The plan of the best mapping, simulated and executed on numbers.

    Raises:
        KernelMistake: the kernel does not run on the device, or its file states no energies for the objective energy.
        CompilerDefect: walk and simulator differ.
    """
    if objective not in ("time", "energy"):
        raise KernelMistake(f"{device.name}: expected the objective time or energy (got {objective})")
    all_channels = device.system.channels
    if objective == "energy":
        check_energies(device)
    best = best_of_kernel(bound, device, channels or all_channels, objective, packs)
    lowered = lowered_of(bound, best.mapping, device)
    program = lowered.program
    if program.ticks != best.ticks:
        raise CompilerDefect(f"{kernel.name}: {best.ticks} ticks found, {program.ticks} lowered")
    packing = packing_fj = 0
    if packs and isinstance(lowered, BankContraction | InOrderContraction):
        packing = matrix_ps(lowered.contraction, lowered.target, lowered.mapping.splits)
        packing_fj = matrix_fj(lowered.contraction, lowered.target, lowered.mapping.splits)
    time_ps = best.ticks * device.tick_ps + packing
    return simulated_plan(
        kernel,
        sizes,
        device,
        program.stream,
        program.ticks,
        channels=channels or all_channels,
        mappings={kernel.name: best.mapping},
        axis_names=lowered.target.axis_names,
        compute_ticks=int(program.parts[COMPUTE]),
        part_ticks={name: int(ticks) for name, ticks in zip(PARTS, program.parts, strict=True)},
        host_ps=0,
        time_ps=time_ps,
        bound_ps=time_ps,
        space=best.mappings,
        walked=best.walked,
        functional=execute_on_numbers(bound, lowered, device),
        remarks=_remarks(
            bound, device, channels or all_channels, best.value if objective == "energy" and not packs else 0
        ),
        goal=objective,
        value=None if objective == "time" else best.value,
        energy_fj=_energy_fj(lowered, packing_fj),
        matrix_ps=packing,
    )


def _remarks(bound: Kernel, device: Device, channels: int, energy_fj: int) -> tuple[str, ...]:
    """What a reader should know: no simulator, and of a least energy what commands of single banks could save (AiM)."""
    remarks = () if device.system.checked_against else ("the device is not checked against a simulator",)
    if energy_fj == 0 or has_bank_mode(device) or not in_order_target(device).sets_scalars:
        return remarks
    contraction = contraction_of(bound, _only_statement(bound))
    target = in_order_target(device)
    least = min(single_bank_bound(contraction.with_hull(hull), target, channels) for hull in contraction.hulls())
    if least >= energy_fj:
        return (*remarks, "commands of single banks take no less energy")
    return (*remarks, f"with commands of single banks the energy would be at least {least / 1e9:.3f} uJ")


def check_energies(device: Device) -> None:
    """Raise a KernelMistake if the device file states no energies at all."""
    if all(command.energy_fj is None and not command.function_fj for command in device.commands):
        raise KernelMistake(f"{device.name}: its file states no energies (`energy_fj` of commands)")


def _energy_fj(lowered: Lowered, packing_fj: int) -> int | None:
    """Femtojoules of all channels in use; None if the device file does not state them."""
    channels = sum(1 for _ in lowered.channels())
    try:
        return lowered.channel_fj * channels + packing_fj
    except KernelMistake:
        return None


def _only_statement(bound: Kernel) -> Statement:
    if len(bound.statements) != 1:
        raise KernelMistake(f"{bound.name}: expected one statement (got {len(bound.statements)})")
    return bound.statements[0]
