"""The space of contractions on devices with an all-bank mode (HBM-PIM), its lower bound and its best mapping."""

from functools import lru_cache
from itertools import product

import numpy as np
from attrs import evolve, frozen
from numpy.typing import NDArray

from cpsat_pim.compiler.lowering.bank_contraction import BankContraction, problem
from cpsat_pim.compiler.lowering.bank_elementwise import BankElementwise
from cpsat_pim.compiler.lowering.bank_mode import PROGRAM_WRITES, BankTarget, build_passes, entering
from cpsat_pim.compiler.mapping import CLASSES, Contraction
from cpsat_pim.compiler.mapping.broadcast import BroadcastMapping, Passes
from cpsat_pim.compiler.mapping.elementwise import Elementwise, ElementwiseMapping
from cpsat_pim.compiler.mapping.mapping import UNUSED
from cpsat_pim.compiler.search.broadcast import (
    BATCHES,
    COLUMNS,
    CORES,
    OUTPUT_COUNT,
    SHARED_VECTORS,
    USED_AXES,
    Found,
    best_of,
    cuts_of,
)
from cpsat_pim.compiler.search.space import distinct_parts
from tables.commands import window

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


@frozen
class FoundElementwise:
    """The best elementwise mapping and its ticks; how many mappings there are, and how many were walked."""

    mapping: ElementwiseMapping
    ticks: int
    mappings: int
    walked: int


def best_bank_mapping(
    contraction: Contraction, target: BankTarget, channels: int | None = None, prunes: bool = True
) -> Found | None:
    """The mapping of least ticks, the reading of results included; None if the banks hold none."""
    has_inputs = contraction.inputs is not None
    cuts = cuts_of(
        contraction, target.axes, target.device.core.lanes, ("depth", "outputs"), channels or target.channels
    )

    def ticks(mapping: BroadcastMapping) -> int | None:
        if problem(mapping, contraction, target) is not None:
            return None
        found = BankContraction(contraction, mapping, target).ticks
        return None if found == window.NOT_EXACT else found

    return best_of(
        cuts,
        tilings(cuts.table, target, has_inputs),
        lambda table, tiling: lower_bounds(table, tiling, target, has_inputs),
        ticks,
        prunes,
    )


def tilings(table: Ints, target: BankTarget, has_inputs: bool) -> list[tuple[BroadcastMapping, Bools]]:
    """All tilings with the cuts that they apply to; without inputs there are no tiles."""
    columns, inputs = table[:, COLUMNS], target.device.core.inputs
    if not has_inputs:
        tiles = [(tile, False, columns == tile) for tile in np.unique(columns).tolist()]
    else:
        tiles = [(tile, False, columns >= tile) for tile in range(1, inputs + 1)]
        tiles += [(tile, True, (columns == tile) & (table[:, OUTPUT_COUNT] > 1)) for tile in range(1, inputs + 1)]
    splits, owners = (1,) * len(CLASSES), (UNUSED,) * len(target.axes)
    return [
        (
            BroadcastMapping(splits=splits, owners=owners, depth_tile=tile, keeps_inputs=keeps, mode_bank=mode_bank),
            applies,
        )
        for tile, keeps, applies in tiles
        for mode_bank in (0, 1)
    ]


