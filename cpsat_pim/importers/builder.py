"""Build a network: products become layers, all other operators only propagate which layers their data come from.

A tensor's `Parts` record that origin. A tensor has one part, the layers that are summed in it; several parts, side by
side, after a concatenation; no part if it is a constant. When a part is summed again, it is represented by its end, the
layer at the end of the longest path, and by those of its layers that would otherwise not precede the sum. A residual
stream is thus represented by the block that finished it last, and the lists stay short in deep networks without losing
an ordering.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from fractions import Fraction
from typing import Any, TypeVar

from attrs import evolve, field, frozen

from cpsat_pim.base.validate import as_tuple
from cpsat_pim.importers.products import (
    Shape,
    Unmappable,
    convolution,
    einstein_sum,
    einsum_sizes,
    matrix_product,
    product_sum,
    transposed,
    transposed_convolution,
)
from cpsat_pim.importers.progress import Parts, Progress, SkippedOperator
from cpsat_pim.workload import ConvWorkload
from cpsat_pim.workload.network import INPUT, Network, NetworkNode

Widths = dict[str, int | Fraction]

_T = TypeVar("_T")

#: The input of the network.
FED: Parts = ((INPUT,),)


@frozen
class Operand:
    """A tensor as operand of a product."""

    shape: Shape = field(converter=as_tuple)
    parts: Parts


class NetworkBuilder:
    """Takes a model's operators in execution order; each method returns the parts of the operator's result."""

    def __init__(self) -> None:
        self.skipped: list[SkippedOperator] = []
        self._layers: list[NetworkNode] = []
        self._times = 1
        self._trips_from: int | None = None
        self._before: dict[str, frozenset[str]] = {INPUT: frozenset()}
        self._depth = {INPUT: 0}

    @property
    def is_empty(self) -> bool:
        """Whether no operator was a layer."""
        return not self._layers

    def network(self, name: str) -> Network:
        """Return the network.

        Raises:
            ValueError: no operator was a layer.
        """
        if self.is_empty:
            raise ValueError("holds no convolution or matrix product")
        return Network(name=name, layers=self._layers, has_widths=False)

    # Products

    def convolution(
        self, name: str, data: Operand, weight: Operand, out: Shape, groups: int, stride: Sequence[int],
        dilation: Sequence[int],
    ) -> Parts:  # fmt: skip
        """Add a convolution."""
        shape = convolution(data.shape, weight.shape, out, groups, stride, dilation)
        return self._layer(name, shape, data.parts, weight.parts)

    def transposed_convolution(
        self, name: str, data: Operand, weight: Operand, out: Shape, groups: int, stride: Sequence[int],
        dilation: Sequence[int], padding: Sequence[int],
    ) -> Parts:  # fmt: skip
        """Add a transposed convolution: one layer with a count of its phases, or one layer per kind of phase."""
        phases = transposed_convolution(data.shape, weight.shape, out, groups, stride, dilation, padding)
        names = [name] if len(phases) == 1 else [f"{name}.phase{index}" for index in range(len(phases))]
        return self.concatenate(
            self._layer(own, phase, data.parts, weight.parts, count)
            for own, (phase, count) in zip(names, phases.items(), strict=True)
        )

    def matmul(self, name: str, left: Operand, right: Operand, weight_bytes: Fraction | None = None) -> Parts:
        """Add a matrix product; W is the right operand, or the left one if only that is constant. `weight_bytes`: the
        width of W's elements where the model gives it.
        """
        own: Widths = {} if weight_bytes is None else {"weight": weight_bytes}
        if not left.parts and right.parts:
            shape = matrix_product(transposed(right.shape), transposed(left.shape))
            return self._layer(name, shape, right.parts, left.parts)
        return self._layer(name, matrix_product(left.shape, right.shape), left.parts, right.parts, own=own)

    def einsum(self, name: str, equation: str, operands: Sequence[Operand]) -> Parts:
        """Add an Einstein sum, a layer for each operand but the first: products from left to right, each summed over
        the axes that neither the result nor a later operand has. A sum of one operand only moves and adds elements.
        """
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
        query = Operand((*batch, shared, heads // shared, rows, channels), query.parts)
        key, value = (Operand((*o.shape[:-2], 1, *o.shape[-2:]), o.parts) for o in (key, value))
        scores = self.matmul(f"{name}.scores", query, Operand(transposed(key.shape), key.parts))
        shape = (*batch, shared, heads // shared, rows, value.shape[-2])
        return self.matmul(f"{name}.context", Operand(shape, self.merge(scores, *others)), value)

    # Everything else

    def merge(self, *operands: Parts) -> Parts:
        """Combine operands element by element: a single non-constant operand keeps its parts, several become
        one part.
        """
        different = [*dict.fromkeys(parts for parts in operands if parts)]
        if len(different) <= 1:
            return different[0] if different else ()
        ends = [self._end(part) for parts in different for part in parts]
        before = frozenset().union(*(self._before[end] for end in ends))
        named = (name for parts in different for part in parts for name in part)
        return (_unique(name for name in named if name in ends or name not in before),)

    def concatenate(self, operands: Iterable[Parts]) -> Parts:
        """Concatenate operands: their parts are side by side."""
        return _unique(part for parts in operands for part in parts)

    def skip(self, kind: str, name: str, *operands: Parts, macs: int | None = None) -> Parts:
        """Skip an operator that computes but is not a layer. An operator on constants only is computed beforehand."""
        if any(operands):
            self.skipped.append(SkippedOperator(kind, _spelled(name), macs and macs * self._times))
        return self.merge(*operands)

    # Loops and branches

    @contextmanager
    def repeated(self, times: int) -> Iterator[None]:
        """Count the layers added meanwhile so many times."""
        before = self._times
        self._times = before * times
        try:
            yield
        finally:
            self._times = before

    @contextmanager
    def unrolled(self) -> Iterator[None]:
        """Count a layer added meanwhile with name and shape of an earlier one as that one again."""
        before = self._trips_from
        self._trips_from = len(self._layers)
        try:
            yield
        finally:
            self._trips_from = before

    @property
    def progress(self) -> Progress:
        """What was added so far."""
        return Progress(tuple(self.skipped), tuple(self._layers))

    def restore(self, progress: Progress) -> None:
        """Forget what was added since."""
        self.skipped[:], self._layers[:] = progress.skipped, progress.layers
        names = {INPUT, *(layer.name for layer in progress.layers)}
        for kept in (self._before, self._depth):
            for name in kept.keys() - names:
                del kept[name]

    def either(self, ways: Sequence[Callable[[], Sequence[Parts]]]) -> list[Parts] | None:
        """Go each way from here and keep the layers of the last one, if all add the same and skip nothing.

        A way returns the parts of its results. Returned are those of each result, whichever way was gone; None if the
        ways differ, and nothing is kept.
        """
        before, gone = self.progress, []
        for follow in ways:
            self.restore(before)
            gone.append((follow(), self.progress))
        last = self.progress
        if any(way.skipped != before.skipped or not way.is_like(last) for _, way in gone):
            self.restore(before)
            return None
        kept = [way.rename(results, last) for results, way in gone]
        return [self.merge(*parts) for parts in zip(*kept, strict=True)]

    # Layers

    def _layer(
        self, name: str, shape: ConvWorkload, data: Parts, weight: Parts, count: int = 1, own: Widths | None = None
    ) -> Parts:
        """Add a layer, with its `own` widths. A product of constants is not a layer: it is computed beforehand."""
        if not data and not weight:
            return ()
        widths: dict[str, Any] = {f"{tensor}_bytes": width for tensor, width in (own or {}).items()}
        shape, count = evolve(shape, **widths), count * self._times
        if self._trips_from is not None and (known := self._repeat(name, shape, count)):
            return ((known,),)
        name = self._fresh(name)
        after = self._after(data, weight)
        node = NetworkNode(
            name=name, count=count, after=after, workload=evolve(shape, name=name), weights=not weight, bytes=own or {}
        )
        self._layers.append(node)
        self._before[name] = frozenset(after).union(*(self._before[other] for other in after))
        self._depth[name] = 1 + max(self._depth[other] for other in after)
        return ((name,),)

    def _repeat(self, name: str, shape: ConvWorkload, count: int) -> str | None:
        """Count a layer of an earlier trip again; None if no layer of this name has this shape."""
        name = _spelled(name)
        for index in range(self._trips_from or 0, len(self._layers)):
            layer = self._layers[index]
            own = layer.name
            named = own == name or re.fullmatch(rf"{re.escape(name)}_\d+", own)
            if named and layer.workload == evolve(shape, name=own):
                self._layers[index] = evolve(layer, count=layer.count + count)
                return own
        return None

    def _after(self, *operands: Parts) -> tuple[str, ...]:
        """Return the layers that the new layer comes after: the ends of I's parts, then those of W's."""
        parts = [part for operand in operands for part in operand]
        return _unique([*(self._end(part) for part in parts), *(name for part in parts for name in part)])

    def _end(self, part: tuple[str, ...]) -> str:
        """Return the layer of a sum that ends the longest path."""
        return max(part, key=self._depth.__getitem__)

    def _fresh(self, name: str) -> str:
        """Return a name that no layer has."""
        name = _spelled(name)
        taken, number = name, 2
        while taken in self._depth:
            taken, number = f"{name}_{number}", number + 1
        return taken


def _spelled(name: str) -> str:
    """Return a name without the commas and spaces that separate names on the command line."""
    return re.sub(r"[,\s]+", "_", name) or "layer"


def _unique(items: Iterable[_T]) -> tuple[_T, ...]:
    return tuple(dict.fromkeys(items))
