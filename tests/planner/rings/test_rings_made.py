"""Tours and constructions."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cpsat_pim.planner.rings import Instance, Mask, Mesh, masked_instance
from cpsat_pim.planner.rings.annealing import Annealing, anneal
from cpsat_pim.planner.rings.constructions import constructed_rings
from cpsat_pim.planner.rings.tours import forward_tours, grid_of
from tests.planner.rings.cases import instances, masks
from tracesim.rings import covers, heaviest_load


@given(st.integers(2, 7), st.integers(2, 7))
def test_combs_are_closed_tours_of_neighbours(rows: int, cols: int) -> None:
    """Every node once; all moves lead to a neighbour, but one of two links where both sides are odd."""
    grid = np.arange(rows * cols).reshape(rows, cols)
    tours = list(forward_tours(grid))
    assert tours
    for tour in tours:
        assert sorted(tour) == list(range(rows * cols))
        moves = [
            abs(a // cols - b // cols) + abs(a % cols - b % cols)
            for a, b in zip(tour, tour[1:] + tour[:1], strict=True)
        ]
        assert sorted(moves) == [1] * (rows * cols - 1) + [2 if rows % 2 and cols % 2 else 1]


@given(st.integers(2, 7), st.integers(2, 7))
def test_a_comb_over_a_whole_mesh_has_load_one(rows: int, cols: int) -> None:
    """Also on odd sides; no ring has less."""
    mesh = Mesh(rows=rows, cols=cols)
    rings = constructed_rings(Instance(mesh=mesh, sets=[range(mesh.nodes)]))
    assert heaviest_load(cols, rings) == 1


def test_a_set_that_is_no_product_is_no_grid() -> None:
    """Three corners of a square."""
    assert grid_of(Mesh(rows=2, cols=2), (0, 1, 2)) is None


@given(masks())
def test_constructions_visit_all_sets_of_masks(case: tuple[Mesh, Mask]) -> None:
    """Each ring its own set."""
    instance = masked_instance(*case)
    assert covers(instance.sets, constructed_rings(instance))


@given(instances())
def test_constructions_visit_any_sets(instance: Instance) -> None:
    """Sets that are no grids, too."""
    assert covers(instance.sets, constructed_rings(instance))


@given(instances(), st.integers(1, 4), st.integers(0, 9))
def test_annealed_rings_keep_the_target(instance: Instance, target: int, seed: int) -> None:
    """What is found visits all sets and is not above the target; the same seed finds the same."""
    start = constructed_rings(instance)
    found = anneal(instance.mesh, start, target, Annealing(moves=2000), seed)
    assert found == anneal(instance.mesh, start, target, Annealing(moves=2000), seed)
    if found is not None:
        assert covers(instance.sets, found)
        assert heaviest_load(instance.mesh.cols, found) <= target


def test_annealing_finds_what_combs_do_not() -> None:
    """4x8 with the free digits 11x100: combs load a link twice, and once is possible."""
    instance = masked_instance(Mesh(rows=8, cols=8), Mask(rows=0b100, cols=0b011))
    start = constructed_rings(instance)
    assert heaviest_load(8, start) == 2
    found = anneal(instance.mesh, start, 1, Annealing(), 0)
    assert found is not None
    assert heaviest_load(8, found) == 1


@pytest.mark.parametrize("target", [1, 2])
def test_the_kernel_does_what_its_source_says(target: int) -> None:
    """Compiled and interpreted, the search of a small instance ends with the same excess of the same rings."""
    from cpsat_pim.planner.rings import annealing
    from cpsat_pim.planner.rings.routes import link_blocks, link_loads

    mesh = Mesh(rows=4, cols=4)
    sets = [[0, 5, 10, 15], [3, 6, 9, 12]]
    results = []
    for search in (annealing._search, annealing._search.py_func):
        order, starts = np.array(sets).ravel(), np.array([0, 4, 8])
        loads, blocks = link_loads(mesh, sets), np.array(link_blocks(mesh)[:4])
        excess = search(order, starts, loads, blocks, 4, target, 300, (1.0, 0.1), 4, 7)
        rings = order.reshape(2, 4).tolist()
        assert loads.tolist() == link_loads(mesh, rings).tolist()
        assert excess == np.maximum(loads - target, 0).sum()
        results.append((excess, rings))
    if target == 2:  # NumPy and numba draw alike from the same seed
        assert results[0] == results[1]
