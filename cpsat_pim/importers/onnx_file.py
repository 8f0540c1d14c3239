"""Import ONNX files: convolutions and products become layers, known other operators propagate, unknown ones are
skipped.
"""

import heapq
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from graphlib import CycleError, TopologicalSorter
from typing import Any

import onnx
from google.protobuf.message import DecodeError
from onnx import helper, inliner

from cpsat_pim.importers.binding import check_bound
from cpsat_pim.importers.builder import FED, NetworkBuilder, Operand, Parts
from cpsat_pim.importers.onnx_shapes import SHAPE_READERS, OnnxShapes, domain_of, open_dims, subgraphs
from cpsat_pim.importers.products import Unmappable

#: The positions of I and W among the inputs of a product.
_OPERANDS = {
    "Conv": (0, 1), "ConvInteger": (0, 1), "QLinearConv": (0, 3), "ConvTranspose": (0, 1),
    "MatMul": (0, 1), "MatMulInteger": (0, 1), "QLinearMatMul": (0, 3), "Gemm": (0, 1),
}  # fmt: skip

#: Operators whose result does not depend on the network's input data.
_WITHOUT_DATA = {
    *SHAPE_READERS, "Constant", "ConstantOfShape", "EyeLike", "RandomNormal", "RandomNormalLike", "RandomUniform",
    "RandomUniformLike", "Range",
}  # fmt: skip

_ELEMENTWISE = """
Abs Acos Acosh Add And Asin Asinh Atan Atanh Bernoulli BitCast BitShift BitwiseAnd BitwiseNot BitwiseOr BitwiseXor Cast
CastLike Ceil Celu Clip Cos Cosh DequantizeLinear Div Dropout DynamicQuantizeLinear Elu Equal Erf Exp Floor Gelu Greater
GreaterOrEqual HardSigmoid HardSwish Identity IsInf IsNaN LeakyRelu Less LessOrEqual Log Max Mean Min Mish Mod Mul Neg
Not Or PRelu Pow QuantizeLinear Reciprocal Relu RotaryEmbedding Round Selu Shrink Sigmoid Sign Sin Sinh Softplus
Softsign Sqrt Sub Sum Swish Tan Tanh ThresholdedRelu Trilu Where Xor
"""
_MOVING = """
CenterCropPad Col2Im Compress DepthToSpace Expand Flatten Gather GatherElements GatherND OneHot Pad Reshape Resize
ReverseSequence Scatter ScatterElements ScatterND Slice SpaceToDepth Split Squeeze TensorScatter Tile Transpose
Unsqueeze Upsample
"""
_REDUCING = """
ArgMax ArgMin AveragePool CumProd CumSum GlobalAveragePool GlobalLpPool GlobalMaxPool LpPool MaxPool MaxRoiPool
MaxUnpool NonMaxSuppression NonZero ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin
ReduceProd ReduceSum ReduceSumSquare RoiAlign TopK Unique
"""
_NORMALISING = """
BatchNormalization GroupNormalization Hardmax InstanceNormalization LRN LayerNormalization LogSoftmax LpNormalization
MeanVarianceNormalization RMSNormalization Softmax
"""

#: Operators without a product along an axis of two tensors: they only propagate.
_PASSING = frozenset(" ".join((_ELEMENTWISE, _MOVING, _REDUCING, _NORMALISING)).split())


def trace_onnx(path: str, bind: Mapping[str, int], builder: NetworkBuilder) -> None:
    """Pass a file's operators to the builder.

    Raises:
        ValueError: the file is unreadable, its graph has a cycle, a dim is open, or shapes do not fit together.
    """
    model = _read(path)
    trace = _Trace(model, bind, builder)
    trace.feed(model.graph)
    for node in _in_order(model.graph.node):
        trace.follow(node)


# --- The file --------------------------------------------------------------------------------------------------------


