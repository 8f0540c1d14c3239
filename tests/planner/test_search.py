"""The search against enumeration of all plans of small spaces; most node costs are made up, so no mapper is needed."""

from itertools import product

import pytest
from attrs import evolve

from cpsat_pim.mapper.result import Objective, Status
from cpsat_pim.planner.array import NodeArray, Region
from cpsat_pim.planner.evaluate import evaluate_plan
from cpsat_pim.planner.graph import build_graph
from cpsat_pim.planner.nodes import NodeCosts, NodeProblem
from cpsat_pim.planner.plan import LayerPlan, Plan, RegionPlan, node_program
from cpsat_pim.planner.search import solve_plan
from cpsat_pim.planner.solved import SearchLimits
from cpsat_pim.planner.space import Space
from cpsat_pim.workload.network import Network
from tests.planner.made_up import NETWORKS, NODE, MadeUpCosts, all_plans, layer, without_mapping
from tests.planner.test_limits import RefinedCosts


@pytest.mark.parametrize("objective", ["latency", "energy"])
@pytest.mark.parametrize(
    ("name", "cols", "is_tied", "columns"),
    [
        ("chain", 2, True, False),
        ("chain", 2, False, True),
        ("pooled", 2, False, False),
        ("residual", 2, False, False),
        ("gated", 2, False, True),
        ("concat", 2, False, False),
        ("beside", 2, False, False),
        ("pyramid", 2, False, False),
        ("summed by readers", 2, False, False),
        ("many", 2, False, False),
        ("again", 2, False, False),
        ("shared", 2, False, False),
        ("product", 2, False, False),
    ],
)
def test_optimum_is_that_of_enumeration(monkeypatch, name, cols, is_tied, columns, objective):
    """No plan costs less, and the plan that is returned costs as much; few node problems were solved."""
    monkeypatch.setattr("cpsat_pim.planner.instance.LayerPlan", without_mapping)
    graph = build_graph(Network(name="n", layers=NETWORKS[name]))
    array = NodeArray(rows=1, cols=cols, node=NODE, flit_bytes=2)
    layouts = ("BCHW", "BHWC") if is_tied else ("BCHW",)
    space = Space(dims=1, layouts=layouts, is_tied=is_tied, home_columns=columns)
    kind = Objective.named(objective)
    costs = MadeUpCosts(kind)
    solved = solve_plan(graph, array, space, kind, costs, SearchLimits(batch=2))
    assert solved.status is Status.OPTIMAL
    best = min(
        kind.value(cost.latency_cycles, cost.energy_fj)
        for cost in (evaluate_plan(graph, plan) for plan in all_plans(graph, array, space, costs))
    )
    assert solved.value == solved.bound == best
    cost = evaluate_plan(graph, solved.plan)
    assert kind.value(cost.latency_cycles, cost.energy_fj) == best


@pytest.mark.parametrize("name", ["chain", "residual", "concat"])
def test_lexicographic_optimum_is_that_of_enumeration(monkeypatch, name):
    """Of all plans of the least latency none takes less energy, and both are proven."""
    monkeypatch.setattr("cpsat_pim.planner.instance.LayerPlan", without_mapping)
    graph = build_graph(Network(name="n", layers=NETWORKS[name]))
    array, space = NodeArray(rows=1, cols=2, node=NODE, flit_bytes=2), Space(dims=1, layouts=("BCHW",), is_tied=False)
    kind = Objective.named("latency")
    costs = MadeUpCosts(kind)
    solved = solve_plan(graph, array, space, kind, costs, SearchLimits(batch=2), then_energy=True)
    plans = (evaluate_plan(graph, plan) for plan in all_plans(graph, array, space, costs))
    best = min((cost.latency_cycles, cost.energy_fj) for cost in plans)
    assert (solved.cost.latency_cycles, solved.cost.energy_fj) == best
    assert (solved.bound, solved.energy_bound) == best


