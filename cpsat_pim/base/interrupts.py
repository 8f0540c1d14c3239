"""Ctrl-C and `kill`: they ask the main process to stop with the results so far; worker processes leave that to it."""

import atexit
import gc
import multiprocessing
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import resource_tracker
from typing import Any, Protocol

#: The signals that request a stop.
_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Stop(Protocol):
    """A stop flag: a `threading.Event` or its counterpart in `multiprocessing`."""

    def is_set(self) -> bool:
        """Return whether a stop was requested."""

    def set(self) -> None:
        """Request a stop."""


@contextmanager
def interrupt_stops(stop: Stop) -> Iterator[None]:
    """Set `stop` at the first Ctrl-C or SIGTERM; a second one acts as usual. Has no effect outside the main thread."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def on_interrupt(number: int, frame: Any) -> None:
        stop.set()
        restore_handlers()

    def restore_handlers() -> None:
        for number, handler in before.items():
            signal.signal(number, handler)

    before = {number: signal.signal(number, on_interrupt) for number in _SIGNALS}
    try:
        yield
    finally:
        restore_handlers()


@contextmanager
def termination_interrupts() -> Iterator[None]:
    """Let SIGTERM raise `KeyboardInterrupt`, as Ctrl-C does. Has no effect outside the main thread."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def exit_by_code() -> None:
    """Let the process end with its exit code after an interruption.

    Python notes one that passes through `exec` or `eval` of a text, as imports have it, and at its end kills itself by
    SIGINT, whether the interruption was handled or not.
    """
    if hasattr(signal, "pthread_sigmask"):
        atexit.register(signal.pthread_sigmask, signal.SIG_BLOCK, {signal.SIGINT})


@contextmanager
def block_interrupts() -> Iterator[None]:
    """Block the signals while worker processes start, so that they inherit the block; the parent receives them
    afterwards.
    """
    if not hasattr(signal, "pthread_sigmask"):  # Windows has no signal masks
        yield
        return
    resource_tracker.ensure_running()  # It unblocks signals when it starts, so it must start before the workers do.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def set_up_worker() -> None:
    """Set up a worker process, which was started with interrupts blocked: signals to the whole process group are for
    the parent to handle. Exit if the parent says so, or dies.
    """
    gc.freeze()  # what a forked process has from its parent need not be looked through, nor copied
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    if hasattr(signal, "sigwaitinfo"):  # elsewhere SIGTERM ends a worker, whoever sends it
        threading.Thread(target=_end_at_parents_request, daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent:
        parent.join()
        os._exit(1)


def _end_at_parents_request() -> None:
    """Wait for SIGTERM, and obey the parent's alone."""
    while signal.sigwaitinfo({signal.SIGTERM}).si_pid != os.getppid():
        pass
    os._exit(1)
