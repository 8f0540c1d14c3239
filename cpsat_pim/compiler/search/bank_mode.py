"""The space of contractions on devices with an all-bank mode (HBM-PIM), its lower bound and its best mapping."""

from functools import lru_cache
from itertools import product

import numpy as np
from attrs import evolve
from numpy.typing import NDArray

from cpsat_pim.compiler.lowering.bank_commands import commands_fj
from cpsat_pim.compiler.lowering.bank_contraction import BankContraction, problem
from cpsat_pim.compiler.lowering.bank_elementwise import BankElementwise
from cpsat_pim.compiler.lowering.bank_mode import PROGRAM_WRITES, BankTarget, build_passes, entering, leaving
from cpsat_pim.compiler.mapping import CLASSES, Contraction
from cpsat_pim.compiler.mapping.broadcast import BroadcastMapping, Passes
from cpsat_pim.compiler.mapping.elementwise import Elementwise, ElementwiseMapping
from cpsat_pim.compiler.mapping.mapping import UNUSED
from cpsat_pim.compiler.search.broadcast import (
    BATCHES,
    COLUMNS,
    CORES,
    INPUTS_DIFFER,
    OUTPUT_COUNT,
    SHARED_VECTORS,
    USED_AXES,
    Cuts,
    Found,
    FoundElementwise,
    best_of,
    cuts_of,
)
from cpsat_pim.compiler.search.goal import Goal
from cpsat_pim.compiler.search.space import distinct_parts
from tables.commands import window
from tracesim.commands import Function

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

#: Where the lanes of a column may lie.
LANES = ("depth", "outputs")


def best_bank_mapping(
    contraction: Contraction,
    target: BankTarget,
    channels: int | None = None,
    prunes: bool = True,
    goal: Goal | None = None,
    cuts: Cuts | None = None,
) -> Found | None:
    """The mapping of least time, or by another goal; the reading of results included. None if the banks hold none.
    `cuts`: only these are searched."""
    wanted, lanes = goal or Goal(contraction, target), target.device.core.lanes
    if cuts is None:
        every = channels or target.channels
        cuts = cuts_of(contraction, target.axes, lanes, LANES, every, wanted.needs_channels, stores=True)
    has_inputs = contraction.inputs is not None
    least = lower_bounds if wanted.is_time else energy_bounds

    def valued(mapping: BroadcastMapping) -> tuple[int, int] | None:
        if problem(mapping, contraction, target) is not None:
            return None
        lowered = BankContraction(contraction, mapping, target)
        if lowered.ticks == window.NOT_EXACT:
            return None
        amount = lowered.ticks if wanted.is_time else lowered.channel_fj
        return wanted.value(mapping.splits, amount), lowered.ticks

    return best_of(
        cuts,
        tilings(cuts.table, target, has_inputs),
        lambda table, tiling: wanted.bounds(table, least(table, tiling, target, has_inputs)),
        valued,
        prunes,
        wanted.is_time,
    )


