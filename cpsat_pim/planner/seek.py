"""A first plan, where bounds alone have taken much of the time."""

import time
from collections.abc import Callable

from cpsat_pim.planner.eliminate import INFINITE
from cpsat_pim.planner.instance import Instance
from cpsat_pim.planner.tighten import Tightening


def seek_any_plan(
    instance: Instance, tightening: Tightening, until: float, value: Callable[[], int], keep_best: Callable[[], None]
) -> None:
    """Seek the best plan among partitions that were looked at, one a layer at least.

    Its node programs are first built without a search, as there may be no time for more; then they are solved until it
    is found or the time `until` (of `time.monotonic`) comes. What was not looked at costs little to bound, but there
    may be much of it, and bounds may be far off. `value()`: of the best plan that is known; `keep_best()` keeps the
    best one of the node programs that have mappings.
    """
    costs = instance.costs
    for options in instance.distinct:
        if not options.seen:
            options.look_at(1, costs.stop.is_set)
        options.close(True)
    is_first = True
    while (closed := instance.minimize(upper=False)).cost < min(INFINITE, value()):
        best = [(use, use[0].best(use[1])) for use in instance.uses(closed)]
        if is_first and costs.construct(found[1] for _, found in best if found is not None):
            keep_best()
        is_first = False
        if costs.stop.is_set() or time.monotonic() >= until or not tightening.solve(tightening.useful(best), until):
            break
        keep_best()
    for options in instance.distinct:
        options.close(False)
