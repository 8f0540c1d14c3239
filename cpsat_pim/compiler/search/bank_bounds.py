"""Ticks and femtojoules that contractions on devices with an all-bank mode (HBM-PIM) do not fall below.

The controller closes a row that the group at the head of its queue does not use (`docs/devices.md`). So the even bank,
which holds the matrix, is closed while inputs are loaded, and the odd bank, which holds stored inputs and results,
while products are computed. A closed bank is opened for the group at the head, or for the next one as soon as only the
last command of the group at the head waits: not before the second-last command of that group was issued.
"""

from functools import lru_cache
from math import prod

import numpy as np
from numpy.typing import NDArray

from cpsat_pim.compiler.lowering.bank_commands import commands_fj
from cpsat_pim.compiler.lowering.bank_mode import PROGRAM_WRITES, BankTarget, build_passes, entering, leaving
from cpsat_pim.compiler.mapping.broadcast import Passes
from cpsat_pim.compiler.search.broadcast import Tilings
from cpsat_pim.compiler.search.cuts import BATCHES, COLUMNS, CORES, OUTPUT_COUNT, SHARED_VECTORS, USED_AXES
from tables.commands import window
from tracesim.commands import Function

Ints = NDArray[np.int64]


class _Ticks:
    """Distances of a device: between commands of a run, and where a bank is closed and opened in between."""

    def __init__(self, target: BankTarget) -> None:
        t = target.timing
        self.wide = target.device.core.accumulators
        self.read = int(max(t[window.RD_RD_GROUP], t[window.RD_RD_RANK]))
        self.write = int(max(t[window.WR_WR_GROUP], t[window.WR_WR_RANK]))
        self.read_write, self.write_read = int(t[window.RD_WR]), int(t[window.WR_RD])
        self.open_read, self.open_write = int(t[window.ACT_RD]), int(t[window.ACT_WR])
        #: From a command to another row of its bank.
        self.read_opens = int(t[window.RD_PRE] + t[window.PRE_ACT])
        self.write_opens = int(t[window.WR_PRE] + t[window.PRE_ACT])
        #: From the second-last command of a group to the first one of the next, if that one's bank is closed.
        self.early_read, self.early_write = 1 + self.open_read, 1 + self.open_write
        run, stores, keeps_open = (self.wide - 1) * self.read, self.wide * self.write, int(t[window.ACT_PRE])
        #: Whether the odd bank is closed during the products of one column; from the last of them to a read of the odd
        #: bank; whether the even bank is closed before that read, and before the last store.
        self.odd_closes = int(t[window.RD_PRE]) < run and keeps_open - self.open_read < run
        self.to_stored = max(self.read, self.early_read - self.read if self.odd_closes else 0)
        self.even_closes = int(t[window.RD_PRE]) < min(self.to_stored, self.read_write) and (
            keeps_open - self.open_read - run < self.read
        )
        self.stores_close = int(t[window.WR_PRE]) < stores and keeps_open - self.open_write < stores


def lower_bounds(table: Ints, tilings: Tilings, target: BankTarget, has_inputs: bool) -> Ints:
    """Ticks that cuts (a row of `table` for each) with tilings do not fall below.

    What comes before the first pass is the same for all and walked. From then on consecutive commands keep their
    distances; where they need another row of a bank, that bank is closed and opened in between.
    """
    t, ticks = target.timing, _Ticks(target)
    results = table[:, BATCHES] * table[:, SHARED_VECTORS]
    passes = results * table[:, OUTPUT_COUNT]
    columns, tile, tiles = _tiles(table, tilings, has_inputs)
    stored = tilings.stores_inputs
    macs = passes * (columns * ticks.wide - tiles) * ticks.read
    total = macs + _row_changes(table, tilings, target, has_inputs) * max(
        0, ticks.read_opens + ticks.open_read - ticks.read
    )
    first, later = _loads(tile, tilings, ticks, has_inputs)
    last = columns - (tiles - 1) * tile
    _, of_last = _loads(last, tilings, ticks, has_inputs)
    loaded = np.where(tilings.keeps_inputs, results, passes)
    total += loaded * first + (passes - loaded) * _to_products(tilings, ticks)
    total += passes * np.where(tiles > 1, (tiles - 2) * later + of_last, 0)
    stores, between = _stores(tilings, ticks)
    total += passes * stores + (passes - 1) * between
    leaves = int(t[window.WR_WR_RANK] + t[window.WR_RD] + t[window.RD_RD_RANK] * (t[window.BANKS] - 1))
    total += leaves + _reads(table, passes, target, ticks) + int(t[window.RD_LATENCY])
    starts = np.array([_start(target, mode_bank) for mode_bank in (0, 1)])[tilings.mode_bank]
    behind = _behind_writes(target, results * columns * table[:, CORES])
    return np.asarray(total + np.where(stored, behind, starts), np.int64)


