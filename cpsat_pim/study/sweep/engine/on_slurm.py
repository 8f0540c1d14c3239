"""Tasks of a Slurm array, submitted and watched through submitit.

Each task gets a share of the jobs and appends their outcomes to a journal in a shared folder. A journal is a file of
JSON lines, because SQLite's locks do not work over a network file system. The sweep reads the journals. A sweep that
was killed finds there, when it is resumed, the outcomes of its tasks.
"""

import os
import shutil
import time
import uuid
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from cpsat_pim.base.extras import import_extra
from cpsat_pim.study.sweep.engine import EngineError
from cpsat_pim.study.sweep.engine.local import run_locally
from cpsat_pim.study.sweep.job import Job, Outcome, Work, died, solve_job

#: Seconds between reads of the journals.
POLL_SECONDS = 1.0


def run_on_slurm(
    jobs: Iterator[Job], *, workers: int, folder: Path, parameters: dict[str, Any], work: Work = solve_job
) -> Iterator[Outcome]:
    """Yield the outcomes of jobs, spread over `workers` tasks. `parameters` are submitit's; `cluster` selects the
    cluster.

    Raises:
        MissingExtra: submitit is not installed.
        EngineError: Slurm is missing, or rejects the parameters or the tasks.
    """
    submitit = import_extra("submitit", "slurm")
    folder = folder.absolute()
    for journal in sorted(folder.glob("*.jsonl")):  # failed jobs in them are open again, or were reported
        yield from (outcome for outcome in Journal(journal).news() if outcome.failure is None)
    left = {job.key: job for job in jobs}
    submit = partial(_submit, submitit, folder, parameters)
    # It is unknown which of its jobs killed a task. Each is retried in a task of its own, so that only that one fails.
    for dealt in (_shares, _singles):
        shares = dealt(list(left.values()), workers)
        for i in range(0, len(shares), workers):
            for outcome in _run(submit, shares[i : i + workers], folder, work):
                if left.pop(outcome.key, None):
                    yield outcome
    for job in left.values():
        yield died(job, f"its task ended before it did (see {folder})")


class Journal:
    """A growing file of outcomes, and the position up to which it was read."""

    def __init__(self, path: Path) -> None:
        self._path, self._read = path, 0

    def write(self, outcomes: Iterator[Outcome]) -> None:
        """Append outcomes; each is on disk before the next is awaited."""
        with self._path.open("a", encoding="utf-8") as file:
            for outcome in outcomes:
                file.write(outcome.to_line() + "\n")
                file.flush()
                os.fsync(file.fileno())

    def news(self) -> Iterator[Outcome]:
        """Yield the complete lines that were not read before."""
        if not self._path.exists():
            return
        with self._path.open("rb") as file:
            file.seek(self._read)
            lines, end, _ = file.read().rpartition(b"\n")
        self._read += len(lines) + len(end)
        for line in lines.splitlines():
            yield Outcome.from_line(line.decode("utf-8"))


def _shares(jobs: list[Job], tasks: int) -> list[list[Job]]:
    """Distribute the jobs round-robin, so that each task gets long and short ones."""
    return [jobs[i::tasks] for i in range(min(tasks, len(jobs)))]


def _singles(jobs: list[Job], tasks: int) -> list[list[Job]]:
    return [[job] for job in jobs]


def _submit(submitit: Any, folder: Path, parameters: dict[str, Any], *arguments: Any) -> list[Any]:
    """Submit an array with one task per item of the arguments."""
    given = {"name": "cpsat_pim", "cpus_per_task": 1} | parameters
    cluster = given.pop("cluster", None)
    if cluster is None and shutil.which("srun") is None:  # without Slurm submitit would silently run all tasks here
        raise EngineError("there is no Slurm here (no srun on the path); --slurm cluster=local runs its tasks here")
    try:
        executor = submitit.AutoExecutor(folder=folder, cluster=cluster)
        executor.update_parameters(**given)
        return list(executor.map_array(*arguments))
    except Exception as error:  # submitit passes on all exceptions of its plugins and of Slurm
        raise EngineError(f"submitit: {' '.join(str(error).split())}") from error


def _run(submit: Callable[..., list[Any]], shares: list[list[Job]], folder: Path, work: Work) -> Iterator[Outcome]:
    """Submit a share to each task, and yield outcomes until all tasks end."""
    name = uuid.uuid4().hex
    paths = [folder / f"{name}-{i}.jsonl" for i in range(len(shares))]
    tasks = submit(_write_outcomes, [work] * len(shares), shares, paths)
    journals = [Journal(path) for path in paths]
    try:
        while True:
            is_over = all(task.done() for task in tasks)
            for journal in journals:
                yield from journal.news()
            if is_over:
                break
            time.sleep(POLL_SECONDS)
    except BaseException:
        for task in tasks:
            task.cancel()
        raise
    for path in paths:
        path.unlink(missing_ok=True)


def _write_outcomes(work: Work, jobs: list[Job], path: Path) -> None:
    """Run a task: solve its jobs one after another, each in a process that may die."""
    Journal(path).write(run_locally(iter(jobs), workers=1, work=work))
