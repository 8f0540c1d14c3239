"""Sweeps through local workers: every different job once, and what becomes of those that kill, raise or do not fit."""

import sqlite3
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from cpsat_pim.study.sweep.engine.local import run_locally
from cpsat_pim.study.sweep.job import Job, Outcome, Work, attempt, solve_job
from cpsat_pim.study.sweep.plan import Shard
from cpsat_pim.study.sweep.reading import read_plan
from cpsat_pim.study.sweep.run import Choice, Summary, Watch, run_sweep
from cpsat_pim.study.sweep.store import Store
from tests.study.sweep import work
from tests.study.sweep.conftest import WritePlan


def run_here(jobs: Iterator[Job], do: Work) -> Iterator[Outcome]:
    """An engine of this process."""
    return (attempt(do, job) for job in jobs)


def sweep(
    plan: Path, do: Work = work.quick, *, workers: int = 0, choice: Choice | None = None, store: Path | None = None
) -> Summary:
    """A whole sweep with some workers, or without any."""
    engine = partial(run_locally, workers=workers, work=do) if workers else partial(run_here, do=do)
    with Store(store or plan.with_suffix(".sqlite")) as opened:
        return run_sweep(read_plan(plan), opened, engine, choice)


def states(plan: Path) -> dict[int, tuple[str, str | None, str | None]]:
    """By output channels: state, failure and reason."""
    with Store(plan.with_suffix(".sqlite"), readonly=True) as store:
        rows = store.query("SELECT json_extract(shape, '$.K'), state, failure, reason FROM results")
    return {k: (state, failure, reason) for k, state, failure, reason in rows}


def test_equal_jobs_are_solved_once(write_plan: WritePlan) -> None:
    """Two points of the same layer, one of another: two jobs, three results."""
    plan = write_plan(2, 3, 2)
    summary = sweep(plan)
    assert (summary.before.total, summary.before.open, summary.after.done) == (2, 2, 2)
    assert list(work.calls().values()) == [1, 1]
    with Store(plan.with_suffix(".sqlite"), readonly=True) as store:
        assert store.query("SELECT energy_fj FROM results ORDER BY point") == [(14000,), (21000,), (14000,)]


def test_what_is_done_is_never_redone(write_plan: WritePlan) -> None:
    """A second run, a larger plan of another name on the same store, and one with other settings."""
    plan = write_plan(2, 3)
    store = plan.with_suffix(".sqlite")
    sweep(plan)
    assert sweep(plan).before.done == 2
    assert sweep(write_plan(2, 3, 4, name="larger"), store=store).before.done == 2
    assert len(work.calls()) == work.calls().total() == 3
    text = 'list: [{network: "K=2", seed: 1}]'
    assert sweep(write_plan(name="other", text=text), store=store).before.done == 0


def test_the_longest_jobs_come_first(write_plan: WritePlan) -> None:
    """An engine that notes what it is given."""
    given: list[int] = []

    def engine(jobs: Iterator[Job]) -> Iterator[Outcome]:
        for job in jobs:
            given.append(job.layer.K)
            yield Outcome(key=job.key, answer=work.quick(job))

    with Store(write_plan().parent / "s.sqlite") as store:
        run_sweep(read_plan(write_plan(2, 9, 4)), store, engine)
    assert given == [9, 4, 2]


def test_shards_solve_their_parts_and_together_all(write_plan: WritePlan) -> None:
    """Three shards of seven jobs on one store; status knows of the others' jobs from the first on."""
    plan = write_plan(*range(1, 8))
    parts = [sweep(plan, choice=Choice(shard=Shard(index=i, count=3))) for i in (1, 2, 3)]
    assert sorted(part.after.done for part in parts) == [2, 2, 3]
    assert sum(part.before.done for part in parts) == 0
    assert list(work.calls().values()) == [1] * 7
    assert {state for state, *_ in states(plan).values()} == {"done"}
    assert sweep(plan, choice=Choice(shard=Shard(index=9, count=9))).after.total == 0  # there are more parts than jobs


def test_a_job_that_kills_its_worker_is_tried_twice_and_the_others_go_on(write_plan: WritePlan) -> None:
    """SIGKILL in the middle of the job: failed with its reason, all others done once."""
    plan = write_plan(*range(10, 16))
    summary = sweep(plan, work.deadly, workers=2)
    assert (summary.after.done, summary.after.failed) == (5, 1)
    assert states(plan)[work.DEADLY] == ("failed", "killed", "its worker was killed by SIGKILL, twice")
    assert sorted(work.calls().values()) == [1, 1, 1, 1, 1, 2]


