"""Consecutive layers that fall apart in branches, which may run side by side (a segment of several regions)."""

from collections.abc import Sequence

from attrs import frozen

from cpsat_pim.planner.plan import channels_of, is_read_from
from cpsat_pim.planner.sums import Sum
from cpsat_pim.planner.tensors import Graph, LayerTask
from cpsat_pim.workload.network import INPUT

#: Slicing trees are all dissections of a rectangle in up to four rectangles; the smallest that is none has five.
MOST_BRANCHES = 4


#: By layer those that must have run before it.
Needed = dict[str, set[str]]


@frozen(kw_only=True)
class Block:
    """Layers that follow each other in the file and fall apart in branches: none reads what another one writes.

    `inner`: by branch the homes of stacks that only this branch touches. `outer`: the homes of all others that the
    block touches. `joined`: sums of several branches' outputs, which are made at the end of a segment.
    """

    branches: tuple[tuple[str, ...], ...]
    inner: tuple[tuple[str, ...], ...]
    outer: tuple[str, ...]
    joined: tuple[Sum, ...]

    @property
    def layers(self) -> tuple[str, ...]:
        """All of them, branch by branch."""
        return tuple(name for branch in self.branches for name in branch)


def find_blocks(graph: Graph) -> list[Block]:
    """Return blocks that do not overlap, each with as many layers as possible, the first ones first."""
    blocks, start = [], 0
    needed = {task.name: _needed(graph, task) for task in graph.tasks}
    while start < len(graph.tasks):
        stop = _longest(graph, needed, start)
        if stop is None:
            start += 1
        else:
            blocks.append(_block(graph, _branches(graph.tasks[start:stop], needed)))
            start = stop
    return blocks


def _longest(graph: Graph, needed: Needed, start: int) -> int | None:
    """Return where the longest block from a layer on ends; None if there is none."""
    found = None
    for stop in range(start + 2, len(graph.tasks) + 1):
        branches = _branches(graph.tasks[start:stop], needed)
        if len(branches) == 1 and found is not None:
            break  # a layer that follows all branches
        if 2 <= len(branches) <= MOST_BRANCHES and _are_sums_whole(graph, branches):
            found = stop
    return found


def _branches(tasks: Sequence[LayerTask], needed: Needed) -> list[list[str]]:
    """Return the layers that depend on each other, directly or not, in the order of the first of each branch."""
    branches: list[list[str]] = []
    for task in tasks:
        touched = [branch for branch in branches if needed[task.name] & set(branch)]
        merged = [name for branch in touched for name in branch]
        branches = [branch for branch in branches if branch not in touched]
        branches.append([*merged, task.name])
    order = [task.name for task in tasks]
    return sorted((sorted(branch, key=order.index) for branch in branches), key=lambda branch: order.index(branch[0]))


def _needed(graph: Graph, task: LayerTask) -> set[str]:
    """Return the layers whose outputs a layer reads, and those that are added to what it reads."""
    direct = [other.name for other in graph.tasks if is_read_from(task, other.writes, channels_of(other))]
    return {*direct, *(name for one in graph.sums if one.first in direct for name in one.operands)}


def _are_sums_whole(graph: Graph, branches: list[list[str]]) -> bool:
    """Whether sums over several branches are those of two: then every cut parts them, and the sum is made late."""
    return len(branches) == 2 or not _joined(graph, branches)


def _joined(graph: Graph, branches: list[list[str]]) -> list[Sum]:
    """Return the sums that several branches have operands of."""
    return [one for one in graph.sums if sum(bool(set(one.operands) & set(branch)) for branch in branches) > 1]


def _block(graph: Graph, branches: list[list[str]]) -> Block:
    touching = {home: _touching(graph, home) for home in graph.homes}
    inner = tuple(
        tuple(home for home, layers in touching.items() if layers <= set(branch) and _is_read(graph, home))
        for branch in branches
    )
    everywhere = {name for branch in branches for name in branch}
    outer = [home for home, layers in touching.items() if layers & everywhere and not any(home in i for i in inner)]
    return Block(
        branches=tuple(map(tuple, branches)), inner=inner, outer=tuple(outer), joined=tuple(_joined(graph, branches))
    )


def _touching(graph: Graph, home: str) -> set[str]:
    """Return the layers that read or write a stack with this home; the network's input is written by nobody."""
    stacks = {name for name, target in graph.home_of.items() if target == home}
    touching = {task.name for task in graph.tasks if task.writes in stacks}
    touching |= {name for stack in stacks for name in graph.readers(stack)}
    is_input = any(INPUT in graph.stacks[stack].members for stack in stacks)
    return touching | ({INPUT} if is_input else set())


def _is_read(graph: Graph, home: str) -> bool:
    """Whether somebody reads a stack of this home; the network's results lie on the whole array."""
    return any(graph.readers(name) for name, target in graph.home_of.items() if target == home)
