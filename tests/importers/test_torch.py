"""PyTorch models: modules of a user's function and exported programs, against the packaged networks and counters."""

import json
import warnings
import zipfile
from fractions import Fraction
from pathlib import Path

import pytest

from cpsat_pim.cli.program import main
from cpsat_pim.importers import import_network
from cpsat_pim.planner.graph import build_graph
from cpsat_pim.workload import ConvWorkload
from cpsat_pim.workload.joins import Pool, Resize, View
from cpsat_pim.workload.network import Network, read_network

torch = pytest.importorskip("torch", reason="needs the extra: pip install 'cpsat-pim[torch]'")

MODELS = "torch_models"


@pytest.fixture(autouse=True)
def in_this_directory(monkeypatch: pytest.MonkeyPatch) -> None:
    """A user's module is looked for in the working directory; the tests import it from there, too."""
    monkeypatch.chdir(Path(__file__).parent)
    monkeypatch.syspath_prepend(Path(__file__).parent)


def imported(function: str, **bind: int) -> Network:
    """The network of a function of the models beside this file."""
    return import_network(f"{MODELS}:{function}", bind).network


def complaint(model: str, **bind: int) -> str:
    """The message of the ValueError that an import raises, without the model's name; it is one line."""
    with pytest.raises(ValueError, match=r".") as caught:
        import_network(model, bind)
    assert str(caught.value).startswith(f"{model}: ")
    assert "\n" not in str(caught.value)
    return str(caught.value).removeprefix(f"{model}: ")


def layers(network: Network) -> dict[str, ConvWorkload]:
    """Shapes by name."""
    return {layer.name: layer.workload for layer in network.layers}


def layer(name: str, **bounds: object) -> dict[str, ConvWorkload]:
    """One entry of `layers`."""
    return {name: ConvWorkload(name=name, **bounds)}


def counted_macs(function: str, **arguments: int) -> int:
    """Half of the operations that PyTorch's own counter finds while it runs the model."""
    import torch_models
    from torch.nn.attention import SDPBackend, sdpa_kernel
    from torch.utils.flop_counter import FlopCounterMode

    with torch.device("meta"):
        module, inputs = getattr(torch_models, function)(**arguments)
    with FlopCounterMode(display=False) as counter, sdpa_kernel(SDPBackend.MATH), torch.no_grad():
        module.eval()(*(inputs if isinstance(inputs, tuple) else (inputs,)))
    return int(counter.get_total_flops()) // 2


@pytest.fixture
def save_program(tmp_path: Path) -> object:
    """Export a module, here with its data, to a file."""

    def save(module: object, inputs: tuple[object, ...], **dims: object) -> str:
        path = str(tmp_path / "net.pt2")
        with warnings.catch_warnings(action="ignore"):
            torch.export.save(torch.export.export(module, inputs, **dims), path)
        return path

    return save


# --- Shapes and graph ------------------------------------------------------------------------------------------------


def test_residual_block_has_its_shapes_and_its_graph():
    """The 3x3 convolution and the projection halve 56x56; what is written in place is a sum like any other."""
    network = imported("block")
    assert layers(network) == {
        **layer("conv1", P=56, Q=56, C=256, K=128),
        **layer("conv2", R=3, S=3, P=28, Q=28, C=128, K=128, stride=(2, 2)),
        **layer("conv3", P=28, Q=28, C=128, K=512),
        **layer("downsample", P=28, Q=28, C=256, K=512, stride=(2, 2)),
    }
    assert [x.after for x in network.layers] == [("input",), ("conv1",), ("conv2",), ("input",)]
    assert network.name == "block"
    assert network.total_macs == counted_macs("block")


def test_resnet50_is_the_packaged_network():
    """All 54 layers: names, shapes, and how each reads what it comes after, are those written down from the paper."""
    network, packaged = imported("resnet50"), read_network("resnet50")
    assert network.layers == packaged.layers
    assert network.input == packaged.input


