"""Solve and verify: one layer here, the layers of a network here or in worker processes.

A worker runs `solve_and_verify` on plain frozen objects. Its progress comes back through a queue, a stop goes to it
through an event; both are handed over when it starts, so nothing of this depends on how processes are started. Workers
leave Ctrl-C to the parent, which turns it into the stop: they end their solves with what they have.
"""

import multiprocessing
import queue
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from typing import Any

import attrs

from cpsat_pim.arch import PIMArchitecture
from cpsat_pim.base.interrupts import Stop, interrupt_stops, interrupts_held_back, work_for_parent
from cpsat_pim.base.validate import positive
from cpsat_pim.evaluate.verify import Disagreement, verify
from cpsat_pim.mapper.network.compile import compile_kernels
from cpsat_pim.mapper.objectives.padding import solve_padded
from cpsat_pim.mapper.result import Known, NetworkLayer, Objective, SolvedLayer, SolvedNetwork
from cpsat_pim.mapper.search import Options, Progress
from cpsat_pim.mapping import Mapping
from cpsat_pim.mapping.constraints import FREE, Constraints, NetworkConstraints, check_constraints
from cpsat_pim.workload import ConvWorkload
from cpsat_pim.workload.network import Network, NetworkNode
from cpsat_pim.workload.padding import check_padding

Report = Callable[[Progress], None]

#: Seconds between looks at the workers' progress and at the stop.
_POLL_SECONDS = 0.1


class WorkersDied(Exception):
    """A worker process was killed, and with it all that was not solved yet; `solved` is what was."""

    def __init__(self, solved: SolvedNetwork, lost: list[str]) -> None:
        super().__init__(f"a worker process was killed: no answer for {', '.join(lost)}")
        self.solved = solved


def ignore_progress(progress: Progress) -> None:
    """Report nothing."""


def solve_and_verify(
    layer: ConvWorkload,
    arch: PIMArchitecture,
    objective: Objective,
    options: Options | None = None,
    report: Report = ignore_progress,
    padding: float = 0.0,
) -> SolvedLayer:
    """The solved layer with its mapping checked, recosted and simulated, and what was known while solving.

    Awkward bounds may be padded with at most the share `padding` of MACs more; the answer's `workload` is padded so.

    Raises:
        ValueError: the mapping to start from breaks a constraint, or `padding` is not from 0 to below 1.
        Disagreement: the mapping is illegal or breaks a constraint, or some exact figure was predicted wrongly.
    """
    compile_kernels()
    known: list[Known] = []

    def hear(progress: Progress) -> None:
        if not known or known[-1][1:] != (progress.best, progress.bound):
            known.append((progress.seconds, progress.best, progress.bound))
        report(progress)

    solved = solve_padded(layer, arch, objective, options or Options(), padding, hear)
    solved = attrs.evolve(solved, progress=tuple(known))
    if solved.mapping is None or solved.prediction is None:
        return solved
    broken = check_constraints(solved.mapping, solved.constraints)
    if broken:
        raise Disagreement(solved.workload, arch, solved.mapping, broken, solved.predicted, None)
    return attrs.evolve(solved, simulated=verify(solved.workload, arch, solved.mapping, solved.prediction))


