"""ONNX files as files: weights that are missing, order of nodes, damage, published ones."""

from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from cpsat_pim.importers import import_network
from cpsat_pim.workload.network import read_network
from tests.importers.onnx_models import complaint, helper, imported, layer, layers, node, onnx, value, weight


def test_local_functions_are_expanded(save):
    """A function of the file is the operators in it."""
    body = [helper.make_node("MatMul", ["a", "b"], ["c"]), helper.make_node("Relu", ["c"], ["d"])]
    function = helper.make_function("custom", "Dense", ["a", "b"], ["d"], body, [helper.make_opsetid("", 20)])
    nodes = [node("Dense", "x w", "first", domain="custom"), node("MatMul", "first w", "second")]
    network = imported(save(nodes, [value("x", 3, 8)], [weight("w", 8, 8)], functions=[function]))
    assert [entry.workload.macs for entry in network.layers] == [3 * 8 * 8] * 2
    assert network.layers[1].after == (network.layers[0].name,)


def test_function_that_calls_itself_is_one_line(save):
    """It has no end."""
    domains = [helper.make_opsetid("", 20), helper.make_opsetid("custom", 1)]
    body = [helper.make_node("Endless", ["a"], ["b"], domain="custom")]
    function = helper.make_function("custom", "Endless", ["a"], ["b"], body, domains)
    file = save([node("Endless", "x", "y", domain="custom")], [value("x", 3)], functions=[function])
    assert complaint(file).startswith("its functions cannot be expanded: ")


def test_weights_that_only_have_a_type_are_enough(save):
    """A file from which the weights were stripped gives their shapes among its value infos."""
    nodes = [node("Conv", "x w", "conv")]
    file = save(nodes, [value("x", 1, 3, 8, 8)], value_info=[value("w", 4, 3, 3, 3)])
    assert layers(imported(file)) == layer("conv", R=3, S=3, P=6, Q=6, C=3, K=4)
    assert complaint(save(nodes, [value("x", 1, 3, 8, 8)])) == "conv (Conv): reads 'w', which nothing defines"


def test_weights_may_stand_among_the_inputs(save):
    """Older files list every weight as an input, too."""
    file = save([node("MatMul", "x w", "fc")], [value("x", 3, 8), value("w", 8, 4)], [weight("w", 8, 4)])
    assert imported(file).layers[0].weights


def test_nodes_are_taken_in_an_order_that_computes(save):
    """A file that lists a node before what it reads has the same network."""
    nodes = [node("MatMul", "x w", "a"), node("Relu", "a", "b"), node("MatMul", "b w", "c")]
    data = [value("x", 3, 8)], [weight("w", 8, 8)]
    ordered = imported(save(nodes, *data))
    assert imported(save([nodes[2], nodes[0], nodes[1]], *data)) == ordered


def test_cycle_is_named(save):
    """In reading order; a node that reads itself is one, too."""
    x, w = [value("x", 3, 8)], [weight("w", 8, 8)]
    cycle = save([node("Add", "x c", "a"), node("MatMul", "a w", "b"), node("Relu", "b", "c")], x, w)
    cycles = ("a -> b -> c -> a", "b -> c -> a -> b", "c -> a -> b -> c")
    assert complaint(cycle) in {f"the graph has a cycle: {names}" for names in cycles}
    assert complaint(save([node("Add", "x a", "a")], x)) == "the graph has a cycle: a -> a"


def test_tensor_that_two_nodes_write_is_refused(save):
    """It has no one shape."""
    nodes = [helper.make_node("Relu", ["x"], ["y"], "a"), helper.make_node("Relu", ["x"], ["y"], "b")]
    assert complaint(save(nodes, [value("x", 3)])) == "a and b both write 'y'"


def test_file_cut_anywhere_is_no_onnx_file(save):
    """Whatever is missing at its end, no shorter file passes for a network."""
    nodes = [node("Conv", "x w", "conv"), node("Relu", "conv", "relu")]
    whole = Path(save(nodes, [value("x", 1, 3, 8, 8)], [weight("w", 4, 3, 3, 3)])).read_bytes()
    assert imported("net.onnx").total_macs == 36 * 9 * 12
    custom = helper.make_opsetid("custom", 1).ByteSize() + 2  # the last field, of which nothing here makes use
    for length in {*range(len(whole))} - {len(whole) - custom}:
        Path("cut.onnx").write_bytes(whole[:length])
        assert complaint("cut.onnx").startswith("is not an ONNX file, or is truncated")


@pytest.mark.parametrize("content", [b"", b"# a text\n", b"\x00" * 100, b"\xff" * 100])
def test_other_file_is_no_onnx_file(tmp_path, monkeypatch, content):
    """Empty files, texts and noise."""
    monkeypatch.chdir(tmp_path)
    Path("net.onnx").write_bytes(content)
    assert complaint("net.onnx").startswith("is not an ONNX file, or is truncated")


def test_missing_file_and_directory_are_told(tmp_path, monkeypatch):
    """The message is the system's."""
    monkeypatch.chdir(tmp_path)
    Path("dir.onnx").mkdir()
    assert complaint("net.onnx") == "cannot be read: No such file or directory"
    assert complaint("dir.onnx") == "cannot be read: Is a directory"


@pytest.mark.parametrize(
    ("file", "name", "dims"),
    [
        ("light_resnet50", "resnet50", "RSPQCKNG"),
        ("light_inception_v1", "googlenet", "RSCKNG"),  # its poolings round down, so its extents are smaller
    ],
)
def test_published_models_have_the_layers_of_the_packaged_networks(file, name, dims):
    """The layers of the model zoo's files, and how many each comes after, are those written down from the papers."""
    path = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light" / f"{file}.onnx"
    if not path.exists():
        pytest.skip("this onnx comes without its test models")
    ours, packaged = (
        Counter((*(getattr(x.workload, dim) for dim in dims), x.workload.stride, len(x.after)) for x in network.layers)
        for network in (import_network(str(path)).network, read_network(name))
    )
    assert ours == packaged


def test_sizes_in_another_file_are_read(save):
    """All constants may be stored beside the model: a shape of [3, 8] among them, of 24 elements."""
    shape = onnx.TensorProto(name="shape", data_type=onnx.TensorProto.INT64, dims=[2], data_location=1)
    shape.external_data.add(key="location", value="beside.bin")
    Path("beside.bin").write_bytes(np.array([3, 8], np.int64).tobytes())
    nodes = [node("Reshape", "x shape", "rows"), node("MatMul", "rows w", "fc")]
    file = save(nodes, [value("x", 24)], [shape, weight("w", 8, 5)])
    assert layers(imported(file)) == layer("fc", P=3, C=8, K=5)
