"""Costs of node problems from the mapper itself, on a machine and layers so small that solves take a second."""

import os
import signal
import threading
import time
from multiprocessing import get_context
from types import SimpleNamespace

import pytest
from attrs import evolve

from cpsat_pim.arch import PIMArchitecture
from cpsat_pim.arch.reading import read_arch
from cpsat_pim.base.dims import Dim, Level
from cpsat_pim.mapper.network.verified import solve_and_verify
from cpsat_pim.mapper.result import Budget, Objective, Status
from cpsat_pim.mapper.search import SolveRequest
from cpsat_pim.mapper.search.constructed import constructed_mappings
from cpsat_pim.planner.nodes import HIGHEST, NodeCosts, NodeProblem
from cpsat_pim.planner.nodes.workers import Workers
from cpsat_pim.workload import ConvWorkload

ARCH, LATENCY = PIMArchitecture(), Objective.named("latency")
LAYER = ConvWorkload(name="a", P=4, Q=4, C=4, K=4)
TIED = NodeProblem(layer=LAYER, layouts=(0, 1))
FREE = NodeProblem(layer=LAYER)


def optimum(objective=LATENCY, layer=LAYER, **asked):
    """The optimum of a layer by a solve of its own."""
    solved = solve_and_verify(layer, ARCH, SolveRequest(objective=objective, **asked))
    assert solved.status is Status.OPTIMAL
    return solved


@pytest.fixture(scope="module")
def costs():
    """Costs that all tests share."""
    return NodeCosts(ARCH, LATENCY)


def test_tied_problem_costs_what_a_solve_of_its_own_says(costs):
    """By way of the problem with free layouts, whose optimum bounds it."""
    found = costs.solve(TIED)
    assert found.is_proven
    assert found.value == found.latency_cycles == optimum(constraints=TIED.constraints).cost
    assert found.mapping.layout[0::2] == TIED.layouts
    assert costs.cost(FREE).value == optimum().cost <= found.value


def test_bounds_that_workers_compute_are_those_that_are_computed_here():
    """In any layouts, then in their own; none is computed once the search is over."""
    layers = [ConvWorkload(P=4, C=4, K=k) for k in (4, 6)]
    asked = {NodeProblem(layer=layer, layouts=layouts): HIGHEST for layer in layers for layouts in ((0, 1), (1, 0))}
    alone, shared = (NodeCosts(ARCH, LATENCY, jobs=jobs) for jobs in (1, 2))
    for tied in (False, True):
        before = [shared.cost(problem) for problem in asked]
        assert shared.refine_all(asked, lambda: True, tied) == 0
        assert [shared.cost(problem) for problem in asked] == before
        assert shared.refine_all(asked, lambda: False, tied) == len(asked)
        expected = [alone.refine_tied(problem) if tied else alone.refine(problem) for problem in asked]
        assert [shared.cost(problem) for problem in asked] == expected
        assert expected != before
    shared.close()


def test_mappings_that_workers_build_are_those_that_are_built_here():
    """None is built of what has one; a stop ends nothing, as there might be no plan without these."""
    problems = [NodeProblem(layer=ConvWorkload(P=4, C=4, K=k), layouts=(0, 1)) for k in (4, 6, 8)]
    stop = threading.Event()
    alone, shared, stopped = (NodeCosts(ARCH, LATENCY, jobs=jobs, stop=stop) for jobs in (1, 2, 2))
    assert alone.construct(problems[:1]) == 1
    assert [costs.construct(problems) for costs in (alone, shared)] == [2, 3]
    stop.set()
    assert stopped.construct(problems) == 3
    expected = [alone.cost(problem) for problem in problems]
    assert all(cost.is_solved for cost in expected)
    for costs in (shared, stopped):
        assert [costs.cost(problem) for problem in problems] == expected
        costs.close()


def test_mapping_that_was_built_is_one_in_any_layouts_too():
    """If it is the best that is known there: solves in any layouts begin with it. A better one stays."""
    costs = NodeCosts(ARCH, LATENCY)
    free = costs.cost(FREE)
    assert costs.construct([TIED]) == 1
    built = costs.cost(TIED)
    assert costs.cost(FREE) == evolve(
        free, value=built.value, latency_cycles=built.latency_cycles, energy_fj=built.energy_fj, mapping=built.mapping
    )
    optimum = costs.solve(FREE)
    costs.construct([evolve(TIED, layouts=(1, 1))])
    assert costs.cost(FREE) == optimum


