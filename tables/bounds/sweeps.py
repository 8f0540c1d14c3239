"""What sweeps the boxes of a tile, and how often another tile is taken again if little does (docs/solver.md, B24).

The loops next to the array's tile are of the class of some tensor u. Contiguous ones keep u's tile, and sweep a box of
each other tensor t. Let j be the iterations of loops of the class that are not among them: u's tile is taken j times as
often as it would be if there were none, and each box that all loops would sweep is swept in j parts. A sweep goes from
the lowest row of its part to the highest one, so it opens all of them, but perhaps the first. So t opens rows for each
iteration of its irrelevant loops: the more often the fewer times u's tile is taken. The bound is the least over all j.

`x` is the state of the enumeration (`tables.bounds.tile_state.TILE_STATE`), `layer` a `LAYER` record.
"""

from tables.bounds.layer import BOX, CLASS_OF, LAYOUT, RESCAN, SWEPT_REPEAT, Record
from tables.jit import borrowing_njit
from tables.nest import I, Ints, R, S

#: Added to *free* (`tables.bounds.tile_state.TILE_STATE`) of t and u.
SWEPT = 4


@borrowing_njit
def closest_class(x: Record, one: int) -> int:
    """Return the class of the loops next to the array's tile, where class `one` is innermost at the global buffer and
    `x.outside` outside it; -1 if that is not known.
    """
    if x.inner_open or x.open_dims:
        return -1
    if x.class_buffer_loops[one] > 1:
        return one
    return int(x.outside if x.looped_classes == 0 and x.class_loops_outside[x.outside] > 1 else -1)


@borrowing_njit
def choose_swept(x: Record, layer: Record, boxes: Ints, closest: int, visits: int) -> bool:
    """Choose the tensor that opens most rows if loops of the class `closest` sweep it: one that the array takes from a
    single bank. Return whether there is one that would open more than is known.

    `visits`: how often the tile of the class is taken at least. Modifies x: swept, swept_box, swept_boxes, loops_swept.
    """
    most, x.loops_swept = 0, x.class_outer_loops[closest] // visits
    for t in range(3):
        if t != closest and not x.buffers[t] and layer.banks[t] == 1:
            box, number = _box_swept(x, layer, t, closest, visits)
            rows = x.class_outer_loops[t] * min(boxes[0, t, box, RESCAN], boxes[0, t, box, LAYOUT + RESCAN])
            opened = x.rows[t, x.free[t], 0]
            if rows > max(most, min(opened[0], opened[1])):
                most, x.swept, x.swept_box, x.swept_boxes = rows, t, box, number
    return most > 0


@borrowing_njit
def _box_swept(x: Record, layer: Record, t: int, closest: int, visits: int) -> tuple[int, int]:
    """Return the row of `TileCosts.boxes` of what all loops of the class that may be contiguous sweep of t, and how
    many such boxes t has.
    """
    box, number = 0, 1
    for d in range(8):
        at, extent = x.array_at[d], x.array[d]
        if CLASS_OF[d] == closest:
            at, extent = (layer.counts[d] - 1, layer.bounds[d]) if visits == 1 else (x.extents_at[d], x.extents[d])
        box += at * layer.strides[t, d]
        number *= layer.bounds[d] // extent if CLASS_OF[d] != t else 1
    return box, number


@borrowing_njit
def choose_parts(x: Record, layer: Record, fewest: int) -> bool:
    """Take numbers of parts from `fewest` to less than twice as many; return whether there are any. Modifies x: parts,
    revisits, fills_rows.
    """
    x.parts = min(2 * fewest - 1, x.loops_swept)
    x.revisits = fewest
    while x.revisits <= x.parts and x.loops_swept % x.revisits:
        x.revisits += 1
    x.fills_rows = x.loops_swept > x.parts * _swept_in_a_row(x, layer)
    return bool(x.revisits <= x.parts)


@borrowing_njit
def _swept_in_a_row(x: Record, layer: Record) -> int:
    """Return the most iterations that sweep a part of at most a row.

    Each of them adds a tile, but loops of filters may go over the same positions of I.
    """
    elements, repeated = 1, 1
    for d in range(8):
        is_filter = x.swept == I and d in (R, S)
        if is_filter:
            repeated *= x.outer_loops[d]
        elif CLASS_OF[d] != x.swept:
            elements *= x.array[d]
    return int(layer.row_bytes // (elements * layer.widths[x.swept, 3]) * repeated)


@borrowing_njit
def rows_swept(x: Record, layer: Record, boxes: Ints, layout: int) -> int:
    """Return the fewest rows that `x.swept` opens with so many parts, in a layout: those of each part but one, or all
    of the tensor's if each part has several.
    """
    passes = x.class_outer_loops[x.swept]
    box = boxes[0, x.swept, x.swept_box, layout * LAYOUT : (layout + 1) * LAYOUT]
    if x.parts == 1:
        return int(box[BOX] + (passes - 1) * box[SWEPT_REPEAT])
    opened = box[RESCAN] - x.parts * x.swept_boxes
    return int(passes * max(opened, layer.min_rows[x.swept] if x.fills_rows else 0))
