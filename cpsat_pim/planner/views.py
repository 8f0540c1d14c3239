"""What readers make of tensors that they pool or resize: rows and columns that are needed, and elements that are added
(docs/array.md, sections 2 and 5).
"""

import numpy as np
from attrs import frozen

from cpsat_pim.workload.joins import LINEAR, NEAREST, Pool, Resize
from cpsat_pim.workload.reorders import Reorder
from tables.array.push import Viewed

_NO_BOXES = np.zeros((0, 1, 8), dtype=np.int64)
#: Of a tensor that is read as it is.
AS_IT_IS = Viewed(_NO_BOXES, _NO_BOXES, 0, 0, False)


@frozen(kw_only=True, eq=False)
class ReadBoxes:
    """Boxes of what a layer reads of a stack, int64[nodes, boxes, 8].

    `seen`: what nodes store in their place: what the layer sees of them where they are pooled or resized, or a sum
    with something else; None where they are neither.
    """

    raw: np.ndarray
    seen: np.ndarray | None = None


def source_ranges(view: Pool | Resize, axis: int, at: np.ndarray, size: int) -> tuple[np.ndarray, np.ndarray]:
    """Return where the columns (axis 0) or rows (1) that indices are made of begin and end, of an axis of `size`."""
    if isinstance(view, Pool):
        start = at * view.stride[axis] - view.pad[axis]
        return np.clip(start, 0, size), np.clip(start + view.window[axis], 0, size)
    seen = view.size[axis]
    if view.kind == NEAREST:
        place, parts = at * size // seen, 1
    elif view.kind == LINEAR:
        place, parts = np.clip((2 * at + 1) * size - seen, 0, 2 * seen * (size - 1)), 2 * seen
    else:
        place, parts = at * (size - 1), max(1, seen - 1)
    return place // parts, -(-place // parts) + 1


def summed(boxes: ReadBoxes) -> ReadBoxes:
    """Return the boxes of an input to which something is added: nodes store the sum in their place."""
    return boxes if boxes.seen is not None else ReadBoxes(raw=boxes.raw, seen=boxes.raw)


def viewed(view: Pool | Resize | Reorder | None, boxes: ReadBoxes, is_added: bool = False) -> Viewed:
    """Return boxes as the kernels read them, with the additions that a view takes.

    One an element that is pooled, three an element that is blended of four. `is_added`: to what the node computes, or
    computes with; what is added as it is, is read once for that.
    """
    if boxes.seen is None:
        return Viewed(boxes.raw, np.zeros_like(boxes.raw), 1, 0, is_added) if is_added else AS_IT_IS
    if view is None or isinstance(view, Reorder):
        return Viewed(boxes.raw, boxes.seen, 0, 0, is_added)
    if isinstance(view, Pool):
        return Viewed(boxes.raw, boxes.seen, 1, 0, is_added)
    return Viewed(boxes.raw, boxes.seen, 0, 0 if view.kind == NEAREST else 3, is_added)
