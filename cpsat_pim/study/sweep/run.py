"""A sweep: what is open of a plan goes through an engine into the store."""

from collections.abc import Iterator
from contextlib import closing

from attrs import field, frozen

from cpsat_pim.study.sweep.engine import Engine
from cpsat_pim.study.sweep.job import Job, Outcome
from cpsat_pim.study.sweep.plan import Plan, Shard, Use
from cpsat_pim.study.sweep.store import Store, Tally


@frozen(kw_only=True)
class Summary:
    """A sweep's jobs before and after; what is open after it is being solved by another sweep.

    `outdated` of the plan's jobs that were open before had been done by another version of the program.
    """

    outdated: int
    before: Tally
    after: Tally


class Watch:
    """What is told of a sweep while it runs; this one does nothing with it."""

    def begin(self, tally: Tally) -> None:
        """The jobs as they are before."""

    def take(self, job: Job) -> None:
        """A job is about to be solved."""

    def end(self, outcome: Outcome) -> None:
        """A job has been solved or has failed."""


@frozen(kw_only=True)
class Choice:
    """Which of a plan's jobs are to be solved: those of a shard, with or without those that have failed before."""

    shard: Shard = field(factory=Shard)
    retry_failed: bool = False


def run_sweep(
    plan: Plan, store: Store, engine: Engine, choice: Choice | None = None, watch: Watch | None = None
) -> Summary:
    """Solve what is open, longest first, and record each outcome as it comes.

    What stops it, such as Ctrl-C or a full disk, leaves all that was recorded; jobs being solved are open again.

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
    """The different jobs of a shard by their keys, the longest first."""
    jobs = {use.job.key: use.job for use in reversed(uses)}
    keys = sorted(shard.of(jobs), key=lambda key: (-jobs[key].layer.macs, key))
    return {key: jobs[key] for key in keys}


def _taken(store: Store, jobs: list[Job], watch: Watch) -> Iterator[Job]:
    """Jobs that this sweep has taken, each when it is asked for."""
    for job in jobs:
        if store.take(job.key):
            watch.take(job)
            yield job
