"""Intermediate representation of a kernel: statements over box domains with affine accesses.

A statement stands for its whole loop nest. A kernel whose tensors and loops still depend on sizes is symbolic;
`Kernel.bind` gives the sizes values.
"""

import math
from collections.abc import Iterator, Mapping

from attrs import evolve, frozen

from cpsat_pim.compiler.language.affine import Affine
from cpsat_pim.compiler.language.mistakes import KernelMistake

#: What a statement does with the element it writes.
ASSIGN, ADD, MAX = "=", "+=", "max="
#: Functions of the language and how many arguments they take.
FUNCTIONS = {"max": 2, "min": 2, "exp": 1, "relu": 1, "sqrt": 1}


@frozen
class Constant:
    """A number."""

    value: float


@frozen
class Extent:
    """A size of the kernel used as a number."""

    value: Affine


@frozen
class Read:
    """An element of a tensor."""

    tensor: str
    indices: tuple[Affine, ...]


@frozen
class Operation:
    """`+ - * / neg` or one of `FUNCTIONS`, applied to operands."""

    name: str
    operands: tuple["Expression", ...]


Expression = Constant | Extent | Read | Operation


@frozen
class Loop:
    """A loop variable and its values `start <= v < stop`."""

    variable: str
    start: Affine
    stop: Affine

    @property
    def extent(self) -> int:
        """How many values it takes, once sizes are bound."""
        return max(0, self.stop.evaluate({}) - self.start.evaluate({}))

    @property
    def range(self) -> tuple[int, int]:
        """First and last value, once sizes are bound."""
        return self.start.evaluate({}), self.stop.evaluate({}) - 1


@frozen
class Statement:
    """`target update value` for every point of the loops; `call` numbers the kernel call it was inlined from."""

    loops: tuple[Loop, ...]
    target: Read
    update: str
    value: Expression
    place: str
    call: int | None = None

    @property
    def reads(self) -> tuple[Read, ...]:
        """The accesses of the value, in reading order."""
        return tuple(reads_of(self.value))

    @property
    def operations(self) -> int:
        """Operations and functions at all points of the loops, once sizes are bound; an update is one, too."""
        at_a_point = _operations_of(self.value) + (self.update != ASSIGN)
        return at_a_point * math.prod(loop.extent for loop in self.loops)

    @property
    def reduction_loops(self) -> tuple[Loop, ...]:
        """The loops whose variable the written element does not depend on."""
        written = {name for index in self.target.indices for name in index.names}
        return tuple(loop for loop in self.loops if loop.variable not in written)


@frozen
class Tensor:
    """A tensor: a parameter, or a local one with the number it is filled with."""

    name: str
    shape: tuple[Affine, ...]
    fill: float | None = None

    @property
    def is_parameter(self) -> bool:
        """Whether the caller gives it."""
        return self.fill is None

    @property
    def extents(self) -> tuple[int, ...]:
        """The shape, once sizes are bound."""
        return tuple(extent.evaluate({}) for extent in self.shape)


@frozen
class Kernel:
    """A kernel: `calls` names the kernels whose statements were inlined, in order; `sizes` are still without value."""

    name: str
    sizes: tuple[str, ...]
    tensors: tuple[Tensor, ...]
    statements: tuple[Statement, ...]
    result: str
    calls: tuple[str, ...] = ()

    @property
    def parameters(self) -> tuple[Tensor, ...]:
        """The tensors that the caller gives, in order."""
        return tuple(tensor for tensor in self.tensors if tensor.is_parameter)

    def tensor(self, name: str) -> Tensor:
        """The tensor of a name."""
        return next(tensor for tensor in self.tensors if tensor.name == name)

    @property
    def operations(self) -> int:
        """Operations of all statements, once sizes are bound; a multiply-accumulate is two."""
        return sum(statement.operations for statement in self.statements)

    def bind(self, sizes: Mapping[str, int]) -> "Kernel":
        """The kernel with numbers for its sizes.

        Raises:
            KernelMistake: a size lacks, is unknown or not positive, or an access leaves its tensor.
        """
        self._check_sizes(sizes)
        values = {name: Affine(value) for name, value in sizes.items()}
        bound = evolve(self.substitute(values), sizes=())
        for statement in bound.statements:
            bound._check_accesses(statement)
        return bound

    def substitute(self, values: Mapping[str, Affine]) -> "Kernel":
        """The kernel with sizes replaced by expressions of other sizes."""
        return evolve(
            self,
            tensors=tuple(
                evolve(t, shape=tuple(extent.substitute(values) for extent in t.shape)) for t in self.tensors
            ),
            statements=tuple(substitute_statement(s, values) for s in self.statements),
        )

    def _check_sizes(self, sizes: Mapping[str, int]) -> None:
        wanted = ", ".join(self.sizes)
        for name in sizes:
            if name not in self.sizes:
                raise KernelMistake(f"{self.name}: unknown size {name} (its sizes are {wanted})")
        for name in self.sizes:
            if name not in sizes:
                raise KernelMistake(f"{self.name}: size {name} has no value (its sizes are {wanted})")
            if sizes[name] <= 0:
                raise KernelMistake(f"{self.name}: size {name} must be a positive integer (got {sizes[name]})")

    def _check_accesses(self, statement: Statement) -> None:
        if any(loop.extent == 0 for loop in statement.loops):
            return
        ranges = {loop.variable: loop.range for loop in statement.loops}
        for access in (statement.target, *statement.reads):
            extents = self.tensor(access.tensor).extents
            for at, (index, extent) in enumerate(zip(access.indices, extents, strict=True)):
                first, last = index.span(ranges)
                if first < 0 or last >= extent:
                    raise KernelMistake(
                        f"{statement.place}: index {at} of {access.tensor} runs from {first} to {last}, "
                        f"outside its extent {extent}"
                    )


def reads_of(value: Expression) -> Iterator[Read]:
    """The accesses of an expression, in reading order."""
    if isinstance(value, Read):
        yield value
    elif isinstance(value, Operation):
        for operand in value.operands:
            yield from reads_of(operand)


def _operations_of(value: Expression) -> int:
    """How many operations and functions an expression applies."""
    return 1 + sum(map(_operations_of, value.operands)) if isinstance(value, Operation) else 0


def substitute_statement(statement: Statement, values: Mapping[str, Affine]) -> Statement:
    """The statement with sizes or loop variables replaced."""
    return evolve(
        statement,
        loops=tuple(
            Loop(loop.variable, loop.start.substitute(values), loop.stop.substitute(values)) for loop in statement.loops
        ),
        target=_substitute_read(statement.target, values),
        value=substitute_expression(statement.value, values),
    )


def substitute_expression(value: Expression, values: Mapping[str, Affine]) -> Expression:
    """The expression with sizes or loop variables replaced."""
    if isinstance(value, Read):
        return _substitute_read(value, values)
    if isinstance(value, Extent):
        return Extent(value.value.substitute(values))
    if isinstance(value, Operation):
        return Operation(value.name, tuple(substitute_expression(v, values) for v in value.operands))
    return value


def _substitute_read(read: Read, values: Mapping[str, Affine]) -> Read:
    return Read(read.tensor, tuple(index.substitute(values) for index in read.indices))
