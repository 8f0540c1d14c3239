"""Operators that ONNX itself defines by other operators: their bodies."""

import onnx
from onnx import defs, helper, inliner

from cpsat_pim.importers.onnx_call import VENDOR, domain_of
from cpsat_pim.importers.onnx_shapes import OnnxShapes, subgraphs
from cpsat_pim.importers.onnx_tensors import node_name

#: The domain and name of the function that stands for the operator while it is expanded.
_DOMAIN, _NAME = "expanded", "Body"

#: What ONNX adds to the names within a function that is expanded, to make them unique.
_NUMBER = "__1"


def body_of(node: onnx.NodeProto, shapes: OnnxShapes) -> onnx.GraphProto | None:
    """Return the operators that make up one, None if ONNX does not define it by others. They read and write the same
    tensors as it; what they keep between them has names that no tensor has yet.
    """
    try:
        function = _function(node, shapes)
        return None if function is None else _expanded(node, function, shapes)
    except Exception:  # one of a dozen exception classes of the compiled library: the definition does not fit the call
        return None


def _function(node: onnx.NodeProto, shapes: OnnxShapes) -> onnx.FunctionProto | None:
    """Return the function that ONNX defines an operator by, or the newest one for an operator of onnxruntime with its
    name; None if there is none for the types of its inputs.
    """
    domain = domain_of(node)
    is_vendors = f"{domain}." == VENDOR
    domain, version = ("", defs.onnx_opset_version()) if is_vendors else (domain, shapes.version(domain))
    if not defs.has(node.op_type, domain):
        return None
    schema = defs.get_schema(node.op_type, version, domain)
    if schema.has_function:
        return onnx.FunctionProto.FromString(schema.function_body.SerializeToString())
    if not schema.has_context_dependent_function:
        return None
    types = [shapes.type(name).SerializeToString() for name in node.input]
    body = schema.get_context_dependent_function(node.SerializeToString(), types)
    return onnx.FunctionProto.FromString(body) if body else None


def _expanded(node: onnx.NodeProto, function: onnx.FunctionProto, shapes: OnnxShapes) -> onnx.GraphProto:
    """Return the function's operators for one call."""
    function.domain, function.name = _DOMAIN, _NAME
    call = onnx.NodeProto.FromString(node.SerializeToString())
    call.domain, call.op_type = _DOMAIN, _NAME
    names = dict.fromkeys((*filter(None, node.input), *shapes.names))
    graph = helper.make_graph([call], "body", [*map(_untyped, names)], [*map(_untyped, node.output)])
    opsets = [*function.opset_import, helper.make_opsetid(_DOMAIN, 1)]
    body: onnx.GraphProto = inliner.inline_local_functions(
        helper.make_model(graph, opset_imports=opsets, functions=[function])
    ).graph
    del body.output[:]  # which have no types
    _name_after(node_name(node), body)
    return body


def _untyped(name: str) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, onnx.TensorProto.UNDEFINED, None)


def _name_after(name: str, graph: onnx.GraphProto) -> None:
    """Name the operators of a body, and of the graphs within, after the operator that it makes up."""
    for inner in graph.node:
        inner.name = f"{name}.{node_name(inner).removesuffix(_NUMBER)}"
        for nested in subgraphs(inner):
            _name_after(name, nested)
