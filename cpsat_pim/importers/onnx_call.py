"""What is known about one operator of an ONNX graph: its attributes, and the sizes and values of its inputs."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from attrs import frozen

from cpsat_pim.importers.products import Shape, UnknownShape

#: The domain of the operators that onnxruntime adds to ONNX's own.
VENDOR = "com.microsoft."

#: The domain of its operators on channels in blocks, in files optimised for one kind of processor.
BLOCKED = f"{VENDOR}nchwc."


def domain_of(owner: onnx.NodeProto | onnx.OperatorSetIdProto) -> str:
    """Return the domain of an operator or operator set; ONNX's own has two names."""
    return "" if owner.domain == "ai.onnx" else str(owner.domain)


def kind_of(node: onnx.NodeProto) -> str:
    """Return an operator's type, after its domain unless that is ONNX's own."""
    return ".".join(filter(None, (domain_of(node), node.op_type)))


@frozen(kw_only=True)
class Call:
    """An operator's kind, its attributes, and for each input its sizes, its value, None if unknown, and the type of its
    elements, 0 if unknown.
    """

    kind: str
    given: Mapping[str, Any]
    inputs: Sequence[Shape | None]
    values: Sequence[np.ndarray | None]
    elements: Sequence[int] = ()

    def shape(self, index: int) -> Shape:
        """Return the sizes of an input.

        Raises:
            Unmappable: they are unknown, or there is no such input.
        """
        sizes = self.optional(index)
        if sizes is None:
            raise UnknownShape
        return sizes

    def optional(self, index: int) -> Shape | None:
        """Return the sizes of an input, None if they are unknown or there is no such input."""
        return self.inputs[index] if index < len(self.inputs) else None

    def number(self, index: int) -> int | None:
        """Return the value of an input of one element, None if it is unknown."""
        value = self.values[index] if index < len(self.values) else None
        return int(value.reshape(-1)[0]) if value is not None and value.size == 1 else None
