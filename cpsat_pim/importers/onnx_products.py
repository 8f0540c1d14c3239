"""Products among the operators of ONNX files: a rule adds the layers of a node and returns the parts of its results."""

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import partial
from typing import Any

from onnx import TensorProto

from cpsat_pim.importers.counted import Operand
from cpsat_pim.importers.onnx_attention import FORMS, attended, check_heads
from cpsat_pim.importers.onnx_call import BLOCKED, VENDOR, Call, kind_of
from cpsat_pim.importers.onnx_fourier import short_time, transform
from cpsat_pim.importers.onnx_operators import ELEMENTWISE
from cpsat_pim.importers.onnx_partial_attention import PARTIAL
from cpsat_pim.importers.onnx_pooling import front_padding
from cpsat_pim.importers.onnx_product import Build, Product
from cpsat_pim.importers.onnx_rules import channels_first, convolution_weight, factors, is_channels_last
from cpsat_pim.importers.onnx_tensors import Tensors
from cpsat_pim.importers.onnx_vendor import VENDOR_PRODUCTS, eliminated
from cpsat_pim.importers.origin import Parts
from cpsat_pim.importers.products import UnknownShape, sampled_taps, sources

# --- Convolutions and matrix products ---------------------------------------------------------------------------------


def _convolution(product: Product, left: int = 0, right: int = 1) -> Parts:
    call, builder = product.call, product.tensors.builder
    out = product.tensors.shapes.shape(product.node.output[0])
    data = product.operand(left)
    if is_channels_last(call):
        data, out = Operand(channels_first(data.shape), data.parts), channels_first(out)
    weight = product.operand(right, convolution_weight(call, right))
    ones = [1] * (len(weight.shape) - 2)
    stride, dilation = call.given.get("strides", ones), call.given.get("dilations", ones)
    groups = call.given.get("group", 1)
    if call.kind.startswith(BLOCKED):  # data and weights may differ in what fills the last block
        data = Operand((data.shape[0], weight.shape[1] * groups, *data.shape[2:]), data.parts)
    if "ConvTranspose" in call.kind:
        padding = _transposed_padding(data.shape, weight.shape, out, stride, dilation, _with_pads(call))
        build: Callable[..., Parts] = partial(builder.transposed_convolution, padding=padding)
    else:
        window = [(size - 1) * step + 1 for size, step in zip(weight.shape[2:], dilation, strict=True)]
        build = partial(builder.convolution, padding=front_padding(call.given, data.shape, out, window, stride))
    result = build(product.name, data, weight, out, groups=groups, stride=stride, dilation=dilation)
    return builder.merge(result, product.others(left, right))


def _with_pads(call: Call) -> dict[str, Any]:
    """Return the attributes of a transposed convolution; its padding may be an input."""
    is_dynamic = call.kind == f"{VENDOR}ConvTransposeWithDynamicPads" and call.optional(2) is not None
    pads = call.values[2] if is_dynamic else None
    return dict(call.given) | ({} if pads is None else {"pads": [int(pad) for pad in pads.reshape(-1)]})


