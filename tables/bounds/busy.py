"""Lower bounds on the cycles of a tile with given stored sets and free loops: of what cannot overlap.

`x` is the state of the enumeration (`tables.bounds.tile_state.TILE_STATE`), `layer` a `LAYER` record.
"""

from tables.bounds.array_work import min_visits, move_cycles, port_cycles, work_cycles
from tables.bounds.layer import END, LAYOUT, Record
from tables.bounds.link_waits import link_cycles
from tables.bounds.tile_streams import box_place, link_share
from tables.jit import borrowing_njit
from tables.nest import I, Ints, O, W


@borrowing_njit
def min_busy_cycles(x: Record, layer: Record, boxes: Ints, steps: int) -> int:
    """Return a lower bound on the cycles of what cannot overlap: the terms of `cpsat_pim.mapper.model.latency`."""
    column, first_load, in_pe, buffers, free = layer.dram[0], layer.dram[3], x.in_pe, x.buffers, x.free
    start, end, outputs, first_i, first_w = 0, column, x.streams[O], 0, 0
    for t in range(3):
        is_held = in_pe[t] or buffers[t]
        edge = first_load if t != O and is_held else 0
        if is_held and not buffers[t] & 1:
            level, at = box_place(x, layer, t, buffers[t])
            edge = max(edge, min(boxes[level, t, at, END], boxes[level, t, at, LAYOUT + END]))
        if t == O:
            end = max(end, edge)
        elif t == I:
            first_i = edge
        else:
            first_w = edge
    start = first_i + first_w if layer.is_linked[I] and layer.is_linked[W] else max(first_i, first_w)
    in_use, streams_of_link = steps, 0
    for t in range(3):
        if layer.is_linked[t]:
            in_use = min(in_use, x.residence[t, free[t], buffers[t]])
            streams_of_link += link_share(layer, t, x.streams[t])
    visits = min_visits(x, O, free[O])
    fetches = (1 if free[O] & 1 else x.class_loops_outside[O]) if buffers[O] else visits
    work, last = work_cycles(x, layer, steps, buffers[O], visits) if buffers[O] else steps, end
    if buffers[O] == 3:
        work += move_cycles(layer, 2, fetches - 1)
    if fetches > 1 and not buffers[O] & 1 and (buffers[O] or in_pe[O]):
        # Partial sums return, and the array waits for them. Two slots hide one write-out of each tile behind a tile's
        # share of the work. Besides that and the last one, 2 X - 2 of 2 X - 1 equal scans of each tile are awaited.
        taken = x.column_cycles[O, free[O], buffers[O]]
        columns = max(0, min(taken[0], taken[1]) - max(0, layer.dram[2]))
        awaited = columns * (2 * fetches - 2) // (2 * fetches - 1)
        last = max(end + awaited, outputs - (work // fetches if layer.is_double[min(1, buffers[O])] else 0))
    busy = max(start + work + last, start + outputs + x.residence[O, free[O], buffers[O]], streams_of_link + in_use)
    for t in (I, W):
        before = 0 if in_pe[t] or buffers[t] else start
        busy = max(busy, before + x.streams[t] + x.residence[t, free[t], buffers[t]] + end)
    for f in range(1, layer.resources):
        load, largest = 0, 0
        for t in range(3):
            one = x.usage[t, free[t], buffers[t], f]
            load, largest = load + one, max(largest, one)
        port = port_cycles(layer.rates[f], max(load, largest * layer.rates[f, 2]), x.class_pes)
        busy = max(busy, start + port + end)
    busy = max(busy, link_cycles(x, layer, steps, first_i, first_w, end))
    return int(max(busy, _exposed_cycles(x, layer, steps)))


@borrowing_njit
def _exposed_cycles(x: Record, layer: Record, steps: int) -> int:
    """Return the cycles of the steps and of loads that nothing hides: a level with one slot that alone stores a tensor
    loads while the array waits. Over a link that tensors share, such loads follow each other.
    """
    busy, exposed = 0, steps
    for t in range(3):
        if is_exposed(x, layer, t):
            busy = max(busy, steps + x.streams[t])
            exposed += link_share(layer, t, x.streams[t])
    return int(max(busy, exposed))


@borrowing_njit
def is_exposed(x: Record, layer: Record, t: int) -> bool:
    """Whether a tensor is stored by the row buffer alone, or by a level with one slot alone."""
    at = x.buffers[t]
    if x.in_pe[t]:
        return not at and not layer.is_double[0]
    return bool(at == 1 or (at == 2 and not layer.is_double[1]))
