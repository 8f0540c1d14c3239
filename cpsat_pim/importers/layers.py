"""The layers of a network that is imported, and which of them the data of a tensor come from.

A tensor's `Parts` record that origin. A tensor has one part, the layers that are summed in it; several parts, side by
side, after a concatenation; no part if it is a constant. When a part is summed again, it is represented by its end, the
layer at the end of the longest path (a gate with one element a channel is none), and by those of its layers that would
otherwise not precede the sum. A residual stream is thus represented by the block that finished it last, and the lists
stay short in deep networks without losing an ordering.
"""

import itertools
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from fractions import Fraction
from typing import Any, TypeVar

from attrs import evolve

from cpsat_pim.importers.added import of_sources, sum_with_phases, sum_with_resized, sums_of, with_added
from cpsat_pim.importers.between import Reads, kept_sums, pool_outputs, stated_between
from cpsat_pim.importers.origin import Pair, Part, Parts, Source, each_source
from cpsat_pim.importers.progress import Progress, SkippedOperator
from cpsat_pim.importers.reorders import Seen
from cpsat_pim.workload import ConvWorkload
from cpsat_pim.workload.joins import InputSize, Pool, Range, Resize, Views
from cpsat_pim.workload.network import INPUT, Network, NetworkNode

Widths = dict[str, int | Fraction]

_T = TypeVar("_T")


