"""How the operators of ONNX files reorder channels: the maps of their results (`cpsat_pim.importers.channel_maps`)."""

from collections.abc import Callable, Sequence

import onnx

from cpsat_pim.importers.channel_maps import (
    Map,
    channels_along,
    common_map,
    gathered,
    kept_map,
    product_channels,
    side_by_side,
    small,
)
from cpsat_pim.importers.onnx_call import Call
from cpsat_pim.importers.onnx_operators import ELEMENTWISE
from cpsat_pim.importers.onnx_tensors import Tensors
from cpsat_pim.importers.products import Shape

#: Operators that mix channels, or positions, and give as many of each back.
_NORMALISING = frozenset(
    ("BatchNormalization", "GroupNormalization", "InstanceNormalization", "LayerNormalization", "LogSoftmax", "Softmax")
)


def result_maps(tensors: Tensors, node: onnx.NodeProto, call: Call) -> list[Map | None]:
    """Return the map of each result of a node whose parts are known."""
    sizes = [tensors.shapes.sizes(name) if name else None for name in node.output]
    try:
        return [*map(small, _maps(tensors, node, call, sizes))]
    except (ArithmeticError, LookupError, TypeError, ValueError):  # what no map can follow is not followed
        return [None] * len(sizes)


def _maps(tensors: Tensors, node: onnx.NodeProto, call: Call, sizes: Sequence[Shape | None]) -> list[Map | None]:
    out = sizes[0]
    if out is None or not tensors.origin(node.output[0]):
        return [None] * len(sizes)
    own = tensors.maps.get(node.input[0]) if node.input else None
    if call.kind in ("Conv", "FusedConv", "QLinearConv"):
        return [channels_along(out, 1)]
    if call.kind in ("MatMul", "Gemm"):
        return [_product(tensors, node, call, out)]
    if call.kind == "Concat":
        return [_concatenated(tensors, node, call.given["axis"])]
    if call.kind == "Split" and own is not None:
        return _split(own, call.given.get("axis", 0), sizes)
    if call.kind in _MOVES:
        return [None if own is None else _MOVES[call.kind](own, call, out)]
    if call.kind in ELEMENTWISE or call.kind in _NORMALISING:
        return [_elementwise(tensors, node, out)] + [None] * (len(sizes) - 1)
    return [kept_map(own, out)] + [None] * (len(sizes) - 1)


def _elementwise(tensors: Tensors, node: onnx.NodeProto, out: Shape) -> Map | None:
    """Return the map of a function of single elements; of several parts only if all operands have the same."""
    read = [name for name in node.input if tensors.origin(name)]
    if len({tensors.origin(name) for name in read}) > 1 and any(len(tensors.origin(name)) > 1 for name in read):
        return None
    return common_map([tensors.maps.get(name) for name in read if tensors.shapes.sizes(name) == out], out)


def _product(tensors: Tensors, node: onnx.NodeProto, call: Call, out: Shape) -> Map | None:
    if call.kind == "Gemm" or not tensors.origin(node.input[1]):
        return channels_along(out, -1) if tensors.origin(node.input[0]) and len(call.shape(1)) == 2 else None
    return product_channels(call.shape(0), call.shape(1), out) if tensors.origin(node.input[0]) else None


def _concatenated(tensors: Tensors, node: onnx.NodeProto, axis: int) -> Map | None:
    """Return the map of what is concatenated along its channels, or with constants along another axis."""
    data = [name for name in node.input if tensors.origin(name)]
    if len(data) == 1:
        return kept_map(tensors.maps.get(data[0]), tensors.shapes.shape(node.output[0]))
    if len(data) < len(node.input):
        return None
    firsts = tensors.builder.first_channels(tensors.origin(node.output[0]), map(tensors.origin, data))
    return None if firsts is None else side_by_side([tensors.maps.get(name) for name in data], firsts, axis)


def _split(own: Map, axis: int, sizes: Sequence[Shape | None]) -> list[Map | None]:
    found, first = [], 0
    for size in sizes:
        if size is None:
            return [None] * len(sizes)
        found.append(own.take(range(first, first + size[axis]), axis=axis))
        first += size[axis]
    return [*found]


def _reshaped(own: Map, call: Call, out: Shape) -> Map | None:
    return own.reshape(out)


def _transposed(own: Map, call: Call, out: Shape) -> Map | None:
    return own.transpose(call.given.get("perm", [*range(own.ndim)][::-1]))


def _gathered(own: Map, call: Call, out: Shape) -> Map | None:
    index = call.values[1]
    return None if index is None else gathered(own, index, call.given.get("axis", 0))


def _sliced(own: Map, call: Call, out: Shape) -> Map | None:
    starts, ends, axes, steps = (
        _integers(call, at, key) for at, key in enumerate(("starts", "ends", "axes", "steps"), 1)
    )
    if starts is None or ends is None:
        return None
    at = [slice(None)] * own.ndim
    for index, (start, end) in enumerate(zip(starts, ends, strict=True)):
        axis, step = index if axes is None else axes[index], 1 if steps is None else steps[index]
        at[axis] = slice(start, end if end >= -own.shape[axis] else None, step)
    found = own[tuple(at)]
    return found if found.shape == out else None


def _integers(call: Call, index: int, key: str) -> list[int] | None:
    """Return a list that is an input or, in early operator sets, an attribute."""
    value = call.values[index] if index < len(call.values) else call.given.get(key)
    return None if value is None else [int(item) for item in value]


_MOVES: dict[str, Callable[[Map, Call, Shape], Map | None]] = {
    **dict.fromkeys(("Reshape", "Flatten", "Squeeze", "Unsqueeze"), _reshaped),
    "Transpose": _transposed,
    "Gather": _gathered,
    "Slice": _sliced,
}
