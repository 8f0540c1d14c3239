"""What the options of a layer depend on, without names: layers of equal content have equal options and equal steps."""

from collections.abc import Hashable

from cpsat_pim.planner.additions import addition_of
from cpsat_pim.planner.tensors import Graph, LayerTask, Stack


def content_of(graph: Graph, task: LayerTask) -> Hashable:
    """Return what the options of a layer depend on; layers may differ in names and in the values of weights only."""
    readings = tuple((one.spans, one.view, one.is_added) for one in task.readings), len(task.beside), len(task.adds)
    shapes = tuple((one.extent, one.element_bytes, graph.home_shape(one.name)) for one in stacks_of(graph, task))
    added = addition_of(graph, task, task.finishes)
    rest = (task.weight_rows, task.pad, task.pool, task.has_heads, task.has_sample_weights, task.offset, added)
    return (task.workload.shape_key, shapes, readings, rest)


def stacks_of(graph: Graph, task: LayerTask) -> list[Stack]:
    """Return the stacks that a layer reads and writes."""
    return [graph.stacks[name] for name in (*task.read_stacks, task.writes)]
