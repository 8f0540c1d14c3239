"""Plans of baselines: legal, costed by the common way, and never better than the optimum of the same space."""

import hashlib

import pytest
from attrs import evolve

from cpsat_pim.arch import PIMArchitecture
from cpsat_pim.mapper.result import Objective
from cpsat_pim.planner.array import NodeArray
from cpsat_pim.planner.baselines import step_costs
from cpsat_pim.planner.baselines.problem import Problem
from cpsat_pim.planner.baselines.replicas import NoRoom
from cpsat_pim.planner.baselines.run import BASELINES, plan_baseline
from cpsat_pim.planner.evaluate import evaluate_plan
from cpsat_pim.planner.graph import build_graph
from cpsat_pim.planner.nodes import NodeCost
from cpsat_pim.planner.plan import LayerPlan, check_plan
from cpsat_pim.planner.simulation import differences, simulate
from cpsat_pim.planner.space import Space
from cpsat_pim.workload import ConvWorkload
from cpsat_pim.workload.network import Network, NetworkNode

NODE = PIMArchitecture()


class MadeUpCosts:
    """Node costs that are a digest of the problem; floors are up to 30 cycles below."""

    def __init__(self, objective):
        self.objective, self.solved, self.solves, self.arch = objective, set(), 0, NODE

    def figures(self, problem):
        """(cycles, fJ, how far the floor is below)."""
        digest = hashlib.sha256(repr((problem.layer.shape, problem.layouts)).encode()).digest()
        return 100 + digest[0], 10**6 * (1 + digest[1]), digest[2] % 31

    def cost(self, problem):
        """A floor, or the figures once they were asked for."""
        cycles, energy, below = self.figures(problem)
        value = self.objective.value(cycles, energy)
        if problem not in self.solved:
            return NodeCost(least=max(0, value - below))
        return NodeCost(least=value, value=value, latency_cycles=cycles, energy_fj=energy, mapping=object())

    def refine(self, problem):
        """Nothing: all are."""
        return self.cost(problem)

    def solve(self, problem, until):
        """Remember that it was asked for."""
        self.solved.add(problem)
        self.solves += 1
        return self.cost(problem)

    def construct(self, problems):
        """Give them mappings that count as no solve."""
        self.solved |= set(problems)


def layer(name, *after, **fields):
    """A layer of 4 positions."""
    keys = {key: fields.pop(key) for key in ("join", "weights") if key in fields}
    return NetworkNode(name=name, after=after, workload=ConvWorkload(name=name, P=4, **fields), **keys)


NETWORKS = {
    "chain": [layer("a", "input", Q=4, C=2, K=4), layer("b", "a", Q=4, C=4, K=4, R=3, S=3)],
    "heavy": [
        layer("a", "input", Q=4, R=3, S=3, weight_bytes=64),
        layer("b", "a", Q=4, R=3, S=3, weight_bytes=64),
    ],
    "residual": [
        layer("a", "input", C=2, K=2),
        layer("b", "a", C=2, K=2, R=3),
        layer("side", "a", C=2, K=2),
        layer("c", "b", "side", C=2, join="add"),
    ],
    "concat": [
        layer("a", "input", C=2, K=2),
        layer("b", "input", C=2, K=4),
        layer("c", "a", "b", C=6, join="concat"),
    ],
    "product": [
        layer("a", "input", C=2, K=4),
        layer("b", "input", C=2, K=4),
        layer("c", "a", "b", C=2, K=4, G=2, weights=False),
    ],
}


@pytest.fixture(autouse=True)
def _no_mappings(monkeypatch):
    """Mappings are made up as costs are, so plans carry none."""
    monkeypatch.setattr(step_costs, "LayerPlan", lambda **fields: LayerPlan(**fields | {"mapping": None}))


def problem_of(name, kind="latency", rows=1, cols=2, **fields):
    """A network on a small array, layouts tied."""
    graph, objective = build_graph(Network(name=name, layers=NETWORKS[name])), Objective.named(kind)
    array = NodeArray(rows=rows, cols=cols, node=NODE, flit_bytes=2, **fields)
    return Problem(graph=graph, array=array, space=Space(dims=1), objective=objective,
                   costs=MadeUpCosts(objective), report=lambda line: None)  # fmt: skip


