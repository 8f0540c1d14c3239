"""What is solved next of the node problems of an optimum."""

import math

from cpsat_pim.planner.nodes import HIGHEST, NodeCost, NodeProblem
from cpsat_pim.planner.solved import SearchLimits
from cpsat_pim.planner.tighten import Tightening
from cpsat_pim.workload import ConvWorkload

A, B, C = (NodeProblem(layer=ConvWorkload(K=K)) for K in (2, 3, 5))


class _Costs:
    """What is known of some problems; remembers which are solved."""

    time_limit = 20.0

    def __init__(self, known):
        self.cost, self.solved, self.solves = known.get, [], 0

    def solve_all(self, problems, slack, until, useful):
        """Narrow nothing."""
        self.solved.append(problems)
        self.solves += len(problems)


def tightening(costs):
    """Of costs, without a limit."""
    return Tightening(
        costs=costs,
        limits=SearchLimits(),
        until=math.inf,
        is_over=lambda: False,
        is_paused=lambda: False,
        slack=lambda: None,
        factor=1,
        then_energy=lambda: False,
    )


def solved_next(known, layers):
    """The problems that are solved first."""
    costs = _Costs(known)
    tightening(costs).solve(dict.fromkeys(known, HIGHEST), layers=layers)
    return costs.solved[0]


def gap_of(cycles, seconds=0.0):
    """A problem whose mapping costs so much more than its bound, after a solve of so many seconds."""
    return NodeCost(least=1000, value=1000 + cycles, mapping=object(), seconds=seconds)


def test_problem_without_a_mapping_is_solved_first():
    """However wide the gaps of others are."""
    assert solved_next({A: NodeCost(least=1000), B: gap_of(900)}, {A: 1, B: 9}) == [A]


def test_gap_counts_in_every_layer():
    """Three layers at 60 cycles lose 180, which is more than twice what one layer at 80 loses."""
    assert solved_next({A: gap_of(80), B: gap_of(60)}, {A: 1, B: 3}) == [B]
    assert solved_next({A: gap_of(80), B: gap_of(60)}, {}) == [A, B]


def test_gap_that_a_long_solve_left_comes_later():
    """A solve of 30 s is followed by one of 120 s: 300 cycles in these are 2.5 a second; 80 in the first 20 s are 4."""
    assert solved_next({A: gap_of(80), C: gap_of(300, 30.0)}, {}) == [A, C]
    assert solved_next({A: gap_of(80), C: gap_of(200, 30.0)}, {}) == [A]


def test_problem_whose_solve_narrowed_nothing_gives_way_to_others():
    """Until something becomes known of it: a search ended there, with time left and gaps that solves would close."""
    known = {A: NodeCost(least=1000), B: gap_of(90), C: gap_of(10)}
    costs = _Costs(known)
    search, problems = tightening(costs), dict.fromkeys(known, HIGHEST)
    assert search.solve(problems) == 0
    assert costs.solved == [[A], [B], [C]]
    assert search.solve(problems) == 0
    assert len(costs.solved) == 3
    known[B] = gap_of(80)
    assert search.solve(problems) == 0
    assert costs.solved[3:] == [[B]]
