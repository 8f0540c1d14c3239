"""Reading networks and shapes: what is read, and the one line that a mistake gets."""

from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import attrs
import pytest

from cpsat_pim.workload import ConvWorkload
from cpsat_pim.workload.joins import Pool, Resize, View
from cpsat_pim.workload.network import Network, NetworkNode, network_names, read_network
from cpsat_pim.workload.network_text import format_network, parse_shape
from cpsat_pim.workload.reorders import Reorder
from tests.conftest import FileWriter

HEAD = "version: 1\nlayers:\n"


@pytest.fixture
def write(file_writer: FileWriter) -> Callable[[str | bytes], str]:
    """Write `net.yaml` in a directory of its own and return its name."""
    return file_writer("net.yaml")


def complaint(name: object) -> str:
    """The message of the ValueError that reading raises; it is one line."""
    with pytest.raises(ValueError, match=r".") as caught:
        read_network(name)
    assert "\n" not in str(caught.value)
    return str(caught.value)


# --- Networks --------------------------------------------------------------------------------------------------------


def test_packaged_networks_are_read_by_name():
    """Each network that the package lists can be read and is called so."""
    assert "resnet50" in network_names()
    assert [read_network(name).name for name in network_names()] == list(network_names())


def test_layer_has_the_shape_graph_and_count_of_the_file(write):
    """Every key arrives where it belongs."""
    text = """
version: 1
name: two
bytes: {input: 2, weight: 1, output: 2, psum: 4}
layers:
- {name: a, R: 3, S: 2, P: 5, Q: 4, C: 6, K: 7, N: 8, G: 9, stride: [2, 1], dilation: [1, 3], after: [input]}
- {name: b, count: 3, weights: false, after: [a, input]}
"""
    network = read_network(write(text))
    widths = {"input_bytes": 2, "weight_bytes": 1, "output_bytes": 2, "psum_bytes": 4}
    a = ConvWorkload(name="a", R=3, S=2, P=5, Q=4, C=6, K=7, N=8, G=9, stride=(2, 1), dilation=(1, 3), **widths)
    assert network == Network(
        name="two",
        layers=[
            NetworkNode(name="a", after=["input"], workload=a),
            NetworkNode(
                name="b", count=3, after=["a", "input"], workload=ConvWorkload(name="b", **widths), weights=False
            ),
        ],
    )


def test_absent_keys_have_defaults(write):
    """The file's stem names the network, layers follow each other, everything else is 1."""
    network = read_network(write(HEAD + "- {name: a}\n- {name: b}\n"))
    assert network.name == "net"
    assert [node.after for node in network.layers] == [("input",), ("a",)]
    assert network.layers[1] == NetworkNode(name="b", after=["a"], workload=ConvWorkload(name="b"))


def test_totals_count_repeated_layers_and_exclude_activations(write):
    """2 x (3*4) of one layer and 5*6 MACs of a product of activations, which has no weights."""
    network = read_network(write(HEAD + "- {name: a, C: 3, K: 4, count: 2}\n- {name: b, C: 5, K: 6, weights: false}\n"))
    assert network.total_macs == 2 * 12 + 30
    assert network.total_weights == 2 * 12


