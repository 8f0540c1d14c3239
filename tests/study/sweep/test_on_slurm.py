"""The same jobs through submitit, whose own local executor stands in for a cluster."""

import sys
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from cpsat_pim.cli import main
from cpsat_pim.study.sweep.engine import EngineError, on_slurm
from cpsat_pim.study.sweep.engine.on_slurm import Journal, run_on_slurm
from cpsat_pim.study.sweep.job import Job, Outcome, failed
from cpsat_pim.study.sweep.reading import read_plan
from cpsat_pim.study.sweep.run import Summary, run_sweep
from cpsat_pim.study.sweep.store import Store
from tests.study.sweep import work
from tests.study.sweep.conftest import WritePlan


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Look often."""
    monkeypatch.setattr(on_slurm, "POLL_SECONDS", 0.1)


def sweep(plan: Path, do: object, tasks: int = 2) -> Summary:
    """A sweep as an array of tasks."""
    pytest.importorskip("submitit", reason="needs the extra slurm")
    parameters = {"cluster": "local", "timeout_min": 2}
    folder = plan.parent / "slurm"
    engine = partial(run_on_slurm, workers=tasks, folder=folder, parameters=parameters, work=do)  # type: ignore[arg-type]
    with Store(plan.with_suffix(".sqlite")) as store:
        return run_sweep(read_plan(plan), store, engine)


def test_tasks_answer_the_same_jobs(write_plan: WritePlan) -> None:
    """Done, raised and killed; the journals are gone once all is in the store."""
    plan = write_plan(2, 3, 4, work.DEADLY, work.RAISING)
    summary = sweep(plan, work.deadly)
    assert (summary.after.done, summary.after.failed, summary.after.open) == (3, 2, 0)
    assert sorted(work.calls().values()) == [1, 1, 1, 1, 2]
    assert not list((plan.parent / "slurm").glob("*.jsonl"))


def kill_the_task(job: Job) -> dict[str, object]:
    """A job that takes its whole task with it, as a node that fails does."""
    import os
    import signal

    if job.layer.K == work.DEADLY:
        os.kill(os.getppid(), signal.SIGKILL)
        signal.pause()
    return work.quick(job)


def test_a_task_that_dies_costs_only_the_job_that_killed_it(
    write_plan: WritePlan, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One task has all jobs and dies with the longest, first one; then each is a task of its own, no more at a time
    than there may be.
    """
    sizes: list[int] = []
    submit = on_slurm._submit

    def noted(submitit: Any, folder: Path, parameters: dict[str, Any], do: Any, works: list[Any], *others: Any) -> Any:
        sizes.append(len(works))
        return submit(submitit, folder, parameters, do, works, *others)

    monkeypatch.setattr(on_slurm, "_submit", noted)
    plan = write_plan(2, 3, work.DEADLY)
    summary = sweep(plan, kill_the_task, tasks=1)
    assert sizes == [1] * 4
    assert (summary.after.done, summary.after.failed) == (2, 1)
    with Store(plan.with_suffix(".sqlite"), readonly=True) as store:
        ((failure, reason),) = store.query("SELECT failure, reason FROM results WHERE state = 'failed'")
    assert failure == "killed"
    assert "its task ended before it did" in reason


def test_a_killed_sweep_finds_what_its_tasks_have_finished(write_plan: WritePlan) -> None:
    """A journal that nobody has read, its last line cut off: the whole lines are used, the rest is solved."""
    plan = write_plan(2, 3)
    (longer, shorter) = sorted((use.job for use in read_plan(plan).uses()), key=lambda job: -job.layer.K)
    (plan.parent / "slurm").mkdir()
    line = Outcome(key=longer.key, answer=work.quick(longer)).to_line()
    (plan.parent / "slurm" / "left.jsonl").write_text(f"{line}\n{line[:50]}")
    assert sweep(plan, work.quick).after.done == 2
    assert work.calls() == {longer.key: 1, shorter.key: 1}


def test_a_journal_gives_each_line_once(tmp_path: Path) -> None:
    """While it grows, in the middle of a line and of a letter."""
    outcomes = [Outcome(key=key, reason="ü") for key in "abc"]
    text = "".join(outcome.to_line() + "\n" for outcome in outcomes).replace("\\u00fc", "ü").encode()
    path = tmp_path / "j.jsonl"
    journal = Journal(path)
    assert list(journal.news()) == []
    seen = []
    for i in range(len(text)):
        path.write_bytes(text[: i + 1])
        seen += journal.news()
    assert seen == outcomes


def test_parameters_that_submitit_does_not_know_are_one_line(write_plan: WritePlan) -> None:
    """And nothing is left taken."""
    pytest.importorskip("submitit", reason="needs the extra slurm")
    plan = write_plan(2)
    engine = partial(run_on_slurm, workers=1, folder=plan.parent / "s", parameters={"cluster": "local", "colour": 3})
    with Store(plan.with_suffix(".sqlite")) as store, pytest.raises(EngineError, match=r"submitit: .*colour"):
        run_sweep(read_plan(plan), store, engine)
    with Store(plan.with_suffix(".sqlite")) as store:
        assert len(store.open_keys([read_plan(plan).uses()[0].job.key])) == 1


def test_where_there_is_no_slurm_nothing_runs_here_instead(
    write_plan: WritePlan, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A line says how to ask for that."""
    pytest.importorskip("submitit", reason="needs the extra slurm")
    monkeypatch.setenv("PATH", "/nowhere")
    assert main(["sweep", str(write_plan(2)), "--engine", "slurm"]) == 2
    assert "--slurm cluster=local runs its tasks here" in capsys.readouterr().err


def test_a_submission_that_is_refused_is_one_line(write_plan: WritePlan, tmp_path: Path) -> None:
    """As by Slurm, of a partition that is not there: here by a folder that is a file."""
    pytest.importorskip("submitit", reason="needs the extra slurm")
    plan, file = write_plan(2), tmp_path / "file"
    file.write_text("")
    engine = partial(run_on_slurm, workers=1, folder=file / "s", parameters={"cluster": "local"})
    with Store(plan.with_suffix(".sqlite")) as store, pytest.raises(EngineError, match="submitit: "):
        run_sweep(read_plan(plan), store, engine)


def test_failures_in_journals_that_were_left_are_tried_again(write_plan: WritePlan) -> None:
    """They were reported when they were read first, and are not the result of another try."""
    plan = write_plan(2)
    (job,) = (use.job for use in read_plan(plan).uses())
    (plan.parent / "slurm").mkdir()
    left = failed(job, ValueError("then"))
    (plan.parent / "slurm" / "left.jsonl").write_text(left.to_line() + "\n")
    assert sweep(plan, work.quick).after.done == 1


def test_without_submitit_there_is_one_line(
    write_plan: WritePlan, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """How to install it."""
    monkeypatch.setitem(sys.modules, "submitit", None)
    assert main(["sweep", str(write_plan(2)), "--engine", "slurm"]) == 2
    assert capsys.readouterr().err == "cpsat_pim: error: submitit is not installed: pip install 'cpsat-pim[slurm]'\n"
