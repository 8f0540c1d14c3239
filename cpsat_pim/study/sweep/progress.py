"""A progress bar of a sweep on stderr: done, failed, remaining time, running jobs; silent without a terminal."""

import sys
from typing import TextIO

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Column

from cpsat_pim.study.sweep.job import Job, Outcome
from cpsat_pim.study.sweep.run import Watch
from cpsat_pim.study.sweep.store import Tally

#: Longer names are cut.
_ONE_LINE = Column(no_wrap=True, overflow="ellipsis")

#: The remaining time is estimated from the last hour, since jobs take seconds to minutes.
_ESTIMATE_SECONDS = 3600.0


class LiveSweep(Watch):
    """A context that displays a sweep's progress."""

    def __init__(self, name: str, stream: TextIO | None = None) -> None:
        stream = stream or sys.stderr
        self._name, self._failed = name, 0
        self._solving: dict[str, str] = {}
        self._bar = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[failed]}", style="red"),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
            TextColumn("{task.fields[solving]}", style="dim", markup=False, table_column=_ONE_LINE),
            console=Console(file=stream),
            transient=True,
            speed_estimate_period=_ESTIMATE_SECONDS,
            disable=not stream.isatty(),
        )
        self._task = self._bar.add_task(name, total=None, failed="", solving="")

    def __enter__(self) -> "LiveSweep":
        self._bar.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._bar.stop()

    def begin(self, tally: Tally) -> None:
        """Start the bar; only open jobs count for the speed."""
        self._failed = tally.failed
        self._bar.reset(self._task, total=tally.total, completed=tally.done + tally.failed)
        self._show()

    def take(self, job: Job) -> None:
        """Show the job as running."""
        self._solving[job.key] = str(job)
        self._show()

    def end(self, outcome: Outcome) -> None:
        """Count a finished job."""
        known = self._solving.pop(outcome.key, None)
        self._failed += outcome.failure is not None
        self._bar.update(self._task, advance=1 if known else 0)
        self._show()

    def _show(self) -> None:
        failed = f"{self._failed} failed" if self._failed else ""
        self._bar.update(self._task, failed=failed, solving=next(iter(self._solving.values()), ""))