def _transposed_padding(
    data: Sequence[int], weight: Sequence[int], out: Sequence[int], stride: Sequence[int], dilation: Sequence[int],
    given: dict[str, Any],
) -> list[int]:  # fmt: skip
    """Return what is cut off the beginning of each axis: as given, or its share of what the output's size implies."""
    axes = range(len(stride))
    if "pads" in given and "output_shape" not in given:
        return list(given["pads"][: len(stride)])
    extra = given.get("output_padding", [0] * len(stride))
    full = [stride[a] * (data[2 + a] - 1) + extra[a] + (weight[2 + a] - 1) * dilation[a] + 1 for a in axes]
    totals = [size - kept for size, kept in zip(full, out[2:], strict=True)]
    upper = given.get("auto_pad") == b"SAME_UPPER"
    return [total // 2 if upper else total - total // 2 for total in totals]


def _deformable(product: Product) -> Parts:
    """Add a convolution that samples its input anew for each tap."""
    out = product.tensors.shapes.shape(product.node.output[0])
    sizes = sampled_taps(product.call.shape(0), product.call.shape(1), out)
    data, kernel = (product.operand(index, shape) for index, shape in enumerate(sizes))
    builder, groups, ones = product.tensors.builder, product.call.given.get("group", 1), [1] * (len(out) - 2)
    result = builder.convolution(product.name, data, kernel, out, groups=groups, stride=ones, dilation=ones)
    return builder.merge(result, product.others(0, 1))


def _causal(product: Product) -> Parts:
    """Add a convolution of each channel with a kernel of its own, over this and earlier positions of the last axis."""
    call, builder = product.call, product.tensors.builder
    kernel = product.operand(1)
    shape = call.shape(0)
    if call.given.get("channels_last"):
        shape = (shape[0], math.prod(shape[2:]), shape[1])
    ones = [1] * (len(kernel.shape) - 2)
    dilation = [*ones[1:], int(call.given.get("dilation", 1))]
    data = product.operand(0, shape)
    result = builder.convolution(product.name, data, kernel, shape, groups=shape[1], stride=ones, dilation=dilation)
    return builder.merge(result, product.others(0, 1))


def _matmul(product: Product, left: int = 0, right: int = 1) -> Parts:
    """Add any matrix product; attributes may transpose its factors."""
    builder = product.tensors.builder
    ours, theirs = factors(product.call, left, right)
    narrow = _stored_width(product.tensors, product.node.input[right])
    result = builder.matmul(product.name, product.operand(left, ours), product.operand(right, theirs), narrow)
    return builder.merge(result, product.others(left, right))


#: Bits of the types of elements that are narrower than a byte; older releases of ONNX lack some.
_BITS = {
    getattr(TensorProto, name): bits
    for name, bits in (("INT4", 4), ("UINT4", 4), ("FLOAT4E2M1", 4), ("INT2", 2), ("UINT2", 2))
    if hasattr(TensorProto, name)
}

#: Types of elements that are as wide as a byte, so that none share one.
_OF_A_BYTE = frozenset(number for name, number in TensorProto.DataType.items() if name.startswith("FLOAT8"))

#: Operators that leave the elements of a weight as they are, apart from their order and type.
_REORDERING = ("Cast", "Identity", "Reshape", "Transpose", "DequantizeLinear")


def _stored_width(tensors: Tensors, name: str) -> Fraction | None:
    """Return the bytes of a constant's element as it is stored, before it is dequantised, if these are less than 1."""
    writer = tensors.writers.get(name)
    while writer is not None and writer.op_type in _REORDERING:
        name = writer.input[0]
        writer = tensors.writers.get(name)
    bits = _BITS.get(tensors.shapes.elements(name))
    return Fraction(bits, 8) if bits and not tensors.origin(name) else None


def _packed_matmul(product: Product, outputs: str = "N", weight: int = 1, name: str | None = None) -> Parts:
    """Add a product with weights in blocks of few bits, `K` channels to as many outputs as an attribute says."""
    builder, given = product.tensors.builder, product.call.given
    bits = int(given.get("bits", 4))
    narrow = Fraction(bits, 8) if 8 % bits == 0 else None  # others lie in bytes of their own
    operand = product.operand(weight, (int(given["K"]), int(given[outputs])))
    result = builder.matmul(name or product.name, product.operand(0), operand, narrow)
    return builder.merge(result, product.others(0, weight))


def _packed_matmuls(product: Product, weights: dict[str, tuple[int, str]]) -> Parts:
    """Add products of one input with several weights in blocks of few bits, `name.part` each.

    Args:
        product: the node.
        weights: by part, where the weights are among the inputs, and the attribute with the number of outputs.
    """
    return product.tensors.builder.merge(
        *(
            _packed_matmul(product, outputs, index, f"{product.name}.{part}")
            for part, (index, outputs) in weights.items()
        )
    )


def _blob_matmul(product: Product) -> Parts:
    """Add a product with weights of 4 bits in one blob, whose sizes are an input."""
    sizes = product.call.values[2]
    if sizes is None:
        raise UnknownShape
    channels, outputs = (int(size) for size in sizes)
    weight = product.operand(1, (channels, outputs))
    result = product.tensors.builder.matmul(product.name, product.operand(0), weight, Fraction(1, 2))
    return product.tensors.builder.merge(result, product.others(0, 1))


def _einsum(product: Product) -> Parts:
    operands = [product.operand(index) for index in range(len(product.node.input))]
    return product.tensors.builder.einsum(product.name, product.call.given["equation"].decode(), operands)


def _experts(product: Product, weights: tuple[int, int, int] = (2, 4, 6), default_bits: int = 8) -> Parts:
    """Add the products of a mixture of experts, as if they shared the rows evenly: `name.fc1`, `name.fc3` if there is
    such a gate, and `name.fc2`. Attribute `k`: how many experts take each row.

    Args:
        weights: where the weights of fc1, fc2 and fc3 are among the inputs, those of all experts in one tensor.
        default_bits: the width of a weight if the node does not give it; narrower ones than 8 share bytes, others have
            a type of their own.
    """
    builder, call = product.tensors.builder, product.call
    *batch, hidden = call.shape(0)
    own_bits = 8 if call.elements[weights[0]] in _OF_A_BYTE else None
    bits = own_bits or int(call.given.get("expert_weight_bits", default_bits))
    first, last, gate = weights
    experts = call.shape(first)[0]
    sizes = {i: math.prod(call.shape(i)[1:]) * 8 // bits // hidden for i in weights if call.optional(i)}
    rows = math.prod(batch) * int(call.given.get("k", 1))

    def added(name: str, index: int, channels: int, outputs: int, read: Parts) -> Parts:
        weight = product.operand(index, (experts, channels, outputs))
        narrow = None if bits == 8 else Fraction(bits, 8)
        return builder.grouped(f"{product.name}.{name}", rows, read, weight, narrow)

    given = product.operand(0).parts
    wide = [added(name, i, hidden, sizes[i], given) for name, i in (("fc1", first), ("fc3", gate)) if i in sizes]
    return added("fc2", last, sizes[last], hidden, builder.merge(*wide, product.others(0, *sizes)))


# --- Attention and recurrent layers -----------------------------------------------------------------------------------


def _attention(product: Product) -> Parts:
    """Add attention; one that projects its input has a layer `name.qkv` for that."""
    builder, form, call = product.tensors.builder, FORMS[product.call.kind], product.call
    heads = attended(call)
    check_heads(heads)
    origin = [product.tensors.origin(name) for name in product.node.input]
    if form.projection is not None:
        rows, weight = product.operand(0), product.operand(form.projection)
        own = builder.merge(builder.matmul(f"{product.name}.qkv", rows, weight), *origin[2:3])
        sources = {0: own, 1: own, 2: own}
    else:
        sources = {index: _source(origin, index) for index in (0, 1, 2)}
    earlier = [*(origin[index : index + 1] for index in form.past), [], []][:2]
    key, value = (
        builder.concatenate([*(past or earlier[0]), sources[index]])
        for past, index in zip(earlier, (1, 2), strict=True)
    )
    masks = origin[3:] if form.projection is None else origin[2:]
    return builder.attention(
        product.name, Operand(heads.query, sources[0]), Operand(heads.key, key), Operand(heads.value, value), *masks
    )


def _source(origin: Sequence[Parts], index: int) -> Parts:
    """Return the parts of queries, keys or values; keys and values that have no input are packed with those before."""
    return next((origin[other] for other in range(min(index, len(origin) - 1), -1, -1) if origin[other]), ())


def _recurrent(product: Product) -> Parts:
    """Add a recurrent layer; the weights of all gates are rows, [directions, gates * units, channels]."""
    turned = product.call.kind == f"{VENDOR}DynamicQuantizeLSTM"
    weight, state = (
        Operand(shape[1:] if turned else (shape[2], shape[1]), product.operand(index).parts)
        for index, shape in ((1, product.call.shape(1)), (2, product.call.shape(2)))
    )
    data = product.operand(0)
    if product.call.given.get("layout"):
        data = Operand((data.shape[1], data.shape[0], data.shape[2]), data.parts)
    directions = product.call.shape(1)[0]
    return product.tensors.builder.recurrent(product.name, data, weight, state, product.others(0, 1, 2), directions)


def _affine_grid(product: Product) -> Parts:
    """Add the product of each image's transformation with the coordinates of all points of the grid, constants."""
    transformation = product.operand(0)
    points = math.prod(product.tensors.shapes.shape(product.node.output[0])[1:-1])
    coordinates = Operand((transformation.shape[-1], points), ())
    return product.tensors.builder.matmul(product.name, transformation, coordinates)


# --- Sums of products -------------------------------------------------------------------------------------------------


def product_sum(product: Product) -> Parts | None:
    """Add a sum whose terms are element-wise products of two tensors, whatever their type; None if the node is none.

    An element-wise function of one tensor is no product of two, though it may multiply: the square of a normalisation,
    an activation such as x * sigmoid(x).
    """
    tensors = product.tensors
    writer = tensors.writers.get(product.node.input[0])
    while writer is not None and writer.op_type in ("Cast", "Identity"):
        writer = tensors.writers.get(writer.input[0])
    if writer is None or kind_of(writer) != "Mul" or _is_of_one(tensors, writer.input):
        return None
    shapes = [tensors.shapes.sizes(name) for name in writer.input]
    axes = summed_axes(product)
    if None in shapes or axes is None:
        return None
    left, right = (tensors.operand(name) for name in writer.input)
    return tensors.builder.product_sum(product.name, left, right, axes)


def _is_of_one(tensors: Tensors, factors: Sequence[str]) -> bool:
    """Return whether two tensors are one, or, neither of them constant, element-wise functions of one."""

    def read(name: str) -> list[str]:
        writer = tensors.writers.get(name)
        if writer is None or kind_of(writer) not in ELEMENTWISE:
            return []
        return [other for other in writer.input if tensors.origin(other)]

    is_square = factors[0] == factors[1]
    return is_square or (all(map(tensors.origin, factors)) and len(sources(factors, read)) == 1)


def summed_axes(product: Product) -> list[int] | None:
    """Return the axes of a sum, None if they are not known."""
    call, node = product.call, product.node
    rank = len(call.optional(0) or ())
    if call.kind == "GlobalAveragePool":
        return [*range(2, rank)]
    if "axes" in call.given:
        return list(call.given["axes"])
    if len(node.input) < 2 or not node.input[1]:
        return [] if call.given.get("noop_with_empty_axes") else [*range(rank)]
    value = call.values[1]
    return None if value is None else [int(axis) for axis in value.reshape(-1)]


# --- The table --------------------------------------------------------------------------------------------------------

_VENDOR: dict[str, Build] = {
    **dict.fromkeys(("FusedConv", "NhwcConv", "NhwcFusedConv", "ConvTransposeWithDynamicPads"), _convolution),
    "QLinearConv": partial(_convolution, left=0, right=3),
    **dict.fromkeys(("FusedMatMul", "TransposeMatMul", "FusedMatMulActivation", "FusedGemm", "GemmFastGelu"), _matmul),
    **dict.fromkeys(("GemmFloat8", "DynamicQuantizeMatMul", "MatMulIntegerToFloat", "MatMulInteger16"), _matmul),
    "SparseToDenseMatMul": _matmul,
    "QGemm": partial(_matmul, left=0, right=3),
    "QOrderedMatMul": partial(_matmul, left=0, right=2),
    **dict.fromkeys(("MatMulNBits", "MatMulBnb4"), _packed_matmul),
    "MatMulNBitsMlp": partial(_packed_matmuls, weights={"gate": (3, "N"), "up": (6, "N")}),
    "MatMulNBitsQkv": partial(_packed_matmuls, weights={"q": (3, "Nq"), "k": (6, "Nkv"), "v": (9, "Nkv")}),
    "MatMulFpQ4": _blob_matmul,
    "CausalConvWithState": _causal,
    "DynamicQuantizeLSTM": _recurrent,
    "MoE": _experts,
    "QMoE": partial(_experts, weights=(2, 5, 8), default_bits=4),
}

#: The products by kind of operator.
PRODUCTS: dict[str, Build] = {
    **dict.fromkeys(("Conv", "ConvInteger", "ConvTranspose"), _convolution),
    "QLinearConv": partial(_convolution, left=0, right=3),
    "DeformConv": _deformable,
    "AffineGrid": _affine_grid,
    "CausalConvWithState": _causal,
    **dict.fromkeys(("MatMul", "MatMulInteger", "Gemm"), _matmul),
    "QLinearMatMul": partial(_matmul, left=0, right=3),
    "Einsum": _einsum,
    **dict.fromkeys(("LSTM", "GRU", "RNN"), _recurrent),
    **dict.fromkeys(FORMS, _attention),
    "DFT": transform,
    "Det": eliminated,
    "STFT": short_time,
    f"{BLOCKED}Conv": _convolution,
    **{VENDOR + kind: build for kind, build in (_VENDOR | VENDOR_PRODUCTS | PARTIAL).items()},
}
