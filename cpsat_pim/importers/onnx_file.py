"""Import ONNX files: convolutions and products become layers, known other operators propagate, unknown ones are
skipped.
"""

import contextlib
import heapq
from collections.abc import Iterator, Mapping, Sequence
from graphlib import CycleError, TopologicalSorter
from itertools import chain
from pathlib import Path

import onnx
from google.protobuf.message import DecodeError
from onnx import inliner
from onnx.external_data_helper import load_external_data_for_tensor

from cpsat_pim.importers.binding import check_bound
from cpsat_pim.importers.builder import NetworkBuilder
from cpsat_pim.importers.onnx_call import kind_of
from cpsat_pim.importers.onnx_control import CONTROL, deciding
from cpsat_pim.importers.onnx_functions import body_of
from cpsat_pim.importers.onnx_operators import JOINING, PASSING, REASONS, SUMS, WITHOUT_DATA
from cpsat_pim.importers.onnx_order import follow_order
from cpsat_pim.importers.onnx_pooling import pass_on
from cpsat_pim.importers.onnx_product import Product
from cpsat_pim.importers.onnx_products import PRODUCTS, product_sum
from cpsat_pim.importers.onnx_shapes import INDICES, OnnxShapes, is_scalar, is_small, open_dims, subgraphs
from cpsat_pim.importers.onnx_tensors import Tensors, node_name, reads
from cpsat_pim.importers.origin import FED, Parts
from cpsat_pim.importers.products import UnknownShape, Unmappable


def trace_onnx(path: str, bind: Mapping[str, int], builder: NetworkBuilder) -> None:
    """Pass a file's operators to the builder.

    Raises:
        ValueError: the file is unreadable, its graph has a cycle, a dim is open, or shapes do not fit together.
    """
    model = _read(path)
    trace = _Trace(model, bind, builder)
    trace.feed(model.graph)
    trace.run(model.graph)
    trace.check_used()


# --- The file --------------------------------------------------------------------------------------------------------


def _read(path: str) -> onnx.ModelProto:
    """Read the model without its external data but for sizes and layouts, and expand its local functions."""
    try:
        model = onnx.load(path, load_external_data=False)
        _read_indices(model.graph, Path(path).parent)
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


def _read_indices(graph: onnx.GraphProto, folder: Path) -> None:
    """Read those small constants of integers that are in another file, if it is there: shapes may depend on them."""
    for tensor in graph.initializer:
        if tensor.data_location == onnx.TensorProto.EXTERNAL and tensor.data_type in INDICES and is_small(tensor):
            # a file that is missing or too short leaves the value unknown, as for any other constant
            with contextlib.suppress(Exception):
                load_external_data_for_tensor(tensor, str(folder))
                tensor.data_location = onnx.TensorProto.DEFAULT


def _in_order(nodes: Sequence[onnx.NodeProto]) -> Iterator[onnx.NodeProto]:
    """Return the nodes in topological order, as close to the file's order as possible.

    Raises:
        ValueError: the graph has a cycle, or two nodes write one tensor.
    """
    sorter = TopologicalSorter(_dependencies(nodes))
    try:
        sorter.prepare()
    except CycleError as error:
        names = " -> ".join(node_name(nodes[index]) for index in error.args[1])
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
                raise ValueError(f"{node_name(nodes[writers[name]])} and {node_name(node)} both write {name!r}")
            writers[name] = index
    return {index: {writers[name] for name in reads(node) if name in writers} for index, node in enumerate(nodes)}


def _may_be_open(graph: onnx.GraphProto, name: str) -> bool:
    """Return whether a name is that of an axis of a result, in subgraphs, too, or a symbol of one."""
    tensor, _, axis = name.rpartition(".")
    symbols = {dim.dim_param for info in (*graph.value_info, *graph.output) for dim in info.type.tensor_type.shape.dim}
    results = {result for node in graph.node for result in node.output}
    inner = (one for node in graph.node for one in subgraphs(node))
    return name in symbols or (tensor in results and axis.isdigit()) or any(_may_be_open(one, name) for one in inner)


# --- Operators -------------------------------------------------------------------------------------------------------


#: Operators with a rule of their own.
_KNOWN = WITHOUT_DATA | JOINING | PASSING | SUMS | PRODUCTS.keys()