@pytest.mark.parametrize("fused", [0, 1])
def test_bert_layer_is_the_packaged_networks(fused):
    """With attention in one operator or written out: the first layer of the packaged network but for two names."""
    network = imported("bert", length=128, fused=fused)
    packaged = read_network("bert-base").layers[:8]
    names = dict(zip((x.name for x in network.layers), (x.name for x in packaged), strict=True)) | {"input": "input"}
    products = ["scores", "context"] if fused else ["matmul", "matmul_2"]
    assert list(names)[3:5] == ([f"scaled_dot_product_attention.{x}" for x in products] if fused else products)
    assert [n for n in names if n not in (*list(names)[3:5], "input")] == [
        *("query", "key", "value", "attention_output", "intermediate", "output")
    ]
    for ours, theirs in zip(network.layers, packaged, strict=True):
        assert ours.workload.shape == theirs.workload.shape
        assert tuple(names[x] for x in ours.after) == theirs.after
        assert (ours.weights, ours.join) == (theirs.weights, theirs.join)


def test_attention_tells_which_dim_runs_along_the_rows_of_a_square_operand():
    """With as many tokens as channels a head, keys and values fit either way; rows of keys are K, those of values C."""
    assert [node.weight_rows for node in imported("bert", length=64, fused=1).layers[3:5]] == ["K", "C"]


@pytest.mark.parametrize(
    ("function", "arguments"), [("bert", {"length": 7, "batch": 3}), ("bert", {"length": 5, "fused": 1})]
)
def test_macs_are_those_that_pytorch_counts(function, arguments):
    """At awkward sizes, too."""
    assert imported(function, **arguments).total_macs == counted_macs(function, **arguments)


def test_assorted_operators_have_their_shapes_and_their_graph():
    """What passes through a buffer is followed, products of constants are none, a left constant is the weights."""
    network = imported("assorted")
    assert layers(network) == {
        **layer("grouped", R=3, P=11, C=2, K=4, N=2, G=4, stride=(2, 1), dilation=(2, 1)),
        **layer("up.phase0", R=2, P=11, C=16, K=8, N=2),
        **layer("up.phase1", R=2, P=11, C=16, K=8, N=2),
        **layer("mix", P=22, C=8, K=6, N=2),
        **layer("einsum", P=22, C=6, K=22, G=2),
        **layer("mv", P=22, C=22),
    }
    phases = ("up.phase0", "up.phase1")
    read = [("input",), ("grouped",), ("grouped",), phases, ("mix", "mix"), ("einsum", "einsum")]
    assert [x.after for x in network.layers] == read
    assert [x.weights for x in network.layers] == [True] * 4 + [False] * 2


# --- Programs --------------------------------------------------------------------------------------------------------


def test_exported_program_is_the_network_of_its_module(save_program):
    """Exported here or there is the same."""
    import torch_models

    file = save_program(torch_models.BertLayer(24, 2, False).eval(), (torch.randn(3, 5, 24),))
    network = import_network(file).network
    assert network.name == "net"
    assert layers(network) == {
        **{
            key: value for name in ("query", "key", "value") for key, value in layer(name, P=5, C=24, K=24, N=3).items()
        },
        **layer("matmul", P=5, C=12, K=5, G=6),
        **layer("matmul_2", P=5, C=5, K=12, G=6),
        **layer("attention_output", P=5, C=24, K=24, N=3),
        **layer("intermediate", P=5, C=24, K=96, N=3),
        **layer("output", P=5, C=96, K=24, N=3),
    }


def test_open_dims_of_a_program_are_bound_by_axis_or_symbol(save_program):
    """A batch that was exported as dynamic; what the program computes from it follows."""
    import torch_models

    module, batch = torch_models.BertLayer(24, 2, False).eval(), torch.export.Dim("batch")
    file = save_program(module, (torch.randn(3, 5, 24),), dynamic_shapes=({0: batch},))
    assert complaint(file) == "has open dims, bind them: --bind x.0=..."
    message = complaint(file, y=1)
    symbol = message.rpartition(" ")[2]
    assert message == f"no open dim is named 'y', there are x.0 or {symbol}"
    network = import_network(file, {"x.0": 7}).network
    assert layers(network)["matmul"] == ConvWorkload(name="matmul", P=5, C=12, K=5, G=14)
    assert import_network(file, {symbol: 7}).network == network


# --- Mistakes --------------------------------------------------------------------------------------------------------


