"""The best mapping for devices that send the same inputs to all cores of a channel: bounds for all, walks for some.

Mappings whose accumulators compute the same passes with the same cores in use take the same ticks: only one of them is
bounded and walked. A mapping whose lower bound is not below the best ticks known is excluded; so are all mappings of a
split whose products alone take as long.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from attrs import evolve, frozen
from numpy.typing import NDArray

from cpsat_pim.compiler.mapping import Contraction
from cpsat_pim.compiler.mapping.broadcast import BroadcastMapping
from cpsat_pim.compiler.mapping.contraction import DEPTH
from cpsat_pim.compiler.mapping.elementwise import SpreadMapping
from cpsat_pim.compiler.mapping.mapping import UNUSED
from cpsat_pim.compiler.search.crosscheck import Facts
from cpsat_pim.compiler.search.cuts import (
    COLUMNS,
    INPUTS_DIFFER,
    OUTPUT_COUNT,
    Cuts,
    CutSpace,
    distinct,
    inputs_differ,
    possible_owners,
)
from cpsat_pim.compiler.search.space import distinct_parts, possible_splits

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

#: Splits that are searched together at first, and how many times as many in every further turn.
FIRST_SPLITS, MORE_SPLITS = 8, 4
#: What the number of tilings of a cut depends on.
COUNTED = (OUTPUT_COUNT, COLUMNS, INPUTS_DIFFER)


@frozen(eq=False)
class Tilings:
    """How cuts are tiled, one element a mapping: `cut` is the row of a table of cuts, the others are those of
    `BroadcastMapping`."""

    cut: Ints
    depth_tile: Ints
    keeps_inputs: Bools
    stores_inputs: Bools
    mode_bank: Ints
    is_input_stationary: Bools

    def __len__(self) -> int:
        return len(self.cut)

    def mapping(self, at: int, cuts: Cuts) -> BroadcastMapping:
        """One of the mappings."""
        splits, owners, lanes = cuts.mapping(int(self.cut[at]))
        return BroadcastMapping(
            splits=splits,
            owners=owners,
            lanes=lanes,
            depth_tile=int(self.depth_tile[at]),
            keeps_inputs=bool(self.keeps_inputs[at]),
            stores_inputs=bool(self.stores_inputs[at]),
            mode_bank=int(self.mode_bank[at]),
            order="input-stationary" if self.is_input_stationary[at] else "output-stationary",
        )


@frozen(eq=False)
class Evaluation:
    """What a search needs to know of a device and a goal.

    `tilings` of a table of cuts. `bounds(table, tilings)`: lower bounds of their values; `least(table)`: those of cuts
    under any tiling; `column`: value that a column which an accumulator multiplies takes at least, 0 if splits are not
    bounded. `valued`: exact value and ticks of a mapping, None if it cannot be run. `is_time`: the value grows with the
    ticks, so that a bound which reaches the best value ends the search. `tiles`: the most input columns a tile.
    """

    tilings: Callable[[Ints], Tilings]
    bounds: Callable[[Ints, Tilings], Ints]
    least: Callable[[Ints], Ints]
    valued: Callable[[BroadcastMapping], tuple[int, int] | None]
    is_time: bool
    tiles: int
    column: int = 0


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


def best_of_space(space: CutSpace, evaluation: Evaluation, prunes: bool = True) -> Found | None:
    """The mapping of least value of a space, or None if none can be run; of equal values the one of least ticks."""
    least = space.least_columns * evaluation.column
    order, best, walked, at, size = np.argsort(least, kind="stable"), None, 0, 0, FIRST_SPLITS
    if not prunes or evaluation.column == 0:
        size = len(order)
    while at < len(order):
        some = order[at : at + size]
        if best is not None and prunes:
            some = some[least[some] + evaluation.is_time <= best.value]
        if len(some) == 0:
            break
        cuts = space.cuts(np.sort(some))
        if best is not None and prunes:
            cuts = cuts.only(evaluation.least(cuts.table) + evaluation.is_time <= best.value)
        best, more = _better(cuts, evaluation, prunes, best)
        walked, at, size = walked + more, at + size, size * MORE_SPLITS
    return None if best is None else evolve(best, mappings=count_mappings(space, evaluation), walked=walked)


def best_of(cuts: Cuts, evaluation: Evaluation, prunes: bool = True) -> Found | None:
    """The same of some cuts."""
    best, walked = _better(cuts, evaluation, prunes, None)
    count = int(cuts.counts[evaluation.tilings(cuts.table).cut].sum())
    return None if best is None else evolve(best, mappings=count, walked=walked)


def _better(cuts: Cuts, evaluation: Evaluation, prunes: bool, best: Found | None) -> tuple[Found | None, int]:
    """The better of a mapping and the best one of some cuts, and how many were walked."""
    tilings = evaluation.tilings(cuts.table)
    least = evaluation.bounds(cuts.table[tilings.cut], tilings)
    left = np.arange(len(least))
    if best is not None and prunes:
        left = np.flatnonzero(least + evaluation.is_time <= best.value)
    walked = 0
    for candidate in left[np.argsort(least[left], kind="stable")].tolist():
        if best is not None and prunes and least[candidate] + evaluation.is_time > best.value:
            break
        mapping = tilings.mapping(candidate, cuts)
        found = evaluation.valued(mapping)
        walked += 1
        if found is not None and (best is None or found < (best.value, best.ticks)):
            best = Found(mapping, *found, 0, 0)
    return best, walked


def count_mappings(space: CutSpace, evaluation: Evaluation) -> int:
    """The mappings of a space. How often a cut can be tiled depends on its columns up to a tile, on whether there are
    several outputs, and on the need of inputs: cuts that have these in common are counted together."""
    rows = space.rows()
    if evaluation.tiles > 0:
        rows[:, COLUMNS] = np.minimum(rows[:, COLUMNS], evaluation.tiles + 1)
    rows[:, OUTPUT_COUNT] = np.minimum(rows[:, OUTPUT_COUNT], 2)
    rows[:, [number for number in range(rows.shape[1]) if number not in COUNTED]] = 1
    first, counts = distinct(rows)
    return int(counts[evaluation.tilings(rows[first]).cut].sum())


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
    owners = tuple(possible_owners(contraction, target.axes, stores))
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
