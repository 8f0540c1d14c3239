"""A good plan soon: the best one by what node programs may cost, whose node problems then get mappings."""

import time
from collections.abc import Callable

from cpsat_pim.planner.eliminate import INFINITE
from cpsat_pim.planner.instance import Instance
from cpsat_pim.planner.tighten import Tightening, layers_of


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
    best one, its node problems get mappings that take no search. Then those of the best plan are solved briefly.
    `value()`: of the best plan that is known; `keep_best()` keeps the best one of the node programs that have mappings.
    Where it `is_late`, a first plan is made however little time there is, of one partition a layer at least.
    """

    def is_over() -> bool:
        is_needed = is_late and value() >= INFINITE
        return not is_needed and (instance.costs.stop.is_set() or time.monotonic() >= until)

    for options in instance.distinct:
        if is_late and not options.seen:
            options.look_at(1, instance.costs.stop.is_set)
        options.suppose(True)
    while (likely := instance.minimize(upper=False)).cost < INFINITE and likely.cost <= value():
        uses = instance.uses(likely)
        best = [(use, use[0].best(use[1])) for use in uses]
        built = instance.costs.construct((found[1] for _, found in best if found is not None), is_over)
        if not (built or tightening.find_mappings(layers_of(uses, best), until)):
            break
        keep_best()
    for options in instance.distinct:
        options.suppose(False)
