"""Which elements of a tensor a pooled or resized one is made of, along an axis (docs/array.md, section 2)."""

from tracesim.array.areas import Range
from tracesim.array.records import LINEAR, NEAREST, Pool, Resize


def source_range(view: Pool | Resize, axis: int, seen: Range, size: int) -> Range:
    """Return the box of what a range of seen columns (axis 0) or rows (1) is made of, of an axis of `size`."""
    return sources(view, axis, seen[0], size)[0], sources(view, axis, seen[1] - 1, size)[1]


def sources(view: Pool | Resize, axis: int, at: int, size: int) -> Range:
    """Return what one seen column or row is made of: its window, or the one or two that it lies at or between."""
    if isinstance(view, Pool):
        start = at * view.stride[axis] - view.pad[axis]
        return max(0, start), max(0, min(size, start + view.window[axis]))
    place, parts = _place(view, at, size, view.size[axis])
    return place // parts, -(-place // parts) + 1


def _place(view: Resize, at: int, size: int, seen: int) -> tuple[int, int]:
    """Return where a seen index lies along an axis of `size`, as a fraction: the middle of an element is its index."""
    if view.kind == NEAREST:
        return at * size // seen, 1
    if view.kind == LINEAR:
        return min(max(0, (2 * at + 1) * size - seen), 2 * seen * (size - 1)), 2 * seen
    return at * (size - 1), max(1, seen - 1)
