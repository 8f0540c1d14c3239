"""The column accesses of a mapped nest one by one, a bufferful at a time (section 5).

The walk is the simulator's without its clock. Scans come in the order in which the loop nest makes them: array step by
array step, and in one I, W, O's old tile, O's new tile, then step by step what the MACs take straight from DRAM of I,
W and O.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from tracesim.address import Scanner, enter_block, find_blocks, next_block
from tracesim.axes import OUTPUT, READ, ROW_BUFFER, WRITE
from tracesim.jit import Record, kernel, new_record, record_type
from tracesim.nest import advance_array_step, advance_step, first_visit
from tracesim.pipeline import NOTHING
from tracesim.records import Device, Flags, Ints, Nest, Placement
from tracesim.simulator import Prepared, new_odometer, prepare, tensor_rows
from tracesim.tiles import STEP_SET

TENSOR, IS_WRITE, ADDRESS = range(3)
"""Columns of a bufferful: the tensor, whether it is written, and the address in it of the column's first byte."""

SCANS_A_STEP = 4
"""The most scans that are recorded between two checks of the buffer: of I and W, and O's old and new tile."""


class ColumnStream(NamedTuple):
    """The column accesses of a nest.

    `rows` int64[3]: rows that each tensor takes. `bufferfuls`: int64[n, 3] after int64[n, 3], with columns TENSOR,
    IS_WRITE and ADDRESS; each is overwritten by the next one.
    """

    rows: Ints
    bufferfuls: Iterator[Ints]


WALK = record_type(outermost=(3,), held=(3,), corner=(3, 5), rereads_copies=(), filled=(), column_end=())
"""The state of a walk. Fields are indexed [tensor] unless said.

- `outermost`: the outermost level that stores the tensor, STEP_SET if none.
- `held`: identity of the tile there, or NOTHING. `corner` [axis]: coordinates of its first element.
- `rereads_copies`: a step reads back copies of an output that it has itself begun, even on the first visit.
- `filled`: accesses in the buffer. `column_end`: end of the column that this scan accessed last.
"""


class State(NamedTuple):
    """Records WALK and ODOMETER, the DRAM, `visited` bool[level][tile] of O, and the `buffer` int64[n, 3]."""

    walk: Record
    odometer: Record
    dram: Scanner
    visited: Flags
    buffer: Ints


def stream_columns(nest: Nest, placement: Placement, device: Device, size: int = 1 << 16) -> ColumnStream:
    """Return the nest's column accesses, in bufferfuls of at least `size` but for the last.

    A buffer holds what a scan adds as well: no more than a tile has elements. ValueError when an argument has not the
    shape it must.
    """
    prepared = prepare(nest, placement, device)
    state = _start(prepared, size)
    return ColumnStream(tensor_rows(prepared.geometry, prepared.dram.layouts), _fill_buffer(state, size))


def _start(prepared: Prepared, size: int) -> State:
    """Return the walk at its start."""
    stored, dram = prepared.nest.stored, prepared.dram
    odometer, walk = new_odometer(prepared.nest, prepared.geometry), new_record(WALK)
    walk.outermost[:] = np.where(stored.any(axis=0), ROW_BUFFER - stored[::-1].argmax(axis=0), STEP_SET)
    walk.held[:], walk.rereads_copies = NOTHING, prepared.moves.rereads_copies
    visited = np.zeros((STEP_SET + 1, odometer.tiles[OUTPUT, walk.outermost[OUTPUT]]), np.bool_)
    longest = max(int(layout["count"].prod()) for layout in dram.layouts)
    return State(walk, odometer, dram, visited, np.empty((size + SCANS_A_STEP * longest, 3), np.int64))


def _fill_buffer(state: State, size: int) -> Iterator[Ints]:
    """Yield what is in the buffer, filled anew each time, until the walk ends."""
    goes_on = True
    while goes_on:
        state.walk.filled = 0
        goes_on = walk_scans(state, size)
        yield state.buffer[: state.walk.filled]


