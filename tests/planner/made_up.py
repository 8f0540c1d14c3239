"""Small networks, node costs that are made up, and all plans of a space: what searches are held against."""

import hashlib
import threading
from itertools import product

from cpsat_pim.arch import PIMArchitecture
from cpsat_pim.planner.nodes import NodeCost, NodeProblem, layout_index
from cpsat_pim.planner.plan import LayerPlan, Plan, RegionPlan, node_program
from cpsat_pim.workload import ConvWorkload
from cpsat_pim.workload.joins import Pool, Resize, View
from cpsat_pim.workload.network import NetworkNode

NODE = PIMArchitecture()


class MadeUpCosts:
    """Node costs that are a digest of the problem; floors are up to 30 cycles below, and as many per cent of energy."""

    def __init__(self, objective):
        self.objective, self.solves, self.reused = objective, 0, 0
        self.solved, self.built = set(), set()
        self.mapping, self.stop, self.jobs = object(), threading.Event(), 1
        self.energy_bounds, self.padding, self.time_limit = {}, 0.0, 1.0

    def close(self):
        """Nothing is open."""

    @property
    def known(self):
        """Not counted."""
        return 0

    def figures(self, problem):
        """(cycles, fJ, how far the floor is below)."""
        text = repr((problem.layer.shape, problem.layouts)).encode()
        digest = hashlib.sha256(text).digest()
        return 100 + digest[0], 10**6 * (1 + digest[1]), digest[2] % 31

    def cost(self, problem):
        """A floor, or the figures once they were asked for; a mapping that was built takes a tenth more."""
        cycles, energy, below = self.figures(problem)
        value = self.objective.value(cycles, energy)
        if problem not in self.solved:
            least = max(0, value - below)
            if problem not in self.built:
                return NodeCost(least=least)
            cycles, energy = cycles + cycles // 10, energy + energy // 10
            value = self.objective.value(cycles, energy)
            return NodeCost(least=least, value=value, latency_cycles=cycles, energy_fj=energy, mapping=self.mapping)
        return NodeCost(
            least=value,
            value=value,
            latency_cycles=cycles,
            energy_fj=energy,
            least_energy_fj=self.energy_bounds.get(problem, 0),
            mapping=self.mapping,
        )

    def raise_bound(self, problem):
        """The next better bound."""
        return self.refine(problem)

    def refine(self, problem, below=None):
        """Nothing: all are."""
        return self.cost(problem)

    def refine_all(self, asked, is_over, tied=False):
        """One after the other; in the layouts of problems all are."""
        left = [problem for problem in asked if not is_over() and self.refine(problem) is not None]
        return len(left)

    def solve_all(self, problems, slack=None, until=None, useful=None):
        """Remember that they were asked for."""
        assert slack is None or slack > 0
        self.solved |= set(problems)
        self.solves += len(problems)

    def solve_briefly(self, problems, seconds, until):
        """Solve all."""
        self.solve_all(problems, None, until)

    def construct(self, problems, is_over=lambda: False):
        """Build what was not, until it is over."""
        count = 0
        for problem in problems:
            if not is_over() and problem not in self.solved | self.built:
                self.built.add(problem)
                count += 1
        return count

    def refine_energy(self, problem):
        """A bound that is somewhat below."""
        _, energy, below = self.figures(problem)
        self.energy_bounds[problem] = energy * (100 - below) // 100

    def solve_energies(self, problems, until=None):
        """The energy itself."""
        for problem in problems:
            self.energy_bounds[problem] = self.figures(problem)[1]


def layer(name, after, **fields):
    """A layer of a network."""
    keys = ("join", "pool", "weights", "input_pool", "views", "adds", "input_adds", "shared_heads", "sample_weights")
    node = {key: fields.pop(key) for key in keys if key in fields}
    return NetworkNode(name=name, after=after, workload=ConvWorkload(name=name, **fields), **node)


THREE = Pool(window=(3, 1), pad=(1, 0), size=(4, 1))
FOUR = Resize(size=(4, 1), kind="linear")

