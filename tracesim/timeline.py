"""The simulated pipeline as a list of events: the walk of `pipeline` with a log of what happens when.

Compiled kernels take no callbacks. So the kernels named `record_...` repeat those of `pipeline` and `address` with a
log beside the state. Every rule (links, slots, uses, columns, rows) stays in the kernels that they share. Tests check
that the recorded walk ends in the same cycle as `simulate`.
"""

from typing import NamedTuple

import numpy as np

from tracesim.address import enter_block, find_blocks, next_block
from tracesim.axes import DRAM, OUTPUT, PE
from tracesim.bank import access_column, begin_scan, end_scan, stream_cycles
from tracesim.jit import Record, kernel, new_record, record_type
from tracesim.nest import advance_array_step, advance_step, first_visit, steps_in_array_step
from tracesim.pipeline import NOTHING, State, free_slot, has_changed, take_slot, tiles_loaded, transfer, use_tiles
from tracesim.records import Device, Ints, Nest, Placement
from tracesim.route import TO_MACS
from tracesim.simulator import prepare, start_pipeline, transfer_cycles
from tracesim.tiles import STEP_SET

MOVE_IN, MOVE_OUT, STREAM, ARRAY_STEP, LIMIT = range(5)
"""Kinds of events: a tile comes in; a tile of O goes out; an array step draws or writes a tensor that no PE stores; an
array step; ports or interconnect, which no event stands for, are busy for longer than the pipeline."""

KIND, LINK, PARENT, LEVEL, TENSOR, START, END = range(7)
"""Columns of an event. `LEVEL` is TO_MACS of a stream; of steps and limits only times mean anything."""

BINS = 64
"""Bins of an activation map along either side."""

LOG = record_type(events=(), activations=(3,), rows=(3,), opened=(3,), order_width=(3,), row_width=(3,))
"""Events so far. By tensor: row activations so far, and one more than the last row opened, as its banks number rows.
By part: row activations of all its tensors so far, how many of them and how many rows fall into one bin of its maps."""


class Log(NamedTuple):
    """The log: a record LOG, int64[limit, 7] the events kept, int64[tensor, BINS, BINS] the maps, int64[tensor] the
    part of each tensor.
    """

    counter: Record
    events: Ints
    maps: Ints
    part: Ints


class Timeline(NamedTuple):
    """When everything happens, in cycles, without the constant pipeline latency.

    `events` int64[n, 7] by start; `dropped` more lay between the first and the last of them. Moves that take no time
    are no events. `maps` int64[tensor, order, row]: row activations, `order_width` of them and `row_width` rows a bin;
    both are int64[part]. Tensors of one part have one order and one numbering of rows. By tensor: its `activations`,
    the `first_row` in which it may lie, and `rows`, one more than the last row opened (0: none).
    """

    events: Ints
    dropped: int
    activations: Ints
    maps: Ints
    order_width: Ints
    row_width: Ints
    first_row: Ints
    rows: Ints


