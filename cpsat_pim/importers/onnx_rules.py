"""Sizes of the results of operators that ONNX does not define: those of files that onnxruntime optimised or quantised.

The operators are described in onnxruntime's `docs/ContribOperators.md`. Where one extends an operator of ONNX, ONNX's
own inference is asked.
"""

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from attrs import frozen
from onnx import TensorProto, defs, helper, shape_inference

from cpsat_pim.importers.onnx_attention import ATTENTIONS, attention_shapes
from cpsat_pim.importers.onnx_call import VENDOR, Call
from cpsat_pim.importers.products import Shape

Shapes = Sequence[Shape | None]

#: The operator set whose rules stand for an extended operator. Its reductions have their axes as an attribute.
_OPSET = 12


@frozen
class Rule:
    """The sizes of an operator's results, and the inputs whose type of elements they have: the first that is given; if
    none is, `elements`.
    """

    shapes: Callable[[Call], Shapes]
    like: tuple[int, ...] = (0,)
    elements: int = TensorProto.FLOAT


def standard(operator: str, shapes: Sequence[Shape], given: dict[str, Any]) -> Shape | None:
    """Return the sizes of the result of an operator of ONNX; attributes that it does not have are ignored.

    Raises:
        ValueError: the sizes do not match.
    """
    schema = defs.get_schema(operator, _OPSET, "")
    names = [f"i{index}" for index in range(len(shapes))]
    known = {name: value for name, value in given.items() if name in schema.attributes}
    node = helper.make_node(operator, names, ["o"], **known)
    types = {
        name: helper.make_tensor_type_proto(TensorProto.FLOAT, list(sizes))
        for name, sizes in zip(names, shapes, strict=True)
    }
    try:
        kind = shape_inference.infer_node_outputs(schema, node, types)["o"]
    except Exception as error:  # one of a dozen exception classes of the compiled library, without a common base
        raise ValueError(str(error)) from error
    return tuple(dim.dim_value for dim in kind.tensor_type.shape.dim)


# --- Rules -----------------------------------------------------------------------------------------------------------


def _as(operator: str, *positions: int) -> Callable[[Call], Shapes]:
    """Return the rule of an operator of ONNX on the inputs at some positions."""
    return lambda call: [standard(operator, [call.shape(index) for index in positions], dict(call.given))]


def _same(call: Call, results: int = 4) -> Shapes:
    """Results as large as the first input."""
    return [call.shape(0)] * results


def _as_input(index: int) -> Callable[[Call], Shapes]:
    return lambda call: [call.shape(index)]


def channels_last(shape: Shape) -> Shape:
    """Return the sizes in the order [batch, height, width, channels]."""
    return (shape[0], *shape[2:], shape[1])


def channels_first(shape: Shape) -> Shape:
    """Return the sizes in the order [batch, channels, height, width]."""
    return (shape[0], shape[-1], *shape[1:-1])


def is_channels_last(call: Call) -> bool:
    """Return whether an operator's data have their channels last."""
    return call.kind.startswith(f"{VENDOR}Nhwc") or bool(call.given.get("channels_last"))


def convolution_weight(call: Call, index: int) -> Shape:
    """Return the sizes of weights as [out, in, height, width]; `NhwcConv` may have [out, height, width, in], which the
    channels of its data tell, or its kernel where both orders match them.
    """
    shape = call.shape(index)
    channels = call.shape(0)[-1] // call.given.get("group", 1)
    if call.kind != f"{VENDOR}NhwcConv" or shape[-1] != channels:
        return shape
    kernel = tuple(call.given.get("kernel_shape", shape[1:-1]))
    return shape if shape[1] == channels and kernel != shape[1:-1] else channels_first(shape)


def spatial(operator: str, *positions: int) -> Callable[[Call], Shapes]:
    """Return the rule of a convolution or pooling whose data may have their channels last."""

    def shapes(call: Call) -> Shapes:
        last = is_channels_last(call)
        data = channels_first(call.shape(positions[0])) if last else call.shape(positions[0])
        weights = [convolution_weight(call, index) for index in positions[1:]]
        given = {name: value for name, value in call.given.items() if name != "dilations" or "Pool" not in operator}
        out = standard(operator, [data, *weights], given)
        return [channels_last(out) if last and out else out]

    return shapes


