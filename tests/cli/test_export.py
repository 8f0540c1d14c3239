"""`trace` and `export` as a user runs them."""

import json
from pathlib import Path
from typing import Any

import attrs
import pytest

from cpsat_pim.arch import PIMArchitecture
from cpsat_pim.arch.reading import read_arch
from cpsat_pim.base.dims import Dim
from cpsat_pim.cli import main
from cpsat_pim.evaluate.verify import simulate
from cpsat_pim.mapping import EVEN, Mapping
from cpsat_pim.report.jsonfile import read_mapped_layers
from cpsat_pim.workload import ConvWorkload


def mapped(name: str, weights: int) -> tuple[ConvWorkload, Mapping]:
    """A layer of so many weights, a byte each, with a PE buffer's worth fetched at a time."""
    mapping = Mapping(
        temporal=[[1] * 8, [1] * 8, [1] * 8, [1, 1, 1, 1, 1, weights, 1, 1]],
        spatial=[[1] * 8] * 3,
        order=[[], [], [], [Dim.K]],
        stored=[[True] * 3, [False] * 3, [False] * 3],
    )
    return ConvWorkload(name=name, K=weights), mapping


def write(path: Path, layers: list[tuple[ConvWorkload, Mapping]], arch: PIMArchitecture | None = None) -> str:
    """A file as `--json` writes it, as far as it is read."""
    entries: list[dict[str, Any]] = [
        {"name": layer.name, "shape": layer.shape, "mapping": mapping.to_dict()} for layer, mapping in layers
    ]
    path.write_text(json.dumps({"schema": 1, "arch": (arch or PIMArchitecture()).to_dict(), "layers": entries}))
    return str(path)


@pytest.fixture
def pair(tmp_path: Path) -> str:
    """Two mapped layers."""
    return write(tmp_path / "pair.json", [mapped("small", 4), mapped("large", 64)])


@pytest.fixture
def uneven(tmp_path: Path) -> str:
    """A mapped layer whose weights pass the PE one by one, on a machine that allows it."""
    mapping = Mapping(
        temporal=[[1, 1, 1, 1, 1, 4, 2, 1], *[[1] * 8] * 3],
        spatial=[[1] * 8] * 3,
        order=[[Dim.K, Dim.N], [], [], []],
        stored=[[True] * 3, [False] * 3, [False] * 3],
        outside=[[0, 1, 0], [0, 0, 0]],
    )
    layer = ConvWorkload(name="streamed", K=4, N=2)
    return write(tmp_path / "uneven.json", [(layer, mapping)], PIMArchitecture(uneven_residency=True))


