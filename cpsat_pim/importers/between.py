"""What an imported layer states about the tensors that it reads: how they are joined, pooled and padded
(docs/array.md, section 2).
"""

from collections.abc import Mapping, Sequence
from typing import Any

from attrs import evolve

from cpsat_pim.importers.added import Added
from cpsat_pim.importers.origin import Pair, Parts, Source
from cpsat_pim.workload import ConvWorkload
from cpsat_pim.workload.joins import ADD, CONCAT, Pool, Resize, View, Views, all_views
from cpsat_pim.workload.network import NetworkNode
from cpsat_pim.workload.reorders import Reorder


def stated_between(shape: ConvWorkload, data: Parts, size: Pair | None, front: Pair | None) -> dict[str, Any]:
    """Return the fields of a layer's node that tell how its data become its input.

    Args:
        shape: the layer.
        data: the parts of its data.
        size: width and height of its data, pooled but not padded; None if they are not known.
        front: zeros (left, top) that the layer itself has in front of its data; None if it has no such axes.
    """
    sources = [source for part in data for source in part]
    stated: dict[str, Any] = {}
    if len(data) > 1 and len({(one.layer, one.pool, one.resize, one.reorder) for one in sources}) > 1:
        stated["join"] = CONCAT
    elif len({source.layer for source in sources}) > 1:
        stated["join"] = ADD
    if len({source.pool for source in sources}) == 1 and not any(one.resize or one.reorder for one in sources):
        stated["input_pool"] = sources[0].pool
    if front is not None and len({source.pad for source in sources}) == 1:
        padded = sources[0].padded(front).pad
        if size is None or padded != _usual_pad(shape, size):
            stated["pad"] = padded
    return stated


def _usual_pad(shape: ConvWorkload, size: Pair) -> Pair:
    """Return the zeros in front of a layer's input that a file need not state: half of what its input exceeds."""
    left, top = (
        -(-max(0, taken - have) // 2) for taken, have in zip((shape.input_width, shape.input_height), size, strict=True)
    )
    return left, top


#: What a layer's data are, as far as layers cannot tell otherwise.
Reads = tuple[Source, ...]

#: How a source is pooled, resized and reordered.
Looks = tuple[Pool | None, Resize | None, Reorder | None]


def kept_sums(layers: Sequence[NetworkNode], reads: Mapping[str, Reads]) -> list[NetworkNode]:
    """Leave out the `join` of sums whose first operand another layer reads alone behind them, or with something else:
    no plan takes them then, as it would keep the sum in the place of that operand. `reads`: of what, by layer.
    """
    order = {layer.name: at for at, layer in enumerate(layers)}
    alone: dict[str, list[NetworkNode]] = {}
    for layer in layers:
        if layer.join is None:
            alone.setdefault(layer.after[0], []).append(layer)

    def adds_others(reader: NetworkNode, operands: Sequence[str]) -> bool:
        return any({*operands} <= {source.layer, *(one.layer for one in source.adds)} for source in reads[reader.name])

    def is_lost(layer: NetworkNode) -> bool:
        finished = max(order.get(name, -1) for name in layer.after)
        readers = (one for one in alone.get(layer.after[0], ()) if order[one.name] > finished)
        return layer.join == ADD and any(not adds_others(reader, layer.after) for reader in readers)

    return [evolve(layer, join=None) if is_lost(layer) else layer for layer in layers]


def pool_outputs(layers: Sequence[NetworkNode], reads: Mapping[str, Reads], added: Added) -> list[NetworkNode]:
    """Let layers whose readers all read them pooled alike pool their outputs themselves, so that less is moved, and
    sums and concatenations may have operands of which only some are pooled.

    A sum is pooled by its readers, as pooling and adding are not interchangeable. `reads`: by layer; of a layer that is
    not there, all that it comes after is pooled as its input. `added`: what is added to outputs, which are not pooled
    then, and neither is what is added.
    """
    sources = {layer.name: reads.get(layer.name) or _all_alike(layer) for layer in layers}
    pools = _common_pools(layers, sources)
    for name, found in added.items():
        for unpooled in {name, *(one.layer for adds in found for one in adds)} if found != {()} else ():
            pools.pop(unpooled, None)
    while wrong := {name for layer in layers for name in _wrongly_pooled(layer, sources[layer.name], pools)}:
        for name in wrong:
            del pools[name]
    return [evolve(layer, pool=pools.get(layer.name), **_seen(layer, sources[layer.name], pools)) for layer in layers]


def _all_alike(layer: NetworkNode) -> Reads:
    return tuple(Source(name, layer.input_pool) for name in layer.after)


def _common_pools(layers: Sequence[NetworkNode], sources: Mapping[str, Reads]) -> dict[str, Pool]:
    """Return by layer how its output is pooled where all readers agree: at all, or else at first."""
    found: dict[str, list[Source]] = {layer.name: [] for layer in layers}
    for read in (read for layer in layers for read in sources[layer.name]):
        for source in (read, *read.added):
            found.get(source.layer, []).append(source)
    pools: dict[str, Pool] = {}
    for name, own in found.items():
        for agreed in ({source.pool for source in own}, {source.first for source in own}):
            if len(agreed) == 1 and (pool := next(iter(agreed))) is not None:
                pools.setdefault(name, pool)
    return pools


def _wrongly_pooled(reader: NetworkNode, sources: Reads, pools: dict[str, Pool]) -> set[str]:
    """Return the operands of a layer that may not be pooled before it reads them: those of a sum that is pooled, and
    those without which what is left to pool would be the same for all.
    """
    named = pools.keys() & set(reader.after)
    is_pooled_sum = reader.join == ADD and len({source.first for source in sources}) == 1
    if is_pooled_sum or not reader.weights:
        return named
    left = {source: _left(source, pools) for source in sources}
    if len(set(left.values())) == 1:
        return set()
    return {source.layer for source, pool in left.items() if pool is None and source.layer in named} or named


def _left(source: Source, pools: dict[str, Pool]) -> Pool | None:
    """Return how a reader pools what it reads of a layer that may pool its output."""
    done = pools.get(source.layer)
    return source.pool if done is None else None if done == source.pool else source.rest


def _seen(layer: NetworkNode, sources: Reads, pools: dict[str, Pool]) -> dict[str, Any]:
    """Return how a reader pools all of its input, or else how it sees each of its tensors; of a sum, whose operands
    have one view, the first one's.
    """
    if any(view.reorder for view in all_views(layer.views)):
        return {"input_pool": None, "views": layer.views}
    seen: dict[str, list[Looks]] = {}
    for source in sources:
        seen.setdefault(source.layer, []).append((_left(source, pools), source.resize, source.reorder))
    different = {one for looks in seen.values() for one in looks}
    if len(different) == 1 and not any((only := next(iter(different)))[1:]):
        return {"input_pool": only[0], "views": None}
    is_told = all(len(seen[name]) == layer.after.count(name) for name in seen)
    is_told = is_told and not any(sum(map(bool, looks)) > 1 for looks in different)
    if not is_told or (layer.join == ADD and len(different) > 1):
        return {"input_pool": None, "views": None}
    named = layer.after[:1] if layer.join == ADD else [*dict.fromkeys(layer.after)]
    views = {name: _as_views(seen[name]) for name in named if any(any(one) for one in seen.get(name, ()))}
    return {"input_pool": None, "views": views or None}


def _as_views(seen: Sequence[Looks]) -> Views:
    """Return how a reader sees a tensor, or how each time that it lists it."""
    views = tuple(View(pool=pool, resize=resize, reorder=reorder) for pool, resize, reorder in seen)
    return views if len(views) > 1 else views[0]
