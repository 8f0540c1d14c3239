"""When worker processes may be copies of the one that starts them."""

import sys
import threading
from collections.abc import Callable

import pytest

from cpsat_pim.base.processes import DISPLAY_THREAD, can_fork


def during(name: str, ask: Callable[[], bool]) -> bool:
    """The answer while a thread of some name is alive."""
    ended = threading.Event()
    thread = threading.Thread(target=ended.wait, name=name)
    thread.start()
    try:
        return ask()
    finally:
        ended.set()
        thread.join()


@pytest.mark.skipif(sys.platform != "linux", reason="forks are used on Linux only")
def test_threads_that_may_hold_locks_forbid_forks(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thread that shows progress does not; any other one does, and so does a call from outside the main thread."""
    monkeypatch.setattr(threading, "enumerate", lambda before=threading.enumerate: [
        t for t in before() if t is threading.main_thread() or t.name in (DISPLAY_THREAD, "other")
    ])  # fmt: skip
    assert can_fork()
    assert during(DISPLAY_THREAD, can_fork)
    assert not during("other", can_fork)
    answers: list[bool] = []
    caller = threading.Thread(target=lambda: answers.append(can_fork()), name=DISPLAY_THREAD)
    caller.start()
    caller.join()
    assert answers == [False]


def test_no_forks_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """MacOS's libraries do not survive them, and Windows has none."""
    monkeypatch.setattr(sys, "platform", "darwin")
    assert not can_fork()
