"""The names of DCC's programming interface (its table I) as thin aliases of this package's own.

| DCC | here |
|---|---|
| `DCC_kernel` | `DCC_kernel`: the decorator of the kernel language |
| `DCC.init_kernel()` | `init_kernel(kernel, sizes, device)`: compiles for sizes, returns a `Kernel` |
| `DCC.Kernel` | `Kernel`: a compiled kernel with its plan |
| `DCC.Kernel.update()` | `Kernel.update(sizes)`: the best mapping for other sizes |
| `DCC.Kernel.pre_load()` | `Kernel.pre_load(array)`: an address that `run` takes for it; `write` changes a part |
| `DCC.Kernel.run()` | `Kernel.run(*arrays or addresses)`, or call the kernel |
| `DCC.Layer`, `DCC.set_model()` | `compile` of module `pytorch` replaces layers and returns the model (extra `torch`) |

`DCC.Tensor.zero` is `zeros` of the language. `run` executes the commands of all channels on FP16 numbers, so that
results are those of the device, bit by bit.
"""

from collections.abc import Mapping as Names
from pathlib import Path
from typing import Any

import numpy as np
from attrs import define, field, frozen
from numpy.typing import NDArray

from cpsat_pim.compiler.compile import compile_kernel
from cpsat_pim.compiler.execution import run_on_arrays
from cpsat_pim.compiler.language import Kernel as Source
from cpsat_pim.compiler.language import KernelMistake
from cpsat_pim.compiler.language import kernel as DCC_kernel  # the paper's name
from cpsat_pim.compiler.plan import Plan
from cpsat_pim.device import Device, read_device

__all__ = ["Address", "DCC_kernel", "Kernel", "init_kernel"]

Array = NDArray[Any]


@frozen
class Address:
    """Where a pre-loaded array lies."""

    number: int


@define
class Kernel:
    """A kernel compiled for sizes on a device: `plan` states its mapping, ticks and proof."""

    source: Source
    device: Device
    plan: Plan
    _loaded: list[Array] = field(factory=list)

    def update(self, sizes: Names[str, int]) -> None:
        """Find the best mapping for other sizes.

        Raises:
            KernelMistake: a size is wrong, or the banks hold no mapping.
        """
        self.plan = compile_kernel(self.source, sizes, self.device)

    def pre_load(self, array: Any) -> Address:
        """An address that `run` takes in place of the array; the array is copied."""
        self._loaded.append(np.array(array))
        return Address(len(self._loaded) - 1)

    def write(self, address: Address, offset: tuple[int, ...], part: Any) -> None:
        """Replace a part of a pre-loaded array, from an offset on."""
        values = np.asarray(part)
        where = tuple(slice(first, first + size) for first, size in zip(offset, values.shape, strict=True))
        self._loaded[address.number][where] = values

    def run(self, *operands: Any) -> Array:
        """The result of the commands on FP16 numbers.

        Raises:
            KernelMistake: an operand lacks, or has another shape than the kernel states.
        """
        bound = self.source.bind(self.plan.sizes)
        names = [parameter.name for parameter in bound.parameters]
        if len(operands) != len(names):
            raise KernelMistake(f"{bound.name}: expected {', '.join(names)} (got {len(operands)} operands)")
        arrays = {}
        for parameter, operand in zip(bound.parameters, operands, strict=True):
            given = self._loaded[operand.number] if isinstance(operand, Address) else np.asarray(operand)
            if given.shape != parameter.extents:
                raise KernelMistake(f"{bound.name}: {parameter.name} must have the shape {parameter.extents}")
            arrays[parameter.name] = given.astype(np.float16)
        return run_on_arrays(bound, self.plan.mappings[bound.name], self.device, arrays)

    __call__ = run


def init_kernel(kernel: Source, sizes: Names[str, int], device: str | Path | Device = "attacc") -> Kernel:
    """A kernel compiled for sizes.

    Raises:
        ValueError: the device file has mistakes.
        KernelMistake: the kernel does not run on the device.
    """
    given = device if isinstance(device, Device) else read_device(device)
    return Kernel(kernel, given, compile_kernel(kernel, sizes, given))
