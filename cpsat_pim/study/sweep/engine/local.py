"""Worker processes on this machine.

Each worker has a pipe of its own, so that the death of a worker is the end of one pipe: its job is known, and all
others continue. (An executor of the standard library would fail all its jobs.) Workers leave Ctrl-C to the parent and
exit with it. A worker that has grown is replaced, because a process does not return all memory of solves and compiled
kernels.
"""

import multiprocessing
import os
import signal
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from multiprocessing.connection import Connection, wait
from pathlib import Path

from cpsat_pim.base.interrupts import block_interrupts, set_up_worker
from cpsat_pim.study.sweep.job import Job, Outcome, Work, attempt, died, solve_job

#: Tries of a job whose workers die.
TRIES = 2
#: The most MiB that a worker may hold to be given another job.
MOST_MIB = 600


def run_locally(jobs: Iterator[Job], *, workers: int, work: Work = solve_job) -> Iterator[Outcome]:
    """Yield the outcomes of jobs, `workers` at a time."""
    pool = _Pool(workers, work)
    try:
        yield from pool.run(jobs)
    finally:
        pool.end()


class _Worker:
    """A process, its current job, the number of tries of that job, and whether the process holds more than
    `MOST_MIB`.
    """

    def __init__(self, work: Work) -> None:
        context = multiprocessing.get_context("spawn")
        self.pipe, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(theirs, work), daemon=True)
        with block_interrupts():
            self._process.start()
        theirs.close()
        self.job: Job | None = None
        self.tries = 0
        self.is_grown = False

    def begin(self, job: Job, tries: int) -> None:
        """Send a job to the process; if the process is dead, `outcome` reports it."""
        self.job, self.tries = job, tries
        with suppress(OSError):
            self.pipe.send(job)

    def outcome(self) -> Outcome | None:
        """Return what the worker sent, or None if it has died."""
        try:
            outcome: Outcome
            outcome, mib = self.pipe.recv()
        except (EOFError, OSError):
            return None
        self.job, self.is_grown = None, mib > MOST_MIB
        return outcome

    def end(self) -> str:
        """Kill the process if it is alive, and return how it ended."""
        self._process.kill()
        self._process.join()
        self.pipe.close()
        code = self._process.exitcode or 0
        return f"its worker was killed by {signal.Signals(-code).name}" if code < 0 else f"its worker ended with {code}"


class _Pool:
    """Up to `workers` processes, started when there are jobs for them."""

    def __init__(self, size: int, work: Work) -> None:
        self._size, self._work = size, work
        self._workers: list[_Worker] = []
        self._again: deque[tuple[Job, int]] = deque()

    def run(self, jobs: Iterator[Job]) -> Iterator[Outcome]:
        """Distribute jobs and yield outcomes until there are no more."""
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
        """Give idle workers the next jobs, and return all workers that have one."""
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
        """Return the next job and the number of its try."""
        if self._again:
            return self._again.popleft()
        job = next(jobs, None)
        return (job, 1) if job else None

    def _after_death(self, worker: _Worker) -> Outcome | None:
        """Retry the job of a dead worker, or return its failure."""
        self._workers.remove(worker)
        how, job = worker.end(), worker.job
        assert job is not None
        if worker.tries >= TRIES:
            return died(job, how)
        self._again.append((job, worker.tries + 1))
        return None


# --- In a worker -----------------------------------------------------------------------------------------------------


def _serve(pipe: Connection, work: Work) -> None:
    """Solve jobs from the pipe until it ends."""
    set_up_worker()
    with suppress(EOFError):
        while True:
            pipe.send((attempt(work, pipe.recv()), _held_mib()))


def _held_mib() -> float:
    """Return the memory of this process in MiB; 0 where the system does not report it.

    The system's peak value is not used: it includes the peak of the process that started this one.
    """
    try:
        pages = Path("/proc/self/statm").read_text().split()[1]
    except OSError:
        return 0.0
    return int(pages) * os.sysconf("SC_PAGE_SIZE") / 2**20
