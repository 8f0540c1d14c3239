"""Contractions on devices that send the same inputs to all cores of a channel: where every element is.

The exchange buffer of a channel holds the input columns of every vector, then the results.
"""

from collections.abc import Iterator
from functools import cached_property
from itertools import product
from typing import Any

import numpy as np
from attrs import frozen
from numpy.typing import NDArray

from cpsat_pim.compiler.mapping import CLASSES, Contraction
from cpsat_pim.compiler.mapping.broadcast import BroadcastMapping, Passes
from cpsat_pim.compiler.mapping.contraction import BATCH, DEPTH, OUTPUTS, SHARED

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
Array = NDArray[Any]


@frozen(slots=False, eq=False)
class Elements:
    """The elements of a contraction that the passes of every accumulator meet.

    A channel is named by its part of every class. An accumulator is named by coordinates along `axes`.
    """

    contraction: Contraction
    mapping: BroadcastMapping
    axes: tuple[int, ...]
    lanes: int

    @cached_property
    def passes(self) -> Passes:
        """What one accumulator computes."""
        return self.mapping.passes(self.contraction, self.axes, self.lanes)

    def channels(self) -> Iterator[tuple[int, ...]]:
        """The parts of every class that the channels in use compute."""
        return product(*map(range, self.mapping.splits))

    @cached_property
    def used(self) -> Ints:
        """int64[accumulators in use, axes]: coordinates; along an unused axis only the first."""
        sizes = [size if owner >= 0 else 1 for size, owner in zip(self.axes, self.mapping.owners, strict=True)]
        return np.stack(np.unravel_index(np.arange(np.prod(sizes)), sizes), axis=1).astype(np.int64)

    def matrix(self, channel: tuple[int, ...], values: Array) -> Array:
        """[batch, outputs, columns, accumulators in use, lanes]: what meets the inputs in every pass."""
        p, n = self.passes, len(self.used)
        outputs = np.arange(p.outputs)[None, :, None, None, None]
        columns = np.arange(p.columns)[None, None, :, None, None]
        (b, good_b), (o, good_o), (k, good_k) = (
            self._element(number, channel, local, is_matrix=True)
            for number, local in (
                (BATCH, np.arange(p.batches)[:, None, None, None, None]),
                (OUTPUTS, self._spread("outputs", outputs)),
                (DEPTH, self._spread("depth", columns)),
            )
        )
        shape = (p.batches, p.outputs, p.columns, n, self.lanes)
        return self._gather(
            values, self.contraction.matrix, (b, np.zeros_like(b), o, k), good_b & good_o & good_k, shape
        )

    def inputs(self, channel: tuple[int, ...], values: Array | None, of_cores: bool = False) -> Array:
        """[input columns, 1, lanes]: the inputs of every vector, the same for all cores; or those of every accumulator
        in use, [input columns, accumulators, lanes]."""
        p = self.passes
        if values is None or self.contraction.inputs is None:
            return np.zeros((0, 1, self.lanes), np.int64)
        number = len(self.used) if of_cores else 1
        shape = (p.batches, p.shared, p.columns, number, self.lanes)
        b, good_b = self._element(BATCH, channel, np.arange(p.batches)[:, None, None, None, None], of_cores)
        s, good_s = self._element(SHARED, channel, np.arange(p.shared)[None, :, None, None, None], of_cores)
        columns = np.arange(p.columns)[None, None, :, None, None]
        k, good_k = self._element(DEPTH, channel, self._spread("depth", columns), of_cores)
        good = good_b & good_s & good_k
        zeros = np.zeros((1, 1, 1, 1, 1), np.int64)
        return self._gather(values, self.contraction.inputs, (b, s, zeros, k), good, shape).reshape(
            -1, number, self.lanes
        )

    def add_results(self, channel: tuple[int, ...], vectors: Array, result: Array) -> None:
        """Add results [batch, shared, outputs, accumulators in use, lanes] in place: the host's part of the sum."""
        p = self.passes
        shape = (p.batches, p.shared, p.outputs, len(self.used), self.lanes)
        b, good_b = self._element(BATCH, channel, np.arange(p.batches)[:, None, None, None, None])
        s, good_s = self._element(SHARED, channel, np.arange(p.shared)[None, :, None, None, None])
        outputs = np.arange(p.outputs)[None, None, :, None, None]
        o, good_o = self._element(OUTPUTS, channel, self._spread("outputs", outputs))
        good = np.broadcast_to(good_b & good_s & good_o, shape)
        zeros = np.zeros((1, 1, 1, 1, 1), np.int64)
        points = tuple(np.broadcast_to(part, shape)[good] for part in (b, s, o, zeros))
        where = self.contraction.indices(self.contraction.statement.target, points)
        np.add.at(result, where, vectors.reshape(shape)[good])

    # --- Places ------------------------------------------------------------------------------------------------------

    def _spread(self, name: str, numbers: Ints) -> Ints:
        """Elements behind numbers of columns: every lane one of its own along the class of the lanes."""
        if self.mapping.lanes == name:
            return np.asarray(numbers * self.lanes + np.arange(self.lanes), np.int64)
        return numbers

    @cached_property
    def _parts(self) -> Ints:
        """int64[accumulators in use, classes]: the part of every class that they compute."""
        parts = np.zeros((len(self.used), len(CLASSES)), np.int64)
        for axis, owner in enumerate(self.mapping.owners):
            if owner >= 0:
                parts[:, owner] = parts[:, owner] * self.axes[axis] + self.used[:, axis]
        return parts

    def _element(
        self, number: int, channel: tuple[int, ...], local: Ints, of_cores: bool = True, is_matrix: bool = False
    ) -> tuple[Ints, Bools]:
        """The element of a class that an accumulator's local one is, and whether there is such an element; the matrix
        also has those of the hull that no result needs."""
        chunk = self.mapping.channel_extents(self.contraction)[number]
        size = self.mapping.core_extents(self.contraction, self.axes)[number]
        inside = local + (self._parts[:, number, None] * size if of_cores else 0)
        at = channel[number] * chunk + inside
        good = (local < size) & (inside < chunk) & (at < self.contraction.extents[number])
        if self.contraction.hull and not is_matrix:
            good = good & self.contraction.is_needed(number, at)
        return np.where(good, at, 0), good

    def _gather(
        self, tensor: Array, access: Any, points: tuple[Ints, ...], good: Bools, shape: tuple[int, ...]
    ) -> Array:
        where = self.contraction.indices(access, tuple(np.broadcast_to(part, shape) for part in points))
        return np.where(np.broadcast_to(good, shape), tensor[where], 0)