def _read(path: str) -> onnx.ModelProto:
    """Read the model without its external data, and expand its local functions."""
    try:
        model = onnx.load(path, load_external_data=False)
    except OSError as error:
        raise ValueError(f"cannot be read: {error.strerror}") from error
    except (DecodeError, UnicodeDecodeError) as error:
        raise ValueError("is not an ONNX file, or is truncated") from error
    if not model.graph.node or not model.opset_import:
        raise ValueError("is not an ONNX file, or is truncated: it has no graph or no operator set")
    try:
        return inliner.inline_local_functions(model) if model.functions else model
    except Exception as error:  # ONNX's own code raises various exceptions for recursive or malformed functions
        raise ValueError(f"its functions cannot be expanded: {' '.join(str(error).split())}") from error


def _in_order(nodes: Sequence[onnx.NodeProto]) -> Iterator[onnx.NodeProto]:
    """Return the nodes in topological order, as close to the file's order as possible.

    Raises:
        ValueError: the graph has a cycle, or two nodes write one tensor.
    """
    sorter = TopologicalSorter(_dependencies(nodes))
    try:
        sorter.prepare()
    except CycleError as error:
        names = " -> ".join(_name(nodes[index]) for index in error.args[1])
        raise ValueError(f"the graph has a cycle: {names}") from error
    ready: list[int] = []
    while sorter.is_active():
        for index in sorter.get_ready():
            heapq.heappush(ready, index)
        index = heapq.heappop(ready)
        yield nodes[index]
        sorter.done(index)


def _dependencies(nodes: Sequence[onnx.NodeProto]) -> dict[int, set[int]]:
    """Return for each node the nodes whose results it reads."""
    writers: dict[str, int] = {}
    for index, node in enumerate(nodes):
        for name in filter(None, node.output):
            if name in writers:
                raise ValueError(f"{_name(nodes[writers[name]])} and {_name(node)} both write {name!r}")
            writers[name] = index
    return {index: {writers[name] for name in _reads(node) if name in writers} for index, node in enumerate(nodes)}


def _reads(node: onnx.NodeProto) -> list[str]:
    """Return the tensors that a node reads, including those that its subgraphs take from outside."""
    inner = (name for graph in subgraphs(node) for other in graph.node for name in _reads(other))
    return [*node.input, *inner]


def _name(node: onnx.NodeProto) -> str:
    return str(node.name or next(filter(None, node.output), node.op_type))


# --- Operators -------------------------------------------------------------------------------------------------------


