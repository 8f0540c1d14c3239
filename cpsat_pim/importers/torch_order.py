"""How operators of PyTorch programs reorder channels and positions: the maps of their results
(`cpsat_pim.importers.channel_maps`).

Operators that only move elements are executed on the map.
"""

import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from attrs import frozen
from torch.fx import Node

from cpsat_pim.importers.channel_maps import Map, kept_map, small
from cpsat_pim.importers.orders import Rules, adding, is_one_layer, of_einsum
from cpsat_pim.importers.origin import Parts
from cpsat_pim.importers.products import Shape
from cpsat_pim.importers.torch_kinds import ATTENTION, CONVOLUTIONS, OPERANDS, TRANSPOSED_CONVOLUTIONS
from cpsat_pim.importers.torch_nodes import arguments_of

_RESHAPING = ("view", "reshape", "_unsafe_view")
_NORMALISING = (
    "_log_softmax", "_native_batch_norm_legit_no_training", "_softmax", "_to_copy", "native_batch_norm",
    "native_dropout", "native_group_norm", "native_layer_norm",
)  # fmt: skip

#: Operators that repeat elements along axes.
_SPREADING = (torch.ops.aten.expand.default, torch.ops.aten.expand_copy.default)


@frozen
class Order:
    """The parts and the maps of the nodes so far, of their channels or positions (`rules`), their sizes, and
    `CountedLayers.first_channels`.

    A node with several results has a list of maps.
    """

    rules: Rules
    parts: Mapping[Node, Parts]
    maps: Mapping[Node, Any]
    shape: Callable[[Node], Shape]
    first_channels: Callable[[Parts, Sequence[Parts]], list[int] | None]

    def of(self, node: Node) -> Any:
        """Return the map of a node's result, or a list of those of its results."""
        try:
            found = self._of(node)
            return [*map(small, found)] if isinstance(found, list) else small(found)
        except (ArithmeticError, LookupError, RuntimeError, TypeError, ValueError):  # not followed
            return None

    def of_operands(self, node: Node) -> list[Any]:
        """Return the maps of what a node reads."""
        return [self.maps.get(other) for other in node.all_input_nodes]

    def _of(self, node: Node) -> Any:
        if node.op != "call_function" or not self.parts[node]:
            return None
        if not isinstance(node.target, torch._ops.OpOverload):
            return self.maps[node.args[0]][node.args[1]] if node.target.__name__ == "getitem" else None
        kind, value = node.target._schema.name.removeprefix("aten::"), node.meta["val"]
        if isinstance(value, torch.Tensor) and value.is_complex():  # with two real elements each
            return None
        first = next(iter(node.all_input_nodes))
        own = self.maps.get(first)
        out = self.shape(node)
        if isinstance(value, list | tuple):
            return self._moved(node, own) if node.target.is_view else [self._kept(kind, node, own, out)]
        if kind in (*CONVOLUTIONS, *TRANSPOSED_CONVOLUTIONS):
            return self.rules.convolved(out) if is_one_layer(self.parts[node]) else None
        if kind in OPERANDS:
            return self._product(kind, node, out)
        if kind == "einsum":
            equation, tensors = (arguments_of(node)[name] for name in ("equation", "tensors"))
            return of_einsum(self.rules, equation, [*map(self.shape, tensors)], not self.parts[tensors[0]])
        if kind == ATTENTION and self._has_alike_heads(node):
            return self.rules.product(out, self.shape(arguments_of(node)["value"]), out)
        if kind == "cat":
            return self._concatenated(node, out)
        if own is not None and kind in _RESHAPING:
            return own.reshape(out)
        if own is not None and (node.target.is_view or kind == "roll"):
            return self._moved(node, own)
        return self._kept(kind, node, own, out)

    def _has_alike_heads(self, node: Node) -> bool:
        """Return whether each head of attention has keys and values of its own."""
        query, value = (self.shape(arguments_of(node)[name]) for name in ("query", "value"))
        return query[:-2] == value[:-2]

    def _kept(self, kind: str, node: Node, own: Map | None, out: Shape) -> Map | None:
        """Return the map of an operator that gives back as many elements as it reads, if it does."""
        if torch.Tag.pointwise not in node.target.tags and kind not in (*_NORMALISING, "clone"):
            return self.rules.passed(own, out, kind == "constant_pad_nd" or "pool" in kind)
        read = [other for other in node.all_input_nodes if self.parts[other]]
        if (own_layer := adding(self.parts[node], [self.parts[other] for other in read])) is not None:
            return kept_map(self.maps.get(read[own_layer]), out)
        whole = [other for other in read if self._is_whole(other, out)] or [o for o in read if self.shape(o) == out]
        given = [(self.parts[other], self.maps.get(other)) for other in whole]
        return self.rules.combined([self.parts[other] for other in read], given, out)

    def _is_whole(self, node: Node, out: Shape) -> bool:
        """Return whether an operand has an element of its own for each one of a result of this size."""
        is_spread = node.target in _SPREADING and self.shape(next(iter(node.all_input_nodes))) != out
        return self.shape(node) == out and not is_spread

    def _moved(self, node: Node, own: Map | None) -> Any:
        """Execute an operator that moves elements on the map of what it moves."""
        if own is None:
            return None
        with warnings.catch_warnings(action="ignore"):  # the map cannot be written to
            result = node.target(torch.from_numpy(own), *node.args[1:], **node.kwargs)
        return [one.numpy() for one in result] if isinstance(result, list | tuple) else result.numpy()

    def _product(self, kind: str, node: Node, out: Shape) -> Map | None:
        left, right = (arguments_of(node)[name] for name in OPERANDS[kind])
        if self.parts[left] and not self.parts[right] and len(self.shape(right)) == 2:
            return self.rules.rows(out)
        return self.rules.product(self.shape(left), self.shape(right), out, not self.parts[left])

    def _concatenated(self, node: Node, out: Shape) -> Map | None:
        """Return the map of what is concatenated along its channels, or with constants along another axis."""
        given = arguments_of(node)
        data = [tensor for tensor in given["tensors"] if self.parts[tensor]]
        if len(data) == 1:
            return kept_map(self.maps.get(data[0]), out)
        if len(data) < len(given["tensors"]):
            return None
        firsts = self.first_channels(self.parts[node], [self.parts[tensor] for tensor in data])
        maps = [self.maps.get(tensor) for tensor in data]
        return None if firsts is None else self.rules.joined(maps, firsts, given["dim"])