def lower_bounds(table: Ints, tiling: BroadcastMapping, target: BankTarget, has_inputs: bool) -> Ints:
    """Ticks that cuts with a tiling do not fall below.

    What comes before the first pass is the same for all and walked. From then on consecutive commands keep their
    distances; where they need another row of a bank, that bank is closed and opened in between.
    """
    t, wide = target.timing, target.device.core.accumulators
    columns, passes = table[:, COLUMNS], table[:, BATCHES] * table[:, SHARED_VECTORS] * table[:, OUTPUT_COUNT]
    read, write = (
        int(max(t[a], t[b]))
        for a, b in ((window.RD_RD_GROUP, window.RD_RD_RANK), (window.WR_WR_GROUP, window.WR_WR_RANK))
    )
    reopens = int(t[window.WR_PRE] + t[window.PRE_ACT])
    after_read = int(t[window.RD_PRE] + t[window.PRE_ACT])
    even = tiling.mode_bank == 0
    tiles = -(-columns // tiling.depth_tile) if has_inputs else np.ones_like(columns)
    a_row = target.device.core.columns // wide
    switches = np.maximum(-(-columns // a_row) - tiles, 0)
    macs = (columns * wide - tiles) * read + switches * max(0, after_read + int(t[window.ACT_RD]) - read)
    to_macs = int(max(t[window.WR_RD], reopens + t[window.ACT_RD] if even else 0))
    loads = np.zeros_like(columns)
    if has_inputs:
        loads = columns * write + (tiles - 1) * int(t[window.RD_WR] - write + t[window.WR_RD])
    first = int(max(t[window.RD_WR], after_read + t[window.ACT_WR] if even else 0))
    stores = max(write, 0 if even else int(reopens + t[window.ACT_WR])) + (wide - 1) * write
    once = macs + first + stores
    loaded = np.maximum(loads + int(t[window.WR_RD]), to_macs)
    again = max(write, 0 if even else int(reopens + t[window.ACT_WR]))
    total = passes * (once + again) - again
    results = table[:, BATCHES] * table[:, SHARED_VECTORS]
    total += (results if tiling.keeps_inputs else passes) * loaded
    if tiling.keeps_inputs:
        total += (passes - results) * to_macs
    uses_accumulators = table[:, USED_AXES] >> (len(target.axes) - 1) & 1
    reads = passes * np.where(uses_accumulators == 1, wide, 1) * table[:, CORES]
    leaves = int(t[window.WR_WR_RANK] + t[window.WR_RD] + t[window.RD_RD_RANK] * (t[window.BANKS] - 1))
    return np.asarray(
        _start(target, tiling.mode_bank) + total + leaves + reads * t[window.RD_RD_RANK] + t[window.RD_LATENCY],
        np.int64,
    )


@lru_cache(maxsize=8)
def _start(target: BankTarget, mode_bank: int) -> int:
    """A tick that no first write to the mode register precedes: the end of what comes before.

    It does not depend on what follows that write: a group is influenced by the next one at most.
    """
    starts = []
    for writes in range(1, PROGRAM_WRITES + 1):
        first = build_passes(target, Passes(1, 1, 1, 1, 1, False), False, mode_bank)
        before = entering(target, writes)
        runs = np.concatenate([*before, first])
        runs[:, window.PART] = np.arange(len(runs)) >= len(before)
        parts = np.zeros(2, np.int64)
        window.walk_window(target.timing, target.patterns(np.array([1])), runs, parts)
        starts.append(int(parts[0]))
    return min(starts)


# --- Elementwise -----------------------------------------------------------------------------------------------------


def best_elementwise(
    kernel: Elementwise, target: BankTarget, channels: int, prunes: bool = True
) -> FoundElementwise | None:
    """The mapping of least ticks, the host's writes and reads included; None if none fits the banks."""
    candidates: list[tuple[int, int, ElementwiseMapping]] = []
    booleans = (False, True)
    for parts, both, shares, turns in product(distinct_parts(kernel.points, channels), booleans, booleans, booleans):
        for mode_bank in (0, 1) if both or turns else ():  # with one bank the order of the two is no choice
            mapping = ElementwiseMapping(
                channels=parts, both_banks=both, shares_rows=shares, takes_turns=turns, mode_bank=mode_bank
            )
            candidates.append((elementwise_bound(BankElementwise(kernel, mapping, target)), len(candidates), mapping))
    best: FoundElementwise | None = None
    walked = 0
    for bound, _, mapping in sorted(candidates):
        if best is not None and prunes and bound >= best.ticks:
            break
        lowered = BankElementwise(kernel, mapping, target)
        ticks = window.NOT_EXACT if lowered.problem else lowered.ticks
        walked += 1
        if ticks != window.NOT_EXACT and (best is None or ticks < best.ticks):
            best = FoundElementwise(mapping, ticks, len(candidates), walked)
    return None if best is None else evolve(best, walked=walked)


def elementwise_bound(lowered: BankElementwise) -> int:
    """Ticks that a mapping does not fall below: all its columns on the bus of the rank, and the turns of the units."""
    t, wide, operands = lowered.target.timing, lowered.target.device.core.accumulators, len(lowered.kernel.operands)
    banks = len(lowered.banks)
    moved = lowered.octets * wide * banks
    host = operands * moved * t[window.WR_WR_RANK] + moved * t[window.RD_RD_RANK]
    sides = 1 + lowered.mapping.both_banks
    octets = lowered.octets * sides
    steps = octets * (operands * wide * t[window.RD_RD_GROUP] + wide * t[window.WR_WR_GROUP])
    turns = octets if lowered.mapping.takes_turns else lowered.octets
    apart = t[window.RD_WR] + t[window.WR_RD] - t[window.RD_RD_GROUP] - t[window.WR_WR_GROUP]
    return int(host + steps + turns * max(0, apart) - t[window.WR_RD])