@kernel
def walk_scans(state: State, size: int) -> bool:
    """Walk on until `size` or more accesses are in the buffer; return False behind the last array step."""
    walk, odometer = state.walk, state.odometer
    has_streams = (walk.outermost == STEP_SET).any()
    while walk.filled < size:
        change_tiles(state)  # nothing changes between the steps of an array step
        use_step_sets(state)
        if has_streams and advance_step(odometer):
            continue
        if not advance_array_step(odometer):
            if walk.held[OUTPUT] != NOTHING:
                record_scan(state, OUTPUT, walk.corner[OUTPUT], WRITE)
            return False
    return True


@kernel
def change_tiles(state: State) -> None:
    """Record the scans of the tiles that this array step changes.

    A tile of O that leaves is written out, one that is visited for the first time is not fetched.
    """
    walk, odometer = state.walk, state.odometer
    for tensor in range(3):
        level = walk.outermost[tensor]
        tile = odometer.identity[tensor, level]
        if level == STEP_SET or walk.held[tensor] == tile:
            continue
        if tensor == OUTPUT and walk.held[tensor] != NOTHING:
            record_scan(state, tensor, walk.corner[tensor], WRITE)
        walk.held[tensor] = tile
        for axis in range(5):
            walk.corner[tensor, axis] = odometer.coordinate[tensor, axis]
        if tensor != OUTPUT or not first_visit(state.visited, level, tile):
            record_scan(state, tensor, walk.corner[tensor], READ)


@kernel
def use_step_sets(state: State) -> None:
    """Record the scans of what this step takes straight from DRAM.

    O's set is read first, unless all it would read is its outputs' first terms, and then written.
    """
    walk, odometer = state.walk, state.odometer
    for tensor in range(3):
        if walk.outermost[tensor] == STEP_SET:
            corner = odometer.coordinate[tensor]
            is_first = tensor == OUTPUT and first_visit(state.visited, STEP_SET, odometer.identity[tensor, STEP_SET])
            if not is_first or walk.rereads_copies:
                record_scan(state, tensor, corner, READ)
            if tensor == OUTPUT:
                record_scan(state, tensor, corner, WRITE)


@kernel
def record_scan(state: State, tensor: int, corner: Ints, way: int) -> None:
    """Record the columns of the tile whose first element has the coordinates `corner` int64[5], as `address.scan`."""
    layout, offsets = state.dram.layouts[tensor], state.dram.offsets[tensor]
    first = state.walk.filled
    state.walk.column_end = 0
    find_blocks(layout, offsets, corner)
    while True:
        record_block(state, tensor, enter_block(layout, offsets, corner))
        if not next_block(layout):
            break
    for access in range(first, state.walk.filled):
        state.buffer[access, TENSOR], state.buffer[access, IS_WRITE] = tensor, way


@kernel
def record_block(state: State, tensor: int, start: int) -> None:
    """Record the columns of the tile's elements in the block at hand, as `address.visit_block`.

    `start`: the address that belongs to offsets 0.
    """
    walk, layout, offsets = state.walk, state.dram.layouts[tensor], state.dram.offsets[tensor]
    low, high, pitch = layout.low, layout.high, layout.step_bytes
    column_bytes = state.dram.banks[tensor].column_bytes
    for a in range(low[0], high[0]):
        at_a = start + offsets[0, a] * pitch[0]
        for b in range(low[1], high[1]):
            at_b = at_a + offsets[1, b] * pitch[1]
            for c in range(low[2], high[2]):
                at_c = at_b + offsets[2, c] * pitch[2]
                for d in range(low[3], high[3]):
                    at_d = at_c + offsets[3, d] * pitch[3]
                    for e in range(low[4], high[4]):
                        address = at_d + offsets[4, e] * pitch[4]
                        if address >= walk.column_end:  # else it lies in the column accessed last
                            column = address - address % column_bytes
                            state.buffer[walk.filled, ADDRESS] = column - layout.first_byte
                            walk.filled, walk.column_end = walk.filled + 1, column + column_bytes
