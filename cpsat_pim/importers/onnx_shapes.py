"""Infer the shapes of an ONNX graph's tensors, node by node, from the shapes of its inputs.

Weights are never read. The values of small tensors are: exporters compute shapes from shapes (`Shape`, `Gather`, `Div`,
`Concat`, `Reshape`), and with every dim bound such a chain is a constant.
"""

import contextlib
import math
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import defs, helper, numpy_helper, shape_inference
from onnx.reference import ReferenceEvaluator

from cpsat_pim.importers.onnx_call import Call, domain_of, kind_of
from cpsat_pim.importers.onnx_rules import RULES
from cpsat_pim.importers.onnx_vendor_rules import VENDOR_RULES
from cpsat_pim.importers.products import Shape, UnknownShape, Unmappable

#: The most elements of a tensor whose value is kept: shapes have few.
_SMALL_ELEMS = 1024

#: The same for integers as wide as indices: a layout of blocks of attention has some thousand.
_LAYOUT_ELEMS = 65536
INDICES = (onnx.TensorProto.INT32, onnx.TensorProto.INT64)

#: The rules for operators for which ONNX has none.
_RULES = RULES | VENDOR_RULES

#: Operators that read only a tensor's shape.
SHAPE_READERS = ("Shape", "Size")


class OnnxShapes:
    """The types of the tensors defined so far, and the values of the small constants among them. `used`: the names of
    dims that were bound.
    """

    def __init__(self, model: onnx.ModelProto, bind: Mapping[str, int]) -> None:
        self._opsets = list(model.opset_import)
        self._versions: dict[str, int] = {domain_of(opset): int(opset.version) for opset in self._opsets}
        self._declared = {info.name: info for info in (*model.graph.value_info, *model.graph.output)}
        self._bind = bind
        self._types: dict[str, onnx.TypeProto] = {}
        self._values: dict[str, onnx.TensorProto] = {}
        self.used: set[str] = set()

    def __contains__(self, name: str) -> bool:
        """Return whether a tensor is defined."""
        return name in self._types

    @property
    def names(self) -> Iterable[str]:
        """The tensors that are defined."""
        return self._types.keys()

    def version(self, domain: str) -> int:
        """Return the version of the operators of a domain."""
        return self._versions.get(domain, 1)

    def type(self, name: str) -> onnx.TypeProto:
        """Return the type of a tensor; an empty one if it is not known."""
        return self._types.get(name, onnx.TypeProto())

    def shape(self, name: str) -> Shape:
        """Return the sizes of a tensor.

        Raises:
            Unmappable: they are unknown.
        """
        sizes = _sizes(self._types.get(name))
        if sizes is None:
            raise UnknownShape
        return sizes

    def declare(self, info: onnx.ValueInfoProto) -> None:
        """Define a tensor with the type in the file, with its open dims bound."""
        self._type(info.name, onnx.TypeProto.FromString(info.type.SerializeToString()))

    def _type(self, name: str, kind: onnx.TypeProto) -> None:
        """Define a tensor with a type, with its open dims bound."""
        for dim, names in open_dims(name, kind):
            for bound in self._bind.keys() & set(names):
                dim.dim_value = self._bind[bound]
                self.used.add(bound)
        self._types[name] = kind

    def declare_missing(self, name: str) -> None:
        """Define a tensor that nothing else defines, a constant whose data are not in the file, by its type in the
        file.

        Raises:
            ValueError: the file has no type for it.
        """
        if name not in self._declared:
            raise ValueError(f"reads {name!r}, which nothing defines")
        self.declare(self._declared[name])

    def define(self, tensor: onnx.TensorProto) -> None:
        """Define a constant; its value is kept if it is small, as sizes and layouts are, and in the file."""
        self._types[tensor.name] = helper.make_tensor_type_proto(tensor.data_type, list(tensor.dims))
        if is_small(tensor) and tensor.data_location != onnx.TensorProto.EXTERNAL:
            self._values[tensor.name] = tensor

    def value(self, name: str) -> np.ndarray | None:
        """Return the value of a small tensor, None if it is not known."""
        try:
            return numpy_helper.to_array(self._values[name]) if name in self._values else None
        except ValueError:  # a tensor whose data are not in the file, though it does not say so
            return None

    def told(self, name: str) -> int | None:
        """Return what a name is bound to, None if it is not."""
        return self._bind.get(name)

    def number(self, name: str) -> int | None:
        """Return the value of a tensor of one element, None if it is not known."""
        value = self.value(name)
        return int(value.reshape(-1)[0]) if value is not None and value.size == 1 else None

    def sizes(self, name: str) -> Shape | None:
        """Return the sizes of a tensor, None if they are not known."""
        return _sizes(self._types.get(name))

    def elements(self, name: str) -> int:
        """Return the type of a tensor's elements, 0 if it is not known."""
        return self._types[name].tensor_type.elem_type if name in self._types else 0

    def forget(self, name: str) -> None:
        """Forget the value of a tensor, not its type."""
        self._values.pop(name, None)

    def copy(self, source: str, name: str, *, with_value: bool = True) -> None:
        """Define a tensor like another one; with an unknown type if that has none."""
        self._discard(name)
        if source in self._types:
            self._types[name] = self._types[source]
        if with_value and source in self._values:
            self._values[name] = self._values[source]

    def shaped(self, name: str, like: str, sizes: Shape) -> None:
        """Define a tensor by its sizes, with the type of the elements of another one."""
        self._discard(name)
        kind = self._types.get(like)
        elements = kind.tensor_type.elem_type if kind is not None else onnx.TensorProto.FLOAT
        self._types[name] = helper.make_tensor_type_proto(elements or onnx.TensorProto.FLOAT, list(sizes))

    def enter(self, graph: onnx.GraphProto) -> None:
        """Make the types that a subgraph declares known, and define its constants."""
        self._declared |= {info.name: info for info in (*graph.value_info, *graph.output)}
        for tensor in graph.initializer:
            self.define(tensor)
        for sparse in graph.sparse_initializer:
            self.define(onnx.TensorProto(name=sparse.values.name, dims=sparse.dims, data_location=1))

    def define_scalar(self, name: str, number: int) -> None:
        """Define the value of a tensor of one element."""
        tensor = self.type(name).tensor_type
        kind = helper.tensor_dtype_to_np_dtype(tensor.elem_type or onnx.TensorProto.INT64)
        self.define(numpy_helper.from_array(np.full([1] * len(tensor.shape.dim), number, kind), name))

    def _discard(self, name: str) -> None:
        self._types.pop(name, None)
        self._values.pop(name, None)

    def infer(self, node: onnx.NodeProto) -> None:
        """Infer the types of a node's results, and their values if all inputs are known.

        Raises:
            ValueError: the types of its inputs do not match.
        """
        inferred = self._inferred(node)
        for name in node.output:  # a loop's body is followed more than once
            self._discard(name)
        for name in inferred.keys() - {""}:  # a result that is not wanted has no name
            self._type(name, inferred[name])
        for name in node.output:
            if name and _sizes(self._types.get(name)) is None and name in self._declared:
                self.declare(self._declared[name])
        self._fold(node)

    def _inferred(self, node: onnx.NodeProto) -> dict[str, onnx.TypeProto]:
        """Infer types by ONNX's own rules, else by ours; none for an operator with subgraphs."""
        known = {name: self._types[name] for name in node.input if name in self._types}
        values = {name: self._values[name] for name in node.input if name in self._values}
        domain = domain_of(node)
        if len(known) < len({*node.input} - {""}) or not defs.has(node.op_type, domain) or [*subgraphs(node)]:
            return self._by_rule(node)
        try:
            schema = defs.get_schema(node.op_type, self.version(domain), domain)
            if not schema.has_type_and_shape_inference_function:
                return self._by_rule(node)
            outputs = shape_inference.infer_node_outputs(schema, node, known, values, opset_imports=self._opsets)
        except Exception as error:  # one of a dozen exception classes of the compiled library, without a common base
            raise ValueError(str(error)) from error
        return dict(outputs)

    def _by_rule(self, node: onnx.NodeProto) -> dict[str, onnx.TypeProto]:
        """Infer types by our rule for an operator for which ONNX has none; none without a rule, or what it needs."""
        rule = _RULES.get(kind_of(node))
        if rule is None:
            return {}
        call = self.call(node)
        try:
            shapes = rule.shapes(call)
        except Unmappable:
            return {}
        given = (call.elements[index] for index in rule.like if index < len(call.elements))
        elements = next(filter(None, given), rule.elements)
        named = zip(node.output, shapes, strict=False)
        known = {name: sizes for name, sizes in named if name and sizes is not None}
        return {name: helper.make_tensor_type_proto(elements, list(sizes)) for name, sizes in known.items()}

    def call(self, node: onnx.NodeProto) -> Call:
        """Return what is known about the inputs of a node."""
        return Call(
            kind=kind_of(node),
            given={attribute.name: helper.get_attribute_value(attribute) for attribute in node.attribute},
            inputs=[self.sizes(name) for name in node.input],
            values=[self.value(name) for name in node.input],
            elements=[self.elements(name) for name in node.input],
        )

    def _fold(self, node: onnx.NodeProto) -> None:
        """Compute the values of a node's results if they are small and all inputs are known."""
        sizes = [_sizes(self._types.get(name)) for name in node.output]
        if any(size is None or math.prod(size) > _SMALL_ELEMS for size in sizes):
            return
        # without an evaluator, or with data outside the file, the values stay unknown
        with contextlib.suppress(Exception):
            given = self._given(node)
            values = () if given is None else _evaluated(node, given, self._opsets)
            for name, value in zip(node.output, values, strict=False):
                self.define(numpy_helper.from_array(np.asarray(value), name))

    def _given(self, node: onnx.NodeProto) -> dict[str, np.ndarray] | None:
        """Return the node's inputs if known. Where only the shape is read, a tensor of that shape that takes no memory
        stands in.
        """
        if node.op_type in SHAPE_READERS:
            size = _sizes(self._types.get(node.input[0]))
            return None if size is None else {node.input[0]: np.broadcast_to(np.float32(0), size)}
        if not {*node.input} - {""} <= self._values.keys() or not (node.input or node.op_type == "Constant"):
            return None
        return {name: numpy_helper.to_array(self._values[name]) for name in node.input if name}


