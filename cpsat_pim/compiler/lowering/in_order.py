"""Contractions on devices whose controller issues commands in order to all cores of a channel (AiM, UPMEM).

AiM multiplies the global buffer with a row of every bank; the host sets the one sum of each bank before and reads it
after. Its instructions begin at column 0, so every tile of every output has a row of its own. UPMEM gathers sums in a
register of many lanes and drains them together; its commands stand for a processor's instructions (`docs/devices.md`).
"""

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any

import numpy as np
from attrs import frozen
from numpy.typing import NDArray

from cpsat_pim.compiler.lowering.broadcast import Elements
from cpsat_pim.compiler.lowering.in_order_stream import ADDRESS, FUNCTION, InOrderStream
from cpsat_pim.compiler.lowering.in_order_target import InOrderTarget
from cpsat_pim.compiler.lowering.program import COMPUTE, LOADS, STORES, Program
from cpsat_pim.compiler.mapping import Contraction
from cpsat_pim.compiler.mapping.broadcast import BroadcastMapping, Passes
from cpsat_pim.compiler.mapping.contraction import OUTPUTS
from cpsat_pim.compiler.mapping.mapping import UNUSED
from tables.commands import in_order
from tables.commands.steps import ceiling
from tracesim.commands import Function, Stream

Ints = NDArray[np.int64]
Array = NDArray[Any]

#: Columns of a table of runs behind those of all streams: registers, lane, first vector of the exchange buffer.
TARGET, SOURCE, LANE, DATA = range(6, 10)


def problem(mapping: BroadcastMapping, contraction: Contraction, target: InOrderTarget) -> str | None:
    """Why the device cannot run a mapping, or None."""
    core = target.device.core
    passes = mapping.passes(contraction, target.axes, core.lanes)
    if passes.tile > core.inputs:
        return f"needs {passes.tile} input columns, there are {core.inputs}"
    if contraction.inputs is not None and any(owner not in (UNUSED, OUTPUTS) for owner in mapping.owners):
        return "inputs are the same for all cores"
    if not target.sets_scalars and passes.outputs > core.accumulators * core.lanes:
        return f"needs {passes.outputs} sums, there are {core.accumulators * core.lanes}"
    matrices = passes.batches * passes.outputs
    rows = matrices * passes.tiles if target.sets_scalars else ceiling(matrices * passes.columns, core.columns)
    return f"needs {rows} rows, there are {core.rows}" if rows > core.rows else mapping.splits_problem(target.channels)


