"""The numpy meaning of a kernel: what every compiled result is compared with."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cpsat_pim.compiler.language.ir import ADD, ASSIGN, Constant, Expression, Extent, Kernel, Operation, Read, Statement
from cpsat_pim.compiler.language.mistakes import KernelMistake

Array = NDArray[Any]

#: Most points of a statement that are evaluated at once, to bound memory.
CHUNK_POINTS = 1 << 24

UNARY: dict[str, Callable[..., Any]] = {
    "exp": np.exp,
    "sqrt": np.sqrt,
    "neg": np.negative,
    "relu": lambda x: np.maximum(x, 0),
}
BINARY = {
    "+": np.add,
    "-": np.subtract,
    "*": np.multiply,
    "/": np.divide,
    "max": np.maximum,
    "min": np.minimum,
}


def evaluate(kernel: Kernel, arrays: Mapping[str, Array]) -> dict[str, Array]:
    """All tensors of a kernel, given its parameters; integers stay integers unless the kernel divides.

    Raises:
        KernelMistake: an array has another shape than its parameter.
    """
    bound = kernel.bind(_sizes_of(kernel, arrays)) if kernel.sizes else kernel
    kind = np.result_type(*(array.dtype for array in arrays.values()))
    values = {parameter.name: arrays[parameter.name] for parameter in bound.parameters}
    for tensor in bound.tensors:
        if not tensor.is_parameter:
            values[tensor.name] = np.full(tensor.extents, tensor.fill, dtype=_kind(bound, tensor.name, kind))
    for statement in bound.statements:
        _execute(statement, values)
    return values


def _sizes_of(kernel: Kernel, arrays: Mapping[str, Array]) -> dict[str, int]:
    """The sizes that the shapes of arrays imply."""
    sizes: dict[str, int] = {}
    for parameter in kernel.parameters:
        array = arrays[parameter.name]
        if array.ndim != len(parameter.shape):
            raise KernelMistake(
                f"{kernel.name}: {parameter.name} has {len(parameter.shape)} dimensions (got {array.ndim})"
            )
        for extent, length in zip(parameter.shape, array.shape, strict=True):
            if len(extent.terms) == 1 and extent.names[0] not in sizes:
                name, factor = extent.terms[0]
                sizes[name] = (length - extent.constant) // factor
            if extent.evaluate(sizes) != length:
                raise KernelMistake(f"{kernel.name}: {parameter.name} has the shape {array.shape}, expected {extent}")
    return sizes


def _kind(kernel: Kernel, tensor: str, kind: np.dtype[Any]) -> np.dtype[Any]:
    """Integers stay so unless a statement that writes the tensor divides, roots or exponentiates."""
    inexact = any(s.target.tensor == tensor and _is_inexact(s.value) for s in kernel.statements)
    fill = kernel.tensor(tensor).fill or 0.0
    if np.issubdtype(kind, np.integer) and (inexact or not np.isfinite(fill)):
        return np.dtype(np.float64)
    return kind


def _is_inexact(value: Expression) -> bool:
    if isinstance(value, Constant):
        return isinstance(value.value, float) and not value.value.is_integer()
    if isinstance(value, Operation):
        return value.name in ("/", "exp", "sqrt") or any(map(_is_inexact, value.operands))
    return False


def _execute(statement: Statement, values: dict[str, Array]) -> None:
    """Every point of the loops, the outermost loop in chunks."""
    if any(loop.extent == 0 for loop in statement.loops):
        return
    points = int(np.prod([loop.extent for loop in statement.loops], dtype=np.int64))
    outer = statement.loops[0].extent if statement.loops else 1
    rows = max(1, CHUNK_POINTS * outer // points)
    for first in range(0, outer, rows):
        _execute_chunk(statement, values, first, min(outer, first + rows))


def _execute_chunk(statement: Statement, values: dict[str, Array], first: int, stop: int) -> None:
    """The points whose outermost loop is in its first to stop-th iteration."""
    ranges = [np.arange(loop.extent) + loop.range[0] for loop in statement.loops]
    if ranges:
        ranges[0] = ranges[0][first:stop]
    grid = dict(zip((loop.variable for loop in statement.loops), np.ix_(*ranges), strict=True)) if ranges else {}
    shape = tuple(map(len, ranges))
    target = values[statement.target.tensor]
    result = np.broadcast_to(_value(statement.value, values, grid), shape)
    where = tuple(np.broadcast_to(index, shape) for index in _indices(statement.target, grid))
    if statement.update == ASSIGN:
        target[where] = result
        return
    update = np.add if statement.update == ADD else np.maximum
    if all(len(index.terms) == 1 for index in statement.target.indices):  # each element is one point of the other loops
        inner = tuple(at for at, loop in enumerate(statement.loops) if loop in statement.reduction_loops)
        outer = tuple(0 if at in inner else slice(None) for at in range(len(shape)))
        result, where = update.reduce(result, axis=inner), tuple(index[outer] for index in where)
    update.at(target, where, result)


def _indices(access: Read, grid: Mapping[str, Array]) -> list[Any]:
    return [
        index.constant + sum((value * grid[name] for name, value in index.terms), start=np.int64(0))
        for index in access.indices
    ]


def _value(value: Expression, values: Mapping[str, Array], grid: Mapping[str, Array]) -> Any:
    if isinstance(value, Constant):
        return value.value
    if isinstance(value, Extent):
        return value.value.evaluate({})
    if isinstance(value, Read):
        return values[value.tensor][tuple(_indices(value, grid))]
    operands = [_value(operand, values, grid) for operand in value.operands]
    return UNARY[value.name](*operands) if value.name in UNARY else BINARY[value.name](*operands)
