"""Compiled calls that end when the time is up."""

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from functools import cache
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

_Result = TypeVar("_Result")
#: Seconds between two looks at a call that may have to stop.
_PATIENCE = 0.05


def call_watched(call: Callable[[NDArray[np.int64]], _Result], is_over: Callable[[], bool]) -> _Result:
    """Return what a call returns that is made in another thread, so that signals and the time are heard.

    The call gets int64[1], which is set where `is_over` says so; it must then end soon, and may raise.
    """
    stop = np.zeros(1, np.int64)
    future = _pool_of(os.getpid()).submit(call, stop)
    try:
        while not wait([future], _PATIENCE).done:
            stop[0] = is_over()
    finally:
        stop[0] = 1  # an interrupt ends the call, too
        wait([future])
    return future.result()


@cache
def _pool_of(process: int) -> ThreadPoolExecutor:
    """Return the threads of a process, which a fork of it does not have: to start one takes longer than most calls."""
    return ThreadPoolExecutor(thread_name_prefix=f"watched-{process}")
