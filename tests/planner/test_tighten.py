"""What is solved next of the node problems of an optimum."""

import math
import time

from cpsat_pim.planner.nodes import HIGHEST, NodeCost, NodeProblem
from cpsat_pim.planner.solved import SearchLimits
from cpsat_pim.planner.tighten import Tightening
from cpsat_pim.workload import ConvWorkload

A, B, C = (NodeProblem(layer=ConvWorkload(K=K)) for K in (2, 3, 5))

#: Seconds that a test may take.
SOON = 0.1


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
    """What is known of some problems; remembers bounds and brief solves that are asked for."""

    jobs = 1

    def __init__(self, known):
        super().__init__(known)
        self.refined, self.brief = [], []

    def refine_all(self, asked, is_over):
        """Refine none."""
        self.refined += asked
        return len(asked)

    def solve_briefly(self, problems, seconds, until):
        """Find nothing."""
        self.brief.append((problems, seconds))
        self.solves += len(problems)


def sought(known, seconds, is_late=False):
    """Bounds that are refined, and problems that are solved briefly with the seconds of each, in so many seconds."""
    costs = _Known(known)
    best = [(None, (None, problem)) for problem in known]
    tightening(costs).find_mappings(best, time.monotonic() + seconds, is_late)
    return costs.refined, [(problems, round(each, 1)) for problems, each in costs.brief]


def test_mappings_are_sought_once_all_bounds_are_of_tiles():
    """Before, the plan may be one that better bounds rule out; where it is late, there is no time for them."""
    known = {A: NodeCost(least=1000), B: NodeCost(least=900, is_refined=False)}
    assert sought(known, 60.0) == ([B], [])
    assert sought(known, 60.0, is_late=True) == ([], [([A, B], 2.0)])
    assert sought(known, 0.0, is_late=True) == ([B], [])  # a request of which nothing begins


def test_longest_programs_get_mappings_first():
    """Of 8 s half are for first solves, of 2 s each: two of three fit. One is solved in any case."""
    known = {A: NodeCost(least=1000), B: NodeCost(least=3000), C: NodeCost(least=2000)}
    assert sought(known, 8.0 + SOON) == ([], [([B, C], 2.0)])
    assert sought(known, 3.0) == ([], [([B], 2.0)])


def test_no_mapping_is_sought_of_what_was_solved():
    """Whether that found one or not."""
    known = {A: gap_of(100), B: NodeCost(least=1000, seconds=2.0, is_brief=True)}
    assert sought(known, 60.0) == ([], [])