def error_of(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """The one line on stderr of a command that fails with 2."""
    assert main(list(arguments)) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    return err


# --- trace -----------------------------------------------------------------------------------------------------------


def test_trace_writes_every_access_and_tells_what_to_expect(
    pair: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """64 weights are fetched, and 64 outputs written, one by one in one row each; the input once."""
    path = tmp_path / "t.trace"
    assert main(["trace", pair, "--layer", "large", "--format", "dramsim3", "-o", str(path), "--gap", "3"]) == 0
    out, err = capsys.readouterr()
    assert "column accesses I / W / O: 1 / 64 / 64, in all 129\n" in out
    assert "row activations I / W / O: 1 / 1 / 1, in all 3\n" in out
    assert "bank 2 | row 16 | column 5 | byte 5 bits" in out
    assert err == ""
    lines = path.read_text().splitlines()
    assert lines[0] == "0x0 READ 0"
    assert lines[-1] == f"{(2 << 26) + 32:#x} WRITE {128 * 3}"  # bytes 32 to 63 lie in O's second column
    assert len(lines) == 129


def test_trace_of_one_tensor_has_its_accesses_and_its_time(
    pair: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """64 weights, a byte each, fetched one by one: one row; 14 + 63 * 4 + 25 + 4 cycles from ACT to the last beat."""
    path = tmp_path / "t.trace"
    arguments = ["--layer", "large", "--format", "dramsim3", "-o", str(path), "--gap", "0", "--tensor", "W"]
    assert main(["trace", pair, *arguments]) == 0
    out, _ = capsys.readouterr()
    assert "column accesses of W: 64\nrow activations of W: 1\nDRAM cycles, back to back, of W: 295\n" in out
    lines = path.read_text().splitlines()
    assert len(lines) == 64
    assert all(line.endswith(" READ 0") for line in lines)


@pytest.mark.parametrize("style", ["dramsim3", "ramulator2"])
def test_configuration_is_written_beside_the_trace(pair: str, style: str, tmp_path: Path) -> None:
    """With the machine's own timings (table 1: tRCDRD 14)."""
    config = tmp_path / "config"
    arguments = ["--layer", "small", "--format", style, "-o", str(tmp_path / "t"), "--config", str(config)]
    assert main(["trace", pair, *arguments]) == 0
    assert ("tRCD = 14\n" if style == "dramsim3" else "nRCDRD=14,\n") in config.read_text()


def test_rows_that_the_simulator_lacks_are_refused_before_a_trace_is_written(
    pair: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """DRAMsim3 counts rows in thousands."""
    path = tmp_path / "t"
    arguments = ["--layer", "small", "--format", "dramsim3", "-o", str(path), "--row-bits", "4"]
    assert "DRAMsim3 takes 10 to 30" in error_of(
        capsys, "trace", pair, *arguments, "--config", str(tmp_path / "config")
    )
    assert not path.exists()


def test_trace_of_a_machine_that_closes_rows_says_what_it_cannot_show(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A line on stderr, and the activations of rows left open: 1 for W, where the machine itself opens 4."""
    layer, mapping = mapped("layer", 4)
    arch = PIMArchitecture(page_policy="closed")
    assert simulate(layer, arch, mapping).row_activations == (1, 4, 4)
    file = write(tmp_path / "m.json", [(layer, mapping)], arch)
    assert main(["trace", file, "--format", "ramulator2", "-o", str(tmp_path / "t")]) == 0
    out, err = capsys.readouterr()
    assert "row activations I / W / O: 1 / 1 / 1" in out
    assert "closes its rows after each scan" in err


def test_trace_of_several_mappings_needs_a_choice(pair: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The names are listed."""
    err = error_of(capsys, "trace", pair, "--format", "ramulator2", "-o", "t")
    assert "contains 2 mappings; choose one with --layer" in err


def test_trace_that_fails_leaves_the_old_one(pair: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Too few bits for the rows: nothing is written, and no other file is left behind."""
    path = tmp_path / "t.trace"
    path.write_text("old")
    large = write(tmp_path / "m.json", [mapped("layer", 2048)])
    err = error_of(capsys, "trace", large, "--format", "ramulator2", "-o", str(path), "--row-bits", "0")
    assert "--row-bits: W takes 2 rows in 1 banks, which needs 1 (got 0)" in err
    assert path.read_text() == "old"
    assert {p.name for p in tmp_path.iterdir()} == {"t.trace", "m.json", "pair.json"}


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
def test_full_disk_is_one_line(pair: str, capsys: pytest.CaptureFixture[str]) -> None:
    """/dev/full refuses every byte."""
    err = error_of(capsys, "trace", pair, "--layer", "small", "--format", "ramulator2", "-o", "/dev/full")
    assert "/dev/full: cannot be written: No space left on device" in err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--format", "verilog", "-o", "t"], "invalid choice: 'verilog'"),
        (["-o", "t"], "required: --format"),
        (["--format", "ramulator2"], "required: -o/--output"),
        (["--format", "ramulator2", "-o", "t", "--row-bits", "41"], "must be an integer from 0 to 40"),
        (["--format", "ramulator2", "-o", "t", "--gap", "-1"], "must be an integer from 0 to 1048575"),
        (["--format", "ramulator2", "-o", "t", "--layer", "smal"], "did you mean 'small'?"),
        (["--format", "ramulator2", "--layer", "small", "-o", "/nowhere/t"], "/nowhere/t: cannot be written"),
    ],
)
def test_mistakes_are_one_line(
    pair: str, arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Mistakes are reported before a line is written."""
    assert message in error_of(capsys, "trace", pair, *arguments)


def test_illegal_mapping_is_not_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Factors of another layer."""
    _, mapping = mapped("layer", 4)
    file = write(tmp_path / "m.json", [(ConvWorkload(name="layer", K=8), mapping)])
    for command in (["trace", file, "--format", "dramsim3"], ["export", file, "--format", "timeloop"]):
        assert "layer: K" in error_of(capsys, *command, "-o", str(tmp_path / "out"))
    assert not (tmp_path / "out").exists()


# --- export ----------------------------------------------------------------------------------------------------------


def test_export_writes_three_files_a_layer(pair: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """All layers, or the one that is named; their paths are printed."""
    assert main(["export", pair, "--format", "timeloop", "-o", str(tmp_path / "all")]) == 0
    kinds = ("arch", "problem", "mapping")
    expected = [str(tmp_path / "all" / f"{name}.{kind}.yaml") for name in ("small", "large") for kind in kinds]
    assert capsys.readouterr().out.split() == expected
    assert all(Path(path).exists() for path in expected)
    assert main(["export", pair, "--format", "timeloop", "-o", str(tmp_path / "one"), "--layer", "large"]) == 0
    assert {p.name for p in (tmp_path / "one").iterdir()} == {f"large.{kind}.yaml" for kind in kinds}


def test_layers_of_one_file_name_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The files of `a/b` would replace those of `a_b`."""
    file = write(tmp_path / "m.json", [mapped("a/b", 4), mapped("a_b", 4)])
    err = error_of(capsys, "export", file, "--format", "timeloop", "-o", str(tmp_path / "out"))
    assert "2 layers have the file name 'a_b'" in err


def test_directory_that_is_a_file_is_one_line(pair: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The JSON file itself."""
    assert "pair.json: is a file, must be a folder" in error_of(
        capsys, "export", pair, "--format", "timeloop", "-o", pair
    )


def test_every_preset_can_be_exported_and_traced(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One weight fits every machine."""
    for name in ("hbm-pim", "gddr6-aim", "stacked-3d"):
        arch = read_arch(name)
        layer = ConvWorkload(name=name, input_bytes=2, weight_bytes=2, output_bytes=2, psum_bytes=2)
        stored = [[False] * 3, [False] * 3, [False] * 3]
        mapping = Mapping(temporal=[[1] * 8] * 4, spatial=[[1] * 8] * 3, order=[[]] * 4, stored=stored, banks=(0, 0, 0))
        file = write(tmp_path / f"{name}.json", [(layer, mapping)], arch)
        assert main(["trace", file, "--format", "dramsim3", "-o", str(tmp_path / "t")]) == 0
        assert main(["export", file, "--format", "timeloop", "-o", str(tmp_path)]) == 0
    assert "in all 3" in capsys.readouterr().out


def test_uneven_mapping_is_traced_and_predicted_but_not_exported(
    uneven: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its accesses are counted both ways; what would need a form that Timeloop lacks is one line."""
    assert main(["trace", uneven, "--format", "ramulator2", "-o", str(tmp_path / "t")]) == 0
    assert "column accesses I / W / O: 1 / 4 / 1, in all 6" in capsys.readouterr().out
    assert main(["simulate", uneven]) == 0
    assert "streamed: all exact figures are equal, simulated and predicted" in capsys.readouterr().out
    assert "no form in Timeloop's files" in error_of(
        capsys, "export", uneven, "--format", "timeloop", "-o", str(tmp_path)
    )


@pytest.mark.parametrize(("style", "ending"), [("loops", ".loops.json"), ("mlir", ".mlir")])
def test_programs_are_one_file_a_layer(
    style: str, ending: str, uneven: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also for a mapping that Timeloop's files cannot express."""
    assert main(["export", uneven, "--format", style, "-o", str(tmp_path / "out")]) == 0
    assert capsys.readouterr().out == f"{tmp_path / 'out' / 'streamed'}{ending}\n"
    assert (tmp_path / "out" / f"streamed{ending}").stat().st_size > 1000


def test_a_mapping_without_a_form_does_not_stop_the_others(
    uneven: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of two layers one has uneven residency: the other's three files are written, and the exit code is 2."""
    case = read_mapped_layers(uneven)[0]
    even = attrs.evolve(case.mapping, outside=EVEN)
    layers = [(attrs.evolve(case.layer, name=n), m) for n, m in (("a", case.mapping), ("b", even))]
    file = write(tmp_path / "m.json", layers, case.arch)
    assert main(["export", file, "--format", "timeloop", "-o", str(tmp_path / "out")]) == 2
    assert "a: a mapping with uneven residency has no form" in capsys.readouterr().err
    assert sorted(p.name for p in (tmp_path / "out").iterdir()) == [
        f"b.{k}.yaml" for k in ("arch", "mapping", "problem")
    ]


def test_layers_without_a_mapping_are_told(pair: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """They are in the file, so no other name is meant; the others are written."""
    data = json.loads(Path(pair).read_text())
    data["layers"].append(data["layers"][0] | {"name": "open", "mapping": None, "predicted": None})
    file = tmp_path / "open.json"
    file.write_text(json.dumps(data))
    export = ["export", str(file), "--format", "loops", "-o", str(tmp_path / "out")]
    assert main(export) == 0
    assert f"{file}: without a mapping: open\n" in capsys.readouterr().err
    assert error_of(capsys, *export, "--layer", "open") == f"cpsat_pim: error: {file}: open has no mapping\n"
