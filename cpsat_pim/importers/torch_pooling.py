"""Operators of PyTorch that pool, resize or pad what they pass on."""

import math
from collections.abc import Mapping
from typing import Any

from cpsat_pim.importers.layers import Layers
from cpsat_pim.importers.origin import Pair, Parts, pooling, resizing
from cpsat_pim.importers.products import Shape
from cpsat_pim.importers.torch_nodes import for_each
from cpsat_pim.workload.joins import CORNERS, LINEAR, NEAREST, Pool

_POOLS = ("avg_pool1d", "avg_pool2d", "max_pool1d", "max_pool2d", "max_pool2d_with_indices")
_ADAPTIVE = ("_adaptive_avg_pool2d", "adaptive_avg_pool1d", "adaptive_max_pool2d")
#: Operators that leave one element of some axes.
_REDUCING = ("amax", "amin", "max", "mean", "min", "sum")
_NEAREST = ("upsample_nearest1d", "upsample_nearest2d")
_LINEAR = ("upsample_bilinear2d", "upsample_linear1d")
_PADDING = tuple(f"{kind}_pad{axes}d" for kind in ("reflection", "replication") for axes in (1, 2))


def pass_on(kind: str, given: Mapping[str, Any], data: Shape, out: Shape, parts: Parts, layers: Layers) -> Parts:
    """Return the parts of the first result of an operator, of the sizes `out`, given those of what it reads together.
    `given`: its arguments; `data`: the sizes of the first.
    """
    if kind in _POOLS:
        return layers.pooled(parts, _pool(1 if "1d" in kind else 2, given, data, out))
    if kind in _ADAPTIVE:
        axes = int(kind[-2])
        stride = [have // size for have, size in zip(data[-axes:], out[-axes:], strict=True)]
        is_even = all(have == size * step for have, size, step in zip(data[-axes:], out[-axes:], stride, strict=True))
        return layers.pooled(parts, pooling(data, out, stride, stride, [0] * axes) if is_even else None)
    if kind in (*_NEAREST, *_LINEAR):
        blended = CORNERS if given.get("align_corners") else LINEAR
        return layers.resized(parts, resizing(data, out, NEAREST if kind in _NEAREST else blended, _scales(given)))
    if kind in _REDUCING:
        return layers.reduced(parts, math.prod(out))
    if kind in (*_PADDING, "constant_pad_nd"):
        return layers.padded(parts, _front(given.get("pad") or given.get("padding") or ()))
    return parts


def _scales(given: Mapping[str, Any]) -> list[float] | None:
    """Return the scales of the spatial axes of an up-sampling that has some."""
    listed = given.get("scale_factors") or [given.get(name) for name in ("scales", "scales_h", "scales_w")]
    return [float(scale) for scale in listed if scale is not None] or None


def front_padding(padding: Any, window: list[int]) -> list[int]:
    """Return the zeros in front of each spatial axis of a convolution of stride 1 if its padding is a word."""
    if padding == "same":
        return [(size - 1) // 2 for size in window]
    return [0] * len(window) if padding == "valid" else for_each(padding, len(window))


def _pool(axes: int, given: Mapping[str, Any], data: Shape, out: Shape) -> Pool | None:
    kernel, pad = (for_each(given[name], axes) for name in ("kernel_size", "padding"))
    stride = for_each(given["stride"], axes) if given.get("stride") else kernel
    window = [
        (size - 1) * step + 1 for size, step in zip(kernel, for_each(given.get("dilation", 1), axes), strict=True)
    ]
    return pooling(data, out, window, stride, pad)


def _front(pads: Any) -> Pair:
    """Return the zeros (left, top) of pads by axis, the last axis first; none where other axes are padded, too."""
    front = [int(pad) for pad in pads]
    return (0, 0) if any(front[4:]) or not front else (front[0], front[2] if len(front) > 2 else 0)
