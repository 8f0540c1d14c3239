"""Three ways to the best plan of tiny spaces: enumeration of all plans, the search, and one CP-SAT model of everything.

The model has a literal for each choice of a layer (partition, replicas, homes) and none of the search's tables: its
costs and bytes are those of single steps. With a capacity, every node holds what it may at every step.
"""

import re
from itertools import product

import numpy as np
import pytest
from attrs import evolve
from ortools.sat.python import cp_model

from cpsat_pim.mapper.result import Objective, Status
from cpsat_pim.planner.additions import addition_of
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
    "gated": NETWORKS["gated"],
}


SPACES = [
    ("two", 1, 2),
    ("residual", 1, 2),
    ("gated", 1, 2),
    ("residual", 2, 2),
    *(pytest.param(*space, marks=pytest.mark.slow) for space in [("three", 1, 2), ("two", 2, 2), ("three", 2, 2)]),
]


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


class EveryPlan:
    """Latency and fullest node of every plan of a space, with all numbers of replicas: int64[plans] each.

    Both are sums and maxima of what single steps and homes take.
    """

    def __init__(self, graph, array, space, costs):
        self.graph, self.array, self.space = graph, array, space
        homes = [[(name, home) for home in self.homes_of(name)] for name in graph.homes]
        choices = [list(layer_choices(graph, array, space, costs, task)) for task in graph.tasks]
        found = [self._with_homes(dict(chosen), choices) for chosen in product(*homes)]
        self.latency, self.peak = (np.concatenate([one[i].reshape(-1) for one in found]) for i in (0, 1))
        self._plans = [make for _, _, make in found]
        self._ends = np.cumsum([one[0].size for one in found])

    def homes_of(self, name):
        """All homes of a tensor."""
        return self.space.homes(self.graph.stacks[name].shape, self.array.whole)

    def _with_homes(self, by_home, choices):
        """Latency and peak by the choices of all layers, and what makes a plan of one."""
        graph, array, count = self.graph, self.array, len(self.graph.tasks)
        placed = {name: by_home[graph.home_of[name]] for name in graph.stacks}
        live = np.zeros((count, array.nodes), dtype=np.int64)
        for first, last, held in live_members(graph, whole_array_plan(graph, array, {}, placed)):
            live[first : last + 1] += held
        latency, used = np.zeros((), dtype=np.int64), live
        for number, (task, made) in enumerate(zip(graph.tasks, choices, strict=True)):
            read, written = placed[task.reads.stack], placed[task.writes]
            figures = [figures_of(task, planned, step, read, written) for planned, step in made]
            bytes_of = np.zeros((len(made), count, array.nodes), dtype=np.int64)
            for i, (_, (held, staged)) in enumerate(figures):
                bytes_of[i] += held
                bytes_of[i, number] += staged
            latency = latency[..., None] + np.array([cycles for cycles, _ in figures])
            used = used[..., None, :, :] + bytes_of

        def make(index):
            at = np.unravel_index(index, latency.shape)
            layers = {
                task.name: made[i][0](placed[task.reads.stack], placed[task.writes])
                for task, made, i in zip(graph.tasks, choices, at, strict=True)
            }
            return whole_array_plan(graph, array, layers, placed)

        return latency, used.max(axis=(-2, -1)), make

    def plan(self, index):
        """One of the plans."""
        at = int(np.searchsorted(self._ends, index, side="right"))
        return self._plans[at](index - (int(self._ends[at - 1]) if at else 0))

    def best(self, capacity):
        """The least latency of those that fit; None if none does."""
        return int(self.latency[self.peak <= capacity].min()) if (self.peak <= capacity).any() else None