def batches_moved(shape: Shape, moved: Any) -> Shape:
    """Return the sizes with the first axis behind the batch, which is where `transBatchA` and `transBatchB` put it."""
    return (*shape[1:-1], shape[0], shape[-1]) if moved and len(shape) > 2 else shape


def factors(call: Call, left: int, right: int) -> tuple[Shape, Shape]:
    """Return the sizes of the two factors of a matrix product after the transpositions that its attributes ask for."""
    pair = []
    for index, side in ((left, "A"), (right, "B")):
        shape = batches_moved(call.shape(index), call.given.get(f"transBatch{side}"))
        swapped = call.given.get(f"trans{side}") and len(shape) > 1
        pair.append((*shape[:-2], shape[-1], shape[-2]) if swapped else shape)
    return pair[0], pair[1]


def _product(left: int, right: int) -> Callable[[Call], Shapes]:
    return lambda call: [standard("MatMul", factors(call, left, right), {})]


def _packed_product(call: Call) -> Shapes:
    """Weights in blocks of few bits are as large as the attributes say: N outputs of K channels."""
    return [(*call.shape(0)[:-1], int(call.given["N"]))]


def _packed_products(call: Call) -> Shapes:
    """Results of several products of one input, and the sum before its normalisation."""
    rows, given = call.shape(0)[:-1], call.given
    sizes = [given["N"]] if "N" in given else [given["Nq"], given["Nkv"], given["Nkv"]]
    return [*((*rows, int(size)) for size in sizes), call.shape(0)]


def _blob_product(call: Call) -> Shapes:
    sizes = call.values[2]
    return [None if sizes is None else (*call.shape(0)[:-1], int(sizes[1]))]


def _causal(call: Call) -> Shapes:
    """A result as large as the input, and the positions that the next one's first windows reach back to."""
    shape, kernel = call.shape(0), call.shape(1)
    back = (kernel[-1] - 1) * int(call.given.get("dilation", 1))
    state = (shape[0], back, *shape[2:]) if call.given.get("channels_last") else (*shape[:-1], back)
    slots = int(call.given.get("state_window", 0))
    return [shape, (slots, *state) if slots else state]


def _embedded(call: Call) -> Shapes:
    rows = (*call.shape(0), call.shape(2)[-1])
    return [rows, call.shape(0)[:1], rows]


def _recurrent(call: Call) -> Shapes:
    """The recurrent weights of each direction are [gates * units, units], or transposed."""
    steps, batch, _ = call.shape(0)
    directions, *sides = call.shape(2)
    units = min(sides)
    return [(steps, directions, batch, units), *[(directions, batch, units)] * 2]


def _normalised(call: Call) -> Shapes:
    """A normalised tensor, the mean and the deviation of its rows, and the sum before it."""
    shape = call.shape(0)
    return [shape, (*shape[:-1], 1), (*shape[:-1], 1), shape]


def _joined(call: Call) -> Shapes:
    """Of `QLinearConcat`, each third input after the result's scale and zero point is a tensor."""
    return [standard("Concat", [call.shape(index) for index in range(2, len(call.inputs), 3)], dict(call.given))]


def pooled(call: Call) -> Shapes:
    """One element for each sample and channel."""
    shape = call.shape(0)
    if is_channels_last(call):
        return [(shape[0], *(1,) * (len(shape) - 2), shape[-1])]
    return [(*shape[:2], *(1,) * (len(shape) - 2))]


def _gathered(call: Call) -> Shapes:
    """Rows of a table of few bits; where its type is that of bytes, each holds as many elements as it can."""
    data, indices = call.shape(0), call.shape(1)
    packed = 8 // int(call.given.get("bits", 4)) if call.elements[0] == TensorProto.UINT8 else 1
    data = (*data[:-1], data[-1] * packed)
    axis = int(call.given.get("gather_axis", 0)) % len(data)
    return [(*data[:axis], *indices, *data[axis + 1 :])]


