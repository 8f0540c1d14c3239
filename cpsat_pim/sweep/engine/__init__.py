"""Engines: each takes jobs one by one as it has room for them, and gives their outcomes as they come.

Every job that an engine has taken gets one outcome, also if its worker dies: the job is then tried once more, and
failed if that worker dies as well. Whoever stops listening ends the engine and what it runs.
"""

from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any

from cpsat_pim.sweep.job import Job, Outcome

#: From jobs, taken when there is room, to outcomes.
Engine = Callable[[Iterator[Job]], Iterator[Outcome]]


class EngineError(Exception):
    """An engine cannot run here; the message is one line."""


def imported(module: str, extra: str) -> Any:
    """An optional package.

    Raises:
        EngineError: it is not installed.
    """
    try:
        return import_module(module)
    except ImportError as error:
        raise EngineError(f"{module} is not installed: pip install 'cpsat-pim[{extra}]'") from error
