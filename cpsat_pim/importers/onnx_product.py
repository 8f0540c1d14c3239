"""A node of an ONNX file that is a product, as the rules see it that turn it into layers."""

from collections.abc import Callable

import onnx
from attrs import field, frozen

from cpsat_pim.importers.channel_maps import Map
from cpsat_pim.importers.counted import Operand
from cpsat_pim.importers.onnx_call import Call
from cpsat_pim.importers.onnx_tensors import Tensors, node_name
from cpsat_pim.importers.origin import Parts
from cpsat_pim.importers.products import Shape, transposed


@frozen
class Product:
    """A node that is a product, with what is known of its inputs and the tensors around it."""

    tensors: Tensors
    node: onnx.NodeProto
    call: Call = field(init=False)

    def __attrs_post_init__(self) -> None:
        object.__setattr__(self, "call", self.tensors.shapes.call(self.node))

    @property
    def name(self) -> str:
        """The name of the layer."""
        return node_name(self.node)

    def operand(self, index: int, shape: Shape | None = None) -> Operand:
        """Return an input, if need be with other sizes than it has in the file."""
        name = self.node.input[index]
        own, maps = self.call.shape(index), (self.tensors.maps.get(name), self.tensors.places.get(name))
        ordered = (_ordered(one, own, shape) for one in maps)
        return Operand(own if shape is None else shape, self.tensors.origin(name), *ordered)

    def others(self, *positions: int) -> Parts:
        """Return the parts of all inputs but those at some positions: biases, masks, scales."""
        taken = {self.node.input[index] for index in positions}
        return self.tensors.origins(name for name in self.node.input if name not in taken)


def _ordered(order: Map | None, own: Shape, shape: Shape | None) -> Map | None:
    """Return the map of a tensor that is read with other sizes: none but for a transposed matrix."""
    if order is None or shape is None or own == shape:
        return order
    return order.swapaxes(-1, -2) if transposed(own) == shape else None


#: A rule: adds the layers of a node and returns the parts of its results.
Build = Callable[[Product], Parts]