def is_small(tensor: onnx.TensorProto) -> bool:
    """Return whether a constant's value may be needed: sizes, axes, indices and layouts."""
    most = _LAYOUT_ELEMS if tensor.data_type in INDICES else _SMALL_ELEMS
    return bool(math.prod(tensor.dims) <= most)


def subgraphs(node: onnx.NodeProto) -> Iterator[onnx.GraphProto]:
    """Yield the subgraphs of a branch or loop."""
    for attribute in node.attribute:
        yield from [attribute.g] if attribute.type == onnx.AttributeProto.GRAPH else attribute.graphs


def open_dims(name: str, kind: onnx.TypeProto) -> Iterator[tuple[onnx.TensorShapeProto.Dimension, tuple[str, ...]]]:
    """Yield the dims of a tensor without a size, each with its names: its symbol, if it has one, and `tensor.axis`."""
    for axis, dim in enumerate(kind.tensor_type.shape.dim):
        if dim.dim_value <= 0:
            yield dim, (*([dim.dim_param] if dim.dim_param else []), f"{name}.{axis}")


def is_scalar(info: onnx.ValueInfoProto) -> bool:
    """Return whether an input has one element, so that its value can be bound by its name."""
    tensor = info.type.tensor_type
    return tensor.HasField("shape") and bool(tensor.elem_type) and all(dim.dim_value == 1 for dim in tensor.shape.dim)


def _sizes(kind: onnx.TypeProto | None) -> Shape | None:
    """Return the sizes of a tensor type if all are known, else None."""
    if kind is None or not kind.tensor_type.HasField("shape"):
        return None
    dims = kind.tensor_type.shape.dim
    return tuple(dim.dim_value for dim in dims) if all(dim.HasField("dim_value") for dim in dims) else None


def _evaluated(
    node: onnx.NodeProto, given: dict[str, np.ndarray], opsets: list[onnx.OperatorSetIdProto]
) -> Sequence[Any]:
    """Evaluate a single node."""
    inputs = [helper.make_tensor_value_info(name, onnx.TensorProto.UNDEFINED, None) for name in given]
    outputs = [helper.make_tensor_value_info(name, onnx.TensorProto.UNDEFINED, None) for name in node.output]
    graph = helper.make_graph([node], "node", inputs, outputs)
    with warnings.catch_warnings(action="ignore"):
        return list(ReferenceEvaluator(helper.make_model(graph, opset_imports=opsets)).run(None, given))
