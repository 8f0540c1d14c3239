"""Executes the commands of a compiled kernel on numbers and compares the result with numpy's."""

from collections.abc import Iterator
from collections.abc import Mapping as Names
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from cpsat_pim.compiler.language import Kernel, KernelMistake, evaluate
from cpsat_pim.compiler.lowering import Lowered
from cpsat_pim.compiler.lowering.data import Placement
from cpsat_pim.compiler.lowering.program import Program
from cpsat_pim.compiler.mapping import Contraction
from cpsat_pim.compiler.mapping.contraction import DEPTH
from cpsat_pim.compiler.precision import fp16_result
from cpsat_pim.compiler.target import Target
from cpsat_pim.device import Device
from cpsat_pim.device.rules import rules_of
from tracesim.commands import execute

Array = NDArray[Any]

#: Points of the loops up to which all channels are executed; of larger kernels, those of the first and last results.
ALL_POINTS = 1 << 22


def compare_on_numbers(
    kernel: Kernel, contraction: Contraction, lowered: Lowered, target: Target, seed: int = 0
) -> int:
    """The number of channels that were executed on random small integers, after all their results were right.

    Raises:
        KernelMistake: a result differs from the reference.
    """
    contraction = contraction.with_hull(lowered.mapping.hull)
    rng = np.random.default_rng(seed)
    arrays = {p.name: rng.integers(-4, 5, p.extents) for p in kernel.parameters}
    result, touched, channels = executed(kernel, contraction, lowered, target, arrays)
    expected = evaluate(kernel, arrays)[contraction.statement.target.tensor]
    if not (result == np.where(touched, expected, 0)).all():
        raise KernelMistake(f"{kernel.name}: the commands compute another result than numpy")
    return channels


def compare_on_fp16(kernel: Kernel, contraction: Contraction, lowered: Lowered, target: Target, seed: int = 0) -> int:
    """The same on random FP16 numbers: every bit of every result, in the order of sums that the mapping states
    (`precision`).

    Raises:
        KernelMistake: a result differs.
    """
    contraction = contraction.with_hull(lowered.mapping.hull)
    rng = np.random.default_rng(seed)
    arrays = {p.name: rng.standard_normal(p.extents).astype(np.float16) for p in kernel.parameters}
    result, touched, channels = executed(kernel, contraction, lowered, target, arrays)
    inputs = arrays[contraction.inputs.tensor] if contraction.inputs else None
    flat = fp16_result(lowered.mapping, contraction, target, arrays[contraction.matrix.tensor], inputs)
    points = np.ix_(*(np.arange(extent) for extent in (*contraction.extents[:DEPTH], 1)))
    expected = np.zeros_like(result)
    needed = np.ones_like(flat, np.bool_)
    for number in range(DEPTH):
        needed &= contraction.is_needed(number, points[number])[..., 0]
    where = contraction.indices(contraction.statement.target, points)
    expected[tuple(index[..., 0][needed] for index in where)] = flat[needed]
    if not (result == np.where(touched, expected, 0)).all():
        raise KernelMistake(f"{kernel.name}: the commands compute another FP16 result than the mapping states")
    return channels


def executed(
    kernel: Kernel,
    contraction: Contraction,
    lowered: Lowered,
    target: Target,
    arrays: Names[str, Array],
    every: bool = False,
) -> tuple[Any, Any, int]:
    """The sum of what the channels deliver, which results they touch, and how many there are; of a large kernel those
    of the first and last results, or `every` channel."""
    placement = Placement(lowered, contraction, target)
    matrix = arrays[contraction.matrix.tensor]
    channels = list(placement.channels()) if every else _chosen(placement)
    inputs = arrays[contraction.inputs.tensor] if contraction.inputs else None
    extents = kernel.tensor(contraction.statement.target.tensor).extents
    result = np.zeros(extents, np.int64 if matrix.dtype == np.int64 else np.float64)
    touched = np.zeros(extents, np.int64)
    for channel in channels:
        exchange = np.zeros((placement.input_vectors + placement.output_vectors, lowered.share.lanes), matrix.dtype)
        exchange[: placement.input_vectors] = placement.input_contents(channel, inputs)
        execute(target.rules, lowered.stream, placement.bank_contents(channel, matrix), exchange)
        placement.add_results(channel, exchange[placement.input_vectors :], result)
        placement.add_results(channel, np.ones_like(exchange[placement.input_vectors :], np.int64), touched)
    return result, touched > 0, len(channels)


class Executable(Protocol):
    """What is needed to execute a lowered kernel on numbers, channel by channel."""

    @property
    def program(self) -> Program:
        """The stream of every channel."""
        ...

    def channels(self) -> Iterator[tuple[int, ...]]:
        """The channels in use."""
        ...

    def bank_contents(self, channel: tuple[int, ...], arrays: Names[str, Array]) -> Array:
        """What the banks of a channel hold before, [axes..., banks, rows, columns, lanes]."""
        ...

    def exchange(self, channel: tuple[int, ...], arrays: Names[str, Array]) -> Array:
        """The exchange buffer of a channel before, [vectors, lanes]."""
        ...

    def add_results(self, channel: tuple[int, ...], exchange: Array, result: Array) -> None:
        """Add what a channel delivered to the result in place."""
        ...


def execute_on_numbers(kernel: Kernel, lowered: Executable, device: Device, seed: int = 0) -> int:
    """The number of channels that were executed on random small integers, after all their results were right.

    Of a large kernel the first and the last results are executed, with every part of their sums.

    Raises:
        KernelMistake: a result differs from the reference.
    """
    rng = np.random.default_rng(seed)
    arrays = {p.name: rng.integers(-4, 5, p.extents) for p in kernel.parameters}
    result = np.zeros(kernel.tensor(kernel.result).extents, np.int64)
    touched, channels = np.zeros_like(result), list(lowered.channels())
    points = np.prod([loop.extent for loop in kernel.statements[0].loops], dtype=np.int64)
    if points > ALL_POINTS:
        channels = [channel for channel in channels if channel[:DEPTH] in (channels[0][:DEPTH], channels[-1][:DEPTH])]
    for channel in channels:
        exchange = lowered.exchange(channel, arrays)
        execute(rules_of(device), lowered.program.stream, lowered.bank_contents(channel, arrays), exchange)
        lowered.add_results(channel, exchange, result)
        lowered.add_results(channel, np.ones_like(exchange), touched)
    if not (result == np.where(touched > 0, evaluate(kernel, arrays)[kernel.result], 0)).all():
        raise KernelMistake(f"{kernel.name}: the commands compute another result than numpy")
    return len(channels)


def _chosen(placement: Placement) -> list[tuple[int, ...]]:
    """All channels, or of a large kernel those of the first and the last results, with every part of their sums."""
    channels = list(placement.channels())
    if np.prod(placement.contraction.extents, dtype=np.int64) <= ALL_POINTS:
        return channels
    return [channel for channel in channels if channel[:DEPTH] in (channels[0][:DEPTH], channels[-1][:DEPTH])]
