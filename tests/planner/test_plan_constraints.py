"""Side constraints of a plan: the best plan of those that keep to them, as enumeration has it; mistakes in a line."""

from itertools import combinations

import numpy as np
import pytest
from attrs import evolve, frozen

from cpsat_pim.cli import main
from cpsat_pim.mapper.result import Status
from cpsat_pim.planner.array import NodeArray, Region
from cpsat_pim.planner.evaluate import evaluate_plan
from cpsat_pim.planner.graph import build_graph
from cpsat_pim.planner.plan_constraints import (
    HomeConstraint,
    LayerConstraint,
    PlanConstraints,
    read_plan_constraints,
)
from cpsat_pim.planner.search import solve_plan
from cpsat_pim.planner.solved import SearchLimits
from cpsat_pim.planner.space import Space
from cpsat_pim.workload.network import Network
from tests.planner.made_up import NODE, MadeUpCosts, without_mapping
from tests.planner.test_brute_force import CHAINS, LATENCY, EveryPlan


@frozen
class Restricted:
    """A space whose layers run where they are told to, with splits that a predicate allows."""

    space: Space
    regions: dict
    allows: dict
    is_tied = True

    def partitions(self, task, whole):
        """All partitions of the region, those that are allowed."""
        region = Region(*self.regions.get(task.name, self.regions[None]))
        allowed = self.allows.get(task.name, lambda partition: True)
        return [one for one in self.space.partitions(task, region) if allowed(one)]


class EveryAllowedPlan(EveryPlan):
    """All plans of a restricted space; `allowed_homes`: by tensor, its region and what its homes must be."""

    def __init__(self, *given, allowed_homes):
        self.allowed_homes = allowed_homes
        super().__init__(*given)

    def homes_of(self, name):
        """All homes of the region, those that are allowed."""
        region, allowed = self.allowed_homes.get(name, (self.space.regions[None], lambda home: True))
        shape = self.graph.stacks[name].shape
        return [home for home in self.space.space.homes(shape, Region(*region)) if allowed(home)]


def anything(one):
    """Every partition and home."""
    return True


#: Constraints; and for enumeration regions by layer (None: of all others), splits by layer, homes by tensor.
CASES = {
    "region": (
        PlanConstraints(layers={"b": LayerConstraint(region=(0, 0, 1, 2))}),
        {"b": (0, 0, 1, 2), None: (0, 0, 2, 2)},
        {},
        {},
    ),
    "far region": (
        PlanConstraints(layers={"a": LayerConstraint(region=(1, 1, 1, 1))}),
        {"a": (1, 1, 1, 1), None: (0, 0, 2, 2)},
        {},
        {},
    ),
    "split": (
        PlanConstraints(layers={"a": LayerConstraint(h=(("K", 2),)), "b": LayerConstraint(w=(("P", 2),))}),
        {None: (0, 0, 2, 2)},
        {"a": lambda one: one.h == (("K", 2),), "b": lambda one: one.w == (("P", 2),)},
        {},
    ),
    "home": (
        PlanConstraints(homes={"a": HomeConstraint(region=(0, 1, 2, 1), layout="BHWC")}),
        {None: (0, 0, 2, 2)},
        {},
        {"a": ((0, 1, 2, 1), lambda home: home.layout == "BHWC")},
    ),
    "home split": (
        PlanConstraints(homes={"a": HomeConstraint(h=(("C", 2),), w=(("W", 2),))}),
        {None: (0, 0, 2, 2)},
        {},
        {"a": ((0, 0, 2, 2), lambda home: (home.h, home.w) == ((("C", 2),), (("W", 2),)))},
    ),
    "reserved row": (PlanConstraints(reserved=((0, 0, 1, 2),)), {None: (1, 0, 1, 2)}, {}, {}),
    "reserved but a layer": (
        PlanConstraints(reserved=((0, 0, 2, 1),), layers={"a": LayerConstraint(region=(0, 0, 2, 2))}),
        {"a": (0, 0, 2, 2), None: (0, 1, 2, 1)},
        {},
        {},
    ),
}