def test_operator_that_cannot_be_mapped_is_named_or_skipped():
    """The inverse of a matrix; the layer behind it has its shape."""
    model = f"{MODELS}:inverse"
    assert complaint(model).startswith("cannot map 1 linalg_inv_ex: linalg_inv_ex")
    result = import_network(model, skip_unsupported=True)
    assert layers(result.network) == layer("fc", P=3, C=3, K=2, N=5)
    assert result.summary == ["1 linalg_inv_ex: linalg_inv_ex"]


@pytest.mark.parametrize(
    ("function", "macs"),
    [
        ("bilinear", [5 * 3 * 4 * 8, 5 * 4 * 8]),  # each row of 3 to 4 x 8, then 4 terms for each of 8 outputs
        ("added_products", [3 * 4 * 5 * 6]),
        ("four_bits", [6 * 64 * 32]),
        ("eight_bits", [6 * 64 * 32]),
        ("integers", [6 * 64 * 32]),
        ("single_attention", [3 * 4 * 7, 3 * 7 * 4]),
        ("quantised_while_training", [6 * 8 * 4]),
        ("computed_sizes", [6 * 8 * 16, 6 * 16 * 24]),
        ("half_terms", [6 * 8]),
        ("pooled_activations", [9 * 6 * 4 * 9]),  # the convolution alone
        ("scanned", [5 * 6 * 8 * 8]),
    ],
)
def test_products_in_operators_of_their_own_are_layers(function, macs):
    """Multiply-accumulates in execution order, counted by hand."""
    network = imported(function)
    assert [entry.count * entry.workload.macs for entry in network.layers] == macs


@pytest.mark.parametrize(
    ("given", "kind"),
    [({}, "nearest"), ({"mode": "bilinear"}, "linear"), ({"mode": "bilinear", "corners": True}, "corners")],
)
def test_tensor_that_is_up_sampled_is_a_view_of_its_reader(given, kind):
    """Beside the tensor that it was made of, which another layer reads pooled; a plan takes both."""
    network = imported("pyramid", **given)
    skip, deep, both = network.layers
    half = Pool(window=(2, 2), stride=(2, 2), size=(4, 4))
    assert (skip.pool, deep.input_pool) == (None, half)
    assert (both.join, both.views) == ("concat", {"deep": View(resize=Resize(size=(8, 9), kind=kind))})
    build_graph(network)


@pytest.mark.parametrize("way", ["shared", "repeated", "products"])
def test_query_heads_share_keys_and_values_also_where_these_are_repeated(way):
    """Two groups of two heads, whose channels lie side by side in what they read and make; a plan takes them."""
    network = imported("grouped_queries", way=way)
    _, _, _, scores, context, _ = network.layers
    shape = {"P": 5, "N": 2, "G": 2}
    assert [one.workload.shape for one in (scores, context)] == [
        ConvWorkload(C=3, K=5, **shape).shape,
        ConvWorkload(C=5, K=3, **shape).shape,
    ]
    assert (scores.shared_heads, context.shared_heads) == (True, True)
    assert build_graph(network).stacks[context.name].shape == (1, 12, 1, 5)


@pytest.mark.parametrize("other", [False, True])
def test_branches_with_the_same_layers_are_one_of_them(other):
    """Of two layers of equal shape, or one layer in both branches, one is taken; a branch without layers is none."""
    network = imported("chosen", other=other, wide=8)
    first, last = network.layers
    assert layers(network) == layer(first.name, P=6, C=8, K=8) | layer("last", P=6, C=8, K=4)
    assert (first.after, last.after) == (("input",), (first.name,))


def test_branches_with_different_layers_are_refused():
    """The second has 16 outputs, the first 8. What is skipped adds no layer."""
    name = f"{MODELS}:chosen"
    assert "1 cond (its branches differ, and which one is taken is not known): cond" in complaint(
        name, other=1, wide=16
    )
    result = import_network(name, {"other": 1, "wide": 16}, skip_unsupported=True)
    assert layers(result.network) == layer("last", P=6, C=8, K=4)


def test_loop_is_followed_unless_it_has_a_layer():
    """How often it runs depends on the data."""
    assert layers(imported("looped", multiplies=0)) == layer("last", P=6, C=8, K=4)
    message = complaint(f"{MODELS}:looped", multiplies=1)
    assert "1 while_loop (the number of its trips is not known): while_loop" in message


