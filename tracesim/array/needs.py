"""What a node of a step needs and makes: its boxes of I, W and O, and what lies at home on a node (section 4)."""

from collections.abc import Sequence
from typing import NamedTuple

from tracesim.array.areas import NOWHERE, Area, Range, area, overlap
from tracesim.array.network import Network, viewed_size
from tracesim.array.parts import Place, part_range, places
from tracesim.array.readings import Reading, reader_channels, seen_channels, stack_channels
from tracesim.array.records import AXIS_C, AXIS_H, AXIS_N, AXIS_W, C, G, K, Layer, N, P, Plan, Pool, Q, R, Reorder, S
from tracesim.array.reorders import cut_in_boxes, marked
from tracesim.array.views import source_range


class Part(NamedTuple):
    """A node's part of a layer: its ranges of the partitioned dims."""

    n: Range
    p: Range
    q: Range
    k: Range
    c: Range
    g: Range


def part_of(plan: Plan, number: int, place: Place) -> Part:
    """Return which part of a layer a node computes; its ranges may be empty."""
    grid, bounds = plan.steps[number].grid, plan.layers[number].bounds
    return Part(*(part_range(grid, place, dim, int(bounds[dim])) for dim in (N, P, Q, K, C, G)))


def output_area(layer: Layer, part: Part, first_channel: int) -> Area:
    """Return the outputs of a part before pooling, in channels of the stack; the layer's first one is given."""
    samples, channels = _blocks(layer, part, part.k, int(layer.bounds[K]))
    return area(samples, [(first_channel + low, first_channel + high) for low, high in channels], part.q, part.p)


def input_area(network: Network, reading: Reading, layer: Layer, part: Part) -> Area:
    """Return the inputs of a part, in channels of the stack; in rows and columns as the layer sees them.

    Of a tensor that is reordered, in channels as the layer sees them, too.
    """
    if any(low >= high for low, high in (part.n, part.p, part.q, part.c, part.g)):
        return NOWHERE
    width, height = viewed_size(network, reading)
    stride_w, stride_h, dilation_w, dilation_h = layer.conv.tolist()
    left, top = layer.pad
    x = _window(part.p, stride_w, dilation_w * (int(layer.bounds[R]) - 1) + 1, left, width)
    y = _window(part.q, stride_h, dilation_h * (int(layer.bounds[S]) - 1) + 1, top, height)
    samples, channels = _blocks(layer, part, part.c, int(layer.bounds[C]))
    return seen_area(reading, area(samples, channels, y, x))


def seen_area(reading: Reading, wanted: Area) -> Area:
    """Return an area whose channels are those of the reader, with channels of the stack, or as they are seen."""
    if isinstance(reading.view, Reorder):
        own = seen_channels(reading)
        channels = [overlap(each, own) for each in wanted.c]
        return area(wanted.n, [(low - own[0], high - own[0]) for low, high in channels], wanted.y, wanted.x)
    return area(wanted.n, _in_stack(reading, wanted.c), wanted.y, wanted.x)


def raw_areas(seen: Area, reading: Reading, shape: tuple[int, int, int, int]) -> tuple[Area, ...]:
    """Return what an area is made of: the box around it where it is pooled or resized, the very elements where they are
    reordered, the area itself where it is neither; nothing of nothing.
    """
    view = reading.view
    if not seen.c:
        return ()
    if view is None:
        return (seen,)
    if isinstance(view, Reorder):
        return tuple(cut_in_boxes(marked(view, seen, reader_channels(reading), shape)))
    x, y = source_range(view, 0, seen.x, shape[3]), source_range(view, 1, seen.y, shape[2])
    return (area(seen.n, seen.c, y, x),)


def pooled_area(raw: Area, pool: Pool) -> Area:
    """Return the pooled elements whose window meets the area."""
    x, y = (_windows_that_meet((raw.x, raw.y)[axis], pool, axis) for axis in (0, 1))
    return area(raw.n, raw.c, y, x)


