"""How the operators of ONNX files reorder channels and positions: the maps of their results
(`cpsat_pim.importers.channel_maps`).
"""

from collections.abc import Callable, Mapping, Sequence

import onnx
from attrs import frozen

from cpsat_pim.importers.channel_maps import Map, gathered, kept_map, small
from cpsat_pim.importers.onnx_call import Call
from cpsat_pim.importers.onnx_operators import ELEMENTWISE
from cpsat_pim.importers.onnx_tensors import Tensors
from cpsat_pim.importers.orders import Channels, Places, Rules, adding, is_one_layer, of_einsum
from cpsat_pim.importers.products import Shape

#: Operators that mix channels, or positions, and give as many of each back.
_NORMALISING = frozenset(
    ("BatchNormalization", "GroupNormalization", "InstanceNormalization", "LayerNormalization", "LogSoftmax", "Softmax")
)


def follow_order(tensors: Tensors, node: onnx.NodeProto, call: Call) -> None:
    """Note which channels and positions the elements of a node's results are."""
    for maps, rules in ((tensors.maps, Channels()), (tensors.places, Places(tensors.builder.recount))):
        maps |= zip(node.output, _Order(rules, tensors, maps, node, call).of_results(), strict=True)


@frozen
class _Order:
    """A node whose parts are known, with the maps so far of channels or positions (`rules`)."""

    rules: Rules
    tensors: Tensors
    maps: Mapping[str, Map | None]
    node: onnx.NodeProto
    call: Call

    def of_results(self) -> list[Map | None]:
        """Return the map of each result."""
        sizes = [self.tensors.shapes.sizes(name) if name else None for name in self.node.output]
        try:
            return [*map(small, self._maps(sizes))]
        except (ArithmeticError, LookupError, TypeError, ValueError):  # what no map can follow is not followed
            return [None] * len(sizes)

    def _maps(self, sizes: Sequence[Shape | None]) -> list[Map | None]:
        out, kind, node = sizes[0], self.call.kind, self.node
        if out is None or not self.tensors.origin(node.output[0]):
            return [None] * len(sizes)
        own = self.maps.get(node.input[0]) if node.input else None
        if kind in ("Conv", "ConvTranspose", "FusedConv", "QLinearConv"):
            return [self.rules.convolved(out) if is_one_layer(self.tensors.origin(node.output[0])) else None]
        if kind in ("MatMul", "Gemm"):
            return [self._product(out)]
        if kind == "Einsum":
            sizes, is_turned = [*map(self.call.shape, range(len(node.input)))], not self.tensors.origin(node.input[0])
            return [of_einsum(self.rules, self.call.given["equation"].decode(), sizes, is_turned)]
        if kind == "Concat":
            return [self._concatenated(self.call.given["axis"])]
        if kind == "Split" and own is not None:
            return _split(own, self.call.given.get("axis", 0), sizes)
        if kind in _MOVES:
            return [None if own is None else _MOVES[kind](own, self.call, out)]
        if kind in ELEMENTWISE or kind in _NORMALISING:
            return [self._combined(out)] + [None] * (len(sizes) - 1)
        return [self.rules.passed(own, out, kind == "Pad" or "Pool" in kind)] + [None] * (len(sizes) - 1)

    def _combined(self, out: Shape) -> Map | None:
        """Return the map of a function of single elements."""
        read = [name for name in self.node.input if self.tensors.origin(name)]
        own_layer = adding(self.tensors.origin(self.node.output[0]), [self.tensors.origin(name) for name in read])
        if own_layer is not None:
            return kept_map(self.maps.get(read[own_layer]), out)
        whole = [name for name in read if self.tensors.shapes.sizes(name) == out]
        given = [(self.tensors.origin(name), self.maps.get(name)) for name in whole]
        return self.rules.combined([self.tensors.origin(name) for name in read], given, out)

    def _product(self, out: Shape) -> Map | None:
        left, right = (bool(self.tensors.origin(name)) for name in self.node.input[:2])
        if left and not right and len(self.call.shape(1)) == 2:
            return self.rules.rows(out)
        if self.call.kind == "Gemm":
            return None
        return self.rules.product(self.call.shape(0), self.call.shape(1), out, not left)

    def _concatenated(self, axis: int) -> Map | None:
        """Return the map of what is concatenated along its channels, or with constants along another axis."""
        tensors, data = self.tensors, [name for name in self.node.input if self.tensors.origin(name)]
        maps = [self.maps.get(name) for name in data]
        if len(data) == 1:
            return kept_map(maps[0], tensors.shapes.shape(self.node.output[0]))
        if len(data) < len(self.node.input):
            return None
        firsts = tensors.builder.first_channels(tensors.origin(self.node.output[0]), map(tensors.origin, data))
        return None if firsts is None else self.rules.joined(maps, firsts, axis)


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


def _spread(own: Map, call: Call, out: Shape) -> Map | None:
    """Channels become rows and columns (DepthToSpace): of squares, which are their outer or their inner part."""
    side, (n, _, h, w) = call.given["blocksize"], own.shape
    if call.given.get("mode", b"DCR") in (b"CRD", "CRD"):
        return own.reshape(n, -1, side, side, h, w).transpose(0, 1, 4, 2, 5, 3).reshape(out)
    return own.reshape(n, side, side, -1, h, w).transpose(0, 3, 4, 1, 5, 2).reshape(out)


def _squeezed(own: Map, call: Call, out: Shape) -> Map | None:
    """Rows and columns become channels (SpaceToDepth)."""
    side, (n, c, h, w) = call.given["blocksize"], own.shape
    return own.reshape(n, c, h // side, side, w // side, side).transpose(0, 3, 5, 1, 2, 4).reshape(out)


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
    "DepthToSpace": _spread,
    "SpaceToDepth": _squeezed,
}
