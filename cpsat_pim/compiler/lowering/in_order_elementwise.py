"""Elementwise kernels on devices whose cores are processors with memories of their own (UPMEM).

The host writes a column of every operand to each core at once, a different one to each; the cores combine them; the
host reads a column of each. The elements of a channel fill column after column of its cores.
"""

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any

import numpy as np
from attrs import frozen
from numpy.typing import NDArray

from cpsat_pim.compiler.lowering.in_order_stream import ADDRESS, FUNCTION, InOrderStream
from cpsat_pim.compiler.lowering.in_order_target import InOrderTarget
from cpsat_pim.compiler.lowering.program import COMPUTE, HOST_READS, HOST_WRITES, STORES, Program
from cpsat_pim.compiler.mapping.elementwise import Elementwise, SpreadMapping
from tables.commands import in_order
from tables.commands.steps import ceiling
from tracesim.commands import Function, Stream

Ints = NDArray[np.int64]
Array = NDArray[Any]

#: What is done with the column of every operand.
_COMBINE = {
    "+": (Function.FILL, Function.ADD),
    "*": (Function.FILL, Function.MUL),
    "relu": (Function.FILL_RELU,),
}
#: Column of a table of runs behind those of all streams: first vector of the exchange buffer.
DATA = 6


@frozen(slots=False, eq=False)
class InOrderElementwise(InOrderStream):
    """A mapped elementwise kernel: its runs, its stream, and where its elements are."""

    kernel: Elementwise
    mapping: SpreadMapping
    target: InOrderTarget

    @property
    def problem(self) -> str | None:
        """Why the device cannot run it, or None."""
        core = self.target.device.core
        rows = ceiling(self.columns * (len(self.kernel.operands) + 1), core.columns)
        return f"needs {rows} rows, there are {core.rows}" if rows > core.rows else None

    @cached_property
    def channel_points(self) -> int:
        """Elements a channel."""
        return ceiling(self.kernel.points, self.mapping.channels)

    @property
    def cores(self) -> int:
        """Cores of a channel."""
        return int(np.prod(self.target.axes))

    @cached_property
    def columns(self) -> int:
        """Columns of every core that an operand takes."""
        return ceiling(self.channel_points, self.cores * self.target.device.core.lanes)

    @property
    def input_vectors(self) -> int:
        """Vectors of the exchange buffer that the host writes."""
        return len(self.kernel.operands) * self.columns * self.cores

    @property
    def functions(self) -> tuple[tuple[Function, int], ...]:
        """What is done with a column of every operand, and with the result, with the part of the kernel."""
        return (
            *((Function.WRITE_EACH, HOST_WRITES) for _ in self.kernel.operands),
            *((function, COMPUTE) for function in _COMBINE[self.kernel.operation]),
            (Function.STORE, STORES),
            (Function.READ_EACH, HOST_READS),
        )

    # --- Runs --------------------------------------------------------------------------------------------------------

    @cached_property
    def runs(self) -> Ints:
        """Runs of one channel: columns one after the other, each written, combined and read."""
        operands = len(self.kernel.operands)
        #: the operand that each function reads or writes; the one behind the last is the result
        places = [*range(operands), *range(operands), operands, operands]
        table = np.zeros((self.columns, len(places), DATA + 1), np.int64)
        column = np.arange(self.columns)
        for at, ((function, part), operand) in enumerate(zip(self.functions, places, strict=True)):
            kind = self.target.command(function.name.lower())
            table[:, at, [in_order.KIND, in_order.ROW, in_order.COUNT, in_order.PART]] = kind, -1, 1, part
            table[:, at, FUNCTION], table[:, at, ADDRESS] = function, operand * self.columns + column
            table[:, at, DATA] = table[:, at, ADDRESS] * self.cores
        return table.reshape(-1, DATA + 1)

    @cached_property
    def program(self) -> Program:
        """The stream with its ticks."""
        runs, core = self.runs, self.target.device.core
        ticks, parts = self._walked
        work = np.zeros((len(runs), 6), np.int64)
        work[:, 0], work[:, 1], work[:, 2], work[:, 4] = runs[:, FUNCTION], core.inputs, core.inputs, runs[:, DATA]
        coords = np.full((len(runs), len(self.target.axes)), -1, np.int64)
        coords[:, -1] = 0
        row, column = divmod(runs[:, ADDRESS], core.columns)
        stream = Stream(runs[:, in_order.KIND].copy(), coords, row, column, np.zeros(len(runs), np.int64), work)
        return Program(stream, ticks, parts, self.input_vectors, self.columns * self.cores, int(row.max()) + 1)

    # --- Numbers -----------------------------------------------------------------------------------------------------

    def channels(self) -> Iterator[tuple[int, ...]]:
        """The channels in use."""
        return ((channel,) for channel in range(self.mapping.channels))

    def bank_contents(self, channel: tuple[int, ...], arrays: Mapping[str, Array]) -> Array:
        """Banks are empty: the host writes what they hold."""
        core = self.target.device.core
        return np.zeros((*self.target.axes[:-1], 1, self.program.bank_rows, core.columns, core.lanes), np.int64)

    def exchange(self, channel: tuple[int, ...], arrays: Mapping[str, Array]) -> Array:
        """What the host writes, operand by operand, and zeros for what it reads."""
        points, good = self._points(channel)
        values = [np.where(good, arrays[o.tensor][self.kernel.indices(o, points)], 0) for o in self.kernel.operands]
        return np.concatenate([*values, np.zeros_like(values[0])])

    def add_results(self, channel: tuple[int, ...], exchange: Array, result: Array) -> None:
        """Put what the host read where it belongs, in place."""
        points, good = self._points(channel)
        where = self.kernel.indices(self.kernel.statement.target, points[good])
        np.add.at(result, where, exchange[self.input_vectors :][good])

    def _points(self, channel: tuple[int, ...]) -> tuple[Ints, NDArray[np.bool_]]:
        """int64[columns x cores, lanes]: the points of the loops, and whether there are such."""
        shape = (self.columns * self.cores, self.target.device.core.lanes)
        local = np.arange(np.prod(shape)).reshape(shape)
        at = channel[0] * self.channel_points + local
        good = (local < self.channel_points) & (at < self.kernel.points)
        return np.where(good, at, 0), good
