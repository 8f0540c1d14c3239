"""Convert products to layers: convolutions, matrix products with broadcasting.

Axes are those of ONNX and torch: data [batch, channels, height, width], weights [out, in per group, height, width].
One-dimensional products have no height.

Three-dimensional convolutions have a depth before the height. A layer has two spatial axes, so the third is unfolded:
its output positions become part of N and its taps part of C. This is exact in multiplications, weights and outputs. The
input counts an element once for each tap that reads it along the unfolded axis.
"""

import math
from collections.abc import Callable, Hashable, Iterable, Sequence
from itertools import zip_longest
from typing import TypeVar

from cpsat_pim.workload import ConvWorkload

Shape = tuple[int, ...]

Tensor = TypeVar("Tensor", bound=Hashable)


class Unmappable(Exception):
    """A product that is not a layer; the message names its kind. `macs`: its multiply-accumulates, if known. `bind`: a
    name with whose value it is a layer.
    """

    def __init__(self, reason: str, macs: int | None = None, bind: str | None = None) -> None:
        super().__init__(reason)
        self.macs = macs
        self.bind = bind


class UnknownShape(Unmappable):
    """A product of a tensor whose sizes are not known."""

    def __init__(self) -> None:
        super().__init__("of unknown shape")


def sampled_taps(data: Shape, weight: Shape, out: Shape) -> tuple[Shape, Shape]:
    """Return the sizes of the data and the weights of a deformable convolution: as it samples its input anew for each
    tap, taps are part of the channels.
    """
    taps, ones = math.prod(weight[2:]), (1,) * (len(weight) - 2)
    return (data[0], data[1] * taps, *out[2:]), (weight[0], weight[1] * taps, *ones)


def convolution(
    data: Shape, weight: Shape, out: Shape, groups: int, stride: Sequence[int], dilation: Sequence[int]
) -> ConvWorkload:
    """Convert a convolution; its padding affects only the output's extents.

    Raises:
        Unmappable: it has more than three spatial axes.
        ValueError: data and weights differ in their channels.
    """
    axes = len(weight) - 2
    check_channels(data[-axes - 1], weight[1] * groups)
    if axes > 3:
        raise Unmappable(f"{axes}-D", math.prod(out) * math.prod(weight[1:]))
    sizes = [*zip(weight[2:], out[-axes:], stride, dilation, strict=True)]
    taps, positions = 1, 1
    if axes == 3:
        taps, positions, *_ = sizes.pop(_unfolded(sizes))
    (R, S), (P, Q), strides, dilations = (_plane(values) for values in zip(*sizes, strict=True))
    C, K, N = taps * weight[1], weight[0] // groups, positions * math.prod(out[: -axes - 1])
    return ConvWorkload(R=R, S=S, P=P, Q=Q, C=C, K=K, N=N, G=groups, stride=strides, dilation=dilations)


def _unfolded(sizes: Sequence[tuple[int, int, int, int]]) -> int:
    """Return the axis whose unfolding counts the fewest input elements twice, of (taps, positions, stride, dilation) by
    axis. An axis with one tap, or whose windows do not overlap, counts none twice.
    """

    def growth(axis: int) -> float:
        taps, positions, stride, dilation = sizes[axis]
        return taps * positions / (stride * (positions - 1) + dilation * (taps - 1) + 1)

    return min(range(len(sizes)), key=growth)


def check_channels(given: int, taken: int) -> None:
    """Raise a ValueError unless the weights take as many channels as the data have."""
    if given != taken:
        raise ValueError(f"the data have {given} channels, the weights take {taken}")


def matrix_product(left: Shape, right: Shape) -> ConvWorkload:
    """Convert [..., P, C] x [..., C, K]; either operand may be a vector.

    A batch axis of both operands is G, one of the left alone is N, and one of the right alone extends K.
    """
    left, right = left if len(left) > 1 else (1, *left), right if len(right) > 1 else (*right, 1)
    batch = {"N": 1, "K": right[-1], "G": 1}
    for ours, theirs in zip_longest(reversed(left[:-2]), reversed(right[:-2]), fillvalue=1):
        batch["N" if theirs == 1 else "K" if ours == 1 else "G"] *= max(ours, theirs)
    return ConvWorkload(P=left[-2], C=left[-1], N=batch["N"], K=batch["K"], G=batch["G"])


def transposed(shape: Shape) -> Shape:
    """Return the shape of the transposed matrix; a vector is unchanged."""
    return (*shape[:-2], *reversed(shape[-2:]))


def product_sum(left: Shape, right: Shape, summed: Iterable[int]) -> ConvWorkload | None:
    """Convert the sum, along some axes, of the element-wise product of two broadcast tensors.

    Returns:
        None: no axis of both is summed, so that nothing is contracted, or an axis of one alone is.
    """
    rank = max(len(left), len(right))
    ours, theirs = ((1,) * (rank - len(shape)) + tuple(shape) for shape in (left, right))
    sums = {axis % rank for axis in summed}
    bounds = dict.fromkeys("PCKG", 1)
    for axis, (mine, other) in enumerate(zip(ours, theirs, strict=True)):
        dim = ("C" if axis in sums else "G") if mine == other else "K" if mine == 1 else "P"
        if axis in sums and dim in "PK":
            return None
        bounds[dim] *= max(mine, other)
    P, C, K, G = bounds.values()
    return ConvWorkload(P=P, C=C, K=K, G=G) if C > 1 else None


def sources(tensors: Iterable[Tensor], read: Callable[[Tensor], Iterable[Tensor]]) -> set[Tensor]:
    """Return the tensors that some tensors are element-wise functions of.

    Args:
        tensors: where to begin.
        read: the tensors that the element-wise operator behind a tensor reads; none if it is no such operator.
    """
    ahead, found, seen = list(tensors), set[Tensor](), set[Tensor]()
    while ahead:
        tensor = ahead.pop()
        if tensor not in seen:
            seen.add(tensor)
            behind = [*read(tensor)]
            ahead += behind
            found |= set() if behind else {tensor}
    return found


def _plane(sizes: Sequence[int]) -> tuple[int, int]:
    """Convert (height, width) or (width,) to (width, height)."""
    return spatial(sizes)[:2]


def spatial(sizes: Sequence[int], absent: int = 1) -> tuple[int, int, int]:
    """Convert (depth, height, width), (height, width) or (width,) to (width, height, depth)."""
    if len(sizes) > 3:
        raise Unmappable(f"{len(sizes)}-D")
    width, height, depth = [*reversed(sizes), absent, absent][:3]
    return width, height, depth