@pytest.mark.parametrize("trips", [0, 1, 12])
def test_loop_of_a_program_runs_as_often_as_it_is_bound_to(save_program, trips):
    """Its layer counts so often, the one behind it once; it reads what the last trip made."""
    import torch_models

    path = save_program(*torch_models.looped(True))
    found = import_network(path, {"while_loop": trips}).network
    expected = {**(layer("first", P=6, C=8, K=8) if trips else {}), **layer("last", P=6, C=8, K=4)}
    assert layers(found) == expected
    assert [one.count for one in found.layers] == ([trips] if trips else []) + [1]
    assert found.layers[-1].after == (("first",) if trips else ("input",))
    assert complaint(path, while_loop=-1) == "while_loop: its trips must not be negative (got -1)"
    assert "the number of its trips is not known" in complaint(path)


def test_weights_of_four_bits_keep_their_width():
    """Half a byte each."""
    assert imported("four_bits").layers[0].bytes == {"weight": Fraction(1, 2)}


def test_recurrent_layers_are_an_input_and_a_recurrent_part():
    """Each layer's products with all steps' inputs at once, and one with the state per step and direction.

    The LSTM has 4 gates of 8 units; its state is projected from 8 to 5, by one more product a step. Each GRU layer has
    3 gates of 4 units; the second reads both directions of the first.
    """
    network = imported("stacked", batch=2, steps=7)
    counts = {node.name: node.count for node in network.layers}
    assert layers(network) == {
        **layer("lstm.input", P=14, C=6, K=32),
        **layer("lstm.recurrent", P=2, C=5, K=32),
        **layer("lstm.projection", P=2, C=8, K=5),
        **layer("gru.l0.input", P=14, C=5, K=12),
        **layer("gru.l0.recurrent", P=2, C=4, K=12),
        **layer("gru.l1.input", P=14, C=8, K=12),
        **layer("gru.l1.recurrent", P=2, C=4, K=12),
    }
    assert list(counts.values()) == [1, 7, 7, 2, 14, 2, 14]


def test_sum_of_a_product_is_a_layer_and_a_sum_of_squares_is_none():
    """Three rows of 8 channels times 8 x 5 weights, and three products of rows; `2 * x` and `x * x` are no products."""
    expected = layer("sum", P=3, C=8, K=5) | layer("mean", C=8, G=3)
    assert layers(imported("products")) == expected


def test_tensor_made_in_forward_is_where_the_parameters_are():
    """The product of the zero state is one of constants, which is computed beforehand: 3 of 4 steps remain."""
    assert imported("state_in_forward", steps=4).total_macs == 3 * 3 * 6 * 6


def test_input_may_be_made_when_its_module_is_imported():
    """It lies in memory then, and the parameters do not."""
    assert imported("sample_of_module").total_macs == 2 * 8 * 4


@pytest.mark.parametrize("function", ["named", "partly_named"])
def test_inputs_may_be_named(function):
    """A dict, alone or behind a tuple."""
    assert layers(imported(function)) == layer("lin", P=2, C=8, K=4)


@pytest.mark.parametrize(
    ("function", "bind", "message"),
    [
        ("nothing", {}, "must return a torch.nn.Module and its inputs: a tuple, a dict by name, or both"),
        ("failing", {}, r"failed: KeyError: 'first\nsecond'"),
        ("not_callable", {}, "is not a function"),
        ("ending", {}, "failed: SystemExit: usage: train"),
        ("absent", {}, "cannot be imported: AttributeError: module 'torch_models' has no attribute 'absent'"),
        ("bert", {}, "--bind must give the function's arguments: missing a required argument: 'length'"),
        (
            "block",
            {"batch": 1},
            "--bind must give the function's arguments: got an unexpected keyword argument 'batch'",
        ),
    ],
)
def test_mistake_in_a_function_is_one_line(function, bind, message):
    """What the user's code raises is named; nothing is logged beside it."""
    assert complaint(f"{MODELS}:{function}", **bind) == message


