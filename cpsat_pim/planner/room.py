"""Options that no plan has room for: weights of all layers are held all through, besides what a single step takes."""

from cpsat_pim.base.dims import Tensor
from cpsat_pim.planner.eliminate import INFINITE
from cpsat_pim.planner.instance import Instance
from cpsat_pim.planner.tensors import LayerTask


def limit_steps(instance: Instance, capacity_bytes: int) -> None:
    """Leave options out whose step alone exceeds the capacity of a node, with the least that other layers hold there.

    The first node of a layer's region holds the largest part of its weights. Where branches run side by side, regions
    differ, so nothing is left out.
    """
    if instance.parallels:
        return
    tasks = instance.graph.tasks
    held = {task.name: _least_weights(instance, task) for task in tasks}
    every = sum(held.values())
    for task in {id(instance.options[task.name]): task for task in tasks}.values():
        others = every - held[task.name] if _is_at_corner(instance, task) else 0
        instance.options[task.name].limit(capacity_bytes - others if capacity_bytes < INFINITE else INFINITE)


def _least_weights(instance: Instance, task: LayerTask) -> int:
    """Return the bytes of a layer's weights that the array's first node holds at least."""
    if not task.has_weights or not _is_at_corner(instance, task):
        return 0
    elements = task.workload.elements(Tensor.W)
    return -(-elements // instance.options[task.name].region.size) * task.workload.weight_bytes


def _is_at_corner(instance: Instance, task: LayerTask) -> bool:
    region, free = instance.options[task.name].region, instance.free
    return (region.y, region.x) == (free.y, free.x)
