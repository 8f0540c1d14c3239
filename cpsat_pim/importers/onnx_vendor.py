"""Products of onnxruntime's less common operators: distances, gates, packed weights, convolutions over characters."""

import math
from fractions import Fraction

from cpsat_pim.importers.builder import Operand
from cpsat_pim.importers.onnx_fourier import real
from cpsat_pim.importers.onnx_product import Build, Product
from cpsat_pim.importers.origin import Parts
from cpsat_pim.importers.products import Unmappable, transposed


def _distances(product: Product) -> Parts:
    """Add the products of all pairs of rows, which Euclidean distances consist of but for the rows' own squares.

    Raises:
        Unmappable: the distance is no Euclidean one.
    """
    metric = product.call.given.get("metric", b"sqeuclidean").decode()
    if metric not in ("euclidean", "sqeuclidean"):
        raise Unmappable(f"with the distance {metric}")
    other = product.operand(1, transposed(product.call.shape(1)))
    return product.tensors.builder.matmul(product.name, product.operand(0), other)


def _block_quantized(product: Product, packed: int = 1) -> Parts:
    """Add a product with weights [outputs, bytes], `packed` elements a byte."""
    outputs, width = product.call.shape(1)
    weight = product.operand(1, (width * packed, outputs))
    narrow = Fraction(1, packed) if packed > 1 else None
    builder = product.tensors.builder
    result = builder.matmul(product.name, product.operand(0), weight, narrow)
    return builder.merge(result, product.others(0, 1))


def _packed_by_two(product: Product) -> Parts:
    return _block_quantized(product, packed=2)


def _gate(product: Product) -> Parts:
    """Add the inner products of keys and queries, one for each row."""
    builder = product.tensors.builder
    added = builder.product_sum(product.name, product.operand(0), product.operand(1), [-1]) or ()
    return builder.merge(added, product.others(0, 1))


def _position_gate(product: Product) -> Parts:
    """Add the product of each head's queries with the weights that all heads share."""
    builder, call = product.tensors.builder, product.call
    weight = product.operand(3)
    rows = math.prod(call.shape(0)) // weight.shape[0]
    result = builder.matmul(product.name, product.operand(0, (rows, weight.shape[0])), weight)
    return builder.merge(result, product.others(0, 3))


def _packed_causal(product: Product) -> Parts:
    """Add a convolution of each channel with a kernel of its own along the rows of all sequences."""
    builder, call = product.tensors.builder, product.call
    rows, channels = call.shape(0)
    data, dilation = product.operand(0, (1, channels, rows)), [int(call.given.get("dilation", 1))]
    out = (1, channels, rows)
    result = builder.convolution(product.name, data, product.operand(1), out, channels, [1], dilation)
    return builder.merge(result, product.others(0, 1))


def _characters(product: Product) -> Parts:
    """Add the convolution over the characters of each word, before the maximum over a word's positions."""
    builder, call = product.tensors.builder, product.call
    filters, _, window, width = call.shape(1)
    *words, length = call.shape(0)
    count, positions = math.prod(words), length - window + 1
    data = product.operand(0, (count, width, length))
    weight = product.operand(1, (filters, width, window))
    result = builder.convolution(product.name, data, weight, (count, filters, positions), 1, [1], [1])
    return builder.merge(result, product.others(0, 1))


def _delta_rule(product: Product) -> Parts:
    """Add the products of each token with the state of its head, [channels of keys, channels of values]:
    `name.retrieved` where the rule corrects what the state holds, `name.outer`, and `name.read_out`.
    """
    builder, call = product.tensors.builder, product.call
    *tokens, heads, width = call.shape(2)
    channels = call.shape(0)[-1]
    state: Parts = product.others()
    row, column = Operand((heads, 1, channels), state), Operand((heads, channels, 1), state)
    whole, values = Operand((heads, channels, width), state), Operand((heads, 1, width), state)
    corrects = call.given.get("update_rule", b"gated_delta") in (b"delta", b"gated_delta")
    with builder.repeated(math.prod(tokens)):
        recalled = builder.matmul(f"{product.name}.retrieved", row, whole) if corrects else ()
        values = Operand(values.shape, builder.merge(recalled, state))
        updated = builder.matmul(f"{product.name}.outer", column, values)
        return builder.matmul(f"{product.name}.read_out", row, Operand(whole.shape, builder.merge(updated, state)))


#: The rules by name of operator.
VENDOR_PRODUCTS: dict[str, Build] = {
    "CDist": _distances,
    "EngramGate": _gate,
    "GatedDeltaNet": _delta_rule,
    "GatedRelativePositionBias": _position_gate,
    "Irfft": real,
    "MatMulBlockQuantizedFp4Weight": _packed_by_two,
    "MatMulBlockQuantizedFp8Weight": _block_quantized,
    "Rfft": real,
    "VarlenCausalConvWithState": _packed_causal,
    "WordConvEmbedding": _characters,
}