def tilings(table: Ints, target: BankTarget, has_inputs: bool) -> list[tuple[BroadcastMapping, Bools]]:
    """All tilings with the cuts that they apply to; without inputs there are no tiles. Inputs that differ are
    stored."""
    columns, every = table[:, COLUMNS], range(1, target.device.core.inputs + 1)
    splits, owners = (1,) * len(CLASSES), (UNUSED,) * len(target.axes)
    if not has_inputs:
        tiles = [(tile, False, False, columns == tile) for tile in np.unique(columns).tolist()]
    else:
        alike, several = table[:, INPUTS_DIFFER] == 0, table[:, OUTPUT_COUNT] > 1
        tiles = []
        for tile in every:
            fits = columns >= tile if len(every) % tile == 0 else columns == tile
            tiles += [(tile, False, False, alike & (columns >= tile)), (tile, False, True, fits)]
            tiles += [(tile, True, stores, (alike | stores) & (columns == tile) & several) for stores in (False, True)]
    return [
        (
            BroadcastMapping(
                splits=splits,
                owners=owners,
                depth_tile=tile,
                keeps_inputs=keeps,
                stores_inputs=stores,
                mode_bank=mode_bank,
            ),
            applies,
        )
        for tile, keeps, stores, applies in tiles
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
    if has_inputs and not tiling.stores_inputs:
        loads = columns * write + (tiles - 1) * int(t[window.RD_WR] - write + t[window.WR_RD])
    first = int(max(t[window.RD_WR], after_read + t[window.ACT_WR] if even else 0))
    stores = max(write, 0 if even else int(reopens + t[window.ACT_WR])) + (wide - 1) * write
    once = macs + first + stores
    loaded = np.maximum(loads + int(t[window.WR_RD]), to_macs)
    if tiling.stores_inputs:
        once += (tiles - 1) * read
        tile, lead = np.minimum(columns, tiling.depth_tile), 0 if even else int(reopens + t[window.ACT_RD])
        loaded = np.maximum(max(lead, int(t[window.WR_RD])) + tile * read, to_macs) + (columns - tile) * read
    again = max(write, 0 if even else int(reopens + t[window.ACT_WR]))
    total = passes * (once + again) - again
    results = table[:, BATCHES] * table[:, SHARED_VECTORS]
    total += (results if tiling.keeps_inputs else passes) * loaded
    if tiling.keeps_inputs:
        total += (passes - results) * to_macs
    uses_accumulators = table[:, USED_AXES] >> (len(target.axes) - 1) & 1
    reads = passes * np.where(uses_accumulators == 1, wide, 1) * table[:, CORES]
    leaves = int(t[window.WR_WR_RANK] + t[window.WR_RD] + t[window.RD_RD_RANK] * (t[window.BANKS] - 1))
    if tiling.stores_inputs:
        total += _behind_writes(target, results * columns * table[:, CORES])
    else:
        total += _start(target, tiling.mode_bank)
    return np.asarray(
        total + leaves + reads * t[window.RD_RD_RANK] + t[window.RD_LATENCY],
        np.int64,
    )


def energy_bounds(table: Ints, tiling: BroadcastMapping, target: BankTarget, has_inputs: bool) -> Ints:
    """Femtojoules of a channel that cuts with a tiling do not fall below: all commands exactly, and the ACTs that rows
    make necessary: outside of all-bank mode those of parking, entering and reading.

    Rows of the matrix: each is opened once, and for every vector all of a batch element but the one still open. The
    rows of registers and of results lie in one bank, so that a pass opens both; so do rows of registers and of the
    matrix, if the mode register is written there.
    """
    core, wide, cores = target.device.core, target.device.core.accumulators, len(target.cores)
    results, outputs, columns = table[:, BATCHES] * table[:, SHARED_VECTORS], table[:, OUTPUT_COUNT], table[:, COLUMNS]
    passes = results * outputs
    loads = columns * (results if tiling.keeps_inputs else passes) if has_inputs else np.zeros_like(columns)
    written = results * columns * tiling.stores_inputs  # in every core
    uses_accumulators = (table[:, USED_AXES] >> (len(target.axes) - 1) & 1) == 1
    read = passes * np.where(uses_accumulators, wide, 1)
    fj, ((one_read, one_write), (all_read, all_write)) = target.energies, target.commands.tolist()
    mac = Function.MAC_LANES if has_inputs else Function.ADD
    load = fj[all_read, Function.FILL] if tiling.stores_inputs else fj[all_write, Function.LOAD]
    total = passes * (
        fj[all_write, Function.NOTHING] + fj[all_write, Function.CLEAR] + wide * fj[all_write, Function.STORE]
    )
    total += passes * columns * wide * fj[all_read, mac] + loads * load
    total += table[:, CORES] * (read * fj[one_read, Function.READ] + written * fj[one_write, Function.WRITE])
    a_batch = -(-(outputs * columns * wide) // core.columns)
    matrix = np.maximum(table[:, BATCHES] * (a_batch - 1) + 1, results * (a_batch - 1))
    stored = -(-(passes * wide) // core.columns)
    if tiling.mode_bank == 0:
        loaded = passes if has_inputs and not (tiling.keeps_inputs or tiling.stores_inputs) else np.zeros_like(passes)
        all_bank = np.maximum(matrix, 2 * passes) + np.maximum(stored, 2 * loaded)
    else:
        all_bank = matrix + 2 * passes
    mode = target.device.controller.all_bank_mode
    assert mode is not None
    alone = (
        int(target.timing[window.BANKS])
        + len(mode.enter_banks)
        + table[:, CORES] * (stored + -(-written // core.columns))
    )
    fixed = commands_fj(target, np.concatenate([*entering(target), *leaving(target)]))
    return np.asarray(total + fixed + fj[target.act, Function.NOTHING] * (all_bank * cores + alone), np.int64)


def _behind_writes(target: BankTarget, writes: Ints) -> Ints:
    """A tick that no first write to the mode register precedes if the host writes so many columns before.

    The row of the first column is opened; columns follow each other. The bank of the last one is closed and parked.
    Then all banks of the mode are written, the block's program behind them in a bank that has to be opened anew.
    """
    t, mode = target.timing, target.device.controller.all_bank_mode
    assert mode is not None
    reopens = int(t[window.WR_PRE] + t[window.PRE_ACT])
    written = 1 + int(t[window.ACT_WR]) + (writes - 1) * int(t[window.WR_WR_RANK])
    parks = int(t[window.WR_RD] + (t[window.BANKS] - 1) * t[window.RD_RD_RANK])
    parked = written + max(parks, reopens + int(t[window.ACT_RD]))
    programs = (len(mode.enter_banks)) * int(t[window.WR_WR_RANK])
    if 1 in mode.enter_banks:  # the odd bank, in which the program is written
        programs = max(programs, reopens + int(t[window.ACT_WR]))
    return np.asarray(parked + int(t[window.RD_WR]) + programs + int(t[window.WR_WR_RANK]), np.int64)


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
        window.walk_window(target.timing, target.patterns(np.array([1])), runs, parts, np.zeros(2, np.int64))
        starts.append(int(parts[0]))
    return min(starts)


# --- Elementwise -----------------------------------------------------------------------------------------------------


def best_elementwise(
    kernel: Elementwise, target: BankTarget, channels: int, prunes: bool = True, is_time: bool = True
) -> FoundElementwise | None:
    """The mapping of least time, or of least energy; the host's writes and reads included. None if none fits the
    banks."""
    candidates: list[tuple[int, int, ElementwiseMapping]] = []
    booleans = (False, True)
    for parts, both, shares, turns in product(distinct_parts(kernel.points, channels), booleans, booleans, booleans):
        for mode_bank in (0, 1) if both or turns else ():  # with one bank the order of the two is no choice
            mapping = ElementwiseMapping(
                channels=parts, both_banks=both, shares_rows=shares, takes_turns=turns, mode_bank=mode_bank
            )
            candidates.append(
                (_elementwise_bound(BankElementwise(kernel, mapping, target), is_time), len(candidates), mapping)
            )
    best: FoundElementwise | None = None
    walked = 0
    for bound, _, mapping in sorted(candidates):
        if best is not None and prunes and bound + is_time > best.value:
            break
        lowered = BankElementwise(kernel, mapping, target)
        ticks = window.NOT_EXACT if lowered.problem else lowered.ticks
        walked += 1
        if ticks != window.NOT_EXACT:
            value = ticks * target.device.tick_ps if is_time else lowered.channel_fj * mapping.channels
            if best is None or (value, ticks) < (best.value, best.ticks):
                best = FoundElementwise(mapping, value, ticks, len(candidates), walked)
    return None if best is None else evolve(best, walked=walked)


def _elementwise_bound(lowered: BankElementwise, is_time: bool) -> int:
    """Picoseconds or femtojoules that a mapping does not fall below."""
    if is_time:
        return elementwise_bound(lowered) * lowered.target.device.tick_ps
    return elementwise_energy_bound(lowered)


def elementwise_energy_bound(lowered: BankElementwise) -> int:
    """Femtojoules that a mapping does not fall below: all its commands, without ACTs."""
    target, operands, fj = lowered.target, len(lowered.kernel.operands), lowered.target.energies
    wide, ((one_read, one_write), (all_read, all_write)) = target.device.core.accumulators, target.commands.tolist()
    moved = lowered.octets * wide
    first = Function.FILL if operands == 2 else Function.FILL_RELU
    second = [Function.ADD if lowered.kernel.operation == "+" else Function.MUL] * (operands - 1)
    blocks = sum(int(fj[all_read, function]) for function in (first, *second)) + int(fj[all_write, Function.STORE])
    host = operands * int(fj[one_write, Function.WRITE]) + int(fj[one_read, Function.READ])
    fixed = commands_fj(target, np.concatenate([*entering(target), *leaving(target)]))
    fixed += 2 * int(fj[all_write, Function.NOTHING])
    sides = 1 + lowered.mapping.both_banks
    return lowered.mapping.channels * (fixed + moved * (len(lowered.banks) * host + sides * blocks))


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
