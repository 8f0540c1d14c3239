"""Progress on stderr: a live table of the layers being solved on a terminal, else a line now and then."""

import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import TextIO

from rich import box
from rich.console import Console, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from cpsat_pim.base.processes import DISPLAY_THREAD
from cpsat_pim.mapper.search import Progress
from cpsat_pim.report.format import format_gap, format_objective, visible

_ROWS = 12
#: Seconds until the first line where stderr is no terminal, and between lines. Short runs print none.
_FIRST_SECONDS, _NEXT_SECONDS = 20.0, 20.0


class LiveProgress:
    """A context whose callback takes `Progress`, from any thread, and shows the layers with the latest progress."""

    def __init__(self, kind: str, total: int, stream: TextIO | None = None) -> None:
        """Set the objective's name `kind` and the number of distinct layers `total`."""
        stream = stream or sys.stderr
        self._kind, self._total, self._began = kind, total, time.monotonic()
        #: When the first layer was begun: kernels may be compiled before.
        self._layers_began: float | None = None
        self._latest: dict[str, Progress] = {}
        self._lock = threading.Lock()
        self._shown: Live | LogLines = LogLines(self._line, stream)
        if stream.isatty():
            console = Console(file=stream)
            self._shown = Live(get_renderable=self._draw, console=console, refresh_per_second=4, transient=True)

    def __enter__(self) -> Callable[[Progress], None]:
        before = set(threading.enumerate())
        self._shown.start()
        for thread in set(threading.enumerate()) - before:
            thread.name = DISPLAY_THREAD
        return self.report

    def __exit__(self, *exception: object) -> None:
        self._shown.stop()

    def report(self, progress: Progress) -> None:
        """Store the latest progress of a layer; the display refreshes by itself."""
        with self._lock:
            if self._layers_began is None:
                self._layers_began = time.monotonic() - progress.seconds
            self._latest.pop(progress.layer, None)
            self._latest[progress.layer] = progress

    # A terminal

    def _draw(self) -> RenderableType:
        with self._lock:
            latest = list(self._latest.values())
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False, caption=f"{len(latest)} of {self._total} layers started")
        table.add_column("solving", no_wrap=True)
        for heading in ("incumbent", "bound", "gap", "s"):
            table.add_column(heading, justify="right", no_wrap=True)
        for progress in latest[-_ROWS:]:
            table.add_row(Text(visible(progress.layer)), *self._cells(progress))
        return table

    def _cells(self, progress: Progress) -> tuple[str, str, str, str]:
        gap = _gap(progress)
        return (
            self._value(progress.incumbent),
            self._value(progress.bound),
            format_gap(gap),
            f"{progress.seconds:.1f}",
        )

    def _value(self, value: int | float | None) -> str:
        if value is None:
            return "-"
        return format_objective(self._kind, value)

    # A file or a pipe

    def _line(self) -> str:
        """Return the state as a line: layers begun and proven, time spent and left, and the latest layer."""
        with self._lock:
            latest, began = list(self._latest.values()), self._layers_began
        now = time.monotonic()
        spent = now - self._began
        if not latest or began is None:
            return f"{spent:.0f} s: no layer begun; kernels are compiled first, once per installation (a minute)"
        proven = sum(_gap(progress) == 0 for progress in latest)
        left = (now - began) * (self._total - proven) / proven if proven else 0
        estimate = f", about {left:.0f} s left" if left else ""
        best, bound, gap, seconds = self._cells(latest[-1])
        return (
            f"{spent:.0f} s: {len(latest)} of {self._total} layers begun, {proven} proven{estimate}; "
            f"{visible(latest[-1].layer)}: {best}, bound {bound}, gap {gap} after {seconds} s"
        )


def _gap(progress: Progress) -> float | None:
    best, bound = progress.incumbent, progress.bound
    return (best - bound) / best if best and bound is not None else None


class LogLines:
    """Prints a line about work from time to time, from a thread of its own."""

    def __init__(self, line: Callable[[], str], stream: TextIO) -> None:
        self._line, self._stream = line, stream
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._print, daemon=True)

    def start(self) -> None:
        """Begin; the first line comes after a while."""
        self._thread.start()

    def stop(self) -> None:
        """Print no more."""
        self._ended.set()
        self._thread.join()

    def _print(self) -> None:
        seconds = _FIRST_SECONDS
        while not self._ended.wait(seconds):
            with suppress(OSError, ValueError):  # a closed stream must not end the solve
                print(f"cpsat_pim: {self._line()}", file=self._stream, flush=True)
            seconds = _NEXT_SECONDS