def test_mappings_of_alike_parts_are_tried(monkeypatch):
    """Those of the same filter, the most alike part first; none of another kind of layer."""
    given = []

    def quick(layer, arch, request, alike):
        given.append([mapping.extents(Level.DRAM)[Dim.K] for mapping in alike])
        return next(constructed_mappings(layer, arch, request.constraints))

    monkeypatch.setattr("cpsat_pim.mapper.search.quick.quick_mapping", quick)
    layers = [
        ConvWorkload(P=4, C=4, K=32),
        ConvWorkload(R=3, K=7),
        ConvWorkload(P=4, C=4, K=4),
        ConvWorkload(P=4, C=4, K=6),
    ]
    costs = NodeCosts(ARCH, LATENCY)
    assert costs.construct([NodeProblem(layer=layer) for layer in layers]) == 4
    assert given == [[], [], [32], [4, 32]]


def test_problem_of_which_no_mapping_is_built_is_left_alone(monkeypatch):
    """It is tried once, and stays without a mapping."""
    tried = []
    monkeypatch.setattr("cpsat_pim.mapper.search.quick.quick_mapping", lambda *asked: tried.append(asked))
    costs = NodeCosts(ARCH, LATENCY)
    before = costs.cost(TIED)
    assert [costs.construct([TIED]) for _ in range(2)] == [0, 0]
    assert len(tried) == 1
    assert costs.cost(TIED) == before


def test_mapping_that_was_built_is_kept(tmp_path):
    """A plan that was found with it is found again, though no time was left to solve its node programs."""
    problem = NodeProblem(layer=ConvWorkload(P=4, C=4, K=6))
    built, again = (NodeCosts(ARCH, LATENCY, store=tmp_path / "nodes.db") for _ in range(2))
    built.construct([problem])
    assert again.cost(problem) == built.cost(problem)
    assert again.cost(problem).is_solved


def test_nothing_is_solved_that_its_bound_shows_to_be_of_no_use():
    """Neither the problem nor that with free layouts, which has the same bound."""
    costs = NodeCosts(ARCH, LATENCY)
    bound = costs.refine(TIED).least
    costs.solve_all([TIED], useful={TIED: bound})
    assert costs.solves == 0
    assert costs.cost(FREE).least == costs.cost(TIED).least == bound


def test_bounds_of_tiles_leave_solves_their_time(monkeypatch):
    """They may take longer than the time that a search has left: of 39 s the first one takes more than a quarter."""
    layers, begin, counted = [ConvWorkload(C=4, K=K) for K in (2, 4, 8)], time.monotonic(), []
    clock = SimpleNamespace(monotonic=lambda: begin + 10 * len(counted))
    monkeypatch.setattr("cpsat_pim.planner.nodes.costs.time", clock)
    monkeypatch.setattr(
        "cpsat_pim.planner.nodes.bounds.tile_lower_bound", lambda layer, *_, **__: counted.append(layer) or 1
    )
    costs, problems = NodeCosts(ARCH, LATENCY), [NodeProblem(layer=layer) for layer in layers]
    costs.solve_all(problems, until=begin + 39)
    assert counted == layers[:1]
    assert [costs.cost(problem).value for problem in problems] == [optimum(layer=layer).cost for layer in layers]


def test_first_bound_of_parts_that_draw_operands_from_a_bank_is_that_of_tiles():
    """A part of LLaMA's query on AiM: the bound by the PEs' arrangements is far too low to rank parts by."""
    bytes_each = {"input_bytes": 2, "weight_bytes": 2, "output_bytes": 2, "psum_bytes": 2}
    problem = NodeProblem(layer=ConvWorkload(name="query", C=84, K=208, **bytes_each))
    costs = NodeCosts(read_arch("gddr6-aim"), LATENCY)
    raised = costs.raise_bound(problem)
    assert raised.is_refined
    assert raised.least > 5 * costs._bounds.spatial(problem)
    buffered = NodeCosts(ARCH, LATENCY)
    assert not buffered.raise_bound(problem).is_refined


