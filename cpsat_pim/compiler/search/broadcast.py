"""The best mapping for devices that send the same inputs to all cores of a channel: bounds for all, walks for some.

Mappings whose accumulators compute the same passes with the same cores in use take the same ticks: only one of them is
bounded and walked. A mapping whose lower bound is not below the best ticks known is excluded.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import product
from typing import Any

import numpy as np
from attrs import evolve, frozen
from numpy.typing import NDArray

from cpsat_pim.compiler.mapping import CLASSES, Contraction
from cpsat_pim.compiler.mapping.broadcast import BroadcastMapping
from cpsat_pim.compiler.mapping.contraction import BATCH, DEPTH, OUTPUTS, SHARED
from cpsat_pim.compiler.mapping.elementwise import SpreadMapping
from cpsat_pim.compiler.mapping.mapping import UNUSED
from cpsat_pim.compiler.search.crosscheck import Facts
from cpsat_pim.compiler.search.space import distinct_parts, possible_splits

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

#: Columns of a table of cuts: passes (batches, shared, outputs, columns), cores in use, the axes in use as bits, of
#: which the last is the accumulators, and whether cores need inputs of their own; if asked for, channels in use and
#: copies of the matrix.
BATCHES, SHARED_VECTORS, OUTPUT_COUNT, COLUMNS, CORES, USED_AXES, INPUTS_DIFFER, CHANNELS, COPIES = range(9)


@frozen(eq=False)
class Cuts:
    """What a channel computes under different splits, owners and lanes: one row of `table` for all that are alike.

    `mappings`: splits, owners and lanes of one of each, the one that uses the fewest channels; `counts`: how many are
    alike.
    """

    table: Ints
    mappings: tuple[tuple[tuple[int, ...], tuple[int, ...], str], ...]
    counts: Ints


@frozen
class Found:
    """The best mapping of a space, its value and ticks; how many mappings there are, and how many were walked."""

    mapping: BroadcastMapping
    value: int
    ticks: int
    mappings: int
    walked: int


@frozen
class FoundElementwise:
    """The best elementwise mapping, its value and ticks; how many mappings there are, and how many were walked."""

    mapping: SpreadMapping
    value: int
    ticks: int
    mappings: int
    walked: int


def cuts_of(
    contraction: Contraction,
    axes: tuple[int, ...],
    lanes: int,
    kinds: tuple[str, ...],
    channels: int,
    keeps_channels: bool = False,
    stores: bool = False,
) -> Cuts:
    """All splits, owners and lanes of a contraction. With inputs, an axis cuts outputs or nothing; if the device
    `stores` inputs in banks, its channels' axes also cut the batch and the depth.

    With `keeps_channels` mappings that use other numbers of channels, or of copies of the matrix, are not alike.
    """
    every, splits, owners = every_cut(contraction, axes, lanes, kinds, channels, keeps_channels, stores)
    first, counts = _distinct(every)
    mappings = []
    for at in first.tolist():
        kind, cut = divmod(at, len(splits) * len(owners))
        split, owner = divmod(cut, len(owners))
        mappings.append((tuple(splits[split].tolist()), tuple(owners[owner].tolist()), kinds[kind]))
    return Cuts(every[first], tuple(mappings), counts)


def every_cut(
    contraction: Contraction,
    axes: tuple[int, ...],
    lanes: int,
    kinds: tuple[str, ...],
    channels: int,
    keeps_channels: bool = False,
    stores: bool = False,
) -> tuple[Ints, Ints, Ints]:
    """A row of a table of cuts for all kinds of lanes x splits x owners; the splits, and the owners."""
    splits = np.array(sorted(possible_splits(contraction.extents, channels), key=np.prod), np.int64)
    owners = np.array(list(_owners(contraction, axes, stores)), np.int64)
    parts = np.ones((len(owners), len(CLASSES)), np.int64)
    for number in range(len(CLASSES)):
        parts[:, number] = np.where(owners == number, axes, 1).prod(axis=1)
    chunks = -(-np.array(contraction.extents) // splits)
    local = -(-chunks[:, None] // parts[None])
    used = np.where(owners[:, :-1] != UNUSED, axes[:-1], 1).prod(axis=1)
    axes_used = ((owners != UNUSED) << np.arange(len(axes))).sum(axis=1)
    shape = (*local.shape[:2], 1)
    of_owners = (used, axes_used, inputs_differ(contraction, owners))
    columns = [np.broadcast_to(column[:, None], shape) for column in of_owners]
    if keeps_channels:
        every_split = (splits.prod(axis=1), splits[:, SHARED])
        columns += [np.broadcast_to(column[:, None, None], shape) for column in every_split]
    rows = []
    for name in kinds:
        table = np.concatenate([local, *columns], axis=2)
        along = {"depth": DEPTH, "outputs": OUTPUTS}[name]
        table[:, :, along] = -(-table[:, :, along] // lanes)
        rows.append(table.reshape(-1, table.shape[2]))
    return np.concatenate(rows), splits, owners


def _distinct(rows: Ints) -> tuple[Ints, Ints]:
    """The first of every kind of row, and how many there are of each."""
    sizes = rows.max(axis=0) + 1
    keys = rows
    if float(np.prod(sizes, dtype=float)) < 2**62:
        keys = np.ravel_multi_index(tuple(rows.T), tuple(sizes.tolist()))[:, None]
    _, first, counts = np.unique(keys, axis=0, return_index=True, return_counts=True)
    return first, counts


def inputs_differ(contraction: Contraction, owners: Ints) -> Ints:
    """int64[owners]: 1 if cores of a channel need other inputs than others."""
    differ = ((owners == BATCH) | (owners == DEPTH)).any(axis=1)
    return np.asarray(differ & (contraction.inputs is not None), np.int64)


def _owners(contraction: Contraction, axes: tuple[int, ...], stores: bool) -> Iterator[tuple[int, ...]]:
    """For every axis a class with more than one element, or none; with inputs, outputs or none, or if cores `store`
    them any class but that of the vectors."""
    every = [UNUSED, *(number for number in range(len(CLASSES)) if contraction.extents[number] > 1)]
    classes = [every] * len(axes)
    if contraction.inputs is not None:
        alike = [number for number in every if number in (UNUSED, OUTPUTS)]
        stored = [number for number in every if number != SHARED] if stores else alike
        classes = [*[stored] * (len(axes) - 1), alike]
    return product(*([UNUSED] if size == 1 else choices for size, choices in zip(axes, classes, strict=True)))


def best_of(
    cuts: Cuts,
    tilings: Sequence[tuple[BroadcastMapping, Bools]],
    bounds: Callable[[Ints, BroadcastMapping], Ints],
    valued: Callable[[BroadcastMapping], tuple[int, int] | None],
    prunes: bool = True,
    is_time: bool = True,
) -> Found | None:
    """The mapping of least value, or None if none can be run; of equal values the one of least ticks.

    `tilings`: mappings of which splits, owners and lanes are to be replaced, and to which cuts they apply.
    `bounds(table, tiling)`: lower bounds of the values of cuts. `valued(mapping)`: exact value and ticks, None if it
    cannot be run. `is_time`: the value grows with the ticks, so that a bound which reaches the best value ends the
    search.
    """
    at = [np.flatnonzero(applies) for _, applies in tilings]
    least = np.concatenate([bounds(cuts.table[rows], tiling) for (tiling, _), rows in zip(tilings, at, strict=True)])
    number = np.repeat(np.arange(len(tilings)), [len(rows) for rows in at])
    cut = np.concatenate(at)
    total, walked = int(cuts.counts[cut].sum()), 0
    best: Found | None = None
    for candidate in np.argsort(least, kind="stable").tolist():
        if best is not None and prunes and least[candidate] + is_time > best.value:
            break
        splits, owners, lanes = cuts.mappings[cut[candidate]]
        mapping = evolve(tilings[number[candidate]][0], splits=splits, owners=owners, lanes=lanes)
        found = valued(mapping)
        walked += 1
        if found is not None and (best is None or found < (best.value, best.ticks)):
            best = Found(mapping, *found, total, walked)
    return None if best is None else evolve(best, walked=walked)


def facts_of(
    contraction: Contraction,
    target: Any,
    channels: int,
    kinds: tuple[str, ...],
    least_ticks: Callable[[tuple[tuple[int, ...], tuple[int, ...], str]], int | None],
    stores: bool = False,
) -> Facts:
    """What `crosscheck.solve_facts` is told: the rules of the space, and exact ticks by the elements of an accumulator.

    `least_ticks` of splits, owners and lanes: over all tilings, None if none can be run. Owners with the same axes in
    use, and the same need of inputs of their own, make one pattern. `stores`: see `cuts_of`.
    """
    owners = tuple(_owners(contraction, target.axes, stores))
    differ = inputs_differ(contraction, np.array(owners)).tolist()
    used = [(*(owner != UNUSED for owner in chosen), own) for chosen, own in zip(owners, differ, strict=True)]
    numbers = {pattern: number for number, pattern in enumerate(dict.fromkeys(used))}
    costs: dict[tuple[int, ...], int | None] = {}
    for splits in possible_splits(contraction.extents, channels):
        for chosen, pattern in zip(owners, used, strict=True):
            mapping = BroadcastMapping(splits=splits, owners=chosen)
            for kind in kinds:
                key = (*mapping.core_extents(contraction, target.axes), numbers[pattern], int(kind == "depth"))
                if key not in costs:
                    costs[key] = least_ticks((splits, chosen, kind))
    rows = tuple((*key, ticks) for key, ticks in costs.items() if ticks is not None)
    free = dict.fromkeys(distinct_parts(contraction.extents[DEPTH], channels), 0)
    patterns = tuple(numbers[pattern] for pattern in used)
    return Facts(target.axes, target.axis_names, owners, patterns, rows, free, target.device.tick_ps)
