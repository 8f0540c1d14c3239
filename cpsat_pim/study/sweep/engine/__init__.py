"""Engines: each takes jobs one by one when it has capacity, and yields their outcomes as they finish.

Every job that an engine takes gets exactly one outcome, also if its worker dies: the job is then tried once more, and
fails if that worker dies too. Closing the iterator of outcomes stops the engine and its running jobs.
"""

from collections.abc import Callable, Iterator

from cpsat_pim.study.sweep.job import Job, Outcome

#: Takes an iterator of jobs, which it advances when it has capacity, and yields outcomes.
Engine = Callable[[Iterator[Job]], Iterator[Outcome]]


class EngineError(Exception):
    """An engine cannot run here; the message is one line."""
