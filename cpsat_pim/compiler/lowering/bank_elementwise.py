"""Elementwise kernels on devices with an all-bank mode (HBM-PIM), with the host's writes and reads.

An *octet* is as many columns as a block has accumulators (8): what one group of commands fills, computes or stores. The
elements of a channel fill octet after octet of the banks in use, bank by bank.
"""

from collections.abc import Iterator, Mapping
from functools import cached_property
from itertools import chain
from typing import Any

import numpy as np
from attrs import frozen
from numpy.typing import NDArray

from cpsat_pim.compiler.lowering.bank_commands import program_of
from cpsat_pim.compiler.lowering.bank_mode import (
    DATA,
    EVEN,
    FREE_PATTERN,
    IS_ALL,
    LEAVE_PIM,
    MOST_PARKED,
    ODD,
    REGISTER_ROW,
    SOURCE,
    STEP,
    TARGET,
    BankTarget,
    entering,
    leaving,
    loses_barrier,
    parking,
    run,
)
from cpsat_pim.compiler.lowering.bank_stream import BankStream
from cpsat_pim.compiler.lowering.program import COMPUTE, HOST_READS, HOST_WRITES, MODES, STORES, Program
from cpsat_pim.compiler.mapping.elementwise import Elementwise, ElementwiseMapping
from tables.commands.steps import ceiling
from tracesim.commands import Function

Ints = NDArray[np.int64]
Array = NDArray[Any]

_FUNCTIONS = {"+": Function.ADD, "*": Function.MUL}