class _Trace:
    """Propagates the tensors' shapes and parts through the graph."""

    def __init__(self, model: onnx.ModelProto, bind: Mapping[str, int], builder: NetworkBuilder) -> None:
        self.tensors = Tensors(OnnxShapes(model, bind), builder)
        self._bind = bind
        self._unbound: list[str] = []
        self._by_data: set[str] = set()
        self._deciding: set[str] = set()
        self._builder = builder

    def feed(self, graph: onnx.GraphProto) -> None:
        """Define the network's inputs, and the values of those that are bound."""
        shapes = self.tensors.shapes
        constants = {tensor.name for tensor in graph.initializer}
        constants |= {sparse.values.name for sparse in graph.sparse_initializer}
        # files of IR version 3 list constants among the inputs, too
        fed = [info for info in graph.input if info.name not in constants]
        scalars = [info for info in fed if is_scalar(info)]
        sizes = dict.fromkeys(names for i in fed for _, names in open_dims(i.name, i.type))
        known = {tensor.name for tensor in graph.initializer if tensor.data_location != onnx.TensorProto.EXTERNAL}
        values = dict.fromkeys(
            (*(info.name for info in scalars), *(name for name in deciding(graph) if name and name not in known))
        )
        self._by_data = {name for name in self._bind if _may_be_open(graph, name)} - {*chain(*sizes)}
        check_bound(self._bind, *sizes, by_data=[{name} for name in self._by_data], values=values)
        self._deciding = values.keys() & self._bind.keys()
        for info in fed:
            shapes.declare(info)
            self.tensors.parts[info.name] = FED
        for info in scalars:
            if info.name in self._bind:
                shapes.define_scalar(info.name, self._bind[info.name])
        self._unbound = [info.name for info in scalars if info.name not in self._bind]

    def run(self, graph: onnx.GraphProto) -> None:
        """Define a graph's constants and process its operators."""
        self.tensors.shapes.enter(graph)
        self.tensors.parts |= {tensor.name: () for tensor in graph.initializer}
        for node in _in_order(graph.node):
            self.follow(node)

    def check_used(self) -> None:
        """Check that all sizes that data decide are bound to some that were open.

        Raises:
            ValueError: one was known, or is that of no axis.
        """
        for name in sorted(self._by_data - self.tensors.shapes.used):
            raise ValueError(f"no open dim is named {name!r}: that size is known, or the tensor has no such axis")

    def follow(self, node: onnx.NodeProto) -> None:
        """Process one operator.

        Raises:
            ValueError: shapes are unknown or do not fit together; the message begins with the node's name.
        """
        tensors = self.tensors
        try:
            for name in filter(None, node.input):
                if name not in tensors:
                    tensors.shapes.declare_missing(name)
            tensors.shapes.infer(node)
            self._tell(node)
            tensors.writers |= dict.fromkeys(node.output, node)
            kind = self._control(node)
            if kind is not None:
                parts = self._result(kind, node)
                tensors.parts |= dict.fromkeys(filter(None, node.output), parts)
                follow_order(tensors, node, tensors.shapes.call(node))
        except _Inner:
            raise
        except (ArithmeticError, LookupError, TypeError, ValueError) as error:  # what a malformed node can cause
            raise _Inner(f"{node_name(node)} ({node.op_type}): {error}") from error

    def _tell(self, node: onnx.NodeProto) -> None:
        """Define the results of a node whose value is bound."""
        for name in self._deciding & {*node.output}:
            if {*(self.tensors.shapes.sizes(name) or ())} <= {1}:
                self.tensors.shapes.define_scalar(name, self._bind[name])

    def _control(self, node: onnx.NodeProto) -> str | None:
        """Follow a branch, a loop or what ONNX defines by others; return its kind, with the reason, if it is
        not followed.
        """
        kind = kind_of(node)
        follow = CONTROL.get(kind)
        if follow is None:
            return None if kind not in _KNOWN and self._follow_body(node) else kind
        try:
            follow(self, node, {attribute.name: attribute.g for attribute in node.attribute})
        except Unmappable as reason:
            return self._refused(kind, node, reason)
        return None

    def _refused(self, kind: str, node: onnx.NodeProto, reason: Unmappable) -> str:
        """Return the kind of an operator that is no layer with the reason, and what to bind so that it may be one: what
        the reason names, or an input of one element, which may decide more.
        """
        bind = self.tensors.open_size(node) if isinstance(reason, UnknownShape) else reason.bind
        names = [name for name in (*self._unbound[:1], bind) if name and bind]
        hints = "".join(f", --bind {name}=... may tell" for name in dict.fromkeys(names))
        return f"{kind} ({reason}{hints})"

    def _follow_body(self, node: onnx.NodeProto) -> bool:
        """Follow the operators that make up one; return whether there are some, and all could be mapped."""
        tensors = self.tensors
        before = tensors.checkpoint()
        body = body_of(node, tensors.shapes)
        if body is None:
            return False
        with contextlib.suppress(_Inner):
            self.run(body)
            if len(tensors.builder.skipped) == len(before.progress.skipped):
                return True
        tensors.restore(before)
        return False

    def _result(self, kind: str, node: onnx.NodeProto) -> Parts:
        """Return the parts of a node's results."""
        read = [self.tensors.origin(name) for name in reads(node)]
        if kind in WITHOUT_DATA:
            return ()
        if kind in JOINING:
            return self._builder.concatenate(read)
        if kind in PASSING:
            return self._pass_on(node, read)
        return self._product(kind, node, read)

    def _pass_on(self, node: onnx.NodeProto, read: list[Parts]) -> Parts:
        """Return the parts of what an operator without a product makes of tensors, pooled or padded."""
        shapes = self.tensors.shapes
        maps = ([of.get(name) for name in reads(node)] for of in (self.tensors.maps, self.tensors.places))
        parts = self._builder.combine(read, *maps)
        return pass_on(shapes.call(node), shapes.sizes(node.output[0]), parts, self._builder)

    def _product(self, kind: str, node: onnx.NodeProto, read: list[Parts]) -> Parts:
        """Add a product, including its bias or mask; skip it if it is not a layer."""
        build, macs, why = PRODUCTS.get(kind), None, REASONS.get(kind)
        try:
            if kind in SUMS:
                added = product_sum(Product(self.tensors, node))
                return self._pass_on(node, read) if added is None else added
            if build is not None:
                return build(Product(self.tensors, node))
        except Unmappable as reason:
            kind, macs = self._refused(kind, node, reason), reason.macs
        kind = f"{kind} ({why})" if why else kind
        return self._builder.skip(kind, node_name(node), *read, macs=macs)


class _Inner(ValueError):
    """A message that already begins with the name of the operator, which may be in a subgraph."""
