"""A statement as a contraction: a resident matrix meets moved inputs.

`y[batch, shared, outputs] += matrix[batch, outputs, depth] * inputs[batch, shared, depth]`: every loop belongs to one
of four classes by the operands it indexes. Loops of one class are flattened in their order; accesses may be any affine
functions, since the matrix is packed for the banks once and the host gathers the inputs.
"""

from functools import cached_property

import numpy as np
from attrs import frozen
from numpy.typing import NDArray

from cpsat_pim.compiler.language import Kernel, KernelMistake, Loop, Operation, Read, Statement
from cpsat_pim.compiler.language.ir import ADD

Ints = NDArray[np.int64]

#: The classes of loops, in the order of every tuple that has one entry a class.
CLASSES = ("batch", "shared", "outputs", "depth")
BATCH, SHARED, OUTPUTS, DEPTH = range(4)


@frozen(slots=False)
class Contraction:
    """A statement `target += matrix * inputs` (or `+= matrix`) with its loops by class."""

    statement: Statement
    matrix: Read
    inputs: Read | None
    loops: tuple[tuple[Loop, ...], ...]

    @cached_property
    def extents(self) -> tuple[int, ...]:
        """Batch, shared, outputs, depth."""
        return tuple(int(np.prod([loop.extent for loop in loops], dtype=np.int64)) for loops in self.loops)

    def indices(self, access: Read, points: tuple[Ints, ...]) -> tuple[Ints, ...]:
        """The element of a tensor at flattened points of the four classes; the arrays broadcast."""
        values: dict[str, Ints] = {}
        for loops, at in zip(self.loops, points, strict=True):
            rest = at
            for loop in reversed(loops):
                values[loop.variable] = rest % loop.extent + loop.range[0]
                rest = rest // loop.extent
        shape = np.broadcast_shapes(*(at.shape for at in points))
        return tuple(
            np.broadcast_to(
                np.asarray(index.constant + sum(factor * values[name] for name, factor in index.terms), np.int64), shape
            )
            for index in access.indices
        )


def contraction_of(kernel: Kernel, statement: Statement) -> Contraction:
    """The contraction that a statement of a bound kernel is.

    Raises:
        KernelMistake: it is none.
    """
    operands = _operands(statement)
    operands.sort(key=lambda read: -np.prod(kernel.tensor(read.tensor).extents))
    matrix, inputs = operands[0], operands[1] if len(operands) > 1 else None
    loops = tuple(
        tuple(loop for loop in statement.loops if _class_of(loop.variable, matrix, inputs, statement.target) == number)
        for number in range(len(CLASSES))
    )
    return Contraction(statement, matrix, inputs, loops)


def _operands(statement: Statement) -> list[Read]:
    value = statement.value
    if statement.update == ADD and isinstance(value, Read):
        return [value]
    if statement.update == ADD and isinstance(value, Operation) and value.name == "*":
        reads = [operand for operand in value.operands if isinstance(operand, Read)]
        if len(reads) == 2:
            return reads
    raise KernelMistake(f"{statement.place}: expected y[...] += a[...] * b[...] or y[...] += a[...] for this device")


def _class_of(variable: str, matrix: Read, inputs: Read | None, target: Read) -> int:
    def uses(read: Read | None) -> bool:
        return read is not None and any(variable in index.names for index in read.indices)

    if not uses(target):
        return DEPTH
    if uses(matrix):
        return BATCH if uses(inputs) else OUTPUTS
    return SHARED
