"""Run solves of layers: one after another in this process, or several at a time in worker processes.

A worker runs `solve_and_verify` on plain frozen values. It sends its progress through a queue, and receives a stop
through an event. Both are handed over when it starts, so nothing depends on how processes are started. Workers ignore
Ctrl-C: the parent turns it into the stop, and they end their solves with what they have.
"""

import queue
import threading
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from functools import partial
from multiprocessing.context import BaseContext
from typing import Any

from attrs import field, frozen

from cpsat_pim.arch import PIMArchitecture
from cpsat_pim.base.interrupts import Stop, block_interrupts, interrupt_stops, set_up_worker
from cpsat_pim.base.validate import positive
from cpsat_pim.mapper.network.compile import worker_context
from cpsat_pim.mapper.network.verified import solve_and_verify
from cpsat_pim.mapper.result import SolvedLayer
from cpsat_pim.mapper.search import OnProgress, SolveRequest, ignore_progress
from cpsat_pim.workload import ConvWorkload

#: Seconds between two checks of the workers' progress and of the stop.
_POLL_SECONDS = 0.1


@frozen(kw_only=True)
class Execution:
    """How solves are run: `jobs` at a time, each in a process of its own if there are several, until `stop` is set.

    Raises:
        ValueError: `jobs` is no positive integer.
    """

    jobs: int = field(default=1, validator=positive)
    stop: threading.Event = field(factory=threading.Event)
    on_progress: OnProgress = ignore_progress


@frozen(kw_only=True)
class Task:
    """One solve: of a layer on a machine. `key` identifies the layers that its result is of."""

    key: str
    layer: ConvWorkload
    arch: PIMArchitecture
    request: SolveRequest

    def run(self, stop: Any, on_progress: OnProgress) -> SolvedLayer:
        """Solve and verify."""
        return solve_and_verify(self.layer, self.arch, self.request, stop, on_progress)


#: Results by the keys of tasks; None where the worker was killed; tasks that were not begun are absent.
Results = dict[str, SolvedLayer | None]
#: Receives all results so far whenever there are more.
OnResults = Callable[[Results], None]


def ignore_results(results: Results) -> None:
    """Do nothing with them."""


def run_tasks(tasks: list[Task], execution: Execution, on_results: OnResults = ignore_results) -> Results:
    """Run all tasks in their order; a stop, or Ctrl-C, ends those that are running with what they have.

    Raises:
        Disagreement: a mapping is illegal, or some exact figure was predicted wrongly.
    """
    run = _run_here if execution.jobs == 1 or len(tasks) == 1 else _run_in_workers
    return run(tasks, execution, on_results)


# --- In this process -------------------------------------------------------------------------------------------------


def _run_here(tasks: list[Task], execution: Execution, on_results: OnResults) -> Results:
    """Run one task after another."""
    results: Results = {}
    with interrupt_stops(execution.stop):
        for task in tasks:
            if execution.stop.is_set():
                break
            results[task.key] = task.run(execution.stop, execution.on_progress)
            on_results(results)
    return results


# --- In workers ------------------------------------------------------------------------------------------------------


#: The keys of the tasks.
_Futures = dict[Future[SolvedLayer | None], str]


class _Worker:
    """What a worker process was given when it started."""

    stop: Any = None
    progress: Any = None


def _start_worker(stop: Any, progress: Any) -> None:
    set_up_worker()
    progress.cancel_join_thread()  # a worker that ends must not wait for a parent that has stopped listening
    _Worker.stop, _Worker.progress = stop, progress


def _work(task: Task) -> SolvedLayer | None:
    """Run a task in a worker; return None if the stop came before it began."""
    return None if _Worker.stop.is_set() else task.run(_Worker.stop, _Worker.progress.put)


def _run_in_workers(tasks: list[Task], execution: Execution, on_results: OnResults) -> Results:
    """Run tasks in as many processes as `jobs`, each of which takes one after another.

    A worker that is killed breaks the pool. The tasks that are left then run one at a time, in a process each, which
    needs less memory. A task that dies there, too, has no result.
    """
    results, is_broken = _run_in_pool(tasks, execution, on_results)
    lost: Results = {}
    for task in tasks if is_broken else ():
        if task.key not in results and not execution.stop.is_set():
            more, is_lost = _run_in_pool([task], execution, partial(_add_results, on_results, dict(results)))
            results |= more
            lost |= {task.key: None} if is_lost else {}
    return lost | results


def _add_results(on_results: OnResults, known: Results, new: Results) -> None:
    """Receive results in addition to those that are known."""
    on_results(known | new)


def _run_in_pool(tasks: list[Task], execution: Execution, on_results: OnResults) -> tuple[Results, bool]:
    """Submit tasks at once to a pool of processes; return the results, and whether a worker was killed."""
    with interrupt_stops(execution.stop):
        context = worker_context(execution.stop)
        return _run_in_pool_of(context, tasks, execution, on_results)


def _run_in_pool_of(
    context: BaseContext, tasks: list[Task], execution: Execution, on_results: OnResults
) -> tuple[Results, bool]:
    """Run tasks in processes that begin in a given way."""
    workers_stop, progress = context.Event(), context.Queue()
    jobs, initargs = min(execution.jobs, len(tasks)), (workers_stop, progress)
    with ProcessPoolExecutor(jobs, context, initializer=_start_worker, initargs=initargs) as pool:
        futures: _Futures = {}
        if execution.stop.is_set():
            workers_stop.set()
        try:
            with block_interrupts():
                for task in tasks:
                    futures[pool.submit(_work, task)] = task.key
            _await(futures, progress, execution, workers_stop, on_results)
        except BrokenProcessPool:
            return _results(futures), True
        except BaseException:
            workers_stop.set()
            pool.shutdown(wait=True, cancel_futures=True)
            raise
    return _results(futures), False


def _results(futures: _Futures) -> Results:
    """Return the results of futures that have ended."""
    ended = {key: future.result() for future, key in futures.items() if future.done() and not future.exception()}
    return {key: solved for key, solved in ended.items() if solved}


def _await(futures: _Futures, progress: Any, execution: Execution, workers_stop: Stop, on_results: OnResults) -> None:
    """Wait until all futures are done; meanwhile pass on progress and results to the caller, and the stop to workers.

    Raises:
        Exception: what the first task that failed raised.
    """
    pending = set(futures)
    while pending:
        if execution.stop.is_set():
            workers_stop.set()
        done, pending = wait(pending, _POLL_SECONDS, FIRST_COMPLETED)
        _pass_on(progress, execution.on_progress)
        for future in done:
            future.result()
        if done:
            on_results(_results(futures))
    _pass_on(progress, execution.on_progress)


def _pass_on(progress: Any, on_progress: OnProgress) -> None:
    """Report the progress that has arrived so far."""
    while True:
        try:
            on_progress(progress.get_nowait())
        except queue.Empty:
            return
