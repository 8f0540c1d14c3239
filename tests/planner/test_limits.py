"""The limit of a search: with a clock that work alone moves, so that nothing depends on the machine."""

from types import SimpleNamespace

import pytest
from attrs import evolve

from cpsat_pim.mapper.result import Objective, Status
from cpsat_pim.planner.array import NodeArray
from cpsat_pim.planner.graph import build_graph
from cpsat_pim.planner.instance import Instance
from cpsat_pim.planner.labels.setting import _LabelSetting
from cpsat_pim.planner.labels.stages import StagedProblem
from cpsat_pim.planner.options import LayerOptions
from cpsat_pim.planner.search import solve_plan
from cpsat_pim.planner.solved import SearchLimits
from cpsat_pim.planner.space import Space
from cpsat_pim.workload.network import Network
from tests.planner.made_up import NODE, MadeUpCosts, layer, without_mapping

NETWORK = Network(
    name="n",
    layers=[
        layer("a", ["input"], P=4, C=8, K=8, weight_bytes=16),
        layer("b", ["a"], P=4, C=8, K=8, R=3, weight_bytes=16),
        layer("c", ["b"], P=4, C=8, K=4, weight_bytes=16),
    ],
)
#: Pieces of work: each takes a second.
WORK = (
    (LayerOptions, "_compute"),
    (Instance, "_minimize"),
    (StagedProblem, "completions"),
    (_LabelSetting, "_extended"),
)


class RefinedCosts(MadeUpCosts):
    """Bounds are plain until they are raised, then refined, a second each time; so does a solve of some problems."""

    def __init__(self, objective, tick):
        super().__init__(objective)
        self.tick, self.raised, self.refined = tick, set(), set()

    def cost(self, problem):
        """What is known."""
        is_refined = problem in self.refined | self.solved
        return evolve(super().cost(problem), is_refined=is_refined, is_spatial=is_refined or problem in self.raised)

    def raise_bound(self, problem):
        """Raise a plain bound, refine a raised one."""
        if self.cost(problem).is_spatial:
            return self.refine(problem)
        self.tick()
        self.raised.add(problem)
        return self.cost(problem)

    def refine(self, problem, below=None):
        """Refine a bound."""
        if problem not in self.refined:
            self.tick()
            self.refined.add(problem)
        return self.cost(problem)

    def construct(self, problems, is_over=lambda: False):
        """Build mappings, four a second."""

        def is_over_then():
            if len(self.built) % 4 == 0:
                self.tick()
            return is_over()

        return super().construct(problems, is_over_then)

    def solve_all(self, problems, slack=None, until=None, useful=None):
        """Solve all."""
        self.tick()
        super().solve_all(problems, slack, until, useful)


@pytest.fixture
def clock(monkeypatch):
    """A clock that only work moves."""
    now = SimpleNamespace(seconds=0)

    def tick():
        now.seconds += 1

    def slow(work):
        def call(*arguments):
            tick()
            return work(*arguments)

        return call

    for module in ("search", "seek", "refusal", "tighten"):
        source = SimpleNamespace(monotonic=lambda: now.seconds)
        monkeypatch.setattr(f"cpsat_pim.planner.{module}.time", source)
    for kind, name in WORK:
        monkeypatch.setattr(kind, name, slow(getattr(kind, name)))
    monkeypatch.setattr("cpsat_pim.planner.instance.LayerPlan", without_mapping)
    now.tick = tick
    return now


@pytest.mark.parametrize("capacity", [10**6, 4000, 2800, 2400])
def test_search_ends_at_its_limit(clock, capacity):
    """What comes next when the time is up is not begun, but for a bound by what was proven, a plan, and one that fits.

    Each of these is an optimum; a plan, if there is none, takes a partition of each layer. The limits go up to that of
    a search that ends by itself.
    """
    graph, kind = build_graph(NETWORK), Objective.named("latency")
    array = NodeArray(rows=1, cols=2, node=NODE, flit_bytes=2, capacity_bytes=capacity)
    limit, lasted, first = 0, 0, 0
    while lasted >= limit:
        begun = clock.seconds
        costs = RefinedCosts(kind, clock.tick)
        solve_plan(graph, array, Space(dims=1), kind, costs, SearchLimits(time_limit=limit, batch=4))
        lasted = clock.seconds - begun
        first = first or lasted
        assert first <= 8 * len(NETWORK.layers)  # a few pieces of work a layer
        assert lasted <= limit + (4 if limit > 4 * first else first)
        limit += 1 + limit // 8