def test_a_job_whose_worker_dies_once_is_done(write_plan: WritePlan) -> None:
    """The second try succeeds."""
    assert sweep(write_plan(work.DEADLY, 2), work.deadly_once, workers=1).after.done == 2
    assert sorted(work.calls().values()) == [1, 2]


def test_what_fails_is_kept_with_its_reason_and_retried_on_demand(write_plan: WritePlan) -> None:
    """Not by itself: only with `retry_failed`; then it may well succeed."""
    plan = write_plan(work.RAISING, 2)
    sweep(plan, work.deadly)
    assert states(plan)[work.RAISING] == ("failed", "error", "RuntimeError: no way")
    assert sweep(plan, work.quick).after.failed == 1
    assert sorted(work.calls().values()) == [1, 1]
    assert sweep(plan, work.quick, choice=Choice(retry_failed=True)).after.done == 2
    assert states(plan)[work.RAISING] == ("done", None, None)


@pytest.mark.parametrize(("most_mib", "workers"), [(10, 3), (1 << 20, 1)])
def test_workers_that_have_grown_are_replaced(
    write_plan: WritePlan, monkeypatch: pytest.MonkeyPatch, most_mib: int, workers: int
) -> None:
    """One takes all jobs, or only one of them if it has more memory than it may have."""
    monkeypatch.setattr("cpsat_pim.study.sweep.engine.local.MOST_MIB", most_mib)
    assert sweep(write_plan(2, 3, 4), workers=1).after.done == 3
    assert len(work.pids()) == workers


def test_an_interrupted_sweep_leaves_its_jobs_open(write_plan: WritePlan) -> None:
    """Ctrl-C after the first result: that one is kept, the other jobs can be taken by any sweep."""
    plan = write_plan(2, 3, 4, 5)

    class Interrupt(Watch):
        def end(self, outcome: Outcome) -> None:
            raise KeyboardInterrupt

    with Store(plan.with_suffix(".sqlite")) as store, pytest.raises(KeyboardInterrupt):
        run_sweep(read_plan(plan), store, partial(run_locally, workers=2, work=work.slow), watch=Interrupt())
    summary = sweep(plan)
    assert (summary.before.done, summary.before.open, summary.after.done) == (1, 3, 4)


def test_answers_of_another_version_are_not_used(write_plan: WritePlan) -> None:
    """Both stay in the store; the plan's results are the new ones, and the summary counts the old ones."""
    plan = write_plan(2, 3)
    sweep(plan)
    with sqlite3.connect(plan.with_suffix(".sqlite")) as database:  # as if an older program had written them
        database.execute("UPDATE jobs SET code = 'older', key = 'older-' || key")
        database.execute("UPDATE uses SET job = 'older-' || job")
    database.close()
    summary = sweep(plan)
    assert (summary.before.done, summary.outdated, summary.after.done) == (0, 2, 2)
    with Store(plan.with_suffix(".sqlite"), readonly=True) as store:
        assert store.query("SELECT count(*), count(DISTINCT code) FROM jobs") == [(4, 2)]
        assert store.query("SELECT count(*) FROM results WHERE code = 'older'") == [(0,)]


def test_only_another_version_makes_an_answer_outdated(write_plan: WritePlan) -> None:
    """The same layer done without constraints, or under others, is not an older result of this job."""
    plan = write_plan(2)
    sweep(plan)
    (plan.parent / "c.yaml").write_text("version: 1\ndataflow: OS\n")
    bound = write_plan(name="bound", text='list: [{network: "K=2", constraints: c.yaml}]')
    summary = sweep(bound, store=plan.with_suffix(".sqlite"))
    assert (summary.before.done, summary.outdated, summary.after.done) == (0, 0, 1)


def test_the_solver_s_answers_are_kept_as_a_results_file_has_them(write_plan: WritePlan) -> None:
    """The real thing, once: proven, verified, and a layer that fits nowhere fails with the reason."""
    text = """
base: {network: "C=4,K=4"}
list:
- {}
- arch.hierarchy.DRAM.entries: 8
"""
    plan = write_plan(text=text)
    summary = sweep(plan, solve_job, workers=1)
    assert (summary.after.done, summary.after.failed) == (1, 1)
    with Store(plan.with_suffix(".sqlite"), readonly=True) as store:
        (done,) = store.rows("SELECT * FROM results WHERE state = 'done'")
        (failed,) = store.rows("SELECT * FROM results WHERE state = 'failed'")
    assert (done["status"], done["gap"], done["objective_value"]) == ("OPTIMAL", 0, done["energy_fj"])
    assert failed["failure"] == "unfit"
    assert "LocalDRAM" in failed["reason"]
