"""Tasks on a Ray cluster: the cluster of RAY_ADDRESS, or one that is started on this machine."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from cpsat_pim.base.extras import import_extra
from cpsat_pim.study.sweep.engine import EngineError
from cpsat_pim.study.sweep.job import Job, Outcome, Work, attempt, died, failed, solve_job

#: Tasks in flight per CPU, so that no CPU waits for its next task.
_TASKS_PER_CPU = 2


def run_on_ray(jobs: Iterator[Job], *, workers: int, work: Work = solve_job) -> Iterator[Outcome]:
    """Yield the outcomes of jobs, one per CPU of the cluster; `workers` are the CPUs of a cluster that is started here.

    Raises:
        MissingExtra: Ray is not installed.
        EngineError: there is no cluster at RAY_ADDRESS.
    """
    with cluster(workers) as ray:
        yield from _run(ray, jobs, work)


@contextmanager
def cluster(workers: int) -> Iterator[Any]:
    """Connect to a cluster, or start one, until the end of the block; nested blocks use that of the outermost.

    Raises:
        MissingExtra: Ray is not installed.
        EngineError: there is no cluster at RAY_ADDRESS.
    """
    ray = import_extra("ray", "ray")
    is_ours = not ray.is_initialized()
    if is_ours:
        _connect(ray, workers)
    try:
        yield ray
    finally:
        if is_ours:
            ray.shutdown()


def _connect(ray: Any, workers: int) -> None:
    there = {} if os.environ.get("RAY_ADDRESS") else {"num_cpus": workers, "include_dashboard": False}
    try:
        ray.init(log_to_driver=False, logging_level="error", **there)
    except ConnectionError as error:
        raise EngineError(f"RAY_ADDRESS: no Ray cluster answers there: {str(error).splitlines()[0]}") from error
    except Exception as error:  # a cluster of another version raises RuntimeError, and other exceptions are possible
        raise EngineError(f"Ray does not start: {' '.join(str(error).split())}") from error


def _run(ray: Any, jobs: Iterator[Job], work: Work) -> Iterator[Outcome]:
    """Keep every CPU busy; Ray itself retries a task whose worker dies."""
    task = ray.remote(num_cpus=1, max_retries=1)(attempt)
    room = _TASKS_PER_CPU * max(1, int(ray.cluster_resources().get("CPU", 1)))
    flying: dict[Any, Job] = {}
    try:
        while True:
            while len(flying) < room and (job := next(jobs, None)):
                flying[task.remote(work, job)] = job
            if not flying:
                return
            done, _ = ray.wait(list(flying), num_returns=1)
            for reference in done:
                yield _outcome(ray, reference, flying.pop(reference))
    finally:
        for reference in flying:
            ray.cancel(reference, force=True)


def _outcome(ray: Any, reference: Any, job: Job) -> Outcome:
    """Return the outcome of a task, or the failure of its job."""
    try:
        outcome: Outcome = ray.get(reference)
        return outcome
    except ray.exceptions.RayTaskError as error:
        return failed(job, error.cause)
    except ray.exceptions.RayError as error:
        return died(job, f"its worker died ({type(error).__name__})")
