"""Commands for devices with an all-bank mode (HBM-PIM): modes, passes, results.

The order of modes and registers is that of Samsung's kernels (PIMSimulator b464dde, `src/tests/PIMKernel.cpp`). A run
of up to 8 commands of one instruction ends with a barrier, so that the controller may reorder within it.
"""

from functools import cached_property
from itertools import product

import numpy as np
from attrs import frozen
from numpy.typing import NDArray

from cpsat_pim.compiler.language import KernelMistake
from cpsat_pim.compiler.lowering.broadcast_target import BroadcastTarget
from cpsat_pim.compiler.lowering.energy import energy_table
from cpsat_pim.compiler.lowering.program import (
    COMPUTE,
    HOST_WRITES,
    LOADS,
    MODES,
    STORES,
)
from cpsat_pim.compiler.mapping.broadcast import Passes
from cpsat_pim.device.distances import least_ticks
from tables.commands import window
from tables.commands.steps import ceiling
from tracesim.commands import Function

Ints = NDArray[np.int64]

#: Rows that are no storage (PIMKernel.cpp): parking, and the registers of the PIM blocks with their columns.
PARK_ROW, REGISTER_ROW = 1 << 12, 0x3FFF
MODE_COLUMN, PROGRAM_COLUMN, INPUT_COLUMN, SWITCH_COLUMN = 0, 4, 8, 0x1F
#: Writes that the program of a block has room for (32 instructions).
PROGRAM_WRITES = 4
#: Reads of the parking row that a stream which begins with the host's writes may have before them.
MOST_PARKED = 3
#: Column that a traced write to the mode register has if it leaves PIM mode: the address is the same, the value not.
LEAVE_PIM = 1
#: Columns of a table of runs behind those of `tables.commands.window`: whether all blocks are meant, first column and
#: distance to the next, function, first registers, first vector of the exchange buffer.
IS_ALL, COLUMN, STEP, FUNCTION, TARGET, SOURCE, DATA = range(5, 12)
RUN_COLUMNS = 12
#: Patterns of banks, see `BankTarget.patterns`.
PARKED, ENTERED, LEFT, EVEN, ODD, FREE_PATTERN = range(6)


@frozen(slots=False, eq=False)
class BankTarget(BroadcastTarget):
    """A device with an all-bank mode: its banks in the orders in which runs name them, and its timing.

    Raises:
        KernelMistake: the device is built in another way than HBM-PIM.
    """

    def __attrs_post_init__(self) -> None:
        device, core = self.device, self.device.core
        names = tuple(axis.name for axis in device.group.axes)
        if names != ("rank", "bankgroup", "block") or device.controller.policy != "window":
            raise KernelMistake(f"{device.name}: expected axes rank, bankgroup, block and the controller window")
        if core.banks != 2 or core.accumulators == 0 or core.columns % core.accumulators:
            raise KernelMistake(f"{device.name}: expected two banks a block, and rows of whole groups of accumulators")

    @property
    def axes(self) -> tuple[int, ...]:
        """Cores along every axis of a channel, then the accumulators of a core."""
        return (*(axis.size for axis in self.device.group.axes), self.device.core.accumulators)

    @cached_property
    def cores(self) -> Ints:
        """int64[cores, axes]: coordinates of every core, those of other bank groups next to each other."""
        ranks, groups, blocks = self.axes[:-1]
        return np.array([(r, g, b) for r, b, g in product(range(ranks), range(blocks), range(groups))])

    def banks_of(self, cores: Ints, side: int) -> Ints:
        """The number of a bank of each core in the channel."""
        _, groups, blocks = self.axes[:-1]
        index = (cores[:, 0] * groups + cores[:, 1]) * blocks + cores[:, 2]
        return np.asarray(index * self.device.core.banks + side, np.int64)

    def patterns(self, free: Ints) -> Ints:
        """int64[patterns, 1 + banks]: all banks, those that enter and leave, the even, the odd one, `free`."""
        mode, sides = self.device.controller.all_bank_mode, range(self.device.core.banks)
        assert mode is not None
        parked = np.concatenate([self.banks_of(self._block(b), s) for b in range(self.axes[2]) for s in sides])
        switches = np.array(mode.enter_banks), np.array(mode.leave_banks)
        rows = [parked, *switches, np.array([0]), np.array([1]), free]
        table = np.zeros((len(rows), 1 + int(self.timing[window.BANKS])), np.int64)
        for number, row in enumerate(rows):
            table[number, 0], table[number, 1 : 1 + len(row)] = len(row), row
        return table

    def _block(self, block: int) -> Ints:
        return np.asarray(self.cores[self.cores[:, 2] == block], np.int64)

    @cached_property
    def commands(self) -> Ints:
        """int64[2, 2]: the command that reads or writes (second index) one bank, or all blocks (first index 1)."""
        by_function = {"read": (0, 0), "write": (0, 1), "mac_lanes": (1, 0), "store": (1, 1)}
        table = np.full((2, 2), -1, np.int64)
        for number, command in enumerate(self.device.commands):
            for name, place in by_function.items():
                if name in command.does:
                    table[place] = number
        if (table < 0).any():
            raise KernelMistake(f"{self.device.name}: expected commands that do {', '.join(by_function)}")
        return table

    @cached_property
    def energies(self) -> Ints:
        """int64[commands, functions], see `energy.energy_table`."""
        return energy_table(self.device)

    @cached_property
    def act(self) -> int:
        """The command that opens a row."""
        return self.device.command(str(self.device.commands[self.commands[1, 0]].activate))

    @cached_property
    def timing(self) -> Ints:
        """int64: the ticks that `tables.commands.window` takes."""
        device, (read, write) = self.device, self.commands[1]
        act_name, pre_name = device.commands[read].activate, device.commands[read].precharge
        assert act_name is not None
        assert pre_name is not None
        act, pre = device.command(act_name), device.command(pre_name)
        group, rank, bank = (device.levels.index(name) for name in ("bankgroup", "rank", device.levels[-1]))
        table = np.zeros(window.TIMINGS, np.int64)
        for at, before, after, level in (
            (window.RD_RD_GROUP, read, read, group), (window.RD_RD_RANK, read, read, rank),
            (window.WR_WR_GROUP, write, write, group), (window.WR_WR_RANK, write, write, rank),
            (window.RD_WR, read, write, rank), (window.WR_RD, write, read, rank),
            (window.RD_PRE, read, pre, bank), (window.WR_PRE, write, pre, bank),
            (window.ACT_ACT_BANK, act, act, bank), (window.ACT_ACT_GROUP, act, act, group),
            (window.ACT_ACT_RANK, act, act, rank), (window.ACT_RD, act, read, bank), (window.ACT_WR, act, write, bank),
            (window.ACT_PRE, act, pre, bank), (window.PRE_ACT, pre, act, bank),
        ):  # fmt: skip
            table[at] = least_ticks(device, before, after, level)
        table[window.RD_LATENCY] = device.ticks(device.commands[read].latency)
        table[window.WR_LATENCY] = device.ticks(device.commands[write].latency)
        table[window.BANKS] = len(self.cores) * device.core.banks
        table[window.BANKS_A_GROUP] = self.axes[2] * device.core.banks
        table[window.ENTRY_QUEUE] = device.controller.entry_queue
        table[window.QUEUE] = device.controller.queue
        mode = device.controller.all_bank_mode
        assert mode is not None
        table[[window.ENTER_ROW, window.LEAVE_ROW, window.MODE_BANKS]] = mode.enter_row, mode.leave_row, mode.banks
        table[window.ENTER_BANKS] = sum(1 << bank for bank in mode.enter_banks)
        table[window.LEAVE_BANKS] = sum(1 << bank for bank in mode.leave_banks)
        return table


