"""`report`, `--html` and `--timeline` as a user runs them."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from cpsat_pim.cli import main
from tests.report.results import write_results

MAP = ["map", "R=3,P=4,Q=4,C=4,K=4", "--objective", "energy"]


@pytest.fixture
def results(tmp_path: Path) -> Path:
    """A file as `--json` writes it."""
    return write_results(tmp_path / "results.json")


def test_report_draws_one_result_and_two(results: Path, tmp_path: Path) -> None:
    """Exit 0 and a page; printed nothing."""
    pytest.importorskip("plotly", reason="the report's plotting library is not installed")
    one, two = tmp_path / "one.html", tmp_path / "two.html"
    assert main(["report", str(results), "-o", str(one)]) == 0
    assert main(["report", str(results), str(results), "--output", str(two)]) == 0
    assert one.read_text().count('"source":"results.json"') == 1
    assert two.read_text().count('"source":"results.json"') == 2


def test_comparison_warns_of_layers_that_are_alike_in_name_only(
    results: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Layers of other widths are compared, but a line names them; layers that are equal in both are not named."""
    document = json.loads(results.read_text())
    document["layers"][0]["shape"]["weight_bytes"] = 0.5
    other = tmp_path / "other.json"
    other.write_text(json.dumps(document))
    assert main(["report", str(results), str(other), "-o", str(tmp_path / "t.csv")]) == 0
    name = document["layers"][0]["name"]
    assert capsys.readouterr().err.endswith(f": with elements of other widths in the other result: {name}\n")
    document["layers"][0]["shape"]["K"] += 1
    other.write_text(json.dumps(document))
    assert main(["report", str(results), str(other), "-o", str(tmp_path / "t.csv")]) == 0
    shape, width = capsys.readouterr().err.splitlines()
    assert shape.endswith(f": of the same name, but of another shape in the other result: {name}")
    assert width.endswith(f": with elements of other widths in the other result: {name}")
    assert main(["report", str(results), str(results), "-o", str(tmp_path / "t.csv")]) == 0
    assert not capsys.readouterr().err


def test_comparison_on_machines_of_other_words_is_told_once(
    results: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A network on two chips whose words differ: all layers have other widths, their names would say nothing."""
    document = json.loads(results.read_text())
    assert len(document["layers"]) > 1
    for layer in document["layers"]:
        layer["shape"]["input_bytes"] += 1
    other = tmp_path / "other.json"
    other.write_text(json.dumps(document))
    assert main(["report", str(results), str(other), "-o", str(tmp_path / "t.csv")]) == 0
    (line,) = capsys.readouterr().err.splitlines()
    assert line.endswith(": with elements of other widths in the other result: all layers")


def test_map_writes_page_and_timeline(tmp_path: Path) -> None:
    """Beside the JSON, of the same mapping."""
    pytest.importorskip("plotly", reason="the report's plotting library is not installed")
    page, trace, data = tmp_path / "m.html", tmp_path / "t.json", tmp_path / "m.json"
    assert main([*MAP, "--html", str(page), "--timeline", str(trace), "--json", str(data)]) == 0
    assert "this run" in page.read_text()
    slices = [event for event in json.loads(trace.read_text())["traceEvents"] if event["ph"] == "X"]
    simulated = json.loads(data.read_text())["layers"][0]["simulated"]["latency_cycles"]
    assert max(event["ts"] + event["dur"] for event in slices) == simulated - 6  # 1 + 5 cycles of access latency


def test_simulate_writes_a_timeline_of_the_layers_it_simulates(results: Path, tmp_path: Path) -> None:
    """A process each; `--layer` leaves one."""
    trace = tmp_path / "t.json"
    for more, count in (([], 2), (["--layer", "a"], 1)):
        assert main(["simulate", str(results), "--timeline", str(trace), *more]) == 0
        assert len({event["pid"] for event in json.loads(trace.read_text())["traceEvents"]}) == count


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["report", "{none}"], "cannot be read: No such file or directory"),
        (["report", "{text}"], "is not JSON"),
        (["report", "{empty}"], "schema: must be 1"),
        (["report", "{bare}"], "network: is missing"),
        (["report", "{results}", "-o", "{none}/x.html"], "x.html: cannot be written"),
        (["simulate", "{results}", "--timeline", "{none}/x.json"], "x.json: cannot be written"),
        ([*MAP, "--html", "{none}/x.html"], "x.html: cannot be written"),
        ([*MAP, "--timeline", "{none}/x.json"], "x.json: cannot be written"),
    ],
)
def test_mistake_is_a_line_and_exit_2(
    arguments: list[str], message: str, results: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Known before anything is solved."""
    pytest.importorskip("plotly", reason="the report's plotting library is not installed")
    paths = {name: tmp_path / name for name in ("none", "text", "empty", "bare")}
    paths["text"].write_text("{")
    paths["empty"].write_text("{}")
    data = json.loads(results.read_text())
    paths["bare"].write_text(json.dumps({key: value for key, value in data.items() if key != "network"}))
    assert main([word.format(results=results, **paths) for word in arguments]) == 2
    out, err = capsys.readouterr()
    assert message in err
    assert (out, err.count("\n")) == ("", 1)


def test_absent_plotting_library_is_said_before_solving(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """With what to install."""
    monkeypatch.setitem(sys.modules, "plotly", None)
    assert main([*MAP, "--html", str(tmp_path / "x.html")]) == 2
    assert "pip install 'cpsat-pim[report]'" in capsys.readouterr().err


def test_without_a_page_no_plotting_library_is_imported(results: Path) -> None:
    """Nor is it when a result is printed or simulated."""
    run = f"from cpsat_pim.cli import main; main(['simulate', {str(results)!r}])"
    code = f"import sys; {run}; sys.exit('plotly' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True).returncode == 0
