"""Build a network: products become layers of it (`cpsat_pim.importers.layers`)."""

import math
from collections.abc import Sequence
from fractions import Fraction

from attrs import evolve

from cpsat_pim.importers.channel_maps import (
    Map,
    distinct,
    of_product,
    own_axes,
    product_channels,
    product_places,
    repeats_along,
    shared_axes,
    taken,
)
from cpsat_pim.importers.counted import CountedLayers, Operand
from cpsat_pim.importers.einstein import einstein_sum, einsum_sizes, matrix_form
from cpsat_pim.importers.layers import Widths
from cpsat_pim.importers.origin import FED, Pair, Parts, each_source
from cpsat_pim.importers.phases import transposed_convolution
from cpsat_pim.importers.products import (
    Shape,
    Unmappable,
    convolution,
    matrix_product,
    product_sum,
    transposed,
)
from cpsat_pim.importers.reorders import Roles, Seen
from cpsat_pim.workload import ConvWorkload
from cpsat_pim.workload.joins import InputSize, Range, View, Views


class NetworkBuilder(CountedLayers):
    """Takes a model's operators in execution order; each method returns the parts of the operator's result."""

    # Products

    def convolution(
        self, name: str, data: Operand, weight: Operand, out: Shape, groups: int, stride: Sequence[int],
        dilation: Sequence[int], padding: Sequence[int] | None = None,
    ) -> Parts:  # fmt: skip
        """Add a convolution, with so many zeros in front of each spatial axis, if that is known."""
        shape = convolution(data.shape, weight.shape, out, groups, stride, dilation)
        return self._convolved(name, shape, data, weight, None if padding is None else _columns_rows(padding, 0))

    def transposed_convolution(
        self, name: str, data: Operand, weight: Operand, out: Shape, groups: int, stride: Sequence[int],
        dilation: Sequence[int], padding: Sequence[int],
    ) -> Parts:  # fmt: skip
        """Add a transposed convolution: a layer for all phases that read the same windows."""
        phases = transposed_convolution(data.shape, weight.shape, out, groups, stride, dilation, padding)
        names = [name] if len(phases.layers) == 1 else [f"{name}.phase{at}" for at in range(len(phases.layers))]
        parts = self.concatenate(
            self._convolved(own, phase.shape, data, weight, phase.front if min(phase.front) >= 0 else None)
            for own, phase in zip(names, phases.layers, strict=True)
        )
        return each_source(parts, lambda source: source.reordered(phases.reorder))

    def _convolved(self, name: str, shape: ConvWorkload, data: Operand, weight: Operand, front: Pair | None) -> Parts:
        """Add a convolution, with so many zeros (left, top) in front of its data, if that is known."""
        size = _columns_rows(data.shape[2:], 1) if len(data.shape) in (3, 4) else None
        front = None if size is None else front
        if data.parts == FED and size is not None:
            self._inputs.add(InputSize(N=data.shape[0], C=data.shape[1], W=size[0], H=size[1]))
        read = self._seen(data, ([0], [1], [2], [3])) if len(data.shape) == 4 and data.parts else None
        if read is not None and not read.is_plain and (stated := self._stated(read, data.parts)):
            views, channels = stated
            return self._layer(
                name, shape, data.parts, weight.parts, front=front or (0, 0), channels=channels, views=views
            )
        channels = taken(data.order, [1], self.channels(data.parts), shape.G == 1)
        return self._layer(name, shape, data.parts, weight.parts, front=front, size=size, channels=channels)

    def matmul(
        self, name: str, left: Operand, right: Operand, weight_bytes: Fraction | None = None, rows: str | None = None
    ) -> Parts:
        """Add a matrix product; W is the right operand, or the left one if only that is constant.

        Args:
            name: its name.
            left: [..., rows, channels].
            right: [..., channels, outputs].
            weight_bytes: the width of W's elements where the model gives it.
            rows: the dim (K or C) along the rows of activations that are the right operand, if it is known.
        """
        own: Widths = {} if weight_bytes is None else {"weight": weight_bytes}
        if not left.parts and right.parts:
            left, right = right.transposed(), left.transposed()
        is_product = bool(right.parts) and bool(left.parts)
        if is_product:
            left, right = self._with_shared_heads(left, right)
        if (reordered := self._reordered(name, left, right, own)) is not None:
            return reordered
        shape = self._of_all_elements(left, right) or matrix_product(left.shape, right.shape)
        groups, heads = shared_axes(left.shape, right.shape), own_axes(left.shape, right.shape)
        has_heads = is_product and shape.N > 1 and self._are_channels(left, [*groups, *heads], shape)
        return self._layer(
            name,
            shape,
            left.parts,
            right.parts,
            own=own,
            weight_rows=rows,
            channels=self._taken(left, [*groups, *heads] if has_heads else groups, -1, not is_product),
            shared_heads=has_heads or None,
            weight_channels=self._taken_as_weights(left, right) if is_product else None,
            read=None if is_product or len(left.shape) < 2 else self._seen(left, _rows_of(left.shape)),
        )

    def _reordered(self, name: str, left: Operand, right: Operand, own: Widths) -> Parts | None:
        """Add a matrix product of operands whose elements are counted along other axes; None if it reads none."""
        if not left.parts or self._of_all_elements(left, right) or min(len(left.shape), len(right.shape)) < 2:
            return None
        if right.parts:
            return self._reordered_product(name, left, right)
        read = self._seen(left, _rows_of(left.shape)) if len(right.shape) == 2 else None
        stated = None if read is None or read.is_plain else self._stated(read, left.parts)
        if read is None or stated is None:
            return None
        samples, _, rows, columns = read.places.shape
        shape = evolve(matrix_product(left.shape, right.shape), N=samples, Q=rows, P=columns)
        return self._layer(
            name, shape, left.parts, right.parts, own=own, channels=stated[1], views=stated[0], read=read
        )

    def _reordered_product(self, name: str, left: Operand, right: Operand) -> Parts | None:
        """The same of two activations, of which each may be reordered."""
        groups, heads = shared_axes(left.shape, right.shape), own_axes(left.shape, right.shape)
        if heads or self._is_by_sample(left, right, groups):
            return None
        read, (rows, weight) = self._seen(left, ([], [*groups, -1], [], [-2])), self._weight_seen(right, groups)
        if read is None or weight is None or (read.is_plain and weight.is_plain):
            return None
        stated, weight_stated = self._stated(read, left.parts), self._stated(weight, right.parts)
        if stated is None or weight_stated is None:
            return None
        views: dict[str, Views] = {**weight_stated[0], **stated[0]}
        ends, weight_ends = ({self._end(part).layer for part in operand.parts} for operand in (left, right))
        for own in ends & weight_ends:
            seen = stated[0].get(own, View()), weight_stated[0].get(own, View())
            views[own] = seen[0] if seen[0] == seen[1] else seen
        shape = matrix_product(left.shape, right.shape)
        return self._layer(
            name, shape, left.parts, right.parts, weight_rows=rows, channels=stated[1],
            weight_channels=weight_stated[1], views=views,
        )  # fmt: skip

    def _is_by_sample(self, left: Operand, right: Operand, groups: Sequence[int]) -> bool:
        """Return whether a product's outermost groups are the samples of both operands, counted as they are made."""
        positions = self._positions(left.parts)
        outer = [*groups]
        while outer and math.prod(left.shape[axis] for axis in outer) != (positions or (1,))[0]:
            outer.pop()
        if not outer:
            return False
        rest = [axis for axis in groups if axis not in outer]
        read = self._seen(left, (outer, [*rest, -1], [], [-2]))
        _, weight = self._weight_seen(right, rest, outer)
        return read is not None and weight is not None and read.is_plain and weight.is_plain

    def _weight_seen(
        self, right: Operand, groups: Sequence[int], samples: Sequence[int] = ()
    ) -> tuple[str, Seen | None]:
        """Return what is read as W, with the dim that runs along its rows: that along which channels are the same."""
        along_k = self._seen(right, (samples, [*groups, -2], [], [-1]))
        if along_k is None or along_k.has_like_rows:
            return "K", along_k
        return "C", self._seen(right, (samples, [*groups, -1], [], [-2]))

    def _taken(self, operand: Operand, groups: Sequence[int], axis: int, is_free: bool) -> tuple[Range, ...] | None:
        """Return the channels that a product takes of an operand along axes that are its groups, and one more."""
        return taken(operand.order, [*groups, axis], self.channels(operand.parts), is_free)

    def _with_shared_heads(self, left: Operand, right: Operand) -> tuple[Operand, Operand]:
        """Return the operands of a product where heads of the left one that share one of the right lie along an axis of
        their own, if the right one is repeated for each of them.
        """
        order = right.order
        for axis in [] if order is None else shared_axes(left.shape, right.shape):
            count = 1 if order is None else repeats_along(order, axis)
            if order is not None and count > 1 and self._has_more(right, order, count):
                once = order.take(range(0, order.shape[axis], count), axis=axis)
                sizes = _split(once.shape, axis, 1)
                return left.reshaped(_split(left.shape, axis, count)), Operand(sizes, right.parts, once.reshape(sizes))
        return left, right

    def _has_more(self, operand: Operand, order: Map, count: int) -> bool:
        """Return whether an operand has so many times the elements that were made: its channels in each position of
        each sample. Channels are the same in all samples, too, and in windows of positions.
        """
        made, size = self._node(self._end(operand.parts[0]).layer), self._size(operand.parts)
        if made is None or size is None:
            return False
        return math.prod(operand.shape) == count * distinct(order) * made.samples * math.prod(size)

    def _are_channels(self, operand: Operand, axes: Sequence[int], shape: ConvWorkload) -> bool:
        """Return whether groups and samples of a product lie side by side along the channels of an operand."""
        count = shape.G * shape.N * shape.C
        return self.channels(operand.parts) == count or self._taken(operand, axes, -1, is_free=False) is not None

    def _taken_as_weights(self, left: Operand, right: Operand) -> tuple[Range, ...] | None:
        """Return the same of activations that are W: one of the two last axes is channels, the other one rows."""
        groups = shared_axes(left.shape, right.shape)
        along = (self._taken(right, groups, axis, is_free=False) for axis in (-1, -2))
        return next((channels for channels in along if channels is not None), None)

    def _of_all_elements(self, left: Operand, right: Operand) -> ConvWorkload | None:
        """Return the convolution that a product with constants is if each row has all elements of a tensor with more
        than one row or column: a filter as large as that tensor.
        """
        first = self._shape_of(left.parts[0][0].layer) if left.parts else None
        size = self._size(left.parts)
        if first is None or size is None or right.parts or len(right.shape) != 2:
            return None
        shapes = [self._shape_of(part[0].layer) for part in left.parts]
        channels = sum(shape.G * shape.K for shape in shapes if shape is not None)
        is_whole = left.shape[-1] == channels * math.prod(size) and math.prod(left.shape[:-1]) == first.N
        if not is_whole or math.prod(size) == 1:
            return None
        return ConvWorkload(R=size[0], S=size[1], C=channels, K=right.shape[1], N=first.N)

    def einsum(self, name: str, equation: str, operands: Sequence[Operand]) -> Parts:
        """Add an Einstein sum, a layer for each operand but the first: products from left to right, each summed over
        the axes that neither the result nor a later operand has. A sum of one operand only moves and adds elements.
        """
        if len(operands) == 2 and (form := matrix_form(equation, *(operand.shape for operand in operands))):
            left, right = operands[0].moved(form.left, form.left_shape), operands[1].moved(form.right, form.right_shape)
            return self.matmul(name, left, right)
        first, *others, result = einsum_sizes(equation, [operand.shape for operand in operands])
        parts = operands[0].parts
        for index, (operand, sizes) in enumerate(zip(operands[1:], others, strict=True)):
            kept = result.keys() | {letter for later in others[index + 1 :] for letter in later}
            swapped = not parts and operand.parts  # W is the constant factor
            shape = einstein_sum(sizes, first, kept) if swapped else einstein_sum(first, sizes, kept)
            data, weight = (operand.parts, parts) if swapped else (parts, operand.parts)
            parts = self._layer(name, shape, data, weight)
            first = {letter: size for letter, size in {**first, **sizes}.items() if letter in kept}
        return parts

    def grouped(
        self, name: str, rows: int, data: Parts, weight: Operand, weight_bytes: Fraction | None = None
    ) -> Parts:
        """Add a product of rows with one matrix each of a group, [groups, channels, outputs], as if the groups shared
        the rows as evenly as possible: a layer of groups with equally many rows, or a second one, `name.fewer`, of
        those with one row less. Groups without rows are none.
        """
        groups, channels, outputs = weight.shape
        each, more = divmod(rows, groups)
        shares = [(name, more, each + 1), (f"{name}.fewer" if more else name, groups - more, each)]
        return self.concatenate(
            self.matmul(
                own,
                Operand((count, share, channels), data),
                Operand((count, channels, outputs), weight.parts),
                weight_bytes,
            )
            for own, count, share in shares
            if count and share
        )

    def product_sum(self, name: str, left: Operand, right: Operand, summed: Sequence[int]) -> Parts | None:
        """Add the sum of an element-wise product; None if it is no product along an axis of both."""
        if not left.parts and right.parts:
            left, right = right, left
        shape = product_sum(left.shape, right.shape, summed)
        return None if shape is None else self._layer(name, shape, left.parts, right.parts)

    def recurrent(
        self, name: str, data: Operand, weight: Operand, recurrent: Operand, state: Parts, directions: int = 1,
        projection: Operand | None = None,
    ) -> Parts:  # fmt: skip
        """Add a recurrent layer: all steps' products with the input at once, and one product with the state per step.

        Args:
            name: its name; the layers are `name.input` and `name.recurrent`, and `name.projection`.
            data: the input, [steps, batch, channels].
            weight: [channels, gates * units].
            recurrent: [units, gates * units]; fewer units than gate columns per gate if the state is projected.
            state: the parts of the initial state, and of anything else that the steps read.
            directions: how many directions there are, each with weights of its own.
            projection: [units before the projection, units], if the state is projected: one more product per step.
        """
        steps, batch, channels = data.shape
        first = matrix_product((steps * batch, channels), weight.shape)
        inputs = self._layer(f"{name}.input", first, data.parts, weight.parts, directions)
        step = matrix_product((batch, recurrent.shape[0]), recurrent.shape)
        read = self.merge(inputs, state)
        parts = self._layer(f"{name}.recurrent", step, read, recurrent.parts, steps * directions)
        if projection is None:
            return parts
        narrowed = matrix_product((batch, projection.shape[0]), projection.shape)
        return self._layer(f"{name}.projection", narrowed, parts, projection.parts, steps * directions)

    def attention(self, name: str, query: Operand, key: Operand, value: Operand, *others: Parts) -> Parts:
        """Add scores and context of attention over [..., heads, rows, channels]; several query heads may share a key
        and value head.

        Raises:
            Unmappable: the query heads are not a multiple of the others.
        """
        *batch, heads, rows, channels = query.shape
        shared = key.shape[-3]
        if heads % shared:
            raise Unmappable(f"{heads} query heads on {shared} others")
        query = query.reshaped((*batch, shared, heads // shared, rows, channels))
        key, value = (o.reshaped((*o.shape[:-2], 1, *o.shape[-2:])) for o in (key, value))
        scores = self.matmul(f"{name}.scores", query, key.transposed(), rows="K")
        shape = (*batch, shared, heads // shared, rows, value.shape[-2])
        read = Operand(shape, self.merge(scores, *others))
        if heads == shared:
            sizes, is_turned = (query.shape, transposed(key.shape), shape), not query.parts
            maps = (of_product(rule, *sizes, is_turned) for rule in (product_channels, product_places))
            read = Operand(shape, read.parts, *maps)
        return self.matmul(f"{name}.context", read, value, rows="C")


def _rows_of(shape: Shape) -> Roles:
    """Return the roles of the axes of rows of channels, or of [samples, rows, columns, channels]."""
    if len(shape) == 4:
        return [0], [3], [1], [2]
    return range(len(shape) - 2), [-1], [], [-2]


def _split(shape: Shape, axis: int, count: int) -> Shape:
    """Return sizes with an axis, counted from the end, split in two, the inner one of this size."""
    at = len(shape) + axis
    return (*shape[:at], shape[at] // count, count, *shape[at + 1 :])


def _columns_rows(sizes: Sequence[int], other: int) -> Pair:
    """Return values per spatial axis, rows first, as columns and rows; without rows these have the `other` value."""
    *rows, columns = sizes
    return columns, rows[0] if rows else other
