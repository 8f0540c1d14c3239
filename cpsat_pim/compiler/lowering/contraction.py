"""The commands of a contraction on a device that multiplies in all banks of a channel at once."""

from collections.abc import Sequence

import numpy as np
from attrs import frozen
from numpy.typing import NDArray

from cpsat_pim.compiler.mapping import Contraction, Mapping
from cpsat_pim.compiler.mapping.contraction import DEPTH, OUTPUTS
from cpsat_pim.compiler.mapping.mapping import UNUSED
from cpsat_pim.compiler.target import Target
from tables.commands.steps import OUTPUT_STATIONARY, Share, build_groups, build_steps, ceiling
from tables.commands.walk import (
    ADDRESS,
    DRAIN,
    DRAIN_STEP,
    DRAINS,
    LOAD,
    LOAD_STEP,
    LOADS,
    MAC,
    MAC_STEP,
    MACS,
    Moves,
    walk,
)
from tracesim.commands import Function, Stream
from tracesim.commands.records import DATA, FUNCTION, LANE, REDUCE, SOURCE, TARGET

Ints = NDArray[np.int64]

#: Columns of `step_places`.
PLACE_RESULT, PLACE_OUTPUT, PLACE_DEPTH = range(3)
NOT_EMITTED = np.zeros((0, 4), np.int64)


@frozen(eq=False)
class Lowered:
    """The stream of every channel, and where its data are.

    `loads`, `drains` int64[moves, axes]: the cores that the moves of one input column and of one accumulator name.
    `input_vectors`: of the exchange buffer, before the results. `steps` int64[steps, 4], see `tables.commands.steps`.
    """

    mapping: Mapping
    share: Share
    steps: Ints
    loads: Ints
    drains: Ints
    input_vectors: int
    stream: Stream
    ticks: int


def moves(mapping: Mapping, contraction: Contraction, target: Target) -> tuple[Ints, Ints]:
    """The cores that one input column's loads and one accumulator's drains name, int64[moves, axes]; -1 = all."""
    return moves_of_owners(mapping, contraction.inputs is not None, target)


def moves_of_owners(mapping: Mapping, has_inputs: bool, target: Target) -> tuple[Ints, Ints]:
    """The same by what it depends on: the owners of the axes, and whether there are inputs."""
    load_axes = [axis for axis, owner in enumerate(mapping.owners) if has_inputs and owner not in (UNUSED, OUTPUTS)]
    drain_axes = [
        axis
        for axis, owner in enumerate(mapping.owners)
        if owner != UNUSED and target.loadable[axis] and not (owner == DEPTH and target.reducible[axis])
    ]
    idle = [axis for axis, owner in enumerate(mapping.owners) if owner == UNUSED]
    return _coordinates(target, load_axes, []), _coordinates(target, drain_axes, idle)


def _coordinates(target: Target, axes: list[int], idle: list[int]) -> Ints:
    """Every combination along some axes, the quickest fastest; each axis ends with its core 0, so that what follows
    another set of moves does not wait for the node that those used last.
    """
    slow_first = [axis for axis in reversed(target.axis_order) if axis in axes]
    sizes = [target.axes[axis] for axis in slow_first]
    result = np.full((int(np.prod(sizes, dtype=np.int64)), len(target.axes)), -1, np.int64)
    result[:, idle] = 0
    for axis, size, value in zip(slow_first, sizes, np.indices(sizes).reshape(len(sizes), len(result)), strict=True):
        result[:, axis] = (value + 1) % size
    return result


def move_nodes(target: Target, segments: Sequence[tuple[Ints, Ints]], unchecked: Sequence[int] = ()) -> Moves:
    """The moves of segments, each (loads, drains) int64[moves, axes], as the walk takes them."""
    loads, drains = ([target.nodes(segment[side]) for segment in segments] for side in range(2))
    return Moves(
        drains=padded(drains),
        loads=padded(loads),
        drain_moves=np.array([len(rows) for rows in drains]),
        load_moves=np.array([len(rows) for rows in loads]),
        is_checked=np.array([int(segment not in unchecked) for segment in range(len(segments))]),
        nodes=target.node_count,
    )


def padded(rows: list[Ints]) -> Ints:
    """Tables of different lengths as one array."""
    result = np.zeros((len(rows), max(map(len, rows)), rows[0].shape[1]), np.int64)
    for number, row in enumerate(rows):
        result[number, : len(row)] = row
    return result


def predicted_ticks(mapping: Mapping, contraction: Contraction, target: Target) -> int:
    """The ticks of the kernel on every channel, without refresh."""
    contraction = contraction.with_hull(mapping.hull)
    share = mapping.share(contraction, target)
    loads, drains = moves(mapping, contraction, target)
    steps = build_steps(share, target.device.core.columns)
    groups = build_groups(share, steps, len(drains), len(loads))
    return walk(target.timing, groups, move_nodes(target, [(loads, drains)]), -1, NOT_EMITTED)