class Layers:
    """Takes a model's operators in execution order; each method returns the parts of the operator's result."""

    def __init__(self) -> None:
        self.skipped: list[SkippedOperator] = []
        self._layers: list[NetworkNode] = []
        self._times = 1
        self._trips_from: int | None = None
        self._before: dict[str, frozenset[str]] = {INPUT: frozenset()}
        self._depth = {INPUT: 0}
        self._inputs: set[InputSize] = set()
        self._reads: dict[str, Reads] = {}
        self._operands: dict[str, tuple[Parts, Parts]] = {}
        self._sums: set[frozenset[str]] = set()
        self._added: dict[str, set[tuple[Source, ...]]] = {}

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
        size = next(iter(self._inputs)) if len(self._inputs) == 1 else None
        layers = pool_outputs(kept_sums(self._layers, self._reads), self._reads, self._added)
        weights = {name: [*itertools.chain(*own)] for name, (_, own) in self._operands.items()}
        layers = with_added(layers, self._reads, weights, self._added)
        return Network(name=name, layers=layers, input=size, has_widths=False)

    # Operators that are no products

    def merge(self, *operands: Parts) -> Parts:
        """Combine operands element by element: a single non-constant operand keeps its parts, several become
        one part. A sum that a layer reads stands there, in the place of its end, for what comes before.
        """
        different = [*dict.fromkeys(parts for parts in operands if parts)]
        if len(different) <= 1:
            return different[0] if different else ()
        if (parts := sum_with_phases(different)) is not None:
            return parts
        if (total := sum_with_resized(different, self._end)) is not None and self._is_large(total.adds[-1]):
            return self._adding(total)
        ends = [self._end(part) for parts in different for part in parts]
        before = frozenset().union(*(self._before[end.layer] for end in ends))
        summed = ((source, _layers_of(part)) for parts in different for part in parts for source in part)
        kept = (one for one, of in summed if one in ends or one.layer not in before or of not in self._sums)
        return (_unique(kept),)

    def _is_large(self, source: Source) -> bool:
        """Return whether what is resized has more than one position; one is spread over a sum."""
        shape = self._shape_of(source.layer)
        size = source.pool.size if source.pool else (shape.P, shape.Q) if shape else (1, 1)
        return math.prod(size) > 1

    def _adding(self, total: Source) -> Parts:
        """Note that a layer adds something to its output, which comes before it from now on unless it is made of it."""
        for source in sums_of([total]):
            is_made_of_it = any(source.layer in self._before[one.layer] for one in source.adds)
            for one in () if is_made_of_it else source.adds:
                self._before[source.layer] |= {one.layer} | self._before[one.layer]
                self._depth[source.layer] = max(self._depth[source.layer], self._depth[one.layer] + 1)
        return ((total,),)

    def _note_added(self, sources: Iterable[Source]) -> None:
        """Note what is added to outputs of layers where these are read."""
        for name, found in of_sources(sources).items():
            self._added.setdefault(name, set()).update(found)

    def concatenate(self, operands: Iterable[Parts]) -> Parts:
        """Concatenate operands: their parts are side by side."""
        return _unique(part for parts in operands for part in parts)

    def pooled(self, parts: Parts, pool: Pool | None) -> Parts:
        """Return the parts of a tensor that is pooled; None if layers cannot tell how."""
        return parts if pool is None else each_source(parts, lambda source: source.pooled(pool))

    def resized(self, parts: Parts, resize: Resize | None) -> Parts:
        """Return the parts of a tensor with other rows and columns; None if layers cannot tell how."""
        return parts if resize is None else each_source(parts, lambda source: source.resized(resize))

    def padded(self, parts: Parts, front: Pair) -> Parts:
        """Return the parts of a tensor behind zeros (left, top)."""
        return each_source(parts, lambda source: source.padded(front))

    def reduced(self, parts: Parts, left: int) -> Parts:
        """Return the parts of a reduction to so many elements: pooled, if these are one for each sample and channel."""
        size, shapes = self._size(parts), [self._shape_of(part[0].layer) for part in parts]
        whole = sum(shape.N * shape.G * shape.K for shape in shapes if shape is not None)
        if size is None:
            return parts
        if left == self.channels(parts) and whole > left:  # rows, or tokens, are counted as samples
            size = (size[0], size[1] * whole // left)
        elif left != whole:
            return parts
        return self.pooled(parts, Pool(window=size, size=(1, 1)))

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
        self,
        name: str,
        shape: ConvWorkload,
        data: Parts,
        weight: Parts,
        count: int = 1,
        own: Widths | None = None,
        front: Pair | None = None,
        size: Pair | None = None,
        weight_rows: str | None = None,
        channels: tuple[Range, ...] | None = None,
        weight_channels: tuple[Range, ...] | None = None,
        shared_heads: bool | None = None,
        views: Mapping[str, Views] | None = None,
        read: Seen | None = None,
    ) -> Parts:
        """Add a layer, with its `own` widths, zeros (left, top) in `front` of its data, and the `size` of these.
        `channels`, `weight_channels`: those that it takes of its data and weights, if not all. `shared_heads`: whether
        its N are heads along channels. `views`: of tensors that it reads in another order. `read`: what it reads.

        Where C and K are equal, the rows of activations that are W might be either: `weight_rows` tells. A product of
        constants is not a layer: it is computed beforehand.
        """
        if not data and not weight:
            return ()
        widths: dict[str, Any] = {f"{tensor}_bytes": width for tensor, width in (own or {}).items()}
        shape, count = evolve(shape, **widths), count * self._times
        if self._trips_from is not None and (known := self._repeat(name, shape, count)):
            return ((Source(known),),)
        name = self._fresh(name)
        after = self._after(data, weight)
        node = NetworkNode(
            name=name,
            count=count,
            after=after,
            workload=evolve(shape, name=name),
            weights=not weight,
            bytes=own or {},
            weight_rows=weight_rows if weight and shape.C == shape.K else None,
            channels=channels,
            weight_channels=weight_channels,
            shared_heads=shared_heads,
            views=dict(views) if views else None,
            **stated_between(shape, data, None if views else self._size(data) or size, front),
        )
        self._layers.append(node)
        self._operands[name] = data, weight
        self._sums |= {_layers_of(part) for part in (*data, *weight)}
        self._reads[name] = _unique(evolve(source, pad=(0, 0)) for part in data for source in part)
        self._note_added(source for parts in (data, weight) for part in parts for source in part)
        self._before[name] = frozenset(after).union(*(self._before[other] for other in after))
        self._depth[name] = 1 + max(self._depth[other] for other in after)
        self._counted(name, data, read)
        return ((Source(name),),)

    def _counted(self, name: str, parts: Parts, read: Seen | None) -> None:
        """Note a layer that reads some parts."""

    def _size(self, data: Parts) -> Pair | None:
        """Return the width and height of a tensor, pooled or resized but not padded; None for the network's input."""
        source = data[0][0] if data else Source(INPUT)
        if source.size is not None:
            return source.size
        shape = self._shape_of(source.layer)
        return None if shape is None else (shape.P, shape.Q)

    def channels(self, parts: Parts) -> int | None:
        """Return the channels of a tensor with all of its parts side by side; None of the network's input."""
        found = 0
        for reorder, alike in itertools.groupby(map(self._end, parts), lambda end: end.reorder):
            nodes = [self._node(end.layer) for end in alike]
            if None in nodes:
                return None
            own = sum(node.blocks * node.workload.K for node in nodes if node is not None)
            found += own if reorder is None else reorder.shape[1]
        return found

    def _shape_of(self, name: str) -> ConvWorkload | None:
        """Return a layer's shape; None for the network's input."""
        node = self._node(name)
        return node.workload if node else None

    def _node(self, name: str) -> NetworkNode | None:
        return next((layer for layer in self._layers if layer.name == name), None)

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
        """Return the layers that the new layer comes after: the ends of I's parts, those of W's, then all others. A
        layer that makes both, such as queries and keys, is there twice, and so is one that is seen in two ways.
        """
        ends = [_listed(self._end(part) for part in parts) for parts in operands]
        others = _unique(source.layer for parts in operands for part in parts for source in part)
        named = [name for some in ends for name in some]
        return (*named, *(name for name in others if name not in named))

    def _end(self, part: Part) -> Source:
        """Return the layer of a sum that ends the longest path; none whose elements are spread over the others."""
        if len(part) == 1:
            return part[0]
        is_alike = len({(source.pool, source.resize) for source in part}) == 1  # all after they were added
        sizes = {source: self._elements(Source(source.layer) if is_alike else source) for source in part}
        most = max((size for size in sizes.values() if size is not None), default=0)
        return max(part, key=lambda source: (sizes[source] in (None, most), self._depth[source.layer]))

    def _elements(self, source: Source) -> int | None:
        """Return the elements of a layer's output, pooled or resized; None of the network's input."""
        shape = self._shape_of(source.layer)
        if shape is None:
            return None
        size = source.size or (shape.P, shape.Q)
        return math.prod(source.reorder.shape) if source.reorder else shape.N * shape.G * shape.K * math.prod(size)

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


def _listed(sources: Iterable[Source]) -> tuple[str, ...]:
    """Return the layers of sources, once for each way in which they are pooled or resized."""
    return tuple(name for name, _, _ in _unique((source.layer, source.pool, source.resize) for source in sources))


def _layers_of(part: Part) -> frozenset[str]:
    """Return the layers of which a sum is made."""
    return frozenset(source.layer for source in part)


def _unique(items: Iterable[_T]) -> tuple[_T, ...]:
    return tuple(dict.fromkeys(items))