class _Trace:
    """Propagates the tensors' shapes and parts through the graph."""

    def __init__(self, model: onnx.ModelProto, bind: Mapping[str, int], builder: NetworkBuilder) -> None:
        self._shapes = OnnxShapes(model, bind)
        self._bind = bind
        self._builder = builder
        self._parts: dict[str, Parts] = {}

    def feed(self, graph: onnx.GraphProto) -> None:
        """Define constants and the network's inputs; a constant may also be listed among the inputs."""
        for tensor in graph.initializer:
            self._shapes.define(tensor)
        for sparse in graph.sparse_initializer:
            self._shapes.define(onnx.TensorProto(name=sparse.values.name, dims=sparse.dims, data_location=1))
        fed = [info for info in graph.input if info.name not in self._shapes]
        check_bound(self._bind, *dict.fromkeys(names for i in fed for _, names in open_dims(i.name, i.type)))
        for info in fed:
            self._shapes.declare(info)
            self._parts[info.name] = FED

    def follow(self, node: onnx.NodeProto) -> None:
        """Process one operator.

        Raises:
            ValueError: shapes are unknown or do not fit together; the message begins with the node's name.
        """
        try:
            for name in filter(None, node.input):
                if name not in self._shapes and name not in self._parts:
                    self._shapes.declare_missing(name)
            self._shapes.infer(node)
            parts = self._result(node)
        except (ArithmeticError, LookupError, TypeError, ValueError) as error:  # what a malformed node can cause
            raise ValueError(f"{_name(node)} ({node.op_type}): {error}") from error
        self._parts |= dict.fromkeys(filter(None, node.output), parts)

    def _result(self, node: onnx.NodeProto) -> Parts:
        """Return the parts of a node's results."""
        read = [self._parts.get(name, ()) for name in _reads(node)]
        kind = ".".join(filter(None, (domain_of(node), node.op_type)))
        if kind in _WITHOUT_DATA:
            return ()
        if kind == "Concat":
            return self._builder.concatenate(read)
        if kind in _PASSING:
            return self._builder.merge(*read)
        return self._product(kind, node, read)

    def _product(self, kind: str, node: onnx.NodeProto, read: list[Parts]) -> Parts:
        """Add a product, including its bias or mask; skip it if it is not a layer."""
        build = _PRODUCTS.get(kind)
        try:
            if build is not None:
                return build(self, node, _attributes(node))
        except Unmappable as reason:
            kind = f"{kind} ({reason})"
        return self._builder.skip(kind, _name(node), *read)

    def _operands(self, node: onnx.NodeProto) -> tuple[Operand, Operand, Parts]:
        """Return I and W, and the parts of the other operands."""
        data, weight = (node.input[index] for index in _OPERANDS[node.op_type])
        others = [self._parts.get(name, ()) for name in node.input if name not in (data, weight)]
        return self._operand(data), self._operand(weight), self._builder.merge(*others)

    def _operand(self, name: str) -> Operand:
        return Operand(self._shapes.shape(name), self._parts.get(name, ()))

    def _convolution(self, node: onnx.NodeProto, given: dict[str, Any]) -> Parts:
        data, weight, others = self._operands(node)
        out = self._shapes.shape(node.output[0])
        ones = [1] * (len(weight.shape) - 2)
        stride, dilation = given.get("strides", ones), given.get("dilations", ones)
        build: Callable[..., Parts] = self._builder.convolution
        if node.op_type == "ConvTranspose":
            padding = _transposed_padding(data.shape, weight.shape, out, stride, dilation, given)
            build = partial(self._builder.transposed_convolution, padding=padding)
        result = build(_name(node), data, weight, out, groups=given.get("group", 1), stride=stride, dilation=dilation)
        return self._builder.merge(result, others)

    def _matmul(self, node: onnx.NodeProto, given: dict[str, Any]) -> Parts:
        """Add any matrix product; only `Gemm` transposes."""
        left, right, others = self._operands(node)
        left, right = (
            Operand(operand.shape[::-1], operand.parts) if given.get(flag) else operand
            for operand, flag in ((left, "transA"), (right, "transB"))
        )
        return self._builder.merge(self._builder.matmul(_name(node), left, right), others)

    def _einsum(self, node: onnx.NodeProto, given: dict[str, Any]) -> Parts:
        operands = [self._operand(name) for name in node.input]
        return self._builder.einsum(_name(node), given["equation"].decode(), operands)

    def _attention(self, node: onnx.NodeProto, given: dict[str, Any]) -> Parts:
        """Add attention; heads are a separate axis, or adjacent within rows."""
        if any(node.input[4:]):
            raise Unmappable("with past keys")
        query, key, value = (
            _with_heads(self._operand(name), given.get(f"{kind}_num_heads"))
            for name, kind in zip(node.input, ("q", "kv", "kv"), strict=False)
        )
        masks = [self._parts.get(name, ()) for name in node.input[3:]]
        return self._builder.attention(_name(node), query, key, value, *masks)


_PRODUCTS: dict[str, Callable[[_Trace, onnx.NodeProto, dict[str, Any]], Parts]] = {
    **dict.fromkeys(("Conv", "ConvInteger", "QLinearConv", "ConvTranspose"), _Trace._convolution),
    **dict.fromkeys(("MatMul", "MatMulInteger", "QLinearMatMul", "Gemm"), _Trace._matmul),
    "Einsum": _Trace._einsum,
    "Attention": _Trace._attention,
}


def _attributes(node: onnx.NodeProto) -> dict[str, Any]:
    return {attribute.name: helper.get_attribute_value(attribute) for attribute in node.attribute}


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


def _with_heads(operand: Operand, heads: int | None) -> Operand:
    """Reshape an operand to [batch, heads, rows, channels], from that or from [batch, rows, heads * channels]."""
    if len(operand.shape) == 4:
        return operand
    batch, rows, width = operand.shape
    if not heads:
        raise ValueError("must have its numbers of heads")
    return Operand((batch, heads, rows, width // heads), operand.parts)