@pytest.mark.parametrize(
    ("layers", "message"),
    [
        ("- {name: a, P: 0}", "3:16: layers[a].P: must be a positive integer (got 0)"),
        ("- {name: a, P: -1}", "3:16: layers[a].P: must be a positive integer (got -1)"),
        ("- {name: a, P: 1.5}", "3:16: layers[a].P: must be a positive integer (got 1.5)"),
        ("- {name: a, P: '5'}", "3:16: layers[a].P: must be a positive integer (got '5')"),
        ("- {name: a, P: 010}", "3:16: layers[a].P: must be a positive integer (got 010)"),
        ("- {name: a, P: 1:30}", "3:16: layers[a].P: must be a positive integer (got 1:30)"),
        ("- {name: a, P: 4 B}", "3:16: layers[a].P: must be a positive integer (got 4 B)"),
        ("- {name: a, P: true}", "3:16: layers[a].P: must be a positive integer (got true)"),
        ("- {name: a, P: [1]}", "3:16: layers[a].P: must be a positive integer (got [1])"),
        ("- {name: a, P: }", "3:15: layers[a].P: must be a positive integer (got nothing)"),
        ("- {name: a, P: 5000000000000000000}", "3:16: layers[a].P: must stay below 2^62 (got 5000000000000000000)"),
        ("- {name: a, count: 0}", "3:20: layers[a].count: must be a positive integer (got 0)"),
        ("- name: a\n  K: 2\n  C: x", "5:6: layers[a].C: must be a positive integer (got x)"),
        (
            "- {name: a, stride: 0}",
            "3:21: layers[a].stride: must be a positive integer, or two (width, height) (got 0)",
        ),
        (
            "- {name: a, dilation: [1, 0]}",
            "3:23: layers[a].dilation: must be a positive integer, or two (width, height) (got [1, 0])",
        ),
        ("- {name: a, weights: no}", "3:22: layers[a].weights: must be true or false (got no)"),
        ("- {name: a, sride: [2, 2]}", "3:13: layers[a].sride: unknown key; did you mean 'stride'?"),
        ("- {name: a, P: 1, P: 2}", "3:19: P: is given twice"),
        ("- {P: 1}", "3:3: layers[0].name: is missing"),
        ("- {name: a}\n- {name: 5}", "4:10: layers[1].name: must be text (got 5)"),
        ("- {name: input}", "3:10: layers[input].name: 'input' is the network's input"),
        ("- {name: a}\n- {name: a}", "4:10: layers[1].name: there is a layer of this name already"),
        ("- {name: a, after: [b]}\n- {name: b}", "3:20: layers[a].after: no earlier layer is named 'b'"),
        ("- {name: a, after: [a]}", "3:20: layers[a].after: no earlier layer is named 'a'"),
        (
            "- {name: conv1}\n- {name: b, after: [conv2]}",
            "4:20: layers[b].after: no earlier layer is named 'conv2'; did you mean 'conv1'?",
        ),
        (
            "- {name: a, after: input}",
            "3:20: layers[a].after: must be a list of layer names or [input] (got input)",
        ),
        ("- {name: a, after: [1]}", "3:20: layers[a].after: must be a list of layer names or [input] (got [1])"),
        (
            "- {name: a, C: 3000000000, K: 3000000000}",
            "3:3: layers[a]: the product of the bounds must stay below 2^62 (got 9000000000000000000)",
        ),
        (
            "- {name: a, P: 3000000000, stride: [3000000000, 1]}",
            "3:3: layers[a]: the bytes of I must stay below 2^62 (got 8999999997000000001)",
        ),
    ],
)
def test_mistake_in_a_layer_names_place_layer_and_key(write, layers, message):
    """Line and column are those of the value, the layer is called by its name or its index."""
    assert complaint(write(HEAD + layers)) == f"net.yaml:{message}"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", " is empty"),
        ("# nothing\n", " is empty"),
        ("just text", "1:1: must be a mapping of fields (got just text)"),
        ("layers: [{name: a}]", "1:1: version: is missing"),
        ("version: 2\nlayers: [{name: a}]", "1:10: version: must be 1 (got 2)"),
        ("version: 1", "1:1: layers: is missing"),
        ("version: 1\nlayers: []", "2:9: layers: must be a list of at least one layer (got [])"),
        ("version: 1\nlayers: {a: 1}", "2:9: layers: must be a list of at least one layer (got a mapping)"),
        ("version: 1\nname: 3\nlayers: [{name: a}]", "2:7: name: must be text (got 3)"),
        ("version: 1\nbytes: 2\nlayers: [{name: a}]", "2:8: bytes: must be a mapping of fields (got 2)"),
        (
            "version: 1\nbytes: {psum: 0}\nlayers: [{name: a}]",
            "2:15: bytes.psum: must be a positive number of bytes, of whole bits (got 0)",
        ),
        (
            "version: 1\nbytes: {output: 16 bit}\nlayers: [{name: a}]",
            "3:10: layers[a]: psum_bytes: must be at least output_bytes (2) (got 1)",
        ),
        ("version: 1\nlayers: [\n", "3:1: is not YAML: expected the node content, but found '<stream end>'"),
        ("a: 1\n---\nb: 1\n", "2:1: is not YAML: but found another document"),
        ("x: " + "[" * 5000 + "]" * 5000, " is nested too deeply"),
        (b"\xff\xfe\x00\x01", " is not a YAML text file"),
        (b"\x00\x01\x02", " is not a YAML text file"),
    ],
)
def test_mistake_in_a_file_is_one_line(write, text, message):
    """Whatever the file contains, the message names the file and the mistake."""
    assert complaint(write(text)) == f"net.yaml:{message}"