def small_array(name="two", rows=2, cols=2):
    """A network of two layers on nodes with tiny flits."""
    graph = build_graph(Network(name="n", layers=CHAINS[name]))
    return graph, NodeArray(rows=rows, cols=cols, node=NODE, flit_bytes=2)


#: Those whose enumeration takes seconds.
QUICK = ("far region", "home", "reserved row")


@pytest.mark.parametrize("case", [one if one in QUICK else pytest.param(one, marks=pytest.mark.slow) for one in CASES])
@pytest.mark.parametrize("room", [pytest.param(1.0, marks=pytest.mark.slow), 0.6])
def test_best_plan_that_keeps_to_constraints_is_that_of_enumeration(monkeypatch, case, room):
    """Regions, splits, homes and reserved nodes, with all the room and with less: proven, as enumeration finds."""
    monkeypatch.setattr("cpsat_pim.planner.instance.LayerPlan", without_mapping)
    constraints, regions, allows, homes = CASES[case]
    graph, array = small_array()
    space = Space(dims=1)
    every = EveryAllowedPlan(
        graph, array, Restricted(space, regions, allows), MadeUpCosts(LATENCY), allowed_homes=homes
    )
    free = int(every.peak[every.latency == every.latency.min()].min())
    capacity = int(every.peak.min() + room * (free - every.peak.min()))
    narrow = evolve(array, capacity_bytes=capacity)
    solved = solve_plan(
        graph, narrow, evolve(space, constraints=constraints), LATENCY, MadeUpCosts(LATENCY), SearchLimits(batch=2)
    )
    best = every.best(capacity)
    assert (solved.status, solved.value, solved.bound) == (Status.OPTIMAL, best, best)
    assert list(constraints.broken_by(graph, solved.plan)) == []
    assert evaluate_plan(graph, solved.plan).peak_bytes <= capacity


@pytest.mark.parametrize(
    ("name", "rows", "layouts"), [("two", 1, 3), ("residual", 1, 3), pytest.param("two", 2, 2, marks=pytest.mark.slow)]
)
@pytest.mark.parametrize("most", [1, 2])
@pytest.mark.parametrize("room", [1.0, 0.5])
@pytest.mark.parametrize("choices_each", [0, 20])
def test_few_layouts_are_proven(monkeypatch, name, rows, layouts, most, room, choices_each):
    """Plans of at most n layouts are all plans of each choice of n layouts, which are enumerated.

    The search eliminates each choice by itself, or all of them in one model where they are too many.
    """
    monkeypatch.setattr("cpsat_pim.planner.plan_constraints.MOST_CHOICES", choices_each)
    monkeypatch.setattr("cpsat_pim.planner.instance.LayerPlan", without_mapping)
    graph, array = small_array(name, rows)
    layouts = ("BCHW", "BHWC", "BCHW[C2]")[:layouts]
    space, costs = Space(dims=1, layouts=layouts), MadeUpCosts(LATENCY)
    choices = list(combinations(layouts, most))
    every = [EveryPlan(graph, array, evolve(space, layouts=some), costs) for some in choices]
    least, best = min(int(one.peak.min()) for one in every), min(int(one.latency.min()) for one in every)
    free = min(int(one.peak[one.latency == best].min(initial=2**40)) for one in every)
    capacity = int(least + room * (free - least))
    found = min(value for one in every if (value := one.best(capacity)) is not None)
    constraints = PlanConstraints(most_layouts=most)
    solved = solve_plan(
        graph,
        evolve(array, capacity_bytes=capacity),
        evolve(space, constraints=constraints),
        LATENCY,
        MadeUpCosts(LATENCY),
        SearchLimits(batch=2),
    )
    assert (solved.status, solved.value, solved.bound) == (Status.OPTIMAL, found, found)
    assert len({home.layout for home in solved.plan.homes.values()}) <= most


