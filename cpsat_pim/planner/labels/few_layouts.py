"""First plans where the number of layouts is limited: the best ones of solved node problems, for choices of layouts."""

from collections.abc import Iterator
from itertools import combinations, islice

from cpsat_pim.planner.eliminate import INFINITE
from cpsat_pim.planner.instance import Instance
from cpsat_pim.planner.plan import Plan

#: Choices of layouts that are tried.
_MOST_CHOICES = 20


def plans_of_few_layouts(instance: Instance) -> Iterator[Plan]:
    """Yield the best plan of solved node problems for each choice of as many layouts as are allowed."""
    layouts = instance.space.layouts
    most = min(instance.space.constraints.most_layouts or len(layouts), len(layouts))
    for some in islice(combinations(layouts, most), _MOST_CHOICES):
        upper = instance.minimize(True, layouts=some)
        if upper.cost < INFINITE:
            yield instance.plan(upper)
