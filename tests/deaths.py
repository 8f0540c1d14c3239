"""Tasks for `run`'s workers, which import them by name: they answer, or kill their worker once or always."""

import os
import signal
from typing import Any, NamedTuple


class Task(NamedTuple):
    """Answers with its key, or kills the process that it is in; `kills_once`: if this file is not there yet."""

    key: str
    is_deadly: bool = False
    kills_once: str = ""

    def run(self, stop: Any, report: Any) -> str:
        """The answer."""
        if self.kills_once and not os.path.exists(self.kills_once):
            with open(self.kills_once, "w"):
                os.kill(os.getpid(), signal.SIGKILL)
        if self.is_deadly:
            os.kill(os.getpid(), signal.SIGKILL)
        return self.key


class Waiting(NamedTuple):
    """Says that it waits, and answers with its key when it is asked to stop."""

    key: str

    def run(self, stop: Any, report: Any) -> str:
        """The answer. The line is one write: workers share the pipe."""
        os.write(1, f"{self.key} waits\n".encode())
        stop.wait(60)
        return self.key
