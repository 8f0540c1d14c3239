"""The boxes of a layer's tensors that each node of its region computes, reads and holds (docs/array.md, section 4).

A box is a row `n0 n1 c0 c1 y0 y1 x0 x1` of half-open ranges in a stack. Boxes of all nodes are int64[nodes, boxes, 8];
nodes with fewer boxes than others have empty ones.
"""

from collections.abc import Iterable, Sequence

import numpy as np
from attrs import frozen

from cpsat_pim.planner.channels import Span
from cpsat_pim.planner.partition import (
    LAYER_DIMS,
    TENSOR_DIMS,
    Home,
    Partition,
    part_indices,
    part_ranges,
)
from cpsat_pim.planner.reorders import reordered_boxes
from cpsat_pim.planner.tensors import Graph, LayerTask, Reading
from cpsat_pim.planner.views import ReadBoxes, source_ranges, summed
from cpsat_pim.workload.joins import Pool, Range, Resize
from cpsat_pim.workload.reorders import Reorder

_N, _P, _Q, _K, _C, _G = range(6)


@frozen(kw_only=True, eq=False)
class PartBoxes:
    """Boxes of a layer's nodes.

    `read`: of its input, stack by stack, and of what takes the place of W, in the order of the layer's readings.
    `ranges[node, dim]`, dims N P Q K C G, are the parts themselves; `weight_elements[node]` the size of the weight box.
    """

    ranges: np.ndarray
    output: np.ndarray
    read: tuple[ReadBoxes, ...]
    weight_elements: np.ndarray


def bounds_of(task: LayerTask) -> tuple[int, ...]:
    """The layer's bounds in the order of `LAYER_DIMS`."""
    layer = task.workload
    return (layer.N, layer.P, layer.Q, layer.K, layer.C, layer.G)


def part_boxes(graph: Graph, task: LayerTask, partition: Partition) -> PartBoxes:
    """The boxes of every node of a layer's region, row by row."""
    splits = tuple(partition.split(dim) for dim in LAYER_DIMS)
    indices = part_indices(partition.h, partition.w, LAYER_DIMS)
    return boxes_of_parts(graph, task, part_ranges(indices, bounds_of(task), splits))


def boxes_of_parts(graph: Graph, task: LayerTask, ranges: np.ndarray) -> PartBoxes:
    """The boxes of parts of a layer: `ranges[part, dim]`, dims N P Q K C G."""
    read = [_read_boxes(graph, task, reading, ranges) for reading in (task.reads, *task.beside)]
    if task.adds_inputs:
        read = [boxes if one.is_added else summed(boxes) for boxes, one in zip(read, task.readings, strict=False)]
    if task.reads_weights:
        read.append(_weight_boxes(graph, task, task.reads_weights, ranges))
    return PartBoxes(
        ranges=ranges,
        output=output_boxes(task, ranges),
        read=tuple(read),
        weight_elements=_weight_elements(task, ranges),
    )


def home_boxes(shape: tuple[int, int, int, int], home: Home, spread: tuple[int, ...] = ()) -> np.ndarray:
    """What each node of a home's region holds: int64[nodes, 8]; all of the axes along which a tensor is `spread`."""
    splits = tuple(home.split(axis) for axis in TENSOR_DIMS)
    ranges = part_ranges(part_indices(home.h, home.w, TENSOR_DIMS), shape, splits)
    for axis in spread:
        ranges[:, axis] = 0, shape[axis]
    boxes: np.ndarray = ranges.reshape(-1, 8)
    return boxes


def volumes(boxes: np.ndarray) -> np.ndarray:
    """Elements of boxes: the product of their last axis' ranges."""
    sides: np.ndarray = boxes[..., 1::2] - boxes[..., 0::2]
    elements: np.ndarray = np.maximum(sides, 0).prod(axis=-1)
    return elements


