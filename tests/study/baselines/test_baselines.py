"""Every baseline maps whatever can be mapped, legally and at its exact cost; heuristics are what they are called."""

import itertools
import math

import attrs
import numpy as np
import pytest

from cpsat_pim.arch import PIMArchitecture
from cpsat_pim.arch.reading import read_arch
from cpsat_pim.base.dims import Dim
from cpsat_pim.evaluate.cost import predict
from cpsat_pim.mapper.result import Objective
from cpsat_pim.mapping.check import check_mapping
from cpsat_pim.mapping.dataflow import classify_dataflow
from cpsat_pim.study.baselines.catalogue import BASELINES, run_baseline
from cpsat_pim.study.baselines.draft import DRAM, GLOBAL_BUFFER, Draft
from cpsat_pim.study.baselines.heuristics import map_by_largest_tiles
from cpsat_pim.study.baselines.problem import Problem
from cpsat_pim.study.baselines.search import STARTS, Effort, draw_mappings, map_at_random, map_by_annealing
from cpsat_pim.study.baselines.seeds import Estimate
from cpsat_pim.study.fuzz.draw import Drawer
from cpsat_pim.workload import ConvWorkload
from tables.factors import primes_of

SEEDS = range(6)
CONV = ConvWorkload(R=3, S=3, P=8, Q=8, C=16, K=32)


def drawn_problem(seed: int) -> Problem:
    """A random layer on a random machine, any objective."""
    draw = Drawer.of(np.random.default_rng([11, seed]))
    return Problem(layer=draw.layer(1500), arch=draw.machine(), objective=draw.objective())


@pytest.mark.parametrize("name", BASELINES)
@pytest.mark.parametrize("seed", SEEDS)
def test_mapping_is_legal_and_costs_what_it_is_said_to(name: str, seed: int) -> None:
    """None only where there is none."""
    problem = drawn_problem(seed)
    best = run_baseline(name, problem, Effort(samples=15)).best
    assert (best is None) == problem.space.is_empty
    if best is not None:
        assert check_mapping(problem.layer, problem.arch, best.mapping) == []
        figures = predict(problem.layer, problem.arch, best.mapping).figures
        assert best.value == problem.objective.value(figures.latency_cycles, figures.energy_fj)


@pytest.mark.parametrize(("name", "flow"), [("ws", "WS"), ("os", "OS"), ("is", "IS"), ("rs", "RS")])
@pytest.mark.parametrize("kind", ["energy", "latency", "blended"])
def test_dataflow_is_of_its_class(name: str, flow: str, kind: str) -> None:
    """By the rules of `cpsat_pim.mapping.dataflow`, whatever is to be least."""
    problem = Problem(layer=CONV, arch=PIMArchitecture(), objective=Objective.named(kind))
    best = run_baseline(name, problem, Effort()).best
    assert best is not None
    assert classify_dataflow(best.mapping) == flow


def test_largest_tiles_leave_nothing_that_fits() -> None:
    """No loop that is left at the DRAM could give a prime to the global buffer."""
    layer = attrs.evolve(CONV, P=28, Q=28, C=128, K=128)
    problem = Problem(layer=layer, arch=PIMArchitecture(), objective=Objective.named("energy"))
    best = map_by_largest_tiles(problem)
    assert best is not None
    draft = Draft.of(best.mapping, layer)
    left = [(d, prime) for d in Dim for prime in primes_of(draft.factors[DRAM][d])]
    assert left
    assert not any(problem.space.is_legal(draft.moved(d, prime, DRAM, GLOBAL_BUFFER)) for d, prime in left)


@pytest.mark.parametrize("seed", SEEDS)
def test_more_samples_are_never_worse(seed: int) -> None:
    """The first ones are the same."""
    problem = drawn_problem(seed)
    found = [map_at_random(problem, Effort(samples=n, seed=seed)) for n in (1, 4, 16, 64)]
    values = [best.value for best in found if best is not None]
    assert values == sorted(values, reverse=True)


@pytest.mark.parametrize("seed", SEEDS)
def test_annealing_is_never_worse_than_its_start(seed: int) -> None:
    """Which is the best of its first samples."""
    problem, effort = drawn_problem(seed), Effort(samples=60, seed=seed)
    start, best = map_at_random(problem, effort.share(STARTS)), map_by_annealing(problem, effort)
    assert (start is None) == (best is None)
    assert start is None or best is None or best.value <= start.value


def test_searches_depend_on_the_seed_only() -> None:
    """The same twice, something else with another."""
    problem = Problem(layer=CONV, arch=PIMArchitecture(), objective=Objective.named("energy"))
    for search in (map_at_random, map_by_annealing):
        one, again, other = (search(problem, Effort(samples=30, seed=seed)) for seed in (1, 1, 2))
        assert one == again
        assert one != other


@pytest.mark.parametrize("seed", SEEDS)
def test_floor_is_never_above_the_cost(seed: int) -> None:
    """Of any legal mapping and for any objective: what is left uncounted for its floor could not have been better."""
    problem = drawn_problem(seed)
    for kind in ("latency", "energy", "blended"):
        judged = attrs.evolve(problem, objective=Objective.named(kind))
        for mapping in draw_mappings(judged, Effort(samples=15, seed=seed)):
            assert judged.lower_bound(mapping) <= judged.score(mapping).value


def test_cheapest_are_those_that_counting_all_finds() -> None:
    """In order."""
    problem = Problem(layer=CONV, arch=PIMArchitecture(), objective=Objective.named("latency"))
    mappings = draw_mappings(problem, Effort(samples=40))
    values = sorted(problem.score(mapping).value for mapping in mappings)
    assert [cost for cost, _ in problem.cheapest(mappings, 5)] == values[:5]


def test_estimated_energy_is_exact_where_rows_cost_nothing() -> None:
    """Then it is a function of the access counts alone, which are exact."""
    arch = read_arch("prover-comparison")
    problem = Problem(layer=CONV, arch=arch, objective=Objective.named("energy"))
    for mapping, estimator in itertools.product(
        draw_mappings(problem, Effort(samples=5)), ("pim_dls", "pim_optimizer")
    ):
        estimate = Estimate(problem=problem, estimator=estimator).value(mapping)
        assert math.isclose(estimate, problem.score(mapping).value)


def test_estimated_latency_of_a_plain_mapping_by_hand() -> None:
    """C=4, all loops at the DRAM, bytes; row of 1024 B, column of 32 B in 4 cycles.

    No buffer holds anything: 4 steps of compute; each of I and W is read 4 times, O is written 4 and read 3 times. O is
    slowest: 7 B take 7/32 * 4 cycles, and Eq. 24 says 1 activation of 14 + 5 + 14 - 4 cycles.
    """
    layer = ConvWorkload(C=4)
    problem = Problem(layer=layer, arch=PIMArchitecture(), objective=Objective.named("latency"))
    mapping = problem.space.plain(((False,) * 3,) * 3).to_mapping(layer)
    estimate = Estimate(problem=problem, estimator="pim_optimizer").value(mapping)
    assert math.isclose(estimate, 7 / 32 * 4 + 29)
