"""Products of onnxruntime's less common operators: distances, gates, packed weights, convolutions over characters."""

import math
from fractions import Fraction

from cpsat_pim.importers.counted import Operand
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


def _attending_lstm(product: Product) -> Parts:
    """Add an LSTM that attends to a memory. The products that need no step before are `name.keys` and `name.input`.
    Each step adds `name.recurrent`, which reads the state and the attention of the step before, `name.query`,
    `name.alignment`, the inner products of sums of query and key with one vector, `name.context`, and `name.attention`
    where a layer of its own makes the attention.
    """
    builder, call, name = product.tensors.builder, product.call, product.name
    directions, gates, read = call.shape(1)
    steps, batch, channels = call.shape(0)
    (_, seen, depth), (_, units, width) = call.shape(11), call.shape(8)
    weight, state = product.operand(1, (channels, gates)), product.operand(2, (units + read - channels, gates))
    values, alone = product.operand(11), product.others(*_ATTENDING)
    with builder.repeated(directions):
        keys = builder.matmul(f"{name}.keys", values, product.operand(9, (depth, width)))
    result = builder.recurrent(name, product.operand(0), weight, state, alone, directions)
    with builder.repeated(steps * directions):
        query = builder.matmul(f"{name}.query", Operand((batch, units), result), product.operand(8, (units, width)))
        summed = Operand((batch * seen, width), builder.merge(query, keys))
        aligned = builder.matmul(f"{name}.alignment", summed, product.operand(10, (width, 1)))
        attention = builder.matmul(f"{name}.context", Operand((batch, 1, seen), aligned), values)
        if call.optional(13):
            both = Operand((batch, units + depth), builder.merge(result, attention))
            layer = product.operand(13, call.shape(13)[1:])
            attention = builder.matmul(f"{name}.attention", both, layer)
    return builder.merge(attention, result)


#: The inputs of an attending LSTM that products read: data, weights of its gates, and those of its attention.
_ATTENDING = (0, 1, 2, 8, 9, 10, 11)


# --- Matrices ---------------------------------------------------------------------------------------------------------


def eliminated(product: Product) -> Parts:
    """Refuse an elimination: of a determinant below each pivot, of an inverse in all rows but the pivot's.

    Raises:
        Unmappable: always, with its multiply-accumulates.
    """
    *matrices, size, _ = product.call.shape(0)
    inverse = product.node.op_type == "Inverse"
    each = size * size * (size - 1) if inverse else (size - 1) * size * (2 * size - 1) // 6
    raise Unmappable("elimination on matrices, no product", math.prod(matrices) * each)


#: The rules by name of operator.
VENDOR_PRODUCTS: dict[str, Build] = {
    "AttnLSTM": _attending_lstm,
    "CDist": _distances,
    "EngramGate": _gate,
    "GatedDeltaNet": _delta_rule,
    "GatedRelativePositionBias": _position_gate,
    "Inverse": eliminated,
    "Irfft": real,
    "MatMulBlockQuantizedFp4Weight": _packed_by_two,
    "MatMulBlockQuantizedFp8Weight": _block_quantized,
    "Rfft": real,
    "VarlenCausalConvWithState": _packed_causal,
    "WordConvEmbedding": _characters,
}
