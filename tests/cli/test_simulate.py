"""`simulate` as a user runs it: on results, mapping files and reproducers, with constraints."""

import json
from pathlib import Path
from typing import Any

import pytest

import cpsat_pim.mapper.network.verified
from cpsat_pim.cli import main
from cpsat_pim.evaluate.verify import Disagreement
from cpsat_pim.mapping import Mapping
from tests.cli.commands import map_tiny, one_error_line, read_json


def test_simulate_finds_a_written_mapping_as_predicted(mapped: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What `map --json` wrote is enough to simulate from."""
    assert main(["simulate", str(mapped)]) == 0
    assert "all exact figures are equal" in capsys.readouterr().out


def test_simulate_tells_when_the_file_holds_other_figures(mapped: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """An edited prediction is found out."""
    data = read_json(mapped)
    data["layers"][0]["predicted"]["energy_fj"] += 1
    mapped.write_text(json.dumps(data))
    assert main(["simulate", str(mapped)]) == 3
    assert "energy_fj" in capsys.readouterr().err


def test_simulate_refuses_an_illegal_mapping(mapped: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """An edited loop: the factors no longer multiply to the bounds."""
    data = read_json(mapped)
    data["layers"][0]["shape"]["K"] = 8
    mapped.write_text(json.dumps(data))
    assert main(["simulate", str(mapped)]) == 2
    assert one_error_line(capsys)


@pytest.mark.parametrize(
    "command",
    [
        ["simulate", "FILE", "--timeline", "FILE"],
        ["trace", "FILE", "--format", "ramulator2", "-o", "FILE"],
        ["report", "FILE", "-o", "FILE"],
        ["import", "FILE.onnx", "-o", "FILE.onnx"],
    ],
)
def test_what_is_read_is_not_written_over(mapped: Path, command: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """A slip of the pen costs no results."""
    before = mapped.read_text()
    assert main([word.replace("FILE", str(mapped)) for word in command]) == 2
    assert one_error_line(capsys)
    assert mapped.read_text() == before


def test_each_rule_that_a_mapping_breaks_is_a_line(
    mapped: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two dims whose factors do not multiply to their bounds, whichever command reads them."""
    data = read_json(mapped)
    data["layers"][0]["shape"] |= {"K": 80, "C": 50}
    mapped.write_text(json.dumps(data))
    for command in (["simulate"], ["explain"], ["export", "--format", "timeloop", "-o", str(tmp_path / "t")]):
        assert main([command[0], str(mapped), *command[1:]]) == 2
        err = capsys.readouterr().err
        assert [line.startswith("cpsat_pim: error: ") for line in err.splitlines()] == [True, True]
        assert "C" in err.splitlines()[0] + err.splitlines()[1]
        assert "K" in err.splitlines()[0] + err.splitlines()[1]


@pytest.mark.parametrize(
    "change",
    [
        {"schema": 2},
        {"layers": 3},
        {"layers": [3]},
        {"layers": [{"shape": {"P": 0}, "mapping": {}}]},
        {"layers": [{"shape": {"P": 1}, "mapping": {}}]},
        {"layers": [{"shape": {"X": 1}, "mapping": {}}]},
        {"layers": []},
        {"arch": {"name": 3}},
    ],
)
def test_simulate_refuses_a_broken_file(
    mapped: Path, change: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    """Whatever is broken, nothing but lines that say so."""
    mapped.write_text(json.dumps(read_json(mapped) | change))
    capsys.readouterr()
    assert main(["simulate", str(mapped)]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert all(line.startswith(f"cpsat_pim: error: {mapped}: ") for line in err.splitlines())


def test_disagreement_leaves_a_reproducer_that_simulate_reads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit code 3, no result, the file's path; and since nothing is really wrong, the file simulates as predicted."""

    def disagree(layer: Any, arch: Any, mapping: Mapping, prediction: Any, is_over: Any) -> None:
        raise Disagreement(layer, arch, mapping, ["energy_fj: predicted 1, simulated 2"], prediction.figures, None)

    monkeypatch.setattr(cpsat_pim.mapper.network.verified, "verify", disagree)
    monkeypatch.chdir(tmp_path)
    assert map_tiny() == 3
    out, err = capsys.readouterr()
    (path,) = tmp_path.glob("disagreement-*.json")
    assert out == ""
    assert path.name in err
    assert "energy_fj: predicted 1, simulated 2" in err
    assert main(["simulate", str(path)]) == 0


def test_mappings_are_written_and_fed_back(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`--mapping` writes what `simulate` reads, with the energy that was found."""
    written, results = tmp_path / "m.yaml", tmp_path / "m.json"
    assert map_tiny("--mapping", str(written), "--json", str(results)) == 0
    capsys.readouterr()
    assert main(["simulate", str(written)]) == 0
    out = capsys.readouterr().out
    assert "all exact figures are equal" in out
    assert f"{read_json(results)['layers'][0]['objective']:,}" in out


def test_mapping_file_without_machine_or_shape_cannot_be_simulated(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What is missing is named."""
    path = tmp_path / "m.yaml"
    text = "layers:\n- name: a\n  mapping: {temporal: {}, stored: {ROW_BUFFER: '', GLOBAL_BUFFER: '', PE: ''}}\n"
    for head, missing in (("version: 1\n", "arch"), ("version: 1\narch: default\n", "layers[a].shape")):
        path.write_text(head + text)
        assert main(["simulate", str(path)]) == 2
        assert f"{path}: {missing}: is missing" in capsys.readouterr().err


def test_simulate_tells_which_constraints_are_not_kept(
    mapped: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """On stderr; the counts are what they are."""
    path = tmp_path / "c.yaml"
    path.write_text("version: 1\ntemporal: {DRAM: {K: 64}}\n")
    assert main(["simulate", str(mapped), "--constraints", str(path)]) == 0
    assert "layer: DRAM: the factor of K must be 64 (got " in capsys.readouterr().err
