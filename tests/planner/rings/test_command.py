"""`schedule` as a user runs it."""

import json
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from cpsat_pim.cli import main


def test_a_schedule_is_printed_and_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Load, bound and status; JSON with the rings; a page and a picture that are well formed."""
    files = {kind: tmp_path / f"rings.{kind}" for kind in ("json", "html", "svg")}
    words = [word for kind, path in files.items() for word in (f"--{kind}", str(path))]
    assert main(["schedule", "--mesh", "8x8", "--free", "110x110", *words]) == 0
    out = capsys.readouterr().out
    assert "status  OPTIMAL" in out
    assert "4 sets must leave it over 4 links" in out
    document = json.loads(files["json"].read_text())
    assert [document[name] for name in ("mesh", "free", "load", "bound", "status")] == [
        "8x8",
        "110x110",
        1,
        1,
        "OPTIMAL",
    ]
    assert [sorted(ring) for ring in document["rings"]] == document["sets"]
    assert "<svg" in files["html"].read_text()
    picture = ET.fromstring(files["svg"].read_text())
    names = [element.tag.rpartition("}")[2] for element in picture.iter()]
    assert names.count("line") == 4 * 8 * 7  # a line for each directed link
    assert names.count("circle") == 2 * 64  # a dot for each node, in both panels


def test_rings_can_be_scheduled_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The file that `--json` writes is one that `--sets` reads."""
    path = tmp_path / "first.json"
    assert main(["schedule", "--mesh", "4x4", "--free", "10x11", "--json", str(path)]) == 0
    assert main(["schedule", "--mesh", "4x4", "--sets", str(path)]) == 0
    assert "4x4, 2 sets" in capsys.readouterr().out


def test_nodes_are_numbers_or_places(tmp_path: Path) -> None:
    """Row 1, column 2 of 3 columns is node 5."""
    sets, written = tmp_path / "sets.json", tmp_path / "rings.json"
    sets.write_text('{"sets": [[0, [1, 2], 3]]}')
    assert main(["schedule", "--mesh", "2x3", "--sets", str(sets), "--json", str(written)]) == 0
    assert json.loads(written.read_text())["sets"] == [[0, 5, 3]]


def test_baselines_are_told_beside_the_rings(capsys: pytest.CaptureFixture[str]) -> None:
    """Least, mean and most over the ties, for one pattern and for a pattern a set."""
    assert main(["schedule", "--mesh", "8x8", "--free", "110x110", "--baselines", "tsp,shp", "--draws", "3"]) == 0
    out = capsys.readouterr().out
    assert [line.split(",")[0] for line in out.splitlines() if line.startswith(("TSP", "SHP"))] == ["TSP"] * 2 + [
        "SHP"
    ] * 2


def test_what_another_counter_refutes_ends_with_code_three(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing is printed as a schedule then."""
    monkeypatch.setattr("cpsat_pim.planner.rings.check.heaviest_load", lambda cols, rings: 7)
    assert main(["schedule", "--mesh", "4x4", "--free", "11x11"]) == 3
    out, err = capsys.readouterr()
    assert out == ""
    assert "load 1 is claimed, 7 is counted" in err


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--mesh", "4", "--free", "1x1"], "--mesh: must be rows x columns, like 16x16 (got '4')"),
        (
            ["--mesh", "4x4", "--free", "1x1"],
            "--free: must be 2 and 2 binary digits for a 4x4 mesh, like 11x11 (got '1x1')",
        ),
        (["--mesh", "3x4", "--free", "11x11"], "--free: free digits need sides that are powers of two (got 3x4)"),
        (["--mesh", "4x4"], "one of the arguments --free --sets is required"),
        (
            ["--mesh", "8x8", "--free", "111x111", "--baselines", "tsp"],
            "--baselines: baselines are exact for sets of up to",
        ),
        (["--mesh", "4x4", "--free", "11x11", "--baselines", "tps"], "--baselines: no baseline is named 'tps'"),
        (["--mesh", "4x4", "--sets", "none.json"], "none.json: cannot be read"),
    ],
)
def test_a_mistake_is_told_in_a_line(words: list[str], says: str, capsys: pytest.CaptureFixture[str]) -> None:
    """What is wrong, where, and what was expected; exit code 2."""
    assert main(["schedule", *words]) == 2
    err = capsys.readouterr().err
    assert says in err
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[]", "must be a JSON object"),
        ("{}", 'must hold "sets", a list of lists of nodes'),
        ('{"sets": [[0, 99]]}', "a node must be an integer from 0 to 15 (got 99)"),
        ('{"sets": [[0, [4, 0]]]}', "a node must lie in the 4x4 mesh (got [4, 0])"),
        ('{"sets": [[0, "a"]]}', "a node must be a number or [row, column] (got 'a')"),
        ('{"sets": [[0, 1], [1, 2]]}', "no node may be named twice"),
    ],
)
def test_a_file_of_sets_that_is_wrong_is_refused(
    text: str, says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With its name and the rule."""
    path = tmp_path / "sets.json"
    path.write_text(text)
    assert main(["schedule", "--mesh", "4x4", "--sets", str(path)]) == 2
    err = capsys.readouterr().err
    assert says in err
    assert str(path) in err
