"""How layers are solved under a choice: in which time, from which mapping, how many at once."""

import time
from collections.abc import Sequence
from math import inf

import attrs
from attrs import field, frozen

from cpsat_pim.mapper.network.shared.decisions import Choice
from cpsat_pim.mapper.network.shared.layer import SharedLayer
from cpsat_pim.mapper.network.tasks import Execution, Task, run_tasks
from cpsat_pim.mapper.search import SolveRequest


@frozen(kw_only=True)
class Solving:
    """How layers are solved under choices: each as its request says, until `end` (of `time.monotonic`); `lost`: names
    of layers whose workers died.
    """

    request: SolveRequest
    end: float = inf
    execution: Execution = field(factory=Execution)
    lost: list[str] = field(factory=list)

    def is_over(self) -> bool:
        """Whether the time is up, a stop was asked for, or a worker died."""
        return self.execution.stop.is_set() or time.monotonic() >= self.end or bool(self.lost)

    def __call__(self, layers: Sequence[SharedLayer], choice: Choice) -> None:
        """Solve layers under a choice, the longest first, in half of the time that is left at most.

        Under a partial choice all but the first solves get less than the time limit, as layers are solved again under
        choices that complete it.

        Raises:
            Disagreement: a mapping is illegal, or some exact figure was predicted wrongly.
        """
        layers = sorted(layers, key=lambda layer: -layer.layer.macs)
        limit = self._seconds(layers, choice)
        tasks = [self._task(str(i), layer, choice, limit) for i, layer in enumerate(layers)]
        results = run_tasks(tasks, self.execution)
        for task, layer in zip(tasks, layers, strict=True):
            result = results.get(task.key)
            if result is not None:
                layer.results[choice] = result
            elif task.key in results:
                self.lost.append(layer.layer.name)

    def _seconds(self, layers: Sequence[SharedLayer], choice: Choice) -> float:
        """Return the time limit of one solve."""
        parameters, limit = self.request.parameters, self.request.time_limit
        rounds = -(-len(layers) // self.execution.jobs)
        share = max(parameters.shared_min_seconds, (self.end - time.monotonic()) / (2 * rounds))
        is_repeated = None in choice and any(layer.results for layer in layers)
        return min(limit / parameters.partial_choice_parts if is_repeated else limit, share)

    def _task(self, key: str, layer: SharedLayer, choice: Choice, time_limit: float) -> Task:
        best = layer.best(choice)
        request = attrs.evolve(
            layer.request,
            time_limit=time_limit,
            start=best[1] if best else None if layer.results else layer.start,
            constraints=layer.constraints(choice) or layer.own,
        )
        return Task(key=key, layer=layer.layer, arch=layer.arch, request=request)
