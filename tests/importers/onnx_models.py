"""ONNX files in shorthand, and what an import makes of them."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from cpsat_pim.importers import import_network
from cpsat_pim.planner.graph import build_graph
from cpsat_pim.workload import ConvWorkload
from cpsat_pim.workload.network import BETWEEN, Network

onnx = pytest.importorskip("onnx", reason="needs the extra: pip install 'cpsat-pim[onnx]'")
from onnx import TensorProto, defs, helper  # noqa: E402 - not before onnx is known to be there

Save = Callable[..., str]


def defined_by_onnx(kind: str, domain: str = "") -> Any:
    """Skip a test where the installed release of ONNX does not know an operator."""
    return pytest.mark.skipif(not defs.has(kind, domain), reason=f"this release of ONNX has no {kind}")


def value(name: str, *dims: int | str | None) -> Any:
    """A float tensor's name and dims."""
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, dims)


def weight(name: str, *dims: int) -> Any:
    """A weight as large as it says, whose data are in a file that is not there."""
    tensor = TensorProto(name=name, data_type=TensorProto.FLOAT, dims=dims, data_location=TensorProto.EXTERNAL)
    tensor.external_data.add(key="location", value="no-such-file.bin")
    return tensor


def integers(name: str, *numbers: int) -> Any:
    """A small constant of which the file has the value."""
    return helper.make_tensor(name, TensorProto.INT64, [len(numbers)], numbers)


def node(kind: str, read: str, name: str, **attributes: Any) -> Any:
    """An operator that writes a tensor of its own name; `read` are names separated by spaces."""
    return helper.make_node(kind, read.split(), [name], name, **attributes)


def save_file(nodes: Sequence[Any], inputs: Sequence[Any], constants: Sequence[Any] = (), **more: Any) -> str:
    """Write `net.onnx` and return its name."""
    opsets = [helper.make_opsetid("", more.pop("opset", 20)), helper.make_opsetid("custom", 1)]
    opsets += [helper.make_opsetid(*own) for own in more.pop("opsets", {}).items()]
    functions = more.pop("functions", [])
    outputs = [helper.make_empty_tensor_value_info(nodes[-1].output[0])]
    graph = helper.make_graph(nodes, "net", inputs, outputs, constants, **more)
    model = helper.make_model(graph, opset_imports=opsets, functions=functions)
    Path("net.onnx").write_bytes(model.SerializeToString())
    return "net.onnx"


def layers(network: Network) -> dict[str, ConvWorkload]:
    """Shapes by name."""
    return {layer.name: layer.workload for layer in network.layers}


def layer(name: str, **bounds: Any) -> dict[str, ConvWorkload]:
    """One entry of `layers`."""
    return {name: ConvWorkload(name=name, **bounds)}


def imported(file: str, **bind: int) -> Network:
    """The network of a file without operators that cannot be mapped."""
    return import_network(file, bind).network


def complaint(file: str, **bind: int) -> str:
    """The message of the ValueError that an import raises, without the file's name; it is one line."""
    with pytest.raises(ValueError, match=r".") as caught:
        import_network(file, bind)
    prefix, _, message = str(caught.value).partition(": ")
    assert prefix == file
    assert "\n" not in message
    return message


def vendor(kind, read, name, **attributes):
    """An operator of onnxruntime; `-` is an input that is left out."""
    names = ["" if name == "-" else name for name in read.split()]
    return helper.make_node(kind, names, [name], name, domain=attributes.pop("domain", "com.microsoft"), **attributes)


def number(name, own):
    """A constant of one element without an axis."""
    return helper.make_tensor(name, TensorProto.INT64, [], [own])


def counted(network):
    """Multiply-accumulates of all trips by layer."""
    return {entry.name: entry.count * entry.workload.macs for entry in network.layers}


def between(network: Network) -> dict[str, dict[str, object]]:
    """What each layer states, without what it does not; the graph of the plan takes it."""
    build_graph(network)
    stated = {node.name: {key: getattr(node, key) for key in BETWEEN} for node in network.layers}
    return {name: {key: own for key, own in keys.items() if own is not None} for name, keys in stated.items()}
