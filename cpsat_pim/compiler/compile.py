"""Compiles one kernel: parse, search, lower, simulate, execute."""

from collections.abc import Mapping as Names
from math import prod
from typing import Any

from attrs import evolve

from cpsat_pim.compiler.attention import (
    Attention,
    AttentionMapping,
    AttentionOptimum,
    attention_of,
    best_attention,
    lower_attention,
)
from cpsat_pim.compiler.broadcast import compile_broadcast, lowered_of
from cpsat_pim.compiler.dispatch.lengths import LengthSearch
from cpsat_pim.compiler.host import host_of
from cpsat_pim.compiler.language import Kernel, KernelMistake, shipped_kernel
from cpsat_pim.compiler.lowering import Lowered, lower
from cpsat_pim.compiler.lowering.contraction import compute_ticks
from cpsat_pim.compiler.lowering.targets import has_bank_mode, in_order_target
from cpsat_pim.compiler.mapping import CLASSES, Contraction, contraction_of
from cpsat_pim.compiler.mapping.elementwise import elementwise_of
from cpsat_pim.compiler.mistakes import CompilerDefect
from cpsat_pim.compiler.plan import Plan
from cpsat_pim.compiler.search import Optimum
from cpsat_pim.compiler.search.objective import best_by, energy_fj, matrix_fj, matrix_ps, output_fj, states_energies
from cpsat_pim.compiler.search.space import output_ps
from cpsat_pim.compiler.simulated import simulated_plan
from cpsat_pim.compiler.target import Target, target_of
from cpsat_pim.compiler.verify import compare_on_numbers
from cpsat_pim.device import Device
from tracesim.commands import Stream


def is_attacc_like(device: Device) -> bool:
    """Whether inputs may differ among the cores of a channel, and MACs and moves overlap."""
    return device.controller.policy == "ready-first"


def has_commands(bound: Kernel, device: Device) -> bool:
    """Whether a device has commands for a kernel of one statement: a product or sum, or a vector operation."""
    runs_vectors = not is_attacc_like(device) and (has_bank_mode(device) or in_order_target(device).computes_elements)
    try:
        if not runs_vectors or elementwise_of(bound.statements[0]) is None:
            contraction_of(bound, bound.statements[0])
    except KernelMistake:
        return False
    return True


def stream_of(plan: Plan, kernel: Kernel, device: Device) -> Stream:
    """The commands of one channel of a compiled kernel; all channels get the same."""
    bound = kernel.bind(plan.sizes)
    if not is_attacc_like(device):
        return lowered_of(bound, plan.mappings[kernel.name], device).program.stream
    target, attention = target_of(device), attention_of(bound)
    if attention is not None:
        pair = AttentionMapping(plan.mappings["score"], plan.mappings["context"])
        return lower_attention(attention, pair, target)
    return lower(plan.mappings[kernel.name], contraction_of(bound, bound.statements[0]), target).stream


def compile_kernel(
    kernel: Kernel,
    sizes: Names[str, int],
    device: Device,
    channels: int | None = None,
    objective: str = "time",
    packs: bool = False,
) -> Plan:
    """The best mapping of a kernel by an objective (`search.objective`), simulated and executed. With `packs` the
    matrix is packed for every run, which is charged.

    Raises:
        KernelMistake: the kernel does not run on the device, or a size is wrong.
        CompilerDefect: walk and simulator differ, or the numbers do.
    """
    bound = kernel.bind(sizes)
    if not is_attacc_like(device):
        return compile_broadcast(kernel, bound, sizes, device, channels, objective, packs)
    attention = attention_of(bound)
    if attention is not None:
        if packs:
            raise KernelMistake(f"{kernel.name} on {device.name}: expected resident keys and values")
        if objective != "time":
            raise KernelMistake(f"attention: expected the objective time (got {objective})")
        return _attention_plan(kernel, sizes, target_of(device), channels, attention)
    if len(bound.statements) != 1:
        raise KernelMistake(f"{kernel.name}: expected one statement (got {len(bound.statements)})")
    target = target_of(device)
    contraction = contraction_of(bound, bound.statements[0])
    answer = best_by(objective, contraction, target, channels, packs)
    if answer is None:
        raise KernelMistake(f"{bound.statements[0].place}: no mapping fits the banks of {device.name}")
    contraction = contraction.with_hull(answer.optimum.mapping.hull)
    lowered = lower(answer.optimum.mapping, contraction, target)
    plan = _plan(kernel, sizes, target, channels or target.channels, contraction, answer.optimum, lowered)
    energy = energy_fj(answer.optimum.mapping, contraction, target) if states_energies(target) else None
    packing = packing_fj = 0
    if packs:
        packing = matrix_ps(contraction, target, answer.optimum.mapping.splits)
        packing_fj = matrix_fj(contraction, target, answer.optimum.mapping.splits)
    energy = None if energy is None else energy + packing_fj
    if objective == "energy" and energy != answer.value:
        raise CompilerDefect(f"{kernel.name}: {answer.value} fJ predicted, {energy} fJ counted")
    equal = compare_on_numbers(bound, contraction, lowered, target)
    value = None if objective == "time" else answer.value
    return evolve(plan, functional=equal, goal=objective, value=value, energy_fj=energy, matrix_ps=packing)


