"""Bounds of node problems: what is known of one counts for all that it bounds."""

from cpsat_pim.arch.reading import read_arch
from cpsat_pim.mapper.bounds.layer_bound import tile_lower_bound
from cpsat_pim.mapper.result import Objective
from cpsat_pim.planner.nodes import NodeCosts, NodeProblem
from cpsat_pim.workload import ConvWorkload

ARCH, LATENCY = read_arch("stacked-3d-4x8"), Objective.named("latency")
LAYER = ConvWorkload(P=7, Q=7, C=64, K=32, input_bytes=2, weight_bytes=2, output_bytes=2, psum_bytes=4)
TIED = [NodeProblem(layer=LAYER, layouts=layouts) for layouts in ((0, 0), (0, 1), (1, 0), (1, 1))]


def test_bound_in_any_layouts_is_that_of_every_pair_at_once():
    """Refining one pair raises the others that were asked about, as far: they are refined, but not in their layouts."""
    costs, free = NodeCosts(ARCH, LATENCY), tile_lower_bound(LAYER, ARCH, LATENCY)
    plain = [costs.cost(problem).least for problem in TIED]
    costs.refine(TIED[0], plain[0] + 1)  # up to some cost only
    assert all(plain[0] < costs.cost(problem).least <= free for problem in TIED)
    assert not any(costs.cost(problem).is_refined for problem in TIED)
    costs.refine(TIED[0])
    for problem in TIED:
        known = costs.cost(problem)
        assert (known.least, known.is_refined, known.is_tied) == (free, True, False)


def test_bound_in_given_layouts_stays_when_that_in_any_is_raised():
    """It is the higher one, and that of one pair alone."""
    own = {problem: tile_lower_bound(LAYER, ARCH, LATENCY, problem.constraints) for problem in TIED}
    costs, tied, free = NodeCosts(ARCH, LATENCY), max(own, key=own.get), tile_lower_bound(LAYER, ARCH, LATENCY)
    assert [costs.cost(problem).is_tied for problem in TIED] == [False] * len(TIED)
    costs.refine_tied(tied)
    assert costs.cost(tied).least == own[tied] > free
    costs.refine(next(problem for problem in TIED if problem != tied))
    assert (costs.cost(tied).least, costs.cost(tied).is_tied) == (own[tied], True)
    assert [costs.cost(problem).least for problem in TIED if problem != tied] == [free] * (len(TIED) - 1)
