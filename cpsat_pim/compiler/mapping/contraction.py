"""A statement as a contraction: a resident matrix meets moved inputs.

`y[batch, shared, outputs] += matrix[batch, outputs, depth] * inputs[batch, shared, depth]`: every loop belongs to one
of four classes by the operands it indexes. Loops of one class are flattened in their order; accesses may be any affine
functions, since the matrix is packed for the banks once and the host gathers the inputs.
"""

from collections.abc import Iterator
from functools import cached_property
from itertools import chain, combinations

import numpy as np
from attrs import evolve, frozen
from numpy.typing import NDArray

from cpsat_pim.compiler.language import Kernel, KernelMistake, Loop, Operation, Read, Statement
from cpsat_pim.compiler.language.ir import ADD

Ints = NDArray[np.int64]

#: The classes of loops, in the order of every tuple that has one entry a class.
CLASSES = ("batch", "shared", "outputs", "depth")
BATCH, SHARED, OUTPUTS, DEPTH = range(4)


@frozen(slots=False)
class Contraction:
    """A statement `target += matrix * inputs` (or `+= matrix`) with its loops by class.

    `hull`: loop variables whose needed matrix elements are not next to each other (`w[2 * k]`), and which run over
    everything from the first to the last one (DCC, section IV-B.4, first strategy). What lies between is in the banks
    and takes part; it meets inputs of 0, or its result is dropped.
    """

    statement: Statement
    matrix: Read
    inputs: Read | None
    loops: tuple[tuple[Loop, ...], ...]
    hull: tuple[str, ...] = ()

    @cached_property
    def extents(self) -> tuple[int, ...]:
        """Batch, shared, outputs, depth."""
        return tuple(int(np.prod([self._length(loop) for loop in loops], dtype=np.int64)) for loops in self.loops)

    def with_hull(self, variables: tuple[str, ...]) -> "Contraction":
        """The same with another hull.

        Raises:
            KernelMistake: the matrix has no elements between those that a variable needs.
        """
        for variable in variables:
            if variable not in self.strides:
                raise KernelMistake(f"{self.statement.place}: expected a hull of {self._choices()} (got {variable})")
        return evolve(self, hull=tuple(variables))

    @cached_property
    def strides(self) -> dict[str, int]:
        """Distance of needed matrix elements by loop variable, of those that may have a hull.

        The variable must be the only one of its index, and its factor at least 2. A sum without factors has no inputs
        that could be 0, so that its depth cannot have one.
        """
        found: dict[str, int] = {}
        for number, loops in enumerate(self.loops):
            for loop in loops if number != DEPTH or self.inputs is not None else ():
                indices = [index for index in self.matrix.indices if loop.variable in index.names]
                factor = indices[0].coefficient(loop.variable) if indices else 0
                if len(indices) == 1 and indices[0].names == (loop.variable,) and factor > 1 and loop.extent > 1:
                    found[loop.variable] = factor
        return found

    def hulls(self) -> Iterator[tuple[str, ...]]:
        """Every choice of loop variables that have a hull; the first is none: only what is needed is copied."""
        return chain.from_iterable(combinations(self.strides, count) for count in range(len(self.strides) + 1))

    def indices(self, access: Read, points: tuple[Ints, ...]) -> tuple[Ints, ...]:
        """The element of a tensor at flattened points of the four classes; the arrays broadcast.

        Between needed points it is what lies there in the matrix, and of other tensors any element.
        """
        values: dict[str, Ints] = {}
        between: dict[str, Ints] = {}
        for number, at in enumerate(points):
            for loop, position in self._positions(number, at):
                step = self._step(loop)
                values[loop.variable] = position // step + loop.range[0]
                between[loop.variable] = position % step if access is self.matrix else np.zeros_like(position)
        shape = np.broadcast_shapes(*(at.shape for at in points))
        return tuple(
            np.broadcast_to(
                np.asarray(
                    index.constant + sum(factor * values[name] + between[name] for name, factor in index.terms),
                    np.int64,
                ),
                shape,
            )
            for index in access.indices
        )

    def is_needed(self, number: int, at: Ints) -> NDArray[np.bool_]:
        """Whether flattened points of a class belong to the kernel, and do not lie between those that do."""
        needed = np.ones(at.shape, np.bool_)
        for loop, position in self._positions(number, at):
            needed &= position % self._step(loop) == 0
        return needed

    def _positions(self, number: int, at: Ints) -> Iterator[tuple[Loop, Ints]]:
        """The position of flattened points of a class along every loop of it."""
        for loop in reversed(self.loops[number]):
            yield loop, at % self._length(loop)
            at = at // self._length(loop)

    def _step(self, loop: Loop) -> int:
        """Distance of needed positions along a loop."""
        return self.strides[loop.variable] if loop.variable in self.hull else 1

    def _length(self, loop: Loop) -> int:
        """Positions along a loop, with those in between."""
        return (loop.extent - 1) * self._step(loop) + 1

    def _choices(self) -> str:
        return " or ".join(self.strides) or "nothing"


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
