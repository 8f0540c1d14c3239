"""The core ATen operators of an exported PyTorch program: which are products, which pass data on, and their shapes."""

import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import torch
from torch.fx import Node

from cpsat_pim.importers.binding import check_bound
from cpsat_pim.importers.builder import FED, NetworkBuilder, Operand, Parts
from cpsat_pim.importers.products import Shape, Unmappable, transposed
from cpsat_pim.importers.torch_recurrent import RECURRENT, recurrent_layers

_CONVOLUTIONS = ("conv1d", "conv2d", "conv3d", "convolution")
_TRANSPOSED_CONVOLUTIONS = ("conv_transpose1d", "conv_transpose2d", "conv_transpose3d")
_ATTENTION = "scaled_dot_product_attention"

#: The argument names of the operands of a matrix product.
_OPERANDS = {
    "addmm": ("mat1", "mat2"), "addmv": ("mat", "vec"), "baddbmm": ("batch1", "batch2"), "bmm": ("self", "mat2"),
    "dot": ("self", "tensor"), "linear": ("input", "weight"), "matmul": ("self", "other"), "mm": ("self", "mat2"),
    "mv": ("self", "vec"), "vdot": ("self", "other"),
}  # fmt: skip

#: Products that cannot be mapped; they are kept whole, so that they are reported under their own names.
_UNMAPPED = ("bilinear",)

#: A product of rows with one matrix each of a group, such as experts.
_GROUPED = "_grouped_mm"

#: Operators of quantised programs that change only how elements are stored.
_QUANTISING = "quantized_decomposed"

#: Operators that must not be decomposed: some would become sums of element-wise products and be lost.
KEPT = (*_CONVOLUTIONS, *_TRANSPOSED_CONVOLUTIONS, *_OPERANDS, "einsum", _ATTENTION, *RECURRENT, _GROUPED, *_UNMAPPED)

#: Operators that add along axes; of an element-wise product they make a layer.
_SUMS = frozenset(("sum", "mean"))

#: Operators whose result does not depend on the network's input data.
_WITHOUT_DATA = {
    "arange", "empty", "empty_like", "empty_strided", "fill", "full", "full_like", "rand", "rand_like", "randint",
    "randint_like", "randn", "randn_like", "randperm", "scalar_tensor",
}  # fmt: skip

#: Tags of the operators that compute on single elements or reduce them, and of those that move them.
_PASSING_TAGS = {torch.Tag.pointwise, torch.Tag.reduction, torch.Tag.view_copy}

_OTHER_PASSING = """
_adaptive_avg_pool2d _adaptive_avg_pool3d _embedding_bag _fused_rms_norm _log_softmax _native_batch_norm_legit
_native_batch_norm_legit_functional _native_batch_norm_legit_no_training _safe_softmax _softmax _to_copy _unsafe_view
_upsample_bicubic2d_aa _upsample_bilinear2d_aa _upsample_nearest_exact1d _upsample_nearest_exact2d adaptive_avg_pool1d
adaptive_max_pool2d avg_pool1d avg_pool2d avg_pool3d bucketize col2im constant_pad_nd copy cummax cumprod cumsum
embedding flip gather im2col index index_add index_copy index_put index_select masked_scatter max_pool2d
max_pool2d_with_indices max_pool3d_with_indices native_batch_norm native_dropout native_group_norm native_layer_norm
nonzero reflection_pad1d reflection_pad2d reflection_pad3d repeat repeat_interleave replication_pad1d replication_pad2d
replication_pad3d scatter scatter_add scatter_reduce searchsorted select_scatter sort topk tril triu upsample_bicubic2d
upsample_bilinear2d upsample_linear1d upsample_nearest1d upsample_nearest2d
"""

#: Core operators without such a tag that are not products.
_PASSING = frozenset(_OTHER_PASSING.split())