def least_ticks(table: Ints, target: BankTarget) -> Ints:
    """Ticks that cuts do not fall below under any tiling: products, stores and the host's reads."""
    ticks, passes = _Ticks(target), table[:, BATCHES] * table[:, SHARED_VECTORS] * table[:, OUTPUT_COUNT]
    run = (table[:, COLUMNS] * ticks.read + ticks.write) * ticks.wide
    return np.asarray(passes * run - ticks.read + _reads(table, passes, target, ticks), np.int64)


def _tiles(table: Ints, tilings: Tilings, has_inputs: bool) -> tuple[Ints, Ints, Ints]:
    """Input columns of a pass, of a tile of them, and tiles."""
    columns = table[:, COLUMNS]
    tile = np.minimum(columns, tilings.depth_tile) if has_inputs else columns
    return columns, tile, np.asarray(-(-columns // tile), np.int64)


def _to_products(tilings: Tilings, ticks: _Ticks) -> Ints:
    """From the write that enters PIM mode to the first product, without loads: the even bank is opened anew if the mode
    register is written there."""
    reopened = np.where(tilings.mode_bank == 0, ticks.write_opens + ticks.open_read, 0)
    return np.asarray(np.maximum(ticks.write_read, reopened), np.int64)


def _loads(tile: Ints, tilings: Tilings, ticks: _Ticks, has_inputs: bool) -> tuple[Ints, Ints]:
    """Of a tile of so many columns: from entering PIM mode, and from the last product before it, to its first product.

    Loads write registers by the odd bank. Stored inputs are read from the odd bank, whose register row and whose row of
    results are other ones.
    """
    to_products = _to_products(tilings, ticks)
    if not has_inputs:
        return to_products, np.zeros_like(tile)
    stored, odd = tilings.stores_inputs, tilings.mode_bank == 1
    written = tile * ticks.write + ticks.write_read
    later_written = ticks.read_write + (tile - 1) * ticks.write + ticks.write_read
    early = np.where(tile > 1, (tile - 2) * ticks.read + ticks.early_read, 0) * ticks.even_closes
    behind = np.maximum(tile * ticks.read, early)
    lead = np.maximum(ticks.write_read, np.where(odd, ticks.write_opens + ticks.open_read, 0))
    first = np.maximum(np.where(stored, lead + behind, written), to_products)
    reopened = ticks.read_opens + ticks.open_read if ticks.even_closes else 0
    return first, np.where(stored, np.maximum(ticks.to_stored + behind, reopened), later_written)


def _stores(tilings: Tilings, ticks: _Ticks) -> tuple[Ints, Ints]:
    """From the last product of a pass to its last store, and from there to the next pass."""
    even = tilings.mode_bank == 0
    leaves = np.maximum(ticks.read_write, np.where(even, ticks.read_opens + ticks.open_write, 0))
    reopens = ticks.write_opens + ticks.open_write
    stores = np.maximum(ticks.write, np.where(even, 0, reopens)) + (ticks.wide - 1) * ticks.write
    closed = max(ticks.early_write - ticks.write, reopens - ticks.wide * ticks.write) if ticks.stores_close else 0
    return leaves + stores, np.maximum(ticks.write, np.where(even, closed, reopens))


def _row_changes(table: Ints, tilings: Tilings, target: BankTarget, has_inputs: bool) -> Ints:
    """Rows of the matrix that begin within a tile. Matrices follow each other in a bank, so that a row may begin at
    other columns of each; which ones recurs after as many matrices as a row holds columns of inputs."""
    core = target.device.core
    a_row, (columns, tile, tiles) = core.columns // core.accumulators, _tiles(table, tilings, has_inputs)
    whole = tilings.keeps_inputs | tilings.stores_inputs
    stride = np.where(whole, -(-columns // core.inputs) * core.inputs, columns)
    matrices, changes = table[:, BATCHES] * table[:, OUTPUT_COUNT], np.zeros_like(columns)
    for first in range(a_row):
        offset = first * stride % a_row
        begin = (offset + columns - 1) // a_row
        for residue in range(a_row):  # tiles that begin with a row
            many = np.maximum(tiles - 1 - residue, -1) // a_row + 1 - (residue == 0)
            begin = begin - np.where((offset + residue * tile) % a_row == 0, many, 0)
        changes += (matrices - first + a_row - 1) // a_row * begin
    return np.asarray(changes * table[:, SHARED_VECTORS], np.int64)


def _groups(table: Ints, target: BankTarget) -> Ints:
    """Bank groups in use."""
    sizes, used = target.axes[:2], table[:, USED_AXES]
    return np.asarray(prod(np.where(used >> axis & 1, size, 1) for axis, size in enumerate(sizes)), np.int64)


def _reads(table: Ints, passes: Ints, target: BankTarget, ticks: _Ticks) -> Ints:
    """From the last parking read to the last read of results: all share the bus, those of a bank group are further
    apart, and every row of results is opened once the read before the last one of the row before was issued."""
    t, cores = target.timing, table[:, CORES]
    uses_accumulators = table[:, USED_AXES] >> (len(target.axes) - 1) & 1
    reads = passes * np.where(uses_accumulators == 1, ticks.wide, 1) * cores
    rows = -(-passes * ticks.wide // target.device.core.columns)
    bus, group = int(t[window.RD_RD_RANK]), ticks.read
    shared = reads * bus + (rows - 1) * max(0, ticks.early_read - 2 * bus)
    grouped = bus + (-(-reads // _groups(table, target)) - 1) * group
    alone = bus + (reads - 1) * group + (rows - 1) * max(0, ticks.read_opens + ticks.open_read - group)
    return np.asarray(np.maximum(np.maximum(shared, grouped), np.where(cores == 1, alone, 0)), np.int64)


def energy_bounds(table: Ints, tilings: Tilings, target: BankTarget, has_inputs: bool) -> Ints:
    """Femtojoules of a channel that cuts with a tiling do not fall below: all commands exactly, and the ACTs that rows
    make necessary: outside of all-bank mode those of parking, entering and reading.

    Rows of the matrix: each is opened once, and for every vector all of a batch element but the one still open. The
    rows of registers and of results lie in one bank, so that a pass opens both; so do rows of registers and of the
    matrix, if the mode register is written there.
    """
    core, wide, cores = target.device.core, target.device.core.accumulators, len(target.cores)
    results, outputs, columns = table[:, BATCHES] * table[:, SHARED_VECTORS], table[:, OUTPUT_COUNT], table[:, COLUMNS]
    passes = results * outputs
    loads = columns * np.where(tilings.keeps_inputs, results, passes) * has_inputs
    written = results * columns * tilings.stores_inputs  # in every core
    uses_accumulators = (table[:, USED_AXES] >> (len(target.axes) - 1) & 1) == 1
    read = passes * np.where(uses_accumulators, wide, 1)
    fj, ((one_read, one_write), (all_read, all_write)) = target.energies, target.commands.tolist()
    mac = Function.MAC_LANES if has_inputs else Function.ADD
    load = np.where(tilings.stores_inputs, fj[all_read, Function.FILL], fj[all_write, Function.LOAD])
    total = passes * (
        fj[all_write, Function.NOTHING] + fj[all_write, Function.CLEAR] + wide * fj[all_write, Function.STORE]
    )
    total += passes * columns * wide * fj[all_read, mac] + loads * load
    total += table[:, CORES] * (read * fj[one_read, Function.READ] + written * fj[one_write, Function.WRITE])
    a_batch = -(-(outputs * columns * wide) // core.columns)
    matrix = np.maximum(table[:, BATCHES] * (a_batch - 1) + 1, results * (a_batch - 1))
    stored = -(-(passes * wide) // core.columns)
    loaded = np.where(tilings.keeps_inputs | tilings.stores_inputs, 0, passes) * has_inputs
    all_bank = np.where(
        tilings.mode_bank == 0,
        np.maximum(matrix, 2 * passes) + np.maximum(stored, 2 * loaded),
        matrix + 2 * passes,
    )
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
