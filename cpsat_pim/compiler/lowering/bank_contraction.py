"""Contractions on devices with an all-bank mode (HBM-PIM): mapping to commands, contents of banks, results."""

from collections.abc import Iterator, Mapping
from functools import cached_property
from itertools import chain
from typing import Any

import numpy as np
from attrs import frozen
from numpy.typing import NDArray

from cpsat_pim.compiler.lowering.bank_commands import program_of
from cpsat_pim.compiler.lowering.bank_mode import (
    MOST_PARKED,
    PROGRAM_WRITES,
    BankTarget,
    build_passes,
    entering,
    host_moves,
    input_columns,
    leaving,
    loses_barrier,
    parking,
)
from cpsat_pim.compiler.lowering.bank_stream import BankStream
from cpsat_pim.compiler.lowering.broadcast import Elements
from cpsat_pim.compiler.lowering.program import HOST_READS, HOST_WRITES, Program
from cpsat_pim.compiler.mapping import Contraction
from cpsat_pim.compiler.mapping.broadcast import BroadcastMapping, Passes
from cpsat_pim.compiler.mapping.contraction import OUTPUTS, SHARED
from cpsat_pim.compiler.mapping.mapping import UNUSED
from tables.commands.steps import ceiling

Ints = NDArray[np.int64]
Array = NDArray[Any]


def problem(mapping: BroadcastMapping, contraction: Contraction, target: BankTarget) -> str | None:
    """Why the device cannot run a mapping, or None."""
    core, passes = target.device.core, mapping.passes(contraction, target.axes, target.device.core.lanes)
    if contraction.inputs is not None and passes.tile > core.inputs:
        return f"needs {passes.tile} input columns, there are {core.inputs}"
    if mapping.keeps_inputs and (passes.columns > core.inputs or passes.tile < passes.columns):
        return f"keeps {passes.columns} input columns in {passes.tile}"
    if contraction.inputs is not None and any(owner not in (UNUSED, OUTPUTS) for owner in _alike(mapping)):
        return "inputs are the same for all accumulators, and for all cores if they are not stored"
    if mapping.stores_inputs and (contraction.inputs is None or SHARED in mapping.owners):
        return "only inputs are stored, and vectors are not divided over cores"
    if mapping.stores_inputs and passes.tiles > 1 and core.inputs % passes.tile:
        return f"loads {passes.tile} stored columns at a time, expected a divisor of {core.inputs}"
    odd = input_columns(passes, core.inputs) + passes.count * core.accumulators
    if matrix_rows(passes, target) > core.rows or ceiling(odd, core.columns) > core.rows:
        return f"needs more than {core.rows} rows"
    return mapping.splits_problem(target.channels)


def _alike(mapping: BroadcastMapping) -> tuple[int, ...]:
    """Owners of the axes along which inputs are the same."""
    return mapping.owners[-1:] if mapping.stores_inputs else mapping.owners


def matrix_rows(passes: Passes, target: BankTarget) -> int:
    """Rows of the even banks that the matrix takes."""
    core = target.device.core
    return ceiling(passes.batches * passes.outputs * passes.stride(core.inputs) * core.accumulators, core.columns)


