"""Three ways to the best plan of tiny spaces: enumeration of all plans, the search, and one CP-SAT model of everything.

The model has a literal for each choice of a layer (partition, replicas, homes) and none of the search's tables: its
costs and bytes are those of single steps. With a capacity, every node holds what it may at every step.
"""

from itertools import product

import pytest
from attrs import evolve
from ortools.sat.python import cp_model

from cpsat_pim.mapper.result import Objective, Status
from cpsat_pim.planner.array import NodeArray
from cpsat_pim.planner.capacity import live_members
from cpsat_pim.planner.evaluate import evaluate_plan
from cpsat_pim.planner.graph import build_graph
from cpsat_pim.planner.nodes import NodeProblem, layout_index
from cpsat_pim.planner.phases import rates_of
from cpsat_pim.planner.plan import LayerPlan, Plan, RegionPlan, node_program
from cpsat_pim.planner.search import solve_plan
from cpsat_pim.planner.solved import SearchLimits
from cpsat_pim.planner.space import Space
from cpsat_pim.planner.step import Step
from cpsat_pim.workload.network import Network
from tests.planner.made_up import NETWORKS, NODE, MadeUpCosts, layer, without_mapping

LATENCY = Objective.named("latency")

CHAINS = {
    "two": NETWORKS["chain"],
    "three": [*NETWORKS["chain"], layer("c", ["b"], P=4, C=2, K=2)],
    "residual": NETWORKS["residual"],
}


def layer_choices(graph, array, space, costs, task):
    """Every partition of a layer with every number of replicas: (plan of the layer for layouts, step)."""
    for partition in space.partitions(task, array.whole):
        for replicas in (n for n in range(1, partition.sharing + 1) if partition.sharing % n == 0):
            split = evolve(partition, weight_replicas=replicas if task.has_weights else None)
            step = Step(graph=graph, task=task, partition=split, rates=rates_of(array))

            def planned(read, written, split=split, task=task):
                ties = (layout_index(read.layout), layout_index(written.layout)) if space.is_tied else (None, None)
                problem = NodeProblem(layer=node_program(task, split), layouts=ties)
                cycles, energy, _ = costs.figures(problem)
                return LayerPlan(partition=split, node_cycles=cycles, node_energy_fj=energy)

            yield planned, step


def every_plan(graph, array, space, costs):
    """Every plan of the space, with all numbers of replicas."""
    homes = [[(name, home) for home in space.homes(graph.stacks[name].shape, array.whole)] for name in graph.homes]
    for chosen in product(*homes):
        by_home = dict(chosen)
        placed = {name: by_home[graph.home_of[name]] for name in graph.stacks}
        options = [
            [
                (task.name, planned(placed[task.reads.stack], placed[task.writes]))
                for planned, _ in layer_choices(graph, array, space, costs, task)
            ]
            for task in graph.tasks
        ]
        for layers in product(*options):
            yield whole_array_plan(graph, array, dict(layers), placed)


def whole_array_plan(graph, array, layers, placed):
    """A plan that runs one layer after the other."""
    segments = tuple((RegionPlan(region=array.whole, layers=(task.name,)),) for task in graph.tasks)
    return Plan(network="n", array=array, segments=segments, layers=layers, homes=placed)


