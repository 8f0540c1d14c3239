"""Trials as jobs and points of a sweep's store: a machine that was evaluated is never evaluated again (docs/tuner.md).

A trial's job has the place of a layer's: its shape is the machine's values, its options are the fidelity, its key is a
digest of all that its cost depends on. So a store of trials is taken, resumed, shared and merged like one of sweeps.
"""

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, cast

from attrs import asdict, field, frozen

from cpsat_pim.arch import PIMArchitecture
from cpsat_pim.mapping.constraints import FREE, Constraints
from cpsat_pim.study.sweep.engine import Engine
from cpsat_pim.study.sweep.job import Job, Outcome, attempt, digest
from cpsat_pim.study.sweep.plan import Plan, Use
from cpsat_pim.study.sweep.store import Store
from cpsat_pim.study.sweep.versions import Versions, current_versions
from cpsat_pim.tuner.evaluate import Evaluator
from cpsat_pim.tuner.task import Fidelity, TuneTask

#: Parts of `cpsat_pim` on which a trial's cost depends, and a layer's solution does not.
_PARTS = ("planner", "tuner")
#: The name under which a trial's cost stands among the objectives of a store.
KIND = "hardware"
#: Seconds between looks at a machine that another process is evaluating.
_PATIENCE = 0.2


@frozen(kw_only=True)
class _Machine:
    """What the store takes for a layer: the machine's values."""

    name: str
    shape: Mapping[str, float]


@frozen(kw_only=True)
class _Cost:
    """What the store takes for an objective."""

    data: Mapping[str, Any]

    def to_dict(self) -> dict[str, Any]:
        """Convert to plain data, with the columns of a store's view."""
        return {"kind": KIND, "alpha": self.data["alpha"], "beta": self.data["beta"], **self.data}


@frozen(kw_only=True, eq=False)
class TrialJob:
    """A machine to evaluate, with the fields of a sweep's `Job` that a store and an engine use."""

    task: TuneTask
    values: Mapping[str, float]
    arch: PIMArchitecture
    versions: Versions = field(factory=lambda: current_versions(*_PARTS))
    constraints: Constraints = FREE
    key: str = field(init=False)

    @key.default
    def _content(self) -> str:
        return digest(
            [self.arch.to_dict() | {"name": ""}, dict(self.values), _identity(self.task), asdict(self.versions)]
        )

    @property
    def layer(self) -> _Machine:
        """The machine, in the place of a layer."""
        return _Machine(name=self.task.name, shape=dict(self.values))

    @property
    def objective(self) -> _Cost:
        """The cost, in the place of an objective."""
        return _Cost(data=self.task.to_dict())

    @property
    def options(self) -> Fidelity:
        """The fidelity, in the place of options."""
        return self.task.fidelity

    def __str__(self) -> str:
        return self.arch.name


@lru_cache(maxsize=4)
def _identity(task: TuneTask) -> str:
    """Return a digest of all but the machine: networks, cost, fidelity."""
    shapes = [[node.workload.shape for node in network.layers] for network in task.networks]
    reference = task.space.array(task.reference).node.to_dict() | {"name": ""}
    return digest([task.to_dict(), shapes, reference, dict(task.space.shared), asdict(task.fidelity)])


@frozen(kw_only=True)
class _Network:
    """What the store takes for a point's network."""

    name: str


@frozen(kw_only=True)
class _Point:
    """What the store takes for a point."""

    settings: Mapping[str, Any]
    network: _Network
    arch: PIMArchitecture


@frozen(kw_only=True)
class _Points:
    """What the store takes for a plan."""

    name: str
    points: Sequence[_Point]


# --- Evaluation ------------------------------------------------------------------------------------------------------


@lru_cache(maxsize=1)
def _evaluator(task: TuneTask) -> Evaluator:
    return Evaluator(task)


def evaluate_job(job: Job) -> dict[str, Any]:
    """Evaluate the machine of a `TrialJob`; return its entry of the store.

    Raises:
        Unplanned: a network has no plan on it, or none was found in time.
        RuntimeError: this installation is not the one that planned the job.
    """
    trial, started = cast(TrialJob, job), time.monotonic()
    if trial.versions != (own := current_versions(*_PARTS)):
        raise RuntimeError(f"the trial is of {trial.versions}, its worker of {own}")
    found = _evaluator(_known_task(trial)).evaluate(trial.values)
    names = tuple(network.name for network in trial.task.networks)
    gap = max(0.0, (found.cost - found.bound) / found.cost)
    # A cost of a model is no solution that could be simulated: its status says only whether the bound meets it.
    return {
        "status": "OPTIMAL" if gap == 0 and trial.task.fidelity.name == "plan" else "FEASIBLE",
        "objective": found.cost,
        "gap": gap,
        "predicted": None,
        "simulated": None,
        "solve_seconds": time.monotonic() - started,
        "machine": dict(trial.values),
        **found.to_dict(names),
    }


