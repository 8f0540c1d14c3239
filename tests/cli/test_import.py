"""`import`, and `run` on a model: the files, the messages, and mistakes."""

import subprocess
import sys
from pathlib import Path

import pytest

from cpsat_pim.cli import main
from cpsat_pim.workload.network import read_network

onnx = pytest.importorskip("onnx", reason="needs the extra: pip install 'cpsat-pim[onnx]'")
from onnx import TensorProto, helper  # noqa: E402 - not before onnx is known to be there


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A file in the working directory: a product of `batch` rows, a matrix's determinant, a second product."""
    monkeypatch.chdir(tmp_path)
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["a"], "first"),
        helper.make_node("Det", ["m"], ["d"], "det"),
        helper.make_node("Mul", ["a", "d"], ["b"], "scale"),
        helper.make_node("MatMul", ["b", "w"], ["c"], "second"),
    ]
    inputs = [
        helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 4]),
        helper.make_tensor_value_info("m", TensorProto.FLOAT, [2, 2]),
    ]
    weights = [TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[4, 4])]
    graph = helper.make_graph(nodes, "net", inputs, [helper.make_empty_tensor_value_info("c")], weights)
    Path("net.onnx").write_bytes(helper.make_model(graph).SerializeToString())
    return "net.onnx"


BOUND = ("--bind", "batch=3", "--unsupported", "skip")

DET = "1 Det (elimination on matrices, no product): det"

#: The model has two layers, of 48 MACs each; of a matrix of 2 x 2 one product is subtracted.
SKIPPED = f"""\
cpsat_pim: skipped {DET}
cpsat_pim: 1 of 3 operators that compute are in no total; the others have 96 MACs
cpsat_pim: left out: det 1 MACs: 1.0% of the work that is known
"""
WRITTEN = f"""\
# Imported from net.onnx, batch=3.
# Skipped: {DET}
version: 1
name: net
layers:
- {{name: first, P: 3, C: 4, K: 4, after: [input]}}
- {{name: second, P: 3, C: 4, K: 4, join: add, after: [first, input]}}
"""


def test_import_prints_the_network(model, capsys):
    """The file goes to stdout; stderr also names the skipped operators."""
    assert main(["import", model, *BOUND]) == 0
    out, err = capsys.readouterr()
    assert out == WRITTEN
    assert err == SKIPPED


def test_import_writes_a_file_that_run_reads(model, capsys):
    """With `-o`, stdout has the totals: 2 layers of 1 shape, 2*3*4*4 MACs, 2*4*4 weights."""
    assert main(["import", model, *BOUND, "-o", "out.yaml"]) == 0
    assert Path("out.yaml").read_text() == WRITTEN
    assert capsys.readouterr().out.split()[-5:] == ["net", "2", "1", "96", "32"]
    assert read_network("out.yaml").layers[1].after == ("first", "input")
    assert main(["run", "out.yaml", "--layers", "first", "--objective", "energy"]) == 0


def test_run_maps_a_model(model, capsys):
    """As if its network had been written and read."""
    assert main(["run", model, *BOUND, "--layers", "second", "--objective", "energy"]) == 0
    out, err = capsys.readouterr()
    assert "OPTIMAL" in out
    assert err == SKIPPED


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["import", "net.onnx"], "net.onnx: has open dims, bind them: --bind batch=..."),
        (
            ["import", "net.onnx", "--bind", "batch=3"],
            f"net.onnx: cannot map {DET} (--unsupported skip goes on without)",
        ),
        (["import", "net.onnx", "--bind", "batch=3", "--bind", "batch=4"], "--bind: a name is given twice"),
        (
            ["import", "net.onnx", "--bind", "batch=x"],
            "import: argument --bind: must be a name and a number below 10^9, like batch=1 (got 'batch=x')",
        ),
        (["import", "net.yaml"], "net.yaml: must be an .onnx or .pt2 file, or a Python function as module:function"),
        (["run", "net.onnx"], "net.onnx: has open dims, bind them: --bind batch=..."),
        (
            ["run", "vgg16", "--bind", "batch=3"],
            "vgg16: no parameter is named 'batch'; it has none",
        ),
        (
            ["pareto", "P=4", "--bind", "batch=3"],
            "--bind needs a model, or a network with parameters; these sizes are fixed",
        ),
    ],
)
def test_mistake_is_one_line_on_stderr(model, capsys, arguments, message):
    """Exit 2, and nothing on stdout."""
    assert main(arguments) == 2
    out, err = capsys.readouterr()
    assert (out, err) == ("", f"cpsat_pim: error: {message}\n")


def test_file_that_cannot_be_written_is_told(model, capsys):
    """A directory that is not there."""
    assert main(["import", model, *BOUND, "-o", "no/out.yaml"]) == 2
    message = "cpsat_pim: error: no/out.yaml: cannot be written: No such file or directory\n"
    assert capsys.readouterr().err.endswith(message)


@pytest.mark.parametrize(("model", "package"), [("net.onnx", "onnx"), ("net.pt2", "torch"), ("net:build", "torch")])
def test_missing_package_is_told_with_the_extra_that_brings_it(model, package, monkeypatch, capsys):
    """Whoever has no use for a format need not install what reads it."""
    for name in [*sys.modules]:
        if name in (package, "cpsat_pim.importers.onnx_file", "cpsat_pim.importers.torch_program"):
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, package, None)
    assert main(["import", model]) == 2
    message = f"{model}: {package} is not installed: pip install 'cpsat-pim[{package}]'"
    assert capsys.readouterr().err == f"cpsat_pim: error: {message}\n"


def test_help_imports_no_reader_of_models():
    """They take seconds."""
    code = "import sys; from cpsat_pim.cli import main; main(['import', '--help']); "
    code += "print({*sys.modules} & {'onnx', 'torch'})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.endswith("set()\n")


def test_work_left_out_is_named_with_its_share(file_writer, capsys):
    """A convolution along four axes: 2 x 2 x 2 x 2 positions of 5 channels, each of 3 channels and 16 taps, are 3,840
    MACs; the layer has 80 x 12 = 960.
    """
    floats = TensorProto.FLOAT
    nodes = [
        helper.make_node("Conv", ["x", "v"], ["a"], "four"),
        helper.make_node("Flatten", ["a"], ["f"]),
        helper.make_node("MatMul", ["f", "w"], ["b"], "last"),
    ]
    inputs = [helper.make_tensor_value_info("x", floats, [1, 3, 3, 3, 3, 3])]
    weights = [
        TensorProto(name="v", data_type=floats, dims=[5, 3, 2, 2, 2, 2]),
        TensorProto(name="w", data_type=floats, dims=[80, 12]),
    ]
    graph = helper.make_graph(nodes, "net", inputs, [helper.make_empty_tensor_value_info("b")], weights)
    file = file_writer("net.onnx")(helper.make_model(graph).SerializeToString())
    assert main(["import", file, "--unsupported", "skip"]) == 0
    assert "cpsat_pim: left out: four 3,840 MACs: 80.0% of the work that is known\n" in capsys.readouterr().err
