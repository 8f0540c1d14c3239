"""The commands of `sweep` as a user runs them, with the solver where a result is needed."""

import io
import os
import pty
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from cpsat_pim.arch.reading import arch_names, read_arch
from cpsat_pim.cli import main
from cpsat_pim.study.sweep.job import Job, Outcome
from cpsat_pim.study.sweep.progress import LiveSweep
from cpsat_pim.study.sweep.reading import read_plan
from cpsat_pim.study.sweep.run import run_sweep
from cpsat_pim.study.sweep.store import Store, Tally
from cpsat_pim.workload.network import network_names
from tests.study.sweep import work
from tests.study.sweep.conftest import WritePlan

#: A sweep that takes a job and holds it until it is killed.
HOLD = """
import sys
from cpsat_pim.study.sweep.store import Store
with Store(sys.argv[1]) as store:
    store.begin_sweep()
    print(store.take(sys.argv[2]), flush=True)
    input()
"""
PLANS = sorted((Path(__file__).parents[3] / "scripts" / "sweeps").glob("*.yaml"))


def solve_with(plan: Path, **outcome: str) -> None:
    """Record a result, or the given outcome, for every open job of a plan."""
    with Store(plan.with_suffix(".sqlite")) as store:
        run_sweep(
            read_plan(plan),
            store,
            lambda jobs: (Outcome(key=j.key, **(outcome or {"answer": work.quick(j)})) for j in jobs),  # type: ignore[arg-type]
        )


def error_line(capsys: pytest.CaptureFixture[str]) -> str:
    """The only line, on stderr."""
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1), err
    assert err.startswith("cpsat_pim: error: ")
    return err


def test_a_sweep_warns_of_doubtful_figures_of_machines(
    write_plan: WritePlan, capsys: pytest.CaptureFixture[str]
) -> None:
    """As `run` does, once for each machine: 500 Hz are meant to be MHz, and a row has some size that the plan may
    give.
    """
    plan = write_plan(
        text="base: {network: 'C=4,K=4'}\nlist:\n- {arch: slow.yaml}\n- {arch: slow.yaml, objective: latency}\n"
        "- {arch: whole.yaml}\n- {arch: whole.yaml, arch.hierarchy.ROW_BUFFER.row_buffer_size: 2048}\n"
    )
    (plan.parent / "slow.yaml").write_text("version: 1\nextends: hbm-pim\nclock: 1000\ndram_timings: {tREFI: 100000}\n")
    levels = "".join(f"- {{name: {name}, entries: 4096, word_bytes: 1}}\n" for name in "abcd")
    (plan.parent / "whole.yaml").write_text(f"version: 1\nhierarchy:\n{levels}")
    solve_with(plan)
    assert main(["sweep", str(plan)]) == 0
    slow, whole = capsys.readouterr().err.splitlines()
    assert slow.startswith("cpsat_pim: warning: slow: clock: 1,000 Hz is outside of ")
    assert whole.startswith("cpsat_pim: warning: whole: figures are missing, so defaults are taken: ")
    assert "hierarchy[2].row_buffer_size = 1024 B" in whole


def test_a_sweep_is_solved_resumed_and_exported(write_plan: WritePlan, capsys: pytest.CaptureFixture[str]) -> None:
    """`sweep PLAN` twice, `status`, `export`; nothing on stderr, which is no terminal."""
    plan = write_plan(text='base: {network: "C=4,K=4"}\ngrid: {objective: [energy], arch: [default, hbm-pim]}\n')
    assert main(["sweep", str(plan), "--jobs", "1"]) == 0
    out, err = capsys.readouterr()
    assert out.splitlines()[0] == "plan: 2 jobs: 2 done, 0 failed, 0 open; 0 were done before"
    assert err == ""
    assert main(["sweep", str(plan), "--resume"]) == 0
    assert "2 done, 0 failed, 0 open; 2 were done before" in capsys.readouterr().out
    assert main(["sweep", "status", str(plan)]) == 0
    assert capsys.readouterr().out.startswith("plan: 2 points, 2 jobs: 2 done, 0 failed, 0 open\n2 done in the store: ")
    assert main(["sweep", "export", str(plan), "--by", "network"]) == 0
    header, *rows = capsys.readouterr().out.splitlines()
    assert header.startswith("plan,point,network,arch,objective,")
    assert len(rows) == 2