#: The task of an engine's process, by its digest: each job brings a copy of its own.
_TASKS: dict[str, TuneTask] = {}


def _known_task(trial: TrialJob) -> TuneTask:
    return _TASKS.setdefault(_identity(trial.task), trial.task)


class TrialStore:
    """The trials of one run in a store; without a store they are kept for this run."""

    def __init__(self, task: TuneTask, name: str, store: Store | None, engine: Engine) -> None:
        self.task, self.name, self.store, self.engine = task, name, store, engine
        self._jobs: list[TrialJob] = []
        self._known: dict[str, dict[str, Any] | Outcome] = {}
        self._settings: list[dict[str, Any]] = []
        if store is not None:
            store.begin_sweep()

    def evaluate(
        self, machines: Sequence[Mapping[str, float]], settings: Mapping[str, Any]
    ) -> list[dict[str, Any] | Outcome]:
        """Return what the store has, or the engine finds, of some machines: an entry, or a failed outcome."""
        jobs = [self._job(values) for values in machines]
        self._jobs += jobs
        self._settings += [dict(settings) | {"trial": len(self._settings) + i} for i in range(len(jobs))]
        if self.store is None:
            return self._kept(jobs)
        self._register()
        return self._stored(jobs)

    def _kept(self, jobs: list[TrialJob]) -> list[dict[str, Any] | Outcome]:
        """Evaluate those of some jobs that were not evaluated in this run, whatever the order of their outcomes."""
        fresh = {job.key: job for job in jobs if job.key not in self._known}
        for outcome in self.engine(iter(cast(list[Job], list(fresh.values())))) if fresh else ():
            self._known[outcome.key] = _entry(outcome)
        return [self._known[job.key] for job in jobs]

    def _job(self, values: Mapping[str, float]) -> TrialJob:
        return TrialJob(task=self.task, values=values, arch=self.task.space.array(values).node)

    def _stored(self, jobs: list[TrialJob]) -> list[dict[str, Any] | Outcome]:
        """Evaluate the open ones of some jobs, and return all entries from the store."""
        assert self.store is not None
        left = {job.key: job for job in jobs}
        while self.store.tally(left).open:
            keys = self.store.open_keys(left)
            for outcome in self.engine(self._taken([left[key] for key in keys])):
                self.store.record(outcome)
            if not keys:  # another process evaluates what is left
                time.sleep(_PATIENCE)
        return [self._read(job) for job in jobs]

    def _taken(self, jobs: list[TrialJob]) -> Iterator[Job]:
        assert self.store is not None
        for job in jobs:
            if self.store.take(job.key):
                yield cast(Job, job)

    def _read(self, job: TrialJob) -> dict[str, Any] | Outcome:
        assert self.store is not None
        row = self.store.query("SELECT answer, reason FROM jobs WHERE key = ?", job.key)[0]
        return json.loads(row[0]) if row[0] else Outcome(key=job.key, reason=row[1])

    def _register(self) -> None:
        """Store the run's points: all its trials so far."""
        assert self.store is not None
        network = _Network(name=", ".join(network.name for network in self.task.networks))
        points = [
            _Point(settings=settings | dict(job.values), network=network, arch=job.arch)
            for job, settings in zip(self._jobs, self._settings, strict=True)
        ]
        uses = [
            Use(point=i, position=0, layer=job.arch.name, count=1, job=cast(Job, job))
            for i, job in enumerate(self._jobs)
        ]
        self.store.register(cast(Plan, _Points(name=self.name, points=points)), uses)


def _entry(outcome: Outcome) -> dict[str, Any] | Outcome:
    return outcome if outcome.answer is None else outcome.answer


def here(work: Callable[[Job], dict[str, Any]] = evaluate_job) -> Engine:
    """Return an engine that evaluates in this process, one after the other."""

    def run(jobs: Iterator[Job]) -> Iterator[Outcome]:
        for job in jobs:
            yield attempt(work, job)

    return run
