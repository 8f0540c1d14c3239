"""The simulator: counts what moves, places the tensors in DRAM, and walks the pipeline.

`prepare` counts what moves. `simulate`, `timeline` and `stream` walk what it returns, each in its own way.
"""

from typing import NamedTuple

import numpy as np

from tracesim.address import LAYOUT, Scanner, block_address, set_layout, set_tile
from tracesim.axes import AXIS_H, AXIS_ORDER, AXIS_W, DRAM, INPUT, OUTPUT, PE, READ, ROW_BUFFER
from tracesim.bank import BANK, stream_cycles
from tracesim.jit import Record, new_record
from tracesim.nest import ODOMETER, Visits, count_visits, set_loops
from tracesim.pipeline import CLOCK, State, run_pipeline
from tracesim.records import Device, Ints, Nest, Placement, Trace, checked_device, checked_nest, checked_placement
from tracesim.route import level_widths, longest_transfer, plan_route
from tracesim.tiles import ARRAY, STEP, STEP_SET, Geometry, measure_geometry, tensor_extent, tile_coordinates
from tracesim.traffic import Moves, count_accesses, count_crossings, energy_fj, measure_moves


class Prepared(NamedTuple):
    """A mapped nest, what moves in it, and its tensors in a DRAM that is still untouched.

    `accesses` int64[level, tensor, way]; `widths` int64[level, tensor]: bytes of an element. `stop` int64[1]: walks end
    once it is set.
    """

    nest: Nest
    device: Device
    geometry: Geometry
    visits: Visits
    moves: Moves
    accesses: Ints
    widths: Ints
    dram: Scanner
    stop: Ints


class Stopped(Exception):
    """A walk was stopped before its end."""


def simulate(nest: Nest, placement: Placement, device: Device, stop: Ints | None = None) -> Trace:
    """Walk the mapped nest and report what happens.

    `stop` int64[1]: another thread sets it to end the walk, which holds no lock of the interpreter.

    Raises:
        ValueError: an argument has not the shape it must.
        Stopped: `stop` was set.
    """
    prepared = prepare(nest, placement, device, stop)
    end_cycle = run_pipeline(start_pipeline(prepared))
    if prepared.stop[0]:
        raise Stopped
    return _report(prepared, max(end_cycle, transfer_cycles(prepared)))


def prepare(nest: Nest, placement: Placement, device: Device, stop: Ints | None = None) -> Prepared:
    """Return the nest with everything counted that a walk must know beforehand.

    O's width in DRAM depends on whether its partial sums are spilled, so the accesses are counted first, in a walk
    of their own. Raises what `simulate` raises.
    """
    stop = np.zeros(1, np.int64) if stop is None else stop
    nest, device = checked_nest(nest), checked_device(device)
    placement = checked_placement(placement, needs_block=bool(nest.stored[ROW_BUFFER, INPUT]))
    geometry = measure_geometry(nest)
    visits = count_visits(new_odometer(nest, geometry), stop)
    if stop[0]:
        raise Stopped
    moves = measure_moves(geometry.elems, nest.spatial, device.multicast, device.spatial_reduction)
    accesses = count_accesses(nest.stored, moves, visits, device.spatial_reduction)
    widths = level_widths(nest.width_bytes, spills=bool(accesses[DRAM, OUTPUT, READ]))
    dram = _place_tensors(nest, geometry, placement, device, widths[DRAM])
    return Prepared(nest, device, geometry, visits, moves, accesses, widths, dram, stop)


def new_odometer(nest: Nest, geometry: Geometry) -> Record:
    """Return an odometer of the nest at its first step."""
    odometer = new_record(ODOMETER)
    set_loops(odometer, nest.loops, geometry)
    return odometer


def start_pipeline(prepared: Prepared) -> State:
    """Return the pipeline at its start: nothing held, and no tile of O visited."""
    nest, device, moves = prepared.nest, prepared.device, prepared.moves
    odometer = new_odometer(nest, prepared.geometry)
    part = prepared.dram.part
    route = plan_route(nest.stored, part, device, moves, prepared.visits, prepared.widths)
    finest = STEP_SET if route.innermost[OUTPUT] == DRAM else PE
    visited = np.zeros((STEP_SET + 1, odometer.tiles[OUTPUT, finest]), np.bool_)
    return State(odometer, route, new_record(CLOCK), prepared.dram, visited, prepared.stop)


def transfer_cycles(prepared: Prepared) -> int:
    """Return for how many cycles ports or the interconnect are busy. They are no links of the pipeline."""
    nest = prepared.nest
    crossings = count_crossings(nest.stored, prepared.moves, prepared.visits)
    pes = int(np.prod(nest.spatial[:2]))
    return longest_transfer(prepared.device, prepared.accesses, crossings, prepared.widths, pes)


