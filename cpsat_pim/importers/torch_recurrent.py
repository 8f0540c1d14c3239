"""Recurrent layers of PyTorch in one operator: which tensors each of its layers multiplies."""

from collections.abc import Iterator, Sequence
from typing import Any

from attrs import frozen

from cpsat_pim.importers.products import Shape, transposed

#: The operators.
RECURRENT = ("gru", "lstm", "rnn_relu", "rnn_tanh")


@frozen(kw_only=True)
class RecurrentLayer:
    """One layer of a recurrent operator: its input [steps, batch, channels], and per direction the node of its input
    weights [gates * units, channels] and that of its recurrent weights [gates * units, units].
    """

    index: int
    data: Shape
    weights: tuple[tuple[Any, Any], ...]

    def operands(self, shape_of: Any) -> tuple[Shape, Shape]:
        """Return the shapes of both second operands of a direction, given a function from nodes to shapes."""
        weight, recurrent = self.weights[0]
        return transposed(shape_of(weight)), transposed(shape_of(recurrent))


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


def _by_layer(given: dict[str, Any], directions: int) -> Iterator[tuple[tuple[Any, Any], ...]]:
    """Yield both weights of each direction, layer by layer: `params` has them in turn, with biases and projections."""
    params: Sequence[Any] = given["params"]
    each = len(params) // (given["num_layers"] * directions)
    pairs = [(params[i], params[i + 1]) for i in range(0, len(params), each)]
    for first in range(0, len(pairs), directions):
        yield tuple(pairs[first : first + directions])
