"""How operators of PyTorch programs reorder channels: the maps of their results (`cpsat_pim.importers.channel_maps`).

Operators that only move elements are executed on the map.
"""

import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from attrs import frozen
from torch.fx import Node

from cpsat_pim.importers.channel_maps import (
    Map,
    channels_along,
    common_map,
    kept_map,
    own_axes,
    places_along,
    product_channels,
    side_by_side,
    small,
)
from cpsat_pim.importers.origin import Parts
from cpsat_pim.importers.products import Shape
from cpsat_pim.importers.torch_kinds import ATTENTION, CONVOLUTIONS, OPERANDS
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
    """The parts and the maps of the nodes so far, their sizes, `Layers.first_channels` and `NetworkBuilder.recount`.

    A node with several results has a list of maps.
    """

    parts: Mapping[Node, Parts]
    maps: Mapping[Node, Any]
    shape: Callable[[Node], Shape]
    first_channels: Callable[[Parts, Sequence[Parts]], list[int] | None]
    recount: Callable[[Parts, Map, Parts, Map], bool]

    def of(self, node: Node) -> Any:
        """Return the map of a node's result, or a list of those of its results."""
        try:
            found = self._of(node)
            return [*map(small, found)] if isinstance(found, list) else small(found)
        except (ArithmeticError, LookupError, RuntimeError, TypeError, ValueError):  # not followed
            return None

    def _of(self, node: Node) -> Any:
        if node.op != "call_function" or not self.parts[node]:
            return None
        if not isinstance(node.target, torch._ops.OpOverload):
            return self.maps[node.args[0]][node.args[1]] if node.target.__name__ == "getitem" else None
        kind, value = node.target._schema.name.removeprefix("aten::"), node.meta["val"]
        first = next(iter(node.all_input_nodes))
        own = self.maps.get(first)
        out = self.shape(node)
        if isinstance(value, list | tuple):
            return self._moved(node, own) if node.target.is_view else [self._kept(kind, node, own, out)]
        if kind in CONVOLUTIONS and not arguments_of(node).get("transposed"):
            return self._convolved(out)
        if kind in OPERANDS:
            return self._product(kind, node, out)
        if kind == ATTENTION and self._has_alike_heads(node):
            return self._attended(node, out)
        if kind == "cat":
            return self._concatenated(node, out)
        if own is not None and kind in _RESHAPING:
            return own.reshape(out)
        if own is not None and (node.target.is_view or kind == "roll"):
            return self._moved(node, own)
        return self._kept(kind, node, own, out)

    def _convolved(self, out: Shape) -> Map | None:
        return channels_along(out, 1)

    def _has_alike_heads(self, node: Node) -> bool:
        """Return whether each head of attention has keys and values of its own."""
        query, value = (self.shape(arguments_of(node)[name]) for name in ("query", "value"))
        return query[:-2] == value[:-2]

    def _attended(self, node: Node, out: Shape) -> Map | None:
        return product_channels(out, self.shape(arguments_of(node)["value"]), out)

    def _kept(self, kind: str, node: Node, own: Map | None, out: Shape) -> Map | None:
        """Return the map of an operator that gives back as many channels as it reads, if it does."""
        if torch.Tag.pointwise not in node.target.tags and kind not in (*_NORMALISING, "clone"):
            return kept_map(own, out)
        read = [other for other in node.all_input_nodes if self.parts[other]]
        if len({self.parts[other] for other in read}) > 1 and any(len(self.parts[other]) > 1 for other in read):
            return None
        whole = [other for other in read if self._is_whole(other, out)] or [o for o in read if self.shape(o) == out]
        return common_map([self.maps.get(other) for other in whole], out)

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
        if not self.parts[left]:
            return None
        if not self.parts[right]:
            return channels_along(out, -1) if len(self.shape(right)) == 2 else None
        return product_channels(self.shape(left), self.shape(right), out)

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
        return None if firsts is None else side_by_side(maps, firsts, given["dim"])


class Places(Order):
    """The same of positions: how operators reorder them. They are counted as layers make them, row by row."""

    def _convolved(self, out: Shape) -> Map | None:
        return places_along(out, [0, 2, 3]) if len(out) == 4 else None

    def _product(self, kind: str, node: Node, out: Shape) -> Map | None:
        left, right = (arguments_of(node)[name] for name in OPERANDS[kind])
        if not self.parts[left]:
            return None
        if not self.parts[right]:
            return places_along(out, range(len(out) - 1)) if len(self.shape(right)) == 2 else None
        return places_along(out, [*own_axes(self.shape(left), self.shape(right)), -2])

    def _attended(self, node: Node, out: Shape) -> Map | None:
        return places_along(out, [-2])

    def _kept(self, kind: str, node: Node, own: Map | None, out: Shape) -> Map | None:
        """Return the map of an operator that gives back as many positions as it reads, if it does.

        Of a sum of layers' outputs whose positions are counted differently, one layer's are counted as those of the
        others from then on, if it can count them so.
        """
        if torch.Tag.pointwise not in node.target.tags:
            is_in_order = kind in (*_NORMALISING, "clone", "constant_pad_nd") or "pool" in kind
            return kept_map(own, out) if is_in_order else None
        read = [other for other in node.all_input_nodes if self.parts[other] and self._is_whole(other, out)]
        maps = [self.maps.get(other) for other in read]
        if not maps or any(one is None for one in maps):
            return None
        for first, others in ((read[0], read[1:]), (read[-1], read[:-1])):
            if all(self._counts_as(other, first) for other in others):
                found: Map = self.maps[first]
                return found
        return None

    def _counts_as(self, node: Node, first: Node) -> bool:
        """Return whether a node's positions are counted as another one's, from now on at least."""
        own, wanted = self.maps[node], self.maps[first]
        return np.array_equal(own, wanted) or self.recount(self.parts[node], own, self.parts[first], wanted)
