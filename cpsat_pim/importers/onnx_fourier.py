"""Fourier transforms of ONNX files: products with the matrix of the transform, which is constant.

A machine that multiplies and accumulates computes them so. A real element has one part, a complex one has two, next to
each other along the last axis. Elements beyond the end of the data are zeros, whose products are not counted.
"""

import math
from collections.abc import Sequence

from cpsat_pim.importers.counted import Operand
from cpsat_pim.importers.onnx_call import Call
from cpsat_pim.importers.onnx_product import Product
from cpsat_pim.importers.origin import Parts
from cpsat_pim.importers.products import Unmappable


def transform(product: Product) -> Parts:
    """Add the transform along one axis: its elements are C and those of the result are K."""
    call = product.call
    data, out = call.shape(0), product.tensors.shapes.shape(product.node.output[0])
    axis = _axis(call) % len(data)
    own = [axis, *range(axis + 1, len(data))[-1:]]
    taken = min(data[axis], _length(call, axis))
    rows = math.prod(size for index, size in enumerate(data) if index not in own)
    return _added(product, rows, taken * data[-1], out[axis] * out[-1])


def _axis(call: Call) -> int:
    """Return the axis of the transform; before operator set 20 it is an attribute.

    Raises:
        Unmappable: it is not known.
    """
    if len(call.inputs) < 3 or call.inputs[2] is None:
        return int(call.given.get("axis", -2 if len(call.inputs) > 2 else 1))
    axis = call.number(2)
    if axis is None:
        raise Unmappable("its axis is not known")
    return axis


def _length(call: Call, axis: int) -> int:
    """Return how many elements are transformed: all, unless an input says how many."""
    if len(call.inputs) < 2 or call.inputs[1] is None:
        return call.shape(0)[axis]
    length = call.number(1)
    if length is None:
        raise Unmappable("its length is not known")
    return length


def _added(product: Product, rows: int, channels: int, outputs: int) -> Parts:
    builder = product.tensors.builder
    return builder.matmul(product.name, product.operand(0, (rows, channels)), Operand((channels, outputs), ()))


def short_time(product: Product) -> Parts:
    """Add the transforms of windows that slide along a signal: a convolution with their taps as S, and as many outputs
    as the result has parts.
    """
    batch, frames, bins, parts = product.tensors.shapes.shape(product.node.output[0])
    data, call = product.call.shape(0), product.call
    step = call.number(1)
    if step is None:
        raise Unmappable("its step is not known")
    window = call.optional(2)
    taps = window[0] if window else call.number(3)
    length, own = data[1], data[2] if len(data) > 2 else 1
    weight = Operand((bins * parts, own, taps or length), ())
    builder, ones = product.tensors.builder, [1]
    return builder.convolution(
        product.name,
        product.operand(0, (batch, own, length)),
        weight,
        (batch, bins * parts, frames),
        groups=1,
        stride=[step],
        dilation=ones,
    )


# --- The operators of onnxruntime: real elements along the last axes, half of their transform ------------------------


def real(product: Product) -> Parts:
    """Add the transforms of real elements along the last axes, one behind the other: along the very last one to half of
    the complex elements, along the others of complex elements to as many. Back it is the other way round.
    """
    data, out = product.call.shape(0), product.tensors.shapes.shape(product.node.output[0])
    forward = len(out) > len(data)
    whole, half = (data, out[-2]) if forward else (out, data[-2])
    rank = int(product.call.given.get("signal_ndim", 1))
    sides = [(whole[-1], 2 * half), *((2 * size, 2 * size) for size in reversed(whole[-rank:-1]))]
    if not forward:
        sides = [(read, made) for made, read in reversed(sides)]
    return _one_by_one(product, math.prod(data), sides)


def _one_by_one(product: Product, total: int, sides: Sequence[tuple[int, int]]) -> Parts:
    """Add the products that make so many parts along an axis of so many, one behind the other.

    Args:
        product: the node.
        total: the parts of all its data.
        sides: for each product the parts that it reads along its axis, and those that it makes.
    """
    parts = product.operand(0).parts
    for at, (read, made) in enumerate(sides):
        name = product.name if len(sides) == 1 else f"{product.name}.part{at}"
        rows = Operand((total // read, read), parts)
        parts = product.tensors.builder.matmul(name, rows, Operand((read, made), ()))
        total = total // read * made
    return parts