def test_bound_has_what_the_last_solves_proved(monkeypatch):
    """A search that is stopped while node problems are solved has a bound above that of the floors it began with."""
    monkeypatch.setattr("cpsat_pim.planner.instance.LayerPlan", without_mapping)
    graph, kind = build_graph(Network(name="n", layers=NETWORKS["chain"])), Objective.named("latency")
    array, space = NodeArray(rows=1, cols=2, node=NODE, flit_bytes=2), Space(dims=1, layouts=("BCHW",), is_tied=False)

    class Stopped(MadeUpCosts):
        def solve_all(self, *given, **more):
            super().solve_all(*given, **more)
            self.stop.set()

    class Unsolved(MadeUpCosts):
        def solve_all(self, *given, **more):
            self.stop.set()

    floor, stopped, whole = (
        solve_plan(graph, array, space, kind, made(kind)) for made in (Unsolved, Stopped, MadeUpCosts)
    )
    assert floor.bound < stopped.bound <= whole.bound == whole.value


def test_known_plan_is_never_worse_than_the_result(monkeypatch):
    """A search that has no time returns the plan that it was given."""
    monkeypatch.setattr("cpsat_pim.planner.instance.LayerPlan", without_mapping)
    graph, kind = build_graph(Network(name="n", layers=NETWORKS["chain"])), Objective.named("latency")
    array, space = NodeArray(rows=1, cols=2, node=NODE, flit_bytes=2), Space(dims=1, layouts=("BCHW",), is_tied=False)
    costs = MadeUpCosts(kind)
    known = next(all_plans(graph, array, space, costs))
    solved = solve_plan(graph, array, space, kind, costs, SearchLimits(time_limit=0.0), incumbents=[known])
    assert solved.plan == known
    assert solved.value == evaluate_plan(graph, known).latency_cycles
    assert solved.bound <= solved.value


@pytest.mark.parametrize("is_tied", [False, True])
def test_there_is_a_plan_without_time(is_tied):
    """Of node programs that are built without a search, in the layouts of the homes if these are tied."""
    graph, kind = build_graph(Network(name="n", layers=NETWORKS["chain"])), Objective.named("latency")
    array, space = NodeArray(rows=1, cols=2, node=NODE, flit_bytes=2), Space(dims=1, is_tied=is_tied)
    costs = NodeCosts(NODE, kind)
    solved = solve_plan(graph, array, space, kind, costs, SearchLimits(time_limit=0.0))
    assert (solved.status, costs.solves) == (Status.FEASIBLE, 0)
    assert solved.value == evaluate_plan(graph, solved.plan).latency_cycles >= solved.bound > 0


def test_layer_that_is_smaller_than_the_array_runs_on_a_part_of_it(monkeypatch):
    """Seven nodes: four values of P and K fill no more than four of them with one split."""
    monkeypatch.setattr("cpsat_pim.planner.instance.LayerPlan", without_mapping)
    graph, kind = build_graph(Network(name="n", layers=NETWORKS["chain"])), Objective.named("energy")
    array = NodeArray(rows=1, cols=7, node=NODE, flit_bytes=2)
    solved = solve_plan(graph, array, Space(dims=1), kind, MadeUpCosts(kind))
    assert solved.status is Status.OPTIMAL
    assert {regions[0].region for regions in solved.plan.segments} == {Region(0, 0, 1, 4)}


def test_stop_ends_the_search_with_what_it_has(monkeypatch):
    """Nothing was solved, so there is no plan, but a bound."""
    monkeypatch.setattr("cpsat_pim.planner.instance.LayerPlan", without_mapping)
    graph, kind = build_graph(Network(name="n", layers=NETWORKS["chain"])), Objective.named("latency")
    array, space = NodeArray(rows=1, cols=2, node=NODE, flit_bytes=2), Space(dims=1, layouts=("BCHW",), is_tied=False)
    costs = MadeUpCosts(kind)
    costs.stop.set()
    solved = solve_plan(graph, array, space, kind, costs)
    assert (solved.interrupted, solved.plan, solved.status) == (True, None, Status.UNKNOWN)