NETWORKS = {
    "chain": [layer("a", ["input"], P=4, C=2, K=4), layer("b", ["a"], P=4, C=4, K=2, R=3)],
    "pooled": [
        layer("a", ["input"], P=4, Q=4, C=2, K=4, pool=Pool(window=(2, 2), stride=(2, 2), size=(2, 2))),
        layer("b", ["a"], P=2, Q=2, C=4, K=2, input_pool=Pool(window=(3, 3), pad=(1, 1), size=(2, 2))),
    ],
    "residual": [
        layer("a", ["input"], P=4, C=2, K=2),
        layer("b", ["a"], P=4, C=2, K=2, R=3),
        layer("c", ["b", "a"], P=4, C=2, join="add"),
    ],
    "gated": [  # b is a gate for the channels of a, and finishes their product
        layer("a", ["input"], P=3, C=1, K=2),
        layer("b", ["a"], C=2, K=2, input_pool=Pool(window=(3, 1), size=(1, 1))),
        layer("c", ["a", "b"], P=3, C=2, join="add"),
    ],
    "concat": [
        layer("a", ["input"], P=4, C=2, K=2),
        layer("b", ["input"], P=4, C=2, K=4),
        layer("c", ["a", "b"], P=4, C=6, join="concat"),
    ],
    "beside": [  # the last layer reads two stacks, one of them resized
        layer("a", ["input"], P=4, C=2, K=2),
        layer("b", ["a"], P=2, C=2, K=3, stride=(2, 1)),
        layer("c", ["a", "b"], P=4, C=5, join="concat", views={"b": View(resize=Resize(size=(4, 1), kind="linear"))}),
    ],
    "pyramid": [  # the last layer adds the resized output of one that was read
        layer("a", ["input"], P=4, C=2, K=2),
        layer("b", ["a"], P=2, C=2, K=2, stride=(2, 1)),
        layer("c", ["a"], P=4, C=2, K=2, adds={"b": View(resize=Resize(size=(4, 1), kind="linear"))}),
    ],
    "summed by readers": [  # two layers read a map alone, one with another added to it
        layer("a", ["input"], P=4, C=2, K=2),
        layer("b", ["a"], P=2, C=2, K=2, stride=(2, 1)),
        layer("c", ["a"], P=4, C=2, K=2, input_adds={"b": View(resize=Resize(size=(4, 1), kind="linear"))}),
    ],
    "many": [  # the last layer reads three stacks of three sizes; the second and the third have one home
        layer("a", ["input"], P=2, C=2, K=2, R=2, stride=(2, 1)),
        layer("b", ["a"], C=2, K=3, stride=(2, 1)),
        layer("c", ["input", "a", "b"], P=4, C=7, join="concat", views=dict.fromkeys("ab", View(resize=FOUR))),
    ],
    "again": [  # the last layer reads a map beside itself, pooled
        layer("a", ["input"], P=4, C=2, K=2),
        layer("b", ["a", "a", "input"], P=4, C=6, join="concat", views={"a": (View(), View(pool=THREE))}),
    ],
    "shared": [  # two heads share the second operand
        layer("a", ["input"], P=4, C=2, K=4),
        layer("b", ["input"], P=4, C=2, K=2),
        layer("c", ["a", "b"], P=4, C=2, K=4, N=2, weights=False, shared_heads=True),
    ],
    "product": [
        layer("a", ["input"], P=4, C=2, K=4),
        layer("b", ["input"], P=4, C=2, K=4),
        layer("c", ["a", "b"], P=4, C=2, K=4, G=2, weights=False),
    ],
    "samples": [  # each sample has its own second operand
        layer("a", ["input"], P=2, C=2, K=4, N=2),
        layer("b", ["input"], P=2, C=2, K=4, N=2),
        layer("c", ["a", "b"], P=2, C=2, K=2, N=2, G=2, weights=False, sample_weights=True),
    ],
}


def all_plans(graph, array, space, costs):
    """Every plan of the space, with the exact cost of its nodes."""
    homes = [[(name, home) for home in space.homes(graph.home_shape(name), array.whole)] for name in graph.homes]
    for chosen in product(*homes):
        by_home = dict(chosen)
        placed = {name: by_home[graph.home_of[name]] for name in graph.stacks}
        options = []
        for task in graph.tasks:
            ties = (None, None)
            if space.is_tied:
                ties = tuple(layout_index(placed[stack].layout) for stack in (task.reads.stack, task.writes))
            found = []
            for partition in space.partitions(task, array.whole):
                problem = NodeProblem(layer=node_program(task, partition), layouts=ties)
                cycles, energy, _ = costs.figures(problem)
                found.append((task.name, LayerPlan(partition=partition, node_cycles=cycles, node_energy_fj=energy)))
            options.append(found)
        for layers in product(*options):
            segments = tuple((RegionPlan(region=array.whole, layers=(task.name,)),) for task in graph.tasks)
            yield Plan(network="n", array=array, segments=segments, layers=dict(layers), homes=placed)


def without_mapping(**fields):
    """Costs that are made up have no mapping that a plan could check."""
    return LayerPlan(**{**fields, "mapping": None})