def pooled_boxes(boxes: np.ndarray, pool: Pool) -> np.ndarray:
    """The pooled elements whose windows meet each box."""
    found = boxes.copy()
    for at, axis in ((4, 1), (6, 0)):
        start, stop = boxes[..., at], boxes[..., at + 1]
        window, stride, pad, size = (getattr(pool, key)[axis] for key in ("window", "stride", "pad", "size"))
        found[..., at] = np.clip(-(-(start + pad - window + 1) // stride), 0, size)
        found[..., at + 1] = np.clip((stop - 1 + pad) // stride + 1, 0, size)
    found[volumes(boxes) == 0] = 0
    return found


def _read_boxes(graph: Graph, task: LayerTask, reading: Reading, ranges: np.ndarray) -> ReadBoxes:
    """The boxes of a stack that parts read, and what they see of it, if that is something else."""
    _, _, height, width = shape = graph.stacks[reading.stack].shape
    if reading.view is None:
        return ReadBoxes(raw=_input_boxes(task, reading.spans, (width, height), ranges))
    seen = _input_boxes(task, _seen_spans(reading), reading.view.size, ranges)
    if isinstance(reading.view, Reorder):
        return ReadBoxes(raw=reordered_boxes(reading.view, reading.spans, shape, seen))
    return ReadBoxes(raw=_raw_boxes(reading.view, seen, shape), seen=seen)


def _seen_spans(reading: Reading) -> tuple[Span, ...]:
    """The channels that a reader's own are: of the stack, or all those that it sees of a reordered tensor."""
    if isinstance(reading.view, Reorder):
        return (Span(reading.spans[0].first, 0, reading.view.shape[1]),)
    return reading.spans


def _raw_boxes(view: Pool | Resize, seen: np.ndarray, shape: tuple[int, int, int, int]) -> np.ndarray:
    """The boxes of a stack that what is seen of it is made of."""
    raw = seen.copy()
    for at, axis, size in ((4, 1, shape[2]), (6, 0, shape[3])):
        raw[..., at] = source_ranges(view, axis, seen[..., at], size)[0]
        raw[..., at + 1] = source_ranges(view, axis, seen[..., at + 1] - 1, size)[1]
    raw[volumes(seen) == 0] = 0
    return raw


def added_boxes(graph: Graph, task: LayerTask, reading: Reading, held: np.ndarray) -> ReadBoxes:
    """The boxes of a stack that nodes fetch to add them to what they hold of an output, and what they see of them."""
    shape, seen = graph.stacks[reading.stack].shape, held.copy()
    seen[..., 2:4] += (0 if isinstance(reading.view, Reorder) else reading.spans[0].start) - task.offset
    seen[volumes(held) == 0] = 0
    if reading.view is None:
        return ReadBoxes(raw=seen)
    if isinstance(reading.view, Reorder):
        return ReadBoxes(raw=reordered_boxes(reading.view, reading.spans, shape, seen))
    return ReadBoxes(raw=_raw_boxes(reading.view, seen, shape), seen=seen)


def output_boxes(task: LayerTask, ranges: np.ndarray) -> np.ndarray:
    """Output boxes of parts with these ranges: int64[nodes, boxes, 8]."""
    layer, made = task.workload, _blocks(task, ranges, _K, task.workload.K)
    written = (Span(0, task.offset, task.offset + layer.G * made.per_group * layer.K),)
    return _boxes(made, written, ranges[:, _Q], ranges[:, _P])


def _input_boxes(task: LayerTask, spans: tuple[Span, ...], size: tuple[int, int], ranges: np.ndarray) -> np.ndarray:
    """Input boxes of a tensor of this width and height."""
    layer, (width, height) = task.workload, size
    rows = _window_ranges(ranges[:, _Q], layer.stride[1], layer.dilation[1] * (layer.S - 1), task.pad[1], height)
    cols = _window_ranges(ranges[:, _P], layer.stride[0], layer.dilation[0] * (layer.R - 1), task.pad[0], width)
    return _boxes(_blocks(task, ranges, _C, layer.C), spans, rows, cols)


def _weight_boxes(graph: Graph, task: LayerTask, reading: Reading, ranges: np.ndarray) -> ReadBoxes:
    """The part of the tensor that takes the place of W."""
    layer = task.workload
    shape, view = graph.stacks[reading.stack].shape, reading.view
    width = view.size[0] if view else shape[3]
    rows, inner, bound = (_K, _C, layer.C) if task.weight_rows == "K" else (_C, _K, layer.K)
    first = _first_of(ranges)
    samples = ranges[:, _N] if task.has_sample_weights else first
    blocks = _Blocks(samples, ranges[:, _G], first, 1, ranges[:, inner], bound)
    seen = _boxes(blocks, _seen_spans(reading), *_around(ranges[:, rows], width))
    return ReadBoxes(raw=reordered_boxes(view, reading.spans, shape, seen) if isinstance(view, Reorder) else seen)


def _around(positions: np.ndarray, width: int) -> tuple[np.ndarray, np.ndarray]:
    """The rows and columns of the box around positions that are counted row by row: all columns of several rows."""
    first, last = positions[:, 0], np.maximum(positions[:, 1] - 1, positions[:, 0])
    rows = np.stack([first // width, last // width + 1], axis=-1)
    is_one = rows[:, 1] - rows[:, 0] == 1
    cols = np.stack([np.where(is_one, first % width, 0), np.where(is_one, last % width + 1, width)], axis=-1)
    rows[positions[:, 0] >= positions[:, 1]] = 0
    return rows, cols


def _weight_elements(task: LayerTask, ranges: np.ndarray) -> np.ndarray:
    dims = [_N, _K, _C, _G] if task.has_sample_weights else [_K, _C, _G]
    sizes = (ranges[:, dims, 1] - ranges[:, dims, 0]).prod(axis=-1)
    elements: np.ndarray = sizes * task.workload.R * task.workload.S
    return elements


def _window_ranges(parts: np.ndarray, stride: int, reach: int, pad: int, size: int) -> np.ndarray:
    """What windows over output positions [a, b) cover of an axis; empty for no positions."""
    found: np.ndarray = np.clip(
        np.stack([parts[:, 0] * stride - pad, (parts[:, 1] - 1) * stride + reach + 1 - pad], -1), 0, size
    )
    found[parts[:, 0] >= parts[:, 1]] = 0
    return found


@frozen(eq=False)
class _Blocks:
    """Which channels parts have: ranges int64[parts, 2] of samples, of groups, of the heads in each of them (so many
    `per_group`; one that is no head), and of the channels of each of these (so many, `bound`).
    """

    samples: np.ndarray
    groups: np.ndarray
    heads: np.ndarray
    per_group: int
    channels: np.ndarray
    bound: int

    def ranges(self, part: int) -> list[Range]:
        """Channels of a part, counted over all groups: one range for each block, merged where they touch."""
        (g0, g1), (n0, n1), (c0, c1) = (of[part].tolist() for of in (self.groups, self.heads, self.channels))
        count, bound = self.per_group, self.bound
        if c0 >= c1:
            return []
        if (c0, c1) == (0, bound) and (n0, n1) == (0, count):
            return [(g0 * count * bound, g1 * count * bound)] if g0 < g1 else []
        blocks = [g * count + n for g in range(g0, g1) for n in range(n0, n1)]
        return [(block * bound + c0, block * bound + c1) for block in blocks]


def _blocks(task: LayerTask, ranges: np.ndarray, at: int, bound: int) -> _Blocks:
    """The channels of a dim (`at`: K or C) of so many in a group."""
    groups, channels = ranges[:, _G], ranges[:, at]
    if task.has_heads:
        return _Blocks(_first_of(ranges), groups, ranges[:, _N], task.workload.N, channels, bound)
    return _Blocks(ranges[:, _N], groups, _first_of(ranges), 1, channels, bound)


def _first_of(ranges: np.ndarray) -> np.ndarray:
    """The range [0, 1) for each part."""
    return np.tile(np.array([0, 1]), (len(ranges), 1))


def _translated(ranges: Sequence[Range], spans: Iterable[Span]) -> list[Range]:
    """Channels of a reader's list as channels of the stack, in the stack's order."""
    found = []
    for span in spans:
        for start, stop in ranges:
            low, high = max(start - span.first, 0), min(stop - span.first, span.stop - span.start)
            if low < high:
                found.append((span.start + low, span.start + high))
    return _merged(found)


def _merged(ranges: list[Range]) -> list[Range]:
    """Sorted ranges, those that touch as one."""
    merged: list[Range] = []
    for start, stop in sorted(ranges):
        if merged and merged[-1][1] == start:
            start = merged.pop()[0]
        merged.append((start, stop))
    return merged


def _boxes(
    of: _Blocks,
    places: tuple[Span, ...],
    rows: np.ndarray,
    cols: np.ndarray,
) -> np.ndarray:
    """Boxes of every node, int64[nodes, boxes, 8], one a channel range; those of empty parts are all zeros.

    `places`: where in the stack those channels lie that are read. Nodes of equal ranges share the work.
    """
    is_whole = len(places) == 1 and places[0].first == 0 and places[0].stop - places[0].start >= of.bound
    if is_whole and of.groups.max() == of.per_group == 1:
        return _one_box(of.samples, of.channels + places[0].start, rows, cols)
    parts = np.concatenate([of.groups, of.heads, of.channels], axis=1)
    _, first, which = np.unique(_numbers(parts), return_index=True, return_inverse=True)
    found = [_translated(of.ranges(part), places) for part in first.tolist()]
    ranges = np.zeros((len(found), max(1, *map(len, found)), 2), dtype=np.int64)
    for i, listed in enumerate(found):
        ranges[i, : len(listed)] = np.array(listed, dtype=np.int64).reshape(-1, 2)
    boxes = np.zeros((len(parts), ranges.shape[1], 8), dtype=np.int64)
    boxes[:, :, 0:2], boxes[:, :, 4:6], boxes[:, :, 6:8] = of.samples[:, None], rows[:, None], cols[:, None]
    boxes[:, :, 2:4] = ranges[which]
    boxes[volumes(boxes) == 0] = 0
    return boxes


def _one_box(n: np.ndarray, channels: np.ndarray, rows: np.ndarray, cols: np.ndarray) -> np.ndarray:
    """The box of every node, int64[nodes, 1, 8]; that of an empty part is all zeros."""
    boxes = np.concatenate([n, channels, rows, cols], axis=1)[:, None]
    boxes[volumes(boxes) == 0] = 0
    return boxes


def _numbers(parts: np.ndarray) -> np.ndarray:
    """A number for each row, equal where rows are."""
    number = np.zeros(len(parts), dtype=np.int64)
    for column in parts.T:
        number = number * (int(column.max()) + 1) + column
    return number