@pytest.mark.parametrize("baseline", BASELINES)
@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize(("rows", "cols"), [(1, 2), (2, 2)])
def test_plan_is_legal_and_simulated_as_predicted(baseline, name, rows, cols):
    """Every exact figure of the simulation is the predicted one, regions and joins included."""
    problem = problem_of(name, rows=rows, cols=cols)
    found = plan_baseline(baseline, problem)
    assert check_plan(problem.graph, found.plan) == []
    cost = evaluate_plan(problem.graph, found.plan)
    assert found.value == cost.latency_cycles
    simulated = simulate(Network(name=name, layers=NETWORKS[name]), problem.graph, found.plan)
    assert differences(problem.graph, cost, simulated) == []


@pytest.mark.parametrize("kind", ["latency", "energy"])
@pytest.mark.parametrize("baseline", BASELINES)
def test_first_layer_alone_gets_its_optimum(baseline, kind):
    """Of one layer that keeps its homes no partition is better: what the greedy and the others choose is enumerated."""
    problem = problem_of("chain", kind)
    problem = evolve(problem, graph=build_graph(Network(name="one", layers=NETWORKS["chain"][:1])))
    found = plan_baseline(baseline, problem)
    homes = found.plan.homes
    values = []
    for partition in problem.partitions("a", problem.array.whole):
        choice = problem.exact("a", partition, homes)
        plan = evolve(found.plan, layers={"a": choice.layer_plan})
        values.append(problem.evaluate(plan)[1])
    assert found.value <= min(values) or baseline == "alternating"


@pytest.mark.parametrize("name", ["chain", "residual"])
def test_greedy_first_step_is_least_over_homes_too(name):
    """The greedy's first layer costs the least over all partitions and homes of the space."""
    problem = problem_of(name)
    found = plan_baseline("greedy", problem)
    layer = problem.layer("a")
    least = min(
        problem.exact("a", partition, {**problem_homes, "a": written}).cost[0]
        for problem_homes in ({"input": home} for home in problem.homes["input"])
        for written in problem.homes["a"]
        for partition in problem.partitions("a", problem.array.whole)
    )
    around = problem.step_homes("a", found.plan.homes)
    assert layer.cheapest([(found.plan.layers["a"].partition, around)], problem.effort).cost[0] == least


@pytest.mark.parametrize("baseline", BASELINES)
def test_weights_are_replicated_less_until_the_plan_fits(baseline):
    """Two layers of 9 weights of 64 bytes that all of 4 nodes need: a node holds 1152 bytes of them, or a quarter."""
    free = plan_baseline(baseline, problem_of("heavy", rows=2)).cost.peak_bytes
    assert 1152 < free < 1152 + 100
    found = plan_baseline(baseline, problem_of("heavy", rows=2, capacity_bytes=1100))
    assert found.cost.peak_bytes <= 1100
    assert min(layer.partition.replicas for layer in found.plan.layers.values()) < 4
    with pytest.raises(NoRoom, match="capacity: 10 bytes a node are too few"):
        plan_baseline(baseline, problem_of("heavy", rows=2, capacity_bytes=10))


@pytest.mark.parametrize("baseline", BASELINES)
def test_baseline_solves_nothing_once_the_time_is_up(baseline):
    """Node programs are built without a search then, one a layer at least."""
    problem = problem_of("residual", rows=2)
    problem.effort.until = 0.0
    found = plan_baseline(baseline, problem)
    assert check_plan(problem.graph, found.plan) == []
    assert problem.costs.solves == 0


def test_choices_that_may_solve_nothing_take_what_is_solved():
    """Without solves left an unsolved partition is passed over, and the choice is counted as cut."""
    problem = problem_of("chain")
    homes = {name: found[0] for name, found in problem.homes.items()}
    partitions = problem.partitions("a", problem.array.whole)
    known = problem.exact("a", partitions[-1], homes)
    problem.effort.solves = 0
    choice = problem.cheapest("a", problem.array.whole, homes)
    assert choice.partition == known.partition
    assert problem.effort.cut == 1
