"""How long tensors lie at home, and how many bytes they take there (docs/array.md, section 6)."""

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from cpsat_pim.base.dims import Tensor
from cpsat_pim.planner.array import NodeArray
from cpsat_pim.planner.boxes import home_boxes, volumes
from cpsat_pim.planner.partition import Home
from cpsat_pim.planner.plan import Plan, is_joined, is_read_from
from cpsat_pim.planner.sums import Sum
from cpsat_pim.planner.tensors import Graph, LayerTask, Stack
from cpsat_pim.planner.tours import node_numbers
from cpsat_pim.workload.network import INPUT


def live_members(graph: Graph, plan: Plan) -> Iterator[tuple[int, int, np.ndarray]]:
    """Of each stored member: the first and the last step at which it lives, and its bytes, int64[nodes]."""
    order = {name: step for step, (_, _, name) in enumerate(plan.steps)}
    for stack in graph.stacks.values():
        for member, offset in zip(stack.members, stack.offsets, strict=True):
            life = _life(graph, plan, order, member)
            if life is not None:
                held = member_bytes(stack, plan.homes[stack.name], _channels(stack, member, offset))
                numbers = node_numbers(plan.array.cols, plan.homes[stack.name].region)
                everywhere = np.zeros(plan.array.nodes, dtype=np.int64)
                everywhere[numbers] = held
                yield (*life, everywhere)


def _channels(stack: Stack, member: str, offset: int) -> tuple[int, int]:
    """The channel range of a member."""
    at = stack.members.index(member) + 1
    return offset, stack.offsets[at] if at < len(stack.offsets) else stack.shape[1]


def member_bytes(stack: Stack, home: Home, channels: tuple[int, int]) -> np.ndarray:
    """Bytes of a member on each node of its home: int64[nodes of the home]."""
    boxes = home_boxes(stack.shape, home, stack.spread)
    boxes[:, 2], boxes[:, 3] = np.maximum(boxes[:, 2], channels[0]), np.minimum(boxes[:, 3], channels[1])
    held: np.ndarray = volumes(boxes) * stack.element_bytes
    return held


def least_peak_bytes(graph: Graph, nodes: int) -> int:
    """Return bytes that some node of every plan holds at some step, at least.

    Weights are stored once, and tensors that live at the same time lie side by side: all evenly on so many nodes.
    """
    order = _in_order(graph)
    layers = (task.workload for task in graph.tasks if task.has_weights)
    used = [sum(layer.elements(Tensor.W) * layer.weight_bytes for layer in layers)] * len(order)
    for stack in graph.stacks.values():
        n, _, h, w = stack.shape
        for member, offset in zip(stack.members, stack.offsets, strict=True):
            start, stop = _channels(stack, member, offset)
            for step in _least_life(graph, order, member):
                used[step] += n * (stop - start) * h * w * stack.element_bytes
    return -(-max(used) // nodes)


#: The step at which each layer runs.
Order = dict[str, int]

#: A stored member of a stack: the stack, the member's channels, and the steps at which it lives in every plan.
Life = tuple[Stack, tuple[int, int], range]


def lives(graph: Graph) -> dict[str, list[Life]]:
    """Return the stored members of stacks by the home that they share, if layers run in order, one after the other."""
    order = _in_order(graph)
    found: dict[str, list[Life]] = {name: [] for name in graph.homes}
    for stack in graph.stacks.values():
        for member, offset in zip(stack.members, stack.offsets, strict=True):
            life = stack, _channels(stack, member, offset), _least_life(graph, order, member)
            found[graph.home_of[stack.name]].append(life)
    return found


def home_bytes(alive: Sequence[Life], cols: int, homes: Sequence[Home], node: int, step: int) -> np.ndarray:
    """Return the bytes on a node at a step of the tensors that share a home, for each of its values: int64[values].

    `alive`: when they live.
    """
    found = np.zeros(len(homes), dtype=np.int64)
    for stack, channels, steps in alive:
        if step in steps:
            for value, home in enumerate(homes):
                at = np.flatnonzero(node_numbers(cols, home.region) == node)
                found[value] += member_bytes(stack, home, channels)[at].sum()
    return found


def most_weight_bytes(graph: Graph, array: NodeArray, homes: dict[str, list[Home]], node: int = 0) -> int:
    """Return the bytes of weights for which a node has room: at each step, tensors at home take some, too."""
    alive = lives(graph)
    taken = [
        sum(int(home_bytes(alive[name], array.cols, some, node, step).min()) for name, some in homes.items())
        for step in range(len(graph.tasks))
    ]
    return array.capacity_bytes - max(taken)


def _in_order(graph: Graph) -> Order:
    """Return the steps of layers that run in the network's order."""
    return {task.name: step for step, task in enumerate(graph.tasks)}


def _least_life(graph: Graph, order: Order, member: str) -> range:
    """Return the steps at which a member lives in every plan."""
    life = _steps(graph, order, member, lambda one: False)
    return range(life[0], life[1] + 1) if life else range(0)


def _life(graph: Graph, plan: Plan, order: Order, member: str) -> tuple[int, int] | None:
    """First and last step; None if it is added on its way and never stored."""
    life = _steps(graph, order, member, lambda one: is_joined(plan, one))
    return life and _whole_segments(plan, *life)


def _steps(graph: Graph, order: Order, member: str, is_late: Callable[[Sum], bool]) -> tuple[int, int] | None:
    """First and last step if layers run in this order; `is_late`: whether a sum waits for the end of its segment."""
    readers = [order[task.name] for task in _readers(graph, member)]
    sums = [one for one in graph.sums if member in one.operands]
    added = [one for one in sums if one.finished_by == member and one.first != member and not is_late(one)]
    if added and not readers and not graph.stacks[graph.stack_of[member]].spread:
        return None
    start = 0 if member == INPUT else order[member]
    ends = readers + [order[one.finished_by] for one in sums if one.finished_by != INPUT]
    return start, max(ends, default=len(order) - 1)


def _readers(graph: Graph, member: str) -> list[LayerTask]:
    """Return the layers that read a member of a stack."""
    stack = graph.stacks[graph.stack_of[member]]
    channels = _channels(stack, member, stack.offsets[stack.members.index(member)])
    tasks = map(graph.task, graph.readers(stack.name))
    return [task for task in tasks if is_read_from(task, stack.name, channels)]


def _whole_segments(plan: Plan, start: int, end: int) -> tuple[int, int]:
    """A life within segments of several regions is that of the whole segment."""
    segments = [s for s, _, _ in plan.steps]
    if len(plan.segments[segments[start]]) > 1:
        start = segments.index(segments[start])
    if len(plan.segments[segments[end]]) > 1:
        end = len(segments) - 1 - segments[::-1].index(segments[end])
    return start, end
