"""Sums of a layer's output and what is resized, reordered, or some channels of another one: the layer adds that to its
output, if all readers read the sum (feature pyramids, partial residuals; docs/array.md, section 2).
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from attrs import evolve, frozen

from cpsat_pim.importers.channel_maps import Map, distinct
from cpsat_pim.importers.origin import Part, Parts, Source, each_source
from cpsat_pim.workload.joins import ADD, View
from cpsat_pim.workload.network import INPUT, NetworkNode

#: By layer, what is added to its output wherever it is read; nothing where it is read as it is.
Added = Mapping[str, set[tuple[Source, ...]]]


def sum_with_resized(operands: Sequence[Parts], end: Callable[[Part], Source]) -> Source | None:
    """Return the sum of a layer's output, or of several of one size, of which the layer at the `end` adds the others,
    and a tensor that is resized; None if operands are none such.
    """
    parts = [one[0] for one in operands if len(one) == 1]
    resized = [part for part in parts if len(part) == 1 and part[0].resize is not None and part[0].pad == (0, 0)]
    plain = [part for part in parts if all(map(_is_whole, part))]
    if len(operands) != 2 or len(resized) != 1 or len(plain) != 1:
        return None
    own = end(plain[0])
    others = (source for source in plain[0] if source != own)
    return None if own.layer == INPUT else evolve(own, adds=(*own.adds, *others, *resized[0]))


def _is_whole(source: Source) -> bool:
    """Return whether it is a layer's output as it is, with or without what is added to it."""
    return source == Source(source.layer, adds=source.adds)


def sum_with_phases(operands: Sequence[Parts]) -> Parts | None:
    """Return the sum of what the phases of a transposed convolution make and of sums of layers' outputs, which its
    readers make; None if operands are none such.
    """
    phases = [parts for parts in operands if all(len(part) == 1 and part[0].reorder for part in parts)]
    others = [parts[0] for parts in operands if len(parts) == 1 and all(map(_is_output, parts[0]))]
    if (
        len(phases) != 1
        or len(others) != len(operands) - 1
        or len({(part[0].reorder, part[0].pad) for part in phases[0]}) > 1
    ):
        return None
    return each_source(phases[0], lambda source: evolve(source, plus=(*source.plus, *others)))


def _is_output(source: Source) -> bool:
    """Return whether it is what a layer makes, and nothing else."""
    return source == Source(source.layer) and source.layer != INPUT


def sum_with_slice(
    operands: Sequence[Parts], maps: Sequence[Map | None], channels: Sequence[int | None]
) -> Source | None:
    """Return the sum of a layer's output and a range of the channels of another one; None if operands are none such.

    `maps`: which channel each element of the operands is, `channels`: how many their layers make.
    """
    known = [
        (parts[0][0], one[(0,) * one.ndim], one, count)
        for parts, one, count in zip(operands, maps, channels, strict=True)
        if isinstance(one, np.ndarray) and count is not None and len(parts) == len(parts[0]) == 1
    ]
    if len(known) != 2 or sum(map(bool, operands)) != 2:
        return None
    for own, other in (known, known[::-1]):
        whole, part = own[3], (int(other[1]), int(other[1]) + own[3])
        is_plain = all(source == Source(source.layer) for source in (own[0], other[0]))
        is_slice = part != (0, other[3]) and own[1] == 0 and distinct(own[2]) == whole
        if is_plain and is_slice and own[2].shape == other[2].shape and np.array_equal(own[2] + part[0], other[2]):
            return evolve(own[0], adds=(evolve(other[0], channels=(part,)),))
    return None


def sums_of(parts: Iterable[Source]) -> Iterable[Source]:
    """Yield the sources of a tensor, and those that are added to what they are made of, or to them."""
    for source in parts:
        yield source
        yield from sums_of((*source.adds, *source.added))


def with_added(
    layers: Sequence[NetworkNode],
    reads: Mapping[str, Sequence[Source]],
    weights: Mapping[str, Sequence[Source]],
    added: Added,
) -> list[NetworkNode]:
    """Return the layers with what they add to their outputs, each behind what it adds.

    A layer that somebody reads without it, too, adds nothing: its readers (`reads`: of what, as data; `weights`: in the
    place of W) then add both.
    """
    names = {layer.name for layer in layers}
    agreed = agreed_on(
        {name: {one for one in found if all(source.layer in names for source in one)} for name, found in added.items()}
    )
    sums = _Sums(agreed, {layer.after[0]: layer.after for layer in layers if layer.join == ADD})
    by_output = {name: found for name, one in agreed.items() if (found := sums.terms(name, one)) is not None}
    stated = [
        evolve(
            sums.read_by(
                layer,
                *([one for one in of.get(layer.name, ()) if one.layer not in by_output] for of in (reads, weights)),
            ),
            adds=_views(by_output[layer.name]) if layer.name in by_output else None,
        )
        for layer in layers
    ]
    return _in_order(stated)


