"""Options of one layer against the phases of its steps."""

from itertools import product

import numpy as np

from cpsat_pim.mapper.result import Objective
from cpsat_pim.planner.array import NodeArray
from cpsat_pim.planner.graph import build_graph
from cpsat_pim.planner.instance import Instance
from cpsat_pim.planner.nodes import HIGHEST, NodeCost
from cpsat_pim.planner.space import Space
from cpsat_pim.planner.usefulness import Usefulness
from cpsat_pim.planner.weighing import FREE_BYTES
from cpsat_pim.workload.network import Network
from tests.planner.made_up import NETWORKS, NODE, MadeUpCosts

LATENCY = Objective.named("latency")


def test_node_program_is_useful_below_what_a_solved_option_costs_at_the_same_homes():
    """Where one row is solved, any other one must cost less: its node program, less what it moves more than that row.

    Cycles of exchanges are those of the step's phases.
    """
    graph, costs = build_graph(Network(name="n", layers=NETWORKS["chain"])), MadeUpCosts(LATENCY)
    array = NodeArray(rows=1, cols=2, node=NODE, flit_bytes=2)
    instance = Instance(graph, array, Space(dims=1, layouts=("BCHW",), is_tied=False), LATENCY, costs)
    options = instance.distinct[0]
    options.look_at(len(options.rows))
    homes = list(product(range(len(options.reads)), [0], range(len(options.writes))))
    assert {Usefulness(options, at).useful_below() for at in homes} == {HIGHEST}
    costs.solve_all(options.rows[0].program)

    def moved(row, at):
        step = options.step(row, 1)
        phases = step.pull(options.reads[at[0]]), step.reduce(options.writes[at[2]].layout)
        return sum(phase.cycles for phase in (*phases, step.push(options.writes[at[2]])))

    for at in homes:
        values = [costs.cost(row.program[0]) for row in options.rows]
        lower = [cost.least + moved(i, at) for i, cost in enumerate(values)]
        best = np.flatnonzero(np.array(lower) == min(lower))
        solved = values[0].value + moved(0, at)
        assert Usefulness(options, at).useful_below() in {solved - moved(int(i), at) for i in best}
        # The option to solve next: the least bound of those without a mapping, if it is below the solved one.
        others = [i for i in range(1, len(values)) if lower[i] < solved and not values[i].is_solved]
        found = Usefulness(options, at).alternative()
        if not others:
            assert found is None
            continue
        next_ones = [i for i in others if lower[i] == min(lower[j] for j in others)]
        assert found in [(options.rows[i].program[0], solved - moved(i, at)) for i in next_ones]


def test_option_that_may_be_the_best_is_told_until_a_solved_one_costs_no_more():
    """Of options without a mapping the one that may cost least: a tenth more than its bound, and what it moves."""
    graph, costs = build_graph(Network(name="n", layers=NETWORKS["chain"])), MadeUpCosts(LATENCY)
    array = NodeArray(rows=1, cols=2, node=NODE, flit_bytes=2)
    options = Instance(graph, array, Space(dims=1, layouts=("BCHW",), is_tied=False), LATENCY, costs).distinct[0]
    options.look_at(len(options.rows))
    programs = [row.program[0] for row in options.rows]
    for at in product(range(len(options.reads)), [0], range(len(options.writes))):
        costs.solved = set()
        bounds = [costs.cost(problem).least for problem in programs]
        moved = options.costs_at(at, False, FREE_BYTES)[0] - bounds
        may_cost = {problem: bounds[i] * 11 // 10 + moved[i] for i, problem in enumerate(programs)}
        while (problem := Usefulness(options, at).likeliest()) is not None:
            left = [may_cost[one] for one in programs if one not in costs.solved]
            assert may_cost[problem] == min(left)
            costs.solve_all([problem])
        assert costs.solved
        best = min(
            costs.cost(problem).value + moved[i] for i, problem in enumerate(programs) if problem in costs.solved
        )
        assert all(best <= cost for problem, cost in may_cost.items() if problem not in costs.solved)


def test_supposed_costs_are_those_of_mappings_or_above_bounds():
    """Of rows that were looked at: what a solved program costs, a tenth above a bound of tiles, twice a plain one.

    Made-up bounds are of tiles; the least of all rows, with what each moves at the homes, is the table's entry.
    """
    graph, costs = build_graph(Network(name="n", layers=NETWORKS["chain"])), MadeUpCosts(LATENCY)
    array = NodeArray(rows=1, cols=2, node=NODE, flit_bytes=2)
    instance = Instance(graph, array, Space(dims=1, layouts=("BCHW",), is_tied=False), LATENCY, costs)
    options = instance.distinct[0]
    options.look_at(2)
    costs.solve_all(options.rows[0].program)
    before = options.table()
    bound = costs.cost(options.rows[1].program[0]).least
    expected = [costs.cost(options.rows[0].program[0]).value, bound + bound // 10]
    options.suppose(True)
    for at in product(range(len(options.reads)), [0], range(len(options.writes))):
        lower = options.costs_at(at, False, FREE_BYTES)[0]
        moved = options.costs_at(at, True, FREE_BYTES)[0][0] - expected[0]
        assert (options.likely_at(at) == lower).all()
        assert lower[0] == expected[0] + moved
        assert options.table()[(0, *at)] == lower.min()
    options.suppose(False)
    assert (options.table() == before).all()
    assert (before <= options.table(upper=True)).all()
    share = options.share
    assert share.likely(NodeCost(least=bound)) == (expected[1], 0)
    assert share.likely(NodeCost(least=bound, is_refined=False)) == (2 * bound, 0)
