"""Ctrl-C: a wish to stop here, and nothing at all to worker processes, which it reaches as well; likewise `kill`."""

import multiprocessing
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import resource_tracker
from typing import Any, Protocol

#: What asks to stop.
_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Stop(Protocol):
    """A `threading.Event` or one of `multiprocessing`."""

    def is_set(self) -> bool:
        """Whether to stop."""

    def set(self) -> None:
        """Ask to stop."""


@contextmanager
def interrupt_stops(stop: Stop) -> Iterator[None]:
    """Turn the first Ctrl-C, or SIGTERM, into a stop; the second is as usual. In the main thread only."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def on_interrupt(number: int, frame: Any) -> None:
        stop.set()
        as_before()

    def as_before() -> None:
        for number, handler in before.items():
            signal.signal(number, handler)

    before = {number: signal.signal(number, on_interrupt) for number in _SIGNALS}
    try:
        yield
    finally:
        as_before()


@contextmanager
def termination_interrupts() -> Iterator[None]:
    """SIGTERM ends the program as Ctrl-C does: with what it has. In the main thread only."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@contextmanager
def interrupts_held_back() -> Iterator[None]:
    """A process that starts meanwhile is deaf to Ctrl-C from its first moment; here it is heard afterwards."""
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        yield
        return
    resource_tracker.ensure_running()  # it lets the signal through when it starts, which it would do with a worker
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def work_for_parent() -> None:
    """In a worker: Ctrl-C reaches the whole process group, and the parent sees to its workers; one that was killed
    leaves nothing behind that solves on for nobody.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent:
        parent.join()
        os._exit(1)