@frozen(slots=False, eq=False)
class InOrderContraction(InOrderStream):
    """A mapped contraction: its runs, its stream, and where its elements are."""

    contraction: Contraction
    mapping: BroadcastMapping
    target: InOrderTarget

    @cached_property
    def elements(self) -> Elements:
        """The elements that every pass meets."""
        return Elements(self.contraction, self.mapping, self.target.axes, self.target.device.core.lanes)

    @cached_property
    def passes(self) -> Passes:
        """What one core computes."""
        return self.elements.passes

    @cached_property
    def _loaded_vectors(self) -> int:
        """Input vectors: those of every vector, or as many vectors of ones as a tile has."""
        p = self.passes
        return p.batches * p.shared * p.columns if self.contraction.inputs is not None else p.tile

    @property
    def input_vectors(self) -> int:
        """Vectors of the exchange buffer before the results; the last is zero."""
        return self._loaded_vectors + 1

    @cached_property
    def drains(self) -> int:
        """Reads of results: of every sum (AiM), or of every register of sums (UPMEM)."""
        p = self.passes
        if self.target.sets_scalars:
            return p.count * (p.tiles if self.is_input_stationary else 1)
        return p.batches * p.shared * ceiling(p.outputs, self.target.device.core.lanes)

    @property
    def is_input_stationary(self) -> bool:
        """Whether the sums of a depth tile are read before the next is loaded."""
        return self.mapping.order == "input-stationary" and self.passes.tiles > 1

    # --- Runs --------------------------------------------------------------------------------------------------------

    @cached_property
    def runs(self) -> Ints:
        """Runs of one channel."""
        if not self.target.sets_scalars:
            return self._register_runs()
        return self._scalar_runs()

    def _scalar_runs(self) -> Ints:
        """AiM: every step has a load, a sum set, products and a sum read, of which some are left out. Steps are tiles
        within outputs or outputs within tiles; a single tile is loaded once for all outputs, ones are loaded once."""
        p, is_input_stationary = self.passes, self.is_input_stationary
        steps = (p.tiles, p.outputs) if is_input_stationary else (p.outputs, p.tiles)
        result, outer, inner = (axis.ravel() for axis in np.indices((p.batches * p.shared, *steps)))
        tile, output = (outer, inner) if is_input_stationary else (inner, outer)
        width = np.minimum(p.tile, p.columns - tile * p.tile)
        load, sets, macs, reads = range(4)
        table = np.zeros((len(result), 4, DATA + 1), np.int64)
        table[..., in_order.ROW], table[..., in_order.COUNT] = -1, 1
        for number, (does, part) in enumerate(
            (("load", LOADS), ("load_scalars", LOADS), ("mac_tree", COMPUTE), ("drain_scalars", STORES))
        ):
            table[:, number, in_order.KIND], table[:, number, in_order.PART] = self.target.command(does), part
            table[:, number, FUNCTION] = Function[does.upper()]
        row = (result // p.shared * p.outputs + output) * p.tiles + tile
        number = result * p.outputs + output
        table[:, load, in_order.COUNT], table[:, load, DATA] = width, result * p.columns + tile * p.tile
        table[:, sets, TARGET], table[:, sets, DATA] = self._sum, self._loaded_vectors
        table[:, macs, in_order.COUNT], table[:, macs, TARGET], table[:, macs, in_order.ROW] = width, self._sum, row
        table[:, macs, ADDRESS] = row * self.target.device.core.columns
        table[:, reads, SOURCE] = self._sum
        table[:, reads, DATA] = self.input_vectors + (number * p.tiles + tile if is_input_stationary else number)
        kept = np.ones((len(result), 4), np.bool_)
        if self.contraction.inputs is None:
            kept[:, load] = result + tile + output == 0
            table[:, load, DATA] = 0
        elif p.tiles == 1 or is_input_stationary:
            kept[:, load] = output == 0
        if not is_input_stationary:
            kept[:, sets], kept[:, reads] = tile == 0, tile == p.tiles - 1
        return np.asarray(table[kept], np.int64)

    def _register_runs(self) -> Ints:
        """UPMEM: outputs within tiles; all sums of a result stay in registers."""
        p, lanes = self.passes, self.target.device.core.lanes
        results, registers = p.batches * p.shared, ceiling(p.outputs, lanes)
        result, tile, output = np.ogrid[:results, : p.tiles, : p.outputs]
        width = np.minimum(p.tile, p.columns - tile * p.tile)
        loads = self._table((results, p.tiles, 1), "load", LOADS)
        loads[..., in_order.COUNT], loads[..., DATA] = width, result * p.columns + tile * p.tile
        macs = self._table((results, p.tiles, p.outputs), "mac_tree", COMPUTE)
        macs[..., in_order.COUNT], macs[..., TARGET], macs[..., LANE] = (
            width,
            self._sum + output // lanes,
            output % lanes,
        )
        macs[..., ADDRESS] = (result // p.shared * p.outputs + output) * p.columns + tile * p.tile
        drains = self._table((results, registers), "drain_clear", STORES)
        register = np.arange(registers)
        number = np.arange(results)[:, None] * registers + register
        drains[..., SOURCE] = self._sum + register
        drains[..., DATA] = self.input_vectors + number * int(np.prod(self.target.axes))
        has_inputs = self.contraction.inputs is not None
        tiles = np.concatenate([loads, macs], axis=2) if has_inputs else macs
        runs = np.concatenate([tiles.reshape(results, -1, DATA + 1), drains], axis=1).reshape(-1, DATA + 1)
        return runs if has_inputs else np.concatenate([loads[:1, :1].reshape(1, -1), runs])  # ones, loaded once

    def _table(self, shape: tuple[int, ...], does: str, part: int) -> Ints:
        """int64[*shape, 10]: runs of a command, one each."""
        table = np.zeros((*shape, DATA + 1), np.int64)
        table[..., in_order.KIND], table[..., in_order.ROW] = self.target.command(does), -1
        table[..., in_order.COUNT], table[..., in_order.PART], table[..., FUNCTION] = 1, part, Function[does.upper()]
        return table

    @property
    def _sum(self) -> int:
        """The first register of sums."""
        return self.target.device.core.inputs

    @cached_property
    def program(self) -> Program:
        """The stream with its ticks."""
        ticks, parts = self._walked
        addresses = self.runs[:, ADDRESS] + self.runs[:, in_order.COUNT]
        rows = ceiling(int(addresses.max()), self.target.device.core.columns)
        cores = 1 if self.target.sets_scalars else int(np.prod(self.target.axes))
        return Program(self._stream(), ticks, parts, self.input_vectors, self.drains * cores, rows)

    def _stream(self) -> Stream:
        counts = self.runs[:, in_order.COUNT]
        run = np.repeat(np.arange(len(self.runs)), counts)
        at = np.arange(len(run)) - np.repeat(np.cumsum(counts) - counts, counts)
        of = self.runs[run]
        is_load, is_mac = of[:, FUNCTION] == Function.LOAD, of[:, FUNCTION] == Function.MAC_TREE
        work = np.zeros((len(run), 6), np.int64)
        work[:, 0], work[:, 1], work[:, 2] = of[:, FUNCTION], of[:, TARGET] + is_load * at, of[:, SOURCE] + is_mac * at
        work[:, 3], work[:, 4] = of[:, LANE], of[:, DATA] + is_load * at
        coords = np.full((len(run), len(self.target.axes)), -1, np.int64)
        coords[:, -1] = 0
        address = of[:, ADDRESS] + is_mac * at
        columns = self.target.device.core.columns
        return Stream(
            of[:, 0].copy(), coords, address // columns, address % columns, np.zeros(len(run), np.int64), work
        )

    # --- Numbers -----------------------------------------------------------------------------------------------------

    def channels(self) -> Iterator[tuple[int, ...]]:
        """The channels in use, by their part of every class."""
        return self.elements.channels()

    def bank_contents(self, channel: tuple[int, ...], arrays: Mapping[str, Array]) -> Array:
        """What the banks of a channel hold, [axes..., 1, rows, columns, lanes]."""
        core, p = self.target.device.core, self.passes
        values = self.elements.matrix(channel, arrays[self.contraction.matrix.tensor])
        banks = np.zeros((*self.target.axes[:-1], 1, self.program.bank_rows, core.columns, core.lanes), values.dtype)
        matrix = np.arange(p.batches * p.outputs).reshape(p.batches, p.outputs, 1, 1)
        column = np.arange(p.columns)[:, None]
        address = matrix * p.columns + column
        if self.target.sets_scalars:
            address = (matrix * p.tiles + column // p.tile) * core.columns + column % p.tile
        where: list[Any] = [self.elements.used[:, axis] for axis in range(len(self.target.axes) - 1)]
        banks[(*where, 0, address // core.columns, address % core.columns)] = values
        return banks

    def exchange(self, channel: tuple[int, ...], arrays: Mapping[str, Array]) -> Array:
        """The exchange buffer of a channel: inputs, a vector of zeros, and zeros for the results."""
        lanes = self.target.device.core.lanes
        inputs = np.ones((self._loaded_vectors, lanes), np.int64)
        if self.contraction.inputs is not None:
            inputs = self.elements.inputs(channel, arrays[self.contraction.inputs.tensor])[:, 0]
        return np.concatenate([inputs, np.zeros((1 + self.program.output_vectors, lanes), inputs.dtype)])

    def add_results(self, channel: tuple[int, ...], exchange: Array, result: Array) -> None:
        """Add what a channel delivered to the result in place."""
        p, lanes, axes = self.passes, self.target.device.core.lanes, self.target.axes
        vectors = exchange[self.input_vectors :]
        number = np.ravel_multi_index(tuple(self.elements.used.T), axes)
        if self.target.sets_scalars:
            sums = vectors.reshape(p.count, -1, lanes).sum(axis=1)[:, number]
        else:
            registers = vectors.reshape(p.batches * p.shared, -1, int(np.prod(axes)), lanes).swapaxes(1, 2)
            sums = registers.reshape(p.batches * p.shared, registers.shape[1], -1)[:, number, : p.outputs]
            sums = sums.swapaxes(1, 2).reshape(p.count, len(number))
        padded = np.zeros((*sums.shape, lanes), sums.dtype)
        padded[..., 0] = sums
        self.elements.add_results(channel, padded, result)
