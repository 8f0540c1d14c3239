"""The plan of a stream: simulated without and with refresh, with what the simulator issued."""

from collections.abc import Mapping as Names
from typing import Any

from cpsat_pim.compiler.language import Kernel
from cpsat_pim.compiler.mistakes import CompilerDefect
from cpsat_pim.compiler.plan import Plan
from cpsat_pim.device import Device
from cpsat_pim.device.rules import rules_of
from tracesim.commands import Stream, simulate


def simulated_plan(
    kernel: Kernel, sizes: Names[str, int], device: Device, stream: Stream, ticks: int, **fields: Any
) -> Plan:
    """The plan of a kernel whose channels all get a stream that takes so many ticks; `fields`: the others of `Plan`.

    Raises:
        CompilerDefect: the simulator takes another number of ticks.
    """
    rules = rules_of(device)
    trace, refreshed = (simulate(rules, stream, refresh) for refresh in (False, True))
    if trace.finish != ticks:
        raise CompilerDefect(f"{kernel.name}: {ticks} ticks predicted, {trace.finish} simulated")
    return Plan(
        kernel=kernel.name,
        sizes=sizes,
        device=device.name,
        operations=(kernel.bind(sizes) if kernel.sizes else kernel).operations,
        tick_ps=device.tick_ps,
        ticks=ticks,
        simulated=trace.finish,
        refreshed=refreshed.finish,
        commands={command.name: int(n) for command, n in zip(device.commands, trace.counts, strict=True) if n},
        **fields,
    )
