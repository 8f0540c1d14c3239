"""A plan that is sought by what node programs may cost: mappings without a search first, then brief solves."""

import math
import threading
import time

import pytest

from cpsat_pim.mapper.result import Objective
from cpsat_pim.planner.array import NodeArray
from cpsat_pim.planner.eliminate import INFINITE
from cpsat_pim.planner.graph import build_graph
from cpsat_pim.planner.instance import Instance
from cpsat_pim.planner.seek import seek_plan
from cpsat_pim.planner.solved import SearchLimits
from cpsat_pim.planner.space import Space
from cpsat_pim.planner.tighten import Tightening
from cpsat_pim.workload.network import Network
from tests.planner.made_up import NETWORKS, NODE, MadeUpCosts

LATENCY = Objective.named("latency")


class Search:
    """A search of one network at made-up costs, all partitions of which were looked at."""

    def __init__(self, name):
        self.costs, self.value, self.may_solve = MadeUpCosts(LATENCY), INFINITE, True
        graph, array = build_graph(Network(name="n", layers=NETWORKS[name])), NodeArray(rows=2, cols=2, node=NODE)
        self.instance = Instance(graph, array, Space(), LATENCY, self.costs)
        for options in self.instance.distinct:
            options.look_at(len(options.rows))
        self.tightening = Tightening(
            costs=self.costs,
            limits=SearchLimits(),
            until=math.inf,
            is_over=lambda: not self.may_solve,
            is_paused=lambda: False,
            slack=lambda: None,
            factor=1,
            then_energy=lambda: False,
        )

    def keep_best(self):
        """Keep the best plan so far."""
        self.value = min(self.value, self.instance.minimize(upper=True).cost)

    def seek(self, seconds=math.inf, **stage):
        """Seek a plan for so many seconds."""
        until = time.monotonic() + seconds
        seek_plan(self.instance, self.tightening, until, lambda: self.value, self.keep_best, **stage)


@pytest.mark.parametrize("name", ["chain", "residual", "concat", "product"])
def test_first_plan_takes_no_solve(name):
    """Without solves a plan is found than which none may cost less: a program without a mapping may cost a tenth more
    than its bound.
    """
    search = Search(name)
    search.may_solve = False
    search.seek(is_late=False)
    assert not search.costs.solves
    for options in search.instance.distinct:
        options.suppose(True)
    assert search.instance.minimize(upper=False).cost == search.value < INFINITE


@pytest.mark.parametrize("name", ["chain", "residual", "concat", "product"])
def test_mappings_of_the_best_plan_are_solved_then(name):
    """Those that were built cost a tenth more than the best ones. Tables are those of bounds again afterwards."""
    search = Search(name)
    lower = search.instance.minimize(upper=False).cost
    search.may_solve = False
    search.seek(is_late=False)
    before, search.may_solve = search.value, True
    search.seek(is_late=False)
    assert search.costs.solves
    assert lower <= search.instance.minimize(upper=False).cost <= search.value < before
    used = search.instance.uses(search.instance.minimize(upper=True))
    assert {use[0].best(use[1], upper=True)[1] for use in used} <= search.costs.solved


def test_plan_is_made_without_time_where_it_is_late_only():
    """Then also after a stop: without it there is none."""
    search = Search("residual")
    search.seek(0.0, is_late=False)
    assert search.value == INFINITE
    search.costs.stop = threading.Event()
    search.costs.stop.set()
    search.seek(0.0, is_late=True)
    assert search.value < INFINITE
    assert not search.costs.solves
