"""How parts are solved under a choice: in which time, from which mapping, how many at once."""

import math
import threading
import time
from collections.abc import Sequence

from attrs import field, frozen

from cpsat_pim.base.validate import positive, seconds_or_none, seed_number
from cpsat_pim.mapper.network.run import Report, Task, ignore_progress, run_tasks
from cpsat_pim.mapper.network.shared.decisions import Choice
from cpsat_pim.mapper.network.shared.part import Part

#: What solves under partial choices get less of the time.
_BETWEEN = 4
#: Seconds that a solve gets when there is no time left.
_LEAST_SECONDS = 0.1


@frozen(kw_only=True)
class Solving:
    """How parts are solved: `time_limit` seconds each, until `end`, `jobs` at a time; `lost`: by workers that died.

    Raises:
        ValueError: a number is out of range.
    """

    time_limit: float = field(validator=seconds_or_none)
    end: float = math.inf
    seed: int = field(default=0, validator=seed_number)
    jobs: int = field(default=1, validator=positive)
    report: Report = ignore_progress
    stop: threading.Event = field(factory=threading.Event)
    lost: list[str] = field(factory=list)

    def is_over(self) -> bool:
        """Whether the time is up, a stop was asked for, or a worker died."""
        return self.stop.is_set() or time.monotonic() >= self.end or bool(self.lost)

    def __call__(self, parts: Sequence[Part], choice: Choice) -> None:
        """Solve the parts under a choice, the longest first, in half of the time that is left; under a partial one
        but the first in less than what a solve may take, as parts of it are looked at again.

        Raises:
            Disagreement: a mapping is illegal, or some exact figure was predicted wrongly.
        """
        parts = sorted(parts, key=lambda part: -part.layer.macs)
        rounds = -(-len(parts) // self.jobs)
        share = max(_LEAST_SECONDS, (self.end - time.monotonic()) / (2 * rounds))
        is_between = None in choice and any(part.answers for part in parts)
        limit = min(self.time_limit / _BETWEEN if is_between else self.time_limit, share)
        tasks = [self._task(str(i), part, choice, limit) for i, part in enumerate(parts)]
        answers = run_tasks(tasks, self.jobs, self.report, self.stop)
        for task, part in zip(tasks, parts, strict=True):
            answer = answers.get(task.key)
            if answer is not None:
                part.answers[choice] = answer
            elif task.key in answers:
                self.lost.append(part.layer.name)

    def _task(self, key: str, part: Part, choice: Choice, time_limit: float) -> Task:
        best = part.best(choice)
        return Task(
            key=key,
            layer=part.layer,
            arch=part.arch,
            objective=part.objective,
            time_limit=time_limit,
            seed=self.seed,
            start=best[1] if best else None if part.answers else part.start,
            constraints=part.constraints(choice) or part.own,
        )
