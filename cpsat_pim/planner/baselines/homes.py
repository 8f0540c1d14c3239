"""Where tensors lie in the plans of simpler planners, within the homes of the declared space."""

from collections.abc import Callable, Sequence

from cpsat_pim.planner.boxes import home_boxes, volumes
from cpsat_pim.planner.partition import Home
from cpsat_pim.planner.tensors import Graph, Stack

#: Homes by the stack that names them.
Homes = dict[str, Home]


def even_home(stack: Stack, homes: Sequence[Home]) -> Home:
    """The home whose largest part is least; of several one that splits rows and columns of the tensor."""

    def order(home: Home) -> tuple[int, bool]:
        digits = {dim for dim, _ in home.h}, {dim for dim, _ in home.w}
        return int(volumes(home_boxes(stack.shape, home, stack.spread)).max()), digits != ({"H"}, {"W"})

    return min(homes, key=order)


def writers_of(graph: Graph, home: str) -> list[str]:
    """Layers that write a tensor of a home, in order."""
    return [task.name for task in graph.tasks if graph.home_of[task.writes] == home]


def nearest_home(homes: Sequence[Home], writers: Sequence[Callable[[Home], tuple[int, int]]]) -> Home:
    """The home to which it costs least to send what the writers hold."""

    def cost(home: Home) -> tuple[int, int]:
        costs = [push(home) for push in writers]
        return sum(c for c, _ in costs), sum(t for _, t in costs)

    return min(homes, key=cost)
