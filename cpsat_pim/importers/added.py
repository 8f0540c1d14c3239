"""Sums of a layer's output and what is resized, reordered, or some channels of another one: the layer adds that to its
output, if all readers read the sum (feature pyramids, partial residuals; docs/array.md, section 2).
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from attrs import evolve

from cpsat_pim.importers.channel_maps import Map, distinct
from cpsat_pim.importers.origin import Parts, Source
from cpsat_pim.workload.joins import View
from cpsat_pim.workload.network import NetworkNode

#: By layer, what is added to its output wherever it is read; nothing where it is read as it is.
Added = Mapping[str, set[tuple[Source, ...]]]


def sum_with_resized(operands: Sequence[Parts]) -> Source | None:
    """Return the sum of a layer's output and a tensor that is resized; None if operands are none such."""
    sources = [parts[0][0] for parts in operands if len(parts) == len(parts[0]) == 1]
    if len(operands) != 2 or len(sources) != 2:
        return None
    resized = [source for source in sources if source.resize is not None and source.pad == (0, 0)]
    plain = [source for source in sources if source == Source(source.layer)]
    return evolve(plain[0], adds=(resized[0],)) if len(resized) == len(plain) == 1 else None


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
    """Yield the sources of a tensor, and those that are added to what they are made of."""
    for source in parts:
        yield source
        yield from sums_of(source.adds)


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
    added = {
        name: {one for one in found if all(source.layer in names for source in one)} for name, found in added.items()
    }
    agreed = {name: one for name, found in added.items() if len(found) == 1 and (one := next(iter(found)))}
    stated = [
        evolve(
            _summed(
                layer, *([one for one in of.get(layer.name, ()) if one.layer not in agreed] for of in (reads, weights))
            ),
            adds=_adds(agreed[layer.name]) if layer.name in agreed else None,
        )
        for layer in layers
    ]
    return _in_order(stated)


def _adds(sources: Iterable[Source]) -> dict[str, View]:
    return {
        source.layer: View(resize=source.resize, channels=source.channels, reorder=source.reorder) for source in sources
    }


def _summed(layer: NetworkNode, sources: Sequence[Source], weights: Sequence[Source]) -> NetworkNode:
    """Return a layer with the operands of the sums that it reads, where their layers do not add them: it adds them to
    its input. A sum that is only a part of that, or that it reads in another way, it comes after: no plan takes it.
    """
    others = [other for one in (*sources, *weights) for other in one.adds]
    names = {other.layer for other in others}
    if not others:
        return layer
    is_whole = len(sources) == 1 and sources[0] == Source(sources[0].layer, adds=sources[0].adds)
    is_summed = is_whole and not any(one.adds for one in weights) and len(names) == len(others)
    if is_summed and layer.views is None is layer.channels:
        return evolve(layer, input_adds=_adds(others))
    return evolve(layer, after=(*layer.after, *sorted(names - {*layer.after})), join=None)


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