@frozen(slots=False, eq=False)
class BankElementwise(BankStream):
    """A mapped elementwise kernel: its runs, its stream, and where its elements are."""

    kernel: Elementwise
    mapping: ElementwiseMapping
    target: BankTarget

    @property
    def problem(self) -> str | None:
        """Why the device cannot run it, or None."""
        rows = max((at for _, at, _ in self._places()), default=0) + 1
        return f"needs {rows} rows" if rows > self.target.device.core.rows else None

    @cached_property
    def octets(self) -> int:
        """Octets a bank."""
        lanes, wide = self.target.device.core.lanes, self.target.device.core.accumulators
        return ceiling(self.channel_points, lanes * wide * len(self.banks))

    @cached_property
    def channel_points(self) -> int:
        """Elements a channel."""
        return ceiling(self.kernel.points, self.mapping.channels)

    @cached_property
    def banks(self) -> Ints:
        """The banks in use, those of other bank groups next to each other."""
        sides = range(1 + self.mapping.both_banks)
        cores, blocks = self.target.cores, self.target.axes[2]
        return np.concatenate(
            [self.target.banks_of(cores[cores[:, 2] == block], side) for side in sides for block in range(blocks)]
        )

    # --- Columns -----------------------------------------------------------------------------------------------------

    def _place(self, operand: int, octet: int) -> tuple[int, int]:
        """Row and first column of an octet of an operand; the operand behind the last is the result."""
        core, operands = self.target.device.core, len(self.kernel.operands)
        wide, a_row = core.accumulators, core.columns // core.accumulators
        if not self.mapping.shares_rows:
            return operand * ceiling(self.octets, a_row) + octet // a_row, octet % a_row * wide
        per_row = a_row // operands
        here = min(per_row, self.octets - octet // per_row * per_row)
        return octet // per_row, (operand % operands * here + octet % per_row) * wide

    def _places(self) -> Iterator[tuple[int, int, int]]:
        """For every octet of every operand and of the result: operand, row, first column."""
        for operand in range(len(self.kernel.operands) + 1):
            for octet in range(self.octets):
                yield operand, *self._place(operand, octet)

    def _host_runs(self, part: int, operands: range) -> tuple[list[Ints], dict[tuple[int, int], int]]:
        """The host's runs over all rows of some operands, and the number of every column in their order."""
        by_row: dict[int, list[int]] = {}
        for operand, row, column in self._places():
            if operand in operands:
                by_row.setdefault(row, []).append(column)
        runs: list[Ints] = []
        numbers: dict[tuple[int, int], int] = {}
        wide, banks, is_write = self.target.device.core.accumulators, len(self.banks), int(part == HOST_WRITES)
        function = Function.WRITE if is_write else Function.READ
        for row in sorted(by_row):
            first, size = min(by_row[row]), len(by_row[row]) * wide
            added = run(part, is_write, FREE_PATTERN, row, size * banks, first, function)
            added[0, [IS_ALL, STEP, DATA]] = 0, 1, len(numbers) * banks
            numbers.update({(row, first + i): len(numbers) + i for i in range(size)})
            runs.append(added)
        return runs, numbers

    @cached_property
    def _written(self) -> tuple[list[Ints], dict[tuple[int, int], int]]:
        return self._host_runs(HOST_WRITES, range(len(self.kernel.operands)))

    @cached_property
    def _read(self) -> tuple[list[Ints], dict[tuple[int, int], int]]:
        operands = len(self.kernel.operands)
        runs, numbers = self._host_runs(HOST_READS, range(operands, operands + 1))
        for added in runs:
            added[0, DATA] += self.input_vectors
        return runs, numbers

    @cached_property
    def input_vectors(self) -> int:
        """Vectors of the exchange buffer that the host writes."""
        return len(self._written[1]) * len(self.banks)

    # --- Runs --------------------------------------------------------------------------------------------------------

    @cached_property
    def runs(self) -> Ints:
        """Host writes, modes, computation, modes, host reads; before them as many reads that park as keep all
        barriers."""
        choices = (self._runs(parked) for parked in range(MOST_PARKED + 1))
        first = next(choices)
        kept = (runs for runs in chain((first,), choices) if not loses_barrier(self.target, runs))
        return next(kept, first)

    def _runs(self, parked: int) -> Ints:
        pattern = (EVEN, ODD)[self.mapping.mode_bank]
        begin, end = run(MODES, 1, pattern, REGISTER_ROW, 1, 0), run(MODES, 1, pattern, REGISTER_ROW, 1, LEAVE_PIM)
        return np.concatenate(
            [
                *parking(parked),
                *self._written[0],
                *entering(self.target),
                begin,
                *self._compute(),
                end,
                *leaving(self.target),
                *self._read[0],
            ]
        )

    def _compute(self) -> Iterator[Ints]:
        """The octets one after the other; both banks in turn, or kind by kind."""
        sides = range(1 + self.mapping.both_banks)
        for octet in range(self.octets):
            steps = [self._steps(octet, side) for side in sides]
            if self.mapping.takes_turns:
                yield from (row for rows in steps for row in rows)
            else:
                yield from (row for rows in zip(*steps, strict=True) for row in rows)

    def _steps(self, octet: int, side: int) -> list[Ints]:
        """Fill registers from the first operand, combine with the second, store."""
        core, operands = self.target.device.core, len(self.kernel.operands)
        first = (0, core.inputs)[side]
        functions = [Function.FILL, _FUNCTIONS[self.kernel.operation]] if operands == 2 else [Function.FILL_RELU]
        rows = []
        for operand, function in enumerate([*functions, Function.STORE]):
            is_store = function is Function.STORE
            row, column = self._place(operand, octet)
            part = STORES if is_store else COMPUTE
            added = run(part, int(is_store), (EVEN, ODD)[side], row, core.accumulators, column, function)
            added[0, [STEP, TARGET, SOURCE]] = 1, first, first
            rows.append(added)
        return rows

    @cached_property
    def program(self) -> Program:
        """The stream with its ticks."""
        outputs = len(self._read[1]) * len(self.banks)
        return program_of(self.target, self.runs, self.banks, self.input_vectors, outputs)

    # --- Numbers -----------------------------------------------------------------------------------------------------

    def channels(self) -> Iterator[tuple[int, ...]]:
        """The channels in use."""
        return ((channel,) for channel in range(self.mapping.channels))

    def bank_contents(self, channel: tuple[int, ...], arrays: Mapping[str, Array]) -> Array:
        """Banks are empty: the host writes what they hold."""
        core = self.target.device.core
        shape = (*self.target.axes[:-1], core.banks, self.program.bank_rows, core.columns, core.lanes)
        return np.zeros(shape, np.int64)

    def exchange(self, channel: tuple[int, ...], arrays: Mapping[str, Array]) -> Array:
        """What the host writes, and zeros for what it reads."""
        core = self.target.device.core
        buffer = np.zeros((self.input_vectors + self.program.output_vectors, core.lanes), np.int64)
        points, good = self._points(channel)
        for number, operand in enumerate(self.kernel.operands):
            values = np.where(good, arrays[operand.tensor][self.kernel.indices(operand, points)], 0)
            buffer[self._vectors(self._written[1], number)] = values
        return buffer

    def add_results(self, channel: tuple[int, ...], exchange: Array, result: Array) -> None:
        """Put what the host read where it belongs, in place."""
        points, good = self._points(channel)
        vectors = self._vectors(self._read[1], len(self.kernel.operands)) + self.input_vectors
        where = self.kernel.indices(self.kernel.statement.target, points[good])
        np.add.at(result, where, exchange[vectors][good])

    def _points(self, channel: tuple[int, ...]) -> tuple[Ints, NDArray[np.bool_]]:
        """int64[octets, banks, columns of an octet, lanes]: the points of the loops, and whether there are such."""
        core = self.target.device.core
        shape = (self.octets, len(self.banks), core.accumulators, core.lanes)
        local = np.arange(np.prod(shape)).reshape(shape)
        at = channel[0] * self.channel_points + local
        good = (local < self.channel_points) & (at < self.kernel.points)
        return np.where(good, at, 0), good

    def _vectors(self, numbers: Mapping[tuple[int, int], int], operand: int) -> Ints:
        """int64[octets, banks, columns of an octet]: the vectors that the host moves for an operand."""
        wide, banks = self.target.device.core.accumulators, len(self.banks)
        first = np.array([numbers[self._place(operand, octet)] for octet in range(self.octets)])
        columns = first[:, None, None] + np.arange(wide)
        return np.asarray(columns * banks + np.arange(banks)[None, :, None], np.int64)