def weight_areas(network: Network, number: int, layer: Layer, part: Part) -> tuple[Area, ...]:
    """Return what a part needs of the tensor that it reads as W, in channels of that tensor's stack."""
    reading = network.weights[number]
    samples = part.n if layer.has_sample_weights else (0, 1)
    if reading is None or any(low >= high for low, high in (samples, part.k, part.c, part.g)):
        return ()
    dim, channel = (C, part.c) if layer.weight_dim == K else (K, part.k)
    rows, columns = _around(part.k if layer.weight_dim == K else part.c, viewed_size(network, reading)[0])
    channels = _grouped(part.g, channel, int(layer.bounds[dim]))
    seen = seen_area(reading, area(samples, channels, rows, columns))
    return raw_areas(seen, reading, network.stack_shapes[reading.stack])


def _around(positions: Range, width: int) -> tuple[Range, Range]:
    """Return the rows and columns of the box around positions that are counted row by row."""
    places = [divmod(at, width) for at in range(*positions)]
    rows, columns = zip(*places, strict=True)
    return (min(rows), max(rows) + 1), (min(columns), max(columns) + 1)


def weight_elements(layer: Layer, part: Part) -> int:
    """Return the weights of a part: its g, k, c and all of the filter, for each sample if these have their own."""
    count = int(layer.bounds[R] * layer.bounds[S])
    for low, high in (part.g, part.k, part.c, *((part.n,) if layer.has_sample_weights else ())):
        count *= max(0, high - low)
    return count


def home_areas(plan: Plan, network: Network, stack: int) -> dict[int, Area]:
    """Return by node what lies at home there of a stack; nodes without any are absent.

    Of the axes along which it is spread over a sum, each node has all.
    """
    home = plan.homes[stack]
    if home is None:
        raise ValueError(f"Plan.homes: tensor {stack} needs one")
    found, shape, spread = {}, network.stack_shapes[stack], network.spread.get(stack, ())
    for place in places(plan.array, home.grid):
        ranges = [
            (0, shape[axis]) if axis in spread else part_range(home.grid, place, axis, shape[axis])
            for axis in (AXIS_N, AXIS_C, AXIS_H, AXIS_W)
        ]
        found[place.node] = area(ranges[0], [ranges[1]], ranges[2], ranges[3])
    return {node: held for node, held in found.items() if held.c}


def member_area(network: Network, tensor: int) -> Area:
    """Return where a tensor lies in its stack."""
    n, channels, height, width = network.shapes[tensor]
    first = network.members[tensor].channel
    return area((0, n), [(first, first + channels)], (0, height), (0, width))


def _blocks(layer: Layer, part: Part, channels: Range, per_block: int) -> tuple[Range, list[Range]]:
    """Return the samples of a part, and a range of channels in each of its blocks: of its groups, or of their heads."""
    if not layer.has_heads:
        return part.n, _grouped(part.g, channels, per_block)
    heads = int(layer.bounds[N])
    numbers = [g * heads + n for g in range(*part.g) for n in range(*part.n)]
    return (0, 1), [(at * per_block + channels[0], at * per_block + channels[1]) for at in numbers]


def _grouped(groups: Range, channels: Range, per_group: int) -> list[Range]:
    """Return the channel ranges of a range of channels in each of a range of groups."""
    return [(g * per_group + channels[0], g * per_group + channels[1]) for g in range(*groups)]


def _in_stack(reading: Reading, channels: Sequence[Range]) -> list[Range]:
    return [found for each in channels if each[0] < each[1] for found in stack_channels(reading, each)]


def _window(outputs: Range, stride: int, span: int, pad: int, size: int) -> Range:
    """Return what windows of `span` cover, gaps included, clipped to an axis of `size`."""
    return max(0, outputs[0] * stride - pad), min(size, (outputs[1] - 1) * stride + span - pad)


def _windows_that_meet(held: Range, pool: Pool, axis: int) -> Range:
    """Return the pooled indices i with [i * stride - pad, i * stride - pad + window) meeting what is held."""
    stride, pad = pool.stride[axis], pool.pad[axis]
    first = (held[0] + pad - pool.window[axis]) // stride + 1
    behind = -(-(held[1] + pad) // stride)
    return max(0, first), min(pool.size[axis], behind)
