"""Why no plan fits the nodes, and the least capacity that would do: exact where label setting finds it, else bounds."""

import time
from collections.abc import Callable

from cpsat_pim.base.dims import Tensor
from cpsat_pim.mapping.check import check_fits
from cpsat_pim.planner.eliminate import INFINITE
from cpsat_pim.planner.instance import Instance
from cpsat_pim.planner.labels.least_room import LeastRoom
from cpsat_pim.planner.plan import node_program
from cpsat_pim.planner.room import limit_steps
from cpsat_pim.planner.tensors import LayerTask


def refuse(
    instance: Instance, is_proven: bool, smallest_bytes: int, until: float, report: Callable[[str], None]
) -> str:
    """Return one line: the reason, and the least capacity or where it lies.

    `is_proven`: whether no plan of the space fits. `smallest_bytes`: what some plan takes. `until`: the time of
    `time.monotonic` at which the search for the least capacity ends; a stop of the node costs ends it, too.
    """
    for task in instance.graph.tasks if is_proven and not instance.parallels else ():
        if instance.options[task.name].least_floor >= INFINITE:
            return _unmapped(instance, task)
    if (seconds := until - time.monotonic()) > 0:
        report(f"no plan fits: the least capacity that would do is sought, for up to {seconds:.0f} s")
    least, room, nodes = instance.least_peak_bytes, instance.array.capacity_bytes, instance.nodes
    if least > room:
        reason = (
            f"no plan fits the {room} bytes of a node: weights, stored once, and the tensors that live at a time"
            f" take at least {least} on each of {nodes} nodes"
        )
    else:
        reason = f"no plan {'of the space' if is_proven else 'was found that'} fits the {room} bytes of a node"
    low = max(least, room + 1) if is_proven else least
    limit_steps(instance, smallest_bytes)
    stop = instance.costs.stop
    search = LeastRoom(
        instance=instance,
        low=low,
        high=smallest_bytes,
        is_over=lambda: stop.is_set() or time.monotonic() >= until,
    )
    search.run()
    return f"{reason}; {_least(search.low, search.high)}"


def _unmapped(instance: Instance, task: LayerTask) -> str:
    """Return that no part of a layer has a mapping, and what the smallest part lacks on a node, if that is known."""
    options = instance.options[task.name]
    parts = (node_program(task, partition) for partition in options.partitions)
    lines = check_fits(min(parts, key=lambda part: (part.macs, part.elements(Tensor.W))), options.costs.arch)
    why = f"; the smallest part: {lines[0]}" if lines else ""
    ways = f"however it is partitioned ({len(options.partitions)} ways)"
    return f"no plan: no part of {task.name} has a mapping on a node, {ways}{why}"


def _least(low: int, high: int) -> str:
    if low == high:
        return f"the least that would do is {low}"
    if high < INFINITE:
        return f"the least that would do is between {low} and {high}, which one takes"
    return f"the least that would do is {low} or more"
