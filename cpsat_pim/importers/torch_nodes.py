"""What single nodes of a PyTorch graph are: their arguments, and what they were made from."""

from collections.abc import Collection, Mapping
from typing import Any

import torch
from torch.fx import Node
from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols

from cpsat_pim.importers.origin import Parts
from cpsat_pim.importers.products import sources


def arguments_of(node: Node) -> dict[str, Any]:
    """Return an operator's arguments by name, with defaults."""
    declared = node.target._schema.arguments
    given: dict[str, Any] = {argument.name: argument.default_value for argument in declared}
    return {**given, **dict(zip(given, node.args, strict=False)), **node.kwargs}


def factors_of(node: Any) -> tuple[Node, Node] | None:
    """Return the two tensors whose element-wise product a node is, whatever the type of its elements; None if it is
    none.
    """
    while is_kind(node, "aten::_to_copy", "aten::clone"):
        node = node.args[0]
    if not is_kind(node, "aten::mul"):
        return None
    left, right = node.args
    is_product = isinstance(left, Node) and isinstance(right, Node)
    return (left, right) if is_product else None


def is_of_one(factors: tuple[Node, Node], parts: Mapping[Node, Parts]) -> bool:
    """Return whether two tensors are one, or, neither of them constant, element-wise functions of one."""

    def read(node: Node) -> list[Node]:
        operator = node.target
        is_pointwise = isinstance(operator, torch._ops.OpOverload) and torch.Tag.pointwise in operator.tags
        is_elementwise = is_pointwise or is_kind(node, "aten::_conj", "aten::clone")
        return [other for other in node.all_input_nodes if parts[other]] if is_elementwise else []

    is_square = factors[0] is factors[1]
    return is_square or (all(parts[factor] for factor in factors) and len(sources(factors, read)) == 1)


def is_kind(node: Node, *kinds: str) -> bool:
    """Return whether a node is one of these ATen operators, such as `aten::mul`."""
    return isinstance(node.target, torch._ops.OpOverload) and node.target._schema.name in kinds


def for_each(value: Any, axes: int) -> list[int]:
    """Return a setting for each axis; PyTorch may store one value for all axes."""
    values = list(value) if isinstance(value, list | tuple) else [value]
    return values * axes if len(values) == 1 else values


def origin_of(node: Node) -> Node:
    """Return the node that a constant was made from."""
    while node.op == "call_function" and node.all_input_nodes:
        node = node.all_input_nodes[0]
    return node


def holds_tensors(value: Any) -> bool:
    """Return whether a node's value is a tensor, or some of its values are."""
    values = value if isinstance(value, list | tuple) else (value,)
    return any(isinstance(item, torch.Tensor) for item in values)


def open_dims(program: torch.export.ExportedProgram, inputs: Collection[str]) -> dict[Any, list[str]]:
    """Return the open dims of the inputs, each with its names: `tensor.axis` and its symbol."""
    names: dict[Any, list[str]] = {}
    fed = [node for node in program.graph.nodes if node.name in inputs and holds_tensors(node.meta["val"])]
    for node in fed:
        for axis, size in enumerate(node.meta["val"].shape):
            for symbol in () if isinstance(size, int) else size.node.expr.free_symbols:
                known = names.setdefault(symbol, [])
                known += [f"{node.name}.{axis}"] if size.node.expr == symbol else []
    return {symbol: [*known, str(symbol)] for symbol, known in names.items()}


def data_dims(program: torch.export.ExportedProgram) -> dict[Any, list[str]]:
    """Return the sizes that data decide, each with its names: its symbol and `tensor.axis` of the first that has it."""
    names: dict[Any, list[str]] = {}
    for node in program.graph.nodes:
        value = node.meta.get("val")
        for axis, size in enumerate(value.shape if isinstance(value, torch.Tensor) else ()):
            symbol = None if isinstance(size, int) else size.node.expr
            if symbol is not None and symbol.is_Symbol and free_unbacked_symbols(size):
                names.setdefault(symbol, [str(symbol), f"{node.name}.{axis}"])
    return names


def trips_of(program: torch.export.ExportedProgram, bind: Mapping[str, int]) -> dict[Node, int | None]:
    """Return how often each `while_loop` is bound to run, outside of the programs that others hold; None: not bound.

    Raises:
        ValueError: a number of trips is negative.
    """
    found = {node: bind.get(node.name) for node in program.graph.nodes if str(node.target) == "while_loop"}
    for node, trips in found.items():
        if trips is not None and trips < 0:
            raise ValueError(f"{node.name}: its trips must not be negative (got {trips})")
    return found
