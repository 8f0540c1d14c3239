"""How `run` and `pareto` end: interrupted, killed, with a dead worker, into pipes and redirected files."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

import cpsat_pim.mapper.network.run
from cpsat_pim.cli import main
from cpsat_pim.report.progress import LiveProgress
from tests.cli.commands import read_json


def test_interrupt_reports_and_writes_what_was_found(
    pair: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Ctrl-C at the first mapping: it is in the table and the JSON, layers not started are not, exit code 130."""
    sent: list[Any] = []

    def interrupt_once(self: LiveProgress, progress: Any) -> None:
        if not sent:
            sent.append(progress)
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(LiveProgress, "report", interrupt_once)
    path = tmp_path / "pair.json"
    assert main(["run", pair, "--objective", "energy", "--jobs", "1", "--json", str(path)]) == 130
    out, err = capsys.readouterr()
    data = read_json(path)
    assert data["totals"]["interrupted"] is True
    assert [layer["name"] for layer in data["layers"]] == ["first"]  # the larger one is solved first
    assert data["layers"][0]["mapping"] is not None
    assert "Interrupted" in out
    assert "2 of 3 layers not started" in err


def test_interrupt_within_an_import_ends_with_its_exit_code(tmp_path: Path) -> None:
    """It passes through `exec`, as where `namedtuple` makes a class; `python -m` would end by SIGINT for that."""
    (tmp_path / "interrupted.py").write_text(
        "import sys, cpsat_pim.cli.program as program\n"
        "program._check_environment = lambda: exec('raise KeyboardInterrupt')\n"
        "sys.exit(program.main(['archs']))\n"
    )
    paths = {"PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path])}
    command = [sys.executable, "-m", "interrupted"]
    ended = subprocess.run(command, env=os.environ | paths, capture_output=True, text=True)
    assert (ended.returncode, ended.stderr) == (130, "cpsat_pim: interrupted\n")


def test_death_of_a_worker_loses_no_answer(
    pair: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The layers that were solved are in the table and the JSON; a line on stderr, exit code 2."""

    def die(tasks: list[Any], *others: Any) -> dict[str, Any]:
        first, second = tasks
        return {first.key: first.run(threading.Event(), lambda progress: None), second.key: None}

    monkeypatch.setattr(cpsat_pim.mapper.network.tasks, "_run_in_workers", die)
    path = tmp_path / "pair.json"
    assert main(["run", pair, "--jobs", "2", "--json", str(path)]) == 2
    out, err = capsys.readouterr()
    message = "a worker process was killed: no answer for second, twin; if memory is short, try fewer --jobs"
    assert err == f"cpsat_pim: error: {message}\n"
    assert "first" in out
    assert [layer["name"] for layer in read_json(path)["layers"]] == ["first"]


@pytest.mark.parametrize("command", [["run", "--jobs", "1"], ["pareto"]])
def test_a_killed_run_loses_nothing_that_was_finished(command: list[str], tmp_path: Path) -> None:
    """SIGKILL as soon as a layer is in the JSON: the file is whole and says that there are more."""
    network, path = tmp_path / "many.yaml", tmp_path / "many.json"
    layers = [f"{{name: l{k}, P: 4, C: 4, K: {k}}}" for k in range(2, 14)]
    network.write_text(f"version: 1\nlayers: [{', '.join(layers)}]\n")
    arguments = [*command, str(network), "--json", str(path)]
    with subprocess.Popen([sys.executable, "-m", "cpsat_pim", *arguments], stdout=subprocess.DEVNULL) as process:
        while not path.exists() and process.poll() is None:
            time.sleep(0.01)
        process.kill()
    data = read_json(path)
    assert data["totals"]["interrupted"] is True
    assert 1 <= len(data["layers"]) < len(layers)
    assert all(layer["status"] == "OPTIMAL" for layer in data["layers"])


def test_json_goes_behind_the_table_where_both_are_redirected_to_a_file(tmp_path: Path) -> None:
    """Nothing is written before all is known, and nothing beside the file."""
    network, path = tmp_path / "two.yaml", tmp_path / "out"
    network.write_text("version: 1\nlayers: [{name: a, P: 4, C: 4}, {name: b, C: 4, K: 4}]\n")
    command = [sys.executable, "-m", "cpsat_pim", "run", str(network), "--json", "/dev/stdout", "--jobs", "1"]
    with path.open("w") as out:
        subprocess.run(command, stdout=out, check=True)
    table, brace, document = path.read_text().partition("{")
    assert "OPTIMAL" in table
    assert json.loads(brace + document)["totals"]["interrupted"] is False
    assert sorted(file.name for file in tmp_path.iterdir()) == ["out", "two.yaml"]


def test_reader_of_a_pipe_gets_the_results(tmp_path: Path) -> None:
    """One that waits for them from the beginning and reads to the end of what the first writer writes."""
    network, pipe = tmp_path / "two.yaml", tmp_path / "pipe"
    network.write_text("version: 1\nlayers: [{name: a, P: 4, C: 4}, {name: b, C: 4, K: 4}]\n")
    os.mkfifo(pipe)
    command = [sys.executable, "-m", "cpsat_pim", "run", str(network), "--json", str(pipe), "--jobs", "1"]
    with subprocess.Popen(["cat", pipe], stdout=subprocess.PIPE) as reader:
        subprocess.run(command, check=True, capture_output=True, timeout=100)
        read, _ = reader.communicate(timeout=10)
    assert json.loads(read)["totals"]["interrupted"] is False


@pytest.mark.skipif(not Path("/proc").exists(), reason="looks for processes in /proc")
def test_a_killed_run_leaves_no_workers(tmp_path: Path) -> None:
    """SIGKILL while two of them solve for a minute."""
    network = tmp_path / "hard.yaml"
    layers = [f"{{name: l{k}, R: 3, S: 3, P: 56, Q: 56, C: 64, K: {k}}}" for k in (60, 64)]
    network.write_text(f"version: 1\nlayers: [{', '.join(layers)}]\n")
    command = [sys.executable, "-m", "cpsat_pim", "run", str(network), "--jobs", "2", "--objective", "latency"]

    def family(parent: int) -> set[int]:
        found = [path for path in Path("/proc").iterdir() if path.name.isdecimal()]
        return {int(path.name) for path in found if parent_of(path) == parent}

    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        while len(workers := family(process.pid)) < 3 and process.poll() is None:  # two, and who tracks resources
            time.sleep(0.05)
        time.sleep(1)
        process.kill()
    deadline = time.monotonic() + 20
    while any(Path(f"/proc/{worker}").exists() for worker in workers) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert len(workers) == 3
    assert not [worker for worker in workers if Path(f"/proc/{worker}").exists()]


def parent_of(process: Path) -> int | None:
    """The process that has started another one, if that lives."""
    try:
        return int((process / "stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return None