def test_mistakes_of_layers_of_one_name_are_told_where_they_are(write):
    """Of a formula, which is read later than other values, too; an item that is no layer has no name to complain of."""
    with pytest.raises(ValueError, match=r".") as caught:
        read_network(write("version: 1\nname: n\nlayers:\n- {name: a, K: x}\n- {name: a, K: 2}\n- no\n- {K: y}\n"))
    assert [line.partition(".yaml:")[2] for line in str(caught.value).splitlines()] == [
        "4:16: layers[a].K: must be a positive integer (got x)",
        "5:10: layers[1].name: there is a layer of this name already",
        "6:3: layers[2]: must be a mapping of fields (got no)",
        "7:3: layers[3].name: is missing",
        "7:7: layers[3].K: must be a positive integer (got y)",
    ]


def test_all_mistakes_of_a_file_are_told_at_once(write):
    """In the order of the file: a layer that is wrong does not hide that a later one comes after nothing."""
    text = HEAD + "- {name: a, P: 0, X: 1}\n- {name: b, after: [c]}\n- {name: d, after: [a], N: many}\n"
    with pytest.raises(ValueError, match=r".") as caught:
        read_network(write(text))
    assert str(caught.value).splitlines() == [
        "net.yaml:3:16: layers[a].P: must be a positive integer (got 0)",
        "net.yaml:3:19: layers[a].X: unknown key; there are name, R, S, P, Q, C, K, N, G, stride, dilation, count, "
        "weights, join, pad, pool, input_pool, views, adds, input_adds, shared_heads, weight_rows, channels, "
        "weight_channels, ...",
        "net.yaml:4:20: layers[b].after: no earlier layer is named 'c'",
        "net.yaml:5:28: layers[d].N: must be a positive integer (got many)",
    ]


def test_file_that_extends_a_network_changes_the_layers_that_it_names(write):
    """Batch 8 for one layer, two bytes for all; the rest is the preset's."""
    base = read_network("alexnet")
    network = read_network(write("version: 1\nextends: alexnet\nbytes: {input: 2, weight: 2}\nlayers: {fc6: {N: 8}}\n"))
    assert network.name == "net"
    assert [node.name for node in network.layers] == [node.name for node in base.layers]
    for node, old in zip(network.layers, base.layers, strict=True):
        own = {"N": 8} if node.name == "fc6" else {}
        assert node.workload == attrs.evolve(old.workload, input_bytes=2, weight_bytes=2, **own)


def test_file_that_cannot_be_read_is_one_line(write, tmp_path):
    """A missing file and a directory."""
    (tmp_path / "dir.yaml").mkdir()
    write("")
    assert complaint("none.yaml") == "none.yaml: cannot be read: No such file or directory"
    assert complaint(Path("dir.yaml")) == "dir.yaml: cannot be read: Is a directory"


def test_unknown_name_is_met_with_the_nearest():
    """A slip gets a suggestion, anything else the list."""
    assert "did you mean 'resnet50'?" in complaint("resnet5")
    assert "there are alexnet, bert-base, " in complaint("xyz")


@pytest.mark.parametrize(
    ("layers", "message"),
    [
        ([], "Network.layers: must have at least one layer (got none)"),
        (["a", "a"], "Network.layers: a: name: there is a layer of this name already"),
    ],
)
def test_networks_built_in_code_obey_the_same_rules(layers, message):
    """A network is checked on construction, not only when read."""
    nodes = [NetworkNode(name=name, workload=ConvWorkload()) for name in layers]
    with pytest.raises(ValueError, match=r".") as caught:
        Network(name="n", layers=nodes)
    assert str(caught.value) == message


