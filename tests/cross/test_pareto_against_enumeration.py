"""For a tiny layer the front is what is undominated in the whole space, found by trying every mapping."""

import pytest

from cpsat_pim.cost import predict
from cpsat_pim.pareto import LayerSolves, front, least_edp
from cpsat_pim.workload import ConvWorkload
from tests.cross.test_solver_against_enumeration import every_mapping, machine

LAYER, ARCH = ConvWorkload(C=4, K=4), machine("O!", "IWO!", "")


@pytest.fixture(scope="module")
def costs() -> set[tuple[int, int]]:
    """Predicted latency and energy of every mapping."""
    figures = (predict(LAYER, ARCH, mapping).figures for mapping in every_mapping(LAYER, ARCH))
    return {(f.latency_cycles, f.energy_fj) for f in figures}


def test_front_is_that_of_the_whole_space(costs: set[tuple[int, int]]) -> None:
    """Complete; each point is simulated, too, and has its own cost."""
    found = front(LayerSolves(LAYER, ARCH, time_limit=30))
    undominated = {p for p in costs if not any(q != p and q[0] <= p[0] and q[1] <= p[1] for q in costs)}
    assert len(undominated) > 2
    assert [(point.cycles, point.fj) for point in found.points] == sorted(undominated)
    assert found.is_complete
    assert all(point.solved.simulated.energy_fj == point.fj for point in found.points if point.solved.simulated)


def test_least_product_is_that_of_the_whole_space(costs: set[tuple[int, int]]) -> None:
    """And is proven."""
    found = least_edp(LayerSolves(LAYER, ARCH, time_limit=30))
    least = min(cycles * fj for cycles, fj in costs)
    assert found.best is not None
    assert (found.best.edp, found.bound) == (least, least)
