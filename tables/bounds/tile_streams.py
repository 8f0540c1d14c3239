"""What the tensors of a tile use each by itself, and how long their DRAM streams take at least.

Where tensors share a bank or a bus, their scans follow each other, and the rows that they open depend on each other.
"""

from tables.bounds.array_work import has_relevant_loops, min_visits
from tables.bounds.layer import (
    BOX,
    COLUMNS,
    ENERGY,
    FIRST,
    LAYOUT,
    MOVED1,
    REPEAT,
    RESCAN,
    SWEPT_REPEAT,
    Record,
)
from tables.bounds.sweeps import SWEPT, rows_swept
from tables.jit import borrowing_njit
from tables.nest import Ints, O

#: The value of *free* (`tables.bounds.tile_state.TILE_STATE`) if a class is innermost both at the global buffer and
#: outside it.
ALL_FREE = 3
#: The usage of levels that cannot store a tensor. It exceeds any other usage.
NOT_STORABLE = 2**58


@borrowing_njit
def bound_tensors(x: Record, layer: Record, boxes: Ints, free: int) -> None:
    """Bound what each tensor uses by itself, where its irrelevant loops are `free`; `ALL_FREE` gives the minimum.

    Modifies x: usage, scans, stream_cycles, rows, column_cycles.
    """
    for t in range(3):
        bound_tensor(x, layer, boxes, t, free)


@borrowing_njit
def bound_tensor(x: Record, layer: Record, boxes: Ints, t: int, free: int) -> None:
    """Bound what a tensor uses by itself. Modifies the same of x."""
    column, miss, excess, _, _, column_bytes = layer.dram
    in_pe = x.in_pe[t]
    has_relevant, visits = has_relevant_loops(x, t), min_visits(x, t, free)
    fetches = 1 if free & 1 else x.class_loops_outside[t]
    for k in range(4):
        if not x.can_store[t, k]:
            x.usage[t, free, k] = NOT_STORABLE
            continue
        for f in range(layer.resources):
            passes = layer.coefficients[f, t, in_pe, k, MOVED1] * x.moved[t] * fetches
            x.usage[t, free, k, f] = x.without_visits[f, t, k] + x.per_visit[f, t, k] * visits + passes
        x.scans[t, free, k] = _scans(x, t, k, fetches, visits)
        times, columns = fetches, layer.min_columns[t]
        if not k:
            times = visits if in_pe else x.class_loops_left[t]
            if not in_pe:  # each scan takes a column
                columns = max(columns, x.scans[t, free, k] * (1 + (t == O and x.has_copies)))
        if (k == 2 and x.open_dims) or (not k and in_pe and x.inner_open):
            moved = (x.moved[t] if k else layer.needed[t]) * _scans_of(x, t, k, times)
            columns = max(columns, -(-moved * layer.widths[t, 0 if t == O and times > 1 else 3] // column_bytes))
        elif not k & 1 and t == O and times > 1 and (k or in_pe):
            columns = max(columns, -(-layer.needed[O] * (2 * times - 1) * layer.widths[O, 0] // column_bytes))
        level, at = box_place(x, layer, t, k)
        for layout in range(2):
            rows, taken = layer.min_rows[t], columns
            if free & SWEPT and t == x.swept and not k:
                rows = max(rows, rows_swept(x, layer, boxes, layout))
            if not k & 1:
                box = boxes[level, t, at, layout * LAYOUT : (layout + 1) * LAYOUT]
                rows = max(rows, box[FIRST] + (times - 1) * (box[REPEAT] if k or in_pe else 0))
                if not (k or in_pe):
                    drawn = boxes[layer.open_level[x.inner_open], t, x.array_box[t]]
                    again = (x.class_outer_loops[t] - 1) * drawn[layout * LAYOUT + SWEPT_REPEAT]
                    rows = max(rows, times * box[RESCAN], drawn[layout * LAYOUT + BOX] + again)
                if not k and has_relevant and not x.open_dims:  # repeating the box opens all of its rows again
                    around = boxes[0, t, x.box[t], layout * LAYOUT : (layout + 1) * LAYOUT]
                    rows = max(rows, around[BOX] + (x.class_loops_outside[t] - 1) * around[SWEPT_REPEAT])
                taken = max(taken, _scans_of(x, t, k, times) * box[COLUMNS])
            x.rows[t, free, k, layout] = rows
            x.column_cycles[t, free, k, layout] = column * taken + excess
        opened, taken_of = x.rows[t, free, k], x.column_cycles[t, free, k]
        x.usage[t, free, k, ENERGY] += layer.activation_fj * min(opened[0], opened[1])
        x.stream_cycles[t, free, k] = min(taken_of[0] + miss * opened[0], taken_of[1] + miss * opened[1])


@borrowing_njit
def box_place(x: Record, layer: Record, t: int, buffers: int) -> tuple[int, int]:
    """Return where `TileCosts.open_boxes` has what is loaded of a tensor from DRAM, the entry and the row: the tile of
    the global buffer if that stores the tensor, else of the PEs or the MACs. If extents are open, the entry has the
    minimum over all of them.
    """
    open_dims = x.open_dims if buffers else x.inner_open if x.in_pe[t] else 0
    return layer.open_level[open_dims], x.box[t] if buffers else x.pe_box[t]


@borrowing_njit
def _scans_of(x: Record, t: int, buffers: int, times: int) -> int:
    """Return how often a tile is scanned that is fetched so many times: outputs are written each time and read back,
    but for the first time, unless MACs add copies of them to the DRAM itself (B23).
    """
    if t != O:
        return times
    return 2 * times - 1 + (x.has_copies and not buffers and not x.in_pe[O])


@borrowing_njit
def _scans(x: Record, t: int, buffers: int, fetches: int, visits: int) -> int:
    """Return the fewest scans of a tensor: `fetches` or `visits` of all of its tiles, or one a step if MACs draw it."""
    if not buffers and not x.in_pe[t]:
        return int(x.class_loops_left[0] * x.class_loops_left[1] * x.class_loops_left[2] * x.class_loops_left[3])
    if buffers == 2:
        return int(fetches * x.buffer_tiles[t])
    return int(fetches if buffers else visits * x.pe_tiles[t])


@borrowing_njit
def take_streams(x: Record, layer: Record) -> int:
    """Set the cycles of the streams for the stored set and the innermost classes at hand. Modifies x: streams.

    The tensor of a shared bank that most loops fetch opens a row between any two scans of another one there (B17).
    Returns the energy of the rows that this adds.
    """
    for t in range(3):
        x.streams[t] = x.stream_cycles[t, x.free[t], x.buffers[t]]
    most, between = layer.most_fetched, 0
    if most < 0:
        return 0
    for t in range(3):
        if layer.is_beside[t]:
            between = max(between, x.scans[t, x.free[t], x.buffers[t]] - 1)
    opened = x.rows[most, x.free[most], x.buffers[most]]
    taken = x.column_cycles[most, x.free[most], x.buffers[most]]
    rows, rows1, miss = max(between, opened[0]), max(between, opened[1]), layer.dram[1]
    x.streams[most] = min(taken[0] + miss * rows, taken[1] + miss * rows1)
    return int(layer.activation_fj * (min(rows, rows1) - min(opened[0], opened[1])))


@borrowing_njit
def link_share(layer: Record, t: int, stream: int) -> int:
    """Return the cycles for which the scans of a tensor occupy a link that it shares with others; 0 if it does not.

    On a bus the times of all streams add up. In a bank only the data of the last run of all is awaited.
    """
    return int(stream - max(0, layer.dram[2])) if layer.is_linked[t] else 0