FORKED = [
    layer("a", ["input"], P=2, K=2),
    layer("b1", ["a"], P=2, C=2),
    layer("b2", ["b1"], P=2, K=2),
    layer("side", ["a"], P=2, C=2, K=2),
    layer("c", ["b2", "side"], P=2, C=2, join="add"),
]
INCEPTION = [
    layer("a", ["input"], P=2, C=2, K=2),
    layer("b", ["input"], P=2, C=2),
    layer("c", ["input"], P=2, C=2),
    layer("d", ["a", "b", "c"], P=2, C=4, join="concat"),
]


def side_by_side(graph, array, space, costs, leaves):
    """Every plan that runs branches (names of layers) on these regions, in one segment in their place."""
    region_of = {name: region for region, names in leaves for name in names}
    homes = []
    for name in graph.homes:
        users = [task.name for task in graph.tasks if graph.home_of[task.writes] == name] + list(graph.readers(name))
        regions = {region_of.get(user) for user in users}
        inner = name != "input" and len(regions) == 1 and None not in regions
        region = regions.pop() if inner else array.whole
        homes.append([(name, home) for home in space.homes(graph.stacks[name].shape, region)])
    for chosen in product(*homes):
        placed = {name: dict(chosen)[graph.home_of[name]] for name in graph.stacks}
        options = []
        for task in graph.tasks:
            found = []
            for partition in space.partitions(task, region_of.get(task.name, array.whole)):
                cycles, energy, _ = costs.figures(NodeProblem(layer=node_program(task, partition)))
                found.append((task.name, LayerPlan(partition=partition, node_cycles=cycles, node_energy_fj=energy)))
            options.append(found)
        segments, is_placed = [], False
        for task in graph.tasks:
            if task.name not in region_of:
                segments.append((RegionPlan(region=array.whole, layers=(task.name,)),))
            elif not is_placed:
                segments.append(tuple(RegionPlan(region=region, layers=names) for region, names in leaves))
                is_placed = True
        for layers in product(*options):
            yield Plan(network="n", array=array, segments=tuple(segments), layers=dict(layers), homes=placed)


LEFT, RIGHT = Region(0, 0, 1, 1), Region(0, 1, 1, 1)


@pytest.mark.parametrize(
    ("layers", "branches"), [(FORKED, [["b1", "b2"], ["side"]]), (INCEPTION, [["a"], ["b"], ["c"]])]
)
def test_branches_side_by_side_are_as_good_as_enumeration(monkeypatch, layers, branches):
    """On two nodes every way to give branches to the nodes; the bound is below all plans, and mostly met."""
    monkeypatch.setattr("cpsat_pim.planner.instance.LayerPlan", without_mapping)
    graph, kind = build_graph(Network(name="n", layers=layers)), Objective.named("latency")
    array = NodeArray(rows=1, cols=2, node=NODE, flit_bytes=64)
    space = Space(dims=1, layouts=("BCHW",), is_tied=False, cuts=1)
    costs = MadeUpCosts(kind)
    solved = solve_plan(graph, array, space, kind, costs, SearchLimits(batch=2))
    plans = list(all_plans(graph, array, space, costs))
    for right in product((False, True), repeat=len(branches)):
        if any(right) and not all(right):
            sides = [
                (region, tuple(n for b, r in zip(branches, right, strict=True) if r is is_right for n in b))
                for region, is_right in ((LEFT, False), (RIGHT, True))
            ]
            plans += side_by_side(graph, array, space, costs, sides)
    best = min(evaluate_plan(graph, plan).latency_cycles for plan in plans)
    assert solved.bound <= best <= solved.value
    assert solved.status is Status.OPTIMAL
    assert len(solved.plan.segments) < len(graph.tasks)  # digests make node programs as slow on two nodes as on one


