"""`pareto` as a user runs it: a table, files that other commands read, mistakes, interruption."""

from pathlib import Path

import pytest

import cpsat_pim.mapper.network.pareto
from cpsat_pim.cli import main
from cpsat_pim.evaluate.cost import predict
from cpsat_pim.mapper.network.run import solve_and_verify
from cpsat_pim.report.jsonfile import read_mapped_layers
from cpsat_pim.report.view import build_view
from tests.cli.commands import one_error_line, read_json, solve_and_interrupt, solve_noting

SHAPE = "C=2,K=4"


def write_front(chip: str, folder: Path, capsys: pytest.CaptureFixture[str], *flags: str) -> list[list[str]]:
    """The rows that are printed of the layer's front; f.json and f.yaml are written."""
    files = ["--json", str(folder / "f.json"), "--mapping", str(folder / "f.yaml")]
    assert main(["pareto", SHAPE, "--arch", chip, *flags, *files]) == 0
    out, err = capsys.readouterr()
    assert (err, "the front is complete" in out) == ("", True)
    return [line.split() for line in out.splitlines() if line.startswith(" layer.")]


def test_front_is_printed_and_written(chip: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Rows by latency; the JSON has the same points, and the last one's layer; the mappings simulate as predicted."""
    rows = write_front(chip, tmp_path, capsys)
    document = read_json(tmp_path / "f.json")
    (front,) = document["pareto"]
    assert (front["name"], front["x"], front["y"]) == ("layer", "latency_cycles", "energy_fj")
    assert [row[0] for row in rows] == [point["label"] for point in front["points"]]
    assert [int(row[1].replace(",", "")) for row in rows] == [point["x"] for point in front["points"]]
    assert {point["status"] for point in front["points"]} == {"OPTIMAL"}
    assert front["points"][-1]["y"] == document["layers"][0]["predicted"]["energy_fj"] == document["layers"][0]["bound"]
    assert main(["simulate", str(tmp_path / "f.yaml")]) == 0
    assert "DIFFERENT" not in capsys.readouterr().out


def test_front_with_activations_is_printed_and_written(
    chip: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A column more, and a third figure in the JSON, which is read back as it is; the mappings have these figures."""
    rows = write_front(chip, tmp_path, capsys, "--activations")
    document = read_json(tmp_path / "f.json")
    (front,) = document["pareto"]
    assert (front["x"], front["y"], front["z"]) == ("latency_cycles", "energy_fj", "row_activations")
    assert [(row[0], int(row[6].replace(",", ""))) for row in rows] == [(p["label"], p["z"]) for p in front["points"]]
    assert build_view(document, "f.json")["pareto"] == document["pareto"]
    counts = [
        predict(m.layer, m.arch, m.mapping).figures.row_activations for m in read_mapped_layers(tmp_path / "f.yaml")
    ]
    assert [sum(count) for count in counts] == [point["z"] for point in front["points"]]


def test_page_shows_the_front(chip: str, tmp_path: Path) -> None:
    """`--html` draws it, and `report` would draw the same of the JSON."""
    pytest.importorskip("plotly", reason="the report's plotting library is not installed")
    data, page = tmp_path / "f.json", tmp_path / "f.html"
    assert main(["pareto", SHAPE, "--arch", chip, "--json", str(data), "--html", str(page)]) == 0
    assert '"label":"layer.1"' in page.read_text()
    document = read_json(data)
    assert build_view(document, "f.json")["pareto"] == document["pareto"]


def test_equal_layers_are_solved_once(
    chip: str, pair: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of a network's layers, those named: each has a front under its own name."""
    seen: list[str] = []
    monkeypatch.setattr(cpsat_pim.mapper.network.pareto, "solve_and_verify", solve_noting(seen))
    data = tmp_path / "f.json"
    options = ["--layers", "second,twin", "--step", "50%", "--json", str(data)]
    assert main(["pareto", pair, "--arch", chip, *options]) == 0
    first, second = read_json(data)["pareto"]
    assert (first["name"], second["name"]) == ("second", "twin")
    assert [(p["x"], p["y"]) for p in first["points"]] == [(p["x"], p["y"]) for p in second["points"]]
    assert set(seen) == {"second"}


def test_interrupt_keeps_what_was_found(
    chip: str, pair: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Ctrl-C after the first solve: its mapping, without a claim; exit code 130."""
    monkeypatch.setattr(cpsat_pim.mapper.network.pareto, "solve_and_verify", solve_and_interrupt)
    data = tmp_path / "f.json"
    assert main(["pareto", pair, "--arch", chip, "--json", str(data)]) == 130
    out, err = capsys.readouterr()
    assert ("not complete" in out, "2 of 3 layers not started" in err) == (True, True)
    (front,) = read_json(data)["pareto"]
    assert (front["name"], [p["status"] for p in front["points"]]) == ("first, not complete", ["FEASIBLE"])


def test_interrupt_keeps_the_points_that_were_proven(
    chip: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Ctrl-C after the solves of one point of three figures."""
    count = iter(range(9))
    monkeypatch.setattr(
        cpsat_pim.mapper.network.pareto,
        "solve_and_verify",
        lambda *arguments: (solve_and_interrupt if next(count) == 3 else solve_and_verify)(*arguments),
    )
    data = tmp_path / "f.json"
    assert main(["pareto", SHAPE, "--arch", chip, "--activations", "--json", str(data)]) == 130
    assert "Interrupted" in capsys.readouterr().out
    (front,) = read_json(data)["pareto"]
    assert "OPTIMAL" in {point["status"] for point in front["points"]}
    assert front["name"] == "layer, not complete"


def test_time_out_is_reported(capsys: pytest.CaptureFixture[str]) -> None:
    """A front that may lack points is not called complete, nor one without any empty."""
    code = main(["pareto", "P=56,Q=56,C=64,K=64", "--time-limit", "0.001", "--total-time", "0.002"])
    out, err = capsys.readouterr()
    assert "not complete" in out
    assert (code, err.split(" for ")[0]) in (
        (0, "cpsat_pim: time limit reached before a proof of optimality"),
        (1, "cpsat_pim: no mapping"),
    )


@pytest.mark.parametrize(
    "arguments",
    [
        [SHAPE, "--step", "1"],
        [SHAPE, "--step", "nan"],
        [SHAPE, "--layers", "conv1"],
        ["C=2,Z=4"],
        ["nosuch"],
        [SHAPE, "--json", "/nowhere/f.json"],
        [SHAPE, "--mapping", "/nowhere/f.yaml"],
        ["C=99999,K=99999"],
    ],
)
def test_mistake_is_a_line_and_exit_2(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """Known before anything is solved."""
    assert main(["pareto", *arguments]) == 2
    assert one_error_line(capsys)