# --- Runs ------------------------------------------------------------------------------------------------------------


def run(
    part: int, is_write: int, pattern: int, row: int, count: int, column: int, function: Function = Function.NOTHING
) -> Ints:
    """One run without registers and data, int64[1, RUN_COLUMNS]."""
    row_of = np.zeros((1, RUN_COLUMNS), np.int64)
    row_of[0, [window.PART, window.IS_WRITE, window.PATTERN]] = part, is_write, pattern
    row_of[0, [window.ROW, window.COUNT, COLUMN, FUNCTION]] = row, count, column, function
    row_of[0, IS_ALL] = 1
    return row_of


def entering(target: BankTarget, writes: int = 1) -> list[Ints]:
    """Park, enter all-bank mode, program the blocks: a write holds 8 instructions, further ones are idle."""
    mode = target.device.controller.all_bank_mode
    assert mode is not None
    banks = int(target.timing[window.BANKS])
    parked = run(MODES, 0, PARKED, PARK_ROW, banks, 0)
    entered = run(MODES, 1, ENTERED, mode.enter_row, len(mode.enter_banks), SWITCH_COLUMN)
    parked[0, IS_ALL] = entered[0, IS_ALL] = 0
    program = run(MODES, 1, ODD, REGISTER_ROW, writes, PROGRAM_COLUMN)
    program[0, STEP] = 1
    return [parked, entered, program]


def parking(reads: int) -> list[Ints]:
    """Some reads of the parking row before everything else, so that the barriers behind them move."""
    before = run(MODES, 0, PARKED, PARK_ROW, reads, 0)
    before[0, IS_ALL] = 0
    return [before] if reads else []


def loses_barrier(target: BankTarget, runs: Ints) -> bool:
    """Whether a run ends where PIMSimulator loses the barrier."""
    ends = np.cumsum(runs[:-1, window.COUNT])
    return bool((ends == target.timing[window.ENTRY_QUEUE]).any())


def leaving(target: BankTarget) -> list[Ints]:
    """Leave all-bank mode, park."""
    mode = target.device.controller.all_bank_mode
    assert mode is not None
    left = run(MODES, 1, LEFT, mode.leave_row, len(mode.leave_banks), SWITCH_COLUMN)
    parked = run(MODES, 0, PARKED, PARK_ROW, int(target.timing[window.BANKS]), 0)
    left[0, IS_ALL] = parked[0, IS_ALL] = 0
    return [left, parked]