def agreed_on(added: Added) -> dict[str, tuple[Source, ...]]:
    """Return by layer what is added to its output wherever that is read, if anything is."""
    return {name: one for name, found in added.items() if len(found) == 1 and (one := next(iter(found)))}


@frozen
class _Sums:
    """What layers add to their outputs (`agreed`, by name), and the sums that others read, by their first operand."""

    agreed: Mapping[str, tuple[Source, ...]]
    read: Mapping[str, tuple[str, ...]]

    def terms(self, name: str, adds: Iterable[Source]) -> list[Source] | None:
        """Return what is added to a tensor, which may be the name of a sum of some of it; what is itself a sum that no
        layer makes, in its terms. None if it is added resized, or a term several times.
        """
        found: list[Source] = []
        for one in adds:
            if not (_is_whole(one) and one.layer in self.read.get(name, ())):
                found.append(evolve(one, adds=()))
                inner = self.terms(one.layer, one.adds) if one.layer not in self.agreed else []
                if inner is None or (inner and not _is_whole(one)):
                    return None
                found += inner
        return found if len({one.layer for one in found}) == len(found) else None

    def beside(self, sources: Sequence[Source]) -> list[str] | None:
        """Return the tensors that a layer adds to all that it reads. None if it does not add the same to all of it, or
        where a tensor's name stands for another sum.
        """
        if len({(one.reorder, one.plus) for one in sources}) > 1 or any(one.adds for one in sources):
            return None
        found: list[str] = []
        for part in sources[0].plus:
            names = {source.layer for source in part}
            others = {first: self._others(first) for first in names}
            left = names.difference(*(own for own in others.values() if own <= names))
            if any(not others[first] <= names for first in left):
                return None
            found += sorted(left)
        return found if len({*found}) == len(found) else None

    def _others(self, first: str) -> set[str]:
        """Return what is added to a tensor wherever that is read."""
        return {*self.read.get(first, ())[1:], *(one.layer for one in self.agreed.get(first, ()))}

    def read_by(self, layer: NetworkNode, sources: Sequence[Source], weights: Sequence[Source]) -> NetworkNode:
        """Return a layer with the operands of the sums that it reads, where their layers do not add them: it adds them
        to its input. A sum that is only a part of that, or that it reads in another way, it comes after: no plan takes
        it.
        """
        names = {other.layer for one in (*sources, *weights) for other in (*one.adds, *one.added)}
        if not names:
            return layer
        if any(one.plus for one in sources):
            beside = self.beside(sources) if not weights and layer.channels is None else None
            if beside is not None:
                return evolve(layer, input_adds={name: View() for name in beside})
        is_summed = len(sources) == 1 and _is_whole(sources[0]) and not any(one.adds or one.plus for one in weights)
        if is_summed and layer.views is None is layer.channels:
            terms = self.terms(sources[0].layer, sources[0].adds)
            if terms is not None:
                return evolve(layer, after=(sources[0].layer, *layer.after[1:]), input_adds=_views(terms))
        return evolve(layer, after=(*layer.after, *sorted(names - {*layer.after})), join=None)


def _views(sources: Iterable[Source]) -> dict[str, View]:
    return {one.layer: View(resize=one.resize, channels=one.channels, reorder=one.reorder) for one in sources}


def _in_order(layers: Sequence[NetworkNode]) -> list[NetworkNode]:
    """Return the layers in their order, but each behind what it adds."""
    done: list[NetworkNode] = []
    waiting: dict[str, list[NetworkNode]] = {}
    for layer in layers:
        ready = [layer]
        while ready:
            one = ready.pop(0)
            missing = set(one.adds or ()) - {node.name for node in done} & {node.name for node in layers}
            if missing:
                waiting.setdefault(missing.pop(), []).append(one)
            else:
                done.append(one)
                ready += waiting.pop(one.name, [])
    return done


def of_sources(sources: Iterable[Source]) -> dict[str, Any]:
    """Return by layer what is added to its output where these sources are read."""
    found: dict[str, set[tuple[Source, ...]]] = {}
    for source in sums_of(sources):
        found.setdefault(source.layer, set()).add(source.adds)
    return found
