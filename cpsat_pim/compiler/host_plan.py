"""Kernels that no device has commands for: their time on the host by a published formula. Nothing is proven."""

from collections.abc import Mapping as Names
from math import ceil
from typing import Any

from attrs import frozen

from cpsat_pim.compiler.host import host_of, norm_seconds
from cpsat_pim.compiler.language import Kernel, KernelMistake
from cpsat_pim.compiler.plan import FORMAT
from cpsat_pim.device import Device

#: Operations and bytes of a softmax element (attacc_simulator c600051, `model.py`).
SOFTMAX_FLOPS, SOFTMAX_BYTES = 5, 4


@frozen(kw_only=True)
class HostPlan:
    """A kernel on the host: picoseconds by a named formula."""

    kernel: str
    sizes: Names[str, int]
    device: str
    host: str
    formula: str
    time_ps: int

    def as_data(self) -> dict[str, Any]:
        """The plan as JSON takes it; status HOST: there is no space, no bound and no command."""
        return {
            "format": FORMAT,
            "status": "HOST",
            "objective": self.time_ps,
            "bound": None,
            "unit": "ps",
            "kernel": self.kernel,
            "sizes": dict(self.sizes),
            "device": self.device,
            "host": self.host,
            "formula": self.formula,
        }


def format_host_plan(plan: HostPlan) -> str:
    """The plan as text."""
    sizes = ", ".join(f"{name}={value}" for name, value in plan.sizes.items())
    return "\n".join(
        [
            f"{plan.kernel} ({sizes}): {plan.device} has no commands for it by itself; it runs on the host",
            f"time          {plan.time_ps / 1e6:.3f} us (HOST: by formula, nothing is proven)",
            f"host          {plan.host}, {plan.formula}",
        ]
    )


def host_plan(kernel: Kernel, sizes: Names[str, int], device: Device) -> HostPlan | None:
    """The plan of a shipped softmax or layernorm; None for every other kernel.

    Raises:
        KernelMistake: a size is wrong, or the device has another kind of host (UPMEM).
    """
    if kernel.name not in ("softmax", "layernorm"):
        return None
    if device.system.host is None:
        raise KernelMistake(f"{device.name} has no commands for {kernel.name} by itself, and its host is not modelled")
    host = host_of(device)
    rows, columns = kernel.bind(sizes).tensor(kernel.result).extents
    if kernel.name == "layernorm":
        seconds, formula = norm_seconds(host, rows * columns), "attacc_simulator's fit of a normalisation"
    else:
        occupancy = rows / (ceil(rows / host.cores) * host.cores)
        computing = SOFTMAX_FLOPS * rows * columns / (host.flops * host.compute_efficiency * occupancy)
        moving = SOFTMAX_BYTES * rows * columns / (host.memory_bandwidth * host.memory_efficiency * occupancy)
        seconds, formula = max(computing, moving), "attacc_simulator's roofline of a softmax"
    return HostPlan(
        kernel=kernel.name,
        sizes=sizes,
        device=device.name,
        host=host.name,
        formula=formula,
        time_ps=ceil(seconds * 1e12),
    )