def test_free_region_is_the_largest_rectangle_without_reserved_nodes():
    """Of 4x5 nodes with two rectangles reserved, the largest rectangle of free ones, as all rectangles tried say."""
    array = NodeArray(rows=4, cols=5, node=NODE)
    draw = np.random.default_rng(3)
    for _ in range(50):
        reserved = tuple((int(draw.integers(4)), int(draw.integers(5)), 1, 1) for _ in range(4))
        taken = {(y, x) for y, x, _, _ in reserved}
        sizes = [
            h * w
            for y in range(4) for x in range(5) for h in range(1, 5 - y) for w in range(1, 6 - x)
            if not any(y <= a < y + h and x <= b < x + w for a, b in taken)
        ]  # fmt: skip
        found = PlanConstraints(reserved=reserved).free_region(array)
        assert found.size == max(sizes)
        assert not any(found.y <= a < found.y + found.h and found.x <= b < found.x + found.w for a, b in taken)


MISTAKES = {
    "layers: {aa: {region: [0, 0, 1, 1]}}": "layers.aa: is not in the network",
    "layers: {a: {region: [0, 0, 3, 1]}}": "layers.a.region: must lie in the 2 x 2 nodes (got [0, 0, 3, 1])",
    "layers: {a: {region: [0, 0, 1]}}": "layers[a].region: must be [first row, first column, rows, columns]",
    "layers: {a: {h: [[X, 2]]}}": "layers[a].h: must be a list of [dim, parts]",
    "layers: {a: {layout: BCHW}}": "layers[a].layout: unknown key",
    "homes: {b: {layout: BXHW}}": "homes[b].layout: must be BCHW or BHWC",
    "reserved: [[0, 0, 2, 2]]": "reserved: no node is left",
    "most_layouts: 0": "most_layouts: must be a positive integer (got 0)",
}


@pytest.mark.parametrize("text", MISTAKES)
def test_mistakes_in_a_file_are_told_in_a_line(tmp_path, text):
    """A name that the network lacks, a rectangle outside, a word that is none: where, and what was expected."""
    path = tmp_path / "limits.yaml"
    path.write_text(f"version: 1\n{text}\n")
    graph, array = small_array()
    with pytest.raises(ValueError, match=r"limits\.yaml") as error:
        read_plan_constraints(path, graph, array)
    assert MISTAKES[text] in str(error.value)
    assert len(str(error.value).splitlines()) == 1


def test_splits_that_fill_no_region_are_told():
    """A split of three parts fills no side of two nodes."""
    graph, array = small_array()
    space = Space(constraints=PlanConstraints(layers={"a": LayerConstraint(h=(("P", 3),))}))
    with pytest.raises(ValueError, match=r"layers\.a: no split of the space fills any region"):
        solve_plan(graph, array, space, LATENCY, MadeUpCosts(LATENCY))


NETWORK = """version: 1
name: chain
layers:
- {name: a, P: 8, C: 4, K: 8, after: [input]}
- {name: b, P: 8, C: 8, K: 4, after: [a]}
"""


def test_command_keeps_to_constraints(tmp_path, capsys):
    """`--constraints` gives the layer its region; the plan that it wrote is replayed within them, and not without."""
    network, limits, plan = tmp_path / "chain.yaml", tmp_path / "limits.yaml", tmp_path / "plan.json"
    network.write_text(NETWORK)
    limits.write_text("version: 1\nlayers: {a: {region: [0, 1, 1, 1]}}\nmost_layouts: 1\n")
    words = ["plan", str(network), "--arch", "default", "--array", "1x2", "--quiet", "--objective", "latency"]
    assert main([*words, "--constraints", str(limits), "--json", str(plan), "--simulate"]) == 0
    printed = capsys.readouterr()
    assert "constraints: layers a; at most 1 layouts" in printed.out
    assert "every other figure is equal" in printed.err
    assert main([*words, "--constraints", str(limits), "--replay", str(plan)]) == 0
    limits.write_text("version: 1\nlayers: {a: {region: [0, 0, 1, 1]}}\n")
    assert main([*words, "--constraints", str(limits), "--replay", str(plan)]) == 2
    assert "layers.a.region: must be [0, 0, 1, 1] (got [0, 1, 1, 1])" in capsys.readouterr().err
    assert main([*words, "--constraints", str(limits), "--baseline", "greedy"]) == 2