class Trace:
    """Propagates the tensors' parts through the graph, which contains their shapes."""

    def __init__(self, program: torch.export.ExportedProgram, bind: Mapping[str, int], builder: NetworkBuilder) -> None:
        signature = program.graph_signature
        self._names = {**signature.inputs_to_parameters, **signature.inputs_to_buffers}
        self._fed = set(signature.user_inputs)
        self._builder = builder
        symbols = self._symbols(program)
        check_bound(bind, *symbols.values())
        self._bound = {symbol: bind[name] for symbol, names in symbols.items() for name in names if name in bind}
        self._parts: dict[Node, Parts] = {}

    def follow(self, node: Node) -> None:
        """Process one node.

        Raises:
            ValueError: the shape of a product cannot be that of a layer; the message begins with the node's name.
        """
        try:
            self._parts[node] = self._result(node)
        except ValueError as error:
            raise ValueError(f"{node.name}: {error}") from error

    def _result(self, node: Node) -> Parts:
        """Return the parts of a node's result; none for anything but tensors."""
        if node.op != "call_function" or not _holds_tensors(node.meta.get("val")):
            return FED if node.name in self._fed else ()
        read = [self._parts[other] for other in node.all_input_nodes]
        operator = node.target
        if not isinstance(operator, torch._ops.OpOverload):
            passing = operator.__name__ == "getitem"
            return self._builder.merge(*read) if passing else self._builder.skip(str(operator), node.name, *read)
        kind = operator._schema.name.removeprefix("aten::")
        if kind in _WITHOUT_DATA:
            return ()
        if kind.partition("::")[0] == _QUANTISING:
            return self._builder.merge(*read)
        if kind == "cat":
            return self._builder.concatenate(read)
        if kind in _SUMS and (added := self._product_sum(kind, node)) is not None:
            return added
        if kind in _PASSING or operator.is_view or _PASSING_TAGS & set(operator.tags):
            return self._builder.merge(*read)
        return self._product(kind, node, read)

    def _product(self, kind: str, node: Node, read: list[Parts]) -> Parts:
        """Add a product, including its bias or mask; skip it if it is not a layer."""
        given, macs = _arguments(node), None
        try:
            if kind in (*_CONVOLUTIONS, *_TRANSPOSED_CONVOLUTIONS):
                return self._convolution(kind, node, given)
            if kind in _OPERANDS:
                return self._matmul(kind, node, given)
            if kind == "einsum":
                operands = [self._operand(tensor) for tensor in given["tensors"]]
                return self._builder.einsum(self._name(node, kind), given["equation"], operands)
            if kind.lstrip("_").startswith("scaled_dot_product"):
                return self._attention(node, given)
            if kind in RECURRENT:
                return self._recurrent(node, given)
            if kind == _GROUPED:
                return self._grouped(node, given)
        except Unmappable as reason:
            kind, macs = f"{kind} ({reason})", reason.macs
        return self._builder.skip(kind, self._name(node, kind.partition(" ")[0]), *read, macs=macs)

    def _product_sum(self, kind: str, node: Node) -> Parts | None:
        """Add a sum whose terms are element-wise products of two tensors; None if the node is none.

        The square of a tensor is no product of two: sums of squares belong to normalisations.
        """
        given = _arguments(node)
        factors, axes = _factors(given["self"]), given.get("dim")
        if factors is None:
            return None
        axes = axes if isinstance(axes, list | tuple) and axes else [*range(len(self._shape(given["self"])))]
        left, right = (self._operand(factor) for factor in factors)
        return self._builder.product_sum(self._name(node, kind), left, right, axes)

    def _convolution(self, kind: str, node: Node, given: dict[str, Any]) -> Parts:
        data, weight = self._operand(given["input"]), self._operand(given["weight"])
        axes = len(weight.shape) - 2
        stride, dilation = _each(given["stride"], axes), _each(given["dilation"], axes)
        build: Callable[..., Parts] = self._builder.convolution
        if kind in _TRANSPOSED_CONVOLUTIONS or given.get("transposed"):
            build = partial(self._builder.transposed_convolution, padding=_each(given["padding"], axes))
        result = build(
            self._name(node, kind, given["weight"]),
            *(data, weight, self._shape(node)),
            groups=given["groups"],
            stride=stride,
            dilation=dilation,
        )
        return self._with_others(result, node, given["input"], given["weight"])

    def _matmul(self, kind: str, node: Node, given: dict[str, Any]) -> Parts:
        left, right = (given[name] for name in _OPERANDS[kind])
        weight = self._operand(right)
        if kind == "linear":
            weight = Operand(transposed(weight.shape), weight.parts)
        result = self._builder.matmul(self._name(node, kind, left, right), self._operand(left), weight)
        return self._with_others(result, node, left, right)

    def _attention(self, node: Node, given: dict[str, Any]) -> Parts:
        """Add attention; a further operand is a mask."""
        tensors = [given[name] for name in ("query", "key", "value")]
        query, key, value = (self._operand(tensor) for tensor in tensors)
        if len(query.shape) < 3 or len(key.shape) < 3:
            raise Unmappable("without a batch")
        masks = [self._parts[other] for other in node.all_input_nodes if other not in tensors]
        return self._builder.attention(self._path(node) or node.name, query, key, value, *masks)

    def _recurrent(self, node: Node, given: dict[str, Any]) -> Parts:
        """Add the layers of a recurrent operator, one behind the other; all directions of a layer are alike."""
        if "batch_sizes" in given:
            raise Unmappable("packed sequences")
        path = self._path(node) or node.name
        parts = self._parts[given["input"]]
        states = given["hx"] if isinstance(given["hx"], list | tuple) else [given["hx"]]
        state = self._builder.merge(*(self._parts[tensor] for tensor in states))
        for layer in recurrent_layers(given, self._shape(given["input"]), self._shape):
            weight, recurrent, *projection = layer.operands(self._operand)
            parts = self._builder.recurrent(
                path if given["num_layers"] == 1 else f"{path}.l{layer.index}",
                Operand(layer.data, parts),
                weight,
                recurrent,
                state,
                len(layer.weights),
                *projection,
            )
        return parts

    def _grouped(self, node: Node, given: dict[str, Any]) -> Parts:
        """Add a product in which each row meets the matrix of its group, as if all groups shared the rows evenly."""
        left, right = given["self"], given["mat2"]
        rows, matrices = self._shape(left), self._operand(right)
        if len(matrices.shape) != 3:
            raise Unmappable("groups of columns")
        name = self._name(node, "grouped_mm", right)
        result = self._builder.grouped(name, math.prod(rows[:-1]), self._parts[left], matrices)
        return self._with_others(result, node, left, right)

    def _with_others(self, result: Parts, node: Node, *operands: Node) -> Parts:
        """Combine a product with the operands that are added to it."""
        return self._builder.merge(result, *(self._parts[o] for o in node.all_input_nodes if o not in operands))

    def _operand(self, node: Node) -> Operand:
        return Operand(self._shape(node), self._parts[node])

    # Names

    def _name(self, node: Node, kind: str, *operands: Node) -> str:
        """Return the name of the parameter without its `weight`, else the module and the operator."""
        for operand in operands:
            if not self._parts[operand] and (parameter := self._names.get(_origin(operand).name)):
                return str(parameter).removesuffix("weight").rstrip("._") or str(parameter)
        return ".".join(filter(None, (self._path(node), kind)))

    def _path(self, node: Node) -> str:
        """Return the path of the module whose code contains the operator."""
        modules = list((node.meta.get("nn_module_stack") or {}).values())
        return str(modules[-1][0]) if modules else ""

    # Shapes

    def _shape(self, node: Node) -> Shape:
        """Return a tensor's sizes, with the bound sizes in place of open dims."""
        return tuple(self._size(size) for size in node.meta["val"].shape)

    def _size(self, size: Any) -> int:
        if isinstance(size, int):
            return size
        known = size.node.expr.subs(self._bound)
        if not known.is_Integer:
            raise ValueError(f"a size depends on the data ({known})")
        return int(known)

    def _symbols(self, program: torch.export.ExportedProgram) -> dict[Any, list[str]]:
        """Return the open dims of the inputs, each with its names: `tensor.axis` and its symbol."""
        names: dict[Any, list[str]] = {}
        fed = [node for node in program.graph.nodes if node.name in self._fed and _holds_tensors(node.meta["val"])]
        for node in fed:
            for axis, size in enumerate(node.meta["val"].shape):
                for symbol in () if isinstance(size, int) else size.node.expr.free_symbols:
                    known = names.setdefault(symbol, [])
                    known += [f"{node.name}.{axis}"] if size.node.expr == symbol else []
        return {symbol: [*known, str(symbol)] for symbol, known in names.items()}


