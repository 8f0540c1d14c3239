"""Tasks of a Slurm array, submitted and watched through submitit.

Each task gets a share of the jobs and writes their outcomes, as they come, to a journal in a folder that all machines
see: lines of JSON, because SQLite's locks do not reach over a network. The sweep follows the journals. One that was
killed finds there, when it is run again, what its tasks have finished meanwhile.
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

#: Seconds between looks at the journals.
POLL_SECONDS = 1.0


def run_on_slurm(
    jobs: Iterator[Job], *, workers: int, folder: Path, parameters: dict[str, Any], work: Work = solve_job
) -> Iterator[Outcome]:
    """The outcomes of jobs, spread over `workers` tasks; `parameters` are submitit's, and `cluster` which one.

    Raises:
        MissingExtra: submitit is not installed.
        EngineError: there is no Slurm, or it does not take the parameters or the tasks.
    """
    submitit = import_extra("submitit", "slurm")
    folder = folder.absolute()
    for journal in sorted(folder.glob("*.jsonl")):  # what has failed there is open again, or was told
        yield from (outcome for outcome in Journal(journal).news() if outcome.failure is None)
    left = {job.key: job for job in jobs}
    submit = partial(_submit, submitit, folder, parameters)
    # Which of its jobs a task died of is not known: each is tried again by itself, so that only that one fails.
    for dealt in (_shares, _singles):
        shares = dealt(list(left.values()), workers)
        for i in range(0, len(shares), workers):
            for outcome in _run(submit, shares[i : i + workers], folder, work):
                if left.pop(outcome.key, None):
                    yield outcome
    for job in left.values():
        yield died(job, f"its task ended before it did (see {folder})")


class Journal:
    """A file of outcomes that grows, and how far it was read."""

    def __init__(self, path: Path) -> None:
        self._path, self._read = path, 0

    def write(self, outcomes: Iterator[Outcome]) -> None:
        """Add outcomes, each on the disk before the next is awaited."""
        with self._path.open("a", encoding="utf-8") as file:
            for outcome in outcomes:
                file.write(outcome.to_line() + "\n")
                file.flush()
                os.fsync(file.fileno())

    def news(self) -> Iterator[Outcome]:
        """The whole lines that were not read before."""
        if not self._path.exists():
            return
        with self._path.open("rb") as file:
            file.seek(self._read)
            lines, end, _ = file.read().rpartition(b"\n")
        self._read += len(lines) + len(end)
        for line in lines.splitlines():
            yield Outcome.from_line(line.decode("utf-8"))


def _shares(jobs: list[Job], tasks: int) -> list[list[Job]]:
    """Dealt out like cards, so that each task has long and short ones."""
    return [jobs[i::tasks] for i in range(min(tasks, len(jobs)))]


def _singles(jobs: list[Job], tasks: int) -> list[list[Job]]:
    return [[job] for job in jobs]


def _submit(submitit: Any, folder: Path, parameters: dict[str, Any], *arguments: Any) -> list[Any]:
    """The tasks of an array, one for each item of the arguments."""
    given = {"name": "cpsat_pim", "cpus_per_task": 1} | parameters
    cluster = given.pop("cluster", None)
    if cluster is None and shutil.which("srun") is None:  # submitit would run all tasks here without a word
        raise EngineError("there is no Slurm here (no srun on the path); --slurm cluster=local runs its tasks here")
    try:
        executor = submitit.AutoExecutor(folder=folder, cluster=cluster)
        executor.update_parameters(**given)
        return list(executor.map_array(*arguments))
    except Exception as error:  # submitit raises whatever its plugins and Slurm do
        raise EngineError(f"submitit: {' '.join(str(error).split())}") from error


def _run(submit: Callable[..., list[Any]], shares: list[list[Job]], folder: Path, work: Work) -> Iterator[Outcome]:
    """Submit a share to each task, and follow them to their end."""
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
    """A task: its jobs one after another, in a process that may die."""
    Journal(path).write(run_locally(iter(jobs), workers=1, work=work))
