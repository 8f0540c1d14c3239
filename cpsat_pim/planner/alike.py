"""What the options of a layer depend on, without names: layers of equal content have equal options and equal steps."""

from collections.abc import Hashable

from cpsat_pim.planner.additions import addition_of
from cpsat_pim.planner.graph import Graph, LayerTask, Stack


def content_of(graph: Graph, task: LayerTask) -> Hashable:
    """Return what the options of a layer depend on; layers may differ in names and in the values of weights only."""
    readings = (task.reads.channels, task.reads_weights and task.reads_weights.channels)
    shapes = tuple((stack.extent, stack.element_bytes) for stack in stacks_of(graph, task))
    added = addition_of(graph, task, task.finishes)
    rest = (task.weight_rows, task.pad, task.pool, task.input_pool, task.offset, added)
    return (task.workload.shape_key, shapes, readings, rest)


def stacks_of(graph: Graph, task: LayerTask) -> list[Stack]:
    """Return the stacks that a layer reads (I, and what takes the place of W) and writes."""
    second = [task.reads_weights.stack] if task.reads_weights else []
    return [graph.stacks[name] for name in (task.reads.stack, *second, task.writes)]
