"""Solve node problems, here or in worker processes that stay until the search ends."""

import math
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from typing import Any

from attrs import evolve

from cpsat_pim.base.interrupts import block_interrupts, set_up_worker
from cpsat_pim.mapper.network.compile import worker_context

#: Seconds between two looks at the stop.
_POLL_SECONDS = 0.1

#: Seconds that a solve leaves to each one behind it: enough for some mapping.
RESERVED_SECONDS = 2.0

#: A solve takes at most so many times an equal share of the time that is left: without that, the first hard problems of
#: GoogLeNet took 20 s each, and four in ten of the others ended after 2 s with gaps of 10 to 60 %.
MOST_SHARES = 2.0

#: Seconds that are too few to begin a solve.
LEAST_SECONDS = 0.2

#: Receives the key of a task and its result.
OnDone = Callable[[Any, Any], None]


class WorkerKilled(Exception):
    """A worker process was killed."""


class _Worker:
    """What a worker process was given when it started."""

    stop: Any = None


def _start(stop: Any) -> None:
    set_up_worker()
    _Worker.stop = stop


def _run(task: Any) -> Any:
    """Run a task in a worker; None if the stop came first."""
    return None if _Worker.stop.is_set() else task.run(_Worker.stop, _ignore)


def _ignore(progress: Any) -> None:
    """Report nothing."""


class Workers:
    """Runs tasks of `cpsat_pim.mapper.network.tasks`, `jobs` at a time, until `stop` is set.

    Several jobs run in processes, which are started at the first task and ended by `close`.
    """

    def __init__(self, jobs: int, stop: threading.Event) -> None:
        self.jobs, self.stop = jobs, stop
        self._pool: ProcessPoolExecutor | None = None
        self._workers_stop: Any = None

    def run(self, tasks: Sequence[Any], on_done: OnDone, until: float = math.inf) -> None:
        """Run tasks in their order; those that a stop, or the time `until`, prevents have no result.

        Each leaves `RESERVED_SECONDS` to each task behind it, or an equal share where that is less, and takes at most
        `MOST_SHARES` equal shares.

        Raises:
            WorkerKilled: a worker process was killed, for want of memory perhaps.
            Disagreement: a mapping is illegal, or some exact figure was predicted wrongly.
        """
        waiting = deque(tasks)
        self._run(lambda: self._next(waiting, until), on_done)

    def run_short(self, tasks: Iterable[Any], on_done: OnDone, is_over: Callable[[], bool] = lambda: False) -> None:
        """Run tasks that take little time, in their order; none begins once `is_over` says so, or after a stop.

        Each is asked for when it begins, so it may depend on what those before it found.

        Raises:
            WorkerKilled: a worker process was killed, for want of memory perhaps.
        """
        waiting = iter(tasks)
        self._run(lambda: None if self.stop.is_set() or is_over() else next(waiting, None), on_done)

    def _run(self, following: Callable[[], Any], on_done: OnDone) -> None:
        """Run one task after the other, or several at a time, until none follows."""
        if self.jobs > 1:
            self._run_in_workers(following, on_done)
            return
        while (task := following()) is not None:
            on_done(task.key, task.run(self.stop, _ignore))

    def leaving(self, tasks: int, until: float) -> float:
        """Return when a first pass ends: it leaves so many tasks behind it a little time, at most half of all."""
        now = time.monotonic()
        return max(now + (until - now) / 2, until - RESERVED_SECONDS * tasks / self.jobs)

    def _next(self, waiting: deque[Any], until: float) -> Any:
        """Return the next task, with what time the ones behind it leave; None if there is none, or no time."""
        left = until - time.monotonic()
        if not waiting or self.stop.is_set() or left < LEAST_SECONDS:
            return None
        task = waiting.popleft()
        behind = len(waiting) / self.jobs
        equal = left / (1 + behind)
        share = max(equal, min(left - RESERVED_SECONDS * behind, MOST_SHARES * equal))
        return evolve(task, request=evolve(task.request, time_limit=min(task.request.time_limit, share)))

    def _run_in_workers(self, following: Callable[[], Any], on_done: OnDone) -> None:
        pool = self._started()
        pending: dict[Future[Any], Any] = {}
        try:
            while True:
                while len(pending) < self.jobs and (task := following()) is not None:
                    with block_interrupts():  # processes start when tasks are submitted, and inherit the block
                        pending[pool.submit(_run, task)] = task.key
                if not pending:
                    return
                for future in wait(pending, _POLL_SECONDS, FIRST_COMPLETED).done:
                    key, found = pending.pop(future), future.result()
                    if found is not None:
                        on_done(key, found)
                if self.stop.is_set():
                    self._workers_stop.set()
        except BrokenProcessPool as death:
            raise WorkerKilled("a worker process was killed; if memory is short, try fewer --jobs") from death

    def _started(self) -> ProcessPoolExecutor:
        if self._pool is None:
            context = worker_context(self.stop)
            self._workers_stop = context.Event()
            self._pool = ProcessPoolExecutor(self.jobs, context, initializer=_start, initargs=(self._workers_stop,))
        return self._pool

    def close(self) -> None:
        """End the worker processes; what they solve is given up."""
        if self._pool is not None:
            self._workers_stop.set()
            self._pool.shutdown(wait=True, cancel_futures=True)
            self._pool = None
