"""Node programs at their bounds: they count as solved, and no mapping of a small layer costs less."""

from cpsat_pim.arch import PIMArchitecture
from cpsat_pim.mapper.result import Objective
from cpsat_pim.planner.baselines.bound_costs import BoundCosts
from cpsat_pim.planner.nodes import NodeCosts, NodeProblem
from cpsat_pim.workload import ConvWorkload

NODE, LAYER = PIMArchitecture(), ConvWorkload(P=4, C=4, K=4)


def test_bounds_are_below_the_optimum():
    """Latency and energy are each at most those of the best mapping, whatever the layouts are; one bound serves all."""
    costs = BoundCosts(NODE, Objective.named("latency"))
    solved = NodeCosts(NODE, Objective.named("latency")).solve(NodeProblem(layer=LAYER))
    least = NodeCosts(NODE, Objective.named("energy")).solve(NodeProblem(layer=LAYER))
    for layouts in ((None, None), (0, 1), (1, 1)):
        problem = NodeProblem(layer=LAYER, layouts=layouts)
        assert not costs.cost(problem).is_solved
        found = costs.solve(problem)
        assert found.is_solved
        assert found.is_proven
        assert 0 < found.latency_cycles == found.least <= solved.latency_cycles
        assert 0 < found.energy_fj <= least.energy_fj
    assert (costs.refined, costs.solves) == (1, 0)


def test_layer_that_fits_no_node_has_no_cost():
    """A problem without a mapping stays one."""
    huge = ConvWorkload(C=2**22, K=2**22)
    assert BoundCosts(NODE, Objective.named("latency")).refine(NodeProblem(layer=huge)) is None