def solve_network(
    network: Network,
    arch: PIMArchitecture,
    objective: Objective,
    *,
    names: Sequence[str] | None = None,
    time_limit: float = 60.0,
    seed: int = 0,
    jobs: int = 1,
    report: Report = ignore_progress,
    stop: threading.Event | None = None,
    starts: dict[str, Mapping] | None = None,
    constraints: Constraints | NetworkConstraints = FREE,
    padding: float = 0.0,
    keep: Callable[[SolvedNetwork], None] | None = None,
) -> SolvedNetwork:
    """Every layer of a network (or those named), equal ones solved once, longest first, `jobs` at a time.

    `starts` are legal mappings of some layers, by name, to start from; mappings keep the `constraints`. Awkward bounds
    may be padded with at most the share `padding` of MACs more: see `SolvedLayer`.
    `stop`, or Ctrl-C, ends the solves that are running with the best they have; layers not begun are then absent.
    `keep` is given what is solved so far whenever there is more, as if it had ended there.

    Raises:
        ValueError: no layer has one of the names, a number is out of range, or a mapping to start from breaks a
            constraint.
        Disagreement: a mapping is illegal, or some exact figure was predicted wrongly.
        WorkersDied: a worker process was killed.
    """
    if problem := positive.broken_by(jobs):
        raise ValueError(f"jobs: {problem} (got {jobs})")
    check_padding(padding)
    started = time.monotonic()
    nodes = (network if names is None else network.only(names)).layers
    limits = Options(time_limit=time_limit, seed=seed)
    whole = NetworkConstraints.whole(constraints)
    asked = _Asked(arch, objective, limits.time_limit, limits.seed, starts or {}, whole, padding)
    tasks = asked.tasks(nodes)
    stop = stop or threading.Event()

    def solved_with(answers: Answers, interrupted: bool) -> SolvedNetwork:
        return SolvedNetwork(
            network=network.name,
            arch=arch,
            objective=objective,
            layers=tuple(as_layer(node, answer) for node in nodes if (answer := answers.get(asked.key(node)))),
            seconds=time.monotonic() - started,
            interrupted=interrupted,
        )

    def keep_part(answers: Answers) -> None:
        if keep and len(answers) < len(tasks):
            keep(solved_with(answers, interrupted=True))

    answers = run_tasks(tasks, jobs, report, stop, keep_part)
    lost = [node.name for node in nodes if answers.get(asked.key(node), ...) is None]
    solved = solved_with(answers, stop.is_set() or bool(lost))
    if lost:
        raise WorkersDied(solved, lost)
    return solved


# --- Layers to tasks -------------------------------------------------------------------------------------------------


@attrs.frozen(kw_only=True)
class Task:
    """One solve: `key` says which layers it answers."""

    key: str
    layer: ConvWorkload
    arch: PIMArchitecture
    objective: Objective
    time_limit: float
    seed: int = 0
    start: Mapping | None = None
    constraints: Constraints = FREE
    padding: float = 0.0

    def run(self, stop: Any, report: Report) -> SolvedLayer:
        """Solve and verify."""
        options = Options(
            time_limit=self.time_limit, seed=self.seed, stop=stop, start=self.start, constraints=self.constraints
        )
        return solve_and_verify(self.layer, self.arch, self.objective, options, report, self.padding)


#: Answers by the keys of tasks, None where the worker was killed; tasks not begun are absent.
Answers = dict[str, SolvedLayer | None]
#: Told all answers so far whenever there are more.
Keep = Callable[[Answers], None]


def keep_nothing(answers: Answers) -> None:
    """Leave answers to the end."""


def run_tasks(
    tasks: list[Task], jobs: int, report: Report, stop: threading.Event, keep: Keep = keep_nothing
) -> Answers:
    """All tasks in their order, `jobs` at a time; a stop, or Ctrl-C, ends those that are running with what they have.

    Raises:
        Disagreement: a mapping is illegal, or some exact figure was predicted wrongly.
    """
    run = _run_here if jobs == 1 or len(tasks) == 1 else _run_in_workers
    return run(tasks, min(jobs, len(tasks)), report, stop, keep)


@attrs.frozen
class _Asked:
    """What is asked of every layer."""

    arch: PIMArchitecture
    objective: Objective
    time_limit: float
    seed: int
    starts: dict[str, Mapping]
    constraints: NetworkConstraints
    padding: float

    def key(self, node: NetworkNode) -> str:
        """What layers share that are solved once."""
        return self.constraints.key(node.name, node.workload)

    def tasks(self, nodes: Sequence[NetworkNode]) -> list[Task]:
        """One task for all layers of a key, the longest first."""
        first = {self.key(node): node for node in reversed(nodes)}
        starts = {self.key(node): self.starts[node.name] for node in reversed(nodes) if node.name in self.starts}
        tasks = [self._task(key, node, starts.get(key)) for key, node in reversed(first.items())]
        return sorted(tasks, key=lambda task: -task.layer.macs)

    def _task(self, key: str, node: NetworkNode, start: Mapping | None) -> Task:
        """The first of a key is solved, from the first mapping that one of them has."""
        return Task(
            key=key,
            layer=node.workload,
            arch=self.arch,
            objective=self.objective,
            time_limit=self.time_limit,
            seed=self.seed,
            start=start,
            constraints=self.constraints.of(node.name),
            padding=self.padding,
        )


