"""The baseline of NicePIM, section VIII-D: layers one after the other, each mapped for itself, one layout for all.

"Each layer is mapped onto the whole PIM-node array and we use Timeloop to solve the LM of the layers with the
optimization goal set to Delay. [...] The DL of all layers is set to be the same. We try several DL [...] and select the
one with the best latency result."

What the paper leaves open: where tensors lie. Two rules are tried, too, and the better plan is taken: parts of equal
size, or next to where each layer leaves its output. Delay is that of the step, with its data movement.
"""

from collections.abc import Iterator
from functools import partial

from cpsat_pim.planner.baselines.homes import Homes, even_home, nearest_home, writers_of
from cpsat_pim.planner.baselines.problem import Problem
from cpsat_pim.planner.baselines.replicas import fitted
from cpsat_pim.planner.evaluate import PlanCost
from cpsat_pim.planner.partition import Partition
from cpsat_pim.planner.plan import Plan


def sequential(problem: Problem) -> tuple[Plan, PlanCost, int]:
    """The best plan over all layouts and both rules for homes."""
    candidates = list(_candidates(problem))
    return min(candidates, key=lambda found: found[2])


def _candidates(problem: Problem) -> Iterator[tuple[Plan, PlanCost, int]]:
    for layout in problem.space.layouts:
        even = even_homes(problem, layout)
        choices = {task.name: problem.cheapest(task.name, problem.array.whole, even) for task in problem.graph.tasks}
        yield fitted(problem, problem.plan(choices, even))
        near = _near_homes(problem, layout, even, {name: choice.partition for name, choice in choices.items()})
        yield fitted(problem, problem.plan(choices, near))


def even_homes(problem: Problem, layout: str) -> Homes:
    """Every tensor in parts of about equal size, all in one layout."""
    return {
        name: even_home(problem.graph.stacks[name], [home for home in homes if home.layout == layout])
        for name, homes in problem.homes.items()
    }


def _near_homes(problem: Problem, layout: str, even: Homes, partitions: dict[str, Partition]) -> Homes:
    """Every tensor where sending it home costs least; the input, which nobody writes, stays where it is."""
    near = dict(even)
    for name, homes in problem.homes.items():
        writers = [partial(problem.layer(w).pushed, partitions[w]) for w in writers_of(problem.graph, name)]
        if writers:
            near[name] = nearest_home([home for home in homes if home.layout == layout], writers)
    return near
