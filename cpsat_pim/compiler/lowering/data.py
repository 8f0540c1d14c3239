"""Where the elements of a contraction are: in banks, in the exchange buffer, and back in the result."""

from collections.abc import Iterator
from functools import cached_property
from itertools import product
from typing import Any

import numpy as np
from attrs import frozen
from numpy.typing import NDArray

from cpsat_pim.compiler.lowering.contraction import Lowered, cores_beside, reduced_axes, step_places
from cpsat_pim.compiler.mapping import CLASSES, Contraction
from cpsat_pim.compiler.mapping.contraction import BATCH, DEPTH, OUTPUTS, SHARED
from cpsat_pim.compiler.target import Target
from tables.commands.steps import ceiling
from tables.commands.walk import ADDRESS, MACS

Ints = NDArray[np.int64]
Array = NDArray[Any]


@frozen(slots=False, eq=False)
class Placement:
    """The places of a lowered contraction. A channel is named by its part of every class."""

    lowered: Lowered
    contraction: Contraction
    target: Target

    def channels(self) -> Iterator[tuple[int, ...]]:
        """The parts of every class that the channels in use compute."""
        return product(*map(range, self.lowered.mapping.splits))

    @cached_property
    def bank_columns(self) -> int:
        """Columns of a bank in use."""
        steps = self.lowered.steps
        return int((steps[:, ADDRESS] + steps[:, MACS]).max())

    @cached_property
    def input_vectors(self) -> int:
        """Vectors of the exchange buffer that hold inputs; the results follow."""
        return self.lowered.input_vectors

    @cached_property
    def output_vectors(self) -> int:
        """Vectors of the exchange buffer that hold results."""
        share, drains = self.lowered.share, self.lowered.drains
        return share.batches * share.shared * ceiling(share.outputs, share.lanes) * len(drains) * self._beside

    def bank_contents(self, channel: tuple[int, ...], matrix: Array) -> Array:
        """What the banks of a channel hold: [axes..., 1, rows, columns, lanes], zero where nothing is."""
        batch, outputs, depth = self._local_columns
        cores = self._core_parts(self._all_cores)[:, :, None, None]
        points = [
            self._global(number, channel, cores[:, number], local[None], is_matrix=True)
            for number, local in ((BATCH, batch), (OUTPUTS, outputs), (DEPTH, depth))
        ]
        (b, good_b), (n, good_n), (k, good_k) = points
        packed = self._gather(matrix, self.contraction.matrix, (b, np.zeros_like(b), n, k), good_b & good_n & good_k)
        core = self.target.device.core
        rows = ceiling(self.bank_columns, core.columns)
        banks = np.zeros((len(packed), rows * core.columns, core.lanes), packed.dtype)
        banks[:, : self.bank_columns] = packed
        return banks.reshape(*self.target.axes, 1, rows, core.columns, core.lanes)

    def input_contents(self, channel: tuple[int, ...], inputs: Array | None) -> Array:
        """The input vectors of the exchange buffer of a channel: [vectors, lanes]."""
        share, loads = self.lowered.share, self.lowered.loads
        if inputs is None or self.contraction.inputs is None:
            return np.ones((1, share.lanes), np.int64)
        result, columns = np.arange(share.batches * share.shared), ceiling(share.depth, share.lanes)
        local = np.arange(columns)[:, None] * share.lanes + np.arange(share.lanes)
        cores = self._core_parts(np.maximum(loads, 0))
        shape = (len(result), columns, len(loads), share.lanes)
        batch, good_b = self._global(BATCH, channel, cores[:, BATCH], (result // share.shared)[:, None])
        shared, good_s = self._global(SHARED, channel, cores[:, SHARED], (result % share.shared)[:, None])
        depth, good_k = self._global(DEPTH, channel, cores[:, DEPTH, None], local[:, None, :])
        good = np.broadcast_to((good_b & good_s)[:, None, :, None] & good_k[None], shape)
        b, s, k = batch[:, None, :, None], shared[:, None, :, None], depth[None]
        zeros = np.zeros((1, 1, 1, 1), np.int64)
        points = tuple(np.broadcast_to(part, shape) for part in (b, s, zeros, k))
        return self._gather(inputs, self.contraction.inputs, points, good).reshape(-1, share.lanes)

    def add_results(self, channel: tuple[int, ...], vectors: Array, result: Array) -> None:
        """Add what a channel delivered, [vectors, lanes], to the result in place: the host's part of the sum."""
        share, drains = self.lowered.share, self.lowered.drains
        number, units = np.arange(share.batches * share.shared), ceiling(share.outputs, share.lanes)
        coordinates = self._delivering(drains)
        cores = self._core_parts(coordinates)
        local = np.arange(units)[:, None] * share.lanes + np.arange(share.lanes)
        shape = (len(number), units, len(coordinates), share.lanes)
        b, good_b = self._global(BATCH, channel, cores[:, BATCH], (number // share.shared)[:, None])
        s, good_s = self._global(SHARED, channel, cores[:, SHARED], (number % share.shared)[:, None])
        n, good_n = self._global(OUTPUTS, channel, cores[:, OUTPUTS, None], local[:, None, :])
        good = np.broadcast_to((good_b & good_s)[:, None, :, None] & good_n[None], shape)
        zeros = np.zeros((1, 1, 1, 1), np.int64)
        parts = (b[:, None, :, None], s[:, None, :, None], n[None], zeros)
        points = tuple(np.broadcast_to(part, shape)[good] for part in parts)
        where = self.contraction.indices(self.contraction.statement.target, points)
        np.add.at(result, where, vectors.reshape(shape)[good])

    # --- Places ------------------------------------------------------------------------------------------------------

    @cached_property
    def _beside(self) -> int:
        return cores_beside(self.lowered.drains, reduced_axes(self.lowered.mapping, self.target), self.target)

    @cached_property
    def _all_cores(self) -> Ints:
        """int64[cores, axes]: the coordinates of every core of a channel."""
        return np.stack(np.unravel_index(np.arange(np.prod(self.target.axes)), self.target.axes), axis=1)

    def _delivering(self, drains: Ints) -> Ints:
        """The coordinates of the cores whose vectors the drains of one accumulator deliver, in their order."""
        reduce = reduced_axes(self.lowered.mapping, self.target)
        beside = [axis for axis in range(len(self.target.axes)) if drains[0, axis] < 0 and not reduce >> axis & 1]
        rows = []
        for drain in np.maximum(drains, 0):
            for values in product(*(range(self.target.axes[axis]) for axis in beside)):
                row = drain.copy()
                row[beside] = values
                rows.append(row)
        return np.array(rows)

    def _core_parts(self, coordinates: Ints) -> Ints:
        """int64[cores, classes]: the part of every class that cores compute, -1 for idle ones."""
        parts = np.zeros((len(coordinates), len(CLASSES)), np.int64)
        for axis, owner in enumerate(self.lowered.mapping.owners):
            if owner >= 0:
                parts[:, owner] = parts[:, owner] * self.target.axes[axis] + coordinates[:, axis]
        return parts

    def _global(
        self, number: int, channel: tuple[int, ...], core: Ints, local: Ints, is_matrix: bool = False
    ) -> tuple[Ints, NDArray[np.bool_]]:
        """The element of a class that a core's local one is, and whether there is such an element; the matrix also has
        those of the hull that no result needs."""
        mapping = self.lowered.mapping
        chunk = mapping.channel_extents(self.contraction)[number]
        size = mapping.core_extents(self.contraction, self.target)[number]
        inside = core * size + local
        at = channel[number] * chunk + inside
        good = (local < size) & (inside < chunk) & (at < self.contraction.extents[number])
        if self.contraction.hull and not is_matrix:
            good = good & self.contraction.is_needed(number, at)
        return np.where(good, at, 0), good

    @cached_property
    def _local_columns(self) -> tuple[Ints, Ints, Ints]:
        """int64[columns, lanes] three times: batch element, output and depth element at every place of a bank."""
        share, steps = self.lowered.share, self.lowered.steps
        batch, outputs, depth = (np.full((self.bank_columns, share.lanes), 2**40, np.int64) for _ in range(3))
        lanes = np.arange(share.lanes)
        for (result, output, tile), step in zip(step_places(share), steps, strict=True):
            if result % share.shared == 0:
                at = step[ADDRESS] + np.arange(step[MACS])
                row, along = divmod(np.arange(step[MACS]), self._width(int(tile)))
                first, column = output * share.output_tile, tile * share.depth_tile
                batch[at] = result // share.shared
                if share.is_tree:
                    outputs[at] = (first * share.lanes + row)[:, None]
                    depth[at] = (column + along)[:, None] * share.lanes + lanes
                else:
                    outputs[at] = (first + row)[:, None] * share.lanes + lanes
                    depth[at] = (column * share.lanes + along)[:, None]
        return batch, outputs, depth

    def _width(self, tile: int) -> int:
        """MACs of one output (tree) or accumulator (lanes) of a depth tile."""
        share = self.lowered.share
        columns = min(share.depth_tile, ceiling(share.depth, share.lanes) - tile * share.depth_tile)
        if share.is_tree:
            return columns
        return min(columns * share.lanes, share.depth - tile * share.depth_tile * share.lanes)

    def _gather(self, tensor: Array, access: Any, points: tuple[Ints, ...], good: NDArray[np.bool_]) -> Array:
        shape = np.broadcast_shapes(*(part.shape for part in points), good.shape)
        where = self.contraction.indices(access, tuple(np.broadcast_to(part, shape) for part in points))
        return np.where(np.broadcast_to(good, shape), tensor[where], 0)