@pytest.mark.parametrize("field", [{"count": 0}, {"weights": 1}, {"name": ""}, {"workload": None}])
def test_nodes_are_checked_on_construction(field):
    """The message names the field."""
    with pytest.raises(ValueError, match=rf"NetworkNode\.{next(iter(field))}: must be "):
        NetworkNode(**{"name": "a", "workload": ConvWorkload()} | field)


# --- Shapes ----------------------------------------------------------------------------------------------------------


def test_shape_is_read_from_text():
    """Bounds, one stride for both axes, a dilation each for width and height; spaces do no harm."""
    assert parse_shape("R=3,S=3,P=56,Q=28,C=64,K=128,N=2,G=4,stride=2,dilation=1x2") == ConvWorkload(
        R=3, S=3, P=56, Q=28, C=64, K=128, N=2, G=4, stride=(2, 2), dilation=(1, 2)
    )
    assert parse_shape(" C = 4 , K=2,stride=2x1") == ConvWorkload(C=4, K=2, stride=(2, 1))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "shape: must be key=value, separated by commas (got '')"),
        ("R=3,,S=3", "shape: must be key=value, separated by commas (got '')"),
        ("resnet50", "shape: must be key=value, separated by commas (got 'resnet50')"),
        ("R=", "shape: R must be a positive integer (got '')"),
        ("R=0", "shape: R must be a positive integer (got '0')"),
        ("R=-1", "shape: R must be a positive integer (got '-1')"),
        ("R=1.5", "shape: R must be a positive integer (got '1.5')"),
        ("R=1e3", "shape: R must be a positive integer (got '1e3')"),
        ("R=" + 20 * "9", f"shape: R must have 19 digits at most (got '{20 * '9'}')"),
        ("R=1,R=1", "shape: R is given twice"),
        ("X=1", "shape: unknown key 'X'; there are R, S, P, Q, C, K, N, G, stride, dilation"),
        ("strid=1", "shape: unknown key 'strid'; did you mean 'stride'?"),
        ("stride=2x", "shape: stride must be a positive integer or two, width x height, like 2x1 (got '2x')"),
        ("stride=1x1x1", "shape: stride must be a positive integer or two, width x height, like 2x1 (got '1x1x1')"),
        ("stride=0x1", "shape: stride must be a positive integer or two, width x height, like 2x1 (got '0x1')"),
    ],
)
def test_mistake_in_a_shape_is_one_line(text, message):
    """The key and the value are named."""
    with pytest.raises(ValueError, match=r".") as caught:
        parse_shape(text)
    assert str(caught.value) == message


# --- Writing ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", network_names())
def test_written_network_is_read_as_itself(write, name):
    """Every packaged network."""
    network = read_network(name)
    assert read_network(write(format_network(network, "a comment"))) == network


def test_views_of_tensors_are_written_and_read(write):
    """A tensor that is pooled, and one that is resized, before they are concatenated."""
    text = HEAD + (
        "- {name: a, P: 2, after: [input]}\n- {name: b, P: 8, after: [input]}\n"
        "- {name: c, P: 4, C: 2, after: [a, b], join: concat, views: {a: {resize: {size: [4, 1], kind: linear}}, "
        "b: {pool: {window: 2, stride: 2, size: [4, 1]}}}}"
    )
    network = read_network(write(text))
    assert network.layers[2].views == {
        "a": View(resize=Resize(size=(4, 1), kind="linear")),
        "b": View(pool=Pool(window=2, stride=2, size=(4, 1))),
    }
    assert read_network(write(format_network(network))).layers == network.layers


def test_tensors_that_a_reader_adds_are_written_and_read(write):
    """Some channels of one to its input, and one with rows as channels to its output."""
    text = HEAD + (
        "- {name: a, P: 2, K: 3, after: [input]}\n- {name: b, P: 2, C: 2, K: 2, after: [input], "
        "input_adds: {a: {channels: [[1, 3]]}}, adds: {input: {reorder: {C: [[W, 2, 1]], W: [[C, 2, 1]]}}}}"
    )
    network = read_network(write(text))
    assert network.layers[1].input_adds == {"a": View(channels=[(1, 3)])}
    assert network.layers[1].adds == {"input": View(reorder=Reorder(C=[("W", 2, 1)], W=[("C", 2, 1)]))}
    assert read_network(write(format_network(network))).layers == network.layers


