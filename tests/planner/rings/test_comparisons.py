"""Baselines and the exchange in two phases."""

from collections import Counter
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cpsat_pim.planner.rings import Effort, Instance, Mask, Mesh, masked_instance, schedule_rings
from cpsat_pim.planner.rings.baselines import _draw, outcomes
from cpsat_pim.planner.rings.two_phase import one_phase, two_phase
from tracesim.rings import walk

SETS_APART = [(4, 1), (8, 2), (16, 4)]


def strided(side: int) -> Instance:
    """Figure 12 of NicePIM: sets of 16 nodes, side / 4 apart."""
    free = side - side // 4
    return masked_instance(Mesh(rows=side, cols=side), Mask(rows=free, cols=free))


@pytest.mark.parametrize(("side", "load"), SETS_APART)
def test_shortest_tours_load_links_with_all_sets_alike(side: int, load: int) -> None:
    """One tour in all sets: 1, 2, 4 chunks a step over 15 steps, since the tours of a row of sets overlap."""
    shared, mixed = outcomes(strided(side), "tsp", draws=5, seed=1)
    assert (shared.least, shared.greatest) == (15 * load, 15 * load)
    assert 15 <= mixed.least <= mixed.mean <= mixed.greatest <= shared.greatest


@pytest.mark.parametrize(("side", "load"), SETS_APART)
def test_shortest_paths_pass_as_few_hops_as_any(side: int, load: int) -> None:
    """Of 16 nodes on a grid of pitch side / 4 a path takes 15 moves to neighbours; 256 paths, or 16 on 4x4."""
    paths = (side // 4) ** 2 * 16
    for outcome in outcomes(strided(side), "shp", draws=2, seed=1):
        assert outcome.hops == paths * 15 * (side // 4)
        assert outcome.least >= outcome.hops / (4 * side * (side - 1))


@settings(max_examples=25, deadline=None)
@given(st.lists(st.integers(1, 5), min_size=10, max_size=10), st.booleans(), st.integers(0, 4))
def test_drawn_patterns_are_shortest(distances: list[int], is_closed: bool, start: int) -> None:
    """Among all orders of five nodes, whatever their distances."""
    length = np.zeros((5, 5), np.int64)
    length[np.triu_indices(5, 1)] = distances
    length += length.T
    orders = [(start, *rest) for rest in permutations(set(range(5)) - {start})]

    def total(order: tuple[int, ...]) -> int:
        ends = zip(order, order[1:] + order[:1] if is_closed else order[1:], strict=False)
        return sum(int(length[a, b]) for a, b in ends)

    drawn = _draw(length.tobytes(), 5, start, is_closed, np.random.default_rng(0))
    assert sorted(drawn) == list(range(5))
    assert drawn[0] == start
    assert total(tuple(drawn)) == min(map(total, orders))


def test_all_shortest_patterns_are_drawn_alike() -> None:
    """Four nodes, all one apart: 6 paths from the first; 600 draws give each about 100."""
    length = 1 - np.eye(4, dtype=np.int64)
    random = np.random.default_rng(3)
    seen = Counter(tuple(_draw(length.tobytes(), 4, 0, False, random)) for _ in range(600))
    assert len(seen) == 6
    assert min(seen.values()) > 60


def test_large_sets_have_no_exact_baseline() -> None:
    """Held and Karp's table doubles with each node."""
    with pytest.raises(ValueError, match="up to 16 nodes \\(got a set of 64\\)"):
        outcomes(masked_instance(Mesh(rows=8, cols=8), Mask(rows=7, cols=7)), "tsp", draws=1, seed=0)


# --- Two phases --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_rows_first", [True, False])
@pytest.mark.parametrize("side", [4, 8])
def test_two_phases_bring_every_chunk_in_six_steps(side: int, is_rows_first: bool) -> None:
    """Walked here: chunks along lines one way, then all of them along lines the other way; loads as claimed."""
    instance = strided(side)
    exchange = two_phase(instance, Effort(), is_rows_first=is_rows_first)
    assert exchange is not None
    assert exchange.steps == 6
    held = {node: {node} for nodes in instance.sets for node in nodes}
    times = 0
    for phase in exchange.phases:
        rings = phase.schedule.rings
        newest = {node: set(held[node]) for node in held}
        for _ in range(phase.schedule.instance.steps):
            pairs = [(ring[i - 1], ring[i]) for ring in rings for i in range(len(ring))]
            used = Counter(link for a, b in pairs for link in walk(side, a, b) for _ in newest[a])
            times += max(used.values())
            newest = {b: newest[a] for a, b in pairs}
            for node, chunks in newest.items():
                held[node] |= chunks
    assert all(held[node] == set(nodes) for nodes in instance.sets for node in nodes)
    assert times == exchange.chunk_times


def test_few_steps_pay_for_small_data() -> None:
    """With one flit a chunk and 20 cycles to start a step, 6 steps beat 15; with 1000 flits they do not."""
    instance = strided(8)
    ring, phases = one_phase(schedule_rings(instance)), two_phase(instance, Effort())
    assert phases is not None
    assert phases.cycles(1, step_cycles=20) < ring.cycles(1, step_cycles=20)
    assert phases.cycles(1000) > ring.cycles(1000)


@pytest.mark.parametrize("sets", [[[0, 1, 2, 3]], [[0, 5]], [[0, 1, 4, 5], [2, 3]]])
def test_sets_without_two_dimensions_have_one_phase(sets: list[list[int]]) -> None:
    """A line, a diagonal, sets of different shapes."""
    assert two_phase(Instance(mesh=Mesh(rows=4, cols=4), sets=sets), Effort()) is None
