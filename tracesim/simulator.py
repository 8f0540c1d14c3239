"""The simulator: what moves, where it lies, and when it happens."""

import numpy as np

from tracesim.address import LAYOUT, Scanner, set_layout, set_tile
from tracesim.axes import AXIS_H, AXIS_ORDER, AXIS_W, DRAM, INPUT, OUTPUT, PE, READ, ROW_BUFFER
from tracesim.bank import BANK, stream_cycles
from tracesim.jit import Record, new_record
from tracesim.nest import ODOMETER, STEP_SET, Visits, count_visits, set_loops
from tracesim.pipeline import CLOCK, State, run_pipeline
from tracesim.records import Device, Ints, Nest, Placement, Trace, checked_device, checked_nest, checked_placement
from tracesim.route import level_widths, longest_transfer, plan_route
from tracesim.tiles import ARRAY, STEP, Geometry, measure_geometry, tensor_extent, tile_coordinates
from tracesim.traffic import Moves, count_accesses, count_crossings, energy_fj, measure_moves


def simulate(nest: Nest, placement: Placement, device: Device) -> Trace:
    """Walk the mapped nest and report what happens.

    O's width in DRAM depends on whether its partial sums are spilled, so the accesses are counted first, in a walk
    of their own; the second walk scans DRAM and keeps time. ValueError when an argument has not the shape it must.
    """
    nest, device = checked_nest(nest), checked_device(device)
    placement = checked_placement(placement, needs_block=bool(nest.stored[ROW_BUFFER, INPUT]))
    geometry = measure_geometry(nest)
    visits = count_visits(_new_odometer(nest, geometry))
    moves = measure_moves(geometry.elems, nest.spatial, device.multicast, device.spatial_reduction)
    accesses = count_accesses(nest.stored, moves, visits, device.spatial_reduction)
    widths = level_widths(nest.width_bytes, spills=bool(accesses[DRAM, OUTPUT, READ]))
    route = plan_route(nest.stored, device, moves, visits, widths)
    dram = _place_tensors(nest, geometry, placement, device, widths[DRAM])
    end_cycle = run_pipeline(_start(_new_odometer(nest, geometry), route, dram))
    crossings = count_crossings(nest.stored, moves, visits)
    busy = longest_transfer(device, accesses, crossings, widths, int(np.prod(nest.spatial[:2])))
    return _report(device, moves, visits, accesses, dram.banks, max(end_cycle, busy))


def _new_odometer(nest: Nest, geometry: Geometry) -> Record:
    """Return an odometer of the nest at its first step."""
    odometer = new_record(ODOMETER)
    set_loops(odometer, nest.loops, geometry)
    return odometer


def _start(odometer: Record, route: Record, dram: Scanner) -> State:
    """Return the walk at its start: nothing held, and no tile of O visited."""
    finest = STEP_SET if route.innermost[OUTPUT] == DRAM else PE
    visited = np.zeros((STEP_SET + 1, odometer.tiles[OUTPUT, finest]), np.bool_)
    return State(odometer, route, new_record(CLOCK), dram, visited)


def _place_tensors(nest: Nest, geometry: Geometry, placement: Placement, device: Device, widths: Ints) -> Scanner:
    """Return the DRAM with all rows closed, ready to scan the tiles of the outermost level that stores a tensor.

    `widths` int64[3]: bytes of an element in DRAM. Where no level stores the tensor, its step sets are scanned.
    """
    tiles = [tile_coordinates(geometry, _scanned_kind(nest, tensor), tensor) for tensor in range(3)]
    offsets = np.zeros((3, 5, max(coordinates.shape[1] for coordinates, _ in tiles)), np.int64)
    layouts = np.zeros(3, LAYOUT)
    for tensor, (coordinates, counts) in enumerate(tiles):
        extent = tensor_extent(geometry, tensor)
        block = _block_extent(nest, placement, tensor, counts) if nest.stored[ROW_BUFFER, tensor] else extent
        order = AXIS_ORDER[tensor, placement.order[tensor]]
        set_layout(layouts[tensor], order, extent, block, widths[tensor], device.row_bytes)
        set_tile(layouts[tensor], offsets[tensor], order, coordinates, counts)
    return Scanner(layouts, _new_banks(device), offsets, np.full((3, device.banks), -1, np.int64))


def _scanned_kind(nest: Nest, tensor: int) -> int:
    """Return the kind of tile of a tensor that moves in and out of DRAM."""
    levels = np.flatnonzero(nest.stored[:, tensor])
    if levels.size == 0:
        return STEP
    return int(levels[-1]) or ARRAY


def _block_extent(nest: Nest, placement: Placement, tensor: int, tile: Ints) -> Ints:
    """Return int64[5]: a block of a row-aligned tensor, its tile at the row buffer but for I's height and width."""
    block = tile.copy()
    if tensor == INPUT:
        block[AXIS_H], block[AXIS_W] = placement.block_h, placement.block_w
    return block


def _new_banks(device: Device) -> Record:
    """Return records BANK of the three tensors with nothing accessed."""
    banks = np.zeros(3, BANK)
    banks["row_bytes"], banks["column_bytes"] = device.row_bytes, device.column_bytes
    banks["open_page"], banks["timing"] = device.open_page, device.timing
    return banks


def _report(device: Device, moves: Moves, visits: Visits, accesses: Ints, banks: Record, end_cycle: int) -> Trace:
    """Return the trace; a shared bus serves one stream at a time."""
    cycles = np.array([stream_cycles(bank) for bank in banks])
    steps = int(visits.array_steps) * int(visits.steps_each)
    macs = steps * moves.step_macs
    activations = banks["activations"].copy()
    return Trace(
        accesses=accesses,
        columns=banks["columns"].copy(),
        activations=activations,
        stream_cycles=cycles,
        dram_cycles=int(cycles.sum() if device.shared_bus else cycles.max()),
        compute_cycles=steps,
        energy_fj=energy_fj(accesses, activations, macs, device),
        latency_cycles=int(end_cycle) + device.reduction_latency,
    )