def test_views_of_a_tensor_that_is_listed_twice_are_written_and_read(write):
    """As it is, and pooled."""
    text = HEAD + (
        "- {name: a, P: 4, after: [input]}\n- {name: b, P: 4, C: 2, after: [a, a], join: concat, "
        "views: {a: [{}, {pool: {window: [3, 1], pad: [1, 0], size: [4, 1]}}]}}"
    )
    network = read_network(write(text))
    assert network.layers[1].views == {"a": (View(), View(pool=Pool(window=(3, 1), pad=(1, 0), size=(4, 1))))}
    assert read_network(write(format_network(network))).layers == network.layers


def test_view_that_says_several_things_is_refused(write):
    """It pools, resizes or reorders."""
    text = HEAD + "- {name: a, views: {input: {pool: {window: 2, size: 2}, resize: {size: 2}}}}"
    with pytest.raises(
        ValueError, match=r"net\.yaml:.*views\[input\]: must have at most one of pool, resize and reorder"
    ):
        read_network(write(text))


@pytest.mark.parametrize(
    "name", ["1", "0.0.0", "1e5", "true", "~", "a: b", "#x", "ä", "- x", "'", '"', "x\u2028y", "\x07", "[a]", "a" * 300]
)
def test_written_names_are_read_as_they_were(write, name):
    """Numbers, YAML's words and its signs are quoted; a comment is kept to a line of printable characters."""
    layer = ConvWorkload(name=name, R=3, stride=(2, 1), dilation=(1, 2), input_bytes=2, output_bytes=2, psum_bytes=4)
    node = NetworkNode(name=name, count=2, after=["input"], workload=layer, weights=False)
    network = Network(name=name, layers=[node])
    assert read_network(write(format_network(network, name + "\nversion: 2"))) == network


def test_writing_layers_of_several_widths_is_refused():
    """A file has one `bytes` for all."""
    layers = [ConvWorkload(name="a"), ConvWorkload(name="b", weight_bytes=2)]
    network = Network(name="x", layers=[NetworkNode(name=layer.name, workload=layer) for layer in layers])
    with pytest.raises(ValueError, match=r"^x: the layers must have the same bytes per element$"):
        format_network(network)


def test_a_layer_may_have_widths_of_its_own(write: Callable[[str | bytes], str]) -> None:
    """Some tensors' bytes, also of fewer than 8 bits; the file that is written reads back as the same network."""
    text = """version: 1
bytes: {input: 2, weight: 2, output: 2, psum: 4}
layers:
- {name: a, C: 128, K: 64, bytes: {weight: 4 bit}}
- {name: b, C: 64, K: 8, bytes: {input: 0.5, psum: 8}}
- {name: c}
"""
    network = read_network(write(text))
    half = Fraction(1, 2)
    widths = [node.workload.width_bytes for node in network.layers]
    assert widths == [(2, half, 2, 4), (half, 2, 2, 8), (2, 2, 2, 4)]
    assert read_network(write(format_network(network))).layers == network.layers


@pytest.mark.parametrize("width", ["0.3", "3.5 bit", "-1", "0"])
def test_widths_are_whole_bits(width: str, write: Callable[[str | bytes], str]) -> None:
    """What is no number of bits is one line."""
    text = f"version: 1\nlayers:\n- {{name: a, bytes: {{weight: {width}}}}}\n"
    with pytest.raises(
        ValueError, match=r"3:29: layers\[a\]\.bytes\.weight: must be a positive number of bytes, of whole"
    ):
        read_network(write(text))


def test_one_number_stands_for_a_pair_everywhere(write: Callable[[str | bytes], str]) -> None:
    """Strides, dilations, pads and windows, of layers and of pools."""
    single = "{name: a, P: 4, stride: 2, dilation: 3, pad: 1, pool: {window: 3, stride: 2, pad: 1, size: 2}}"
    both = "{name: a, P: 4, stride: [2, 2], dilation: [3, 3], pad: [1, 1], " + (
        "pool: {window: [3, 3], stride: [2, 2], pad: [1, 1], size: [2, 2]}}"
    )
    first, second = (read_network(write(f"version: 1\nlayers: [{layer}]\n")) for layer in (single, both))
    assert first == second