def _halved(call: Call) -> Shapes:
    """`BiasSplitGelu` multiplies one half of the channels with the other."""
    shape = call.shape(0)
    return [(*shape[:-1], shape[-1] // 2)]


def _position_bias(call: Call) -> Shapes:
    """A bias for each head, query and key, from a table with a column per head."""
    lengths = [call.number(1), call.number(2)]
    return [None if None in lengths else (1, call.shape(0)[1], *(int(length or 0) for length in lengths))]


def _without_padding(call: Call) -> Shapes:
    """As many rows as there are at most, and where they were."""
    batch, rows, width = call.shape(0)
    return [(batch * rows, width), (batch, rows), (batch + 1,), (1,)]


def _sliding(call: Call) -> Shapes:
    """Windows along an axis, each along a new last one."""
    shape, size = call.shape(0), int(call.given["size"])
    axis = int(call.given.get("dim", -1)) % len(shape)
    count = (shape[axis] - size) // int(call.given.get("step", 1)) + 1
    return [(*shape[:axis], count, *shape[axis + 1 :], size)]


def _expanded(call: Call) -> Shapes:
    shape, axis = call.shape(0), call.number(1)
    position = None if axis is None else axis % (len(shape) + 1)
    return [None if position is None else (*shape[:position], 1, *shape[position:])]


def _reshaped(call: Call) -> Shapes:
    """The sizes are an attribute: 0 keeps a size, -1 is what is left."""
    data, sizes = call.shape(0), list(call.given["shape"])
    kept = [data[axis] if size == 0 else int(size) for axis, size in enumerate(sizes)]
    left = math.prod(data) // math.prod(size for size in kept if size != -1)
    return [tuple(left if size == -1 else size for size in kept)]


def _padded(call: Call) -> Shapes:
    """All axes' padding before, then behind."""
    shape, pads = call.shape(0), call.given["paddings"]
    return [tuple(size + pads[axis] + pads[axis + len(shape)] for axis, size in enumerate(shape))]


def _divided(call: Call) -> Shapes:
    """The sizes of the pieces are an attribute; without it they are not known."""
    shape, axis = call.shape(0), int(call.given.get("axis", 0)) % len(call.shape(0))
    return [(*shape[:axis], int(size), *shape[axis + 1 :]) for size in call.given.get("split", ())]


def _upsampled(call: Call) -> Shapes:
    batch, channels, height, width = call.shape(0)
    return [(batch, channels, int(height * call.given["height_scale"]), int(width * call.given["width_scale"]))]


_SAME = """
BiasAdd BiasDropout BiasGelu BiasSoftmax BitmaskDropout BitmaskBiasDropout DequantizeLinear FastGelu Gelu
GemmaRotaryEmbedding GroupNorm Inverse MoE NGramRepeatBlock QLinearLeakyRelu QLinearSigmoid QLinearSoftmax QMoE
QuantizeLinear QuickGelu RotaryEmbedding SkipGroupNorm Trilu DequantizeBFP QOrderedGelu QOrderedLayerNormalization
GatedRMSNorm MRotaryEmbedding ScaledSiLU
"""

_VENDOR: dict[str, Rule] = {
    **dict.fromkeys(_SAME.split(), Rule(_same)),
    "QuantizeLinear": Rule(_same, like=(2,), elements=TensorProto.UINT8),
    "DequantizeLinear": Rule(_same, like=(1,)),
    **dict.fromkeys(("SkipLayerNormalization", "SkipSimplifiedLayerNormalization"), Rule(_normalised)),
    "SkipGroupNorm": Rule(partial(_same, results=2)),
    "EmbedLayerNormalization": Rule(_embedded, like=(2,)),
    "QEmbedLayerNormalization": Rule(_embedded, like=(8,)),
    "TorchEmbedding": Rule(lambda call: [(*call.shape(1), *call.shape(0)[1:])]),
    "SwiGLU": Rule(lambda call: [call.shape(0)] if call.optional(1) else _halved(call)),
    "LinearAttentionGate": Rule(lambda call: [call.shape(0)] * 2),
    "BiasSplitGelu": Rule(_halved),
    **dict.fromkeys(("FusedConv", "NhwcConv", "NhwcFusedConv"), Rule(spatial("Conv", 0, 1))),
    "QLinearConv": Rule(spatial("Conv", 0, 3), like=(7,)),
    "NhwcMaxPool": Rule(spatial("MaxPool", 0)),
    "MaxpoolWithMask": Rule(spatial("MaxPool", 0)),
    "QLinearAveragePool": Rule(spatial("AveragePool", 0)),
    "QLinearGlobalAveragePool": Rule(pooled),
    **dict.fromkeys(("FusedGemm", "GemmFastGelu", "GemmFloat8", "FusedMatMulActivation"), Rule(_product(0, 1))),
    **dict.fromkeys(("FusedMatMul", "TransposeMatMul"), Rule(_product(0, 1))),
    **dict.fromkeys(("DynamicQuantizeMatMul", "MatMulInteger16", "SparseToDenseMatMul"), Rule(_product(0, 1))),
    "MatMulIntegerToFloat": Rule(_product(0, 1), like=(2,)),
    "QGemm": Rule(_product(0, 3), like=(8, 1)),
    "QOrderedMatMul": Rule(_product(0, 2)),
    **dict.fromkeys(("MatMulNBits", "MatMulBnb4"), Rule(_packed_product)),
    **dict.fromkeys(("MatMulNBitsMlp", "MatMulNBitsQkv"), Rule(_packed_products)),
    "MatMulFpQ4": Rule(_blob_product),
    "CausalConvWithState": Rule(_causal),
    **dict.fromkeys(("AttnLSTM", "DynamicQuantizeLSTM"), Rule(_recurrent)),
    **dict.fromkeys(("QLinearAdd", "QLinearMul"), Rule(_as("Add", 0, 3))),
    "QLinearWhere": Rule(_as("Where", 0, 1, 4), like=(1,)),
    "QLinearConcat": Rule(_joined, like=(2,)),
    "QLinearReduceMean": Rule(_as("ReduceMean", 0)),
    "MulInteger": Rule(_as("Mul", 0, 2)),
    "RelativePositionBias": Rule(_position_bias),
    "RemovePadding": Rule(_without_padding),
    "RestorePadding": Rule(lambda call: [(*call.shape(1), call.shape(0)[-1])]),
    "UnfoldTensor": Rule(_sliding),
    "ExpandDims": Rule(_expanded),
    "GridSample": Rule(lambda call: [(*call.shape(0)[:2], *call.shape(1)[1:-1])]),
    "ReduceSumInteger": Rule(_as("ReduceSum", 0), like=(), elements=TensorProto.INT32),
    **dict.fromkeys(("ComplexMul", "ComplexMulConj"), Rule(_as("Mul", 0, 1))),
    "GatherBlockQuantized": Rule(_gathered, like=(2,)),
    **{kind: Rule(attention_shapes, like=(3,) if kind == "QAttention" else (0,)) for kind in ATTENTIONS},
}  # fmt: skip

#: Operators of ONNX for which it has no rule: most are those of its first operator set, which broadcast nothing.
_FIRST_SAME = """
Abs Add BatchNormalization Ceil Clip Div Dropout Elu Exp Floor GroupNormalization HardSigmoid InstanceNormalization
LeakyRelu Log Max Mean MeanVarianceNormalization Min Mul Neg PRelu Reciprocal Relu Selu Sigmoid Sqrt Sub Sum Tanh
"""

_STANDARD: dict[str, Rule] = {
    **dict.fromkeys(_FIRST_SAME.split(), Rule(partial(_same, results=1))),
    "Cast": Rule(_same, like=()),
    "Concat": Rule(
        lambda call: [standard("Concat", [call.shape(i) for i in range(len(call.inputs))], {"axis": 1, **call.given})]
    ),
    "Gemm": Rule(_product(0, 1)),
    "GlobalLpPool": Rule(pooled),
    **dict.fromkeys(("GreaterOrEqual", "LessOrEqual"), Rule(_as("Add", 0, 1), like=(), elements=TensorProto.BOOL)),
    "GRU": Rule(_recurrent),
    "LpPool": Rule(spatial("LpPool", 0)),
    "Pad": Rule(_padded),
    "Reshape": Rule(_reshaped),
    "Split": Rule(_divided),
    "Upsample": Rule(_upsampled),
}

#: The rules by kind of operator. onnxruntime also adds normalisations to ONNX's own domain.
RULES: dict[str, Rule] = {
    **_STANDARD,
    **{VENDOR + kind: rule for kind, rule in _VENDOR.items()},
    "SimplifiedLayerNormalization": Rule(_normalised),
}
