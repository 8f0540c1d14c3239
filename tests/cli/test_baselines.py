"""`baselines` and `bench quality` as a user runs them."""

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest

import cpsat_pim.study.baselines.quality
from cpsat_pim.cli import main
from cpsat_pim.report.progress import LiveProgress
from cpsat_pim.study.baselines.catalogue import BASELINES

SHAPE = "P=2,Q=2,C=4,K=8"
FEW = ("--samples", "20")


def rows(out: str, *names: str) -> list[str]:
    """The table rows that begin with names."""
    return [line for line in out.splitlines() if line.split() and line.split()[0] in names]


def test_baselines_of_a_shape_are_told(capsys: pytest.CaptureFixture[str]) -> None:
    """A row for each, none of them empty."""
    assert main(["baselines", SHAPE, *FEW]) == 0
    out, err = capsys.readouterr()
    assert [row.split()[0] for row in rows(out, *BASELINES)] == [*BASELINES]
    assert " - " not in out
    assert err == ""


def test_equal_layers_are_mapped_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Under the name of the first."""
    path = tmp_path / "net.yaml"
    path.write_text("version: 1\nlayers:\n- {name: a, C: 4, K: 8}\n- {name: b, C: 4, K: 8}\n- {name: c, C: 4}\n")
    assert main(["baselines", str(path), "--only", "ws", *FEW]) == 0
    out = capsys.readouterr().out
    assert [line.strip() for line in out.splitlines() if line.strip() in ("a", "b", "c")] == ["a", "c"]
    assert len(rows(out, "ws")) == 2


def test_quality_solves_what_is_not_solved(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The optimum beside the baselines, what random search costs, and the documented keys."""
    path = tmp_path / "q.json"
    command = ["bench", "quality", SHAPE, "--only", "ws,random", "--jobs", "1", "--json", str(path), *FEW]
    assert main(command) == 0
    out = capsys.readouterr().out
    assert len(rows(out, "optimum")) == 1
    assert "random: 20 samples in " in out
    assert "within 1%: " in out
    (layer,) = json.loads(path.read_text())
    assert [*layer] == ["name", "shape", "baselines", "status", "objective", "bound", "random"]
    assert [baseline["name"] for baseline in layer["baselines"]] == ["ws", "random"]
    assert layer["objective"] == layer["bound"] <= min(baseline["objective"] for baseline in layer["baselines"])
    page = (Path(__file__).parents[2] / "docs" / "baselines.md").read_text()
    assert all(f"`{key}`" in page for key in (*layer, *layer["baselines"][0], *layer["random"]))


def test_quality_reads_what_run_wrote(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing is solved again; machine and objective are those of the file."""
    path = tmp_path / "r.json"
    assert main(["map", SHAPE, "--objective", "latency", "--json", str(path)]) == 0
    assert main(["bench", "quality", str(path), "--only", "ws"]) == 0
    optimum = json.loads(path.read_text())["layers"][0]["objective"]
    (row,) = rows(capsys.readouterr().out, "optimum")
    assert f"{optimum:,}" in row
    assert main(["bench", "quality", str(path), "--objective", "energy"]) == 2
    assert "--objective: " in capsys.readouterr().err


def test_layers_of_a_file_go_by_their_own_names(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A layer equal to another may be selected alone; a layer without a mapping is reported; a repeated name
    counts once.
    """
    network, path = tmp_path / "net.yaml", tmp_path / "r.json"
    network.write_text("version: 1\nlayers:\n- {name: a, C: 4}\n- {name: b, C: 4}\n- {name: c, C: 2}\n")
    assert main(["run", str(network), "--jobs", "1", "--json", str(path)]) == 0
    assert main(["bench", "quality", str(path), "--layers", "b", "--only", "ws,ws"]) == 0
    out = capsys.readouterr().out
    assert "b" in [line.strip() for line in out.splitlines()]
    assert len(rows(out, "ws")) == 2  # the layer's, and the summary's
    document = json.loads(path.read_text())
    nothing = dict.fromkeys(("mapping", "objective", "bound", "gap", "predicted", "simulated"))
    document["layers"][2] |= nothing | {"status": "INFEASIBLE"}
    path.write_text(json.dumps(document))
    assert main(["bench", "quality", str(path), "--only", "ws"]) == 1
    assert "no mapping for c" in capsys.readouterr().err


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupt_keeps_what_was_found(
    number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Ctrl-C, or SIGTERM, while the second layer is mapped: the first is printed and written, exit code 130; the signal
    means what it did before.
    """
    network, path = tmp_path / "net.yaml", tmp_path / "b.json"
    network.write_text("version: 1\nlayers:\n- {name: a, C: 4, K: 8}\n- {name: b, C: 4}\n")
    compare = cpsat_pim.study.baselines.quality.compare

    def interrupted(problem: Any, *others: Any) -> Any:
        if problem.layer.name == "b":
            signal.raise_signal(number)
        return compare(problem, *others)

    before = signal.getsignal(number)
    monkeypatch.setattr(cpsat_pim.study.baselines.quality, "compare", interrupted)
    assert main(["baselines", str(network), "--only", "ws", "--json", str(path)]) == 130
    assert [layer["name"] for layer in json.loads(path.read_text())] == ["a"]
    assert len(rows(capsys.readouterr().out, "ws")) == 1
    assert signal.getsignal(number) is before


def test_quality_that_was_stopped_while_solving_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """What was solved by then is held against; the other layer was not started."""
    network = tmp_path / "net.yaml"
    network.write_text("version: 1\nlayers:\n- {name: a, C: 4, K: 8}\n- {name: b, C: 4}\n")
    sent: list[int] = []

    def interrupt_once(self: LiveProgress, progress: Any) -> None:
        if not sent:
            sent.append(os.getpid())
            os.kill(os.getpid(), signal.SIGTERM)

    monkeypatch.setattr(LiveProgress, "report", interrupt_once)
    assert main(["bench", "quality", str(network), "--only", "ws", "--jobs", "1"]) == 130
    out, err = capsys.readouterr()
    assert "interrupted: 1 of 2 layers not started" in err
    assert len(rows(out, "ws")) >= 1


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("baselines P=0", "P must be a positive integer"),
        ("baselines P=4 --only sw", "did you mean 'ws'?"),
        ("baselines P=4 --samples 0", "--samples: must be an integer"),
        ("baselines resnet5", "did you mean 'resnet50'?"),
        ("baselines resnet50 --layers conv", "did you mean"),
        ("baselines P=4 --alpha 2", "--objective blended"),
        ("bench", "COMMAND"),
        ("bench quality nowhere.json", "nowhere.json: cannot be read"),
        ("bench quality P=4 --json /nowhere/q.json", "/nowhere/q.json: cannot be written"),
    ],
)
def test_mistake_is_one_line(command: str, message: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit code 2, nothing on stdout."""
    assert main(command.split()) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert message in err
    assert err.count("\n") == 1