class WholeModel:
    """One CP-SAT model of all plans of a space that fit a capacity."""

    def __init__(self, graph, array, space, costs):
        self.graph, self.array, self.space = graph, array, space
        self.model, self.costs = cp_model.CpModel(), costs
        self.homes = {
            name: [(home, self.model.new_bool_var("")) for home in space.homes(graph.stacks[name].shape, array.whole)]
            for name in graph.homes
        }
        for choices in self.homes.values():
            self.model.add_exactly_one(literal for _, literal in choices)
        count = len(graph.tasks)
        self.cycles, self.used = [], [[[] for _ in range(array.nodes)] for _ in range(count)]
        for step, task in enumerate(graph.tasks):
            self._add_layer(step, task)
        self._add_homes()
        for terms in (terms for nodes in self.used for terms in nodes):
            self.model.add(sum(terms) <= array.capacity_bytes)
        self.model.minimize(sum(self.cycles))

    def _add_layer(self, number, task):
        names = [self.graph.home_of[name] for name in (task.reads.stack, task.writes)]
        added = sum(len(one.operands) - 1 for one in task.finishes)
        choices = []
        for planned, step in layer_choices(self.graph, self.array, self.space, self.costs, task):
            for (read, is_read), (written, is_written) in product(*(self.homes[name] for name in names)):
                if names[0] == names[1] and read != written:
                    continue
                chosen = self.model.new_bool_var("")
                self.model.add_implication(chosen, is_read)
                self.model.add_implication(chosen, is_written)
                choices.append(chosen)
                weights, pulled, pushed = step.weights(), step.pull(read), step.push(written, added)
                phases = weights, pulled, step.reduce(written.layout), pushed
                cycles = planned(read, written).node_cycles + sum(phase.cycles for phase in phases)
                self.cycles.append(cycles * chosen)
                staged, held = step.staging(pulled, weights, pushed), step.weight_chunks()
                for node in range(self.array.nodes):
                    self.used[number][node].append(int(staged[node]) * chosen)
                    for other in range(len(self.graph.tasks)):
                        self.used[other][node].append(int(held[node]) * chosen)
        self.model.add_exactly_one(choices)

    def _add_homes(self):
        """Bytes of live tensors by home; how long they live depends on the network alone."""
        for name, choices in self.homes.items():
            for home, literal in choices:
                placed = {
                    stack: home if self.graph.home_of[stack] == name else self.homes[self.graph.home_of[stack]][0][0]
                    for stack in self.graph.stacks
                }
                for stack, first, last, held in self._lives(placed):
                    if self.graph.home_of[stack] == name:
                        for number in range(first, last + 1):
                            for node in range(self.array.nodes):
                                self.used[number][node].append(int(held[node]) * literal)

    def _lives(self, placed):
        """Which stack lives when, and its bytes on each node."""
        for stack in self.graph.stacks:
            only = evolve(self.graph, stacks={stack: self.graph.stacks[stack]})
            plan = whole_array_plan(self.graph, self.array, {}, placed)
            yield from ((stack, *life) for life in live_members(only, plan))

    def solve(self):
        """The least latency; None if nothing fits."""
        solver = cp_model.CpSolver()
        solver.parameters.num_workers = 1
        status = solver.solve(self.model)
        return int(solver.objective_value) if status == cp_model.OPTIMAL else None


def space_of(name, rows, cols):
    """A graph, an array of tiny flits and a small space."""
    graph = build_graph(Network(name="n", layers=CHAINS[name]))
    layouts = ("BCHW", "BHWC") if (name, rows) == ("two", 1) else ("BCHW",)
    array = NodeArray(rows=rows, cols=cols, node=NODE, flit_bytes=2)
    return graph, array, Space(dims=1, layouts=layouts, is_tied=len(layouts) > 1)


@pytest.mark.parametrize(
    ("name", "rows", "cols"),
    [
        ("two", 1, 2),
        ("residual", 1, 2),
        pytest.param("three", 1, 2, marks=pytest.mark.slow),  # tens of seconds
        pytest.param("two", 2, 2, marks=pytest.mark.slow),  # a minute
    ],
)
def test_enumeration_search_and_one_model_agree(monkeypatch, name, rows, cols):
    """All plans with all replicas: the search proves the least latency, and so does the model."""
    monkeypatch.setattr("cpsat_pim.planner.instance.LayerPlan", without_mapping)
    graph, array, space = space_of(name, rows, cols)
    costs = MadeUpCosts(LATENCY)
    best = min(evaluate_plan(graph, plan).latency_cycles for plan in every_plan(graph, array, space, costs))
    solved = solve_plan(graph, array, space, LATENCY, costs, SearchLimits(batch=2))
    assert (solved.status, solved.value, solved.bound) == (Status.OPTIMAL, best, best)
    assert WholeModel(graph, array, space, costs).solve() == best


@pytest.mark.parametrize("name", [pytest.param("two", marks=pytest.mark.slow), "residual"])
def test_search_with_little_room_proves_the_best_plan_that_fits(monkeypatch, name):
    """Enumeration, one model, and the search with its labels agree on the best plan that fits, or that nothing does."""
    monkeypatch.setattr("cpsat_pim.planner.instance.LayerPlan", without_mapping)
    graph, array, space = space_of(name, 1, 2)
    costs = MadeUpCosts(LATENCY)
    found = [evaluate_plan(graph, plan) for plan in every_plan(graph, array, space, costs)]
    peaks = sorted({cost.peak_bytes for cost in found})
    for capacity in (peaks[0] - 1, peaks[0], peaks[len(peaks) // 3], peaks[-1]):
        narrow = evolve(array, capacity_bytes=capacity)
        best = min((cost.latency_cycles for cost in found if cost.peak_bytes <= capacity), default=None)
        assert WholeModel(graph, narrow, space, costs).solve() == best
        solved = solve_plan(graph, narrow, space, LATENCY, MadeUpCosts(LATENCY), SearchLimits(batch=2))
        if best is None:
            assert (solved.plan, solved.status) == (None, Status.INFEASIBLE)
            assert solved.reason is not None
            continue
        assert (solved.status, solved.value, solved.bound) == (Status.OPTIMAL, best, best)
        assert evaluate_plan(graph, solved.plan).peak_bytes <= capacity
