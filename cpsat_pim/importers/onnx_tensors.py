"""The tensors of an ONNX graph that are defined so far: sizes, values if small, and the layers behind them."""

from collections.abc import Iterable, Mapping

import onnx
from attrs import frozen

from cpsat_pim.importers.builder import NetworkBuilder
from cpsat_pim.importers.channel_maps import Map
from cpsat_pim.importers.counted import Operand
from cpsat_pim.importers.onnx_shapes import OnnxShapes, open_dims, subgraphs
from cpsat_pim.importers.origin import Parts
from cpsat_pim.importers.progress import Progress


@frozen(kw_only=True)
class Checkpoint:
    """What was added to the network, and the parts of all tensors."""

    progress: Progress
    parts: Mapping[str, Parts]


class Tensors:
    """Shapes, values and parts of tensors by name, and the builder that the layers are added to.

    `maps`, `places`: which channel and which position each element is, where that is known. `writers`: the operators by
    the tensors that they write.
    """

    def __init__(self, shapes: OnnxShapes, builder: NetworkBuilder) -> None:
        self.shapes = shapes
        self.builder = builder
        self.parts: dict[str, Parts] = {}
        self.maps: dict[str, Map | None] = {}
        self.places: dict[str, Map | None] = {}
        self.writers: dict[str, onnx.NodeProto] = {}

    def __contains__(self, name: str) -> bool:
        """Return whether a tensor is defined."""
        return name in self.shapes or name in self.parts

    def operand(self, name: str) -> Operand:
        """Return a tensor as operand of a product.

        Raises:
            Unmappable: its sizes are unknown.
        """
        return Operand(self.shapes.shape(name), self.origin(name), self.maps.get(name), self.places.get(name))

    def origin(self, name: str) -> Parts:
        """Return the parts of a tensor; none of a constant, or of an input that is left out."""
        return self.parts.get(name, ())

    def origins(self, names: Iterable[str]) -> Parts:
        """Return the parts of several tensors that are combined."""
        return self.builder.merge(*(self.origin(name) for name in names))

    def open_size(self, node: onnx.NodeProto) -> str | None:
        """Return the name of the first open dim on the way to an operator, whose size data decide; None if none has a
        name.
        """
        found, passed = None, set[str]()
        while unknown := [name for name in node.input if name in self.writers and self.shapes.sizes(name) is None]:
            name = unknown[0]
            if name in passed:  # what a loop hands on
                break
            passed.add(name)
            found = next((names[-1] for _, names in open_dims(name, self.shapes.type(name))), found)
            node = self.writers[name]
        return found

    def checkpoint(self) -> Checkpoint:
        """Return the layers and the parts so far."""
        return Checkpoint(progress=self.builder.progress, parts=dict(self.parts))

    def restore(self, before: Checkpoint) -> None:
        """Forget the layers added since, and the parts that name them."""
        self.builder.restore(before.progress)
        self.parts = dict(before.parts)

    def copy(self, source: str, name: str) -> None:
        """Define a tensor as another name of one."""
        self.shapes.copy(source, name)
        self.parts[name] = self.origin(source)
        self.maps[name], self.places[name] = self.maps.get(source), self.places.get(source)


def reads(node: onnx.NodeProto) -> list[str]:
    """Return the tensors that a node reads, including those that its subgraphs take from outside."""
    inner = (name for graph in subgraphs(node) for other in graph.node for name in reads(other))
    results = (info.name for graph in subgraphs(node) for info in graph.output)
    return [*node.input, *inner, *results]


def node_name(node: onnx.NodeProto) -> str:
    """Return a node's name, or that of its first result."""
    return str(node.name or next(filter(None, node.output), node.op_type))