def _arguments(node: Node) -> dict[str, Any]:
    """Return an operator's arguments by name, with defaults."""
    declared = node.target._schema.arguments
    given: dict[str, Any] = {argument.name: argument.default_value for argument in declared}
    return {**given, **dict(zip(given, node.args, strict=False)), **node.kwargs}


def _factors(node: Any) -> tuple[Node, Node] | None:
    """Return the two different tensors whose element-wise product a node is; None if it is none."""
    if not isinstance(node.target, torch._ops.OpOverload) or node.target._schema.name != "aten::mul":
        return None
    left, right = node.args
    is_product = isinstance(left, Node) and isinstance(right, Node) and left is not right
    return (left, right) if is_product else None


def _each(value: Any, axes: int) -> list[int]:
    """Return a setting for each axis; PyTorch may store one value for all axes."""
    values = list(value) if isinstance(value, list | tuple) else [value]
    return values * axes if len(values) == 1 else values


def _origin(node: Node) -> Node:
    """Return the node that a constant was made from."""
    while node.op == "call_function" and node.all_input_nodes:
        node = node.all_input_nodes[0]
    return node


def _holds_tensors(value: Any) -> bool:
    values = value if isinstance(value, list | tuple) else (value,)
    return any(isinstance(item, torch.Tensor) for item in values)