def compute_ticks(mapping: Mapping, contraction: Contraction, target: Target) -> int:
    """The ticks of the MACs and their rows alone, as if moves took no time."""
    contraction = contraction.with_hull(mapping.hull)
    share = mapping.share(contraction, target)
    groups = build_groups(share, build_steps(share, target.device.core.columns), 1, 1)
    groups[:, [DRAINS, LOADS]] = 0
    nothing = np.zeros((1, len(target.axes)), np.int64)
    return walk(target.timing, groups, move_nodes(target, [(nothing, nothing)]), -1, NOT_EMITTED)


def count_commands(mapping: Mapping, contraction: Contraction, target: Target) -> int:
    """How many commands a channel gets."""
    share = mapping.share(contraction.with_hull(mapping.hull), target)
    loads, drains = moves(mapping, contraction, target)
    steps = build_steps(share, target.device.core.columns)
    return _commands(build_groups(share, steps, len(drains), len(loads)), loads, drains)


def _commands(groups: Ints, loads: Ints, drains: Ints) -> int:
    return int((groups[:, MACS] + groups[:, DRAINS] * len(drains) + groups[:, LOADS] * len(loads)).sum())


def lower(mapping: Mapping, contraction: Contraction, target: Target) -> Lowered:
    """The commands of a mapping; all channels get the same stream."""
    contraction = contraction.with_hull(mapping.hull)
    share = mapping.share(contraction, target)
    steps = build_steps(share, target.device.core.columns)
    loads, drains = moves(mapping, contraction, target)
    groups = build_groups(share, steps, len(drains), len(loads))
    emitted = np.zeros((_commands(groups, loads, drains), 4), np.int64)
    ticks = walk(target.timing, groups, move_nodes(target, [(loads, drains)]), -1, emitted)
    inputs = count_input_vectors(share, len(loads))
    stream = Emitter(mapping, target, share, steps, groups, inputs).stream(emitted, loads, drains)
    return Lowered(mapping, share, steps, loads, drains, inputs, stream, ticks)


