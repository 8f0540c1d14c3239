"""Worker processes on this machine.

Each worker has a pipe of its own, so that a worker that dies is one pipe that ends: its job is known, and all others go
on. (An executor of the standard library fails all its jobs then.) Workers leave Ctrl-C to the parent and end with it.
One that has grown is replaced: of what solves and compiled kernels took, a process does not give all back.
"""

import multiprocessing
import os
import signal
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from multiprocessing.connection import Connection, wait
from pathlib import Path

from cpsat_pim.base.interrupts import interrupts_held_back, work_for_parent
from cpsat_pim.study.sweep.job import Job, Outcome, Work, attempt, died, solve_job

#: How often a job is tried while its workers die.
TRIES = 2
#: MiB that a worker may hold at most if it is to be given another job.
MOST_MIB = 600


def run_locally(jobs: Iterator[Job], *, workers: int, work: Work = solve_job) -> Iterator[Outcome]:
    """The outcomes of jobs, `workers` at a time."""
    pool = _Pool(workers, work)
    try:
        yield from pool.run(jobs)
    finally:
        pool.end()


class _Worker:
    """A process, the job that it has, how often that one was tried, and whether it holds more than `MOST_MIB`."""

    def __init__(self, work: Work) -> None:
        context = multiprocessing.get_context("spawn")
        self.pipe, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(theirs, work), daemon=True)
        with interrupts_held_back():
            self._process.start()
        theirs.close()
        self.job: Job | None = None
        self.tries = 0
        self.is_grown = False

    def begin(self, job: Job, tries: int) -> None:
        """Hand over a job; should the worker be dead, that shows when its outcome is awaited."""
        self.job, self.tries = job, tries
        with suppress(OSError):
            self.pipe.send(job)

    def outcome(self) -> Outcome | None:
        """What the worker sent; None if it has died."""
        try:
            outcome: Outcome
            outcome, mib = self.pipe.recv()
        except (EOFError, OSError):
            return None
        self.job, self.is_grown = None, mib > MOST_MIB
        return outcome

    def end(self) -> str:
        """Kill the process, if it lives; how it ended."""
        self._process.kill()
        self._process.join()
        self.pipe.close()
        code = self._process.exitcode or 0
        return f"its worker was killed by {signal.Signals(-code).name}" if code < 0 else f"its worker ended with {code}"


class _Pool:
    """Up to so many workers, started when there is work for them."""

    def __init__(self, size: int, work: Work) -> None:
        self._size, self._work = size, work
        self._workers: list[_Worker] = []
        self._again: deque[tuple[Job, int]] = deque()

    def run(self, jobs: Iterator[Job]) -> Iterator[Outcome]:
        """Hand out jobs and gather outcomes until there are no more."""
        while busy := self._busy(jobs):
            for pipe in wait([worker.pipe for worker in busy]):
                worker = next(worker for worker in busy if worker.pipe is pipe)
                outcome = worker.outcome() or self._after_death(worker)
                if outcome:
                    yield outcome

    def end(self) -> None:
        """Kill all workers."""
        for worker in self._workers:
            worker.end()
        self._workers.clear()

    def _busy(self, jobs: Iterator[Job]) -> list[_Worker]:
        """All workers that have a job, after those without have been given one as far as there are any."""
        for worker in [worker for worker in self._workers if worker.is_grown]:
            self._workers.remove(worker)
            worker.end()
        idle = [worker for worker in self._workers if worker.job is None]
        while (idle or len(self._workers) < self._size) and (given := self._next(jobs)):
            worker = idle.pop() if idle else _Worker(self._work)
            if worker not in self._workers:
                self._workers.append(worker)
            worker.begin(*given)
        return [worker for worker in self._workers if worker.job]

    def _next(self, jobs: Iterator[Job]) -> tuple[Job, int] | None:
        """A job, and the how-manieth try it is."""
        if self._again:
            return self._again.popleft()
        job = next(jobs, None)
        return (job, 1) if job else None

    def _after_death(self, worker: _Worker) -> Outcome | None:
        """The job of a dead worker is tried again, or failed."""
        self._workers.remove(worker)
        how, job = worker.end(), worker.job
        assert job is not None
        if worker.tries >= TRIES:
            return died(job, how)
        self._again.append((job, worker.tries + 1))
        return None


# --- In a worker -----------------------------------------------------------------------------------------------------


def _serve(pipe: Connection, work: Work) -> None:
    """Answer jobs until there are no more."""
    work_for_parent()
    with suppress(EOFError):
        while True:
            pipe.send((attempt(work, pipe.recv()), _held_mib()))


def _held_mib() -> float:
    """The memory that this process holds; 0 where the system does not tell.

    Not its peak as the system has it: that begins with the peak of whoever started it.
    """
    try:
        pages = Path("/proc/self/statm").read_text().split()[1]
    except OSError:
        return 0.0
    return int(pages) * os.sysconf("SC_PAGE_SIZE") / 2**20