def test_sizes_that_depend_on_the_data_matter_to_layers_only():
    """What is chosen is only added up."""
    assert layers(imported("chosen_terms")) == layer("fc", P=6, C=8, K=4)


def test_module_that_cannot_be_exported_is_one_line(capfd):
    """PyTorch's pages of advice are cut to their first line."""
    assert complaint(f"{MODELS}:branching").startswith("cannot be exported: ")
    assert capfd.readouterr().err == ""


def test_module_that_cannot_be_imported_is_one_line():
    """A misspelt module."""
    assert complaint("no_such_module:f") == "cannot be imported: ModuleNotFoundError: No module named 'no_such_module'"


@pytest.mark.parametrize("content", [b"", b"# a text\n", b"PK\x03\x04" + b"\x00" * 50])
def test_other_file_is_no_program(tmp_path, content, capfd):
    """Empty files, texts, and what begins like a ZIP archive; PyTorch's own log stays silent."""
    path = tmp_path / "net.pt2"
    path.write_bytes(content)
    assert complaint(str(path)).startswith("is not a program that torch.export saved, or is damaged: ")
    assert capfd.readouterr().err == ""
    assert complaint(str(tmp_path / "none.pt2")) == "cannot be read: No such file or directory"


def test_file_of_another_way_to_save_is_told_so(tmp_path):
    """Parameters alone, and a script."""
    state, script = tmp_path / "state.pt2", tmp_path / "script.pt2"
    module = torch.nn.Linear(4, 3)
    torch.save(module.state_dict(), state)
    with warnings.catch_warnings(action="ignore"):
        torch.jit.save(torch.jit.script(module), script)
    for path in (state, script):
        assert complaint(str(path)).startswith("holds no program; expected a file of torch.export.save")


def test_program_of_another_release_is_told_without_pytorchs_log(save_program, tmp_path):
    """A version of the format that does not exist; PyTorch points to warnings that nobody sees."""
    path, other = save_program(torch.nn.Linear(4, 3), (torch.randn(1, 4),)), tmp_path / "other.pt2"
    with zipfile.ZipFile(path) as archive, zipfile.ZipFile(other, "w") as changed:
        for name in archive.namelist():
            text = archive.read(name)
            if name.endswith("models/model.json"):
                text = json.dumps({**json.loads(text), "schema_version": {"major": 99, "minor": 0}}).encode()
            changed.writestr(name, text)
    assert complaint(str(other)).endswith("cannot read its program; expected one that this release saved, whole")


def test_example_of_the_docs_prints_what_it_says(tmp_path, monkeypatch, capsys):
    """The first code block of docs/models.md, and the network file behind it."""
    text = (Path(__file__).parents[2] / "docs" / "models.md").read_text(encoding="utf-8")
    code, printed = (text.split(f"```{language}\n", 1)[1].split("```", 1)[0] for language in ("python", "yaml"))
    (tmp_path / "mynet.py").write_text(code, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    assert main(["import", "mynet:build", "--bind", "batch=4"]) == 0
    assert capsys.readouterr().out == printed


def test_split_and_shuffled_channels_are_those_of_their_layers():
    """Thirds of one product, head by head; the second half of two interleaved branches, and the first half later."""
    found = {one.name: one for one in imported("reordered").layers}
    scores, context = (one for one in found.values() if not one.weights)
    assert (scores.after, scores.channels, scores.weight_channels) == (("qkv", "qkv"), ((0, 8),), ((8, 16),))
    assert (context.channels, context.weight_channels) == (None, ((16, 24),))
    assert found["c"].channels == ((2, 4), (6, 8))
    assert found["d"].channels == ((0, 2), (4, 6), (8, 12))
    assert found["out"].channels is None


def test_fourier_transforms_are_products_with_their_matrix():
    """Of two samples of 6 x 8: complex along 8, 12 rows of 16 parts; along 6, 16 rows of 12; of the real transform, 5
    complex numbers of 8 real ones are left, so along 6 there are 10 rows; and the same on the way back.
    """
    found = [(one.workload.P, one.workload.C, one.workload.K) for one in imported("fourier").layers]
    assert found == [(12, 16, 16), (16, 12, 12), (12, 8, 10), (10, 12, 12), (10, 12, 12), (12, 10, 8)]
