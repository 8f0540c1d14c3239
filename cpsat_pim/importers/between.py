"""What an imported layer states about the tensors that it reads: how they are joined, pooled and padded
(docs/array.md, section 2).
"""

from collections.abc import Sequence
from typing import Any

from attrs import evolve

from cpsat_pim.importers.origin import Pair, Parts
from cpsat_pim.workload import ConvWorkload
from cpsat_pim.workload.joins import ADD, CONCAT, Pool
from cpsat_pim.workload.network import NetworkNode


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
    if len({source.layer for source in sources}) > 1:
        stated["join"] = ADD if len(data) == 1 else CONCAT
    if len({source.pool for source in sources}) == 1:
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


def pool_outputs(layers: Sequence[NetworkNode]) -> list[NetworkNode]:
    """Let layers whose readers all read them pooled alike pool their outputs themselves, so that less is moved.

    A sum is pooled by its readers, as pooling and adding are not interchangeable.
    """
    readers: dict[str, list[NetworkNode]] = {layer.name: [] for layer in layers}
    for layer in layers:
        for name in layer.after:
            readers.get(name, []).append(layer)
    pools: dict[str, Pool] = {}
    for layer in layers:
        first = next(iter(readers[layer.name]), None)
        if first is not None and first.input_pool is not None:
            pools[layer.name] = first.input_pool
    while wrong := [name for name, pool in pools.items() if any(not _pools(r, pool, pools) for r in readers[name])]:
        for name in wrong:
            del pools[name]
    return [
        evolve(layer, pool=pools.get(layer.name), input_pool=None if _is_among(layer, pools) else layer.input_pool)
        for layer in layers
    ]


def _pools(reader: NetworkNode, pool: Pool, pools: dict[str, Pool]) -> bool:
    """Return whether a layer reads what these layers would pool, and nothing else, behind this pool."""
    alike = all(pools.get(name) == pool for name in reader.after)
    return alike and reader.input_pool == pool and reader.join != ADD and reader.weights


def _is_among(layer: NetworkNode, pools: dict[str, Pool]) -> bool:
    return all(name in pools for name in layer.after)
