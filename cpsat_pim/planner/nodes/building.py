"""Mappings of node problems that are found without a search."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from attrs import frozen

from cpsat_pim.arch import PIMArchitecture
from cpsat_pim.mapper.result import Objective
from cpsat_pim.mapping.mapping import Mapping
from cpsat_pim.planner.nodes.alike import AlikeMappings
from cpsat_pim.planner.nodes.problem import NodeCost, NodeProblem
from cpsat_pim.planner.nodes.programs import priced, verify_program
from cpsat_pim.planner.nodes.workers import Workers


@frozen(kw_only=True)
class BuildTask:
    """A good mapping that is found without a search, here or in a worker process; it is verified.

    `alike`: mappings of parts that resemble this one.
    """

    key: NodeProblem
    arch: PIMArchitecture
    objective: Objective
    known: NodeCost
    alike: tuple[Mapping, ...]

    def run(self, stop: Any = None, report: Any = None) -> NodeCost:
        """Return what is known with that mapping, if there is one. It is not stopped: without it there is no plan."""
        from cpsat_pim.mapper.search import SolveRequest
        from cpsat_pim.mapper.search.quick import quick_mapping

        request = SolveRequest(then=None, objective=self.objective, constraints=self.key.constraints)
        best = quick_mapping(self.key.layer, self.arch, request, self.alike)
        if best is None:
            return self.known
        verify_program(self.key, best, self.arch)
        return priced(self.key, self.arch, self.objective, best, self.known)


class Builder:
    """Builds a mapping of each problem that has none, from those that are known of alike problems."""

    def __init__(self, arch: PIMArchitecture, objective: Objective, workers: Workers) -> None:
        self.arch, self.objective, self._workers = arch, objective, workers
        self.alike = AlikeMappings()
        #: Problems of which no mapping could be built.
        self._failed: set[NodeProblem] = set()

    def build(
        self,
        problems: Iterable[NodeProblem],
        cost: Callable[[NodeProblem], NodeCost | None],
        keep: Callable[[NodeProblem, NodeCost], None],
        is_over: Callable[[], bool],
    ) -> int:
        """Build the mappings that problems lack, and keep them; return how many.

        `cost`: what is known of a problem. None begins once `is_over` says so. A stop does not end this: without them
        there might be no plan.
        """
        kept: list[NodeProblem] = []

        def receive(problem: NodeProblem, found: NodeCost) -> None:
            if found.is_solved:
                keep(problem, found)
                kept.append(problem)
            else:
                self._failed.add(problem)

        asked = list(dict.fromkeys(problems))
        self._workers.run_short(self._tasks(asked, cost), receive, is_over)
        for task in self._tasks(asked, cost):  # a stop has left
            if is_over():
                break
            receive(task.key, task.run())
        return len(kept)

    def _tasks(
        self, problems: Iterable[NodeProblem], cost: Callable[[NodeProblem], NodeCost | None]
    ) -> Iterator[BuildTask]:
        """Yield a task for each problem that has no mapping by then."""
        for problem in problems:
            known = cost(problem)
            if known is not None and not known.is_solved and problem not in self._failed:
                alike = self.alike.of(problem)
                yield BuildTask(key=problem, arch=self.arch, objective=self.objective, known=known, alike=alike)
