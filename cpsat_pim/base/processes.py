"""Whether worker processes may be copies of this one, which spares them the imports and the compiled kernels."""

import sys
import threading

#: The name of threads that only show progress: they hold no lock that a worker takes.
DISPLAY_THREAD = "display"


def can_fork() -> bool:
    """Return whether a process may be forked: on Linux, from the main thread, if all others only show progress.

    A fork copies no thread but its own, and so keeps the locks that others hold for ever. macOS forbids forks.
    """
    others = [thread for thread in threading.enumerate() if thread is not threading.main_thread()]
    is_main = threading.current_thread() is threading.main_thread()
    return sys.platform == "linux" and is_main and all(thread.name == DISPLAY_THREAD for thread in others)
