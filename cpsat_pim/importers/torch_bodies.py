"""Operators of PyTorch that run programs of their own: for each slice of some tensors, in a loop, or one of two."""

from collections.abc import Mapping, Sequence
from typing import Any

from attrs import frozen
from torch.fx import Node

#: The operators; `scan` hands a state from slice to slice, `map_impl` does not.
SLICING = ("scan", "map_impl")


@frozen(kw_only=True)
class Body:
    """A program of an operator.

    Attributes:
        entries: its inputs, each with the tensor outside that it, or a slice of it, is.
        operators: its operators in execution order.
        results: its results.
    """

    entries: Mapping[Node, Node]
    operators: Sequence[Node]
    results: Sequence[Node]


@frozen(kw_only=True)
class SlicedBody(Body):
    """The program of an operator that runs it once for each slice.

    Attributes:
        carried: the tensors outside that are the first state.
        sliced: those that are sliced along their first axis.
    """

    carried: Sequence[Node]
    sliced: Sequence[Node]


def sliced_body(node: Node) -> SlicedBody:
    """Return the program of an operator, whose arguments are the program, the state if there is one, the tensors that
    are sliced, and those that are not.
    """
    program: Any = node.args[0]
    *carried, sliced, others = node.args[1:]
    state = [tensor for tensors in carried for tensor in tensors]
    return SlicedBody(carried=state, sliced=sliced, **_program(node, program, [*state, *sliced, *others]))


def branches(node: Node) -> tuple[Body, Body]:
    """Return both branches of a `cond`, whose arguments are the condition, the programs, and what both read."""
    (_, *programs, read) = node.args
    one, other = (Body(**_program(node, program, read)) for program in programs)
    return one, other


def loop_body(node: Node) -> Body:
    """Return what a `while_loop` repeats; its arguments are the condition, the program, the state, and what else both
    read.
    """
    _, program, state, others = node.args
    return Body(**_program(node, program, [*state, *others]))


def _program(node: Node, program: Any, read: Sequence[Node]) -> dict[str, Any]:
    """Return the attributes of a program that reads these tensors."""
    body: Any = getattr(node.graph.owning_module, program.target)
    nodes = list(body.graph.nodes)
    entries = [inner for inner in nodes if inner.op == "placeholder"]
    return {
        "entries": dict(zip(entries, read, strict=True)),
        "operators": [inner for inner in nodes if inner.op not in ("placeholder", "output")],
        "results": [result for result in nodes[-1].args[0] if isinstance(result, Node)],
    }