def test_failures_are_reported_with_their_reasons_and_exit_code_1(
    write_plan: WritePlan, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two jobs of one reason: a line on stderr, one in the status; then nothing is tried again by itself."""
    plan = write_plan(2, 3)
    solve_with(plan, failure="error", reason="no way")
    assert main(["sweep", str(plan)]) == 1
    assert "2 failed (see `sweep status" in capsys.readouterr().err
    assert main(["sweep", "status", str(plan)]) == 0
    assert "failed: 2 x no way (layer on default for energy, ...)" in capsys.readouterr().out


def test_layers_without_a_mapping_are_exit_code_1_and_disagreements_3(write_plan: WritePlan) -> None:
    """As `run` has it."""
    plan = write_plan(2)
    with Store(plan.with_suffix(".sqlite")) as store:
        unmapped = {"status": "UNKNOWN", "predicted": None, "simulated": None, "mapping": None, "objective": None}
        answer = work.quick(read_plan(plan).uses()[0].job) | unmapped
        run_sweep(read_plan(plan), store, lambda jobs: (Outcome(key=job.key, answer=answer) for job in jobs))
    assert main(["sweep", str(plan)]) == 1
    plan = write_plan(2, name="wrong")
    solve_with(plan, failure="disagreement", reason="differs", detail="{}")
    assert main(["sweep", str(plan)]) == 3


def test_ctrl_c_keeps_what_had_finished(write_plan: WritePlan) -> None:
    """The program itself, with the solver: 130, two lines that say where it goes on, no traceback, no process left."""
    text = 'base: {network: "P=14,Q=14,C=64,K=64,R=3,S=3", objective: latency, time_limit: 60}\ngrid: {seed: [1, 2, 3]}'
    plan = write_plan(text=text)
    # A shell that starts the tests in the background makes them, and so all that they start, deaf to Ctrl-C.
    hears = "import signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler)"
    program = f"{hears}; from cpsat_pim.cli import main; sys.exit(main())"
    command = [sys.executable, "-c", program, "sweep", str(plan), "--jobs", "2"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, start_new_session=True) as process:
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
        end = time.monotonic() + 60
        while len(pids := children.read_text().split()) < 2 and time.monotonic() < end:
            time.sleep(0.05)
        time.sleep(0.3)
        os.killpg(process.pid, signal.SIGINT)
        _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert err.count("\n") == 2
    assert "the same command continues from there" in err
    assert not any(Path(f"/proc/{pid}/cmdline").exists() and Path(f"/proc/{pid}/cmdline").read_text() for pid in pids)


@pytest.mark.parametrize(
    "arguments",
    [
        ["nowhere.yaml"],
        ["PLAN", "--shard", "0/3"],
        ["PLAN", "--shard", "3"],
        ["PLAN", "--resume"],
        ["PLAN", "--engine", "cloud"],
        ["PLAN", "--jobs", "0"],
        ["PLAN", "--slurm", "timeout_min=3"],
        ["PLAN", "--engine", "slurm", "--slurm", "timeout_min"],
        ["PLAN", "--store", "/nowhere/s.sqlite"],
        ["PLAN", "--store", "/"],
        ["status", "nowhere.sqlite"],
        ["export", "nowhere.sqlite"],
        ["merge", "/nowhere/s.sqlite", "nowhere.sqlite"],
        ["status"],
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(
    write_plan: WritePlan, arguments: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before anything is solved or written."""
    plan = write_plan(2)
    monkeypatch.chdir(plan.parent)
    assert main(["sweep", *(str(plan) if word == "PLAN" else word for word in arguments)]) == 2
    error_line(capsys)
    assert [path.name for path in plan.parent.iterdir()] == ["plan.yaml"]


def test_a_job_that_another_sweep_solves_leaves_the_plan_open(
    write_plan: WritePlan, capsys: pytest.CaptureFixture[str]
) -> None:
    """The other one is done; a line for what is not, and exit code 1: not every layer has a mapping."""
    path, store = write_plan(2, 3), write_plan(2, 3).with_suffix(".sqlite")
    plan = read_plan(path)
    with Store(store) as written:
        written.register(plan, plan.uses())
    command = [sys.executable, "-c", HOLD, str(store), plan.uses()[0].job.key]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"True\n"
        assert main(["sweep", str(path), "--jobs", "1"]) == 1
        other.kill()
    out, err = capsys.readouterr()
    assert "1 done, 0 failed, 1 open" in out
    assert f"1 are being solved by another sweep on {store}" in err


def test_a_plan_s_mistakes_are_a_line_each(write_plan: WritePlan, capsys: pytest.CaptureFixture[str]) -> None:
    """All of them, on stderr."""
    plan = write_plan(text="base: {network: resnet51}\ngrid: {arch: [nowhere], seed: [-1]}")
    assert main(["sweep", str(plan)]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert [line.split(": ")[3] for line in err.splitlines()] == ["base.network", "grid.arch[0]", "grid.seed[0]"]
    assert all(line.startswith(f"cpsat_pim: error: {plan}:") for line in err.splitlines())


def everything(terminal: int) -> str:
    """What was written to a terminal whose other end is closed."""
    pieces = []
    with os.fdopen(terminal, "rb", buffering=0) as file, suppress(OSError):
        while piece := file.read(4096):
            pieces.append(piece)
    return b"".join(pieces).decode()


def test_progress_is_shown_on_a_terminal_only(write_plan: WritePlan) -> None:
    """How many of how many, failures, what is being solved, the time left; on anything else nothing at all."""
    job: Job = read_plan(write_plan(2)).uses()[0].job
    ours, theirs = pty.openpty()
    with os.fdopen(theirs, "w") as terminal, LiveSweep("mine", terminal) as watch:
        watch.begin(Tally(open=4, done=5, failed=1))
        watch.take(job)
    shown = everything(ours)
    for text in ("mine", "6/10", "1 failed", "left"):
        assert text in shown
    silent = io.StringIO()
    with LiveSweep("mine", silent) as watch:
        watch.begin(Tally(open=1))
        watch.take(job)
        watch.end(Outcome(key=job.key))
    assert silent.getvalue() == ""


@pytest.mark.parametrize("path", PLANS, ids=lambda path: path.stem)
def test_the_plans_of_scripts_can_be_read(path: Path) -> None:
    """Each has points and says in its head how it is run."""
    assert len(read_plan(path).points) > 1
    assert f"python -m cpsat_pim sweep scripts/sweeps/{path.name}" in path.read_text()


def test_machines_sweeps_over_all_that_comes_with_the_package() -> None:
    """A machine or network that is added is added there."""
    points = read_plan(PLANS[0].parent / "machines.yaml").points
    assert {point.arch.name for point in points} == {read_arch(name).name for name in arch_names()}
    assert {point.network.name for point in points} == set(network_names())


def test_there_are_plans() -> None:
    """So that the test above tests something."""
    assert len(PLANS) >= 3
