"""Statements that compute every element by itself: `y[...] = a + b`, `a * b` or `relu(a)`, and how they are mapped."""

from functools import cached_property

import numpy as np
from attrs import field, frozen
from numpy.typing import NDArray

from cpsat_pim.base.validate import boolean, not_negative, positive
from cpsat_pim.compiler.language import KernelMistake, Operation, Read, Statement
from cpsat_pim.compiler.language.ir import ASSIGN

Ints = NDArray[np.int64]

#: Operations of the banks' units, by their names in the language.
OPERATIONS = ("+", "*", "relu")


@frozen(slots=False)
class Elementwise:
    """A statement `target = operation(operands)` for every point of its loops."""

    statement: Statement
    operation: str
    operands: tuple[Read, ...]

    @cached_property
    def points(self) -> int:
        """How many elements are computed."""
        return int(np.prod([loop.extent for loop in self.statement.loops], dtype=np.int64))

    def indices(self, access: Read, points: Ints) -> tuple[Ints, ...]:
        """The element of a tensor at flattened points of the loops."""
        values: dict[str, Ints] = {}
        rest = points
        for loop in reversed(self.statement.loops):
            values[loop.variable] = rest % loop.extent + loop.range[0]
            rest = rest // loop.extent
        return tuple(
            np.broadcast_to(
                np.asarray(index.constant + sum(factor * values[name] for name, factor in index.terms), np.int64),
                points.shape,
            )
            for index in access.indices
        )


def elementwise_of(statement: Statement) -> Elementwise | None:
    """The elementwise statement that a statement is, or None.

    Raises:
        KernelMistake: it is elementwise, but with an operation that no unit has.
    """
    value = statement.value
    if statement.update != ASSIGN or statement.reduction_loops:
        return None
    is_operation = isinstance(value, Operation) and value.name in OPERATIONS
    if is_operation and isinstance(value, Operation):
        reads = tuple(operand for operand in value.operands if isinstance(operand, Read))
        if len(reads) == len(value.operands):
            return Elementwise(statement, value.name, reads)
    raise KernelMistake(f"{statement.place}: expected y[...] = a[...] + b[...], a[...] * b[...] or relu(a[...])")


@frozen(kw_only=True)
class SpreadMapping:
    """`channels` in use, whose cores hold equally many elements."""

    channels: int = field(validator=positive)


@frozen(kw_only=True)
class ElementwiseMapping(SpreadMapping):
    """The same on HBM-PIM; whether `both_banks` of a block hold elements.

    `shares_rows`: operands lie in the same row and the result takes the first one's place, else each has rows of its
    own. `takes_turns`: a step fills, computes and stores for one bank, then for the other; else each command kind runs
    for both banks before the next. `mode_bank`: the bank that the writes to the mode register name.
    """

    both_banks: bool = field(default=True, validator=boolean)
    shares_rows: bool = field(default=True, validator=boolean)
    takes_turns: bool = field(default=True, validator=boolean)
    mode_bank: int = field(default=0, validator=not_negative)
