"""A good plan soon: the best one by what node programs may cost, whose node problems are then solved."""

from collections.abc import Callable

from cpsat_pim.planner.eliminate import INFINITE
from cpsat_pim.planner.instance import Instance
from cpsat_pim.planner.tighten import Tightening


def seek_plan(
    instance: Instance,
    tightening: Tightening,
    until: float,
    value: Callable[[], int],
    keep_best: Callable[[], None],
    is_late: bool,
) -> None:
    """Seek a better plan among partitions that were looked at, until the time `until` (of `time.monotonic`).

    A node program costs its mapping, or what it may, by its bound. While a plan of that cost would be better than the
    best one, what is not known of its node problems is: first bounds of tiles, then mappings, of a first solve each.
    `value()`: of the best plan that is known; `keep_best()` keeps the best one of the node programs that have mappings.
    Where it `is_late`, the node programs of the first plan are built before, without a search, one partition a layer
    at least, as there may be no time for more.
    """
    costs = instance.costs
    for options in instance.distinct:
        if is_late and not options.seen:
            options.look_at(1, costs.stop.is_set)
        options.suppose(True)
    is_built = not is_late
    while (likely := instance.minimize(upper=False)).cost < min(INFINITE, value()):
        best = [(use, use[0].best(use[1])) for use in instance.uses(likely)]
        if not is_built and costs.construct(found[1] for _, found in best if found is not None):
            keep_best()
        is_built = True
        if not tightening.find_mappings(best, until, is_late):
            break
        keep_best()
    for options in instance.distinct:
        options.suppose(False)