class Emitter:
    """Gives the emitted commands their registers, addresses and data."""

    def __init__(
        self,
        mapping: Mapping,
        target: Target,
        share: Share,
        steps: Ints,
        groups: Ints,
        inputs: int,
        load: int | None = None,
    ) -> None:
        self.target, self.share, self.steps, self.groups = target, share, steps, groups
        self.reduce = reduced_axes(mapping, target)
        self.places = step_places(share)
        self.input_vectors = inputs
        self.load = target.load if load is None else load

    def stream(self, emitted: Ints, loads: Ints, drains: Ints) -> Stream:
        """The stream of the emitted commands."""
        stream = empty_stream(len(emitted), len(self.target.axes))
        stream.group[:] = emitted[:, 2]
        kinds = emitted[:, 0]
        self._add_macs(stream, emitted, kinds == MAC)
        self._add_loads(stream, emitted, kinds == LOAD, loads, len(drains))
        self._add_drains(stream, emitted, kinds == DRAIN, drains)
        return stream

    def _add_macs(self, stream: Stream, emitted: Ints, where: NDArray[np.bool_]) -> None:
        number, group = emitted[where, 1], emitted[where, 2]
        step = self.groups[group, MAC_STEP]
        width = self._row_length(step)
        address = self.groups[group, ADDRESS] + number
        number = address - self.steps[step, ADDRESS]
        output, along = number // width, number % width
        core = self.target.device.core
        stream.kind[where] = self.target.mac
        stream.coords[where, :-1] = -1
        stream.row[where], stream.column[where] = address // core.columns, address % core.columns
        work = np.zeros((len(number), 6), np.int64)
        if self.share.is_tree:
            work[:, FUNCTION], work[:, LANE] = Function.MAC_TREE, output % core.lanes
            accumulator, source = output // core.lanes, along
        else:
            work[:, FUNCTION], work[:, LANE] = Function.MAC_LANES, along % core.lanes
            accumulator, source = output, along // core.lanes
        work[:, TARGET] = self._accumulators(step) + accumulator
        work[:, SOURCE] = self._registers(step) + source
        if not self.share.has_inputs:
            work[:, SOURCE] = 0
        stream.work[where] = work

    def _add_loads(self, stream: Stream, emitted: Ints, where: NDArray[np.bool_], loads: Ints, drains: int) -> None:
        number, group = emitted[where, 1], emitted[where, 2]
        number = number - self.groups[group, DRAINS] * drains
        step = self.groups[group, LOAD_STEP]
        column, core = number // len(loads), number % len(loads)
        stream.kind[where] = self.load
        stream.coords[where, :-1] = loads[core]
        work = np.zeros((len(number), 6), np.int64)
        work[:, FUNCTION], work[:, TARGET] = Function.LOAD, self._registers(step) + column
        columns = ceiling(self.share.depth, self.share.lanes) if self.share.has_inputs else 1
        first = self.places[step, PLACE_RESULT] * columns + self.places[step, PLACE_DEPTH] * self.share.depth_tile
        work[:, DATA] = (first + column) * len(loads) + core
        stream.work[where] = work

    def _add_drains(self, stream: Stream, emitted: Ints, where: NDArray[np.bool_], drains: Ints) -> None:
        number, group = emitted[where, 1], emitted[where, 2]
        step = self.groups[group, DRAIN_STEP]
        accumulator, core = number // len(drains), number % len(drains)
        stream.kind[where] = self.target.drain
        stream.coords[where, :-1] = drains[core]
        work = np.zeros((len(number), 6), np.int64)
        work[:, FUNCTION], work[:, SOURCE] = Function.DRAIN_CLEAR, self._accumulators(step) + accumulator
        work[:, REDUCE] = self.reduce
        vectors = ceiling(self.share.outputs, self.share.lanes)
        first = self.places[step, PLACE_RESULT] * vectors + self.places[step, PLACE_OUTPUT] * self.share.output_tile
        beside = cores_beside(drains, self.reduce, self.target)
        work[:, DATA] = self.input_vectors + ((first + accumulator) * len(drains) + core) * beside
        stream.work[where] = work

    def _row_length(self, step: Ints) -> Ints:
        """MACs of one output (tree) or of one accumulator (lanes) in a step."""
        first = self.places[step, PLACE_DEPTH] * self.share.depth_tile
        columns = np.minimum(self.share.depth_tile, ceiling(self.share.depth, self.share.lanes) - first)
        if self.share.is_tree:
            return np.asarray(columns, np.int64)
        return np.asarray(np.minimum(columns * self.share.lanes, self.share.depth - first * self.share.lanes), np.int64)

    def _registers(self, step: Ints) -> Ints:
        """First input register of a step; tiles take turns if loads overlap."""
        turns = np.cumsum(self.steps[:, LOADS] > 0) - 1
        width = min(self.share.depth_tile, ceiling(self.share.depth, self.share.lanes))
        return np.asarray(turns[step] % 2 * width * self.share.overlaps_loads, np.int64)

    def _accumulators(self, step: Ints) -> Ints:
        """First accumulator of a step; tiles take turns if drains overlap."""
        drained = self.steps[:, DRAINS] > 0
        turns: Ints = np.cumsum(drained) - drained
        width = min(self.share.output_tile, ceiling(self.share.outputs, self.share.lanes))
        first = self.target.device.core.inputs
        return np.asarray(first + turns[step] % 2 * width * self.share.overlaps_drains, np.int64)


def count_input_vectors(share: Share, load_moves: int) -> int:
    """Input vectors in the exchange buffer of a channel; a sum without factors needs one of ones."""
    if not share.has_inputs:
        return 1
    return share.batches * share.shared * ceiling(share.depth, share.lanes) * load_moves


def reduced_axes(mapping: Mapping, target: Target) -> int:
    """The axes that one drain adds up along, as bits."""
    return sum(1 << axis for axis, owner in enumerate(mapping.owners) if owner == DEPTH and target.reducible[axis])


def cores_beside(drains: Ints, reduce: int, target: Target) -> int:
    """Cores of one drain that deliver a vector each."""
    return int(
        np.prod(
            [size for axis, size in enumerate(target.axes) if drains[0, axis] < 0 and not reduce >> axis & 1],
            dtype=np.int64,
        )
    )


def step_places(share: Share) -> Ints:
    """int64[steps, 3]: number of the result set, of the output tile and of the depth tile of every step."""
    vectors, columns = ceiling(share.outputs, share.lanes), ceiling(share.depth, share.lanes)
    outputs, depths = ceiling(vectors, share.output_tile), ceiling(columns, share.depth_tile)
    at = np.arange(share.batches * share.shared * outputs * depths)
    result, inner = at // (outputs * depths), at % (outputs * depths)
    if share.order == OUTPUT_STATIONARY:
        return np.stack([result, inner // depths, inner % depths], axis=1)
    return np.stack([result, inner % outputs, inner // outputs], axis=1)


def empty_stream(size: int, axes: int) -> Stream:
    """A stream of commands that are still all zero."""
    zeros = np.zeros(size, np.int64)
    return Stream(
        zeros,
        np.zeros((size, axes + 1), np.int64),
        zeros.copy(),
        zeros.copy(),
        zeros.copy(),
        np.zeros((size, 6), np.int64),
    )