@frozen(slots=False, eq=False)
class BankContraction(BankStream):
    """A mapped contraction: its runs, its stream, and where its elements are."""

    contraction: Contraction
    mapping: BroadcastMapping
    target: BankTarget

    @cached_property
    def elements(self) -> Elements:
        """The elements that every pass meets."""
        return Elements(self.contraction, self.mapping, self.target.axes, self.target.device.core.lanes)

    @cached_property
    def runs(self) -> Ints:
        """Runs of one channel, `bank_mode.RUN_COLUMNS` columns; as many writes of the program as keep all barriers, or,
        if inputs are stored, as many reads that park before the host's writes."""
        if self.mapping.stores_inputs:
            choices = (
                np.concatenate([*parking(reads), *self._written, self._runs(1)]) for reads in range(MOST_PARKED + 1)
            )
        else:
            choices = (self._runs(writes) for writes in range(1, PROGRAM_WRITES + 1))
        first = next(choices)
        kept = (runs for runs in chain((first,), choices) if not loses_barrier(self.target, runs))
        return next(kept, first)

    def _runs(self, writes: int) -> Ints:
        passes, count = self.elements.passes, len(self._read_columns)
        behind = input_columns(passes, self.target.device.core.inputs)
        return np.concatenate(
            [
                *entering(self.target, writes),
                build_passes(self.target, passes, self.has_inputs, self.mapping.mode_bank),
                *leaving(self.target),
                *host_moves(self.target, HOST_READS, behind, count, len(self._cores), self._step, self.input_vectors),
            ]
        )

    @property
    def _written(self) -> Iterator[Ints]:
        """The host's writes of stored inputs: one vector after the other, or all at once if they have no gaps."""
        passes, cores = self.elements.passes, len(self._cores)
        stride, vectors = passes.stride(self.target.device.core.inputs), passes.batches * passes.shared
        size = passes.columns
        if stride == size:
            size, vectors = size * vectors, 1
        for vector in range(vectors):
            yield from host_moves(self.target, HOST_WRITES, vector * stride, size, cores, first=vector * size * cores)

    @property
    def has_inputs(self) -> bool:
        """Whether there are factors."""
        return self.contraction.inputs is not None

    @cached_property
    def program(self) -> Program:
        """The stream with its ticks."""
        outputs = len(self._read_columns) * len(self._cores)
        return program_of(self.target, self.runs, self.banks, self.input_vectors, outputs)

    @cached_property
    def input_vectors(self) -> int:
        """Vectors of the exchange buffer before the results."""
        passes = self.elements.passes
        copies = len(self._cores) if self.mapping.stores_inputs else 1
        return passes.batches * passes.shared * passes.columns * copies * self.has_inputs

    # --- Results -----------------------------------------------------------------------------------------------------

    @cached_property
    def _uses_accumulators(self) -> bool:
        return self.mapping.owners[-1] != UNUSED

    @cached_property
    def _step(self) -> int:
        """Distance of the columns of an odd bank that hold results in use."""
        return 1 if self._uses_accumulators else self.target.device.core.accumulators

    @cached_property
    def _read_columns(self) -> Ints:
        """Columns of the odd banks that hold results in use, in order."""
        return np.arange(0, self.elements.passes.count * self.target.device.core.accumulators, self._step)

    @cached_property
    def _cores(self) -> Ints:
        """Coordinates of the cores in use, those of other bank groups next to each other."""
        used = [owner != UNUSED for owner in self.mapping.owners[:-1]]
        cores = self.target.cores
        return np.asarray(cores[((cores == 0) | np.array(used)).all(axis=1)], np.int64)

    @cached_property
    def banks(self) -> Ints:
        """The banks that the host reads, in turn."""
        return self.target.banks_of(self._cores, 1)

    # --- Numbers -----------------------------------------------------------------------------------------------------

    def channels(self) -> Iterator[tuple[int, ...]]:
        """The channels in use, by their part of every class."""
        return self.elements.channels()

    def bank_contents(self, channel: tuple[int, ...], arrays: Mapping[str, Array]) -> Array:
        """What the banks of a channel hold, [axes..., banks, rows, columns, lanes]: the matrix in the even ones."""
        values = arrays[self.contraction.matrix.tensor]
        core, passes = self.target.device.core, self.elements.passes
        wide = core.accumulators
        banks = np.zeros(
            (*self.target.axes[:-1], core.banks, self.program.bank_rows, core.columns, core.lanes), values.dtype
        )
        stride = passes.stride(core.inputs)
        first = (np.arange(passes.batches * passes.outputs) * stride).reshape(passes.batches, passes.outputs)
        address = (first[:, :, None] + np.arange(passes.columns))[..., None] * wide + self.elements.used[:, -1]
        where: list[Any] = [self.elements.used[:, axis] for axis in range(len(self.target.axes) - 1)]
        banks[(*where, 0, address // core.columns, address % core.columns)] = self.elements.matrix(channel, values)
        return banks

    def exchange(self, channel: tuple[int, ...], arrays: Mapping[str, Array]) -> Array:
        """The exchange buffer of a channel: inputs, and zeros for the results."""
        values = arrays[self.contraction.inputs.tensor] if self.contraction.inputs is not None else None
        if self.mapping.stores_inputs:
            cores = self.elements.used[:, :-1].tolist()
            first = [cores.index(core) for core in self._cores.tolist()]  # the accumulators of a core have the same
            inputs = self.elements.inputs(channel, values, of_cores=True)[:, first]
        else:
            inputs = self.elements.inputs(channel, values)
        inputs = inputs.reshape(-1, self.target.device.core.lanes)
        return np.concatenate([inputs, np.zeros((self.program.output_vectors, inputs.shape[1]), inputs.dtype)])

    def add_results(self, channel: tuple[int, ...], exchange: Array, result: Array) -> None:
        """Add what a channel delivered to the result in place."""
        passes, lanes = self.elements.passes, self.target.device.core.lanes
        wide = self.target.axes[-1] if self._uses_accumulators else 1
        vectors = exchange[self.input_vectors :].reshape(passes.count, wide, len(self._cores), lanes)
        place = {tuple(core): number for number, core in enumerate(self._cores.tolist())}
        core = np.array([place[tuple(used[:-1])] for used in self.elements.used.tolist()])
        self.elements.add_results(channel, vectors[:, self.elements.used[:, -1], core], result)