def as_layer(node: NetworkNode, solved: SolvedLayer) -> NetworkLayer:
    """A node's own answer: that of an equal layer, under the node's name."""
    own = attrs.evolve(solved, workload=attrs.evolve(solved.workload, name=node.workload.name))
    return NetworkLayer(name=node.name, count=node.count, after=node.after, solved=own)


# --- In this process -------------------------------------------------------------------------------------------------


def _run_here(tasks: list[Task], jobs: int, report: Report, stop: threading.Event, keep: Keep) -> Answers:
    """One task after another."""
    solved: Answers = {}
    with interrupt_stops(stop):
        for task in tasks:
            if stop.is_set():
                break
            solved[task.key] = task.run(stop, report)
            keep(solved)
    return solved


# --- In workers ------------------------------------------------------------------------------------------------------


#: The tasks' keys.
_Futures = dict[Future[SolvedLayer | None], str]


class _Worker:
    """What a worker process was given when it started."""

    stop: Any = None
    progress: Any = None


def _start_worker(stop: Any, progress: Any) -> None:
    work_for_parent()
    progress.cancel_join_thread()  # a worker that ends must not wait for a parent that has stopped listening
    _Worker.stop, _Worker.progress = stop, progress


def _work(task: Task) -> SolvedLayer | None:
    """Run a task in a worker; nothing if the stop came before it began."""
    return None if _Worker.stop.is_set() else task.run(_Worker.stop, _Worker.progress.put)


def _run_in_workers(tasks: list[Task], jobs: int, report: Report, stop: threading.Event, keep: Keep) -> Answers:
    """All tasks at once, `jobs` processes taking one after another."""
    context = multiprocessing.get_context("spawn")
    workers_stop, progress = context.Event(), context.Queue()
    with (
        interrupt_stops(stop),
        ProcessPoolExecutor(jobs, context, initializer=_start_worker, initargs=(workers_stop, progress)) as pool,
    ):
        futures: _Futures = {}
        try:
            with interrupts_held_back():
                for task in tasks:
                    futures[pool.submit(_work, task)] = task.key
            _await(futures, progress, report, stop, workers_stop, keep)
        except BrokenProcessPool:
            pass  # what was answered before is kept
        except BaseException:
            workers_stop.set()
            pool.shutdown(wait=True, cancel_futures=True)
            raise
    answered = [key for future, key in futures.items() if not future.exception()]
    return {task.key: None for task in tasks if task.key not in answered} | _answers(futures)


def _answers(futures: _Futures) -> Answers:
    """What futures that have ended have brought."""
    ended = {key: future.result() for future, key in futures.items() if future.done() and not future.exception()}
    return {key: solved for key, solved in ended.items() if solved}


def _await(futures: _Futures, progress: Any, report: Report, stop: Stop, workers_stop: Any, keep: Keep) -> None:
    """Wait until all futures are done, passing progress on one way and the stop the other way, and answers to `keep`.

    Raises:
        Exception: what the first task that failed raised.
    """
    pending = set(futures)
    while pending:
        done, pending = wait(pending, _POLL_SECONDS, FIRST_COMPLETED)
        _pass_on(progress, report)
        for future in done:
            future.result()
        if done:
            keep(_answers(futures))
        if stop.is_set():
            workers_stop.set()
    _pass_on(progress, report)


def _pass_on(progress: Any, report: Report) -> None:
    """Report what has arrived so far."""
    while True:
        try:
            report(progress.get_nowait())
        except queue.Empty:
            return
