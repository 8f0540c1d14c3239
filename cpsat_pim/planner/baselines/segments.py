"""The serial pieces of a network, and the branches of each that may run side by side (NicePIM, section III-B)."""

from collections.abc import Sequence

from cpsat_pim.planner.plan import channels_of, is_read_from
from cpsat_pim.planner.tensors import Graph, LayerTask

#: Layers that run one after the other on one region.
Branch = tuple[str, ...]


def segments_of(graph: Graph) -> list[tuple[Branch, ...]]:
    """The smallest serial pieces of a network, each as its branches.

    Every layer behind a piece depends on all layers of it (Algorithm 1, line 1). Branches are what no dependence joins.
    """
    before = dependences(graph)
    names = [task.name for task in graph.tasks]
    pieces: list[list[str]] = [[]]
    for at, name in enumerate(names):
        pieces[-1].append(name)
        if all(before[later].issuperset(names[: at + 1]) for later in names[at + 1 :]) and at + 1 < len(names):
            pieces.append([])
    return [_branches(piece, before) for piece in pieces]


def dependences(graph: Graph) -> dict[str, set[str]]:
    """Of every layer all layers that must be finished before it starts."""
    operands = {operand: set(one.operands) for one in graph.sums for operand in one.operands[:1]}
    before: dict[str, set[str]] = {}
    for task in graph.tasks:
        direct = {name for writer in _writers(graph, task) for name in operands.get(writer, {writer})} & before.keys()
        before[task.name] = direct.union(*(before[name] for name in direct))
    return before


def _writers(graph: Graph, task: LayerTask) -> list[str]:
    """Layers that write something that a layer reads."""
    return [other.name for other in graph.tasks if is_read_from(task, other.writes, channels_of(other))]


def _branches(piece: Sequence[str], before: dict[str, set[str]]) -> tuple[Branch, ...]:
    """Layers of a piece by branch, in the order of their first layers."""
    found: list[list[str]] = []
    for name in piece:
        joined = [branch for branch in found if before[name].intersection(branch)]
        merged = sorted([name, *(other for branch in joined for other in branch)], key=piece.index)
        found = [branch for branch in found if branch not in joined] + [merged]
    return tuple(tuple(branch) for branch in sorted(found, key=lambda branch: piece.index(branch[0])))
