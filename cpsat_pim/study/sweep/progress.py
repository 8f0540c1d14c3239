"""A sweep's progress on stderr: done, failed, remaining time, running jobs; a bar on a terminal, else lines."""

import sys
import time
from typing import TextIO

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Column

from cpsat_pim.report.progress import LogLines
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
        self._name, self._failed, self._ended, self._open = name, 0, 0, 0
        self._began = time.monotonic()
        self._log = None if stream.isatty() else LogLines(self._line, stream)
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
        if self._log:
            self._log.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._bar.stop()
        if self._log:
            self._log.stop()

    def begin(self, tally: Tally) -> None:
        """Start the bar; only open jobs count for the speed."""
        self._failed, self._open = tally.failed, tally.open
        self._bar.reset(self._task, total=tally.total, completed=tally.done + tally.failed)
        self._show()

    def take(self, job: Job) -> None:
        """Show the job as running."""
        self._solving[job.key] = str(job)
        self._show()

    def end(self, outcome: Outcome) -> None:
        """Count a finished job."""
        known = self._solving.pop(outcome.key, None)
        self._ended += known is not None
        self._failed += outcome.failure is not None
        self._bar.update(self._task, advance=1 if known else 0)
        self._show()

    def _line(self) -> str:
        """Return the state as a line: jobs that ended, time spent and left, and a job that runs."""
        spent, ended = time.monotonic() - self._began, self._ended
        left = f", about {spent * (self._open - ended) / ended:.0f} s left" if 0 < ended < self._open else ""
        solving = next(iter(list(self._solving.values())), "nothing yet")
        counts = f"{ended} of {self._open} open jobs ended, {self._failed} failed"
        return f"{self._name}: {spent:.0f} s: {counts}{left}; {solving}"

    def _show(self) -> None:
        failed = f"{self._failed} failed" if self._failed else ""
        self._bar.update(self._task, failed=failed, solving=next(iter(self._solving.values()), ""))