def _place_tensors(nest: Nest, geometry: Geometry, placement: Placement, device: Device, widths: Ints) -> Scanner:
    """Return the DRAM with all rows closed, ready to scan the tiles of the outermost level that stores a tensor.

    `widths` int64[3]: bytes of an element in DRAM. Where no level stores the tensor, its step sets are scanned.
    """
    tiles = [tile_coordinates(geometry, _scanned_kind(nest, tensor), tensor) for tensor in range(3)]
    offsets = np.zeros((3, 5, max(coordinates.shape[1] for coordinates, _ in tiles)), np.int64)
    layouts = np.zeros(3, LAYOUT)
    for tensor, (coordinates, counts) in enumerate(tiles):
        extent = tensor_extent(geometry, tensor)
        block = _block_extent(placement, tensor, counts) if nest.stored[ROW_BUFFER, tensor] else extent
        order = AXIS_ORDER[tensor, placement.order[tensor]]
        set_layout(layouts[tensor], order, extent, block, widths[tensor], device.row_bytes)
        set_tile(layouts[tensor], offsets[tensor], order, coordinates, counts)
    banks = tensor_banks(placement, device)
    if len(set(placement.part.tolist())) < len(placement.part):
        _separate(layouts, tensor_rows(geometry, layouts), placement.part, banks)
    open_rows, counts = np.full((3, banks.max()), -1, np.int64), np.zeros((3, 2), np.int64)
    return Scanner(layouts, _new_banks(device, placement.part, banks), offsets, placement.part, open_rows, counts)


def tensor_banks(placement: Placement, device: Device) -> Ints:
    """Return int64[3]: the banks of each tensor's part."""
    return placement.bank_counts * device.banks


def tensor_rows(geometry: Geometry, layouts: Record) -> Ints:
    """Return int64[3]: rows from a tensor's first byte to the end of its last block."""
    rows = np.empty(3, np.int64)
    for tensor, layout in enumerate(layouts):
        blocks = int((-(-tensor_extent(geometry, tensor) // layout.block)).prod())
        end = block_address(layout, blocks - 1) - layout.first_byte + layout.block_bytes
        rows[tensor] = -(-end // layout.row_bytes)
    return rows


def _separate(layouts: Record, rows: Ints, part: Ints, banks: Ints) -> None:
    """Place tensors that share banks one after the other, each from a row of the first bank on. Modifies layouts."""
    for tensor in range(3):
        before, every = rows[:tensor][part[:tensor] == part[tensor]], banks[tensor]
        layouts[tensor].first_byte = (-(-before // every) * every).sum() * layouts[tensor].row_bytes


def _scanned_kind(nest: Nest, tensor: int) -> int:
    """Return the kind of tile of a tensor that moves in and out of DRAM."""
    levels = np.flatnonzero(nest.stored[:, tensor])
    if levels.size == 0:
        return STEP
    return int(levels[-1]) or ARRAY


def _block_extent(placement: Placement, tensor: int, tile: Ints) -> Ints:
    """Return int64[5]: a block of a row-aligned tensor, its tile at the row buffer but for I's height and width."""
    block = tile.copy()
    if tensor == INPUT:
        block[AXIS_H], block[AXIS_W] = placement.block_h, placement.block_w
    return block


def _new_banks(device: Device, part: Ints, banks: Ints) -> Record:
    """Return records BANK of at most three parts with nothing accessed; `part` and `banks` int64[3] by tensor."""
    records = np.zeros(3, BANK)
    records["row_bytes"], records["column_bytes"] = device.row_bytes, device.column_bytes
    records["open_page"], records["timing"] = device.open_page, device.timing
    records["banks"][part] = banks
    return records


def _report(prepared: Prepared, end_cycle: int) -> Trace:
    """Return the trace; a shared bus serves one stream at a time."""
    device, accesses, dram = prepared.device, prepared.accesses, prepared.dram
    cycles = np.array([stream_cycles(bank) for bank in dram.banks])  # by part, 0 if it holds no tensor
    steps = int(prepared.visits.array_steps) * int(prepared.visits.steps_each)
    macs = steps * prepared.moves.step_macs
    activations = dram.counts[:, 1].copy()
    return Trace(
        accesses=accesses,
        columns=dram.counts[:, 0].copy(),
        activations=activations,
        stream_cycles=cycles[dram.part],
        dram_cycles=int(cycles.sum() if device.shared_bus else cycles.max()),
        compute_cycles=steps,
        energy_fj=energy_fj(accesses, activations, macs, device),
        latency_cycles=int(end_cycle) + device.reduction_latency,
    )
