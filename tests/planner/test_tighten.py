"""What is solved next of the node problems of an optimum."""

import math
import time

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


class _Known(_Costs):
    """What is known of some problems; remembers brief solves that are asked for, each of which finds a mapping."""

    def __init__(self, known):
        super().__init__(known)
        self.known, self.brief = known, []

    def solve_briefly(self, problems, seconds, until):
        """Find mappings that cost 100 more than the bound."""
        self.brief.append(problems)
        self.known |= {problem: gap_of(100, seconds) for problem in problems}


def sought(known, layers, seconds=60.0):
    """The problems that are solved briefly in so many seconds, and of how many more is known then."""
    costs = _Known(known)
    found = tightening(costs).find_mappings(layers, time.monotonic() + seconds)
    return [problem for problems in costs.brief for problem in problems], found


def test_widest_gaps_get_mappings_first():
    """In all layers: 3 x 60 cycles are more than 150. Of a problem without a mapping all that it costs is a gap."""
    known = {A: gap_of(150), B: gap_of(60), C: NodeCost(least=1000)}
    assert sought(known, {A: 1, B: 3, C: 1}) == ([C, B, A], 3)
    few = [NodeProblem(layer=ConvWorkload(K=K)) for K in range(7, 14)]
    assert sought({problem: gap_of(n) for n, problem in enumerate(few, 1)}, dict.fromkeys(few, 1)) == (few[:2:-1], 4)


def test_no_mapping_is_sought_of_what_was_solved():
    """Whether that found one or not; nor of what is proven, or once the time is over."""
    solved, proven = NodeCost(least=1000, seconds=2.0, is_brief=True), gap_of(0)
    assert sought({A: gap_of(100, 2.0), B: solved, C: proven}, {A: 1, B: 1, C: 1}) == ([], 0)
    assert sought({A: gap_of(100)}, {A: 1}, seconds=0.0) == ([], 0)