def record_timeline(nest: Nest, placement: Placement, device: Device, limit: int) -> Timeline:
    """Walk the mapped nest as `simulate` does; of more than `limit` events keep the first half and the last.

    ValueError when an argument has not the shape it must.
    """
    prepared, log = prepare(nest, placement, device), _new_log(limit, placement.part)
    end_cycle, busy = record_pipeline(start_pipeline(prepared), log), transfer_cycles(prepared)
    if busy > end_cycle:
        log_event(log, LIMIT, -1, 0, 0, 0, 0, busy)
    return _timeline(log, prepared.dram.layouts["first_byte"] // device.row_bytes)


def _new_log(limit: int, part: Ints) -> Log:
    """Return a log with nothing in it; `part` int64[3] as in `Placement`."""
    counter = new_record(LOG)
    counter.order_width[:] = counter.row_width[:] = 1
    return Log(counter, np.zeros((max(limit, 2), 7), np.int64), np.zeros((3, BINS, BINS), np.int64), part)


def _timeline(log: Log, first_row: Ints) -> Timeline:
    """Return what the log holds, its events in order of start; `first_row` int64[tensor]."""
    counter = log.counter
    kept = log.events[: int(counter.events)]
    return Timeline(
        events=kept[np.argsort(kept[:, START], kind="stable")],
        dropped=max(0, int(counter.events) - log.events.shape[0]),
        activations=counter.activations.copy(),
        maps=log.maps,
        order_width=counter.order_width.copy(),
        row_width=counter.row_width.copy(),
        first_row=first_row,
        rows=counter.rows.copy(),
    )


# --- The log ---------------------------------------------------------------------------------------------------------


@kernel
def log_event(log: Log, kind: int, link: int, parent: int, level: int, tensor: int, start: int, end: int) -> None:
    """Log an event that takes time: first in the first half of the log, then cyclically in the second half."""
    if start == end:
        return
    half = log.events.shape[0] // 2
    place = log.counter.events
    if place >= half:
        place = half + (place - half) % (log.events.shape[0] - half)
    event = log.events[place]
    event[KIND], event[LINK], event[PARENT], event[LEVEL] = kind, link, parent, level
    event[TENSOR], event[START], event[END] = tensor, start, end
    log.counter.events += 1


@kernel
def log_activation(log: Log, tensor: int, row: int) -> None:
    """Count an activation of a row of the banks. If it lies beyond the maps, bins are merged in pairs first."""
    counter, part = log.counter, log.part[tensor]
    order = counter.opened[part]
    while order // counter.order_width[part] >= BINS:
        for other in range(3):
            if log.part[other] == part:
                halve(log.maps[other])
        counter.order_width[part] *= 2
    while row // counter.row_width[part] >= BINS:
        for other in range(3):
            if log.part[other] == part:
                halve(log.maps[other].T)
        counter.row_width[part] *= 2
    log.maps[tensor, order // counter.order_width[part], row // counter.row_width[part]] += 1
    counter.opened[part] += 1
    counter.activations[tensor] += 1
    counter.rows[tensor] = max(counter.rows[tensor], row + 1)


@kernel
def halve(cells: Ints) -> None:
    """Merge the rows int64[BINS, BINS] of a map in pairs."""
    for pair in range(BINS // 2):
        cells[pair] = cells[2 * pair] + cells[2 * pair + 1]
    cells[BINS // 2 :] = 0


# --- The walk, recorded ----------------------------------------------------------------------------------------------


@kernel
def record_pipeline(state: State, log: Log) -> int:
    """Walk all array steps from a state of zeros; return the cycle in which the last write-out ends."""
    odometer, route, clock = state.odometer, state.route, state.clock
    clock.held[:] = NOTHING
    steps = steps_in_array_step(odometer)
    now = 0
    while True:
        for tensor in range(3):
            if has_changed(odometer, route, clock, tensor):
                record_change(state, log, tensor)
        start = tiles_loaded(route, clock, now)
        now = start + steps
        record_step_scans(state, log)
        for tensor in range(3):
            if route.innermost[tensor] != PE:
                now = max(now, record_stream(state, log, tensor, start))
        use_tiles(route, clock, now)
        log_event(log, ARRAY_STEP, -1, 0, 0, 0, start, now)
        if not advance_array_step(odometer):
            break
    for level in range(3):
        if route.stored[level, OUTPUT]:
            record_write_out(state, log, level)
            now = max(now, clock.last_use[level, OUTPUT])
    return now


@kernel
def record_change(state: State, log: Log, tensor: int) -> None:
    """Go over to the tiles of this array step (`pipeline.change_tiles`)."""
    odometer, route, clock = state.odometer, state.route, state.clock
    for level in range(3):
        held, tile = clock.held[level, tensor], odometer.identity[tensor, level]
        if route.stored[level, tensor] and held not in (tile, NOTHING):
            if tensor == OUTPUT:
                record_write_out(state, log, level)
            free_slot(clock, level, tensor)
    for level in range(2, -1, -1):
        tile = odometer.identity[tensor, level]
        if route.stored[level, tensor] and clock.held[level, tensor] != tile:
            take_slot(odometer, route, clock, level, tensor)
            if tensor != OUTPUT or not first_visit(state.visited, level, tile):
                cycles = route.fetch_cycles[level, tensor]
                clock.loaded[level, tensor] = record_move(state, log, MOVE_IN, level, tensor, cycles)


@kernel
def record_write_out(state: State, log: Log, level: int) -> None:
    """Move the tile of O that a level holds to its parent (`pipeline.write_out`)."""
    cycles = state.route.drain_cycles[level]
    state.clock.last_use[level, OUTPUT] = record_move(state, log, MOVE_OUT, level, OUTPUT, cycles)


@kernel
def record_move(state: State, log: Log, kind: int, level: int, tensor: int, cycles: int) -> int:
    """Move a tile between a level and its parent, from or to DRAM by a scan; return the end."""
    route, clock = state.route, state.clock
    if route.parent[level, tensor] == DRAM:
        cycles = record_scan(state, log, tensor, clock.corner[level, tensor])
    end: int = transfer(route, clock, level, tensor, cycles)
    log_event(log, kind, route.link[level, tensor], route.parent[level, tensor], level, tensor, end - cycles, end)
    return end


@kernel
def record_stream(state: State, log: Log, tensor: int, start: int) -> int:
    """Move what an array step's MACs use of a tensor that no PE stores (`pipeline.stream`)."""
    route, clock = state.route, state.clock
    cycles = route.use_cycles[tensor]
    if route.innermost[tensor] == DRAM:
        cycles = clock.drawn[tensor]
    elif tensor == OUTPUT and first_visit(state.visited, PE, state.odometer.identity[OUTPUT, PE]):
        cycles = route.first_use_cycles
    link = route.link[TO_MACS, tensor]
    end: int = max(start, clock.link_free[link]) + cycles
    clock.link_free[link] = end
    log_event(log, STREAM, link, route.innermost[tensor], TO_MACS, tensor, end - cycles, end)
    return end


@kernel
def record_step_scans(state: State, log: Log) -> None:
    """Scan what the steps of an array step use straight from DRAM (`pipeline.scan_array_step`, `scan_step`)."""
    odometer, route, clock = state.odometer, state.route, state.clock
    clock.drawn[:] = 0
    goes_on = route.innermost.max() == DRAM
    while goes_on:
        for tensor in range(3):
            if route.innermost[tensor] != DRAM:
                continue
            if tensor == OUTPUT:
                is_first = first_visit(state.visited, STEP_SET, odometer.identity[OUTPUT, STEP_SET])
                if route.rereads_copies or not is_first:
                    clock.drawn[tensor] += record_scan(state, log, tensor, odometer.coordinate[tensor])
            clock.drawn[tensor] += record_scan(state, log, tensor, odometer.coordinate[tensor])
        goes_on = advance_step(odometer)


@kernel
def record_scan(state: State, log: Log, tensor: int, corner: Ints) -> int:
    """Scan a tile (`address.scan`); return by how much its stream advances."""
    dram = state.dram
    layout, offsets, part = dram.layouts[tensor], dram.offsets[tensor], dram.part[tensor]
    bank, open_rows = dram.banks[part], dram.open_rows[part]
    before = stream_cycles(bank)
    begin_scan(bank)
    find_blocks(layout, offsets, corner)
    column_end = 0
    while True:
        start = enter_block(layout, offsets, corner)
        column_end = record_block(state, log, tensor, start, column_end)
        if not next_block(layout):
            break
    end_scan(bank, open_rows)
    return stream_cycles(bank) - before


@kernel
def record_block(state: State, log: Log, tensor: int, start: int, column_end: int) -> int:
    """Visit the tile's elements in the block at hand (`address.visit_block`); return the last column's end."""
    layout, offsets = state.dram.layouts[tensor], state.dram.offsets[tensor]
    part = state.dram.part[tensor]
    bank, open_rows = state.dram.banks[part], state.dram.open_rows[part]
    low, high, pitch = layout.low, layout.high, layout.step_bytes
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
                        if address >= column_end:
                            activations = bank.activations
                            column_end = access_column(bank, open_rows, address)
                            if bank.activations > activations:
                                log_activation(log, tensor, address // bank.row_bytes)
    return column_end
