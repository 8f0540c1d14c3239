"""The declared space of mappings of a contraction (`docs/compiler.md`, section 3)."""

from collections.abc import Iterator
from functools import lru_cache
from itertools import product
from math import prod

import numpy as np
from attrs import frozen
from numpy.typing import NDArray

from cpsat_pim.compiler.host import Host, host_of
from cpsat_pim.compiler.lowering.contraction import moves_of_owners, padded
from cpsat_pim.compiler.mapping import CLASSES, Contraction, Mapping
from cpsat_pim.compiler.mapping.contraction import DEPTH, OUTPUTS
from cpsat_pim.compiler.mapping.mapping import UNUSED
from cpsat_pim.compiler.target import Target
from tables.commands.steps import ceiling
from tables.commands.sweep import Space

Ints = NDArray[np.int64]

#: Depth tiles that are tried beside the largest that fits, and the largest that fits twice.
DEPTH_TILES = (1, 2, 4, 8)


@frozen(eq=False)
class SpaceOf:
    """A space as arrays, with the splits and owners that their rows stand for."""

    arrays: Space
    splits: tuple[tuple[int, ...], ...]
    owners: tuple[tuple[int, ...], ...]


def space_of(
    contraction: Contraction,
    target: Target,
    channels: int | None = None,
    host: Host | None = None,
    splits: tuple[tuple[int, ...], ...] | None = None,
    follows: bool = False,
) -> SpaceOf:
    """The space of a contraction on some channels (default: all), or of given splits; `follows`: see
    `tables.commands.sweep`."""
    splits = splits or tuple(possible_splits(contraction.extents, channels or target.channels))
    owners = tuple(possible_owners(contraction, target))
    chunks = np.array([[ceiling(n, g) for n, g in zip(contraction.extents, split, strict=True)] for split in splits])
    parts, drains, loads = _patterns(target, owners, contraction.inputs is not None)
    core = target.device.core
    arrays = Space(
        chunks=chunks,
        extra=np.array([output_ps(contraction, target, host or host_of(target.device), split) for split in splits]),
        parts=parts,
        drains=drains[0],
        loads=loads[0],
        drain_moves=drains[1],
        load_moves=loads[1],
        depth_tiles=np.array(DEPTH_TILES),
        is_checked=np.ones(1, np.int64),
        nodes=target.node_count,
        follows=int(follows),
        has_inputs=int(contraction.inputs is not None),
        lanes=core.lanes,
        inputs=core.inputs,
        accumulators=core.accumulators,
        bank_columns=target.columns,
        tick_ps=target.device.tick_ps,
    )
    return SpaceOf(arrays, splits, owners)


@lru_cache(maxsize=16)
def _patterns(
    target: Target, owners: tuple[tuple[int, ...], ...], has_inputs: bool
) -> tuple[Ints, tuple[Ints, Ints], tuple[Ints, Ints]]:
    """For all owners: the cores of every class; nodes and number of drains, of loads. They depend on no size."""
    examples = [_example(owner) for owner in owners]
    patterns = [moves_of_owners(example, has_inputs, target) for example in examples]
    drains, loads = ([target.nodes(pattern[side]) for pattern in patterns] for side in (1, 0))
    parts = np.array([example.parts(target) for example in examples])
    counts = (np.array([len(rows) for rows in side]) for side in (drains, loads))
    return parts, (padded(drains), next(counts)), (padded(loads), next(counts))


def possible_splits(extents: tuple[int, ...], channels: int) -> Iterator[tuple[int, ...]]:
    """Parts of each class: any integers with a product of at most the channels.

    Of the counts that leave the same number of elements a channel only the least is listed: the others cost the same or
    more.
    """
    choices = [distinct_parts(extent, channels) for extent in extents]
    return (split for split in product(*choices) if prod(split) <= channels)


def distinct_parts(extent: int, most: int) -> list[int]:
    """The least number of parts for every number of elements a part."""
    found: dict[int, int] = {}
    for parts in range(1, min(extent, most) + 1):
        found.setdefault(ceiling(extent, parts), parts)
    return list(found.values())


def possible_owners(contraction: Contraction, target: Target) -> Iterator[tuple[int, ...]]:
    """For every axis, a class with more than one element, or none; inputs may differ only along axes that allow it."""
    classes = [UNUSED, *(number for number in range(len(CLASSES)) if contraction.extents[number] > 1)]
    has_inputs = contraction.inputs is not None
    choices = [
        [c for c in classes if loadable or not has_inputs or c in (UNUSED, OUTPUTS)] for loadable in target.loadable
    ]
    return product(*choices)


def output_ps(contraction: Contraction, target: Target, host: Host, split: tuple[int, ...]) -> int:
    """Picoseconds in which the host reads the results; every part of the depth delivers a partial result of its own."""
    batch, shared, outputs, _ = contraction.extents
    moved = batch * shared * outputs * split[DEPTH] * target.device.core.element_bytes
    return int(-(-moved * 10**12 // int(host.memory_bandwidth * host.memory_efficiency)))


def _example(owner: tuple[int, ...]) -> Mapping:
    return Mapping(splits=(1,) * len(CLASSES), owners=owner, is_tree=True)
