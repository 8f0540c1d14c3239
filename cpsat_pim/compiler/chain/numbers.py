"""Executes the commands of a chain on numbers."""

from math import prod
from typing import Any

import numpy as np
from attrs import evolve
from numpy.typing import NDArray

from cpsat_pim.compiler.chain.candidates import PIM, Candidate, lowered_part
from cpsat_pim.compiler.chain.statements import Part
from cpsat_pim.compiler.compile import is_attacc_like
from cpsat_pim.compiler.execution import run_on_arrays
from cpsat_pim.compiler.language import Constant, Kernel, KernelMistake, evaluate
from cpsat_pim.compiler.language.ir import ADD
from cpsat_pim.compiler.mapping import contraction_of
from cpsat_pim.compiler.target import target_of
from cpsat_pim.compiler.verify import ALL_POINTS, compare_on_numbers, execute_on_numbers
from cpsat_pim.device import Device

Array = NDArray[Any]

NO_INTEGERS = "not executed as a whole: its numbers are no integers"


def compare_statement(part: Part, candidate: Candidate, device: Device) -> int:
    """The channels of a statement whose results on random integers are right; 0 on the host.

    Raises:
        KernelMistake: a result differs from the reference.
    """
    if candidate.place != PIM:
        return 0
    lowered = lowered_part(part, candidate.mapping, device)
    if not is_attacc_like(device):
        return execute_on_numbers(part.kernel, lowered, device)
    contraction = contraction_of(part.kernel, part.statement)
    return compare_on_numbers(part.kernel, contraction, lowered, target_of(device))


def compare_chain(bound: Kernel, parts: tuple[Part, ...], chosen: tuple[Candidate, ...], device: Device) -> str:
    """`equal` after the whole chain gave the kernel's own result on random integers, each statement on what those
    before it delivered; otherwise why it was not executed as a whole.

    Raises:
        KernelMistake: the result differs from the reference.
    """
    rng = np.random.default_rng(0)
    if any(c.place == PIM and _points(part) > ALL_POINTS for part, c in zip(parts, chosen, strict=True)):
        return f"not executed as a whole: a statement has more than {ALL_POINTS:,} points"
    if not all(_is_integer(tensor.fill) for tensor in bound.tensors if tensor.fill is not None):
        return NO_INTEGERS
    arrays = {p.name: rng.integers(-4, 5, p.extents) for p in bound.parameters}
    expected = evaluate(bound, arrays)
    if any(values.dtype.kind != "i" for values in expected.values()):
        return NO_INTEGERS
    result = run_chain(bound, parts, chosen, device, arrays)
    if not (result == expected[bound.result]).all():
        raise KernelMistake(f"{bound.name}: the commands compute another result than numpy")
    return "equal"


def _is_integer(fill: float) -> bool:
    """Whether an int64 can be filled with it."""
    return float(fill).is_integer() and abs(fill) < 2**62


def _points(part: Part) -> int:
    return prod(loop.extent for loop in part.statement.loops)


def run_chain(
    bound: Kernel, parts: tuple[Part, ...], chosen: tuple[Candidate, ...], device: Device, arrays: dict[str, Array]
) -> Array:
    """The result of a chain on integers: mappings by their commands, the host's statements by numpy."""
    values = dict(arrays)
    for tensor in bound.tensors:
        if tensor.fill is not None:
            values[tensor.name] = np.full(tensor.extents, int(tensor.fill), np.int64)
    for part, candidate in zip(parts, chosen, strict=True):
        if candidate.place == PIM:
            values[part.target] = _by_commands(part, candidate, device, values)
        else:
            values[part.target] = _by_numpy(part, values)
    return values[bound.result]


def _by_commands(part: Part, candidate: Candidate, device: Device, values: dict[str, Array]) -> Array:
    """The target after a statement on the device; the host adds to earlier values, or keeps what is not written."""
    given = {parameter.name: values[parameter.name] for parameter in part.kernel.parameters}
    result, before = run_on_arrays(part.kernel, candidate.mapping, device, given), values[part.target]
    if part.statement.update == ADD:
        return np.asarray(before + result)
    ones = evolve(part.kernel, statements=(evolve(part.statement, value=Constant(1.0)),))
    return np.where(evaluate(ones, given)[part.kernel.result] == 1, result, before)


def _by_numpy(part: Part, values: dict[str, Array]) -> Array:
    """The target after a statement in numpy."""
    result = part.kernel.result
    kernel = evolve(part.kernel, tensors=tuple(evolve(tensor, fill=None) for tensor in part.kernel.tensors))
    given = {tensor.name: values[part.target if tensor.name == result else tensor.name] for tensor in kernel.tensors}
    return evaluate(kernel, {name: array.copy() for name, array in given.items()})[result]