def test_solve_ends_where_nothing_is_of_use():
    """Nothing costs less than one cycle more than the bound, so there is no mapping, but a higher bound."""
    layer = ConvWorkload(C=64, K=55, N=4)  # of which the bound is not the optimum
    costs, free, best = NodeCosts(ARCH, LATENCY), NodeProblem(layer=layer), optimum(layer=layer).cost
    floor = costs.refine(free).least
    assert floor + 1 < best
    found = costs.solve(free, slack=1)
    assert not found.is_solved
    assert found.least == floor + 1
    found = costs.solve(free, slack=best)
    assert found.value == found.least == best


def test_solve_ends_at_the_cost_from_which_on_a_problem_is_of_no_use():
    """What another option costs: up to the optimum there is no mapping below it, one cycle above it there is."""
    costs, best = NodeCosts(ARCH, LATENCY), optimum().cost
    costs.solve_all([FREE], useful={FREE: best})
    assert (costs.cost(FREE).is_solved, costs.cost(FREE).least) == (False, best)
    costs.solve_all([FREE], useful={FREE: best + 1})
    assert costs.cost(FREE).value == costs.cost(FREE).least == best


def test_bound_of_free_layouts_is_that_of_all_tied_ones_asked_about():
    """A solve for one pair of layouts raises the bound of the other, which was only asked about before."""
    costs, other = NodeCosts(ARCH, LATENCY), NodeProblem(layer=LAYER, layouts=(1, 1))
    before = costs.cost(other)
    costs.solve(TIED)
    after = costs.cost(other)
    assert before.least < costs.cost(FREE).value <= after.least <= optimum(constraints=other.constraints).cost
    assert after.value is None or after.value >= optimum(constraints=other.constraints).cost


def test_tied_problem_is_solved_where_there_was_no_time_for_the_free_one(monkeypatch):
    """The pass over free layouts ends before its turn; the pass that follows gives it a mapping."""
    costs, run, passes = NodeCosts(ARCH, LATENCY), Workers.run, []

    def short(self, tasks, on_solved, until):
        passes.append(len(tasks))
        run(self, tasks if len(passes) > 1 else [], on_solved, until)

    monkeypatch.setattr(Workers, "run", short)
    found = costs.solve(TIED)
    assert passes == [1, 1]
    assert found.value == found.least == optimum(constraints=TIED.constraints).cost


def test_tied_problem_is_solved_again_in_its_own_layouts_alone(monkeypatch):
    """Where a solve in any layouts found its mapping and no proof, that one is not solved again: by walks at once."""
    costs, asked = NodeCosts(ARCH, LATENCY), []
    free, mapping = costs.cost(FREE), optimum(constraints=TIED.constraints).mapping
    monkeypatch.setitem(costs._known, FREE, evolve(free, value=10**6, mapping=mapping, seconds=7.0))
    costs.cost(TIED)
    costs._transfer(TIED)
    assert costs.cost(TIED).mapping is not None
    monkeypatch.setattr(Workers, "run", lambda self, tasks, on_solved, until: asked.extend(tasks))
    costs.solve(TIED)
    (task,) = asked
    assert task.request.constraints == TIED.constraints
    assert task.request.by_walks
    assert task.request.time_limit == 60  # what the first solve of a problem has by default; 4 times 7 s are less


def test_solve_for_a_proof_follows_a_brief_one(monkeypatch):
    """It has the time of a first one, in any layouts first, from the mapping that is known, and not by walks."""
    costs, asked, run = NodeCosts(ARCH, LATENCY), [], Workers.run
    mapping = optimum().mapping

    def watched(self, tasks, on_solved, until):
        asked.extend(task.request for task in tasks)
        if len(asked) == 1:
            run(self, tasks, on_solved, until)

    monkeypatch.setattr(Workers, "run", watched)
    costs.solve_briefly([FREE], 30.0)
    known = costs.cost(FREE)
    assert known.is_brief
    monkeypatch.setitem(costs._known, FREE, evolve(known, least=known.value - 1, mapping=mapping))  # as if with a gap
    costs.solve(TIED)
    brief, proof = asked[:2]
    assert (brief.time_limit, proof.time_limit) == (30.0, 60)
    assert proof.start == mapping
    assert not proof.by_walks
    assert all(layout is None for layout in proof.constraints.layout)


def test_least_energy_at_least_latency_is_that_of_a_budget(costs):
    """First its bound, then the energy itself, by mappings that take no more cycles."""
    least = costs.solve(TIED)
    costs.refine_energy(TIED)
    bound = costs.cost(TIED).least_energy_fj
    costs.solve_energies([TIED])
    found = costs.cost(TIED)
    asked = {"constraints": TIED.constraints, "budget": Budget(cycles=least.value)}
    assert found.is_energy_proven
    assert 0 < bound <= found.energy_fj == optimum(Objective.named("energy"), **asked).cost
    assert found.latency_cycles == least.latency_cycles


