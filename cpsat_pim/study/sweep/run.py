"""Run a sweep: send the open jobs of a plan through an engine, and store their outcomes."""

from collections.abc import Iterator
from contextlib import closing

from attrs import field, frozen

from cpsat_pim.study.sweep.engine import Engine
from cpsat_pim.study.sweep.job import Job, Outcome
from cpsat_pim.study.sweep.plan import Plan, Shard, Use
from cpsat_pim.study.sweep.store import Store, Tally


@frozen(kw_only=True)
class Summary:
    """The number of jobs before and after a sweep. Jobs that are open afterwards are being solved by another sweep.

    `outdated`: the jobs that were open before, but had been solved by another version of the program.
    """

    outdated: int
    before: Tally
    after: Tally


class Watch:
    """Observes a running sweep; this base class does nothing."""

    def begin(self, tally: Tally) -> None:
        """Called with the jobs as they are before the sweep."""

    def take(self, job: Job) -> None:
        """Called when a job is about to be solved."""

    def end(self, outcome: Outcome) -> None:
        """Called when a job is done or has failed."""


@frozen(kw_only=True)
class Choice:
    """Which jobs of a plan to solve: those of a shard, with or without those that failed before."""

    shard: Shard = field(factory=Shard)
    retry_failed: bool = False


def run_sweep(
    plan: Plan, store: Store, engine: Engine, choice: Choice | None = None, watch: Watch | None = None
) -> Summary:
    """Solve the open jobs, longest first, and record each outcome when it arrives.

    An interruption, such as Ctrl-C or a full disk, keeps all recorded outcomes; jobs being solved become open again.

    Raises:
        StoreError: the store cannot be written.
        EngineError: the engine cannot run.
    """
    choice, watch = choice or Choice(), watch or Watch()
    uses = plan.uses()
    jobs = _chosen(uses, choice.shard)
    store.register(plan, uses)
    store.begin_sweep()
    if choice.retry_failed:
        store.reopen_failed(jobs)
    outdated, before = store.count_outdated(plan.name), store.tally(jobs)
    watch.begin(before)
    while left := store.open_keys(jobs):
        with closing(engine(_taken(store, [jobs[key] for key in left], watch))) as outcomes:  # type: ignore[type-var]
            for outcome in outcomes:
                store.record(outcome)
                watch.end(outcome)
    return Summary(outdated=outdated, before=before, after=store.tally(jobs))


def _chosen(uses: list[Use], shard: Shard) -> dict[str, Job]:
    """Return the distinct jobs of a shard by key, the longest first."""
    jobs = {use.job.key: use.job for use in reversed(uses)}
    keys = sorted(shard.of(jobs), key=lambda key: (-jobs[key].layer.macs, key))
    return {key: jobs[key] for key in keys}


def _taken(store: Store, jobs: list[Job], watch: Watch) -> Iterator[Job]:
    """Yield jobs that this sweep has taken; each is taken when the engine asks for it."""
    for job in jobs:
        if store.take(job.key):
            watch.take(job)
            yield job