def figures_of(task, planned, step, read, written):
    """Cycles of a layer's choice between two homes, and the bytes that it holds and stages on each node."""
    added = addition_of(step.graph, task, task.finishes)
    weights, pulled, pushed = step.weights(), step.pull(read), step.push(written, added)
    phases = weights, pulled, step.reduce(written.layout), pushed
    cycles = planned(read, written).node_cycles + sum(phase.cycles for phase in phases)
    return cycles, (step.weight_chunks(), step.staging(pulled, weights, pushed))


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
        choices = []
        for planned, step in layer_choices(self.graph, self.array, self.space, self.costs, task):
            for (read, is_read), (written, is_written) in product(*(self.homes[name] for name in names)):
                if names[0] == names[1] and read != written:
                    continue
                chosen = self.model.new_bool_var("")
                self.model.add_implication(chosen, is_read)
                self.model.add_implication(chosen, is_written)
                choices.append(chosen)
                cycles, (held, staged) = figures_of(task, planned, step, read, written)
                self.cycles.append(cycles * chosen)
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


@pytest.fixture(scope="module")
def everything():
    """All plans of a space, enumerated once."""
    known = {}

    def enumerate_plans(name, rows, cols):
        if (name, rows, cols) not in known:
            graph, array, space = space_of(name, rows, cols)
            known[name, rows, cols] = EveryPlan(graph, array, space, MadeUpCosts(LATENCY))
        return known[name, rows, cols]

    return enumerate_plans


@pytest.mark.parametrize(("name", "rows", "cols"), SPACES)
def test_enumerated_figures_are_those_of_plans(everything, name, rows, cols):
    """Latency and peak of plans drawn at random are what evaluating the whole plan gives."""
    every, draw = everything(name, rows, cols), np.random.default_rng(1)
    for index in draw.integers(len(every.latency), size=50):
        cost = evaluate_plan(every.graph, every.plan(int(index)))
        assert (cost.latency_cycles, cost.peak_bytes) == (every.latency[index], every.peak[index])


@pytest.mark.parametrize(("name", "rows", "cols"), SPACES)
def test_enumeration_search_and_one_model_agree(monkeypatch, everything, name, rows, cols):
    """All plans with all replicas: the search proves the least latency, and so does the model."""
    monkeypatch.setattr("cpsat_pim.planner.instance.LayerPlan", without_mapping)
    graph, array, space = space_of(name, rows, cols)
    costs, best = MadeUpCosts(LATENCY), int(everything(name, rows, cols).latency.min())
    solved = solve_plan(graph, array, space, LATENCY, costs, SearchLimits(batch=2))
    assert (solved.status, solved.value, solved.bound) == (Status.OPTIMAL, best, best)
    assert WholeModel(graph, array, space, costs).solve() == best


@pytest.mark.parametrize(("name", "rows", "cols"), SPACES)
def test_search_with_little_room_proves_the_best_plan_that_fits(monkeypatch, everything, name, rows, cols):
    """Enumeration, one model, and the search with its labels agree on the best plan that fits, or that nothing does.

    Then the least capacity that would do is what the smallest of all plans takes.
    """
    monkeypatch.setattr("cpsat_pim.planner.instance.LayerPlan", without_mapping)
    graph, array, space = space_of(name, rows, cols)
    every, costs = everything(name, rows, cols), MadeUpCosts(LATENCY)
    peaks = np.unique(every.peak).tolist()
    free = int(every.peak[every.latency == every.latency.min()].min())  # from here on the best plan of all fits
    some = peaks[0], peaks[len(peaks) // 3], (peaks[0] + free) // 2, free - 1, peaks[-1]
    for capacity in {peaks[0] // 2, peaks[0] - 1, *some}:
        narrow, best = evolve(array, capacity_bytes=capacity), every.best(capacity)
        assert WholeModel(graph, narrow, space, costs).solve() == best
        solved = solve_plan(
            graph, narrow, space, LATENCY, MadeUpCosts(LATENCY), SearchLimits(batch=2, refusal_percent=100)
        )
        if best is None:
            assert (solved.plan, solved.status) == (None, Status.INFEASIBLE)
            least = re.fullmatch(r"no plan.*; the least that would do is (\d+)", solved.reason).group(1)
            assert int(least) == peaks[0]
            continue
        assert (solved.status, solved.value, solved.bound) == (Status.OPTIMAL, best, best)
        assert evaluate_plan(graph, solved.plan).peak_bytes <= capacity