def test_what_was_solved_is_kept_in_the_file(tmp_path):
    """Another search finds it there; one of another version of the program does not."""
    first = NodeCosts(ARCH, LATENCY, tmp_path / "nodes.db", version="1")
    found = first.solve(TIED)
    again = NodeCosts(ARCH, LATENCY, tmp_path / "nodes.db", version="1")
    assert again.solve(TIED) == found
    assert (again.solves, again.reused > 0) == (0, True)
    assert not NodeCosts(ARCH, LATENCY, tmp_path / "nodes.db", version="2").cost(TIED).is_solved


def test_bounds_are_kept_in_the_file(tmp_path, monkeypatch):
    """Another search has them at once: neither those of the PEs' arrangements nor those of tiles are computed again."""
    first = NodeCosts(ARCH, LATENCY, tmp_path / "nodes.db", "1")
    raised, other = first.raise_bound(FREE), NodeProblem(layer=ConvWorkload(P=4, C=6, K=4), layouts=(1, 0))
    refined = first.refine_tied(other)
    first.close()
    for name in ("tile_lower_bound", "layer_lower_bound"):
        monkeypatch.setattr(f"cpsat_pim.planner.nodes.bounds.{name}", None)
    again = NodeCosts(ARCH, LATENCY, tmp_path / "nodes.db", "1")
    assert again.cost(other) == again.refine_tied(other) == refined
    assert again.cost(FREE).is_spatial
    assert not again.cost(FREE).is_refined
    assert again.cost(FREE).least == again.cost(TIED).least == raised.least
    assert again.cost(other.relaxation).least <= refined.least


def test_file_that_is_no_store_is_refused(tmp_path):
    """One line that names the file."""
    path = tmp_path / "nodes.db"
    path.write_text("not a database, but long enough to be taken for one" * 40)
    with pytest.raises(ValueError, match=r"nodes.db: cannot be used to store node problems"):
        NodeCosts(ARCH, LATENCY, path)


@pytest.mark.slow
def test_processes_find_the_same():
    """Two problems in two processes, which end with the costs."""
    costs = NodeCosts(ARCH, LATENCY, jobs=2)
    other = NodeProblem(layer=ConvWorkload(name="b", P=4, Q=4, C=4, K=2))
    try:
        costs.solve_all([FREE, other])
    finally:
        costs.close()
    assert costs.cost(FREE).value == optimum().cost
    assert costs.cost(other).is_proven


def test_padded_problem_costs_what_the_padded_solve_says(tmp_path):
    """17 outputs in a row may be 18: bound and optimum are those of the mapper over both, and the file keeps them."""
    awkward, energy = ConvWorkload(name="a", P=17, C=2, K=2), Objective.named("energy")
    costs = NodeCosts(ARCH, energy, store=tmp_path / "nodes.db", padding=0.1)
    found = costs.solve(NodeProblem(layer=awkward))
    request = SolveRequest(objective=energy, padding=0.1, then=None)
    solved = solve_and_verify(awkward, ARCH, request)
    assert (found.least, found.value) == (solved.lower_bound, solved.cost)
    assert found.least <= NodeCosts(ARCH, energy, store=tmp_path / "nodes.db").solve(NodeProblem(layer=awkward)).least
    again = NodeCosts(ARCH, energy, store=tmp_path / "nodes.db", padding=0.1)
    assert again.cost(NodeProblem(layer=awkward)) == found


def solve_and_die(store):
    """Solve the problem with the file, and be killed at once."""
    NodeCosts(ARCH, LATENCY, store).solve(FREE)
    os.kill(os.getpid(), signal.SIGKILL)


def test_killed_search_loses_no_solved_problem(tmp_path):
    """The file of one that was killed has the optimum."""
    store = tmp_path / "nodes.db"
    process = get_context("spawn").Process(target=solve_and_die, args=(store,))
    process.start()
    process.join(240)
    assert process.exitcode == -signal.SIGKILL
    costs = NodeCosts(ARCH, LATENCY, store)
    found = costs.cost(FREE)
    assert (costs.reused, costs.solves) == (1, 0)
    assert found.is_proven
    assert found.value == optimum().cost
