"""The least capacity of a node by which some plan fits: label setting by bytes, between two bounds that it closes.

Node programs take no DRAM besides what their step stages, so what a plan needs depends on partitions, replicas and
homes alone. The cost of a path is what it uses of the first resource. So the cheapest path bounds what any plan needs
on that node at that step; and a capacity by which no path is left is refuted (destructive lower bound).
"""

from collections.abc import Callable
from contextlib import suppress

import numpy as np
from attrs import define, evolve, field

from cpsat_pim.planner.eliminate import INFINITE, TooLarge
from cpsat_pim.planner.evaluate import evaluate_plan
from cpsat_pim.planner.instance import Instance
from cpsat_pim.planner.labels.reduced import ReducedProblem
from cpsat_pim.planner.labels.setting import Found, set_labels
from cpsat_pim.planner.labels.stages import Path
from cpsat_pim.planner.labels.usage import Spot, Usage, fullest_step
from cpsat_pim.planner.weighing import FREE_BYTES

#: More options than these are not looked at: they would take gigabytes and minutes.
_MOST_OPTIONS = 3_000_000


@define(kw_only=True, eq=False)
class LeastRoom:
    """Narrows the interval of the least capacity: `low` bytes are needed by every plan, `high` are enough for one.

    `is_over()`: whether the time is up. A search that ends early leaves the interval as it is.
    """

    instance: Instance
    low: int
    high: int
    is_over: Callable[[], bool]
    _reduced: ReducedProblem = field(init=False)
    _usage: Usage = field(init=False)
    _spots: list[Spot] = field(init=False)

    def run(self) -> None:
        """Bisect the interval, beginning with room for any plan; options that are too many leave it as it is."""
        if not self.instance.parallels and self._options <= _MOST_OPTIONS:
            with suppress(TooLarge):
                self._bisect()

    def _bisect(self) -> None:
        self._usage = Usage(instance=self.instance)
        self._spots = [Spot(node=self.instance.first_node, step=fullest_step(self.instance, self._usage))]
        self._reduce()
        capacity = INFINITE
        while self.low < self.high and not self.is_over():
            if not self._narrow(capacity):
                return
            capacity = (self.low + self.high) // 2

    @property
    def _options(self) -> int:
        """Options of all layers that a step has room for, at most."""
        sizes = self.instance.sizes
        return sum(
            (options.seen + int((options.floors(FREE_BYTES) < INFINITE).sum()))
            * int(np.prod([sizes[name] for name in dict.fromkeys(self.instance.roles(task))]))
            for task, options in ((task, self.instance.options[task.name]) for task in self.instance.graph.tasks)
        )

    def _reduce(self) -> None:
        """Take over all options whose node problems are not known to have no mapping."""
        self._reduced = ReducedProblem(self.instance, FREE_BYTES, INFINITE - 1, self.is_over)

    def _narrow(self, capacity: int) -> bool:
        """Raise `low` or lower `high` by the path that takes least within a capacity; return whether that was done."""
        while not self.is_over():
            found = self._least_path(capacity)
            if not found.is_complete:
                return False
            if found.path is None:
                self.low = max(self.low, min(self.high, capacity + 1))
                return True
            self.low = max(self.low, min(found.bound, capacity + 1, self.high))
            if self._has_mappings(found.path):
                used = evaluate_plan(self.instance.graph, self._reduced.plan(found.path)).used_bytes
                if used.max() <= capacity:
                    self.high = min(self.high, int(used.max()))
                    return True
                if not self._add_spots(used, capacity, found.path):
                    return False
        return False

    def _least_path(self, capacity: int) -> Found:
        """Return the path that takes least on the first node at its fullest step, within the capacity of all spots."""
        staged = self._reduced.staged(self._spots, self._usage)
        stages = [evolve(stage, cost=stage.usage[:, 0].copy()) for stage in staged.stages]
        rooms = np.full(len(self._spots), capacity, dtype=np.int64)
        return set_labels(evolve(staged, stages=stages, capacity=rooms), [], INFINITE - 1, is_over=self.is_over)

    def _has_mappings(self, path: Path) -> bool:
        """Whether all node problems of a path may have a mapping; if not, its options are dropped."""
        costs = self.instance.costs
        problems = {use.options.option(use.row, 1, use.at)[1] for use in self._reduced.uses(path)}
        before = {problem: costs.cost(problem) for problem in problems}
        if all(costs.refine(problem) is not None for problem in before):
            return True
        self._reduce()
        return False

    def _add_spots(self, used: np.ndarray, capacity: int, path: Path) -> bool:
        """Limit bytes where a path's plan exceeds the capacity, and count what its options stage there."""
        unseen = {id(use.options): use for use in self._reduced.uses(path) if use.row >= use.options.seen}
        for use in unseen.values():
            use.options.look_at(1, self.is_over, first={use.row})
        if unseen:
            self._reduce()
        step = int(used.max(axis=1).argmax())
        spot = Spot(node=int(used[step].argmax()), step=step)
        if spot not in self._spots:
            self._spots.append(spot)
            return True
        return bool(unseen)
