"""Operators of ONNX files that pool, resize or pad what they pass on."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from cpsat_pim.importers.layers import Layers
from cpsat_pim.importers.onnx_call import VENDOR, Call
from cpsat_pim.importers.onnx_rules import channels_first, is_channels_last
from cpsat_pim.importers.origin import Pair, Parts, nearest_of, pooling, resizing
from cpsat_pim.importers.products import Shape
from cpsat_pim.workload.joins import CORNERS, LINEAR, NEAREST

_POOLS = ("AveragePool", "LpPool", "MaxPool", f"{VENDOR}NhwcMaxPool", f"{VENDOR}QLinearAveragePool")
#: Operators that leave one element of some axes.
_REDUCING = (
    "GlobalAveragePool", "GlobalLpPool", "GlobalMaxPool", "ReduceL1", "ReduceL2", "ReduceMax", "ReduceMean",
    "ReduceMin", "ReduceSum", f"{VENDOR}QLinearGlobalAveragePool", f"{VENDOR}QLinearReduceMean",
)  # fmt: skip
#: Ways in which the middle of an element is a half, so that elements of sizes that are multiples have equal shares.
_HALF_PIXELS = ("half_pixel", "half_pixel_symmetric", "pytorch_half_pixel")


def pass_on(call: Call, out: Shape | None, parts: Parts, layers: Layers) -> Parts:
    """Return the parts of an operator's result of the sizes `out`, given those of what it reads together."""
    data = call.optional(0)
    if data is None or out is None:
        return parts
    if call.kind in _POOLS:
        if is_channels_last(call):
            data, out = channels_first(data), channels_first(out)
        return layers.pooled(parts, _pool(call.given, data, out))
    if call.kind in _REDUCING:
        return layers.reduced(parts, math.prod(out))
    if call.kind in ("Resize", "Upsample"):
        return layers.resized(parts, resizing(data, out, _kind_of_resize(call, data, out), _scales(call, len(out))))
    if call.kind == "Pad":
        return layers.padded(parts, _front(call, len(data)))
    return parts


def _kind_of_resize(call: Call, data: Shape, out: Shape) -> str | None:
    """Return which elements of a tensor a resized one is made of; None if that is none of the known ways."""
    given = {key: value.decode() if isinstance(value, bytes) else value for key, value in call.given.items()}
    mode, is_old = given.get("mode", "nearest"), call.kind == "Upsample"
    places = "asymmetric" if is_old else given.get("coordinate_transformation_mode", "half_pixel")
    if given.get("antialias") or given.get("keep_aspect_ratio_policy", "stretch") != "stretch":
        return None
    if mode == "nearest":
        rounds = "floor" if is_old else given.get("nearest_mode", "round_prefer_floor")
        if (places, rounds) == ("asymmetric", "floor"):
            return NEAREST
        return nearest_of(data, out) if places in _HALF_PIXELS and rounds.startswith("round") else None
    blended = {"half_pixel": LINEAR, "pytorch_half_pixel": LINEAR, "align_corners": CORNERS}
    return blended.get(places) if mode == "linear" else None


def _scales(call: Call, rank: int) -> list[float] | None:
    """Return the scales of the spatial axes of an `Upsample` or `Resize`; None if it has sizes, or they are unknown."""
    at = 2 if call.kind == "Resize" and len(call.values) > 2 else 1  # behind the region of interest, if there is one
    value = call.values[at] if at < len(call.values) else None
    listed = call.given.get("scales") or (() if value is None else value.tolist())
    by_axis = dict(zip(call.given.get("axes", range(rank)), listed, strict=False))
    return [float(by_axis.get(axis, 1)) for axis in range(2, rank)] if by_axis else None


def front_padding(
    given: Mapping[str, Any], data: Shape, out: Shape, window: Sequence[int], stride: Sequence[int]
) -> list[int]:
    """Return the zeros in front of each spatial axis of a convolution or pooling, as given or as its mode implies."""
    mode = given.get("auto_pad", b"NOTSET")
    if mode not in (b"SAME_UPPER", b"SAME_LOWER"):
        return list(given.get("pads", [0] * len(window)))[: len(window)]
    axes = zip(data[2:], out[2:], window, stride, strict=True)
    totals = [max(0, (size - 1) * step + extent - have) for have, size, extent, step in axes]
    return [total // 2 if mode == b"SAME_UPPER" else total - total // 2 for total in totals]


def _pool(given: Mapping[str, Any], data: Shape, out: Shape) -> Any:
    kernel = given["kernel_shape"]
    ones = [1] * len(kernel)
    stride, dilation = given.get("strides", ones), given.get("dilations", ones)
    window = [(size - 1) * step + 1 for size, step in zip(kernel, dilation, strict=True)]
    return pooling(data, out, window, stride, front_padding(given, data, out, window, stride))


def _front(call: Call, rank: int) -> Pair:
    """Return the zeros (left, top) of a `Pad` over channels first or last; none where it pads anything else."""
    value, axes = (call.values[index] if index < len(call.values) else None for index in (1, 3))
    given = list(call.given.get("pads", () if value is None else np.reshape(value, -1)))
    own = [*range(rank)] if axes is None else [int(axis) % rank for axis in np.reshape(axes, -1)]
    if rank not in (3, 4) or len(given) != 2 * len(own):
        return 0, 0
    pads = {axis: int(pad) for axis, pad in zip(own, given, strict=False) if pad}
    if rank == 3:
        return (pads.get(2, 0), 0) if pads.keys() <= {2} else (0, 0)
    top = 2 if pads.keys() <= {2, 3} else 1
    return (pads.get(top + 1, 0), pads.get(top, 0)) if pads.keys() <= {top, top + 1} else (0, 0)
