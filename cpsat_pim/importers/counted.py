"""Layers with the positions of what they make as a plan counts them, and how they state what they read in another order
(docs/array.md, section 2: reordering, positions of products).
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from attrs import evolve, field, frozen

from cpsat_pim.base.validate import as_tuple
from cpsat_pim.importers.added import sum_with_slice
from cpsat_pim.importers.channel_maps import Map
from cpsat_pim.importers.origin import Parts, Source
from cpsat_pim.importers.products import Shape, transposed
from cpsat_pim.importers.reorders import Roles, Seen, reorder_of, seen
from cpsat_pim.importers.summed import SummedLayers
from cpsat_pim.workload import ConvWorkload
from cpsat_pim.workload.joins import Range, View
from cpsat_pim.workload.network import NetworkNode
from cpsat_pim.workload.positions import Positions, counted_as
from cpsat_pim.workload.reorders import Reorder

#: By name how tensors are seen, and which of their channels are taken before.
Stated = tuple[dict[str, View], tuple[Range, ...] | None]


@frozen
class Operand:
    """A tensor as operand of a product. `order`: which channel each element is, `places`: which position, if it is
    known.
    """

    shape: Shape = field(converter=as_tuple)
    parts: Parts
    order: Map | None = field(default=None, eq=False)
    places: Map | None = field(default=None, eq=False)

    def transposed(self) -> "Operand":
        """Return the transposed matrix."""
        maps = (one if one is None or one.ndim < 2 else one.swapaxes(-1, -2) for one in (self.order, self.places))
        return Operand(transposed(self.shape), self.parts, *maps)

    def moved(self, axes: Sequence[int], shape: Shape) -> "Operand":
        """Return the tensor with its axes in this order, then with other sizes."""
        maps = (one if one is None else one.transpose(axes).reshape(shape) for one in (self.order, self.places))
        return Operand(shape, self.parts, *maps)

    def reshaped(self, shape: Shape) -> "Operand":
        """Return the tensor with other sizes."""
        return Operand(
            shape, self.parts, *(one if one is None else one.reshape(shape) for one in (self.order, self.places))
        )


class CountedLayers(SummedLayers):
    """Keeps of each layer how a plan counts its positions, and what it reads until somebody reads it."""

    def __init__(self) -> None:
        super().__init__()
        self._planned: dict[str, NetworkNode] = {}
        self._read: dict[str, tuple[Seen, Parts]] = {}

    def combine(self, operands: Sequence[Parts], *maps: Sequence[Map | None]) -> Parts:
        """Combine operands element by element: a layer may add some channels of another one's output to its own, or
        that output in another order. `maps`: which channel, and which position, each element of the operands is.
        """
        total = sum_with_slice(operands, maps[0], [self.channels(parts) if parts else None for parts in operands])
        total = total or self._sum_with_reordered(operands, *maps)
        return self.merge(*operands) if total is None else self._adding(total)

    def _sum_with_reordered(
        self, operands: Sequence[Parts], channels: Sequence[Map | None], places: Sequence[Map | None]
    ) -> Source | None:
        """Return the sum of a layer's output and another one whose channels lie along other axes, which comes before;
        None if that is not known, or none such.
        """
        known = [
            (parts[0][0], Seen(one, other))
            for parts, one, other in zip(operands, channels, places, strict=True)
            if len(parts) == 1 == len(parts[0]) and one is not None and other is not None and one.shape == other.shape
        ]
        if len(known) != 2 or sum(map(bool, operands)) != 2 or known[0][1].channels.shape != known[1][1].channels.shape:
            return None
        (other, read), (own, made) = sorted(known, key=lambda one: self._depth[one[0].layer])
        is_plain = own == Source(own.layer) and other == Source(other.layer, adds=other.adds)
        if not is_plain or np.array_equal(read.channels, made.channels):
            return None
        stated = self._stated_along(own.layer, made, other.layer, read)
        return None if stated is None else evolve(own, adds=(evolve(other, reorder=stated[0], channels=stated[1]),))

    def _stated_along(
        self, own: str, made: Seen, other: str, read: Seen
    ) -> tuple[Reorder, tuple[Range, ...] | None] | None:
        """Return how one layer sees the elements of another one in the places of those that it makes."""
        nodes, planned = self._nodes, self._planned
        if not {own, other} <= planned.keys() & nodes.keys():
            return None
        if any(planned[name].sample_weights != nodes[name].sample_weights for name in (own, other)):
            return None
        positions, count = self._made(planned[other])
        (samples, height, width), channels = self._made(planned[own])
        found = read.along(made, (samples, channels, height, width))
        return None if found is None else reorder_of(found, positions, count)

    def _made(self, planned: NetworkNode) -> tuple[Positions, int]:
        """Return positions and channels of what a layer makes, as a plan counts them."""
        layer = planned.workload
        return (planned.samples, layer.Q, layer.P), planned.blocks * layer.K

    def _counted(self, name: str, parts: Parts, read: Seen | None) -> None:
        """Note a layer that reads some parts."""
        node = self._node(name)
        if node is None or name in self._planned:
            return
        before = self._positions(parts)
        self._planned[name] = node if before is None else counted_as(node, before, keeps_rows=False)
        for other in node.after:
            self._read.pop(other, None)
        if read is not None:
            self._read[name] = read, parts

    def _positions(self, parts: Parts) -> Positions | None:
        """Return samples, rows and columns of a tensor as a plan counts them; None if they are not known."""
        source = self._end(parts[0]) if parts else None
        planned = None if source is None else self._planned.get(source.layer)
        if source is None or planned is None:
            return None
        layer = planned.workload
        width, height = source.size or (layer.P, layer.Q)
        return planned.samples, height, width

    def _seen(self, operand: Operand, roles: Roles) -> Seen | None:
        """Return what is read of an operand in these roles, channels and positions as a plan counts them."""
        found = seen(operand.order, operand.places, roles) if operand.parts else None
        if found is None:
            return None
        made, planned = (of.get(self._end(operand.parts[0]).layer) for of in (self._nodes, self._planned))
        if made is None or planned is None or planned.sample_weights == made.sample_weights:
            return found
        per_sample = planned.blocks * planned.workload.K
        size = planned.workload.P * planned.workload.Q
        return Seen(found.channels % per_sample, found.places + found.channels // per_sample * size)

    @property
    def _nodes(self) -> Mapping[str, NetworkNode]:
        return {node.name: node for node in self._layers}

    def _stated(self, read: Seen, parts: Parts) -> Stated | None:
        """Return how a layer sees the tensors of some parts, and the channels that it takes; None if it cannot tell."""
        positions, made = self._positions(parts), [self._planned.get(self._end(part).layer) for part in parts]
        if positions is None or None in made:
            return None
        count = sum(node.blocks * node.workload.K for node in made if node is not None)
        found = reorder_of(read, positions, count)
        if found is None:
            return None
        if found[0].is_plain:
            return {}, found[1]
        names = dict.fromkeys(self._end(part).layer for part in parts)
        return dict.fromkeys(names, View(reorder=found[0])), found[1]

    def first_channels(self, whole: Parts, operands: Iterable[Parts]) -> list[int] | None:
        """Return the first channel of each operand of a concatenation; None if they are not all there, or not known."""
        firsts = []
        for own in operands:
            at = whole.index(own[0])
            first = self.channels(whole[:at])
            if whole[at : at + len(own)] != own or first is None:
                return None
            firsts.append(first)
        return firsts

    def recount(self, parts: Parts, places: Map, others: Parts, wanted: Map) -> bool:
        """Count the positions of a product that nobody has read as those of a tensor that it is added to, unless they
        are counted so already. Return whether they are.

        Args:
            parts: of the product's result, so that it is a layer of its own.
            places: the positions of the elements of its result.
            others: of the tensor that it is added to.
            wanted: the positions of the elements of that tensor, which has the same shape.
        """
        name, positions = parts[0][0].layer, self._positions(others)
        if np.array_equal(places, wanted) and self._positions(parts) == positions:
            return True
        if parts != ((Source(name),),) or name not in self._read or positions is None:
            return False
        node, (read, data) = self._nodes[name], self._read[name]
        if not _is_product(node) or places.shape != wanted.shape or places.max() != wanted.max():
            return False
        order = np.full(int(wanted.max()) + 1, -1)
        order[wanted.reshape(-1)] = places.reshape(-1)
        if not np.array_equal(np.sort(order), np.arange(len(order))):
            return False
        moved = read.moved(order, positions)
        stated = ({}, node.channels) if moved.is_plain else self._stated(moved, data)
        if stated is None:
            return False
        self._replace(node, _counted_in(node.workload, positions), stated)
        del self._planned[name]
        self._counted(name, data, moved)
        return True

    def _replace(self, node: NetworkNode, shape: ConvWorkload, stated: Stated) -> None:
        """Replace a layer by one with another shape that sees what it reads in another way."""
        other: dict[str, Any] = {"views": stated[0] or None, "channels": stated[1], "workload": shape}
        if stated[0]:
            other["input_pool"] = None
        self._layers[self._layers.index(node)] = evolve(node, **other)


def _is_product(node: NetworkNode) -> bool:
    """Whether a layer computes each position of its input by itself, once."""
    layer = node.workload
    return node.weights and node.count == 1 and layer.R * layer.S == 1 and tuple(layer.stride) == (1, 1)


def _counted_in(layer: ConvWorkload, positions: Positions) -> ConvWorkload:
    samples, rows, columns = positions
    return evolve(layer, N=samples, Q=rows, P=columns)
