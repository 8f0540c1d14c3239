"""Whether a plan is one of the declared space: only then does the bound of the space prove it the best."""

from collections.abc import Iterator, Sequence

from attrs import evolve

from cpsat_pim.planner.array import Region
from cpsat_pim.planner.branches.cuts import halves
from cpsat_pim.planner.instance import Instance
from cpsat_pim.planner.nodes import layout_index
from cpsat_pim.planner.plan import ROUND_ROBIN, Plan, RegionPlan
from cpsat_pim.planner.solved import Incumbent
from cpsat_pim.planner.tensors import LayerTask


def offered(instance: Instance, plan: Plan) -> Incumbent:
    """Return a plan that is given, with its cost, and why it is not in the space.

    Raises:
        ValueError: it breaks a constraint of the space.
    """
    if broken := list(instance.space.constraints.broken_by(instance.graph, plan)):
        raise ValueError("\n".join(f"a plan to start from: {line}" for line in broken))
    cost, value = instance.value(plan)
    outside = next(reasons_outside(instance, plan), "")
    return Incumbent(value=value, tie=cost.energy_fj, plan=plan, cost=cost, outside=outside)


def reasons_outside(instance: Instance, plan: Plan) -> Iterator[str]:
    """Yield a line for each reason why a plan is none of an instance's space; nothing if it is one."""
    if plan.send_order != ROUND_ROBIN:
        yield f"send_order: {plan.send_order} is not searched"
    yield from _segment_reasons(instance, plan)
    yield from _home_reasons(instance, plan)
    for task in instance.graph.tasks:
        yield from _layer_reasons(instance, task, plan)


def _segment_reasons(instance: Instance, plan: Plan) -> Iterator[str]:
    """Layers run in the order of the file on regions of the space, but for branches side by side."""
    order = [task.name for task in instance.graph.tasks]
    named = [[name for one in regions for name in one.layers] for regions in plan.segments]
    if [name for names in named for name in sorted(names, key=order.index)] != order:
        yield "segments: layers run in another order than that of the file"
    for s, regions in enumerate(plan.segments):
        if len(regions) > 1 and not _is_side_by_side(instance, regions):
            yield f"segments[{s}]: these branches on these regions are not searched"
        elif len(regions) == 1 and any(instance.options[name].region != regions[0].region for name in named[s]):
            yield f"segments[{s}]: this region is not searched"


def _is_side_by_side(instance: Instance, regions: Sequence[RegionPlan]) -> bool:
    """Whether the branches of one block run on the leaves of a slicing tree."""
    placed = {name: one.region for one in regions for name in one.layers}
    for block in (parallel.block for parallel in instance.parallels):
        if set(block.layers) == set(placed):
            is_whole = all(len({placed[name] for name in branch}) == 1 for branch in block.branches)
            return is_whole and _is_sliced(frozenset(placed.values()), instance.array.whole, instance.space.cuts)
    return False


def _is_sliced(leaves: frozenset[Region], whole: Region, step: int) -> bool:
    """Whether rectangles are those of a slicing tree that is cut at multiples of a step."""
    if leaves == {whole}:
        return True
    for first, second in halves(whole, step):
        inside = frozenset(leaf for leaf in leaves if not leaf.overlaps(second))
        beside = frozenset(leaf for leaf in leaves if not leaf.overlaps(first))
        if inside | beside == leaves and _is_sliced(inside, first, step) and _is_sliced(beside, second, step):
            return True
    return False


def _home_reasons(instance: Instance, plan: Plan) -> Iterator[str]:
    """Tensors lie on homes of the space; one that only a branch side by side with others touches, on its region."""
    graph, placed = instance.graph, dict[str, Region]()
    for regions in plan.segments:
        if len(regions) > 1:
            placed |= {name: one.region for one in regions for name in one.layers}
    homes = dict(instance.homes)
    for block in (parallel.block for parallel in instance.parallels):
        for branch, inner in zip(block.branches, block.inner, strict=True):
            if branch[0] in placed:
                homes |= {name: instance.space.homes(graph.home_shape(name), placed[branch[0]]) for name in inner}
    for name, home in plan.homes.items():
        if home not in homes[graph.home_of[name]]:
            yield f"homes.{name}: this home is not searched"


def _layer_reasons(instance: Instance, task: LayerTask, plan: Plan) -> Iterator[str]:
    """A layer is split as in the space, sends along its tours, and its mapping is in the layouts of its homes."""
    layer, space = plan.layers[task.name], instance.space
    if evolve(layer.partition, weight_replicas=None) not in space.partitions(task, layer.partition.region):
        yield f"layers.{task.name}: this split is not searched"
    if layer.tours != instance.options[task.name].tours(layer.partition):
        yield f"layers.{task.name}: these tours are not searched"
    if space.is_tied and layer.mapping is not None:
        reads, _, writes = layer.mapping.layout
        for stack, own in ((task.reads.stack, reads), (task.writes, writes)):
            if layout_index(plan.homes[stack].layout) not in (None, own):
                yield f"layers.{task.name}: its node program has another layout of {stack} than its home"