def _plan(
    kernel: Kernel,
    sizes: Names[str, int],
    target: Target,
    channels: int,
    contraction: Contraction,
    optimum: Optimum,
    lowered: Lowered,
) -> Plan:
    if lowered.ticks != optimum.ticks:
        raise CompilerDefect(f"{kernel.name}: {optimum.ticks} ticks found, {lowered.ticks} lowered")
    return simulated_plan(
        kernel,
        sizes,
        target.device,
        lowered.stream,
        lowered.ticks,
        channels=channels,
        mappings={kernel.name: optimum.mapping},
        axis_names=target.axis_names,
        compute_ticks=compute_ticks(optimum.mapping, contraction, target),
        host_ps=optimum.host_ps,
        time_ps=optimum.time_ps,
        bound_ps=optimum.time_ps,
        space=optimum.mappings,
        walked=optimum.walked,
        functional=0,
    )


def _exact_attention(attention: Attention, target: Target, channels: int | None) -> AttentionOptimum:
    """The best pair of a score and a context mapping; proven if a channel computes all its heads at once."""
    separate = best_attention(attention, target, channels)
    found = LengthSearch(attention.heads, attention.head_size, target, channels).best(attention.tokens)
    return AttentionOptimum(found.mapping, found.ticks, found.bound, separate.mappings)


def _attention_plan(
    kernel: Kernel, sizes: Names[str, int], target: Target, channels: int | None, attention: Attention
) -> Plan:
    """The plan of an attention; on numbers its two products are executed, each by itself."""
    tick_ps, optimum = target.device.tick_ps, _exact_attention(attention, target, channels)
    products = {
        "score": (attention.score, optimum.mapping.score),
        "context": (attention.context, optimum.mapping.context),
    }
    equal = 0
    for name, (contraction, mapping) in products.items():
        product = shipped_kernel({"score": "gemv"}.get(name, name)).bind(
            {"B": attention.heads, "N": attention.tokens, "K": attention.head_size}
        )
        equal = compare_on_numbers(product, contraction, lower(mapping, contraction, target), target)
    host_ps = output_ps(attention.context, target, host_of(target.device), (1,) * len(CLASSES))
    plan = simulated_plan(
        kernel,
        sizes,
        target.device,
        lower_attention(attention, optimum.mapping, target),
        optimum.ticks,
        channels=channels or target.channels,
        mappings={name: mapping for name, (_, mapping) in products.items()},
        axis_names=target.axis_names,
        compute_ticks=sum(compute_ticks(mapping, contraction, target) for contraction, mapping in products.values()),
        host_ps=host_ps,
        time_ps=optimum.ticks * tick_ps + host_ps,
        bound_ps=optimum.bound * tick_ps + host_ps,
        space=optimum.mappings,
        walked=0,
        functional=equal,
    )
    return evolve(plan, **_attention_energy(plan, attention, target))


def _attention_energy(plan: Plan, attention: Attention, target: Target) -> dict[str, Any]:
    """The energy of all commands that have one, as the simulator counts them, and a remark that the softmax has none;
    nothing if the device file states no energies."""
    if not states_energies(target):
        return {}
    counted = sum(
        count * (target.device.commands[target.device.command(name)].energy_fj or 0)
        for name, count in plan.commands.items()
    )
    used = prod(plan.mappings["score"].splits)
    energy = counted * used + output_fj(attention.context, target, (1,) * len(CLASSES))
    return {
        "energy_fj": energy,
        "remarks": (*plan.remarks, "the energy is that of the DRAM commands: no source states that of the softmax"),
    }
