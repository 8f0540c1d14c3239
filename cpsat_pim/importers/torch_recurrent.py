"""Recurrent layers of PyTorch in one operator: which tensors each of its layers multiplies."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from attrs import frozen

from cpsat_pim.importers.counted import Operand
from cpsat_pim.importers.products import Shape, transposed

#: The operators.
RECURRENT = ("gru", "lstm", "rnn_relu", "rnn_tanh")


@frozen(kw_only=True)
class RecurrentLayer:
    """One layer of a recurrent operator: its input [steps, batch, channels], and per direction the node of its input
    weights [gates * units, channels] and that of its recurrent weights [gates * units, units], and of an LSTM whose
    state is projected that of the projection [units, units before it].
    """

    index: int
    data: Shape
    weights: tuple[tuple[Any, ...], ...]

    def operands(self, operand_of: Callable[[Any], Operand]) -> list[Operand]:
        """Return the second operands of a direction, given a function from nodes to operands."""
        operands = map(operand_of, self.weights[0])
        return [Operand(transposed(operand.shape), operand.parts) for operand in operands]


def recurrent_layers(given: dict[str, Any], shape: Shape, shape_of: Any) -> Iterator[RecurrentLayer]:
    """Yield the layers of an operator.

    Args:
        given: the operator's arguments by name.
        shape: of its input, [steps, batch, channels], the first two exchanged with `batch_first`, or without a batch.
        shape_of: returns the shape of a node.
    """
    if len(shape) == 2:
        shape = (shape[0], 1, shape[1])
    elif given.get("batch_first"):
        shape = (shape[1], shape[0], shape[2])
    directions = 2 if given["bidirectional"] else 1
    for index, weights in enumerate(_by_layer(given, directions)):
        yield RecurrentLayer(index=index, data=shape, weights=weights)
        units = shape_of(weights[0][1])[1]  # as many as the state has, which is projected or not
        shape = (shape[0], shape[1], directions * units)


def _by_layer(given: dict[str, Any], directions: int) -> Iterator[tuple[tuple[Any, ...], ...]]:
    """Yield the weights of each direction, layer by layer: `params` has them in turn, then two biases or none, and the
    projection if there is one.
    """
    params: Sequence[Any] = given["params"]
    each = len(params) // (given["num_layers"] * directions)
    last = [each - 1] if each % 2 else []
    found = [tuple(params[first + i] for i in (0, 1, *last)) for first in range(0, len(params), each)]
    for first in range(0, len(found), directions):
        yield tuple(found[first : first + directions])
