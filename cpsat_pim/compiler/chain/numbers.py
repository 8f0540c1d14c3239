"""Executes the commands of a chain on numbers."""

from math import prod
from typing import Any

import numpy as np
from attrs import evolve
from numpy.typing import NDArray

from cpsat_pim.compiler.chain.candidates import HOST, PIM, Candidate, lowered_part
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

#: What is said of a chain that was executed as a whole.
EQUAL = "equal"
ROUNDED = "equal, with numbers rounded to integers before each statement on the device"
#: Numbers beyond it are cut off when they are rounded; fills beyond `INT64` are no integers of the machine.
MOST, INT64 = 2**16, 2**62
ON_HOST = Candidate(place=HOST, time_ps=0)


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
    """`EQUAL` after the whole chain gave the kernel's own result on random integers, each statement on what those
    before it delivered; `ROUNDED` if the kernel's numbers are no integers; or why it was not executed as a whole.

    Raises:
        KernelMistake: the result differs from the reference.
    """
    rng = np.random.default_rng(0)
    if any(c.place == PIM and _points(part) > ALL_POINTS for part, c in zip(parts, chosen, strict=True)):
        return f"not executed as a whole: a statement has more than {ALL_POINTS:,} points"
    arrays = {p.name: rng.integers(-4, 5, p.extents) for p in bound.parameters}
    if is_exact(bound, arrays):
        _check(bound, run_chain(bound, parts, chosen, device, arrays), evaluate(bound, arrays)[bound.result])
        return EQUAL
    numbers = {name: values / 4 for name, values in arrays.items()}
    with np.errstate(all="ignore"):
        _check(
            bound,
            run_chain(bound, parts, (ON_HOST,) * len(parts), device, numbers),
            evaluate(bound, numbers)[bound.result],
        )
        found = [run_chain(bound, parts, chosen, device, numbers, by_numpy) for by_numpy in (False, True)]
    _check(bound, *found)
    return ROUNDED


def is_exact(bound: Kernel, arrays: dict[str, Array]) -> bool:
    """Whether all numbers of a kernel are integers if its parameters are."""
    fills = [tensor.fill for tensor in bound.tensors if tensor.fill is not None]
    if not all(float(fill).is_integer() and abs(fill) < INT64 for fill in fills):
        return False
    with np.errstate(all="ignore"):
        return all(values.dtype.kind == "i" for values in evaluate(bound, arrays).values())


def _check(bound: Kernel, result: Array, expected: Array) -> None:
    if not np.array_equal(result, expected, equal_nan=result.dtype.kind == "f"):
        raise KernelMistake(f"{bound.name}: the commands compute another result than numpy")


def _points(part: Part) -> int:
    return prod(loop.extent for loop in part.statement.loops)


def run_chain(
    bound: Kernel,
    parts: tuple[Part, ...],
    chosen: tuple[Candidate, ...],
    device: Device,
    arrays: dict[str, Array],
    by_numpy: bool = False,
) -> Array:
    """The result of a chain: mappings by their commands (or `by_numpy`), the host's statements by numpy.

    Commands compute on integers. What is none is rounded to one before a statement on the device.
    """
    values, kind = dict(arrays), np.result_type(*(array.dtype for array in arrays.values()))
    for tensor in bound.tensors:
        if tensor.fill is not None:
            values[tensor.name] = np.full(tensor.extents, tensor.fill, kind)
    for part, candidate in zip(parts, chosen, strict=True):
        if candidate.place != PIM:
            values[part.target] = _on_host(part, values)
            continue
        given = {parameter.name: _integers(values[parameter.name]) for parameter in part.kernel.parameters}
        if by_numpy:
            result = evaluate(part.kernel, given)[part.kernel.result]
        else:
            result = run_on_arrays(part.kernel, candidate.mapping, device, given)
        values[part.target] = _after(part, given, values[part.target], result)
    return values[bound.result]


def _integers(values: Array) -> Array:
    """Integers of at most `MOST`, so that sums of products do not overflow."""
    if values.dtype.kind == "i":
        return values
    return np.asarray(np.clip(np.nan_to_num(np.rint(values)), -MOST, MOST), np.int64)


def _after(part: Part, given: dict[str, Array], before: Array, result: Array) -> Array:
    """The target after a statement on the device; the host adds to earlier values, or keeps what is not written."""
    if part.statement.update == ADD:
        return np.asarray(before + result)
    ones = evolve(part.kernel, statements=(evolve(part.statement, value=Constant(1.0)),))
    return np.where(evaluate(ones, given)[part.kernel.result] == 1, result, before)


def _on_host(part: Part, values: dict[str, Array]) -> Array:
    """The target after a statement in numpy."""
    result = part.kernel.result
    kernel = evolve(part.kernel, tensors=tuple(evolve(tensor, fill=None) for tensor in part.kernel.tensors))
    given = {tensor.name: values[part.target if tensor.name == result else tensor.name] for tensor in kernel.tensors}
    return evaluate(kernel, {name: array.copy() for name, array in given.items()})[result]