def build_passes(target: BankTarget, passes: Passes, has_inputs: bool, mode_bank: int) -> Ints:
    """The runs of all passes, int64[runs, RUN_COLUMNS].

    A pass enters PIM mode, which resets the program and clears the accumulators, loads tiles of inputs and multiplies
    them with one column for each accumulator, leaves PIM mode and stores the accumulators in the odd banks. Inputs that
    are stored come from the first columns of the odd banks; results lie behind them.
    """
    core = target.device.core
    wide, inputs = core.accumulators, core.inputs
    kinds, firsts, sizes = _pass_pattern(passes)
    count = passes.count
    table = np.zeros((count, len(kinds), RUN_COLUMNS), np.int64)
    number = np.arange(count)
    result, output = number // passes.outputs, number % passes.outputs
    matrix = result // passes.shared * passes.outputs + output
    stride = passes.stride(inputs)
    table[:, :, IS_ALL], table[:, :, STEP] = 1, 1
    table[:, :, window.COUNT] = sizes
    modes, loads, macs, stores = (np.flatnonzero(kinds == part) for part in (MODES, LOADS, COMPUTE, STORES))
    table[:, :, window.PART] = kinds
    table[:, :, window.IS_WRITE] = kinds != COMPUTE
    table[:, modes, window.PATTERN] = (EVEN, ODD)[mode_bank]
    table[:, modes, window.ROW] = REGISTER_ROW
    table[:, modes[0], FUNCTION] = Function.CLEAR
    table[:, modes[1], COLUMN] = LEAVE_PIM
    table[:, loads, window.PATTERN], table[:, loads, window.ROW] = ODD, REGISTER_ROW
    table[:, loads, COLUMN], table[:, loads, FUNCTION] = INPUT_COLUMN, Function.LOAD
    table[:, loads, TARGET] = (matrix[:, None] * stride + firsts[loads]) % inputs
    table[:, loads, DATA] = result[:, None] * passes.columns + firsts[loads]
    if passes.stores_inputs:
        place = result[:, None] * stride + firsts[loads]
        table[:, loads, window.IS_WRITE], table[:, loads, FUNCTION], table[:, loads, DATA] = 0, Function.FILL, 0
        table[:, loads, window.ROW], table[:, loads, COLUMN] = place // core.columns, place % core.columns
    if passes.keeps_inputs:
        table[np.ix_(output > 0, loads, np.array([window.COUNT]))] = 0
    if not has_inputs:
        table[:, loads, window.COUNT] = 0
    address = (matrix[:, None] * stride + firsts[macs]) * wide
    table[:, macs, window.PATTERN] = EVEN
    table[:, macs, window.ROW], table[:, macs, COLUMN] = address // core.columns, address % core.columns
    table[:, macs, FUNCTION] = Function.MAC_LANES if has_inputs else Function.ADD
    table[:, macs, TARGET] = inputs
    table[:, macs, SOURCE] = (matrix[:, None] * stride + firsts[macs]) % inputs if has_inputs else inputs
    place = input_columns(passes, inputs) + number[:, None] * wide
    table[:, stores, window.PATTERN], table[:, stores, FUNCTION] = ODD, Function.STORE
    table[:, stores, window.ROW], table[:, stores, COLUMN] = place // core.columns, place % core.columns
    table[:, stores, SOURCE] = inputs
    table[:, macs, window.COUNT] = table[:, stores, window.COUNT] = wide
    flat = table.reshape(-1, RUN_COLUMNS)
    return flat[flat[:, window.COUNT] > 0]


def input_columns(passes: Passes, registers: int) -> int:
    """Columns of an odd bank that inputs take."""
    return passes.batches * passes.shared * passes.stride(registers) * passes.stores_inputs


def _pass_pattern(passes: Passes) -> tuple[Ints, Ints, Ints]:
    """Part, first input column and commands of every run of a pass; commands of loads only."""
    rows = [(MODES, 0, 1)]
    for first in range(0, passes.columns, passes.tile):
        size = min(passes.tile, passes.columns - first)
        rows.append((LOADS, first, size))
        rows += [(COMPUTE, at, 1) for at in range(first, first + size)]
    rows += [(MODES, 0, 1), (STORES, 0, 1)]
    kinds, firsts, sizes = np.array(rows).T
    return kinds, firsts, sizes


def host_moves(
    target: BankTarget, part: int, start: int, columns: int, cores: int, step: int = 1, first: int = 0
) -> list[Ints]:
    """The host reads or writes (`part`) columns, `step` apart from a start on, of the banks of the free pattern, row by
    row; the exchange buffer from vector `first` on."""
    width, is_write, runs, done = target.device.core.columns, int(part == HOST_WRITES), [], 0
    while done < columns:
        row, column = divmod(start + done * step, width)
        size = min(columns - done, ceiling(width - column, step))
        added = run(
            part, is_write, FREE_PATTERN, row, size * cores, column, Function.WRITE if is_write else Function.READ
        )
        added[0, [IS_ALL, STEP, DATA]] = 0, step, first + done * cores
        runs.append(added)
        done += size
    return runs