def test_solves_of_a_first_plan_end_with_its_share_of_the_time(clock):
    """Some plan is sought when 40 % of the time are over, for 30 % of it: not until the search ends."""
    graph, kind = build_graph(NETWORK), Objective.named("latency")
    array = NodeArray(rows=1, cols=2, node=NODE, flit_bytes=2)
    begun, ends = [], []

    class Watched(RefinedCosts):
        def solve_all(self, problems, slack=None, until=None, useful=None):
            if begun:
                ends.append(until - begun[0])
            super().solve_all(problems, slack, until, useful)

    def note(line):
        if line.startswith("no plan yet"):
            begun.append(clock.seconds)

    for limit in range(10, 60, 5):
        costs = Watched(kind, clock.tick)
        solve_plan(graph, array, Space(dims=1), kind, costs, SearchLimits(time_limit=limit, batch=1), note)
        if ends:
            assert ends[0] <= 0.3 * limit
            return
        begun.clear()
    pytest.fail("no plan was sought")


def test_fitting_ends_whatever_share_of_the_limit_is_over_when_it_begins(clock):
    """Of a search that waits for no node program every limit that it does not reach leaves the same, proven plan."""
    graph, kind = build_graph(NETWORK), Objective.named("latency")
    array = NodeArray(rows=1, cols=2, node=NODE, flit_bytes=2, capacity_bytes=2800)
    costs, space = MadeUpCosts(kind), Space(dims=1)
    expected = solve_plan(graph, array, space, kind, costs, SearchLimits(time_limit=10**6, batch=1))
    begun = clock.seconds
    assert solve_plan(graph, array, space, kind, costs, SearchLimits(time_limit=10**6, batch=1)).gap == 0
    lasted = clock.seconds - begun
    for limit in range(lasted + 1, 3 * lasted, max(1, lasted // 3)):
        solved = solve_plan(graph, array, space, kind, costs, SearchLimits(time_limit=limit, batch=1))
        assert (solved.status, solved.value) == (Status.OPTIMAL, expected.value)


def test_plan_is_sought_though_most_layers_were_not_looked_at(clock):
    """Bounds of the first layers may take 40 % of the time, after which a plan is sought: the others get a look then.

    Of 24 s or more, the 7 that a search for a plan has are enough for a bound, a partition's moves and a solve each.
    """
    graph, kind = build_graph(NETWORK), Objective.named("latency")
    array = NodeArray(rows=1, cols=2, node=NODE, flit_bytes=2)
    for limit in range(24, 48):
        costs = RefinedCosts(kind, clock.tick)
        solved = solve_plan(graph, array, Space(dims=1), kind, costs, SearchLimits(time_limit=limit))
        assert solved.plan is not None


@pytest.mark.parametrize("capacity", [2400, 2600, 2800])
def test_plan_that_fits_is_proven_in_a_time_in_which_options_without_room_left_none(clock, capacity):
    """With all weights on both nodes `b` alone takes 3,072 bytes and more, and is quickest.

    While such options took part, no plan was found in 90 s, as the bound of all plans was one of too large ones.
    """
    graph, kind = build_graph(NETWORK), Objective.named("latency")
    array = NodeArray(rows=1, cols=2, node=NODE, flit_bytes=2, capacity_bytes=capacity)
    limits = SearchLimits(time_limit=100, batch=4)
    solved = solve_plan(graph, array, Space(dims=1), kind, RefinedCosts(kind, clock.tick), limits)
    assert solved.status is Status.OPTIMAL
    assert solved.cost.peak_bytes <= capacity