def test_weights_that_cannot_fit_are_refused_with_what_they_take():
    """Two layers of 64 weights of 16 bytes each take 1024 bytes a node, if they are stored once on two nodes.

    Besides, two tensors of 32 bytes live at a time, which take 32 bytes on each node.
    """
    layers = [layer("a", ["input"], P=4, C=8, K=8, weight_bytes=16), layer("b", ["a"], P=4, C=8, K=8, weight_bytes=16)]
    graph, kind = build_graph(Network(name="n", layers=layers)), Objective.named("latency")
    array = NodeArray(rows=1, cols=2, node=NODE, flit_bytes=2, capacity_bytes=1055)
    solved = solve_plan(graph, array, Space(dims=1), kind, MadeUpCosts(kind))
    assert (solved.status, solved.plan) == (Status.INFEASIBLE, None)
    assert "take at least 1056 on each of 2 nodes; the least that would do is " in solved.reason


@pytest.mark.parametrize("share", [0.9, 0.6, 0.5])
def test_plan_that_does_not_fit_replicates_weights_less(monkeypatch, share):
    """The best plan of all is too large for the nodes: the one returned fits, and the bound is below all that fit."""
    monkeypatch.setattr("cpsat_pim.planner.instance.LayerPlan", without_mapping)
    layers = [
        layer("a", ["input"], P=4, C=8, K=8, weight_bytes=16),
        layer("b", ["a"], P=4, C=8, K=8, weight_bytes=16),
    ]
    graph, kind = build_graph(Network(name="n", layers=layers)), Objective.named("latency")
    space, costs = Space(dims=1, layouts=("BCHW",), is_tied=False), MadeUpCosts(kind)
    array = NodeArray(rows=1, cols=2, node=NODE, flit_bytes=2)
    free = solve_plan(graph, array, space, kind, costs)
    tight = evolve(array, capacity_bytes=int(share * free.cost.peak_bytes))
    solved = solve_plan(graph, tight, space, kind, costs)
    fitting = []
    for plan in all_plans(graph, tight, space, costs):
        for replicas in product((1, 2), repeat=2):
            if all(plan.layers[n].partition.sharing % r == 0 for n, r in zip("ab", replicas, strict=True)):
                layers = {
                    n: evolve(plan.layers[n], partition=evolve(plan.layers[n].partition, weight_replicas=r))
                    for n, r in zip("ab", replicas, strict=True)
                }
                cost = evaluate_plan(graph, evolve(plan, layers=layers))
                if cost.peak_bytes <= tight.capacity_bytes:
                    fitting.append(cost.latency_cycles)
    if not fitting:
        assert solved.plan is None
        return
    assert solved.bound <= min(fitting) <= solved.value
    assert solved.cost.peak_bytes <= tight.capacity_bytes


@pytest.mark.parametrize("name", ["chain", "residual", "concat", "product"])
def test_search_begins_with_the_best_plan_of_what_was_solved_before(monkeypatch, name):
    """A search on the node problems that another one solved knows that one's plan before it tightens any bound."""
    monkeypatch.setattr("cpsat_pim.planner.instance.LayerPlan", without_mapping)
    graph = build_graph(Network(name="n", layers=NETWORKS[name]))
    array = NodeArray(rows=2, cols=2, node=NODE, flit_bytes=2)
    space, kind = Space(dims=2, layouts=("BCHW", "BHWC")), Objective.named("latency")
    first, second, lines = MadeUpCosts(kind), RefinedCosts(kind, lambda: None), []
    optimum = solve_plan(graph, array, space, kind, first, SearchLimits(batch=2)).value
    second.solved |= first.solved
    limits = SearchLimits(batch=max(2, len(first.solved)))
    solved = solve_plan(graph, array, space, kind, second, limits, lines.append)
    assert solved.value == optimum
    assert not second.solves
    assert all(f"best {optimum}," in line for line in lines)
