"""Operators of PyTorch that run a program of their own for each slice of some tensors."""

from collections.abc import Mapping, Sequence
from typing import Any

from attrs import frozen
from torch.fx import Node

#: The operators; `scan` hands a state from slice to slice, `map_impl` does not.
SLICING = ("scan", "map_impl")


@frozen(kw_only=True)
class SlicedBody:
    """The program of such an operator.

    Attributes:
        entries: its inputs, each with the tensor outside that it, or a slice of it, is.
        carried: the tensors outside that are the first state.
        sliced: those that are sliced along their first axis.
        operators: its operators in execution order.
        results: its results.
    """

    entries: Mapping[Node, Node]
    carried: Sequence[Node]
    sliced: Sequence[Node]
    operators: Sequence[Node]
    results: Sequence[Node]


def sliced_body(node: Node) -> SlicedBody:
    """Return the program of an operator, whose arguments are the program, the state if there is one, the tensors that
    are sliced, and those that are not.
    """
    program: Any = node.args[0]
    *carried, sliced, others = node.args[1:]
    state = [tensor for tensors in carried for tensor in tensors]
    body: Any = getattr(node.graph.owning_module, program.target)
    nodes = list(body.graph.nodes)
    entries = [inner for inner in nodes if inner.op == "placeholder"]
    return SlicedBody(
        entries=dict(zip(entries, [*state, *sliced, *others], strict=True)),
        carried=state,
        sliced=sliced,
        operators=[inner for inner in nodes if inner.op not in ("placeholder", "output")],
        results=[result for result in nodes[-1].args[0] if isinstance(result, Node)],
    )
