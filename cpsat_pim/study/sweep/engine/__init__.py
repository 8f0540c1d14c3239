"""Engines: each takes jobs one by one as it has room for them, and gives their outcomes as they come.

Every job that an engine has taken gets one outcome, also if its worker dies: the job is then tried once more, and
failed if that worker dies as well. Whoever stops listening ends the engine and what it runs.
"""

from collections.abc import Callable, Iterator

from cpsat_pim.study.sweep.job import Job, Outcome

#: From jobs, taken when there is room, to outcomes.
Engine = Callable[[Iterator[Job]], Iterator[Outcome]]


class EngineError(Exception):
    """An engine cannot run here; the message is one line."""
