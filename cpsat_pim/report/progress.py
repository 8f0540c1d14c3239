"""Live progress on stderr: incumbent, bound and gap of the layers being solved; silent if stderr is not a terminal."""

import sys
import threading
from collections.abc import Callable
from typing import TextIO

from rich import box
from rich.console import Console, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from cpsat_pim.mapper.search import Progress
from cpsat_pim.report.format import format_gap, format_objective

_ROWS = 12


class LiveProgress:
    """A context whose callback takes `Progress`, from any thread, and shows the layers with the latest progress."""

    def __init__(self, kind: str, total: int, stream: TextIO | None = None) -> None:
        """Set the objective's name `kind` and the number of distinct layers `total`."""
        stream = stream or sys.stderr
        self._kind, self._total = kind, total
        self._latest: dict[str, Progress] = {}
        self._lock = threading.Lock()
        self._live: Live | None = None
        if stream.isatty():
            console = Console(file=stream)
            self._live = Live(get_renderable=self._draw, console=console, refresh_per_second=4, transient=True)

    def __enter__(self) -> Callable[[Progress], None]:
        if self._live:
            self._live.start()
        return self.report

    def __exit__(self, *exception: object) -> None:
        if self._live:
            self._live.stop()

    def report(self, progress: Progress) -> None:
        """Store the latest progress of a layer; the display refreshes by itself."""
        with self._lock:
            self._latest.pop(progress.layer, None)
            self._latest[progress.layer] = progress

    def _draw(self) -> RenderableType:
        with self._lock:
            latest = list(self._latest.values())
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False, caption=f"{len(latest)} of {self._total} layers started")
        table.add_column("solving", no_wrap=True)
        for heading in ("incumbent", "bound", "gap", "s"):
            table.add_column(heading, justify="right", no_wrap=True)
        for progress in latest[-_ROWS:]:
            table.add_row(Text(progress.layer), *self._cells(progress))
        return table

    def _cells(self, progress: Progress) -> tuple[str, str, str, str]:
        best, bound = progress.incumbent, progress.bound
        gap = (best - bound) / best if best and bound is not None else None
        return self._value(best), self._value(bound), format_gap(gap), f"{progress.seconds:.1f}"

    def _value(self, value: int | float | None) -> str:
        if value is None:
            return "-"
        return format_objective(self._kind, value)
