"""The result of a compiled kernel on arrays: the commands of all channels, executed, and what the host adds up."""

from collections.abc import Mapping as Names
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cpsat_pim.compiler.broadcast import lowered_of
from cpsat_pim.compiler.compile import is_attacc_like
from cpsat_pim.compiler.language import Kernel
from cpsat_pim.compiler.lowering import lower
from cpsat_pim.compiler.mapping import contraction_of
from cpsat_pim.compiler.target import target_of
from cpsat_pim.compiler.verify import executed
from cpsat_pim.device import Device
from cpsat_pim.device.rules import rules_of
from tracesim.commands import execute

Array = NDArray[Any]


def run_on_arrays(kernel: Kernel, mapping: Any, device: Device, arrays: Names[str, Array]) -> Array:
    """The result of a kernel of one statement: FP16 operands give float64 sums of FP16 results, integers are exact."""
    kind = next(iter(arrays.values())).dtype
    result = np.zeros(kernel.tensor(kernel.result).extents, np.int64 if kind == np.int64 else np.float64)
    if not is_attacc_like(device):
        lowered = lowered_of(kernel, mapping, device)
        for channel in lowered.channels():
            exchange = lowered.exchange(channel, arrays).astype(kind)
            execute(
                rules_of(device), lowered.program.stream, lowered.bank_contents(channel, arrays).astype(kind), exchange
            )
            lowered.add_results(channel, exchange, result)
        return result
    target, contraction = target_of(device), contraction_of(kernel, kernel.statements[0]).with_hull(mapping.hull)
    product = lower(mapping, contraction, target)
    return executed(kernel, contraction, product, target, arrays, every=True)[0]
